// tar: archives of files.
#include "tar.h"

#include <fnmatch.h>
#include <time.h>

struct tar_options tar_options;
int tar_status;

char tar_recursion[] = "--recursion", tar_no_recursion[] = "--no-recursion";

// A pattern matches a name or the end of one, and so what is below it.
static bool matches(const char *pattern, const char *name) {
    if (fnmatch(pattern, name, FNM_LEADING_DIR) == 0) return true;
    for (const char *at = name; (at = strchr(at, '/')); at++) {
        if (at[1] && at[1] != '/' && fnmatch(pattern, at + 1, FNM_LEADING_DIR) == 0) return true;
    }
    return false;
}

bool tar_is_excluded(const char *name) {
    if (!tar_options.excluded.count) return false;
    char *bare = copy_text(name); // of a directory, without the slash at its end
    for (size_t len = strlen(bare); len > 1 && bare[len - 1] == '/'; len--) bare[len - 1] = '\0';
    bool is_excluded = false;
    for (size_t i = 0; i < tar_options.excluded.count && !is_excluded; i++) {
        is_excluded = matches(tar_options.excluded.at[i], bare);
    }
    free(bare);
    return is_excluded;
}

const char *tar_safe_name(const char *name) {
    static struct texts told; // the starts that were taken off
    const char *rest = name + strspn(name, "/");
    for (const char *part = rest; *part; part += strspn(part, "/")) {
        size_t len = strcspn(part, "/");
        bool leads_up = len == 2 && part[0] == '.' && part[1] == '.';
        part += len;
        if (leads_up) rest = part + strspn(part, "/");
    }
    size_t taken = rest - name;
    if (!taken) return *name ? name : ".";
    while (!*rest && taken > 1 && name[taken - 1] == '/') taken--;
    bool is_told = false;
    for (size_t i = 0; i < told.count && !is_told; i++) {
        is_told = strncmp(told.at[i], name, taken) == 0 && !told.at[i][taken];
    }
    if (!is_told) {
        char *start = copy_text(name);
        start[taken] = '\0';
        push(&told, start);
        warn("Removing leading `%s' from member names", start);
    }
    return *rest ? rest : ".";
}

void tar_print_name(const char *name, char type, unsigned mode, uint64_t size, int64_t time, const char *target, FILE *to) {
    if (mode != UINT32_MAX) {
        char text[11], when[32];
        text[0] = type == '5' ? 'd' : type == '2' ? 'l' : type == '1' ? 'h' : '-';
        for (int i = 0; i < 9; i++) text[1 + i] = mode >> (8 - i) & 1 ? "rwxrwxrwx"[i] : '-';
        text[10] = '\0';
        time_t seconds = time;
        struct tm *tm = gmtime(&seconds);
        when[tm ? strftime(when, sizeof when, "%Y-%m-%d %H:%M", tm) : 0] = '\0';
        int width = 19 - (int)strlen("root/root") - 1;
        fprintf(to, "%s root/root %*llu %s ", text, width, (unsigned long long)size, when);
    }
    // As GNU shows them: what is no plain character is escaped.
    for (; *name; name++) {
        if (*name == '\n') fputs("\\n", to);
        else if (*name == '\t') fputs("\\t", to);
        else if (*name == '\\') fputs("\\\\", to);
        else if (*name & 0x80) fprintf(to, "\\%03o", (unsigned char)*name);
        else putc(*name, to);
    }
    if (mode != UINT32_MAX && type == '2') fprintf(to, " -> %s", target);
    if (mode != UINT32_MAX && type == '1') fprintf(to, " link to %s", target);
    putc('\n', to);
}

static void add_names(struct texts *names, const char *path) {
    struct bytes text;
    if (!read_whole(path, &text)) exit(trouble);
    for (char *at = text.at; *at;) {
        char *end = strchrnul(at, '\n');
        char *name = strndup(at, end - at);
        if (!name) die("out of memory");
        if (*name) push(names, name);
        at = *end ? end + 1 : end;
    }
    free(text.at);
}

// The letters of `tar xzf`, which need no dash.
static char **with_dash(int *argc, char **argv) {
    if (*argc < 2 || argv[1][0] == '-' || !argv[1][0]) return argv;
    struct texts words = {0};
    push(&words, argv[0]);
    int next = 2;
    for (const char *letter = argv[1]; *letter; letter++) {
        char text[3] = {'-', *letter, '\0'};
        push(&words, copy_text(text));
        if (strchr("fCTXb", *letter) && next < *argc) push(&words, argv[next++]);
    }
    for (; next < *argc; next++) push(&words, argv[next]);
    *argc = (int)words.count;
    return words.at;
}

enum { EXCLUDE = 256, STRIP, MODE, FORMAT, RECURSION, NO_RECURSION, KEEP_DIR_LINKS, IGNORED, IGNORED_ARGUMENT };

static const struct option options[] = {
    {"create", no_argument, NULL, 'c'}, {"extract", no_argument, NULL, 'x'}, {"get", no_argument, NULL, 'x'},
    {"list", no_argument, NULL, 't'}, {"file", required_argument, NULL, 'f'}, {"verbose", no_argument, NULL, 'v'},
    {"gzip", no_argument, NULL, 'z'}, {"gunzip", no_argument, NULL, 'z'}, {"directory", required_argument, NULL, 'C'},
    {"exclude", required_argument, NULL, EXCLUDE}, {"strip-components", required_argument, NULL, STRIP},
    {"to-stdout", no_argument, NULL, 'O'}, {"keep-old-files", no_argument, NULL, 'k'}, {"touch", no_argument, NULL, 'm'},
    {"files-from", required_argument, NULL, 'T'}, {"exclude-from", required_argument, NULL, 'X'},
    {"dereference", no_argument, NULL, 'h'}, {"auto-compress", no_argument, NULL, 'a'}, {"no-same-owner", no_argument, NULL, IGNORED},
    {"preserve-permissions", no_argument, NULL, 'p'}, {"same-permissions", no_argument, NULL, 'p'},
    {"no-same-permissions", no_argument, NULL, IGNORED}, {"numeric-owner", no_argument, NULL, IGNORED},
    {"owner", required_argument, NULL, IGNORED_ARGUMENT}, {"group", required_argument, NULL, IGNORED_ARGUMENT},
    {"mode", required_argument, NULL, MODE}, {"format", required_argument, NULL, FORMAT},
    {"sort", required_argument, NULL, IGNORED_ARGUMENT}, {"recursion", no_argument, NULL, RECURSION},
    {"no-recursion", no_argument, NULL, NO_RECURSION}, {"keep-directory-symlink", no_argument, NULL, KEEP_DIR_LINKS},
    {"absolute-names", no_argument, NULL, 'P'}, {0}};

// What is written is that of GNU, which all that ask for one of these can read.
static void check_format(const char *name) {
    static const char *const known[] = {"gnu", "oldgnu", "pax", "posix", "ustar", "v7"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(name, known[i]) == 0) return;
    }
    die("'%s': Invalid archive format", name);
}

static void check_mode(const char *text) {
    unsigned mode = 0;
    if (!parse_mode(text, &mode, false)) die("Invalid mode given on option");
    tar_options.mode = text;
}

// Goes where -C says, and notes what is wanted of an archive.
static void note_members(const struct texts *names) {
    tar_options.members = grow(NULL, (names->count + 1) * sizeof *tar_options.members);
    tar_options.with_inner = grow(NULL, names->count + 1);
    bool recurses = true;
    for (size_t i = 0; i < names->count; i++) {
        char *name = names->at[i];
        if (name == tar_recursion || name == tar_no_recursion) {
            recurses = name == tar_recursion;
        } else if (strcmp(name, "-C") || i + 1 == names->count) {
            tar_options.with_inner[tar_options.member_count] = recurses;
            tar_options.members[tar_options.member_count++] = name;
        } else if (chdir(names->at[++i])) {
            die("%s: Cannot open: %s", names->at[i], strerror(errno));
        }
    }
}

int tool_tar(int argc, char **argv) {
    trouble = 2;
    char mode = 0;
    const char *archive = "-";
    struct texts names = {0};
    bool guesses = false, has_names = false;
    argv = with_dash(&argc, argv);
    for (int option; (option = getopt_long(argc, argv, "-cxtf:vzC:Okmphb:oT:X:aPS", options, NULL)) != -1;) {
        switch (option) {
            case 'c': case 'x': case 't':
                if (mode && mode != option) die("You may not specify more than one '-Acdtrux', '--delete' or  '--test-label' option");
                mode = option;
                break;
            case 'f': archive = optarg; break;
            case 'v': tar_options.verbose = true; break;
            case 'z': tar_options.compresses = true; break;
            case 'a': guesses = true; break;
            // Where names come from is part of their order.
            case 'C': push(&names, "-C"); push(&names, optarg); break;
            case 'O': tar_options.to_stdout = true; break;
            case 'k': tar_options.keeps_old = true; break;
            case 'm': tar_options.no_times = true; break;
            case 'h': tar_options.follows = true; break;
            case 'T': add_names(&names, optarg); has_names = true; break;
            case 'X': add_names(&tar_options.excluded, optarg); break;
            case EXCLUDE: push(&tar_options.excluded, optarg); break;
            case STRIP: tar_options.strip = (int)(parse_count(optarg, "number of elements") & 0xffff); break;
            case MODE: check_mode(optarg); break;
            case FORMAT: check_format(optarg); break;
            case RECURSION: push(&names, tar_recursion); break;
            case NO_RECURSION: push(&names, tar_no_recursion); break;
            case KEEP_DIR_LINKS: tar_options.keeps_dir_links = true; break;
            case 'P': tar_options.keeps_names = true; break;
            case 1: push(&names, optarg); has_names = true; break;
            case 'p': case 'b': case 'o': case 'S': case IGNORED: case IGNORED_ARGUMENT: break;
            default: die_usage();
        }
    }
    for (; optind < argc; optind++, has_names = true) push(&names, argv[optind]);
    if (!mode) die("You must specify one of the '-Acdtrux', '--delete' or '--test-label' options");
    size_t len = strlen(archive);
    if (guesses && len > 3 && (!strcmp(archive + len - 3, ".gz") || !strcmp(archive + len - 3, "tgz"))) tar_options.compresses = true;
    bool is_standard = strcmp(archive, "-") == 0;
    if (mode == 'c') {
        if (!has_names) die("Cowardly refusing to create an empty archive");
        FILE *file = is_standard ? stdout : fopen(archive, "w");
        if (!file) die("%s: Cannot open: %s", archive, strerror(errno));
        tar_create(file, names.at, (int)names.count, is_standard ? NULL : archive);
        if (ferror(file) | (is_standard ? fflush(file) : fclose(file))) die("%s: Cannot write: %s", archive, strerror(errno));
    } else {
        FILE *file = is_standard ? stdin : fopen(archive, "r");
        if (!file) die("%s: Cannot open: %s", archive, strerror(errno));
        note_members(&names);
        tar_read(file, mode == 'x');
        if (!is_standard) fclose(file);
    }
    if (tar_status) warn("Exiting with failure status due to previous errors");
    return tar_status;
}

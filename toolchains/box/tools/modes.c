// chmod, install, stat: what is known of files. Of permissions there is one, to be executed, and it is everybody's.
#include "../box.h"

#include <fcntl.h>
#include <time.h>

#if defined(__wasi__) && !defined(BOX_WITHOUT_EXECUTABLE_BITS)
#include <wasi/libc-find-relpath.h>

// Functions of the module `belljar`; see docs/guest-abi.md.
#define BELLJAR_IMPORT(name) __attribute__((__import_module__("belljar"), __import_name__(#name)))
BELLJAR_IMPORT(path_executable_set)
int32_t belljar_path_executable_set(int32_t dir, int32_t flags, const char *path, int32_t len, int32_t executable);
BELLJAR_IMPORT(path_executable_get)
int32_t belljar_path_executable_get(int32_t dir, int32_t flags, const char *path, int32_t len, int32_t *executable);

bool get_executable(const char *path, bool follow) {
    const char *prefix;
    char *rest = NULL;
    size_t size = 0;
    int32_t dir = __wasilibc_find_relpath_alloc(path, &prefix, &rest, &size, 1), executable = 0;
    if (dir < 0) return false;
    return belljar_path_executable_get(dir, follow, rest, strlen(rest), &executable) == 0 && executable;
}

int set_executable(const char *path, bool executable) {
    const char *prefix;
    char *rest = NULL;
    size_t size = 0;
    int32_t dir = __wasilibc_find_relpath_alloc(path, &prefix, &rest, &size, 1);
    if (dir < 0) return -1;
    int32_t error = belljar_path_executable_set(dir, 1, rest, strlen(rest), executable);
    errno = error;
    return error ? -1 : 0;
}
#else
bool get_executable(const char *path, bool follow) {
    struct stat stat_;
    return (follow ? stat : lstat)(path, &stat_) == 0 && stat_.st_mode & 0111;
}

int set_executable(const char *path, bool executable) {
#ifdef __wasi__
    (void)path;
    (void)executable;
    return 0;
#else
    return chmod(path, executable ? 0755 : 0644);
#endif
}
#endif

unsigned mode_of(const char *path, const struct stat *stat_) {
    if (S_ISDIR(stat_->st_mode)) return 0755;
    if (S_ISLNK(stat_->st_mode)) return 0777;
    return S_ISREG(stat_->st_mode) && get_executable(path, true) ? 0755 : 0644;
}

// --- modes ---------------------------------------------------------------------------------------------------------------

// Moves behind one clause, as u+x or g=u,  and answers what the mode is then. False if it is none.
static bool apply_clause(const char **at, unsigned *mode, bool is_directory) {
    unsigned who = 0;
    const char *text = *at;
    for (; *text && strchr("ugoa", *text); text++) {
        who |= *text == 'u' ? 04700 : *text == 'g' ? 02070 : *text == 'o' ? 01007 : 07777;
    }
    // Without a who, the bits of the usual umask are left alone.
    unsigned mask = who ? who : 07755, reset = who ? who : 07777;
    if (!*text || !strchr("+-=", *text)) return false;
    while (*text && strchr("+-=", *text)) {
        char sign = *text++;
        unsigned bits = 0;
        if (*text && strchr("ugo", *text)) {
            unsigned from = *text == 'u' ? *mode >> 6 : *text == 'g' ? *mode >> 3 : *mode;
            bits = (from & 7) * 0111;
            text++;
        } else if (*text >= '0' && *text <= '7' && !who) {
            bits = (unsigned)strtoul(text, (char **)&text, 8) & 07777;
            mask = 07777;
        } else {
            for (; *text && strchr("rwxXst", *text); text++) {
                bool runs = *text == 'x' || (*text == 'X' && (is_directory || *mode & 0111));
                bits |= *text == 'r' ? 0444 : *text == 'w' ? 0222 : runs ? 0111 : *text == 's' ? 06000 : *text == 't' ? 01000 : 0;
            }
        }
        bits &= mask;
        if (sign == '=') *mode &= ~reset;
        *mode = sign == '-' ? *mode & ~bits : *mode | bits;
    }
    *at = text;
    return true;
}

bool parse_mode(const char *text, unsigned *mode, bool is_directory) {
    if (*text >= '0' && *text <= '7') {
        char *end;
        unsigned long value = strtoul(text, &end, 8);
        if (*end || value > 07777) return false;
        *mode = value;
        return true;
    }
    for (;; text++) {
        if (!apply_clause(&text, mode, is_directory)) return false;
        if (!*text) return true;
        if (*text != ',') return false;
    }
}

static void put_mode(unsigned mode, char text[10]) {
    static const char letters[] = "rwxrwxrwx";
    for (int i = 0; i < 9; i++) text[i] = mode >> (8 - i) & 1 ? letters[i] : '-';
    text[9] = '\0';
}

// --- chmod ---------------------------------------------------------------------------------------------------------------

static bool recursive, verbose, reports, quiet;

static int change_mode(const char *path, const char *wanted, bool is_operand) {
    struct stat stat_;
    if (lstat(path, &stat_) || (S_ISLNK(stat_.st_mode) && is_operand && stat(path, &stat_))) {
        return quiet ? 1 : warn("cannot access '%s': %s", path, strerror(errno));
    }
    // Links that are met in a tree stay what they are.
    if (S_ISLNK(stat_.st_mode)) return 0;
    unsigned before = mode_of(path, &stat_), mode = before;
    parse_mode(wanted, &mode, S_ISDIR(stat_.st_mode));
    int status = 0;
    bool executable = mode & 0111;
    if (S_ISREG(stat_.st_mode) && executable != ((before & 0111) != 0) && set_executable(path, executable)) {
        status = warn("changing permissions of '%s': %s", path, strerror(errno));
    }
    if (!status && (verbose || (reports && mode != before))) {
        char old_text[10], new_text[10];
        put_mode(before, old_text);
        put_mode(mode, new_text);
        if (mode == before) printf("mode of '%s' retained as %04o (%s)\n", path, mode, new_text);
        else printf("mode of '%s' changed from %04o (%s) to %04o (%s)\n", path, before, old_text, mode, new_text);
    }
    if (!recursive || !S_ISDIR(stat_.st_mode)) return status;
    struct texts names;
    if (!list_dir(path, &names)) return warn("cannot read directory '%s': %s", path, strerror(errno));
    for (size_t i = 0; i < names.count; i++) {
        char *inner = join(path, names.at[i]);
        status |= change_mode(inner, wanted, false);
        free(inner);
    }
    free_texts(&names);
    return status;
}

// Whether an argument that looks like options is a mode, as -x or -rwx.
static bool is_minus_mode(const char *text) {
    unsigned mode = 0;
    return text[0] == '-' && text[1] && strspn(text + 1, "rwxXst,+=-ugoa") == strlen(text + 1) && parse_mode(text, &mode, false);
}

int tool_chmod(int argc, char **argv) {
    static const struct option options[] = {{"recursive", no_argument, NULL, 'R'}, {"verbose", no_argument, NULL, 'v'},
                                            {"changes", no_argument, NULL, 'c'}, {"quiet", no_argument, NULL, 'f'},
                                            {"silent", no_argument, NULL, 'f'}, {"reference", required_argument, NULL, 'r'}, {0}};
    char *wanted = NULL, text[8];
    for (int i = 1; i < argc; i++) {
        if (!is_minus_mode(argv[i])) continue;
        wanted = argv[i];
        memmove(argv + i, argv + i + 1, (argc - i) * sizeof *argv);
        argc--;
        break;
    }
    for (int option; (option = getopt_long(argc, argv, "Rvcf", options, NULL)) != -1;) {
        struct stat stat_;
        switch (option) {
            case 'R': recursive = true; break;
            case 'v': verbose = true; break;
            case 'c': reports = true; break;
            case 'f': quiet = true; break;
            case 'r':
                if (stat(optarg, &stat_)) die("failed to get attributes of '%s': %s", optarg, strerror(errno));
                snprintf(text, sizeof text, "%o", mode_of(optarg, &stat_));
                wanted = text;
                break;
            default: die_usage();
        }
    }
    if (!wanted && optind < argc) wanted = argv[optind++];
    if (!wanted) die("missing operand");
    if (optind == argc) die("missing operand after '%s'", wanted);
    unsigned mode = 0;
    if (!parse_mode(wanted, &mode, false)) die("invalid mode: '%s'", wanted);
    int status = 0;
    for (; optind < argc; optind++) status |= change_mode(argv[optind], wanted, true);
    return status;
}

// --- install ---------------------------------------------------------------------------------------------------------------

static struct {
    unsigned mode;
    bool makes_parents, verbose, keeps_times, compares;
} installing;

static int make_parents_of(const char *path) {
    size_t len;
    char *dir = copy_text(path), *name = (char *)last_part(dir, &len);
    int status = 0;
    if (name > dir) {
        *name = '\0';
        while (name > dir + 1 && name[-1] == '/') *--name = '\0';
        status = make_dirs(dir);
    }
    free(dir);
    return status;
}

static int install_file(const char *from, const char *to) {
    struct stat source, target;
    if (stat(from, &source)) return warn("cannot stat '%s': %s", from, strerror(errno));
    if (S_ISDIR(source.st_mode)) return warn("omitting directory '%s'", from);
    if (installing.makes_parents && make_parents_of(to)) return 1;
    if (stat(to, &target) == 0) {
        if (S_ISDIR(target.st_mode)) return warn("cannot overwrite directory '%s' with non-directory", to);
        if (target.st_dev == source.st_dev && target.st_ino == source.st_ino) {
            return warn("'%s' and '%s' are the same file", from, to);
        }
    }
    if (was_just_made(to)) return refuse_overwriting(from, to);
    // What is there is replaced, not written into.
    unlink(to);
    struct copying how = {.preserve = installing.keeps_times};
    if (copy_path(from, to, &how)) return 1;
    bool executable = installing.mode & 0111;
    if (executable != get_executable(to, true) && set_executable(to, executable)) {
        return warn("cannot change permissions of '%s': %s", to, strerror(errno));
    }
    note_made(to);
    if (installing.verbose) printf("'%s' -> '%s'\n", from, to);
    return 0;
}

static int install_files(int count, char **operands, const char *dir, bool exact) {
    if (!count) die("missing file operand");
    if (!dir && count == 1) die("missing destination file operand after '%s'", operands[0]);
    const char *last = dir ? dir : operands[count - 1];
    if (dir && installing.makes_parents && make_dirs((char *)dir)) return 1;
    if (!dir && (exact || !is_dir(last))) {
        if (count > 2) die(exact ? "extra operand '%s'" : "target '%s' is not a directory", exact ? operands[2] : last);
        size_t len = strlen(last);
        if (len && last[len - 1] == '/' && !installing.makes_parents) {
            die("cannot create regular file '%s': Not a directory", last);
        }
        return install_file(operands[0], last);
    }
    if (!is_dir(last)) die("target '%s' is not a directory", last);
    int status = 0;
    for (int i = 0; i < (dir ? count : count - 1); i++) {
        char *to = into_dir(last, operands[i]);
        status |= install_file(operands[i], to);
        free(to);
    }
    return status;
}

int tool_install(int argc, char **argv) {
    static const struct option options[] = {{"directory", no_argument, NULL, 'd'}, {"mode", required_argument, NULL, 'm'},
                                            {"verbose", no_argument, NULL, 'v'}, {"target-directory", required_argument, NULL, 't'},
                                            {"preserve-timestamps", no_argument, NULL, 'p'}, {"strip", no_argument, NULL, 's'},
                                            {"owner", required_argument, NULL, 'o'}, {"group", required_argument, NULL, 'g'}, {0}};
    bool dirs = false, exact = false;
    const char *dir = NULL;
    installing.mode = 0755;
    for (int option; (option = getopt_long(argc, argv, "cCdDm:o:g:pst:Tv", options, NULL)) != -1;) {
        switch (option) {
            case 'd': dirs = true; break;
            case 'D': installing.makes_parents = true; break;
            case 'm':
                installing.mode = 0;
                if (!parse_mode(optarg, &installing.mode, false)) die("invalid mode '%s'", optarg);
                break;
            case 'p': installing.keeps_times = true; break;
            case 't': dir = optarg; break;
            case 'T': exact = true; break;
            case 'v': installing.verbose = true; break;
            // There are no users and nothing to strip, and all is copied.
            case 'c': case 'C': case 'o': case 'g': case 's': break;
            default: die_usage();
        }
    }
    if (!dirs) return install_files(argc - optind, argv + optind, dir, exact);
    if (optind == argc) die("missing file operand");
    int status = 0;
    for (; optind < argc; optind++) {
        bool was = is_dir(argv[optind]);
        int failed = make_dirs(argv[optind]);
        status |= failed;
        if (!failed && !was && installing.verbose) printf("install: creating directory '%s'\n", argv[optind]);
    }
    return status;
}

// --- stat ----------------------------------------------------------------------------------------------------------------

static const char *type_name(const struct stat *stat_) {
    mode_t mode = stat_->st_mode;
    return S_ISDIR(mode) ? "directory" : S_ISLNK(mode) ? "symbolic link" : S_ISCHR(mode) ? "character special file"
         : S_ISREG(mode) ? stat_->st_size ? "regular file" : "regular empty file" : "socket";
}

// With `digits` of a fraction, if it is a number.
static void append_time(struct bytes *to, struct timespec time, bool is_number, size_t digits) {
    char text[64];
    if (is_number) {
        size_t len = snprintf(text, sizeof text, "%lld.%09ld", (long long)time.tv_sec, (long)time.tv_nsec);
        text[digits ? len - 9 + (digits < 9 ? digits : 9) : len - 10] = '\0';
    } else {
        struct tm *tm = gmtime(&time.tv_sec);
        size_t len = tm ? strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", tm) : 0;
        snprintf(text + len, sizeof text - len, ".%09ld +0000", (long)time.tv_nsec);
    }
    append(to, text, strlen(text));
}

static void append_number(struct bytes *to, unsigned long long number, const char *format) {
    char text[32];
    snprintf(text, sizeof text, format, number);
    append(to, text, strlen(text));
}

static void append_name(struct bytes *to, const char *path, const struct stat *stat_, bool quotes) {
    char *target = quotes && S_ISLNK(stat_->st_mode) ? link_text(path) : NULL;
    if (quotes) append(to, "'", 1);
    append(to, path, strlen(path));
    if (quotes) append(to, "'", 1);
    if (!target) return;
    append(to, " -> '", 5);
    append(to, target, strlen(target));
    append(to, "'", 1);
    free(target);
}

static void append_field(struct bytes *to, char field, size_t digits, const char *path, const struct stat *stat_) {
    unsigned mode = mode_of(path, stat_), type = S_ISDIR(stat_->st_mode) ? 040000 : S_ISLNK(stat_->st_mode) ? 0120000 : 0100000;
    char text[12] = {S_ISDIR(stat_->st_mode) ? 'd' : S_ISLNK(stat_->st_mode) ? 'l' : S_ISCHR(stat_->st_mode) ? 'c' : '-'};
    switch (field) {
        case 'a': append_number(to, mode, "%llo"); break;
        case 'A':
            put_mode(mode, text + 1);
            append(to, text, 10);
            break;
        case 'b': append_number(to, (stat_->st_size + 511) / 512, "%llu"); break;
        case 'B': append(to, "512", 3); break;
        case 'd': append_number(to, stat_->st_dev, "%llu"); break;
        case 'D': append_number(to, stat_->st_dev, "%llx"); break;
        case 'f': append_number(to, type | mode, "%llx"); break;
        case 'F': append(to, type_name(stat_), strlen(type_name(stat_))); break;
        case 'g': case 'u': case 't': case 'T': append(to, "0", 1); break;
        case 'G': case 'U': append(to, "root", 4); break;
        case 'h': append_number(to, stat_->st_nlink, "%llu"); break;
        case 'i': append_number(to, stat_->st_ino, "%llu"); break;
        case 'm': append(to, "/", 1); break;
        case 'n': append_name(to, path, stat_, false); break;
        case 'N': append_name(to, path, stat_, true); break;
        case 'o': append(to, "4096", 4); break;
        case 's': append_number(to, stat_->st_size, "%llu"); break;
        case 'w': append(to, "-", 1); break;
        case 'W': append(to, "0", 1); break;
        case 'x': case 'X': append_time(to, stat_->st_atim, field == 'X', digits); break;
        case 'y': case 'Y': append_time(to, stat_->st_mtim, field == 'Y', digits); break;
        case 'z': case 'Z': append_time(to, stat_->st_ctim, field == 'Z', digits); break;
        default: append(to, "?", 1);
    }
}

static void print_fields(const char *format, const char *path, const struct stat *stat_, bool escapes) {
    for (const char *at = format; *at;) {
        if (escapes && *at == '\\' && at[1]) {
            at++;
            int c = unescape(&at, false);
            if (c >= 0) putchar(c);
        } else if (*at == '%' && at[1] == '%') {
            putchar('%');
            at += 2;
        } else if (*at == '%' && at[1]) {
            size_t flags = strspn(at + 1, "-0#+ ");
            char *end;
            long width = strtol(at + 1 + flags, &end, 10);
            const char *letter = end;
            size_t digits = 0;
            if (*letter == '.') {
                letter += 1 + strspn(letter + 1, "0123456789");
                digits = letter == end + 1 ? 9 : strtoul(end + 1, NULL, 10);
            }
            struct bytes text = {0};
            append(&text, "", 0);
            append_field(&text, *letter, digits, path, stat_);
            if (width < 0 || width > 1000) die("invalid width in format '%s'", format);
            bool left = memchr(at + 1, '-', flags), zeros = memchr(at + 1, '0', flags);
            for (long pad = width - (long)text.len; !left && pad > 0; pad--) putchar(zeros ? '0' : ' ');
            fwrite(text.at, 1, text.len, stdout);
            for (long pad = width - (long)text.len; left && pad > 0; pad--) putchar(' ');
            free(text.at);
            at = *letter ? letter + 1 : letter;
        } else {
            putchar(*at++);
        }
    }
}

int tool_stat(int argc, char **argv) {
    static const struct option options[] = {{"format", required_argument, NULL, 'c'}, {"printf", required_argument, NULL, 'p'},
                                            {"dereference", no_argument, NULL, 'L'}, {"terse", no_argument, NULL, 't'}, {0}};
    static const char usual[] = "  File: %N\n  Size: %-10s\tBlocks: %-10b IO Block: %-6o %F\n"
                                "Device: %d\tInode: %-11i Links: %h\nAccess: (%04a/%A)  Uid: (    0/    root)   Gid: (    0/    root)\n"
                                "Access: %x\nModify: %y\nChange: %z\n Birth: %w\n";
    const char *format = usual;
    bool escapes = false, follows = false;
    for (int option; (option = getopt_long(argc, argv, "c:Lt", options, NULL)) != -1;) {
        switch (option) {
            case 'c': format = optarg; escapes = false; break;
            case 'p': format = optarg; escapes = true; break;
            case 'L': follows = true; break;
            case 't': format = "%n %s %b %f %u %g %D %i %h %t %T %X %Y %Z %W %o"; break;
            default: die_usage();
        }
    }
    if (optind == argc) die("missing operand");
    int status = 0;
    for (; optind < argc; optind++) {
        struct stat stat_;
        const char *path = argv[optind];
        if ((follows ? stat : lstat)(path, &stat_)) {
            status = warn("cannot statx '%s': %s", path, strerror(errno));
            continue;
        }
        print_fields(format, path, &stat_, escapes);
        if (!escapes && format != usual) putchar('\n');
    }
    return status;
}

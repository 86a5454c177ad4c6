// mktemp, readlink, realpath, which: names of files.
#include "../box.h"

#include <fcntl.h>

// --- where a path leads ----------------------------------------------------------------------------------------------------

// What must be there of a path: all of it, all but its last part, or nothing.
enum need { NEED_ALL, NEED_DIR, NEED_NOTHING };

static char *current_dir(void) {
    for (size_t size = 256; size < 1 << 20; size *= 2) {
        char *path = grow(NULL, size);
        if (getcwd(path, size)) return path;
        free(path);
        if (errno != ERANGE) break;
    }
    die("cannot find the current directory: %s", strerror(errno));
}

static void drop_last(struct bytes *path) {
    while (path->len > 1 && path->at[path->len - 1] != '/') path->len--;
    if (path->len > 1) path->len--;
    path->at[path->len] = '\0';
}

// Puts `text` in front of the rest of a path.
static char *prepend(const char *text, const char *rest) {
    char *path = grow(NULL, strlen(text) + strlen(rest) + 2);
    sprintf(path, "%s%s%s", text, *rest && *rest != '/' ? "/" : "", rest);
    return path;
}

// The path without links, dots and doubled slashes; NULL with errno set.
static char *resolve(const char *path, enum need need, bool follows) {
    struct bytes made = {0};
    char *here = *path == '/' ? copy_text("/") : current_dir(), *rest = copy_text(path);
    append(&made, here, strlen(here));
    free(here);
    int links = 0;
    if (!*path) errno = ENOENT;
    bool failed = !*path;
    for (char *at = rest; !failed && *at;) {
        while (*at == '/') at++;
        size_t len = strcspn(at, "/");
        char *behind = at + len;
        if (!len) break;
        if (len == 1 && *at == '.') {
            at = behind;
            continue;
        }
        if (len == 2 && at[0] == '.' && at[1] == '.') {
            drop_last(&made);
            at = behind;
            continue;
        }
        size_t parent = made.len;
        if (made.at[made.len - 1] != '/') append(&made, "/", 1);
        append(&made, at, len);
        struct stat stat_;
        bool is_last = !behind[strspn(behind, "/")], is_there = lstat(made.at, &stat_) == 0;
        at = behind;
        if (is_there && follows && S_ISLNK(stat_.st_mode)) {
            bool is_loop = ++links > 40;
            // Where nothing needs to be there, a link that leads to itself is a name.
            if (is_loop && need == NEED_NOTHING) continue;
            char *target = is_loop ? NULL : link_text(made.at);
            if (is_loop) errno = ELOOP;
            failed = !target;
            if (failed) break;
            made.len = *target == '/' ? 1 : parent;
            made.at[made.len] = '\0';
            char *longer = prepend(target, at);
            free(target);
            free(rest);
            at = rest = longer;
        } else if (is_there && *behind && !S_ISDIR(stat_.st_mode) && need != NEED_NOTHING && follows) {
            errno = ENOTDIR;
            failed = true;
        } else if (!is_there && (need == NEED_ALL || (need == NEED_DIR && !is_last))) {
            failed = true;
        }
    }
    free(rest);
    if (!failed) return made.at;
    int error = errno;
    free(made.at);
    errno = error;
    return NULL;
}

int tool_readlink(int argc, char **argv) {
    static const struct option options[] = {{"canonicalize", no_argument, NULL, 'f'}, {"canonicalize-existing", no_argument, NULL, 'e'},
                                            {"canonicalize-missing", no_argument, NULL, 'm'}, {"no-newline", no_argument, NULL, 'n'},
                                            {"zero", no_argument, NULL, 'z'}, {0}};
    bool resolves = false, loud = false, bare = false;
    enum need need = NEED_DIR;
    char end = '\n';
    for (int option; (option = getopt_long(argc, argv, "femnqsvz", options, NULL)) != -1;) {
        switch (option) {
            case 'f': resolves = true; need = NEED_DIR; break;
            case 'e': resolves = true; need = NEED_ALL; break;
            case 'm': resolves = true; need = NEED_NOTHING; break;
            case 'n': bare = true; break;
            case 'v': loud = true; break;
            case 'q': case 's': loud = false; break;
            case 'z': end = '\0'; break;
            default: die_usage();
        }
    }
    if (optind == argc) die("missing operand");
    if (bare && argc - optind > 1) {
        warn("ignoring --no-newline with multiple arguments");
        bare = false;
    }
    int status = 0;
    for (; optind < argc; optind++) {
        char *text = resolves ? resolve(argv[optind], need, true) : link_text(argv[optind]);
        if (!text) {
            status = loud ? warn_path(argv[optind]) : 1;
            continue;
        }
        fputs(text, stdout);
        if (!bare) putchar(end);
        free(text);
    }
    return status;
}

// The path from the directory `from` to `to`, both resolved.
static char *relative_to(const char *from, const char *to) {
    size_t same = 0, i = 0;
    for (;; i++) {
        bool from_ends = !from[i] || from[i] == '/', to_ends = !to[i] || to[i] == '/';
        if (from_ends && to_ends) same = i;
        if (from[i] != to[i] || !from[i]) break;
    }
    if (!from[1]) same = 0;
    struct bytes path = {0};
    append(&path, "", 0);
    for (const char *at = from + same; *at; at++) {
        if (*at == '/' && at[1]) append(&path, path.len ? "/.." : "..", path.len ? 3 : 2);
    }
    const char *rest = to + same;
    while (*rest == '/') rest++;
    if (*rest && path.len) append(&path, "/", 1);
    append(&path, rest, strlen(rest));
    if (!path.len) append(&path, ".", 1);
    return path.at;
}

int tool_realpath(int argc, char **argv) {
    static const struct option options[] = {{"canonicalize-existing", no_argument, NULL, 'e'}, {"canonicalize-missing", no_argument, NULL, 'm'},
                                            {"no-symlinks", no_argument, NULL, 's'}, {"strip", no_argument, NULL, 's'},
                                            {"relative-to", required_argument, NULL, 'r'}, {"zero", no_argument, NULL, 'z'},
                                            {"quiet", no_argument, NULL, 'q'}, {"relative-base", required_argument, NULL, 'b'}, {0}};
    enum need need = NEED_DIR;
    bool follows = true, quiet = false;
    const char *dir = NULL, *base = NULL;
    char end = '\n';
    for (int option; (option = getopt_long(argc, argv, "emsqzLP", options, NULL)) != -1;) {
        switch (option) {
            case 'e': need = NEED_ALL; break;
            case 'm': need = NEED_NOTHING; break;
            case 's': follows = false; break;
            case 'q': quiet = true; break;
            case 'z': end = '\0'; break;
            case 'r': dir = optarg; break;
            case 'b': base = optarg; break;
            case 'L': case 'P': break;
            default: die_usage();
        }
    }
    if (optind == argc) die("missing operand");
    char *from = dir || base ? resolve(dir ? dir : base, need, follows) : NULL, *below = base ? resolve(base, need, follows) : NULL;
    if ((dir || base) && !from) die("%s: %s", dir ? dir : base, strerror(errno));
    int status = 0;
    for (; optind < argc; optind++) {
        char *path = resolve(argv[optind], need, follows);
        if (!path) {
            status = quiet ? 1 : warn_path(argv[optind]);
            continue;
        }
        size_t len = below ? strlen(below) : 0;
        bool is_below = !below || (strncmp(path, below, len) == 0 && (!path[len] || path[len] == '/' || len == 1));
        char *shown = from && is_below ? relative_to(from, path) : path;
        printf("%s%c", shown, end);
        if (shown != path) free(shown);
        free(path);
    }
    return status;
}

// --- mktemp --------------------------------------------------------------------------------------------------------------

int tool_mktemp(int argc, char **argv) {
    static const struct option options[] = {{"directory", no_argument, NULL, 'd'}, {"dry-run", no_argument, NULL, 'u'},
                                            {"quiet", no_argument, NULL, 'q'}, {"suffix", required_argument, NULL, 's'},
                                            {"tmpdir", optional_argument, NULL, 'T'}, {0}};
    bool makes_dir = false, dry = false, quiet = false, in_dir = false, takes_variable = false;
    const char *suffix = NULL, *dir = NULL;
    for (int option; (option = getopt_long(argc, argv, "duqp:t", options, NULL)) != -1;) {
        switch (option) {
            case 'd': makes_dir = true; break;
            case 'u': dry = true; break;
            case 'q': quiet = true; break;
            case 'p': case 'T': dir = optarg; in_dir = true; break;
            case 't': in_dir = takes_variable = true; break;
            case 's': suffix = optarg; break;
            default: die_usage();
        }
    }
    if (argc - optind > 1) die("too many templates");
    const char *template = optind < argc ? argv[optind] : "tmp.XXXXXXXXXX", *variable = getenv("TMPDIR");
    if (optind == argc) in_dir = true;
    if (takes_variable && strchr(template, '/')) die("invalid template, '%s', contains directory separator", template);
    if (in_dir && (!dir || !*dir || takes_variable)) dir = variable && *variable ? variable : dir && *dir ? dir : "/tmp";
    if (in_dir && *template == '/' && !takes_variable) die("invalid template, '%s'; with --tmpdir, it may not be absolute", template);
    const char *last = strrchr(template, 'X');
    size_t end = last ? (size_t)(last + 1 - template) : 0, start = end;
    while (start > 0 && template[start - 1] == 'X') start--;
    if (suffix && template[end]) die("with --suffix, template '%s' must end in X", template);
    if (end - start < 3) die("too few X's in template '%s'", template);
    struct bytes path = {0};
    if (in_dir) {
        append(&path, dir, strlen(dir));
        if (dir[strlen(dir) - 1] != '/') append(&path, "/", 1);
    }
    size_t first = path.len + start, count = end - start;
    append(&path, template, strlen(template));
    if (suffix) append(&path, suffix, strlen(suffix));
    for (int tries = 0; tries < 100; tries++) {
        static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
        for (size_t i = 0; i < count; i++) {
            unsigned char byte;
            if (getentropy(&byte, 1)) die("no random bytes: %s", strerror(errno));
            path.at[first + i] = letters[byte % (sizeof letters - 1)];
        }
        struct stat stat_;
        int made = dry ? lstat(path.at, &stat_) == 0 ? -1 : 0 : makes_dir ? mkdir(path.at, 0700) : open(path.at, O_RDWR | O_CREAT | O_EXCL, 0600);
        if (dry && made < 0) errno = EEXIST;
        if (made >= 0) {
            puts(path.at);
            return 0;
        }
        if (errno != EEXIST) break;
    }
    if (quiet) return 1;
    memset(path.at + first, 'X', count);
    return warn("failed to create %s via template '%s': %s", makes_dir ? "directory" : "file", path.at, strerror(errno));
}

// --- which ---------------------------------------------------------------------------------------------------------------

// The programs that need no directory are asked for in a shell, which knows them.
static bool is_program(char *name) {
    static const char script[] = "case $(type \"$0\" 2> /dev/null) in *builtin* | *keyword* | '') exit 1;; esac; command -v \"$0\"";
    char *argv[] = {"sh", "-c", (char *)script, name, NULL};
    return run_program(argv, -1) == 0;
}

static bool find_program(char *name, bool all) {
    struct stat stat_;
    if (strchr(name, '/')) {
        if (stat(name, &stat_) || !S_ISREG(stat_.st_mode)) return false;
        puts(name);
        return true;
    }
    bool found = false;
    const char *at = getenv("PATH");
    while (at && (all || !found)) {
        size_t len = strcspn(at, ":");
        char *dir = strndup(len ? at : ".", len ? len : 1);
        if (!dir) die("out of memory");
        char *path = join(dir, name);
        if (*at && stat(path, &stat_) == 0 && S_ISREG(stat_.st_mode)) {
            puts(path);
            found = true;
        }
        free(dir);
        free(path);
        at = at[len] ? at + len + 1 : NULL;
    }
    return found || is_program(name);
}

int tool_which(int argc, char **argv) {
    bool all = false;
    for (int option; (option = getopt_long(argc, argv, "a", (struct option[]){{0}}, NULL)) != -1;) {
        if (option == 'a') all = true;
        else die_usage();
    }
    int status = optind == argc;
    for (; optind < argc; optind++) status |= !find_program(argv[optind], all);
    return status;
}

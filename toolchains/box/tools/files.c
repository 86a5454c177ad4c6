// cp, ln, mkdir, mv, rm, rmdir: what changes the tree.
#include "../box.h"

#include <fcntl.h>

static bool same(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

// The directory of the last component `name` of `path`, without slashes at its end.
static char *dir_of(const char *path, const char *name) {
    size_t len = name - path;
    while (len > 1 && path[len - 1] == '/') len--;
    char *dir = len ? strndup(path, len) : strdup(".");
    if (!dir) die("out of memory");
    return dir;
}

// Whether two paths end in the same name of the same directory; with `lstat` as `look`, a link to it is another one.
static bool same_name(const char *a, const char *b, int (*look)(const char *, struct stat *)) {
    size_t a_len, b_len;
    const char *a_name = last_part(a, &a_len), *b_name = last_part(b, &b_len);
    if (a_len != b_len || strncmp(a_name, b_name, a_len) != 0) return false;
    char *a_dir = dir_of(a, a_name), *b_dir = dir_of(b, b_name);
    struct stat a_stat, b_stat;
    bool is_it = look(a_dir, &a_stat) == 0 && look(b_dir, &b_stat) == 0 && same(&a_stat, &b_stat);
    free(a_dir);
    free(b_dir);
    return is_it;
}

static int copy_times(const struct stat *from, const char *to) {
    struct timespec times[2] = {from->st_atim, from->st_mtim};
    // A file was written through the link that is there.
    int flags = S_ISLNK(from->st_mode) ? AT_SYMLINK_NOFOLLOW : 0;
    return utimensat(AT_FDCWD, to, times, flags) ? warn_path(to) : 0;
}

// Files that one command saw or made.
struct marks {
    struct mark {
        char *path;
        dev_t dev;
        ino_t ino;
    } *at;
    size_t count, room;
};

static void add_mark(struct marks *marks, const char *path, const struct stat *stat_) {
    if (marks->count == marks->room) {
        marks->room = 2 * marks->room + 16;
        marks->at = grow(marks->at, marks->room * sizeof *marks->at);
    }
    marks->at[marks->count++] = (struct mark){copy_text(path), stat_->st_dev, stat_->st_ino};
}

// The file alone is not enough: several names of it are several files to whoever made them.
static bool has_mark(const struct marks *marks, const char *path, const struct stat *stat_) {
    for (size_t i = 0; i < marks->count; i++) {
        const struct mark *mark = &marks->at[i];
        if (mark->ino == stat_->st_ino && mark->dev == stat_->st_dev && same_name(mark->path, path, stat)) return true;
    }
    return false;
}

static struct marks just_made, sources;

void note_made(const char *path) {
    struct stat stat_;
    if (lstat(path, &stat_) == 0 && !S_ISDIR(stat_.st_mode)) add_mark(&just_made, path, &stat_);
}

bool was_just_made(const char *path) {
    struct stat stat_;
    return just_made.count && lstat(path, &stat_) == 0 && has_mark(&just_made, path, &stat_);
}

int refuse_overwriting(const char *from, const char *to) {
    return warn("will not overwrite just-created '%s' with '%s'", to, from);
}

// `is_there` tells whether `to` is a file, which keeps its permissions unless these are copied.
static int copy_file(const char *from, const char *to, const struct copying *how, bool is_there) {
    int in = open(from, O_RDONLY);
    if (in < 0) return warn_path(from);
    int out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (out < 0 && how->force && unlink(to) == 0) {
        out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0666);
        is_there = false;
    }
    int status = out < 0 ? warn("cannot create regular file '%s': %s", to, strerror(errno)) : 0;
    static char block[1 << 16];
    ssize_t count = 0;
    while (!status && (count = read(in, block, sizeof block)) > 0) {
        for (ssize_t done = 0, more; done < count && !status; done += more) {
            more = write(out, block + done, count - done);
            if (more < 0) {
                status = warn_path(to);
                break;
            }
        }
    }
    if (count < 0) status = warn_path(from);
    close(in);
    if (out >= 0 && close(out) && !status) status = warn_path(to);
    if (!status && (how->preserve || !is_there)) {
        bool executable = get_executable(from, true);
        if (executable != get_executable(to, true) && set_executable(to, executable)) status = warn_path(to);
    }
    return status;
}

char *link_text(const char *path) {
    for (size_t size = 256;; size *= 2) {
        char *text = grow(NULL, size);
        ssize_t len = readlink(path, text, size);
        if (len >= 0 && len < (ssize_t)size) {
            text[len] = '\0';
            return text;
        }
        free(text);
        if (len < 0) return NULL;
    }
}

// Makes a link, by `symlink` or `link`, in the place of the entry `to`. That goes once the link is there: the path
// `to` may lead through it. Sets errno.
static int link_in_place(int (*make)(const char *, const char *), const char *from, const char *to) {
    size_t len;
    const char *name = last_part(to, &len);
    char *beside = grow(copy_text(to), name - to + sizeof ".ln999~");
    int status = -1, error = EEXIST;
    for (int number = 0; status && error == EEXIST && number < 1000; number++) {
        sprintf(beside + (name - to), ".ln%d~", number);
        status = make(from, beside);
        error = errno;
    }
    if (status == 0) {
        status = rename(beside, to);
        error = errno;
        // It is there still, too, if both are names of one file.
        unlink(beside);
    }
    free(beside);
    errno = error;
    return status;
}

static int copy_link(const char *from, const char *to) {
    char *text = link_text(from);
    if (!text) return warn_path(from);
    int status = symlink(text, to);
    if (status && errno == EEXIST) status = link_in_place(symlink, text, to);
    if (status) status = warn("cannot create symbolic link '%s': %s", to, strerror(errno));
    free(text);
    return status;
}

// `root` is the topmost directory that has been made, so that a tree is not copied into itself for ever.
static int copy_tree(const char *from, const char *to, const struct copying *how, const struct stat *root) {
    struct stat source, target, made;
    bool keeps_links = how->recursive || how->links;
    if ((keeps_links ? lstat : stat)(from, &source)) return warn("cannot stat '%s': %s", from, strerror(errno));
    bool is_link = S_ISLNK(source.st_mode);
    // A file is written through a link, and all else would take the place of the link.
    bool is_there = (S_ISREG(source.st_mode) ? stat : lstat)(to, &target) == 0;
    bool is_same = is_there && (is_link ? same_name(from, to, lstat) : same(&source, &target));
    // A link that took the place of the file that it leads to would be all that is left of it.
    if (is_there && is_link && !S_ISLNK(target.st_mode)) {
        is_same = stat(from, &made) == 0 && same(&made, &target);
    }
    if (is_same) {
        return warn("'%s' and '%s' are the same file", from, to);
    }
    // Two names of one link, as which it stays.
    if (is_there && is_link && same(&source, &target)) return 0;
    int status = 0;
    if (S_ISDIR(source.st_mode)) {
        if (!how->recursive) return warn("-r not specified; omitting directory '%s'", from);
        if (root && same(root, &source)) return warn("cannot copy a directory, '%s', into itself, '%s'", from, to);
        if (is_there && !S_ISDIR(target.st_mode)) {
            return warn("cannot overwrite non-directory '%s' with directory '%s'", to, from);
        }
        if (!is_there && mkdir(to, 0777)) return warn("cannot create directory '%s': %s", to, strerror(errno));
        if (!root) {
            if (stat(to, &made)) return warn_path(to);
            root = &made;
        }
        // Listed now, so that a directory that is copied into itself finds its copy.
        struct texts names;
        if (!list_dir(from, &names)) return warn_path(from);
        for (size_t i = 0; i < names.count; i++) {
            char *inner = join(from, names.at[i]), *inner_to = join(to, names.at[i]);
            status |= copy_tree(inner, inner_to, how, root);
            free(inner);
            free(inner_to);
        }
        free_texts(&names);
    } else if (is_there && S_ISDIR(target.st_mode)) {
        return warn("cannot overwrite directory '%s' with non-directory", to);
    } else if (is_link) {
        status = copy_link(from, to);
    } else if (!is_there && lstat(to, &target) == 0) {
        return warn("not writing through dangling symlink '%s'", to);
    } else {
        status = copy_file(from, to, how, is_there);
    }
    if (!status && how->preserve) status = copy_times(&source, to);
    if (!status && how->verbose) printf("'%s' -> '%s'\n", from, to);
    return status;
}

int copy_path(const char *from, const char *to, const struct copying *how) {
    return copy_tree(from, to, how, NULL);
}

// Calls `each` with the operands before the last and where each is to go, which is in the last if that is a directory.
// With `copies`, `..` goes into the directory itself: what it holds has no name to be put there under.
static int each_into(int count, char **operands, const char *dir, bool copies, int (*each)(const char *, const char *)) {
    if (!dir) {
        if (count < 1) die("missing file operand");
        if (count < 2) die("missing destination file operand after '%s'", operands[0]);
        const char *last = operands[--count];
        if (!is_dir(last)) {
            if (count > 1) die("target '%s' is not a directory", last);
            return each(operands[0], last);
        }
        dir = last;
    } else if (!is_dir(dir)) {
        die("target '%s' is not a directory", dir);
    }
    int status = 0;
    for (int i = 0; i < count; i++) {
        size_t len;
        const char *name = last_part(operands[i], &len);
        bool is_parent = copies && len == 2 && name[0] == '.' && name[1] == '.';
        char *to = is_parent ? copy_text(dir) : into_dir(dir, operands[i]);
        status |= each(operands[i], to);
        free(to);
    }
    return status;
}

static struct copying copying;
static bool no_clobber, forced, symbolic, no_dereference;

static int copy_one(const char *from, const char *to) {
    struct stat source, target;
    bool keeps_links = copying.recursive || copying.links;
    if ((keeps_links ? lstat : stat)(from, &source) == 0 && (copying.recursive || !S_ISDIR(source.st_mode))) {
        bool is_directory = S_ISDIR(source.st_mode);
        if (has_mark(&sources, from, &source)) {
            warn("warning: source %s '%s' specified more than once", is_directory ? "directory" : "file", from);
            return 0;
        }
        add_mark(&sources, from, &source);
        bool is_there = lstat(to, &target) == 0;
        if (no_clobber && is_there) return 0;
        if (is_there && !is_directory && was_just_made(to)) {
            bool is_through_link = S_ISREG(source.st_mode) && S_ISLNK(target.st_mode);
            if (!is_through_link) return refuse_overwriting(from, to);
            return warn("will not copy '%s' through just-created symlink '%s'", from, to);
        }
    }
    int status = copy_path(from, to, &copying);
    if (!status) note_made(to);
    return status;
}

int tool_cp(int argc, char **argv) {
    const char *dir = NULL;
    bool exact = false;
    for (int option; (option = getopt_long(argc, argv, "rRpfavPnt:T", (struct option[]){{0}}, NULL)) != -1;) {
        switch (option) {
            case 'a': copying.preserve = true; // fall through
            case 'r': case 'R': copying.recursive = true; break;
            case 'p': copying.preserve = true; break;
            case 'f': copying.force = true; break;
            case 'v': copying.verbose = true; break;
            case 'P': copying.links = true; break;
            case 'n': no_clobber = true; break;
            case 't': dir = optarg; break;
            case 'T': exact = true; break;
            default: die_usage();
        }
    }
    if (exact && argc - optind == 2) return copy_one(argv[optind], argv[optind + 1]);
    return each_into(argc - optind, argv + optind, dir, true, copy_one);
}

// Whether the link `from` leads to the name `to`, which would be lost if the link took its place.
static bool leads_to(const char *from, const char *to) {
    char *at = copy_text(from), *text;
    for (int links = 0; links < 40 && (text = link_text(at)); links++) {
        size_t len;
        const char *name = last_part(at, &len);
        char *dir = copy_text(at);
        dir[name - at] = '\0';
        char *next = *text == '/' || !*dir ? copy_text(text) : join(dir, text);
        free(dir);
        free(text);
        free(at);
        at = next;
    }
    bool does = same_name(at, to, stat);
    free(at);
    return does;
}

static int move_one(const char *from, const char *to) {
    struct stat source, target, referent;
    if (lstat(from, &source)) return warn("cannot stat '%s': %s", from, strerror(errno));
    bool is_there = lstat(to, &target) == 0;
    if (is_there && no_clobber) return 0;
    // A link to `file/` leads nowhere.
    bool is_onto_referent = is_there && S_ISLNK(source.st_mode) && !S_ISLNK(target.st_mode) &&
                            stat(from, &referent) == 0 && leads_to(from, to);
    if (is_onto_referent || (is_there && same(&source, &target))) {
        return warn("'%s' and '%s' are the same file", from, to);
    }
    if (is_there && S_ISDIR(target.st_mode) && !S_ISDIR(source.st_mode)) {
        return warn("cannot overwrite directory '%s' with non-directory", to);
    }
    if (is_there && !S_ISDIR(source.st_mode) && was_just_made(to)) return refuse_overwriting(from, to);
    if (rename(from, to) == 0) {
        note_made(to);
        if (copying.verbose) printf("renamed '%s' -> '%s'\n", from, to);
        return 0;
    }
    if (errno != EXDEV) return warn("cannot move '%s' to '%s': %s", from, to, strerror(errno));
    struct copying whole = {.recursive = true, .preserve = true, .force = true};
    if (is_there && S_ISDIR(source.st_mode) && !S_ISDIR(target.st_mode)) {
        return warn("cannot overwrite non-directory '%s' with directory '%s'", to, from);
    }
    // A directory is never merged with what is there.
    if (is_there && (S_ISDIR(target.st_mode) ? rmdir : unlink)(to)) {
        return warn("inter-device move failed: '%s' to '%s'; unable to remove target: %s", from, to, strerror(errno));
    }
    int status = copy_path(from, to, &whole);
    if (status) return status;
    note_made(to);
    return remove_path(from, true, true);
}

int tool_mv(int argc, char **argv) {
    const char *dir = NULL;
    bool exact = false;
    for (int option; (option = getopt_long(argc, argv, "fnvt:T", (struct option[]){{0}}, NULL)) != -1;) {
        switch (option) {
            case 'f': no_clobber = false; break;
            case 'n': no_clobber = true; break;
            case 'v': copying.verbose = true; break;
            case 't': dir = optarg; break;
            case 'T': exact = true; break;
            default: die_usage();
        }
    }
    if (exact && argc - optind == 2) return move_one(argv[optind], argv[optind + 1]);
    return each_into(argc - optind, argv + optind, dir, false, move_one);
}

static int link_one(const char *from, const char *to) {
    struct stat source, target;
    if (!symbolic && lstat(from, &source)) return warn("failed to access '%s': %s", from, strerror(errno));
    if (!symbolic && S_ISDIR(source.st_mode)) return warn("%s: hard link not allowed for directory", from);
    int (*make)(const char *, const char *) = symbolic ? symlink : link;
    if (make(from, to) == 0) {
        if (!symbolic) note_made(to);
        return 0;
    }
    if (forced && !symbolic && was_just_made(to)) return refuse_overwriting(from, to);
    if (forced && errno == EEXIST && lstat(to, &target) == 0 && !S_ISDIR(target.st_mode)) {
        bool is_there = !symbolic || stat(from, &source) == 0;
        if (is_there && same(&source, &target) && (target.st_nlink == 1 || same_name(from, to, stat))) {
            return warn("'%s' and '%s' are the same file", from, to);
        }
        if (link_in_place(make, from, to) == 0) {
            if (!symbolic) note_made(to);
            return 0;
        }
    }
    return warn("failed to create %s link '%s': %s", symbolic ? "symbolic" : "hard", to, strerror(errno));
}

int tool_ln(int argc, char **argv) {
    bool exact = false;
    for (int option; (option = getopt_long(argc, argv, "sfnT", (struct option[]){{0}}, NULL)) != -1;) {
        switch (option) {
            case 's': symbolic = true; break;
            case 'f': forced = true; break;
            case 'n': no_dereference = true; break;
            case 'T': exact = true; break;
            default: die_usage();
        }
    }
    int count = argc - optind;
    char **operands = argv + optind;
    struct stat target;
    if (count == 1) {
        char *to = into_dir(".", operands[0]);
        int status = link_one(operands[0], to);
        free(to);
        return status;
    }
    // With -n a link to a directory is a link, and no directory to put something into.
    if (count == 2 && no_dereference && lstat(operands[1], &target) == 0 && S_ISLNK(target.st_mode)) exact = true;
    if (exact && count == 2) return link_one(operands[0], operands[1]);
    return each_into(count, operands, NULL, false, link_one);
}

static bool tells_removed; // -v

// What became of the removal of `path`, which answered `failed` and `errno`. With `force` what is not there is removed.
static int removed(const char *path, bool failed, bool force, const char *kind) {
    if (!failed && tells_removed) printf("removed %s'%s'\n", kind, path);
    if (!failed || (force && (errno == ENOENT || errno == ENOTDIR))) return 0;
    return warn("cannot remove '%s': %s", path, strerror(errno));
}

// Removes `name` of the directory `at`, which messages call `path`. What is in a directory is removed by its descriptor:
// the path may lead through something that has been removed by then.
static int remove_at(int at, const char *name, const char *path, bool recursive, bool force) {
    struct stat stat_;
    // What cannot be looked at for a slash at its end may be a link to itself: what `unlink` says counts.
    if (fstatat(at, name, &stat_, AT_SYMLINK_NOFOLLOW) || !S_ISDIR(stat_.st_mode)) {
        return removed(path, unlinkat(at, name, 0), force, "");
    }
    if (!recursive) return warn("cannot remove '%s': Is a directory", path);
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) return warn("cannot remove '%s': %s", path, strerror(errno));
    struct texts names;
    int status = list_open_dir(dir, &names) ? 0 : warn("cannot remove '%s': %s", path, strerror(errno));
    for (size_t i = 0; i < names.count; i++) {
        char *inner = join(path, names.at[i]);
        status |= remove_at(dirfd(dir), names.at[i], inner, true, force);
        free(inner);
    }
    free_texts(&names);
    closedir(dir);
    return status ? status : removed(path, unlinkat(at, name, AT_REMOVEDIR), force, "directory ");
}

int remove_path(const char *path, bool recursive, bool force) {
    return remove_at(AT_FDCWD, path, path, recursive, force);
}

int tool_rm(int argc, char **argv) {
    bool recursive = false, force = false, empty_dirs = false;
    for (int option; (option = getopt_long(argc, argv, "rRfdv", (struct option[]){{0}}, NULL)) != -1;) {
        switch (option) {
            case 'r': case 'R': recursive = true; break;
            case 'f': force = true; break;
            case 'd': empty_dirs = true; break;
            case 'v': tells_removed = true; break;
            default: die_usage();
        }
    }
    if (optind == argc && !force) die("missing operand");
    int status = 0;
    for (int i = optind; i < argc; i++) {
        size_t len;
        const char *name = last_part(argv[i], &len);
        bool is_dot = (len == 1 && name[0] == '.') || (len == 2 && name[0] == '.' && name[1] == '.');
        struct stat stat_;
        bool is_dir_itself = lstat(argv[i], &stat_) == 0 && S_ISDIR(stat_.st_mode);
        if (is_dot && is_dir_itself) status |= warn("refusing to remove '.' or '..' directory: skipping '%s'", argv[i]);
        else if (len == 1 && name[0] == '/') status |= warn("it is dangerous to operate recursively on '/'");
        else if (empty_dirs && !recursive && is_dir_itself) {
            status |= removed(argv[i], rmdir(argv[i]), force, "directory ");
        } else status |= remove_path(argv[i], recursive, force);
    }
    return status;
}

int make_dirs(char *path) {
    for (char *at = path + 1; *at; at++) {
        if (*at != '/' || at[-1] == '/') continue;
        *at = '\0';
        bool failed = mkdir(path, 0777) && !(errno == EEXIST && is_dir(path)) && !is_dir(path);
        if (failed) return warn("cannot create directory '%s': %s", path, strerror(errno));
        *at = '/';
    }
    if (mkdir(path, 0777) == 0 || is_dir(path)) return 0;
    return warn("cannot create directory '%s': %s", path, strerror(errno));
}

int tool_mkdir(int argc, char **argv) {
    bool parents = false;
    for (int option; (option = getopt_long(argc, argv, "pm:", (struct option[]){{0}}, NULL)) != -1;) {
        switch (option) {
            case 'p': parents = true; break;
            case 'm': break; // there are no modes
            default: die_usage();
        }
    }
    if (optind == argc) die("missing operand");
    int status = 0;
    for (int i = optind; i < argc; i++) {
        if (parents) status |= make_dirs(argv[i]);
        else if (mkdir(argv[i], 0777)) {
            status |= warn("cannot create directory '%s': %s", argv[i], strerror(errno));
        }
    }
    return status;
}

int tool_rmdir(int argc, char **argv) {
    bool parents = false;
    for (int option; (option = getopt_long(argc, argv, "p", (struct option[]){{0}}, NULL)) != -1;) {
        if (option != 'p') die_usage();
        parents = true;
    }
    if (optind == argc) die("missing operand");
    int status = 0;
    for (int i = optind; i < argc; i++) {
        char *path = argv[i];
        for (;;) {
            if (rmdir(path)) {
                status |= warn("failed to remove '%s': %s", path, strerror(errno));
                break;
            }
            size_t len;
            char *end = (char *)last_part(path, &len);
            while (end > path && end[-1] == '/') end--;
            if (!parents || end == path) break;
            *end = '\0';
        }
    }
    return status;
}

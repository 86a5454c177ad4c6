// escape [TARGET [NEEDLE]]: tries to read the host's file TARGET, given from the host's root without
// a leading slash (default `etc/passwd`), which holds NEEDLE (default `root:`).
//
// Prints one line for each way out: `CASE: ERRNO` when it was refused, `CASE: harmless` when
// something opened that is not the host's file, `CASE: LEAK` when it is. Exits 1 after any LEAK.
// A native run leaks nearly everywhere, which shows that the cases do reach for the file.
//
// No case removes or renames anything outside of its own folder: with a runtime that lets one
// through, this program must not be what breaks the host.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __wasi__
#include <wasi/api.h>
#endif

// More levels than any host path has: above the root, `..` is the root again.
#define UP16 "../../../../../../../../../../../../../../../.."

static const char *target = "etc/passwd";
static const char *needle = "root:";

static const char *errno_name(int e) {
    static const struct { int value; const char *name; } names[] = {
#define E(x) {x, #x}
        E(EPERM), E(ENOENT), E(EACCES), E(EEXIST), E(ENOTDIR), E(EISDIR), E(EINVAL), E(ELOOP),
        E(ENAMETOOLONG), E(EXDEV), E(EROFS), E(EBADF), E(EILSEQ), E(EIO), E(EMFILE), E(EMLINK),
        E(ENOSPC), E(ENOSYS), E(ENOTEMPTY), E(ENOTSUP), E(EBUSY), E(EFAULT), E(ENODEV), E(ENXIO),
#ifdef ENOTCAPABLE
        E(ENOTCAPABLE),
#endif
#undef E
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].value == e) return names[i].name;
    return "another errno";
}

// prefix + TARGET, in one of two buffers by turns, as a case may need two paths at once.
static const char *to(const char *prefix) {
    static char paths[2][PATH_MAX];
    static int turn;
    turn = !turn;
    if ((size_t)snprintf(paths[turn], PATH_MAX, "%s%s", prefix, target) >= PATH_MAX) return "";
    return paths[turn];
}

static int get(const char *path) { return open(path, O_RDONLY); }

// From DIR, PREFIX and then one to sixteen levels up: a check that counts levels may let some pass.
static int climb(int dir, const char *prefix) {
    char up[PATH_MAX];
    size_t size = strlen(prefix);
    memcpy(up, prefix, size);
    for (int i = 0; i < 16; i++) {
        memcpy(up + size, "../", 4);
        size += 3;
        int fd = openat(dir, to(up), O_RDONLY);
        if (fd >= 0) return fd;
    }
    return -1;
}

// Everything the cases make, inside out, so that removing in this order empties the folder.
static const char *const made[] = {
    "escape.d/link", "escape.d/other", "escape.d/hard", "escape.d/sub/up", "escape.d/sub/link",
    "escape.d/a/b/c", "escape.d/a/b", "escape.d/a", "escape.d/c", "escape.d/sub", "escape.d/old",
};

static void clean(void) {
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        if (unlink(made[i]) != 0) rmdir(made[i]);
}

static int relative(void) { return climb(AT_FDCWD, ""); }
static int absolute(void) { return get(to("/")); }
static int absolute_slashes(void) { return get(to("//.//")); }
static int absolute_up(void) { return climb(AT_FDCWD, "/"); }
static int below_src(void) { return climb(AT_FDCWD, "/worktree/"); }
static int below_dot(void) { return climb(AT_FDCWD, "./"); }
static int below_dir(void) { return climb(AT_FDCWD, "escape.d/"); }
static int below_missing(void) { return climb(AT_FDCWD, "escape.none/../"); }
static int proc_root(void) { return get(to("/proc/self/root/")); }
static int proc_cwd(void) { return get(to("/proc/self/cwd/" UP16 "/")); }
static int backslashes(void) { return get("..\\..\\..\\..\\..\\..\\..\\..\\Windows\\win.ini"); }
static int drive(void) { return get("C:/Windows/win.ini"); }
static int drive_relative(void) { return get("C:..\\..\\..\\..\\Windows\\win.ini"); }
static int verbatim(void) { return get("\\\\?\\C:\\Windows\\win.ini"); }

static int through_link(const char *points_to, const char *path) {
    if (symlink(points_to, "escape.d/link") != 0) return -1;
    return get(path);
}
static int link_absolute(void) { return through_link(to("/"), "escape.d/link"); }
static int link_relative(void) { return through_link(to(UP16 "/"), "escape.d/link"); }
static int link_root(void) { return through_link("/", to("escape.d/link/")); }
static int link_up(void) { return through_link(UP16, to("escape.d/link/")); }
// A link that stays inside, followed by `..` that is counted on the path's text or on the tree.
static int link_then_up(void) {
    if (symlink(".", "escape.d/link") != 0) return -1;
    return climb(AT_FDCWD, "escape.d/link/");
}

static int link_to_link(void) {
    if (symlink("link", "escape.d/other") != 0) return -1;
    return through_link(to(UP16 "/"), "escape.d/other");
}

static int link_in_dir(void) {
    if (mkdir("escape.d/sub", 0777) != 0 || symlink("..", "escape.d/sub/up") != 0) return -1;
    return climb(AT_FDCWD, "escape.d/sub/up/sub/up/");
}

// The link is harmless where it is made and points elsewhere after the move.
static int link_moved(void) {
    if (mkdir("escape.d/sub", 0777) != 0) return -1;
    if (symlink(to(UP16 "/"), "escape.d/sub/link") != 0) return -1;
    if (rename("escape.d/sub/link", "escape.d/link") != 0) return -1;
    return get("escape.d/link");
}

static int hard_link_absolute(void) {
    if (link(to("/"), "escape.d/hard") != 0) return -1;
    return get("escape.d/hard");
}

static int hard_link_relative(void) {
    if (link(to(UP16 "/"), "escape.d/hard") != 0) return -1;
    return get("escape.d/hard");
}

static int hard_link_of_link(void) {
    if (symlink(to(UP16 "/"), "escape.d/link") != 0) return -1;
    if (linkat(AT_FDCWD, "escape.d/link", AT_FDCWD, "escape.d/hard", AT_SYMLINK_FOLLOW) != 0) return -1;
    return get("escape.d/hard");
}

// Closes DIR without losing the errno of what came before.
static int leave(int dir, int fd) {
    int e = errno;
    if (dir >= 0) close(dir);
    errno = e;
    return fd;
}

static int open_dir(int dir, const char *path) { return openat(dir, path, O_RDONLY | O_DIRECTORY); }

static int openat_up(void) {
    int dir = open_dir(AT_FDCWD, "escape.d");
    return leave(dir, dir < 0 ? -1 : climb(dir, ""));
}

// One `..` at a time, each from the descriptor that the last one gave.
static int openat_steps(void) {
    int dir = open_dir(AT_FDCWD, "escape.d");
    for (int i = 0; i < 16 && dir >= 0; i++) dir = leave(dir, open_dir(dir, ".."));
    return leave(dir, dir < 0 ? -1 : openat(dir, target, O_RDONLY));
}

// The folder is opened three levels down and moved up, so a depth noted at open time is wrong now.
static int rename_held_dir(void) {
    if (mkdir("escape.d/a", 0777) || mkdir("escape.d/a/b", 0777) || mkdir("escape.d/a/b/c", 0777)) return -1;
    int dir = open_dir(AT_FDCWD, "escape.d/a/b/c");
    if (dir < 0) return -1;
    return leave(dir, rename("escape.d/a/b/c", "escape.d/c") != 0 ? -1 : climb(dir, ""));
}

// A folder that was looked at a moment ago becomes a link to the host's root.
static int rename_swap(void) {
    struct stat st;
    if (mkdir("escape.d/sub", 0777) != 0 || stat("escape.d/sub", &st) != 0) return -1;
    if (rename("escape.d/sub", "escape.d/old") != 0 || symlink(UP16, "escape.d/sub") != 0) return -1;
    return get(to("escape.d/sub/"));
}

// Writing above the root. Natively this makes the file and removes it again.
static int create_above(void) {
    int fd = open("../escape.probe", O_RDWR | O_CREAT | O_EXCL, 0666);
    if (fd >= 0) unlink("../escape.probe");
    return fd;
}

static int create_through_link(void) {
    if (symlink("../../escape.probe", "escape.d/link") != 0) return -1;
    int fd = open("escape.d/link", O_RDWR | O_CREAT, 0666);
    if (fd >= 0) unlink("../escape.probe");
    return fd;
}

static int make_link_above(void) {
    if (symlink(to(UP16 "/"), "../escape.probe") != 0) return -1;
    int fd = get("../escape.probe"), e = errno;
    unlink("../escape.probe");
    errno = e;
    return fd;
}

#ifdef __wasi__
// The libc looks at a path before the runtime does: absolute ones never reach it when no folder is
// mounted there, and NUL ends them. These go to the runtime as they are, from each mounted folder.
__attribute__((import_module("wasi_snapshot_preview1"), import_name("path_open")))
int path_open(int dir, int follow, const char *path, size_t size, int oflags, uint64_t rights,
              uint64_t inherited, int fdflags, int *fd);

static int raw(const char *path, size_t size) {
    for (int dir = 3; dir < 8; dir++) {
        int fd, e = path_open(dir, 1, path, size, 0, __WASI_RIGHTS_FD_READ, 0, 0, &fd);
        if (e == 0) return fd;
        if (e == EBADF && dir > 3) break;
        errno = e;
    }
    return -1;
}

static int raw_absolute(void) {
    const char *path = to("/");
    return raw(path, strlen(path));
}
static int raw_up(void) {
    const char *path = to(UP16 "/");
    return raw(path, strlen(path));
}
// A check that stops at the NUL sees `.`, and one that does not sees a name with a NUL in it.
static int raw_nul(void) {
    char path[PATH_MAX];
    int size = snprintf(path, sizeof path, ".%c/%s", 0, to(UP16 "/"));
    return raw(path, (size_t)size);
}
#endif

static const struct { const char *name; int (*attempt)(void); } cases[] = {
    {"relative", relative},
    {"absolute", absolute},
    {"absolute-slashes", absolute_slashes},
    {"absolute-up", absolute_up},
    {"below-src", below_src},
    {"below-dot", below_dot},
    {"below-dir", below_dir},
    {"below-missing", below_missing},
    {"proc-root", proc_root},
    {"proc-cwd", proc_cwd},
    {"backslashes", backslashes},
    {"drive", drive},
    {"drive-relative", drive_relative},
    {"verbatim", verbatim},
    {"link-absolute", link_absolute},
    {"link-relative", link_relative},
    {"link-root", link_root},
    {"link-up", link_up},
    {"link-then-up", link_then_up},
    {"link-to-link", link_to_link},
    {"link-in-dir", link_in_dir},
    {"link-moved", link_moved},
    {"hard-link-absolute", hard_link_absolute},
    {"hard-link-relative", hard_link_relative},
    {"hard-link-of-link", hard_link_of_link},
    {"openat-up", openat_up},
    {"openat-steps", openat_steps},
    {"rename-held-dir", rename_held_dir},
    {"rename-swap", rename_swap},
    {"create-above", create_above},
    {"create-through-link", create_through_link},
    {"make-link-above", make_link_above},
#ifdef __wasi__
    {"raw-absolute", raw_absolute},
    {"raw-up", raw_up},
    {"raw-nul", raw_nul},
#endif
};

static int leaks(int fd) {
    char text[8192];
    size_t size = 0;
    for (ssize_t got; size < sizeof text - 1; size += (size_t)got) {
        got = read(fd, text + size, sizeof text - 1 - size);
        if (got <= 0) break;
    }
    // A NUL must not hide what comes after it.
    for (size_t i = 0; i < size; i++)
        if (text[i] == 0) text[i] = ' ';
    text[size] = 0;
    // `[fonts]` opens the file that the Windows cases reach for.
    return strstr(text, needle) != NULL || strstr(text, "[fonts]") != NULL;
}

int main(int argc, char **argv) {
    if (argc > 1) target = argv[1];
    if (argc > 2) needle = argv[2];
    if (mkdir("escape.d", 0777) != 0 && errno != EEXIST) {
        perror("escape: escape.d");
        return 2;
    }
    int leaked = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        clean();
        errno = 0;
        int fd = cases[i].attempt();
        if (fd < 0) {
            printf("%s: %s\n", cases[i].name, errno_name(errno));
            continue;
        }
        int leak = leaks(fd);
        printf("%s: %s\n", cases[i].name, leak ? "LEAK" : "harmless");
        leaked |= leak;
        close(fd);
    }
    clean();
    rmdir("escape.d");
    return leaked;
}

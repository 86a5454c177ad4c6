// Pipes, copies of descriptors, and what becomes of them in processes that are started.
#include "internal.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wasi/libc.h>

static bool is_reserved(int fd) {
    return (fd == BELLJAR_ROOT_FD || fd == BELLJAR_CURRENT_FD) && belljar_has_root();
}

int pipe2(int fds[2], int flags) {
    uint32_t ends[2];
    if (flags & ~(O_CLOEXEC | O_NONBLOCK)) return belljar_done(EINVAL);
    if (flags & O_NONBLOCK) return belljar_done(ENOTSUP);
    if (belljar_done(belljar_pipe(flags & O_CLOEXEC ? BELLJAR_FD_CLOEXEC : 0, ends))) return -1;
    fds[0] = ends[0];
    fds[1] = ends[1];
    return 0;
}

int pipe(int fds[2]) {
    return pipe2(fds, 0);
}

static int dup_from(int fd, int lowest, uint32_t flags) {
    uint32_t copy;
    return belljar_done(belljar_fd_dup(fd, lowest, flags, &copy)) ? -1 : (int)copy;
}

int dup(int fd) {
    return dup_from(fd, 0, 0);
}

int dup2(int fd, int to) {
    if (is_reserved(to)) return belljar_done(EBADF);
    return belljar_done(belljar_fd_dup2(fd, to)) ? -1 : to;
}

int dup3(int fd, int to, int flags) {
    if (fd == to || flags & ~O_CLOEXEC) return belljar_done(EINVAL);
    if (dup2(fd, to) < 0) return -1;
    return flags && belljar_done(belljar_fd_cloexec_set(to, BELLJAR_FD_CLOEXEC)) ? -1 : to;
}

// Replaces wasi-libc's: some programs close every number that there could be.
int close(int fd) {
    return belljar_done(is_reserved(fd) ? EBADF : __wasi_fd_close(fd));
}

void closefrom(int lowest) {
    int fd = lowest < 0 ? 0 : lowest;
    for (; fd <= BELLJAR_CURRENT_FD; fd++) {
        if (!is_reserved(fd)) belljar_let_go(fd);
    }
    belljar_fd_close_from(fd);
}

// In wasi-sdk's library it is in one file with `close`, which would come along with it. `freopen` calls it.
int __wasilibc_fd_renumber(int fd, int to) {
    return belljar_done(is_reserved(fd) || is_reserved(to) ? EBADF : __wasi_fd_renumber(fd, to)) ? -1 : 0;
}

static int closed_on_exec(int fd, int flags) {
    if (fd >= 0 && flags & O_CLOEXEC) belljar_fd_cloexec_set(fd, BELLJAR_FD_CLOEXEC);
    return fd;
}

int open(const char *path, int flags, ...) {
    return closed_on_exec(__wasilibc_open_nomode(path, flags), flags);
}

// wasi-libc has it, and declares another.
int __wasilibc_nocwd_openat_nomode(int dir, const char *path, int flags);

int openat(int dir, const char *path, int flags, ...) {
    if (dir == AT_FDCWD || *path == '/') return open(path, flags);
    return closed_on_exec(__wasilibc_nocwd_openat_nomode(dir, path, flags), flags);
}

static int access_of(const __wasi_fdstat_t *stat) {
    bool reads = stat->fs_rights_base & (__WASI_RIGHTS_FD_READ | __WASI_RIGHTS_FD_READDIR);
    bool writes = stat->fs_rights_base & __WASI_RIGHTS_FD_WRITE;
    return !reads && !writes ? O_SEARCH : (reads ? O_RDONLY : 0) | (writes ? O_WRONLY : 0);
}

// Replaces wasi-libc's, for which every descriptor is closed on exec and none can be copied.
int fcntl(int fd, int command, ...) {
    va_list list;
    va_start(list, command);
    int argument = command == F_GETFD || command == F_GETFL ? 0 : va_arg(list, int);
    va_end(list);
    switch (command) {
        case F_DUPFD: return dup_from(fd, argument, 0);
        case F_DUPFD_CLOEXEC: return dup_from(fd, argument, BELLJAR_FD_CLOEXEC);
        case F_GETFD: {
            uint32_t flag;
            return belljar_done(belljar_fd_cloexec_get(fd, &flag)) ? -1 : (int)flag;
        }
        case F_SETFD: return belljar_done(belljar_fd_cloexec_set(fd, argument & FD_CLOEXEC));
        case F_GETFL: {
            __wasi_fdstat_t stat;
            return belljar_done(__wasi_fd_fdstat_get(fd, &stat)) ? -1 : stat.fs_flags | access_of(&stat);
        }
        case F_SETFL: return belljar_done(__wasi_fd_fdstat_set_flags(fd, argument & 0xfff));
        default: return belljar_done(EINVAL);
    }
}

int mkstemp(char *path) {
    static const char letters[] = "0123456789abcdefghijklmnopqrstuv";
    size_t len = strlen(path);
    if (len < 6 || strcmp(path + len - 6, "XXXXXX") != 0) return belljar_done(EINVAL);
    for (int attempt = 0; attempt < 100; attempt++) {
        unsigned char bytes[6];
        if (getentropy(bytes, sizeof bytes)) return -1;
        for (int i = 0; i < 6; i++) path[len - 6 + i] = letters[bytes[i] % 32];
        int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
        if (fd >= 0 || errno != EEXIST) return fd;
    }
    return -1;
}

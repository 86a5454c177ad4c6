// Makes the calls on paths that it is told on standard input, and says what each answered.
//
// A line is a call: its name, a directory, and paths, with tabs between them. The directory is `-` for the
// current one, or the number of a slot that `opendir` has filled. The answer is a line: `ok` and what was found,
// or `error` and the system's number for it. Native and inside, the same calls must get the same answers.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef __wasi__
#define HAS_CURRENT_DIR
#endif

enum { SLOTS = 8, FIELDS = 4 };

static int slots[SLOTS];

static void fail(void) { printf("error %d\n", errno); }

static void done(int result) {
    if (result < 0) {
        fail();
    } else {
        puts("ok");
    }
}

static int dir_of(const char *text) {
    if (*text == '-') return AT_FDCWD;
    int slot = atoi(text);
    return slot >= 0 && slot < SLOTS ? slots[slot] : -1;
}

static char type_of(mode_t mode) {
    return S_ISDIR(mode) ? 'd' : S_ISLNK(mode) ? 'l' : S_ISREG(mode) ? 'f' : '?';
}

static void show(int dir, const char *path, int flags) {
    struct stat found;
    if (fstatat(dir, path, &found, flags) < 0) return fail();
    if (S_ISDIR(found.st_mode)) {
        puts("ok d");
    } else {
        printf("ok %c %lld %lld\n", type_of(found.st_mode), (long long)found.st_size, (long long)found.st_nlink);
    }
}

static void put(int dir, const char *path, int flags, const char *text) {
    int fd = openat(dir, path, flags, 0644);
    if (fd < 0) return fail();
    ssize_t written = write(fd, text, strlen(text));
    int error = errno;
    struct stat found;
    if (written < 0) {
        printf("ok, and write: error %d\n", error);
    } else if (fstat(fd, &found) < 0) {
        printf("ok, and fstat: error %d\n", errno);
    } else {
        printf("ok %lld\n", (long long)found.st_size);
    }
    close(fd);
}

static void cut(int dir, const char *path) {
    int fd = openat(dir, path, O_WRONLY | O_CREAT, 0644);
    if (fd < 0) return fail();
    done(ftruncate(fd, 2));
    close(fd);
}

static void get(int dir, const char *path, int flags) {
    char text[256];
    int fd = openat(dir, path, flags, 0644);
    if (fd < 0) return fail();
    ssize_t len = read(fd, text, sizeof text);
    if (len < 0) {
        printf("ok, and read: error %d\n", errno);
    } else {
        printf("ok %.*s\n", (int)len, text);
    }
    close(fd);
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static void list(int dir, const char *path) {
    int fd = openat(dir, path, O_RDONLY | O_DIRECTORY);
    if (fd < 0) return fail();
    DIR *open = fdopendir(fd);
    if (!open) return fail();
    char *names[1024];
    size_t count = 0;
    struct dirent *entry;
    while ((entry = readdir(open)) && count < 1024) {
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..")) names[count++] = strdup(entry->d_name);
    }
    closedir(open);
    qsort(names, count, sizeof *names, by_name);
    printf("ok");
    for (size_t i = 0; i < count; i++) {
        printf(" %s", names[i]);
        free(names[i]);
    }
    puts("");
}

static void open_slot(int dir, const char *path, const char *slot) {
    int fd = openat(dir, path, O_RDONLY | O_DIRECTORY);
    if (fd < 0) return fail();
    int *place = &slots[atoi(slot) % SLOTS];
    if (*place >= 0) close(*place);
    *place = fd;
    puts("ok");
}

static void close_slot(const char *slot) {
    int *place = &slots[atoi(slot) % SLOTS];
    int closed = close(*place);
    *place = -1;
    done(closed);
}

static void show_flags(int fd) {
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0) return fail();
    printf("ok %s%s\n", (flags & O_APPEND) ? "append " : "", (flags & O_NONBLOCK) ? "nonblock" : "");
}

static void wait_for(int fd) {
    struct pollfd asked = {.fd = fd, .events = POLLIN | POLLOUT};
    int count = poll(&asked, 1, 0);
    if (count < 0) return fail();
    printf("ok %d %d %d %d\n", count, !!(asked.revents & POLLIN), !!(asked.revents & POLLOUT),
           !!(asked.revents & POLLNVAL));
}

static void got(int error) {
    errno = error;
    done(error ? -1 : 0);
}

// Calls on the descriptor itself.
static int call_on(const char *name, int fd) {
    char text[8];
    struct stat found;
    const struct timespec times[] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000001}};
    if (!strcmp(name, "fd_stat")) done(fstat(fd, &found) < 0 ? -1 : S_ISDIR(found.st_mode));
    else if (!strcmp(name, "fd_advise")) got(posix_fadvise(fd, 0, 1, POSIX_FADV_NORMAL));
    else if (!strcmp(name, "fd_allocate")) got(posix_fallocate(fd, 0, 2));
    else if (!strcmp(name, "fd_cut")) done(ftruncate(fd, 2));
    else if (!strcmp(name, "fd_sync")) done(fsync(fd) < 0 ? -1 : fdatasync(fd));
    else if (!strcmp(name, "fd_append")) done(fcntl(fd, F_SETFL, O_APPEND));
    else if (!strcmp(name, "fd_nonblock")) done(fcntl(fd, F_SETFL, O_NONBLOCK));
    else if (!strcmp(name, "fd_flags")) show_flags(fd);
    else if (!strcmp(name, "fd_poll")) wait_for(fd);
    else if (!strcmp(name, "fd_read")) done(read(fd, text, sizeof text));
    else if (!strcmp(name, "fd_pread")) done(pread(fd, text, sizeof text, 0));
    else if (!strcmp(name, "fd_write")) done(write(fd, text, 1));
    else if (!strcmp(name, "fd_pwrite")) done(pwrite(fd, text, 1, 0));
    else if (!strcmp(name, "fd_times")) done(futimens(fd, times));
    else return 0;
    return 1;
}

// The number of the slot's descriptor: it differs from system to system.
static void descriptor(const char *slot) { printf("ok %d\n", slots[atoi(slot) % SLOTS]); }

#ifndef __wasi__
// Begins anew, in another folder. Inside, each folder has a process of its own.
static void begin(const char *folder) {
    for (int i = 0; i < SLOTS; i++) {
        if (slots[i] >= 0) close(slots[i]);
        slots[i] = -1;
    }
    done(chdir(folder));
}
#endif

#ifdef HAS_CURRENT_DIR
static void current_dir(void) {
    char path[8192];
    if (!getcwd(path, sizeof path)) return fail();
    printf("ok %s\n", path);
}
#endif

static void read_link(int dir, const char *path) {
    char text[256];
    ssize_t len = readlinkat(dir, path, text, sizeof text);
    if (len < 0) return fail();
    printf("ok %.*s\n", (int)len, text);
}

static void call(const char *name, const char *at, const char *path, const char *other) {
    int dir = dir_of(at);
    const int write_only = O_WRONLY | O_CREAT;
    if (!strcmp(name, "mkdir")) done(mkdirat(dir, path, 0755));
    else if (!strcmp(name, "rmdir")) done(unlinkat(dir, path, AT_REMOVEDIR));
    else if (!strcmp(name, "unlink")) done(unlinkat(dir, path, 0));
    else if (!strcmp(name, "rename")) done(renameat(dir, path, AT_FDCWD, other));
    else if (!strcmp(name, "rename_into")) done(renameat(AT_FDCWD, other, dir, path));
    else if (!strcmp(name, "link")) done(linkat(dir, path, AT_FDCWD, other, 0));
    else if (!strcmp(name, "link_into")) done(linkat(AT_FDCWD, other, dir, path, 0));
    else if (!strcmp(name, "symlink")) done(symlinkat(other, dir, path));
    else if (!strcmp(name, "stat")) show(dir, path, 0);
    else if (!strcmp(name, "lstat")) show(dir, path, AT_SYMLINK_NOFOLLOW);
    else if (!strcmp(name, "readlink")) read_link(dir, path);
    else if (!strcmp(name, "create")) put(dir, path, write_only | O_TRUNC, other);
    else if (!strcmp(name, "exclusive")) put(dir, path, write_only | O_EXCL, other);
    else if (!strcmp(name, "append")) put(dir, path, write_only | O_APPEND, "more ");
    else if (!strcmp(name, "update")) put(dir, path, O_RDWR, "up");
    else if (!strcmp(name, "cut")) cut(dir, path);
    else if (!strcmp(name, "read")) get(dir, path, O_RDONLY);
    else if (!strcmp(name, "read_or_create")) get(dir, path, O_RDONLY | O_CREAT);
    else if (!strcmp(name, "read_no_follow")) get(dir, path, O_RDONLY | O_NOFOLLOW);
    else if (!strcmp(name, "list")) list(dir, path);
    else if (!strcmp(name, "opendir")) open_slot(dir, path, other);
    else if (!strcmp(name, "close")) close_slot(path);
    else if (!strcmp(name, "create_directory")) put(dir, path, write_only | O_DIRECTORY, other);
    else if (!strcmp(name, "descriptor")) descriptor(path);
    else if (call_on(name, dir)) return;
#ifdef HAS_CURRENT_DIR
    else if (!strcmp(name, "chdir")) done(chdir(path));
    else if (!strcmp(name, "getcwd")) current_dir();
#endif
#ifndef __wasi__
    else if (!strcmp(name, "begin")) begin(path);
#endif
    else puts("what?");
}

int main(void) {
    static char line[65536];
    for (int i = 0; i < SLOTS; i++) slots[i] = -1;
    while (fgets(line, sizeof line, stdin)) {
        char *fields[FIELDS] = {"", "", "", ""};
        int count = 0;
        line[strcspn(line, "\n")] = '\0';
        for (char *at = line; at && count < FIELDS; count++) {
            fields[count] = at;
            at = strchr(at, '\t');
            if (at) *at++ = '\0';
        }
        call(fields[0], fields[1], fields[2], fields[3]);
        fflush(stdout);
    }
    return 0;
}

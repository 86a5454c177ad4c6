// What the programs of this folder share: messages, output, reading and rewriting whole files.
// No stdio streams: they would be larger than most of the programs.
#ifndef DEMO_H
#define DEMO_H

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h> // rename
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// Each program says what it is called and what its --help prints.
extern const char program[];
extern const char help[];

// --- output ---------------------------------------------------------------------------------------

static inline int write_all(int fd, const void *bytes, size_t size) {
    for (const char *at = bytes; size > 0;) {
        ssize_t put = write(fd, at, size);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return -1;
        at += put;
        size -= (size_t)put;
    }
    return 0;
}

static char out_block[16384];
static size_t out_size;
// What a program exits with when its standard output is gone.
static int out_failure = 1;

static inline void complain_errno(const char *name);

static inline void out_flush(void) {
    size_t size = out_size;
    out_size = 0;
    if (write_all(STDOUT_FILENO, out_block, size) != 0) {
        complain_errno("standard output");
        exit(out_failure);
    }
}

static inline void out(const char *bytes, size_t size) {
    while (size > 0) {
        size_t part = sizeof out_block - out_size;
        if (part > size) part = size;
        memcpy(out_block + out_size, bytes, part);
        out_size += part;
        bytes += part;
        size -= part;
        if (out_size == sizeof out_block) out_flush();
    }
}

static inline void out_text(const char *text) { out(text, strlen(text)); }

static inline void out_number(uint64_t n) {
    char digits[20];
    size_t at = sizeof digits;
    do digits[--at] = (char)('0' + n % 10);
    while (n /= 10);
    out(digits + at, sizeof digits - at);
}

// --- messages -------------------------------------------------------------------------------------

// `PROGRAM: A: B` in a single write, so that lines of several processes do not mix.
static inline void complain(const char *a, const char *b) {
    // What was said before comes out before, also where both streams are one.
    out_flush();
    char line[PATH_MAX + 256];
    size_t size = 0;
    const char *parts[] = {program, ": ", a, b ? ": " : "", b ? b : ""};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        size_t length = strlen(parts[i]), room = sizeof line - 1 - size;
        // What is too long for a line is cut, but keeps its newline.
        if (length > room) length = room;
        memcpy(line + size, parts[i], length);
        size += length;
    }
    line[size++] = '\n';
    write_all(STDERR_FILENO, line, size);
}

static inline void complain_errno(const char *name) { complain(name, strerror(errno)); }

_Noreturn static inline void usage_error(int status, const char *what, const char *about) {
    complain(what, about);
    complain("see --help", NULL);
    exit(status);
}

_Noreturn static inline void show_help(void) {
    out_text(help);
    out_flush();
    exit(0);
}

// --- input ----------------------------------------------------------------------------------------

// Opens NAME for reading, or complains and returns -1. Reading a folder fails with one errno here
// and another there, so it is refused where all systems agree on its name.
static inline int open_input(const char *name) {
    int fd = open(name, O_RDONLY);
    struct stat st;
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
        close(fd);
        errno = EISDIR;
        fd = -1;
    }
    if (fd < 0) complain_errno(name);
    return fd;
}

static inline ssize_t read_some(int fd, void *block, size_t size) {
    ssize_t got;
    do got = read(fd, block, size);
    while (got < 0 && errno == EINTR);
    return got;
}

struct bytes {
    char *at;
    size_t size, room;
};

// Makes room for MORE bytes behind the ones there are. Returns -1 and sets errno if there is none.
static inline int reserve(struct bytes *b, size_t more) {
    if (more <= b->room - b->size) return 0;
    // Powers of two less the allocator's header: it rounds up to them, header included.
    enum { HEADER = 64 };
    size_t room = b->room ? b->room : 4096 - HEADER;
    while (room - b->size < more) {
        if (room > SIZE_MAX / 2 - HEADER) {
            errno = ENOMEM;
            return -1;
        }
        room = room * 2 + HEADER;
    }
    char *at = realloc(b->at, room);
    if (!at) {
        errno = ENOMEM;
        return -1;
    }
    b->at = at;
    b->room = room;
    return 0;
}

static inline int add(struct bytes *b, const void *bytes, size_t size) {
    if (size == 0) return 0;
    if (reserve(b, size) != 0) return -1;
    memcpy(b->at + b->size, bytes, size);
    b->size += size;
    return 0;
}

// Reads all of FD into B.
static inline int read_all(int fd, struct bytes *b) {
    b->size = 0;
    struct stat st;
    // One byte more than the file has, so that the read that meets the end needs no more room.
    if (fstat(fd, &st) == 0 && st.st_size > 0 && (uint64_t)st.st_size < SIZE_MAX / 2 &&
        reserve(b, (size_t)st.st_size + 1) != 0)
        return -1;
    for (;;) {
        if (reserve(b, 1) != 0) return -1;
        ssize_t got = read_some(fd, b->at + b->size, b->room - b->size);
        if (got < 0) return -1;
        if (got == 0) return 0;
        b->size += (size_t)got;
    }
}

// --- rewriting ------------------------------------------------------------------------------------

// Follows the links that NAME ends in and puts the name of the file itself into PATH. realpath would
// go through absolute names, which need not exist where only a relative folder is mounted.
static inline int follow(const char *name, char path[PATH_MAX]) {
    size_t size = strlen(name);
    if (size >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(path, name, size + 1);
    for (int links = 0; links < 40; links++) {
        char target[PATH_MAX];
        ssize_t length = readlink(path, target, sizeof target);
        // Not a link: EINVAL. Anything else will fail again, and be reported, where it is opened.
        if (length < 0) return 0;
        char *slash = strrchr(path, '/');
        size_t dir = slash && target[0] != '/' ? (size_t)(slash - path) + 1 : 0;
        if (dir + (size_t)length >= PATH_MAX) {
            errno = ENAMETOOLONG;
            return -1;
        }
        memcpy(path + dir, target, (size_t)length);
        path[dir + (size_t)length] = 0;
    }
    errno = ELOOP;
    return -1;
}

// Replaces what NAME holds: a new file beside it is written whole and then renamed over it, so that
// nobody ever sees half of it and a failure leaves the old content. A symbolic link stays one; the
// file it leads to is replaced. Returns -1 with errno set.
static inline int rewrite(const char *name, const char *bytes, size_t size) {
    char path[PATH_MAX], temp[PATH_MAX];
    if (follow(name, path) != 0) return -1;
    size_t length = strlen(path);
    if (length + sizeof ".tmp00" > sizeof temp) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(temp, path, length);
    // Counted, not drawn: the same run always uses the same name.
    int fd = -1;
    for (int n = 0; fd < 0 && n < 100; n++) {
        char suffix[] = {'.', 't', 'm', 'p', (char)('0' + n / 10), (char)('0' + n % 10), 0};
        memcpy(temp + length, suffix, sizeof suffix);
        fd = open(temp, O_WRONLY | O_CREAT | O_EXCL, 0666);
        if (fd < 0 && errno != EEXIST) return -1;
    }
    if (fd < 0) return -1;
    int bad = write_all(fd, bytes, size) != 0;
#ifndef __wasi__
    struct stat st;
    bad = bad || stat(path, &st) != 0 || fchmod(fd, st.st_mode & 07777) != 0;
#endif
    bad = bad || fsync(fd) != 0;
    int e = errno;
    if (close(fd) != 0 && !bad) {
        bad = 1;
        e = errno;
    }
    if (!bad && rename(temp, path) == 0) return 0;
    if (!bad) e = errno;
    unlink(temp);
    errno = e;
    return -1;
}

#endif

// overwrite STEP...: edits the current folder as the steps say, in their order, and stops at the
// first that fails. In the last field of a step colons are plain text.
#define _XOPEN_SOURCE 700
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int put(const char *path, const char *text, int how) {
    int fd = open(path, O_WRONLY | O_CREAT | how, 0666);
    if (fd < 0) return -1;
    size_t size = strlen(text);
    ssize_t done = write(fd, text, size);
    if (done >= 0 && (size_t)done != size) errno = ENOSPC;
    int e = errno;
    int closed = close(fd);
    if (done < 0 || (size_t)done != size) {
        errno = e;
        return -1;
    }
    return closed;
}

static int do_append(const char *a, const char *b) { return put(a, b, O_APPEND); }
static int do_write(const char *a, const char *b) { return put(a, b, O_TRUNC); }
static int do_truncate(const char *a, const char *b) { return truncate(a, (off_t)atoll(b)); }
static int do_rename(const char *a, const char *b) { return rename(a, b); }
static int do_link(const char *a, const char *b) { return link(a, b); }
static int do_symlink(const char *a, const char *b) { return symlink(a, b); }
static int do_unlink(const char *a, const char *b) { return (void)b, unlink(a); }
static int do_rmdir(const char *a, const char *b) { return (void)b, rmdir(a); }
static int do_mkdir(const char *a, const char *b) { return (void)b, mkdir(a, 0777); }

static int do_touch(const char *a, const char *b) {
    struct timespec t = {.tv_sec = (time_t)atoll(b)};
    return utimensat(AT_FDCWD, a, (struct timespec[]){t, t}, 0);
}

static int do_print(const char *a, const char *b) {
    (void)b;
    int fd = open(a, O_RDONLY);
    if (fd < 0) return -1;
    char block[4096];
    ssize_t got;
    while ((got = read(fd, block, sizeof block)) > 0)
        if (fwrite(block, 1, (size_t)got, stdout) != (size_t)got) break;
    close(fd);
    return got == 0 ? fflush(stdout) : -1;
}

static const struct {
    const char *name, *second;
    int (*run)(const char *, const char *);
} verbs[] = {
    {"append", ":TEXT", do_append},   {"write", ":TEXT", do_write},   {"truncate", ":BYTES", do_truncate},
    {"rename", ":TO", do_rename},     {"link", ":LINK", do_link},     {"symlink", ":LINK", do_symlink},
    {"unlink", NULL, do_unlink},      {"mkdir", NULL, do_mkdir},      {"rmdir", NULL, do_rmdir},
    {"touch", ":SECONDS", do_touch},  {"print", NULL, do_print},
};
enum { VERBS = sizeof verbs / sizeof *verbs };

static int usage(void) {
    fputs("usage: overwrite STEP...\nsteps:\n", stderr);
    for (int i = 0; i < VERBS; i++)
        fprintf(stderr, "  %s:PATH%s\n", verbs[i].name, verbs[i].second ? verbs[i].second : "");
    return 2;
}

int main(int argc, char **argv) {
    if (argc < 2) return usage();
    for (int i = 1; i < argc; i++) {
        // The fields are cut out of a copy: the message shows the step whole.
        char *step = strdup(argv[i]);
        if (!step) return perror("overwrite"), 1;
        char *first = strchr(step, ':');
        if (!first) return usage();
        *first++ = 0;
        int v = 0;
        while (v < VERBS && strcmp(verbs[v].name, step) != 0) v++;
        if (v == VERBS) return usage();
        char *second = NULL;
        if (verbs[v].second) {
            second = strchr(first, ':');
            if (!second) return usage();
            *second++ = 0;
        }
        if (verbs[v].run(first, second) != 0) {
            fprintf(stderr, "overwrite: %s: %s\n", argv[i], strerror(errno));
            return 1;
        }
        free(step);
    }
    return 0;
}

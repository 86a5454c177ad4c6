// many_files COUNT DIR: fills DIR, made if it is missing, with COUNT files of 10 bytes each.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int fail(const char *path) {
    fprintf(stderr, "many_files: %s: %s\n", path, strerror(errno));
    return 1;
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fputs("usage: many_files COUNT DIR\n", stderr);
        return 2;
    }
    long count = atol(argv[1]);
    const char *dir = argv[2];
    if (mkdir(dir, 0777) != 0 && errno != EEXIST) return fail(dir);
    size_t room = strlen(dir) + 32;
    char *path = malloc(room);
    if (!path) return fail(dir);
    for (long i = 0; i < count; i++) {
        snprintf(path, room, "%s/f%07ld", dir, i);
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
        if (fd < 0) return fail(path);
        if (write(fd, "ten bytes\n", 10) != 10) return fail(path);
        close(fd);
    }
    free(path);
    printf("%ld files\n", count);
    return 0;
}

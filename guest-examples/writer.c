// writer FILE MIB: writes MIB mebibytes into FILE. When it is stopped it says after how many bytes.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char block[65536];

int main(int argc, char **argv) {
    if (argc != 3) {
        fputs("usage: writer FILE MIB\n", stderr);
        return 2;
    }
    long long size = atoll(argv[2]) << 20;
    // No run of equal bytes and no zeros: holes and compression must not flatter the result.
    for (size_t i = 0; i < sizeof block; i++) block[i] = (char)('!' + i * 7 % 94);
    int fd = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (fd < 0) {
        fprintf(stderr, "writer: %s: %s\n", argv[1], strerror(errno));
        return 1;
    }
    long long done = 0;
    while (done < size) {
        size_t want = sizeof block - (size_t)done % sizeof block;
        ssize_t put = write(fd, block + (size_t)done % sizeof block, want);
        if (put < 0) {
            fprintf(stderr, "writer: %s: %s after %lld bytes\n", argv[1], strerror(errno), done);
            return 1;
        }
        done += put;
    }
    if (close(fd) != 0) {
        fprintf(stderr, "writer: %s: %s\n", argv[1], strerror(errno));
        return 1;
    }
    printf("%lld bytes\n", done);
    return 0;
}

// spew MIB: writes MIB mebibytes of 64-byte lines to standard output, for limits on output.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char block[65536];

int main(int argc, char **argv) {
    if (argc != 2) {
        fputs("usage: spew MIB\n", stderr);
        return 2;
    }
    long long size = atoll(argv[1]) << 20;
    for (size_t i = 0; i < sizeof block; i++) block[i] = (char)(i % 64 == 63 ? '\n' : '0' + i % 64);
    for (long long done = 0; done < size;) {
        size_t at = (size_t)done % sizeof block;
        ssize_t put = write(STDOUT_FILENO, block + at, sizeof block - at);
        if (put < 0) {
            fprintf(stderr, "spew: standard output: %s after %lld bytes\n", strerror(errno), done);
            return 1;
        }
        done += put;
    }
    return 0;
}

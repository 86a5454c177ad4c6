// cat [FILE...]: copies files, or standard input, to standard output. `-` is standard input.
// Plain read and write, so that every byte value passes and the runtime sees one call per block.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char block[65536];

static int fail(const char *name) {
    fprintf(stderr, "cat: %s: %s\n", name, strerror(errno));
    return 1;
}

static int copy(int fd, const char *name) {
    for (;;) {
        ssize_t got = read(fd, block, sizeof block);
        if (got < 0) return fail(name);
        if (got == 0) return 0;
        // A pipe may take less than it is offered.
        for (ssize_t done = 0; done < got;) {
            ssize_t put = write(STDOUT_FILENO, block + done, (size_t)(got - done));
            if (put < 0) return fail("standard output");
            done += put;
        }
    }
}

int main(int argc, char **argv) {
    if (argc < 2) return copy(STDIN_FILENO, "standard input");
    int status = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-") == 0) {
            status |= copy(STDIN_FILENO, "standard input");
            continue;
        }
        int fd = open(argv[i], O_RDONLY);
        if (fd < 0) {
            status |= fail(argv[i]);
            continue;
        }
        status |= copy(fd, argv[i]);
        close(fd);
    }
    return status;
}

// cat: copies files to standard output.
#define _XOPEN_SOURCE 700
#include "demo.h"

const char program[] = "cat";
const char help[] =
    "usage: cat [-u] [FILE...]\n"
    "\n"
    "Copies each FILE, or standard input, to standard output. `-` is standard input.\n"
    "\n"
    "  -u      nothing is held back; this is always so\n"
    "  --help  this text\n"
    "\n"
    "Exits 0, or 1 if a file could not be read.\n";

static char block[65536];

static int copy(int fd, const char *name) {
    for (;;) {
        ssize_t got = read_some(fd, block, sizeof block);
        if (got == 0) return 0;
        if (got < 0) {
            complain_errno(name);
            return 1;
        }
        if (write_all(STDOUT_FILENO, block, (size_t)got) != 0) {
            complain_errno("standard output");
            exit(1);
        }
    }
}

int main(int argc, char **argv) {
    int i = 1;
    for (; i < argc && argv[i][0] == '-' && argv[i][1]; i++) {
        if (strcmp(argv[i], "--help") == 0) show_help();
        if (strcmp(argv[i], "--") == 0) {
            i++;
            break;
        }
        if (strspn(argv[i] + 1, "u") != strlen(argv[i] + 1)) usage_error(1, argv[i], "unknown option");
    }
    if (i >= argc) return copy(STDIN_FILENO, "standard input");
    int status = 0;
    for (; i < argc; i++) {
        if (strcmp(argv[i], "-") == 0) {
            status |= copy(STDIN_FILENO, "standard input");
            continue;
        }
        int fd = open_input(argv[i]);
        if (fd < 0) {
            status = 1;
            continue;
        }
        status |= copy(fd, argv[i]);
        close(fd);
    }
    return status;
}

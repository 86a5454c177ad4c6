// Sets the execute permission of files with the module `belljar`, or tells it.
//
//   chmod [-h] +x|-x|=|f+x|f-x FILE...
//
// `=` prints a line for each file: 0 or 1. f+x and f-x open the file for reading and set it through the descriptor.
// With -h, symbolic links are not followed. The exit status is the first errno.
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../../guest-examples/include/belljar.h"

// The root and the current directory, which every module starts with.
enum { ROOT = 3, CURRENT_DIR = 4 };

static int32_t through_descriptor(const char *path, uint32_t executable) {
    int fd = open(path, O_RDONLY);
    if (fd < 0) return 44;
    int32_t error = belljar_fd_executable_set((uint32_t)fd, executable);
    close(fd);
    return error;
}

static int32_t change(const char *what, const char *path, uint32_t flags) {
    uint32_t dir = *path == '/' ? ROOT : CURRENT_DIR;
    const char *relative = path + (*path == '/');
    uint32_t len = (uint32_t)strlen(relative), executable = strchr(what, '+') != NULL;
    if (*what == 'f') return through_descriptor(path, executable);
    if (*what != '=') return belljar_path_executable_set(dir, flags, relative, len, executable);
    int32_t error = belljar_path_executable_get(dir, flags, relative, len, &executable);
    if (!error) printf("%u\n", (unsigned)executable);
    return error;
}

int main(int argc, char **argv) {
    int at = 1;
    uint32_t flags = BELLJAR_LOOKUP_FOLLOW;
    if (at < argc && strcmp(argv[at], "-h") == 0) {
        flags = 0;
        at++;
    }
    if (at + 1 >= argc) return 64;
    const char *what = argv[at];
    while (++at < argc) {
        int32_t error = change(what, argv[at], flags);
        if (error) {
            fprintf(stderr, "chmod: %s: errno %d\n", argv[at], (int)error);
            return error;
        }
    }
    return 0;
}

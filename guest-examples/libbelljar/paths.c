// Paths and the current directory, as the kernel has it.
#include "internal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wasi/libc-find-relpath.h>

bool belljar_has_root(void) {
    static int known = -1;
    if (known < 0) {
        __wasi_prestat_t found;
        uint8_t name;
        known = __wasi_fd_prestat_get(BELLJAR_ROOT_FD, &found) == 0 && found.u.dir.pr_name_len == 1 &&
                __wasi_fd_prestat_dir_name(BELLJAR_ROOT_FD, &name, 1) == 0 && name == '/';
    }
    return known;
}

static char *current_dir; // what the kernel says, once somebody has asked

static const char *look_up_current_dir(void) {
    if (!belljar_has_root()) return "/";
    if (current_dir) return current_dir;
    for (uint32_t room = 256; room < 1u << 20; room *= 2) {
        char *path = malloc(room + 1);
        if (!path) break;
        uint32_t len;
        int32_t error = belljar_proc_getcwd(path, room, &len);
        if (error == 0) {
            path[len] = '\0';
            return current_dir = path;
        }
        free(path);
        if (error != ERANGE) {
            errno = error;
            return NULL;
        }
    }
    errno = ENOMEM;
    return NULL;
}

// wasi-libc has one buffer for both paths of `link`, so that the second would overwrite the first. Each path gets the
// next of these instead, which stays as it is while the call is made.
enum { RELATIVE_PATHS = 4 };

static struct {
    char *text;
    size_t size;
} relative_paths[RELATIVE_PATHS];

// A buffer of at least `size` bytes, or NULL.
static char *next_relative_path(size_t size) {
    static unsigned next;
    unsigned at = next++ % RELATIVE_PATHS;
    if (size > relative_paths[at].size) {
        char *grown = realloc(relative_paths[at].text, size);
        if (!grown) return NULL;
        relative_paths[at].text = grown;
        relative_paths[at].size = size;
    }
    return relative_paths[at].text;
}

// wasi-libc asks this for the directory that it is to look `path` up from, and what remains of `path` then.
int __wasilibc_find_relpath_alloc(const char *path, const char **prefix, char **rest, size_t *rest_size,
                                  int can_realloc) {
    const char *from = "", *relative = path;
    int fd = BELLJAR_ROOT_FD;
    if (*path == '\0') {
        errno = ENOENT;
        return -1;
    }
    *prefix = "";
    if (!belljar_has_root()) {
        fd = __wasilibc_find_abspath(path, prefix, &relative);
        if (fd < 0) return -1;
    } else if (*path != '/') {
        from = look_up_current_dir();
        if (!from) return -1;
        from++;
    }
    while (*relative == '/') relative++;
    // Above the root is the root.
    while (belljar_has_root() && !*from && strncmp(relative, "..", 2) == 0 && (!relative[2] || relative[2] == '/')) {
        relative += 2;
        while (*relative == '/') relative++;
    }
    if (*relative == '\0') relative = ".";
    size_t from_len = strlen(from), len = strlen(relative);
    size_t size = from_len + (from_len > 0) + len + 1;
    if (can_realloc) {
        *rest = next_relative_path(size);
        *rest_size = *rest ? size : 0;
    }
    if (!*rest || size > *rest_size) {
        errno = can_realloc ? ENOMEM : ERANGE;
        return -1;
    }
    char *to = *rest;
    memcpy(to, from, from_len);
    to += from_len;
    if (from_len) *to++ = '/';
    memcpy(to, relative, len + 1);
    return fd;
}

int chdir(const char *path) {
    if (*path == '\0') return belljar_done(ENOENT);
    if (belljar_done(belljar_proc_chdir(path, strlen(path)))) return -1;
    free(current_dir);
    current_dir = NULL;
    return 0;
}

char *getcwd(char *buf, size_t size) {
    if (buf && size == 0) {
        errno = EINVAL;
        return NULL;
    }
    const char *path = look_up_current_dir();
    if (!path) return NULL;
    size_t needed = strlen(path) + 1;
    if (!buf) {
        buf = malloc(needed > size ? needed : size);
        if (!buf) return NULL;
    } else if (size < needed) {
        errno = ERANGE;
        return NULL;
    }
    return memcpy(buf, path, needed);
}

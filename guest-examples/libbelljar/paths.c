// Paths and the current directory, as the kernel has it: a path that begins with a slash is looked up from the root,
// another from the current directory.
#include "internal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wasi/libc-find-relpath.h>

static bool begins_with_root(void) {
    __wasi_prestat_t found;
    uint8_t name;
    return __wasi_fd_prestat_get(BELLJAR_ROOT_FD, &found) == 0 && found.u.dir.pr_name_len == 1 &&
           __wasi_fd_prestat_dir_name(BELLJAR_ROOT_FD, &name, 1) == 0 && name == '/';
}

bool belljar_has_root(void) {
    static int known = -1;
    if (known < 0) known = begins_with_root() && belljar_paths_exact(1) == 0;
    return known;
}

static bool is_above(const char *path) {
    return strncmp(path, "..", 2) == 0 && (!path[2] || path[2] == '/');
}

static bool is_at_root(void) {
    char path;
    uint32_t len;
    return belljar_proc_getcwd(&path, 1, &len) == 0 && len == 1;
}

// wasi-libc asks this for the directory that it is to look `path` up from, and what remains of `path` then. What
// remains is a part of `path`, so that the two paths of `link` do not get into each other's way.
int __wasilibc_find_relpath_alloc(const char *path, const char **prefix, char **rest, size_t *rest_size,
                                  int can_realloc) {
    const char *relative = path;
    int fd = *path == '/' ? BELLJAR_ROOT_FD : BELLJAR_CURRENT_FD;
    if (*path == '\0') {
        errno = ENOENT;
        return -1;
    }
    *prefix = "";
    if (!belljar_has_root()) {
        fd = __wasilibc_find_abspath(path, prefix, &relative);
        if (fd < 0) return -1;
    }
    while (*relative == '/') relative++;
    // Above the root is the root.
    if (is_above(relative) && belljar_has_root() && (fd == BELLJAR_ROOT_FD || is_at_root())) {
        while (is_above(relative)) {
            relative += 2;
            while (*relative == '/') relative++;
        }
    }
    if (*relative == '\0') relative = ".";
    if (can_realloc) {
        *rest = (char *)relative;
        *rest_size = 0;
        return fd;
    }
    size_t size = strlen(relative) + 1;
    if (!*rest || size > *rest_size) {
        errno = ERANGE;
        return -1;
    }
    memcpy(*rest, relative, size);
    return fd;
}

int chdir(const char *path) {
    if (*path == '\0') return belljar_done(ENOENT);
    return belljar_done(belljar_proc_chdir(path, strlen(path)));
}

// Writes the path of the current directory and a closing NUL. Answers 0 or an errno.
static int32_t get_current_dir(char *buf, size_t size) {
    uint32_t len = 1;
    if (!belljar_has_root()) {
        if (size < 2) return ERANGE;
        *buf = '/';
    } else {
        int32_t error = belljar_proc_getcwd(buf, size - 1, &len);
        if (error) return error;
    }
    buf[len] = '\0';
    return 0;
}

char *getcwd(char *buf, size_t size) {
    if (size == 0 && buf) {
        errno = EINVAL;
        return NULL;
    }
    if (buf || size) {
        char *made = buf ? NULL : malloc(size);
        if (!buf && !made) return NULL;
        int32_t error = get_current_dir(buf ? buf : made, size);
        if (!error) return buf ? buf : made;
        free(made);
        errno = error;
        return NULL;
    }
    for (size_t room = 256;; room *= 2) {
        char *made = malloc(room);
        if (!made) return NULL;
        int32_t error = get_current_dir(made, room);
        if (!error) return made;
        free(made);
        if (error != ERANGE) {
            errno = error;
            return NULL;
        }
    }
}

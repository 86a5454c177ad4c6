// walk [DIR]: prints `PATH<TAB>TYPE<TAB>SIZE` for everything below DIR (default `.`).
// Entries come in the order in which the system lists them: that order is what a test wants to see.
// A directory's own size is printed as `-`, because each file system makes up its own.
#define _XOPEN_SOURCE 700
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int status;

static void complain(const char *path) {
    fprintf(stderr, "walk: %s: %s\n", path, strerror(errno));
    status = 1;
}

static char *join(const char *dir, const char *name) {
    size_t a = strlen(dir), b = strlen(name);
    char *path = malloc(a + b + 2);
    if (!path) {
        complain(dir);
        exit(1);
    }
    memcpy(path, dir, a);
    path[a] = '/';
    memcpy(path + a + 1, name, b + 1);
    return path;
}

static void walk(const char *dir);

static void visit(const char *path) {
    struct stat st;
    if (lstat(path, &st) != 0) {
        complain(path);
    } else if (S_ISDIR(st.st_mode)) {
        printf("%s\tdir\t-\n", path);
        walk(path);
    } else {
        const char *type = S_ISREG(st.st_mode) ? "file" : S_ISLNK(st.st_mode) ? "link" : "other";
        printf("%s\t%s\t%lld\n", path, type, (long long)st.st_size);
    }
}

static void walk(const char *dir) {
    DIR *d = opendir(dir);
    if (!d) {
        complain(dir);
        return;
    }
    // All paths first, then the visits: a deep tree must not hold one descriptor per level.
    char **paths = NULL;
    size_t count = 0, room = 0;
    for (;;) {
        errno = 0;
        struct dirent *entry = readdir(d);
        if (!entry) break;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        if (count == room) {
            room = room ? room * 2 : 16;
            char **grown = realloc(paths, room * sizeof *paths);
            if (!grown) {
                complain(dir);
                exit(1);
            }
            paths = grown;
        }
        paths[count++] = join(dir, entry->d_name);
    }
    if (errno) complain(dir);
    closedir(d);
    for (size_t i = 0; i < count; i++) {
        visit(paths[i]);
        free(paths[i]);
    }
    free(paths);
}

int main(int argc, char **argv) {
    walk(argc > 1 ? argv[1] : ".");
    return status;
}

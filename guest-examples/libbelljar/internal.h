// What the files of libbelljar share.
#ifndef LIBBELLJAR_INTERNAL_H
#define LIBBELLJAR_INTERNAL_H

#define _GNU_SOURCE
#include <belljar.h>

#include <errno.h>
#include <spawn.h>
#include <stdbool.h>
#include <sys/types.h>
#include <wasi/api.h>

// The numbers of the directories that every process starts with.
enum { BELLJAR_ROOT_FD = 3, BELLJAR_CURRENT_FD = 4 };

// Sets errno to what a call answered. -1 unless that was success.
static inline int belljar_done(int32_t error) {
    if (error == 0) return 0;
    errno = error;
    return -1;
}

// Closes `fd`, which may not be open.
static inline void belljar_let_go(int fd) {
    __wasi_errno_t ignored = __wasi_fd_close(fd);
    (void)ignored;
}

// The number of texts in a list that a null pointer closes.
static inline uint32_t belljar_count(char *const list[]) {
    uint32_t count = 0;
    while (list && list[count]) count++;
    return count;
}

// Whether descriptor 3 is the root of the namespace. Otherwise the program was given separate directories, and
// wasi-libc finds its way among them.
bool belljar_has_root(void);

// Whether SIGPIPE does not end this process.
bool belljar_survives_sigpipe(void);

// posix_spawn, or, if it `searches`, posix_spawnp.
int belljar_start(pid_t *pid, const char *program, bool searches, const posix_spawn_file_actions_t *actions,
                  const posix_spawnattr_t *attr, char *const argv[], char *const envp[]);

#endif

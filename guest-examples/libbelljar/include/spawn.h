// <spawn.h>: how children begin.
#ifndef BELLJAR_SPAWN_H
#define BELLJAR_SPAWN_H

#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

// What is done to the child's descriptors, in order.
typedef struct {
    struct belljar_file_action *actions;
    int count, room;
} posix_spawn_file_actions_t;

// There are no process groups, sessions, users, priorities or signal masks to set: their flags are accepted, since
// every process has what they ask for. POSIX_SPAWN_SETSIGDEF gives the child back the default for SIGPIPE.
typedef struct {
    short flags;
} posix_spawnattr_t;

#define POSIX_SPAWN_RESETIDS 1
#define POSIX_SPAWN_SETPGROUP 2
#define POSIX_SPAWN_SETSIGDEF 4
#define POSIX_SPAWN_SETSIGMASK 8
#define POSIX_SPAWN_SETSCHEDPARAM 16
#define POSIX_SPAWN_SETSCHEDULER 32

// All answer 0 or an errno, and leave errno alone.
int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attr,
                char *const argv[], char *const envp[]);
int posix_spawnp(pid_t *pid, const char *name, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attr,
                 char *const argv[], char *const envp[]);

int posix_spawn_file_actions_init(posix_spawn_file_actions_t *actions);
int posix_spawn_file_actions_destroy(posix_spawn_file_actions_t *actions);
int posix_spawn_file_actions_addclose(posix_spawn_file_actions_t *actions, int fd);
int posix_spawn_file_actions_adddup2(posix_spawn_file_actions_t *actions, int fd, int to);
int posix_spawn_file_actions_addopen(posix_spawn_file_actions_t *actions, int fd, const char *path, int flags,
                                     mode_t mode);
int posix_spawn_file_actions_addchdir(posix_spawn_file_actions_t *actions, const char *path);
int posix_spawn_file_actions_addchdir_np(posix_spawn_file_actions_t *actions, const char *path);

int posix_spawnattr_init(posix_spawnattr_t *attr);
int posix_spawnattr_destroy(posix_spawnattr_t *attr);
int posix_spawnattr_setflags(posix_spawnattr_t *attr, short flags);
int posix_spawnattr_getflags(const posix_spawnattr_t *attr, short *flags);
int posix_spawnattr_setpgroup(posix_spawnattr_t *attr, pid_t group);
int posix_spawnattr_getpgroup(const posix_spawnattr_t *attr, pid_t *group);

#ifdef __cplusplus
}
#endif

#endif

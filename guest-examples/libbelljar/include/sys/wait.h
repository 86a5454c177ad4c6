// <sys/wait.h>: how children ended.
#ifndef BELLJAR_SYS_WAIT_H
#define BELLJAR_SYS_WAIT_H

#include <sys/types.h>

// Nothing is ever stopped or continued: WUNTRACED and WCONTINUED change nothing.
#define WNOHANG 1
#define WUNTRACED 2
#define WCONTINUED 8

// A status is the low byte of the exit code, shifted by 8, or the number of the signal.
#define WIFEXITED(status) (((status) & 0x7f) == 0)
#define WEXITSTATUS(status) (((status) >> 8) & 0xff)
#define WIFSIGNALED(status) (((status) & 0x7f) != 0)
#define WTERMSIG(status) ((status) & 0x7f)
#define WIFSTOPPED(status) ((void)(status), 0)
#define WSTOPSIG(status) ((void)(status), 0)
#define WIFCONTINUED(status) ((void)(status), 0)
#define WCOREDUMP(status) ((void)(status), 0)

#ifdef __cplusplus
extern "C" {
#endif

pid_t wait(int *status);
// A pid of 0 or -1 is any child; one below that fails with ECHILD, as there are no process groups.
pid_t waitpid(pid_t pid, int *status, int options);

#ifdef __cplusplus
}
#endif

#endif

// <unistd.h> of wasi-libc, and what libbelljar adds to it.
#ifndef _WASI_EMULATED_GETPID
#define _WASI_EMULATED_GETPID // libbelljar has getpid, and it is the real one
#endif
#include_next <unistd.h>

#ifndef BELLJAR_UNISTD_H
#define BELLJAR_UNISTD_H

#ifdef __cplusplus
extern "C" {
#endif

int pipe(int fds[2]);
int pipe2(int fds[2], int flags);
int dup(int fd);
int dup2(int fd, int to);
int dup3(int fd, int to, int flags);
void closefrom(int lowest);
pid_t getppid(void);

// Each starts the program, waits for it, and ends as it did: the process keeps its number and its children, and the
// program gets a number of its own. It returns only if the program cannot be started.
int execl(const char *path, const char *arg, ...);
int execlp(const char *name, const char *arg, ...);
int execv(const char *path, char *const argv[]);
int execve(const char *path, char *const argv[], char *const envp[]);
int execvp(const char *name, char *const argv[]);
int execvpe(const char *name, char *const argv[], char *const envp[]);

extern char **environ;

#ifdef __cplusplus
}
#endif

#endif

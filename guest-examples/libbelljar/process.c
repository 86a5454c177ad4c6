// Signals, waiting, and exec.
#include "internal.h"

#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef void handler(int);

static handler *handlers[32];

void __SIG_IGN(int sig) {
    (void)sig;
}

_Noreturn void __SIG_ERR(int sig) {
    (void)sig;
    abort();
}

bool belljar_survives_sigpipe(void) {
    return handlers[SIGPIPE] != SIG_DFL;
}

int kill(pid_t pid, int sig) {
    if (pid <= 0) return belljar_done(ENOTSUP);
    return belljar_done(belljar_proc_kill(pid, sig));
}

handler *signal(int sig, handler *to) {
    if (sig < 1 || sig > 31 || sig == SIGKILL || sig == SIGSTOP) {
        errno = EINVAL;
        return SIG_ERR;
    }
    handler *before = handlers[sig];
    handlers[sig] = to;
    if (sig == SIGPIPE) belljar_sigpipe_ignore(to != SIG_DFL);
    return before;
}

int raise(int sig) {
    if (sig < 1 || sig > 31 || handlers[sig] == SIG_DFL) return kill(getpid(), sig);
    handlers[sig](sig);
    return 0;
}

pid_t getpid(void) {
    return belljar_proc_id();
}

pid_t getppid(void) {
    return belljar_proc_parent();
}

pid_t waitpid(pid_t pid, int *status, int options) {
    struct belljar_wait_result result;
    if (options & ~(WNOHANG | WUNTRACED | WCONTINUED)) return belljar_done(EINVAL);
    if (pid < -1) return belljar_done(ECHILD);
    uint32_t which = pid > 0 ? pid : 0;
    if (belljar_done(belljar_proc_wait(which, options & WNOHANG ? BELLJAR_WAIT_NOHANG : 0, &result))) return -1;
    if (status && result.pid) *status = result.how == BELLJAR_EXITED ? (result.code & 0xff) << 8 : result.code;
    return result.pid;
}

pid_t wait(int *status) {
    return waitpid(-1, status, 0);
}

// Ends as `child` does, which nothing of this process is to hold up: its ends of pipes least of all.
static _Noreturn void end_as(pid_t child) {
    int status;
    belljar_proc_become(child);
    belljar_fd_close_from(0);
    if (waitpid(child, &status, 0) < 0) _Exit(127);
    if (WIFSIGNALED(status)) belljar_proc_kill(belljar_proc_id(), WTERMSIG(status));
    _Exit(WEXITSTATUS(status));
}

static int execute(const char *program, bool searches, char *const argv[], char *const envp[]) {
    pid_t child;
    int error = belljar_start(&child, program, searches, NULL, NULL, argv, envp);
    if (error == ENOEXEC && searches && strchr(program, '/')) {
        // A script that does not name its interpreter is the shell's.
        uint32_t count = belljar_count(argv);
        char **args = calloc(count + 3, sizeof *args);
        if (!args) return belljar_done(ENOMEM);
        args[0] = "sh";
        args[1] = (char *)program;
        for (uint32_t i = 1; i < count; i++) args[i + 1] = argv[i];
        error = belljar_start(&child, "sh", true, NULL, NULL, args, envp);
        free(args);
    }
    if (error) return belljar_done(error);
    end_as(child);
}

int execve(const char *path, char *const argv[], char *const envp[]) {
    return execute(path, false, argv, envp);
}

int execv(const char *path, char *const argv[]) {
    return execute(path, false, argv, environ);
}

int execvpe(const char *name, char *const argv[], char *const envp[]) {
    return execute(name, true, argv, envp);
}

int execvp(const char *name, char *const argv[]) {
    return execute(name, true, argv, environ);
}

static int execute_list(const char *program, bool searches, const char *arg, va_list list) {
    va_list again;
    va_copy(again, list);
    size_t count = arg != NULL;
    while (count && va_arg(again, char *)) count++;
    va_end(again);
    char **argv = calloc(count + 1, sizeof *argv);
    if (!argv) return belljar_done(ENOMEM);
    if (count) argv[0] = (char *)arg;
    for (size_t i = 1; i < count; i++) argv[i] = va_arg(list, char *);
    int result = execute(program, searches, argv, environ);
    free(argv);
    return result;
}

int execl(const char *path, const char *arg, ...) {
    va_list list;
    va_start(list, arg);
    int result = execute_list(path, false, arg, list);
    va_end(list);
    return result;
}

int execlp(const char *name, const char *arg, ...) {
    va_list list;
    va_start(list, arg);
    int result = execute_list(name, true, arg, list);
    va_end(list);
    return result;
}

// libbelljar: POSIX processes, pipes and descriptors for C programs, on the import module `belljar`.
//
// Put include/ here and guest-examples/include before the headers of the C library, and this file on the command line
// beside the program's own; docs/guest-abi.md shows how. What is not called is not linked.
//
// A program that is linked with it tells /tmp/x from tmp/x, which wasi-libc alone does not: descriptor 3 is the root
// and descriptor 4 the current directory, and neither is there for the program to close or to replace.
#define _GNU_SOURCE
#include <belljar.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wasi/api.h>
#include <wasi/libc-find-relpath.h>
#include <wasi/libc.h>

// The numbers of the directories that every process starts with.
enum { ROOT_FD = 3, CURRENT_FD = 4 };

// The status of a command that could not be run, as a shell has it.
enum { NOT_FOUND = 127 };

// Sets errno to what a call answered. -1 unless that was success.
static int done(int32_t error) {
    if (error == 0) return 0;
    errno = error;
    return -1;
}

// --- paths -------------------------------------------------------------------------------------------------------------

// Whether descriptor 3 is the root of the namespace. Otherwise the program was given separate directories, and
// wasi-libc finds its way among them.
static bool has_root(void) {
    static int known = -1;
    if (known < 0) {
        __wasi_prestat_t found;
        uint8_t name;
        known = __wasi_fd_prestat_get(ROOT_FD, &found) == 0 && found.u.dir.pr_name_len == 1 &&
                __wasi_fd_prestat_dir_name(ROOT_FD, &name, 1) == 0 && name == '/';
    }
    return known;
}

static bool is_reserved(int fd) {
    return (fd == ROOT_FD || fd == CURRENT_FD) && has_root();
}

static char *current_dir; // what the kernel says, once somebody has asked

static const char *look_up_current_dir(void) {
    if (!has_root()) return "/";
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

// wasi-libc asks this for the directory that it is to look `path` up from, and what remains of `path` then.
int __wasilibc_find_relpath_alloc(const char *path, const char **prefix, char **rest, size_t *rest_size,
                                  int can_realloc) {
    const char *from = "", *relative = path;
    int fd = ROOT_FD;
    if (*path == '\0') {
        errno = ENOENT;
        return -1;
    }
    *prefix = "";
    if (!has_root()) {
        fd = __wasilibc_find_abspath(path, prefix, &relative);
        if (fd < 0) return -1;
    } else if (*path != '/') {
        from = look_up_current_dir();
        if (!from) return -1;
        from++;
    }
    while (*relative == '/') relative++;
    if (*relative == '\0') relative = ".";
    size_t from_len = strlen(from), len = strlen(relative);
    size_t size = from_len + (from_len > 0) + len + 1;
    if (size > *rest_size) {
        char *grown = can_realloc ? realloc(*rest, size) : NULL;
        if (!grown) {
            errno = can_realloc ? ENOMEM : ERANGE;
            return -1;
        }
        *rest = grown;
        *rest_size = size;
    }
    char *to = *rest;
    memcpy(to, from, from_len);
    to += from_len;
    if (from_len) *to++ = '/';
    memcpy(to, relative, len + 1);
    return fd;
}

int chdir(const char *path) {
    if (*path == '\0') return done(ENOENT);
    if (done(belljar_proc_chdir(path, strlen(path)))) return -1;
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

// --- descriptors -------------------------------------------------------------------------------------------------------

int pipe2(int fds[2], int flags) {
    uint32_t ends[2];
    if (flags & ~(O_CLOEXEC | O_NONBLOCK)) return done(EINVAL);
    if (flags & O_NONBLOCK) return done(ENOTSUP);
    if (done(belljar_pipe(flags & O_CLOEXEC ? BELLJAR_FD_CLOEXEC : 0, ends))) return -1;
    fds[0] = ends[0];
    fds[1] = ends[1];
    return 0;
}

int pipe(int fds[2]) {
    return pipe2(fds, 0);
}

static int dup_from(int fd, int lowest, uint32_t flags) {
    uint32_t copy;
    return done(belljar_fd_dup(fd, lowest, flags, &copy)) ? -1 : (int)copy;
}

int dup(int fd) {
    return dup_from(fd, 0, 0);
}

int dup2(int fd, int to) {
    if (is_reserved(to)) return done(EBADF);
    return done(belljar_fd_dup2(fd, to)) ? -1 : to;
}

int dup3(int fd, int to, int flags) {
    if (fd == to || flags & ~O_CLOEXEC) return done(EINVAL);
    if (dup2(fd, to) < 0) return -1;
    return flags && done(belljar_fd_cloexec_set(to, BELLJAR_FD_CLOEXEC)) ? -1 : to;
}

// Replaces wasi-libc's: some programs close every number that there could be.
int close(int fd) {
    return done(is_reserved(fd) ? EBADF : __wasi_fd_close(fd));
}

// Closes `fd`, which may not be open.
static void let_go(int fd) {
    __wasi_errno_t ignored = __wasi_fd_close(fd);
    (void)ignored;
}

static int closed_on_exec(int fd, int flags) {
    if (fd >= 0 && flags & O_CLOEXEC) belljar_fd_cloexec_set(fd, BELLJAR_FD_CLOEXEC);
    return fd;
}

int open(const char *path, int flags, ...) {
    return closed_on_exec(__wasilibc_open_nomode(path, flags), flags);
}

int openat(int dir, const char *path, int flags, ...) {
    return closed_on_exec(__wasilibc_openat_nomode(dir, path, flags), flags);
}

static int access_of(const __wasi_fdstat_t *stat) {
    bool reads = stat->fs_rights_base & (__WASI_RIGHTS_FD_READ | __WASI_RIGHTS_FD_READDIR);
    bool writes = stat->fs_rights_base & __WASI_RIGHTS_FD_WRITE;
    return !reads && !writes ? O_SEARCH : (reads ? O_RDONLY : 0) | (writes ? O_WRONLY : 0);
}

// Replaces wasi-libc's, for which every descriptor is closed on exec and none can be copied.
int fcntl(int fd, int command, ...) {
    va_list list;
    va_start(list, command);
    int argument = command == F_GETFD || command == F_GETFL ? 0 : va_arg(list, int);
    va_end(list);
    switch (command) {
        case F_DUPFD: return dup_from(fd, argument, 0);
        case F_DUPFD_CLOEXEC: return dup_from(fd, argument, BELLJAR_FD_CLOEXEC);
        case F_GETFD: {
            uint32_t flag;
            return done(belljar_fd_cloexec_get(fd, &flag)) ? -1 : (int)flag;
        }
        case F_SETFD: return done(belljar_fd_cloexec_set(fd, argument & FD_CLOEXEC));
        case F_GETFL: {
            __wasi_fdstat_t stat;
            return done(__wasi_fd_fdstat_get(fd, &stat)) ? -1 : stat.fs_flags | access_of(&stat);
        }
        case F_SETFL: return done(__wasi_fd_fdstat_set_flags(fd, argument & 0xfff));
        default: return done(EINVAL);
    }
}

int mkstemp(char *path) {
    static const char letters[] = "0123456789abcdefghijklmnopqrstuv";
    size_t len = strlen(path);
    if (len < 6 || strcmp(path + len - 6, "XXXXXX") != 0) return done(EINVAL);
    for (int attempt = 0; attempt < 100; attempt++) {
        unsigned char bytes[6];
        if (getentropy(bytes, sizeof bytes)) return -1;
        for (int i = 0; i < 6; i++) path[len - 6 + i] = letters[bytes[i] % 32];
        int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
        if (fd >= 0 || errno != EEXIST) return fd;
    }
    return -1;
}

// --- signals -----------------------------------------------------------------------------------------------------------

typedef void handler(int);

static handler *handlers[32];

void __SIG_IGN(int sig) {
    (void)sig;
}

_Noreturn void __SIG_ERR(int sig) {
    (void)sig;
    abort();
}

int kill(pid_t pid, int sig) {
    if (pid <= 0) return done(ENOTSUP);
    return done(belljar_proc_kill(pid, sig));
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

// --- processes ---------------------------------------------------------------------------------------------------------

pid_t getpid(void) {
    return belljar_proc_id();
}

pid_t getppid(void) {
    return belljar_proc_parent();
}

// A child's descriptor is made, or closed; or its current directory is set.
struct belljar_file_action {
    enum { ACTION_CLOSE, ACTION_DUP, ACTION_OPEN, ACTION_CHDIR } kind;
    int fd, to, flags;
    char *path;
};

int posix_spawn_file_actions_init(posix_spawn_file_actions_t *actions) {
    *actions = (posix_spawn_file_actions_t){0};
    return 0;
}

int posix_spawn_file_actions_destroy(posix_spawn_file_actions_t *actions) {
    for (int i = 0; i < actions->count; i++) free(actions->actions[i].path);
    free(actions->actions);
    return posix_spawn_file_actions_init(actions);
}

static int add(posix_spawn_file_actions_t *actions, struct belljar_file_action action) {
    if (action.fd < 0 || action.to < 0) return EBADF;
    if (actions->count == actions->room) {
        int room = actions->room ? 2 * actions->room : 8;
        struct belljar_file_action *grown = realloc(actions->actions, room * sizeof action);
        if (!grown) return ENOMEM;
        actions->actions = grown;
        actions->room = room;
    }
    if (action.path && !(action.path = strdup(action.path))) return ENOMEM;
    actions->actions[actions->count++] = action;
    return 0;
}

int posix_spawn_file_actions_addclose(posix_spawn_file_actions_t *actions, int fd) {
    return add(actions, (struct belljar_file_action){.kind = ACTION_CLOSE, .fd = fd});
}

int posix_spawn_file_actions_adddup2(posix_spawn_file_actions_t *actions, int fd, int to) {
    return add(actions, (struct belljar_file_action){.kind = ACTION_DUP, .fd = fd, .to = to});
}

int posix_spawn_file_actions_addopen(posix_spawn_file_actions_t *actions, int fd, const char *path, int flags,
                                     mode_t mode) {
    (void)mode; // preview1 has no modes
    return add(actions, (struct belljar_file_action){.kind = ACTION_OPEN, .to = fd, .flags = flags,
                                                     .path = (char *)path});
}

int posix_spawn_file_actions_addchdir(posix_spawn_file_actions_t *actions, const char *path) {
    return add(actions, (struct belljar_file_action){.kind = ACTION_CHDIR, .path = (char *)path});
}

int posix_spawn_file_actions_addchdir_np(posix_spawn_file_actions_t *actions, const char *path) {
    return posix_spawn_file_actions_addchdir(actions, path);
}

int posix_spawnattr_init(posix_spawnattr_t *attr) {
    *attr = (posix_spawnattr_t){0};
    return 0;
}

int posix_spawnattr_destroy(posix_spawnattr_t *attr) {
    (void)attr;
    return 0;
}

int posix_spawnattr_setflags(posix_spawnattr_t *attr, short flags) {
    if (flags & ~63) return EINVAL;
    attr->flags = flags;
    return 0;
}

int posix_spawnattr_getflags(const posix_spawnattr_t *attr, short *flags) {
    *flags = attr->flags;
    return 0;
}

int posix_spawnattr_setpgroup(posix_spawnattr_t *attr, pid_t group) {
    (void)attr;
    (void)group;
    return 0;
}

int posix_spawnattr_getpgroup(const posix_spawnattr_t *attr, pid_t *group) {
    (void)attr;
    *group = 0;
    return 0;
}

// A request as it is put together, and what must be let go of when it has been made.
struct request {
    struct belljar_spawn spawn;
    struct belljar_fd_action *actions;
    int *opened;
    int opened_count;
    struct belljar_text *texts;
    char *dir; // the child's current directory, if it is another
};

static void release(struct request *request) {
    for (int i = 0; i < request->opened_count; i++) let_go(request->opened[i]);
    free(request->opened);
    free(request->actions);
    free(request->texts);
    free(request->dir);
}

static uint32_t count_of(char *const list[]) {
    uint32_t count = 0;
    while (list && list[count]) count++;
    return count;
}

// Whether the child's `fd` is still the parent's before action `index`.
static bool is_inherited(const posix_spawn_file_actions_t *actions, int index, int fd) {
    for (int i = 0; i < index; i++) {
        const struct belljar_file_action *action = &actions->actions[i];
        if ((action->kind == ACTION_CLOSE ? action->fd : action->to) == fd && action->kind != ACTION_CHDIR) return false;
    }
    return true;
}

// `path` as it is from `dir`, which is NULL for the current directory. NULL if there is no memory.
static char *from_dir(const char *dir, const char *path) {
    if (!dir || *path == '/') return strdup(path);
    char *joined;
    return asprintf(&joined, "%s/%s", dir, path) < 0 ? NULL : joined;
}

// The kernel closes what is closed on exec before it begins with the actions, POSIX afterwards: so what is the
// parent's is taken from the parent. Files are opened by the parent, and only handed on.
static int set_actions(struct request *request, const posix_spawn_file_actions_t *actions) {
    if (!actions || actions->count == 0) return 0;
    request->actions = calloc(actions->count, sizeof *request->actions);
    request->opened = calloc(actions->count, sizeof *request->opened);
    if (!request->actions || !request->opened) return ENOMEM;
    uint32_t count = 0;
    for (int i = 0; i < actions->count; i++) {
        const struct belljar_file_action *action = &actions->actions[i];
        struct belljar_fd_action *made = &request->actions[count];
        switch (action->kind) {
            case ACTION_CLOSE: *made = (struct belljar_fd_action){BELLJAR_FD_CLOSE, action->fd, 0}; break;
            case ACTION_DUP: {
                uint32_t op = is_inherited(actions, i, action->fd) ? BELLJAR_FD_INHERIT : BELLJAR_FD_DUP;
                *made = (struct belljar_fd_action){op, action->fd, action->to};
                break;
            }
            case ACTION_OPEN: {
                char *path = from_dir(request->dir, action->path);
                if (!path) return ENOMEM;
                int fd = open(path, action->flags | O_CLOEXEC);
                free(path);
                if (fd < 0) return errno;
                request->opened[request->opened_count++] = fd;
                *made = (struct belljar_fd_action){BELLJAR_FD_INHERIT, fd, action->to};
                break;
            }
            case ACTION_CHDIR: {
                char *dir = from_dir(request->dir, action->path);
                if (!dir) return ENOMEM;
                free(request->dir);
                request->dir = dir;
                continue;
            }
        }
        count++;
    }
    request->spawn.actions = request->actions;
    request->spawn.actions_count = count;
    request->spawn.current_dir = request->dir;
    request->spawn.current_dir_len = request->dir ? strlen(request->dir) : 0;
    return 0;
}

static int set_texts(struct request *request, char *const argv[], char *const envp[]) {
    uint32_t args = count_of(argv), variables = count_of(envp);
    request->texts = calloc(args + variables + 1, sizeof *request->texts);
    if (!request->texts) return ENOMEM;
    for (uint32_t i = 0; i < args; i++) {
        request->texts[i] = (struct belljar_text){argv[i], strlen(argv[i])};
    }
    for (uint32_t i = 0; i < variables; i++) {
        request->texts[args + i] = (struct belljar_text){envp[i], strlen(envp[i])};
    }
    request->spawn.args = request->texts;
    request->spawn.args_count = args;
    request->spawn.environ = request->texts + args;
    request->spawn.environ_count = variables;
    return 0;
}

static int32_t start(struct request *request, const char *program, pid_t *pid) {
    uint32_t child;
    request->spawn.program = program;
    request->spawn.program_len = strlen(program);
    int32_t error = belljar_proc_spawn(&request->spawn, &child);
    if (error == 0 && pid) *pid = child;
    return error;
}

// The name of a program that lies where programs are installed elsewhere. There is no such folder here, but there may
// be a program of that name.
static const char *installed_name(const char *path) {
    static const char *const folders[] = {"/bin/", "/usr/bin/", "/usr/local/bin/"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        size_t len = strlen(folders[i]);
        if (strncmp(path, folders[i], len) == 0 && path[len] && !strchr(path + len, '/')) return path + len;
    }
    return NULL;
}

static int spawn(pid_t *pid, const char *program, bool searches, const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *attr, char *const argv[], char *const envp[]) {
    int errno_before = errno;
    struct request request = {.spawn = {.size = sizeof request.spawn, .flags = BELLJAR_SPAWN_INHERIT}};
    char *local = NULL;
    int error = set_actions(&request, actions);
    if (!error) error = set_texts(&request, argv, envp);
    if (!error && !searches && !strchr(program, '/') && *program) {
        if (asprintf(&local, "./%s", program) < 0) error = ENOMEM;
        program = local;
    }
    if (!error) {
        bool resets = attr && attr->flags & POSIX_SPAWN_SETSIGDEF && handlers[SIGPIPE] != SIG_DFL;
        if (resets) belljar_sigpipe_ignore(0);
        error = start(&request, program, pid);
        const char *name = error == ENOENT ? installed_name(program) : NULL;
        if (name) error = start(&request, name, pid);
        if (resets) belljar_sigpipe_ignore(1);
    }
    free(local);
    release(&request);
    errno = errno_before;
    return error;
}

int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attr,
                char *const argv[], char *const envp[]) {
    return spawn(pid, path, false, actions, attr, argv, envp);
}

int posix_spawnp(pid_t *pid, const char *name, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attr,
                 char *const argv[], char *const envp[]) {
    return spawn(pid, name, true, actions, attr, argv, envp);
}

pid_t waitpid(pid_t pid, int *status, int options) {
    struct belljar_wait_result result;
    if (options & ~(WNOHANG | WUNTRACED | WCONTINUED)) return done(EINVAL);
    if (pid < -1) return done(ECHILD);
    uint32_t which = pid > 0 ? pid : 0;
    if (done(belljar_proc_wait(which, options & WNOHANG ? BELLJAR_WAIT_NOHANG : 0, &result))) return -1;
    if (status && result.pid) *status = result.how == BELLJAR_EXITED ? (result.code & 0xff) << 8 : result.code;
    return result.pid;
}

pid_t wait(int *status) {
    return waitpid(-1, status, 0);
}

// Ends as `child` does, which nothing of this process is to hold up: its ends of pipes least of all.
static _Noreturn void end_as(pid_t child) {
    int status;
    for (int fd = 0; fd < 4096; fd++) let_go(fd);
    if (waitpid(child, &status, 0) < 0) _Exit(NOT_FOUND);
    if (WIFSIGNALED(status)) belljar_proc_kill(belljar_proc_id(), WTERMSIG(status));
    _Exit(WEXITSTATUS(status));
}

static int execute(const char *program, bool searches, char *const argv[], char *const envp[]) {
    pid_t child;
    int error = spawn(&child, program, searches, NULL, NULL, argv, envp);
    if (error == ENOEXEC && searches && strchr(program, '/')) {
        // A script that does not name its interpreter is the shell's.
        uint32_t count = count_of(argv);
        char **args = calloc(count + 3, sizeof *args);
        if (!args) return done(ENOMEM);
        args[0] = "sh";
        args[1] = (char *)program;
        for (uint32_t i = 1; i < count; i++) args[i + 1] = argv[i];
        error = spawn(&child, "sh", true, NULL, NULL, args, envp);
        free(args);
    }
    if (error) return done(error);
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
    if (!argv) return done(ENOMEM);
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

// --- commands ----------------------------------------------------------------------------------------------------------

static int spawn_shell(pid_t *pid, const char *command, const posix_spawn_file_actions_t *actions) {
    char *argv[] = {"sh", "-c", (char *)command, NULL};
    return spawn(pid, "sh", true, actions, NULL, argv, environ);
}

static int status_of(pid_t pid) {
    int status;
    return waitpid(pid, &status, 0) < 0 ? -1 : status;
}

int system(const char *command) {
    pid_t pid;
    int error = spawn_shell(&pid, command ? command : "exit 0", NULL);
    if (!command) return !error && status_of(pid) == 0;
    if (error == ENOENT || error == ENOSYS) return NOT_FOUND << 8;
    return error ? done(error) : status_of(pid);
}

// The streams that popen has made, and what is at their other ends; 0 if there is no shell.
static struct stream {
    FILE *file;
    pid_t pid;
    struct stream *next;
} *streams;

FILE *popen(const char *command, const char *mode) {
    bool reads = *mode == 'r';
    int fds[2];
    if ((!reads && *mode != 'w') || (mode[1] && strcmp(mode + 1, "e") != 0)) {
        errno = EINVAL;
        return NULL;
    }
    struct stream *stream = calloc(1, sizeof *stream);
    if (!stream || pipe2(fds, O_CLOEXEC)) {
        free(stream);
        return NULL;
    }
    int mine = reads ? fds[0] : fds[1], its = reads ? fds[1] : fds[0];
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    int error = posix_spawn_file_actions_adddup2(&actions, its, reads);
    if (!error) error = spawn_shell(&stream->pid, command, &actions);
    posix_spawn_file_actions_destroy(&actions);
    close(its);
    if (error == ENOENT || error == ENOSYS) error = 0;
    stream->file = error ? NULL : fdopen(mine, reads ? "r" : "w");
    if (!stream->file) {
        close(mine);
        if (stream->pid) waitpid(stream->pid, NULL, 0);
        free(stream);
        if (error) errno = error;
        return NULL;
    }
    stream->next = streams;
    streams = stream;
    return stream->file;
}

int pclose(FILE *file) {
    for (struct stream **at = &streams; *at; at = &(*at)->next) {
        struct stream *stream = *at;
        if (stream->file != file) continue;
        pid_t pid = stream->pid;
        *at = stream->next;
        free(stream);
        fclose(file);
        return pid ? status_of(pid) : NOT_FOUND << 8;
    }
    return done(EINVAL);
}

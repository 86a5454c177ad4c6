// posix_spawn.
#include "internal.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
    for (int i = 0; i < request->opened_count; i++) belljar_let_go(request->opened[i]);
    free(request->opened);
    free(request->actions);
    free(request->texts);
    free(request->dir);
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
    uint32_t args = belljar_count(argv), variables = belljar_count(envp);
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

int belljar_start(pid_t *pid, const char *program, bool searches, const posix_spawn_file_actions_t *actions,
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
        bool resets = attr && attr->flags & POSIX_SPAWN_SETSIGDEF && belljar_survives_sigpipe();
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
    return belljar_start(pid, path, false, actions, attr, argv, envp);
}

int posix_spawnp(pid_t *pid, const char *name, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attr,
                 char *const argv[], char *const envp[]) {
    return belljar_start(pid, name, true, actions, attr, argv, envp);
}

// The processes that the tests of procs.c start.
#ifndef PROCS_CHILDREN_H
#define PROCS_CHILDREN_H

#include "harness.h"

static int child_exit(char **args) {
    return atoi(args[0]);
}

static int child_trap(char **args) {
    (void)args;
    __builtin_trap();
}

static int child_upper(char **args) {
    (void)args;
    char bytes[512];
    ssize_t count;
    while ((count = read(0, bytes, sizeof bytes)) > 0) {
        for (ssize_t i = 0; i < count; i++) {
            if (bytes[i] >= 'a' && bytes[i] <= 'z') bytes[i] -= 'a' - 'A';
        }
        if (write(1, bytes, count) != count) return 1;
    }
    return count != 0;
}

// COUNT bytes that are a function of their place.
static int child_pour(char **args) {
    long left = atol(args[0]);
    unsigned char bytes[10007];
    for (long at = 0; left > 0;) {
        long count = left < (long)sizeof bytes ? left : (long)sizeof bytes;
        for (long i = 0; i < count; i++) bytes[i] = (at + i) % 251;
        ssize_t done = write(1, bytes, count);
        if (done < 0) return errno == EPIPE ? 32 : 1;
        left -= done;
        at += done;
    }
    return 0;
}

// The descriptors that are open.
static int child_fds(char **args) {
    (void)args;
    for (int fd = 0; fd < 64; fd++) {
        if (fcntl(fd, F_GETFD) >= 0) printf("%d ", fd);
    }
    return 0;
}

static int child_write(char **args) {
    return write(atoi(args[0]), args[1], strlen(args[1])) != (ssize_t)strlen(args[1]);
}

static int child_cwd(char **args) {
    char path[256];
    struct stat stat_;
    if (!getcwd(path, sizeof path)) return 1;
    printf("%s %d", path, stat(args[0], &stat_));
    return 0;
}

static int child_env(char **args) {
    (void)args;
    for (char **variable = environ; *variable; variable++) printf("%s;", *variable);
    return 0;
}

static int child_args(char **args) {
    for (; *args; args++) printf("<%s>", *args);
    return 0;
}

static int child_sleep(char **args) {
    sleep_ms(atol(args[0]));
    return args[1] ? (puts(args[1]), 0) : 0;
}

static int child_leave_orphan(char **args) {
    (void)args;
    spawn(ARGS("child-orphan"));
    sleep_ms(5);
    return 0;
}

static int child_orphan(char **args) {
    (void)args;
    pid_t before = getppid();
    sleep_ms(10);
    printf("%s %d", before > 1 ? "parent" : "no parent", getppid());
    return 0;
}

static int child_lines(char **args) {
    char line[101];
    memset(line, *args[0], 100);
    line[100] = '\n';
    for (int i = 0; i < 200; i++) {
        if (write(1, line, sizeof line) != sizeof line) return 1;
        if (i % 7 == 0) sleep_ms(1);
    }
    return 0;
}

// Starts two of itself, which do likewise, until that fails.
static int child_bomb(char **args) {
    (void)args;
    pid_t pids[2];
    int count = 0;
    if (write(1, ".", 1) != 1) return 1;
    while (count < 2 && try_spawn(&pids[count], NULL, ARGS("child-bomb")) == 0) count++;
    while (count > 0) expect_exit(pids[--count], 0);
    return 0;
}

// Starts one of itself, which does likewise, until that fails.
static int child_deeper(char **args) {
    (void)args;
    pid_t pid;
    if (write(1, ".", 1) != 1) return 1;
    int error = try_spawn(&pid, NULL, ARGS("child-deeper"));
    if (error == 0) expect_exit(pid, 0);
    return error != 0 && error != EAGAIN;
}

// Runs itself by way of a shell, as many times within each other as it is told.
static int child_system(char **args) {
    long depth = atol(args[0]);
    char command[64];
    if (depth == 0) return puts("the deepest") < 0;
    snprintf(command, sizeof command, "procs child-system %ld", depth - 1);
    int status = system(command);
    if (status < 0) return errno == EAGAIN ? 75 : 1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Reads a byte of a file, which it opens by this name, and writes it to another.
static int child_copy_byte(char **args) {
    int from = open(args[0], O_RDONLY), to = open(args[1], O_WRONLY);
    char byte;
    struct stat stat_;
    if (from < 0 || to < 0 || stat(args[0], &stat_)) return 1;
    return read(from, &byte, 1) != 1 || write(to, &byte, 1) != 1;
}

static int child_exec(char **args) {
    if (strcmp(args[0], "nowhere") == 0) {
        execlp("no-such-program", "no-such-program", NULL);
        return errno == ENOENT ? 44 : 1;
    }
    printf("lost, since exec does not flush");
    execlp("procs", "procs", args[0], args[1], NULL);
    return 1;
}

// What the test `popen` has for a shell: `sh -c COMMAND`.
static int child_sh(char **args) {
    const char *command = args[2];
    if (strcmp(command, "upper") == 0) return child_upper(NULL);
    if (strncmp(command, "echo ", 5) == 0) return puts(command + 5) < 0;
    if (strncmp(command, "exit ", 5) == 0) return atoi(command + 5);
    return 127;
}

// Waits for a byte of descriptor 0, which never comes.
static int child_read(char **args) {
    (void)args;
    char byte;
    return read(0, &byte, 1) != 1;
}

static const struct {
    const char *name;
    int (*run)(char **args);
    int args;
} children[] = {
    {"child-args", child_args, 0},   {"child-bomb", child_bomb, 0},
    {"child-copy-byte", child_copy_byte, 2},
    {"child-cwd", child_cwd, 1},     {"child-deeper", child_deeper, 0},
    {"child-env", child_env, 0},     {"child-exec", child_exec, 1},
    {"child-exit", child_exit, 1},   {"child-fds", child_fds, 0},
    {"child-leave-orphan", child_leave_orphan, 0},
    {"child-lines", child_lines, 1}, {"child-orphan", child_orphan, 0},
    {"child-pour", child_pour, 1},   {"child-read", child_read, 0},
    {"child-sh", child_sh, 3},       {"child-sleep", child_sleep, 1},
    {"child-system", child_system, 1},
    {"child-trap", child_trap, 0},   {"child-upper", child_upper, 0},
    {"child-write", child_write, 2},
};

#endif

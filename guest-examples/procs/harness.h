// What the tests of procs.c are made of.
#ifndef PROCS_HARNESS_H
#define PROCS_HARNESS_H

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *test_name;

#define CHECK(holds, ...) \
    do { \
        if (!(holds)) fail(__LINE__, #holds, __VA_ARGS__); \
    } while (0)

// CHECK for calls that set errno.
#define OK(call) CHECK((call) >= 0, "%s", strerror(errno))

// CHECK for calls that answer an errno.
#define OK0(call) \
    do { \
        int error_ = (call); \
        CHECK(error_ == 0, "%s: %s", #call, strerror(error_)); \
    } while (0)

__attribute__((format(printf, 3, 4))) static _Noreturn void fail(int line, const char *what, const char *format, ...) {
    va_list list;
    va_start(list, format);
    printf("%s, line %d: %s: ", test_name, line, what);
    vprintf(format, list);
    putchar('\n');
    exit(1);
}

#define ARGS(...) ((char *[]){"procs", __VA_ARGS__, NULL})

static int try_spawn(pid_t *pid, const posix_spawn_file_actions_t *actions, char *args[]) {
    return posix_spawnp(pid, args[0], actions, NULL, args, environ);
}

static pid_t spawn_with(const posix_spawn_file_actions_t *actions, char *args[]) {
    pid_t pid = 0;
    OK0(try_spawn(&pid, actions, args));
    return pid;
}

static pid_t spawn(char *args[]) {
    return spawn_with(NULL, args);
}

static int status_of(pid_t pid) {
    int status = -1;
    pid_t found = waitpid(pid, &status, 0);
    CHECK(found == pid, "waitpid(%d) answers %d: %s", pid, found, strerror(errno));
    return status;
}

static void expect_exit(pid_t pid, int code) {
    int status = status_of(pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == code, "status %#x, and not code %d", status, code);
}

static void expect_signal(pid_t pid, int sig) {
    int status = status_of(pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == sig, "status %#x, and not signal %d", status, sig);
}

// Starts a child whose standard output is a pipe, and answers where to read it.
static int spawn_reading(pid_t *pid, char *args[]) {
    int fds[2];
    posix_spawn_file_actions_t actions;
    OK(pipe2(fds, O_CLOEXEC));
    OK0(posix_spawn_file_actions_init(&actions));
    OK0(posix_spawn_file_actions_adddup2(&actions, fds[1], 1));
    *pid = spawn_with(&actions, args);
    OK0(posix_spawn_file_actions_destroy(&actions));
    OK(close(fds[1]));
    return fds[0];
}

// What can be read from `fd`, up to its end, which is closed.
static char *read_all(int fd) {
    static char text[4096];
    size_t len = 0;
    ssize_t count;
    while ((count = read(fd, text + len, sizeof text - 1 - len)) > 0) len += count;
    OK(count);
    OK(close(fd));
    text[len] = '\0';
    return text;
}

static void expect_output(const char *expected, char *args[]) {
    pid_t pid;
    char *text = read_all(spawn_reading(&pid, args));
    CHECK(strcmp(text, expected) == 0, "`%s`, and not `%s`", text, expected);
    expect_exit(pid, 0);
}

static void write_file(const char *path, const void *bytes, size_t len) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    OK(fd);
    CHECK(write(fd, bytes, len) == (ssize_t)len, "%s", strerror(errno));
    OK(close(fd));
}

static int64_t now_ms(void) {
    struct timespec now;
    OK(clock_gettime(CLOCK_MONOTONIC, &now));
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

static void sleep_ms(int64_t ms) {
    struct timespec duration = {ms / 1000, ms % 1000 * 1000000};
    OK(nanosleep(&duration, NULL));
}

#endif

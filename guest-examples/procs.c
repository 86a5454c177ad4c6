// procs TEST: one property of process trees, pipes and descriptors. Prints `ok TEST`, or what is not as it should be
// and exits with 1; `procs` alone lists the tests. It starts itself by the name `procs`, so that a toolchain must have
// it, and makes files in the current directory. `procs child-…` is what the tests start.
#include "procs/children.h"

static void test_status(void) {
    expect_exit(spawn(ARGS("child-exit", "0")), 0);
    expect_exit(spawn(ARGS("child-exit", "7")), 7);
    expect_exit(spawn(ARGS("child-exit", "255")), 255);
    expect_exit(spawn(ARGS("child-exit", "259")), 3);
    expect_signal(spawn(ARGS("child-trap")), SIGABRT);
    pid_t first = spawn(ARGS("child-exit", "1")), second = spawn(ARGS("child-exit", "2"));
    CHECK(first > getpid() && second == first + 1, "%d, then %d", first, second);
    expect_exit(second, 2);
    expect_exit(first, 1);
    CHECK(waitpid(first, NULL, 0) == -1 && errno == ECHILD, "%s", strerror(errno));
    CHECK(wait(NULL) == -1 && errno == ECHILD, "%s", strerror(errno));
}

static void test_spawn_errors(void) {
    pid_t pid = -7;
    char *args[] = {"no-such-program", NULL};
    int error = try_spawn(&pid, NULL, args);
    CHECK(error == ENOENT && pid == -7, "%s", strerror(error));
    write_file("not-a-module", "\0\0\0", 3);
    error = posix_spawn(&pid, "not-a-module", NULL, NULL, args, environ);
    CHECK(error == ENOEXEC, "%s", strerror(error));
    error = posix_spawn(&pid, "./nowhere/x", NULL, NULL, args, environ);
    CHECK(error == ENOENT, "%s", strerror(error));
    error = posix_spawn(&pid, ".", NULL, NULL, args, environ);
    CHECK(error == EACCES, "%s", strerror(error));
    size_t size = 9 << 20;
    char *large = malloc(size);
    CHECK(large, "no memory");
    memset(large, 'x', size);
    large[size - 1] = '\0';
    error = try_spawn(&pid, NULL, ARGS("child-args", large));
    CHECK(error == E2BIG, "%s", strerror(error));
    free(large);
    OK(unlink("not-a-module"));
}

static void test_args(void) {
    expect_output("<><a b><\xff\x80><*\n>", ARGS("child-args", "", "a b", "\xff\x80", "*\n"));
}

static void test_pipes(void) {
    int to[2], from[2];
    posix_spawn_file_actions_t actions;
    OK(pipe2(to, O_CLOEXEC));
    OK(pipe2(from, O_CLOEXEC));
    OK0(posix_spawn_file_actions_init(&actions));
    OK0(posix_spawn_file_actions_adddup2(&actions, to[0], 0));
    OK0(posix_spawn_file_actions_adddup2(&actions, from[1], 1));
    pid_t pid = spawn_with(&actions, ARGS("child-upper"));
    OK(close(to[0]));
    OK(close(from[1]));
    for (int round = 0; round < 100; round++) {
        char bytes[300], expected[300];
        memset(bytes, 'a' + round % 26, sizeof bytes);
        memset(expected, 'A' + round % 26, sizeof expected);
        CHECK(write(to[1], bytes, sizeof bytes) == sizeof bytes, "%s", strerror(errno));
        for (size_t done = 0; done < sizeof bytes;) {
            ssize_t count = read(from[0], bytes + done, sizeof bytes - done);
            CHECK(count > 0, "%zd: %s", count, strerror(errno));
            done += count;
        }
        CHECK(memcmp(bytes, expected, sizeof bytes) == 0, "round %d", round);
    }
    OK(close(to[1]));
    CHECK(*read_all(from[0]) == '\0', "more than was sent");
    expect_exit(pid, 0);
}

static void test_large_pipe(void) {
    pid_t pid;
    int fd = spawn_reading(&pid, ARGS("child-pour", "1000003"));
    unsigned char bytes[4099];
    long at = 0;
    ssize_t count;
    while ((count = read(fd, bytes, sizeof bytes)) > 0) {
        for (ssize_t i = 0; i < count; i++, at++) CHECK(bytes[i] == at % 251, "byte %ld is %d", at, bytes[i]);
    }
    OK(count);
    CHECK(at == 1000003, "%ld bytes", at);
    expect_exit(pid, 0);
}

static void test_eof(void) {
    int fds[2];
    char byte;
    OK(pipe(fds));
    CHECK(write(fds[1], "x", 1) == 1, "%s", strerror(errno));
    // The child holds the writing end for an hour, and so the pipe open.
    pid_t pid = spawn(ARGS("child-sleep", "3600000"));
    OK(close(fds[1]));
    int64_t begun = now_ms();
    CHECK(read(fds[0], &byte, 1) == 1, "%s", strerror(errno));
    CHECK(read(fds[0], &byte, 1) == 0, "more than was written");
    CHECK(now_ms() - begun == 3600000, "the end came after %lld ms", (long long)(now_ms() - begun));
    CHECK(read(fds[0], &byte, 1) == 0, "an end that was not the end");
    expect_exit(pid, 0);
}

static void test_epipe(void) {
    int fds[2];
    OK(pipe(fds));
    OK(close(fds[0]));
    CHECK(signal(SIGPIPE, SIG_IGN) == SIG_DFL, "it was ignored before");
    CHECK(write(fds[1], "x", 1) == -1 && errno == EPIPE, "%s", strerror(errno));
    // A child ignores what its parent ignores.
    posix_spawn_file_actions_t actions;
    OK0(posix_spawn_file_actions_init(&actions));
    OK0(posix_spawn_file_actions_adddup2(&actions, fds[1], 1));
    expect_exit(spawn_with(&actions, ARGS("child-pour", "1")), 32);
    posix_spawnattr_t attr;
    pid_t pid;
    OK0(posix_spawnattr_init(&attr));
    OK0(posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF));
    OK0(posix_spawnp(&pid, "procs", &actions, &attr, ARGS("child-pour", "1"), environ));
    expect_signal(pid, SIGPIPE);
    CHECK(signal(SIGPIPE, SIG_DFL) == SIG_IGN, "it was not ignored");
    expect_signal(spawn_with(&actions, ARGS("child-pour", "1")), SIGPIPE);
}

static void test_sigpipe(void) {
    pid_t pid;
    int fd = spawn_reading(&pid, ARGS("child-pour", "1000000"));
    char byte;
    CHECK(read(fd, &byte, 1) == 1, "%s", strerror(errno));
    OK(close(fd));
    expect_signal(pid, SIGPIPE);
}

static void test_dup(void) {
    int fds[2];
    OK(pipe(fds));
    CHECK(fds[0] == 5 && fds[1] == 6, "%d and %d", fds[0], fds[1]);
    CHECK(dup(fds[1]) == 7, "not the lowest free number");
    CHECK(dup2(fds[1], 20) == 20 && dup2(20, 20) == 20, "%s", strerror(errno));
    CHECK(fcntl(fds[1], F_DUPFD, 20) == 21, "%s", strerror(errno));
    CHECK(fcntl(20, F_GETFD) == 0, "a copy is closed on exec");
    CHECK(fcntl(fds[1], F_DUPFD_CLOEXEC, 10) == 10 && fcntl(10, F_GETFD) == FD_CLOEXEC, "%s", strerror(errno));
    OK(fcntl(20, F_SETFD, FD_CLOEXEC));
    CHECK(fcntl(20, F_GETFD) == FD_CLOEXEC && fcntl(21, F_GETFD) == 0, "the flag is not the descriptor's own");
    CHECK(dup(99) == -1 && errno == EBADF, "%s", strerror(errno));
    CHECK(dup2(99, 5) == -1 && errno == EBADF, "%s", strerror(errno));
    CHECK(dup2(5, 3) == -1 && errno == EBADF, "%s", strerror(errno));
    CHECK(dup2(5, 1 << 30) == -1 && errno == EBADF, "%s", strerror(errno));
    int last[] = {6, 7, 10, 20};
    for (size_t i = 0; i < sizeof last / sizeof *last; i++) OK(close(last[i]));
    CHECK(write(21, "x", 1) == 1, "%s", strerror(errno));
    OK(close(21));
    CHECK(strcmp(read_all(5), "x") == 0, "the end is open yet");
}

static void test_cloexec(void) {
    int fds[2];
    OK(pipe2(fds, O_CLOEXEC));
    int kept = open(".", O_RDONLY | O_DIRECTORY), closed = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(kept == 7 && closed == 8, "%d and %d", kept, closed);
    expect_output("0 1 2 3 4 7 ", ARGS("child-fds"));
    OK(fcntl(fds[0], F_SETFD, 0));
    OK(fcntl(kept, F_SETFD, FD_CLOEXEC));
    expect_output("0 1 2 3 4 5 ", ARGS("child-fds"));
}

static void test_actions(void) {
    int fds[2];
    posix_spawn_file_actions_t actions;
    OK(pipe2(fds, O_CLOEXEC));
    write_file("in.txt", "from a file", 11);
    OK0(posix_spawn_file_actions_init(&actions));
    OK0(posix_spawn_file_actions_addopen(&actions, 0, "in.txt", O_RDONLY, 0));
    OK0(posix_spawn_file_actions_addopen(&actions, 9, "out.txt", O_WRONLY | O_CREAT | O_TRUNC, 0666));
    OK0(posix_spawn_file_actions_adddup2(&actions, 9, 1));
    OK0(posix_spawn_file_actions_addclose(&actions, 9));
    OK0(posix_spawn_file_actions_addclose(&actions, 60));
    expect_exit(spawn_with(&actions, ARGS("child-upper")), 0);
    OK0(posix_spawn_file_actions_destroy(&actions));
    int out = open("out.txt", O_RDONLY);
    OK(out);
    CHECK(strcmp(read_all(out), "FROM A FILE") == 0, "another output");
    // A swap, of descriptors one of which is closed on exec.
    OK0(posix_spawn_file_actions_adddup2(&actions, fds[1], 30));
    OK0(posix_spawn_file_actions_adddup2(&actions, 30, fds[1]));
    expect_exit(spawn_with(&actions, ARGS("child-write", "6", "swapped")), 0);
    OK0(posix_spawn_file_actions_adddup2(&actions, 61, 1));
    pid_t pid;
    int error = try_spawn(&pid, &actions, ARGS("child-exit", "0"));
    CHECK(error == EBADF, "%s", strerror(error));
    OK0(posix_spawn_file_actions_destroy(&actions));
    OK0(posix_spawn_file_actions_addopen(&actions, 0, "nowhere/x", O_RDONLY, 0));
    error = try_spawn(&pid, &actions, ARGS("child-exit", "0"));
    CHECK(error == ENOENT, "%s", strerror(error));
    OK0(posix_spawn_file_actions_destroy(&actions));
    OK0(posix_spawn_file_actions_adddup2(&actions, 1, 4));
    error = try_spawn(&pid, &actions, ARGS("child-exit", "0"));
    CHECK(error == ENOTSUP, "%s", strerror(error));
    OK(close(fds[1]));
    CHECK(strcmp(read_all(fds[0]), "swapped") == 0, "another text");
    OK(unlink("in.txt"));
    OK(unlink("out.txt"));
}

static void test_offset(void) {
    int fd = open("shared.txt", O_RDWR | O_CREAT | O_TRUNC, 0666);
    CHECK(fd == 5, "%d", fd);
    CHECK(write(fd, "one ", 4) == 4, "%s", strerror(errno));
    expect_exit(spawn(ARGS("child-write", "5", "two ")), 0);
    CHECK(write(fd, "three", 5) == 5, "%s", strerror(errno));
    CHECK(lseek(fd, 0, SEEK_SET) == 0, "%s", strerror(errno));
    char *text = read_all(fd);
    CHECK(strcmp(text, "one two three") == 0, "`%s`", text);
    OK(unlink("shared.txt"));
}

static void test_cwd(void) {
    char path[256], expected[300];
    OK(mkdir("place", 0777));
    write_file("place/here.txt", "", 0);
    CHECK(getcwd(path, sizeof path), "%s", strerror(errno));
    snprintf(expected, sizeof expected, "%s/place 0", path);
    OK(chdir("place"));
    expect_output(expected, ARGS("child-cwd", "here.txt"));
    CHECK(access("here.txt", R_OK) == 0 && access("place", R_OK) == -1, "not looked up from the current directory");
    OK(chdir(".."));
    CHECK(chdir("place/here.txt") == -1 && errno == ENOTDIR, "%s", strerror(errno));
    CHECK(chdir("nowhere") == -1 && errno == ENOENT, "%s", strerror(errno));
    CHECK(chdir("") == -1 && errno == ENOENT, "%s", strerror(errno));
    char *again = getcwd(NULL, 0);
    CHECK(again && strcmp(again, path) == 0, "%s", again);
    free(again);
    CHECK(!getcwd(path, 2) && errno == ERANGE, "%s", strerror(errno));
    // In a place of its own the child does not find the parent's files, and the parent stays where it is.
    posix_spawn_file_actions_t actions;
    int fds[2];
    OK(pipe2(fds, O_CLOEXEC));
    OK0(posix_spawn_file_actions_init(&actions));
    OK0(posix_spawn_file_actions_addchdir(&actions, "place"));
    OK0(posix_spawn_file_actions_adddup2(&actions, fds[1], 1));
    expect_exit(spawn_with(&actions, ARGS("child-cwd", "place")), 0);
    OK(close(fds[1]));
    snprintf(expected, sizeof expected, "%s/place -1", path);
    char *text = read_all(fds[0]);
    CHECK(strcmp(text, expected) == 0, "`%s`", text);
    OK(unlink("place/here.txt"));
    OK(rmdir("place"));
}

static void test_env(void) {
    pid_t pid;
    int fds[2];
    OK(pipe2(fds, O_CLOEXEC));
    posix_spawn_file_actions_t actions;
    OK0(posix_spawn_file_actions_init(&actions));
    OK0(posix_spawn_file_actions_adddup2(&actions, fds[1], 1));
    char *envp[] = {"A=1", "EMPTY=", "BYTES=\xff", NULL};
    OK0(posix_spawnp(&pid, "procs", &actions, NULL, ARGS("child-env"), envp));
    OK(close(fds[1]));
    CHECK(strcmp(read_all(fds[0]), "A=1;EMPTY=;BYTES=\xff;") == 0, "another environment");
    expect_exit(pid, 0);
    OK(clearenv());
    expect_output("", ARGS("child-env"));
    OK(setenv("NEW", "value", 1));
    expect_output("NEW=value;", ARGS("child-env"));
}

static void test_orphan(void) {
    CHECK(getpid() == 1 && getppid() == 0, "it is %d, and its parent %d", getpid(), getppid());
    pid_t pid;
    char *text = read_all(spawn_reading(&pid, ARGS("child-leave-orphan")));
    CHECK(strcmp(text, "parent 1") == 0, "`%s`", text);
    expect_exit(pid, 0);
    CHECK(wait(NULL) == -1 && errno == ECHILD, "an orphan is waited for by the first process");
}

static void test_zombies(void) {
    for (int round = 0; round < 2; round++) {
        int count = 0, error, status;
        pid_t pid;
        while ((error = try_spawn(&pid, NULL, ARGS("child-exit", "5"))) == 0 && count < 100000) count++;
        CHECK(error == EAGAIN && count > 1, "%s after %d", strerror(error), count);
        for (int i = 0; i < count; i++) {
            OK(wait(&status));
            CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 5, "status %#x", status);
        }
        CHECK(wait(&status) == -1 && errno == ECHILD, "%s", strerror(errno));
    }
}

static void test_kill(void) {
    int64_t begun = now_ms();
    int signals[] = {SIGTERM, SIGKILL, SIGINT, SIGUSR1};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        pid_t pid = spawn(ARGS("child-sleep", "3600000"));
        if (i % 2) sleep_ms(1);
        OK(kill(pid, signals[i]));
        expect_signal(pid, signals[i]);
        CHECK(kill(pid, 0) == -1 && errno == ESRCH, "%s", strerror(errno));
    }
    pid_t pid = spawn(ARGS("child-sleep", "1"));
    OK(kill(pid, SIGCHLD));
    OK(kill(pid, SIGCONT));
    OK(kill(pid, 0));
    CHECK(kill(pid, SIGSTOP) == -1 && errno == ENOTSUP, "%s", strerror(errno));
    CHECK(kill(pid, 77) == -1 && errno == EINVAL, "%s", strerror(errno));
    expect_exit(pid, 0);
    // One that waits to read, or to write, is ended as well.
    int fds[2], out = dup(1);
    OK(out);
    OK(pipe(fds));
    OK(dup2(fds[0], 0));
    pid = spawn(ARGS("child-read"));
    sleep_ms(1);
    OK(kill(pid, SIGHUP));
    expect_signal(pid, SIGHUP);
    OK(dup2(fds[1], 1));
    pid = spawn(ARGS("child-pour", "1000000"));
    sleep_ms(1);
    OK(kill(pid, SIGHUP));
    expect_signal(pid, SIGHUP);
    OK(dup2(out, 1));
    CHECK(now_ms() - begun < 1000, "%lld ms", (long long)(now_ms() - begun));
}

static void test_nohang(void) {
    pid_t pid = spawn(ARGS("child-sleep", "50"));
    int status = 77;
    CHECK(waitpid(pid, &status, WNOHANG) == 0 && status == 77, "status %d", status);
    CHECK(waitpid(-1, &status, WNOHANG) == 0, "%s", strerror(errno));
    sleep_ms(100);
    CHECK(waitpid(-1, &status, WNOHANG) == pid && status == 0, "status %d", status);
    CHECK(waitpid(-1, &status, WNOHANG) == -1 && errno == ECHILD, "%s", strerror(errno));
}

static void test_popen(void) {
    char *path = getenv("PATH"), line[64];
    if (!system(NULL)) {
        CHECK(system("exit 0") == 127 << 8, "without a shell");
        FILE *none = popen("echo x", "r");
        CHECK(none && !fgets(line, sizeof line, none) && pclose(none) == 127 << 8, "without a shell");
        CHECK(!path, "a PATH without a shell");
        OK(mkdir("bin", 0777));
        write_file("bin/sh", "#!/usr/bin/procs child-sh\n", 26);
        OK(setenv("PATH", "nowhere:bin", 1));
    }
    CHECK(system(NULL) != 0, "no shell");
    CHECK(system("exit 3") == 3 << 8, "another status");
    FILE *stream = popen("echo hello", "r");
    CHECK(stream && fgets(line, sizeof line, stream) && strcmp(line, "hello\n") == 0, "%s", strerror(errno));
    CHECK(!fgets(line, sizeof line, stream) && pclose(stream) == 0, "%s", strerror(errno));
    stream = popen("exit 9", "w");
    CHECK(stream && pclose(stream) == 9 << 8, "%s", strerror(errno));
    CHECK(!popen("exit 9", "x") && errno == EINVAL, "%s", strerror(errno));
    if (!path) {
        OK(unlink("bin/sh"));
        OK(rmdir("bin"));
    }
}

// A module that exits with 42.
static const unsigned char exit_42[] = {
    0, 'a', 's', 'm', 1, 0, 0, 0, 1, 8, 2, 0x60, 1, 0x7f, 0, 0x60, 0, 0, 2, 36, 1, 22, 'w', 'a', 's', 'i', '_', 's',
    'n', 'a', 'p', 's', 'h', 'o', 't', '_', 'p', 'r', 'e', 'v', 'i', 'e', 'w', '1', 9, 'p', 'r', 'o', 'c', '_', 'e',
    'x', 'i', 't', 0, 0, 3, 2, 1, 1, 5, 3, 1, 0, 1, 7, 19, 2, 6, 'm', 'e', 'm', 'o', 'r', 'y', 2, 0, 6, '_', 's', 't',
    'a', 'r', 't', 0, 1, 10, 8, 1, 6, 0, 0x41, 42, 0x10, 0, 0x0b,
};

static void test_path(void) {
    OK(mkdir("tools", 0777));
    write_file("tools/answer", exit_42, sizeof exit_42);
    write_file("tools/other.wasm", exit_42, sizeof exit_42);
    char *answer[] = {"answer", NULL}, *other[] = {"other", NULL};
    pid_t pid;
    CHECK(try_spawn(&pid, NULL, answer) == ENOENT, "found without PATH");
    OK(setenv("PATH", "/nowhere:tools", 1));
    expect_exit(spawn(answer), 42);
    expect_exit(spawn(other), 42);
    OK0(posix_spawn(&pid, "tools/answer", NULL, NULL, answer, environ));
    expect_exit(pid, 42);
    CHECK(posix_spawn(&pid, "answer", NULL, NULL, answer, environ) == ENOENT, "posix_spawn searches PATH");
    OK(chdir("tools"));
    OK(setenv("PATH", ":/nowhere", 1));
    expect_exit(spawn(answer), 42);
    OK0(posix_spawn(&pid, "answer", NULL, NULL, answer, environ));
    expect_exit(pid, 42);
    OK(chdir(".."));
    OK(unlink("tools/answer"));
    OK(unlink("tools/other.wasm"));
    OK(rmdir("tools"));
}

static void test_script(void) {
    pid_t pid;
    char *args[] = {"whatever", "a", "b c", NULL};
    write_file("script", "#! /bin/procs child-args\nand more\n", 34);
    int fds[2];
    posix_spawn_file_actions_t actions;
    OK(pipe2(fds, O_CLOEXEC));
    OK0(posix_spawn_file_actions_init(&actions));
    OK0(posix_spawn_file_actions_adddup2(&actions, fds[1], 1));
    OK0(posix_spawn(&pid, "./script", &actions, NULL, args, environ));
    OK(close(fds[1]));
    expect_exit(pid, 0);
    char *text = read_all(fds[0]);
    CHECK(strcmp(text, "<./script><a><b c>") == 0, "`%s`", text);
    write_file("script", "#!/bin/no-such-interpreter\n", 27);
    CHECK(posix_spawn(&pid, "./script", NULL, NULL, args, environ) == ENOENT, "it was started");
    write_file("script", "#!\n", 3);
    CHECK(posix_spawn(&pid, "./script", NULL, NULL, args, environ) == ENOEXEC, "it was started");
    OK(unlink("script"));
}

static void test_exec(void) {
    expect_exit(spawn(ARGS("child-exec", "child-exit", "9")), 9);
    expect_exit(spawn(ARGS("child-exec", "nowhere")), 44);
    expect_signal(spawn(ARGS("child-exec", "child-trap")), SIGABRT);
    expect_output("<x>", ARGS("child-exec", "child-args", "x"));
}

static void test_raise(void) {
    CHECK(raise(SIGCHLD) == 0, "%s", strerror(errno));
    CHECK(signal(SIGUSR1, SIG_IGN) == SIG_DFL && raise(SIGUSR1) == 0, "%s", strerror(errno));
    CHECK(signal(SIGKILL, SIG_IGN) == SIG_ERR && errno == EINVAL, "%s", strerror(errno));
    CHECK(raise(0) == 0 && raise(99) == -1, "%s", strerror(errno));
}

static void test_sleep(void) {
    int64_t begun = now_ms();
    char *durations[] = {"300", "100", "200", "100"};
    pid_t pids[4];
    for (int i = 0; i < 4; i++) pids[i] = spawn(ARGS("child-sleep", durations[i]));
    const int order[] = {1, 3, 2, 0};
    for (int i = 0; i < 4; i++) {
        pid_t pid = wait(NULL);
        CHECK(pid == pids[order[i]], "process %d ended before process %d", pid, pids[order[i]]);
        CHECK(now_ms() - begun == atol(durations[order[i]]), "after %lld ms", (long long)(now_ms() - begun));
    }
}

static void test_poll(void) {
    pid_t pid;
    int fd = spawn_reading(&pid, ARGS("child-sleep", "500", "awake"));
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    int64_t begun = now_ms();
    CHECK(poll(&polled, 1, 100) == 0 && now_ms() - begun == 100, "after %lld ms", (long long)(now_ms() - begun));
    CHECK(poll(&polled, 1, 10000) == 1 && now_ms() - begun == 500, "after %lld ms", (long long)(now_ms() - begun));
    CHECK(polled.revents & POLLIN, "%#x", polled.revents);
    CHECK(strcmp(read_all(fd), "awake\n") == 0, "another text");
    expect_exit(pid, 0);
}

static void test_writers(void) {
    int fds[2];
    OK(pipe2(fds, O_CLOEXEC));
    posix_spawn_file_actions_t actions;
    OK0(posix_spawn_file_actions_init(&actions));
    OK0(posix_spawn_file_actions_adddup2(&actions, fds[1], 1));
    pid_t pids[3];
    for (int i = 0; i < 3; i++) pids[i] = spawn_with(&actions, ARGS("child-lines", (char[]){(char)('a' + i), '\0'}));
    OK(close(fds[1]));
    FILE *stream = fdopen(fds[0], "r");
    CHECK(stream, "%s", strerror(errno));
    char line[256];
    int counts[3] = {0};
    while (fgets(line, sizeof line, stream)) {
        CHECK(strlen(line) == 101 && line[0] >= 'a' && line[0] <= 'c', "%s", line);
        for (int i = 0; i < 100; i++) CHECK(line[i] == line[0], "a torn line: %s", line);
        counts[line[0] - 'a']++;
    }
    fclose(stream);
    for (int i = 0; i < 3; i++) {
        CHECK(counts[i] == 200, "%d lines", counts[i]);
        expect_exit(pids[i], 0);
    }
}

static void test_close_all(void) {
    for (int fd = 3; fd < 256; fd++) close(fd);
    CHECK(close(3) == -1 && errno == EBADF, "%s", strerror(errno));
    write_file("still-here", "x", 1);
    OK(unlink("still-here"));
    expect_output("0 1 2 3 4 ", ARGS("child-fds"));
}

static void test_closefrom(void) {
    int fds[2];
    char byte;
    OK(pipe(fds));
    OK(dup2(fds[1], 40));
    closefrom(fds[1]);
    CHECK(close(40) == -1 && errno == EBADF, "%s", strerror(errno));
    CHECK(read(fds[0], &byte, 1) == 0, "a writer is left");
    closefrom(3);
    CHECK(close(fds[0]) == -1 && errno == EBADF, "%s", strerror(errno));
    write_file("still-here", "x", 1);
    OK(unlink("still-here"));
    expect_output("0 1 2 3 4 ", ARGS("child-fds"));
}

static int count_of_bytes(char *args[]) {
    pid_t pid;
    int fd = spawn_reading(&pid, args), total = 0;
    char bytes[512];
    ssize_t count;
    while ((count = read(fd, bytes, sizeof bytes)) > 0) total += count;
    OK(count);
    expect_exit(pid, 0);
    OK(close(fd));
    return total;
}

// How many there are is the same in every run.
static void test_fork_bomb(void) {
    int count = count_of_bytes(ARGS("child-bomb"));
    CHECK(count > 2 && count_of_bytes(ARGS("child-bomb")) == count, "%d processes", count);
}

static void test_recursion(void) {
    int count = count_of_bytes(ARGS("child-deeper"));
    CHECK(count > 2 && count_of_bytes(ARGS("child-deeper")) == count, "%d processes", count);
}

// Everybody waits for a byte that nobody will write: the runtime ends the run and says who waits for what.
static void test_deadlock(void) {
    int one[2], other[2];
    char byte;
    OK(pipe(one));
    OK(pipe(other));
    posix_spawn_file_actions_t actions;
    OK0(posix_spawn_file_actions_init(&actions));
    OK0(posix_spawn_file_actions_adddup2(&actions, one[0], 0));
    spawn_with(&actions, ARGS("child-read"));
    CHECK(read(other[0], &byte, 1) < 0, "a byte came");
}

// Nothing outlives the first process: the child never says what it would in an hour.
static void test_first_ends_all(void) {
    spawn(ARGS("child-sleep", "3600000", "still here"));
    sleep_ms(1);
}

static const struct {
    const char *name;
    void (*run)(void);
} tests[] = {
    {"actions", test_actions},     {"args", test_args},       {"cloexec", test_cloexec},
    {"close-all", test_close_all}, {"closefrom", test_closefrom},
    {"cwd", test_cwd},             {"deadlock", test_deadlock},
    {"dup", test_dup},             {"env", test_env},         {"eof", test_eof},
    {"epipe", test_epipe},         {"exec", test_exec},       {"first-ends-all", test_first_ends_all},
    {"fork-bomb", test_fork_bomb}, {"kill", test_kill},       {"large-pipe", test_large_pipe},
    {"nohang", test_nohang},       {"orphan", test_orphan},   {"path", test_path},
    {"pipes", test_pipes},         {"poll", test_poll},       {"popen", test_popen},
    {"raise", test_raise},         {"recursion", test_recursion},
    {"script", test_script},       {"sigpipe", test_sigpipe}, {"sleep", test_sleep},
    {"spawn-errors", test_spawn_errors},                      {"status", test_status},
    {"offset", test_offset},       {"writers", test_writers}, {"zombies", test_zombies},
};

int main(int argc, char **argv) {
    test_name = argc > 1 ? argv[1] : "";
    for (size_t i = 0; i < sizeof children / sizeof *children; i++) {
        if (strcmp(test_name, children[i].name) == 0 && argc - 2 >= children[i].args) return children[i].run(argv + 2);
    }
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        if (argc == 2 && strcmp(test_name, tests[i].name) == 0) {
            tests[i].run();
            printf("ok %s\n", test_name);
            return 0;
        }
    }
    fputs("usage: procs TEST, which is one of:\n", stderr);
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) fprintf(stderr, "  %s\n", tests[i].name);
    return 2;
}

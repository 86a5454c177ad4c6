// spawnbench spawn N PROGRAM: starts PROGRAM N times, and waits for each.
// spawnbench children N PROGRAM: starts PROGRAM N times at once, then waits for all.
// spawnbench pipeline STAGES MIB: MIB mebibytes through STAGES times `cat`.
// Built for the host as well, so that both do the same.
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { BLOCK_BYTES = 64 << 10 };

static char block[BLOCK_BYTES];

static void fail(const char *what) {
    fprintf(stderr, "spawnbench: %s\n", what);
    exit(1);
}

static pid_t start(char **args, int in, int out) {
    posix_spawn_file_actions_t actions;
    pid_t pid;
    posix_spawn_file_actions_init(&actions);
    if (in != 0) posix_spawn_file_actions_adddup2(&actions, in, 0);
    if (out != 1) posix_spawn_file_actions_adddup2(&actions, out, 1);
    if (posix_spawnp(&pid, args[0], &actions, NULL, args, environ) != 0) fail("cannot start a program");
    posix_spawn_file_actions_destroy(&actions);
    return pid;
}

static void finish(pid_t pid) {
    int status;
    if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fail("a program failed");
    }
}

static void spawn(int count, char *program) {
    char *args[] = {program, NULL};
    for (int i = 0; i < count; i++) finish(start(args, 0, 1));
}

static void children(int count, char *program) {
    char *args[] = {program, NULL};
    pid_t *pids = malloc(count * sizeof *pids);
    if (!pids) fail("no memory");
    for (int i = 0; i < count; i++) pids[i] = start(args, 0, 1);
    for (int i = 0; i < count; i++) finish(pids[i]);
    free(pids);
}

static void make_pipe(int fds[2]) {
    if (pipe(fds) != 0) fail("no pipe");
    fcntl(fds[0], F_SETFD, FD_CLOEXEC);
    fcntl(fds[1], F_SETFD, FD_CLOEXEC);
}

static void write_all(int mebibytes) {
    for (long long left = (long long)mebibytes << 20; left > 0;) {
        ssize_t count = write(1, block, BLOCK_BYTES);
        if (count <= 0) fail("cannot write");
        left -= count;
    }
}

static void pipeline(char *self, int stages, int mebibytes) {
    char size[16];
    snprintf(size, sizeof size, "%d", mebibytes);
    char *writer[] = {self, "write", size, NULL}, *cat[] = {"cat", NULL};
    pid_t *pids = malloc((stages + 1) * sizeof *pids);
    if (!pids) fail("no memory");
    int from[2];
    make_pipe(from);
    pids[0] = start(writer, 0, from[1]);
    close(from[1]);
    for (int i = 1; i <= stages; i++) {
        int to[2];
        make_pipe(to);
        pids[i] = start(cat, from[0], to[1]);
        close(from[0]);
        close(to[1]);
        from[0] = to[0];
    }
    long long total = 0;
    for (ssize_t count; (count = read(from[0], block, BLOCK_BYTES)) > 0;) total += count;
    for (int i = 0; i <= stages; i++) finish(pids[i]);
    if (total != (long long)mebibytes << 20) fail("bytes were lost");
    free(pids);
}

int main(int argc, char **argv) {
    if (argc == 4 && strcmp(argv[1], "spawn") == 0) {
        spawn(atoi(argv[2]), argv[3]);
    } else if (argc == 4 && strcmp(argv[1], "children") == 0) {
        children(atoi(argv[2]), argv[3]);
    } else if (argc == 4 && strcmp(argv[1], "pipeline") == 0) {
        pipeline(argv[0], atoi(argv[2]), atoi(argv[3]));
    } else if (argc == 3 && strcmp(argv[1], "write") == 0) {
        write_all(atoi(argv[2]));
    } else {
        fail("usage: spawnbench {spawn N PROGRAM | children N PROGRAM | pipeline STAGES MIB}");
    }
    return 0;
}

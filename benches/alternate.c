// alternate ROUNDS COMMAND [-- COMMAND]...: the median time of each command, start to end, in
// microseconds, one a line. Commands take turns, so that whatever else the machine does meets all
// of them alike; each runs once before anything is timed. Their standard output is thrown away.
#define _XOPEN_SOURCE 700
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

enum { COMMANDS_MAX = 16 };

extern char **environ;

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static double run_us(char **argv, posix_spawn_file_actions_t *actions) {
    pid_t pid;
    int status;
    double start = now_us();
    int error = posix_spawnp(&pid, argv[0], actions, NULL, argv, environ);
    if (error != 0) {
        fprintf(stderr, "alternate: %s: %s\n", argv[0], strerror(error));
        exit(1);
    }
    if (waitpid(pid, &status, 0) != pid || status != 0) {
        fprintf(stderr, "alternate: %s failed\n", argv[0]);
        exit(1);
    }
    return now_us() - start;
}

static int order(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    int rounds = argc > 2 ? atoi(argv[1]) : 0, commands = 0;
    char **command[COMMANDS_MAX];
    if (rounds <= 0) {
        fputs("usage: alternate ROUNDS COMMAND [-- COMMAND]...\n", stderr);
        return 2;
    }
    for (int i = 2; i < argc && commands < COMMANDS_MAX; i++) {
        command[commands++] = argv + i;
        while (i < argc && strcmp(argv[i], "--") != 0) i++;
        argv[i] = NULL;
    }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);

    double *times = calloc((size_t)rounds * (size_t)commands, sizeof *times);
    if (!times) return 1;
    for (int c = 0; c < commands; c++) run_us(command[c], &actions);
    for (int r = 0; r < rounds; r++)
        for (int c = 0; c < commands; c++) times[c * rounds + r] = run_us(command[c], &actions);
    for (int c = 0; c < commands; c++) {
        qsort(times + c * rounds, (size_t)rounds, sizeof *times, order);
        printf("%.1f\n", times[c * rounds + rounds / 2]);
    }
    return 0;
}

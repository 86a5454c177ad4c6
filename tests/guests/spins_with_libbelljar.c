#define _GNU_SOURCE
// Waits by asking again and again, in the way that its argument names. It acts in the same way natively.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static int output;

// Starts `script`; the end of a pipe that gets its output is `output`.
static pid_t start(char *script) {
    int ends[2];
    if (pipe(ends) != 0)
        exit(90);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    char *args[] = {"sh", "-c", script, NULL};
    pid_t child;
    if (posix_spawnp(&child, "sh", &actions, NULL, args, environ) != 0)
        exit(91);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    output = ends[0];
    return child;
}

static long long nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

int main(int argc, char **argv) {
    const char *way = argc > 1 ? argv[1] : "";
    long long begun = nanoseconds();
    int status = 0;
    if (strcmp(way, "wait") == 0) {
        pid_t child = start("sleep 0.2; exit 7");
        while (waitpid(child, &status, WNOHANG) == 0) {
        }
        printf("status %d\n", WEXITSTATUS(status));
    } else if (strcmp(way, "read") == 0) {
        char text[8] = "";
        start("sleep 0.2; echo hi");
        fcntl(output, F_SETFL, O_NONBLOCK);
        while (read(output, text, sizeof text) < 0 && errno == EAGAIN) {
        }
        printf("%s", text);
    } else if (strcmp(way, "poll") == 0) {
        start("sleep 0.2; echo hi");
        struct pollfd asked = {.fd = output, .events = POLLIN};
        while (poll(&asked, 1, 0) == 0) {
        }
        printf("ready\n");
    } else if (strcmp(way, "yield") == 0) {
        struct stat info;
        start("sleep 0.2; echo > made");
        while (stat("made", &info) != 0)
            sched_yield();
        printf("made\n");
    } else if (strcmp(way, "time") == 0) {
        // Without others.
        struct stat info;
        while (nanoseconds() - begun < 200000000)
            stat("made", &info);
        printf("later\n");
    } else {
        return 92;
    }
    long long took = nanoseconds() - begun;
    printf("%s\n", took >= 200000000 && took < 5000000000 ? "in time" : "at another time");
    return 0;
}

// Starts the program that its arguments name, with a pipe as standard input to which nobody writes and which stays open.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

int main(int argc, char **argv) {
    int ends[2];
    if (argc < 2 || pipe(ends) != 0) return 90;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[0], 0);
    posix_spawn_file_actions_addclose(&actions, ends[1]);
    pid_t child;
    if (posix_spawnp(&child, argv[1], &actions, NULL, argv + 1, environ) != 0) return 91;
    close(ends[0]);
    int status;
    if (waitpid(child, &status, 0) != child) return 92;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Commands of a shell.
#include "internal.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

// The status of a command that could not be run, as a shell has it.
enum { NOT_FOUND = 127 };

static int spawn_shell(pid_t *pid, const char *command, const posix_spawn_file_actions_t *actions) {
    char *argv[] = {"sh", "-c", (char *)command, NULL};
    return belljar_start(pid, "sh", true, actions, NULL, argv, environ);
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
    return error ? belljar_done(error) : status_of(pid);
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
    return belljar_done(EINVAL);
}

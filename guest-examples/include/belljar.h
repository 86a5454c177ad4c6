/* The import module `belljar`, version 1: processes, pipes and descriptors, which WASI preview 1 lacks,
 * and calls of the host.
 *
 * docs/guest-abi.md has the rules. This header is the interface itself, for those who write a C library or a port of
 * their own; programs that want POSIX take libbelljar instead, which is written against it.
 *
 * All functions but belljar_abi_version, belljar_proc_id and belljar_proc_parent answer 0, or an errno as WASI
 * preview 1 numbers them, which are the numbers of wasi-libc's <errno.h>. Answers are written only with 0. Texts are
 * UTF-8 (paths) or bytes without NUL (arguments, variables), given by pointer and length, with no closing NUL. */
#ifndef BELLJAR_H
#define BELLJAR_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What belljar_abi_version answers. Within a version functions are added, never changed. */
#define BELLJAR_ABI_VERSION 1

#define BELLJAR_IMPORT(name) __attribute__((__import_module__("belljar"), __import_name__(#name)))

/* --- to start a process ------------------------------------------------------------------------------------------ */

/* A text: where it is, and how many bytes it has. */
struct belljar_text {
    const char *ptr;
    uint32_t len;
};

/* What belljar_fd_action.op may be. */
enum {
    BELLJAR_FD_INHERIT = 0, /* the child's `to` is what the parent has as `from`, closed on exec or not */
    BELLJAR_FD_DUP = 1,     /* the child's `to` is what the child has as `from` by then */
    BELLJAR_FD_CLOSE = 2,   /* the child's `from` is closed, if it is open; `to` means nothing */
};

/* A change to the child's descriptors, before it begins. Neither 3 nor 4 can be `to`: see docs/guest-abi.md. */
struct belljar_fd_action {
    uint32_t op;
    uint32_t from;
    uint32_t to;
};

/* Bits of belljar_spawn.flags. */
enum {
    BELLJAR_SPAWN_INHERIT = 1, /* the child begins with the caller's descriptors but those closed on exec; else none */
};

/* What belljar_proc_spawn reads: 12 words. A length is in bytes, a count in elements. */
struct belljar_spawn {
    uint32_t size;                           /*  0: of this struct: 48 */
    const char *program;                     /*  4: a name to look for, or, if it holds a slash, a path */
    uint32_t program_len;                    /*  8: up to 4096 */
    const struct belljar_text *args;         /* 12: the arguments, the program's name first */
    uint32_t args_count;                     /* 16: up to 65536 */
    const struct belljar_text *environ;      /* 20: the environment, as NAME=value; none is passed on by itself */
    uint32_t environ_count;                  /* 24: up to 65536; arguments and environment have 8 MiB together */
    const char *current_dir;                 /* 28: where it begins; a null pointer for where the caller is */
    uint32_t current_dir_len;                /* 32: up to 4096 */
    const struct belljar_fd_action *actions; /* 36: done in this order, after flags */
    uint32_t actions_count;                  /* 40: up to 65536 */
    uint32_t flags;                          /* 44: BELLJAR_SPAWN_INHERIT */
};

_Static_assert(sizeof(struct belljar_spawn) == 48, "the module belljar has pointers of 4 bytes");

/* Starts a process and answers its number. It runs when the caller waits for something.
 * ENOENT: no such program. ENOEXEC: it cannot run. EACCES: it is no file. ENOTDIR and the like: current_dir.
 * EBADF: an action's descriptor is not open. ENOTSUP: an action's `to` is 3 or 4. EAGAIN: the limit of processes.
 * E2BIG: the limits above. EINVAL: size, op or flags are not known. ENOSYS: nothing can be started here. */
BELLJAR_IMPORT(proc_spawn)
int32_t belljar_proc_spawn(const struct belljar_spawn *request, uint32_t *pid);

/* --- to wait for one --------------------------------------------------------------------------------------------- */

/* What belljar_wait_result.how may be. */
enum {
    BELLJAR_EXITED = 0,    /* it exited; `code` is the whole number that it exited with */
    BELLJAR_SIGNALLED = 1, /* a signal ended it; `code` is its number; 6 (SIGABRT) after a trap, 9 at a limit */
};

/* What belljar_proc_wait answers. */
struct belljar_wait_result {
    uint32_t pid; /* 0 if BELLJAR_WAIT_NOHANG is set and none has ended yet */
    uint32_t how;
    uint32_t code;
};

/* Bits of the flags of belljar_proc_wait. */
enum {
    BELLJAR_WAIT_NOHANG = 1, /* do not wait */
};

/* Waits until the child `pid`, or any if it is 0, has ended, and forgets it.
 * ECHILD: there is no such child. EINVAL: flags are not known. */
BELLJAR_IMPORT(proc_wait)
int32_t belljar_proc_wait(uint32_t pid, uint32_t flags, struct belljar_wait_result *result);

/* --- about processes --------------------------------------------------------------------------------------------- */

/* Sends the signal, by its number on Linux, or, if it is 0, only asks whether there is such a process.
 * ESRCH: there is none. EINVAL: the signal is above 31. ENOTSUP: it would stop the process. */
BELLJAR_IMPORT(proc_kill)
int32_t belljar_proc_kill(uint32_t pid, uint32_t signal);

/* The number of this process: 1 for the first of a run, then counting on. */
BELLJAR_IMPORT(proc_id)
uint32_t belljar_proc_id(void);

/* The number of its parent: 0 for the first process of a run, 1 for one whose parent has ended. */
BELLJAR_IMPORT(proc_parent)
uint32_t belljar_proc_parent(void);

/* Whether a write to a pipe that nobody reads answers EPIPE (1), or ends the process with SIGPIPE (0, as it is at
 * first). Processes that are started do as their parent does then. EINVAL: another number. */
BELLJAR_IMPORT(sigpipe_ignore)
int32_t belljar_sigpipe_ignore(uint32_t flag);

/* The process stands for its child `pid` from now on: a signal that ends it ends the child, too. For exec: close what
 * is open, wait for the child, and end as it did. ECHILD: it is no child. */
BELLJAR_IMPORT(proc_become)
int32_t belljar_proc_become(uint32_t pid);

/* --- the current directory --------------------------------------------------------------------------------------- */

/* Makes the directory at `path` the current one: what is looked up from descriptor 4 begins there. Above the root is
 * the root.
 * ENOENT, ENOTDIR. ENOTSUP: the process has no current directory (belljar run --no-worktree). */
BELLJAR_IMPORT(proc_chdir)
int32_t belljar_proc_chdir(const char *path, uint32_t path_len);

/* Writes the absolute path of the current directory, without a closing NUL, and its length in bytes.
 * It has no links in it, and is the directory's path as it is now. ERANGE: it is longer than buf_len. ENOENT: the
 * directory was removed. */
BELLJAR_IMPORT(proc_getcwd)
int32_t belljar_proc_getcwd(char *buf, uint32_t buf_len, uint32_t *len);

/* Whether a path from descriptor 4 is looked up from there alone (1), or may be an absolute one without its slash (0,
 * as it is at first): for a C library that looks absolute paths up from descriptor 3. Processes that are started begin
 * with 0. ENOTSUP: the process has no current directory, or has closed descriptor 4. EINVAL: another number. */
BELLJAR_IMPORT(paths_exact)
int32_t belljar_paths_exact(uint32_t flag);

/* --- the permission to execute a file ----------------------------------------------------------------------------- */

/* Bits of lookup_flags, as those of preview 1. */
enum {
    BELLJAR_LOOKUP_FOLLOW = 1, /* a symbolic link at the end of the path is followed */
};

/* Writes 1 if the owner of the file at `path` may execute it, else 0. It is 1 for directories, and for a symbolic link
 * that is not followed; 0 for devices. `path` is looked up from `dirfd` as by path_filestat_get of preview 1.
 * The errnos of that. EINVAL: flags are not known. */
BELLJAR_IMPORT(path_executable_get)
int32_t belljar_path_executable_get(uint32_t dirfd, uint32_t lookup_flags, const char *path, uint32_t path_len,
                                    uint32_t *executable);

/* Sets (1) or takes away (0) that permission, under all names of the file; only its change time changes. For a
 * directory it has no effect.
 * The errnos of path_filestat_set_times of preview 1. ENOTSUP: a symbolic link that is not followed, a pipe, a device.
 * EINVAL: flags are not known; another number. */
BELLJAR_IMPORT(path_executable_set)
int32_t belljar_path_executable_set(uint32_t dirfd, uint32_t lookup_flags, const char *path, uint32_t path_len,
                                    uint32_t executable);

/* The same for an open file or directory, however it was opened. EBADF: it is neither. */
BELLJAR_IMPORT(fd_executable_set)
int32_t belljar_fd_executable_set(uint32_t fd, uint32_t executable);

/* --- pipes and descriptors --------------------------------------------------------------------------------------- */

/* Bits of the flags of belljar_pipe and belljar_fd_dup, and what belljar_fd_cloexec_get answers. */
enum {
    BELLJAR_FD_CLOEXEC = 1, /* processes that are started do without the descriptor */
};

/* Makes a pipe of 64 KiB: fds[0] is to read from, fds[1] to write to.
 * EMFILE, ENFILE: the limits of descriptors and of pipes. EINVAL: flags are not known. */
BELLJAR_IMPORT(pipe)
int32_t belljar_pipe(uint32_t flags, uint32_t fds[2]);

/* Gives what `fd` stands for the lowest free number that is not below `lowest`, as well.
 * EBADF: fd is not open. EMFILE: the limit. EINVAL: lowest is beyond it, or flags are not known. */
BELLJAR_IMPORT(fd_dup)
int32_t belljar_fd_dup(uint32_t fd, uint32_t lowest, uint32_t flags, uint32_t *copy);

/* Gives what `fd` stands for the number `to`, as well; what that stood for is closed. Nothing happens if both are the
 * same. EBADF: fd is not open, or `to` is beyond the limit. */
BELLJAR_IMPORT(fd_dup2)
int32_t belljar_fd_dup2(uint32_t fd, uint32_t to);

/* Closes every descriptor that is not below `lowest`: the directories 3 and 4, too. It never fails. */
BELLJAR_IMPORT(fd_close_from)
int32_t belljar_fd_close_from(uint32_t lowest);

/* Whether processes that are started do without `fd`: 0 or BELLJAR_FD_CLOEXEC. EBADF. */
BELLJAR_IMPORT(fd_cloexec_get)
int32_t belljar_fd_cloexec_get(uint32_t fd, uint32_t *flag);

/* Sets that: 0 or BELLJAR_FD_CLOEXEC. EBADF. EINVAL: another number. */
BELLJAR_IMPORT(fd_cloexec_set)
int32_t belljar_fd_cloexec_set(uint32_t fd, uint32_t flag);

/* --- the host ---------------------------------------------------------------------------------------------------- */

/* Whether the host can be asked for `name`, a capability (`process`) or an operation (`process.exec`): 0 or 1.
 * ENOSYS: there is no host to ask. */
BELLJAR_IMPORT(host_has)
int32_t belljar_host_has(const char *name, uint32_t name_len, uint32_t *has);

/* Asks the host for the operation `name` and waits for the answer. `params` is a JSON object in UTF-8, or nothing; the
 * answer is one, too: {"ok": …} or {"error": {"kind": …, "message": …}}. Of the answer, as much is written to `buf` as
 * there is room for, and how long all of it is to `size`; belljar_host_reply has the rest.
 * ENOSYS: there is no host to ask. E2BIG: params is longer than the limit (8 MiB unless told otherwise).
 * ENAMETOOLONG: name has more than 256 bytes. EAGAIN: the limit of processes. ENOMEM: no memory for the answer. */
BELLJAR_IMPORT(host_call)
int32_t belljar_host_call(const char *name, uint32_t name_len, const char *params, uint32_t params_len, char *buf,
                          uint32_t buf_len, uint32_t *size);

/* Writes the last answer of belljar_host_call from `offset` on, as far as there is room, and to `size` how much that
 * is: 0 at its end. The next call forgets it. */
BELLJAR_IMPORT(host_reply)
int32_t belljar_host_reply(uint32_t offset, char *buf, uint32_t buf_len, uint32_t *size);

/* --- the module -------------------------------------------------------------------------------------------------- */

/* The version that the runtime has: at least BELLJAR_ABI_VERSION if it has everything above. */
BELLJAR_IMPORT(abi_version)
uint32_t belljar_abi_version(void);

#ifdef __cplusplus
}
#endif

#endif

// What the tools of box share.
#ifndef BOX_H
#define BOX_H

#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

// A tool is called with its own name as argv[0] and answers its exit code.
#define TOOLS(X) \
    X(awk) X(base64) X(basename) X(cat) X(chmod) X(cksum) X(cmp) X(comm) X(cp) X(cut) X(date) X(diff) X(dirname) \
    X(echo) X(egrep) X(env) X(expr) X(false) X(fgrep) X(find) X(fold) X(grep) X(gunzip) X(gzip) X(head) X(install) \
    X(join) X(ln) X(ls) X(md5sum) X(mkdir) X(mktemp) X(mv) X(nl) X(od) X(paste) X(patch) X(printf) X(readlink) \
    X(realpath) X(rm) X(rmdir) X(sed) X(seq) X(sleep) X(sort) X(split) X(stat) X(tac) X(tail) X(tar) X(tee) X(touch) \
    X(tr) X(true) X(uname) X(uniq) X(wc) X(which) X(xargs) X(yes) X(zcat)
#define DECLARE(name) int tool_##name(int argc, char **argv);
TOOLS(DECLARE)
#undef DECLARE

// The name of the tool that runs, for messages.
extern const char *tool;

// `TOOL: MESSAGE` on standard error. Answers 1, which most tools exit with then.
int warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
// `TOOL: PATH: ERROR`, of errno.
int warn_path(const char *path);
// The same, and the end, with the exit code that the tool has for trouble.
_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));
// After getopt has complained.
_Noreturn void die_usage(void);
// What die exits with: 1 unless the tool says otherwise.
extern int trouble;

// Memory, or the end.
void *grow(void *memory, size_t size);
char *copy_text(const char *text);
char *join(const char *dir, const char *name);

// Bytes that grow.
struct bytes {
    char *at;
    size_t len, room;
};
void append(struct bytes *bytes, const void *more, size_t len);

// Texts that grow.
struct texts {
    char **at;
    size_t count, room;
};
void push(struct texts *texts, char *text);
void free_texts(struct texts *texts);

// All of a file, `-` being standard input; false after a message. What is there ends with a NUL that is not counted.
bool read_whole(const char *path, struct bytes *bytes);
void read_rest(FILE *file, struct bytes *bytes);
// Opens a file to read, `-` being standard input; NULL after a message.
FILE *open_input(const char *path);
void close_input(FILE *file);
// For each file of the command line, or for standard input.
#define EACH_FILE(path, argc, argv) \
    for (int i_ = optind; i_ < argc || i_ == optind; i_++) \
        for (const char *path = i_ < argc ? argv[i_] : "-"; path; path = NULL)
// Whether standard output goes to the file that is read; `next` is where the next byte of it is written.
bool is_output(FILE *file, off_t *next);

// The names in a directory but . and .., sorted by bytes; false with errno set.
bool list_dir(const char *path, struct texts *names);
bool list_open_dir(DIR *dir, struct texts *names); // which stays open
// The type (DT_REG, …) of a name that one of them listed: it stands behind the NUL, so that a walk asks for no other.
unsigned char listed_type(const char *name);

// The last part of a path, which may end in slashes, up to `len`.
const char *last_part(const char *path, size_t *len);
// `dir/NAME` with the last part of `path`.
char *into_dir(const char *dir, const char *path);
bool is_dir(const char *path);

// A count in decimal, with a suffix b, k, K, M, G, or the end.
uint64_t parse_count(const char *text, const char *what);
// @SECONDS, YYYY-MM-DD[ HH:MM[:SS]] of UTC, or what is relative to `now`, which is the clock's time if NULL; or the end.
struct timespec parse_time(const char *text, const struct timespec *now);

// An escape after a backslash, as echo -e, printf and tr have it: answers the byte and moves `at` behind it; -1 for \c.
int unescape(const char **at, bool leading_zero);

// Runs a program with these arguments, on `in` as standard input unless that is -1. Answers its status as a shell has
// it: 127 and 126, after a message, if it could not be started.
int run_program(char **argv, int in);

// Copies a file or a tree; see cp.
struct copying {
    // `links`: a link is copied as one, also where nothing is copied with what it holds.
    bool recursive, links, preserve, force, verbose;
};
int copy_path(const char *from, const char *to, const struct copying *how);
int remove_path(const char *path, bool recursive, bool force);
// Files that this command has put somewhere, which what it takes next must not replace: `cp a/x b/x dir` would lose one.
void note_made(const char *path);
bool was_just_made(const char *path);
int refuse_overwriting(const char *from, const char *to); // says so, and answers 1
// Makes a directory and those above it; what is there is fine. Answers 1 after a message.
int make_dirs(char *path);
// The text of a link; NULL with errno set.
char *link_text(const char *path);

// Whether a file may be executed, the only permission that there is. `set_executable` answers -1 with errno set.
bool get_executable(const char *path, bool follow);
int set_executable(const char *path, bool executable);
// The permissions as they are shown, as 0755.
unsigned mode_of(const char *path, const struct stat *stat_);
// Changes `mode` as chmod has it, by an octal number or as u+x,go-w; false if `text` is no such thing.
bool parse_mode(const char *text, unsigned *mode, bool is_directory);

#endif

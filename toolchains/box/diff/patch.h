// What the parts of patch share.
#ifndef PATCH_H
#define PATCH_H

#include "diff.h"

// A line with its end, if it has one.
struct piece {
    const char *at;
    size_t len;
};

struct pieces {
    struct piece *at;
    size_t count, room;
};

// Lines of a hunk, each with its sign.
struct hunk {
    size_t from[2], len[2]; // lines of the old and of the new file, as its head says
    struct pieces old, new;
    struct pieces lines;    // as they are in the patch, signs included
    bool is_turned;         // these signs mean the opposite
    size_t before, behind;  // lines of context
};

struct patch_options {
    bool reversed, loose; // -R, and -l: blanks differ as they like
};

extern struct patch_options patch_options;

void add_piece(struct pieces *pieces, const char *start, size_t len);
void split_lines(const struct bytes *bytes, struct pieces *pieces);
bool begins_with(const struct piece *line, const char *with);

// The patch, which is read line by line.
extern struct bytes patch_text;
extern size_t patch_at, patch_line; // where the next line is, and how many lines are in front of it
bool peek_line(struct piece *line);
void skip_line(const struct piece *line);
// A hunk's head; false if the line is none.
bool parse_head(const struct piece *line, struct hunk *hunk);
// Reads the next hunk, turned around if the patch is; false if there is none.
bool read_hunk(struct hunk *hunk);
void turn_hunk(struct hunk *hunk);
char sign_of(const struct hunk *hunk, size_t line);
void free_hunk(struct hunk *hunk);

// Where the old lines of a hunk are in a file, from 0 on, or -1. `first` is the first line that is still free, `guess`
// where they should be.
ptrdiff_t find_place(const struct pieces *file, const struct hunk *hunk, ptrdiff_t guess, ptrdiff_t first, size_t fuzz);

// What git says of a file, turned around if the patch is.
struct git {
    char *name;
    unsigned modes[2]; // of the old and of the new file; 0 if unknown
    bool creates, removes, moves, is_binary, has_hunks;
};
// Reads the lines of git in front of a file's hunks; false if the next line is none of these.
bool read_git(struct git *git, int strip);

// The name of a head line, without as many parts as `strip` says, or all but the last for -1; NULL for /dev/null.
char *name_of(const char *line, int strip);
// Behind the name of a head line: its time, with the tab in front.
const char *behind_name(const char *line);
// Whether the directories of a path are, by links, not below the current directory.
bool leads_out(const char *path);
// A name as messages show it, in quotes if a shell needs them; the caller frees it.
char *quoted(const char *name);

#endif

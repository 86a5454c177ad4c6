// POSIX regular expressions over bytes, with the extensions of GNU. The longest of the leftmost matches counts, a text
// may hold NUL, and a search that begins inside of a text sees what is in front.
#ifndef REGEX_H
#define REGEX_H

#include "../box.h"

enum {
    REGEX_EXTENDED = 1,
    REGEX_IGNORE_CASE = 2,
    REGEX_MULTILINE = 4, // ^ and $ also match at newlines inside
    REGEX_ESCAPES = 8,   // \n, \t and the like are escapes in brackets, too, as sed has it
    REGEX_AWK = 16,      // a backslash escapes in brackets, \y is a word's edge, \052 a byte
};

// Bytes of a text, from `from` up to `to`; from < 0 where a group took no part.
struct span {
    ptrdiff_t from, to;
};

enum { REGEX_SPANS = 10 }; // the match and the groups 1 to 9

struct regex;

// NULL with the reason in `error`.
struct regex *regex_compile(const char *pattern, size_t len, int flags, const char **error);
void regex_free(struct regex *regex);
// The groups of the pattern.
size_t regex_groups(const struct regex *regex);
// Whether there is a match that begins at `from` or behind. `spans` is NULL, or has room for `count`.
bool regex_find(struct regex *regex, const char *text, size_t len, size_t from, struct span *spans, size_t count);

// The longest text that each match of `pattern` has; NULL if none is known.
char *regex_literal(const char *pattern, bool extended);

#endif

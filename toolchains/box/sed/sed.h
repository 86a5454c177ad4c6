// What the parts of sed share.
#ifndef SED_H
#define SED_H

#include "../regex/regex.h"

enum address_kind { ADDRESS_NONE, ADDRESS_LINE, ADDRESS_STEP, ADDRESS_LAST, ADDRESS_REGEX, ADDRESS_PLUS, ADDRESS_MULTIPLE };

struct address {
    enum address_kind kind;
    uint64_t number, step;
    struct regex *regex; // NULL: the one that was used last
};

// A file that is written; standard output and standard error, too.
struct output {
    char *path;
    FILE *file;
    bool lacks_newline; // of its last line, until more follows
};

// Pieces of a replacement, in a row.
enum piece_kind { PIECE_TEXT, PIECE_SPAN, PIECE_CASE };

struct piece {
    enum piece_kind kind;
    char letter; // of PIECE_CASE: U L u l E
    size_t span;
    struct bytes text;
};

struct substitution {
    struct regex *regex; // NULL: the one that was used last
    struct piece *pieces;
    size_t count;
    uint64_t number; // which match is the first to be replaced
    bool all, prints;
    struct output *output;
};

enum range_state { RANGE_BEFORE, RANGE_INSIDE, RANGE_CLOSED };

struct command {
    char name;
    struct address first, second;
    bool is_negated;
    enum range_state state;
    uint64_t range_end;
    size_t target; // of a jump, and of { the command behind its }
    char *label;
    struct bytes text; // of a, i and c; the file's name of r, R and w
    struct output *output;
    struct substitution *substitution;
    unsigned char *table; // of y
    int number;           // of q, Q and l
};

struct script {
    struct command *commands;
    size_t count, room;
    bool is_extended, quiet, separate, in_place, unbuffered;
    char end_of_line;
};

extern struct script script;

void parse_script(const struct bytes *text);
struct output *open_output(const char *path);
int run_script(char **files, int count, const char *suffix);

#endif

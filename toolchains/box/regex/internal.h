// What the parts of the regular expressions share: a program for a machine without memory, and its states.
#ifndef REGEX_INTERNAL_H
#define REGEX_INTERNAL_H

#include "regex.h"

enum op { OP_SET, OP_SPLIT, OP_JUMP, OP_SAVE, OP_ASSERT, OP_BACK, OP_PROGRESS, OP_MATCH };

enum assertion {
    AT_LINE_START, AT_LINE_END, AT_TEXT_START, AT_TEXT_END, AT_EDGE, AT_NO_EDGE, AT_WORD_START, AT_WORD_END,
};

struct instruction {
    enum op op;
    uint32_t x, y; // SET: its index. SPLIT: the better way and the other. JUMP: to. SAVE, PROGRESS: a slot. BACK: a group.
};

struct byte_set {
    uint32_t bits[8];
};

// What is beside a position: nothing, a newline, a byte of a word, another.
enum side { SIDE_NONE, SIDE_NEWLINE, SIDE_WORD, SIDE_OTHER };

struct state {
    uint32_t *places; // in the program, sorted
    uint32_t count;
    uint32_t hash, next_in_bucket;
    uint8_t before;
    bool is_search; // whether a match may begin at each position
    int32_t *next;  // by class: unknown (-1), or the state times two, plus one if a match ends in front of the byte
};

enum { STATES_MAX = 1024, BUCKETS = 1024 };

struct regex {
    struct instruction *program;
    size_t program_len, program_room;
    struct byte_set *sets;
    size_t set_count, set_room;
    size_t groups, slots; // slots: two of each span, and one of each loop that may match nothing
    bool has_assertions, has_back, is_multiline, begins_at_start, may_be_empty;
    struct byte_set first; // bytes that a match may begin with
    uint8_t class_of[256];
    uint8_t example[257]; // a byte of each class
    size_t classes;
    // States that were met so far.
    struct state *states;
    uint32_t state_count;
    uint32_t buckets[BUCKETS];
    size_t state_bytes;
    uint32_t *seen, *stack, *gathered;
    uint32_t generation;
};

static inline bool set_has(const struct byte_set *set, unsigned char byte) {
    return set->bits[byte >> 5] >> (byte & 31) & 1;
}

static inline void set_add(struct byte_set *set, unsigned char byte) {
    set->bits[byte >> 5] |= (uint32_t)1 << (byte & 31);
}

static inline bool is_word_byte(unsigned char byte) {
    return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || byte == '_';
}

static inline enum side side_of(unsigned char byte) {
    return byte == '\n' ? SIDE_NEWLINE : is_word_byte(byte) ? SIDE_WORD : SIDE_OTHER;
}

bool assertion_holds(const struct regex *regex, enum assertion assertion, enum side before, enum side behind);
// Fills the spans of a match that is known to go from `from` to `to`.
void regex_fill_groups(const struct regex *regex, const char *text, size_t len, size_t from, size_t to, ptrdiff_t *slots);
// The longest match that begins at `from`, where the pattern has back references.
bool regex_backtrack(const struct regex *regex, const char *text, size_t len, size_t from, ptrdiff_t *slots);

#endif

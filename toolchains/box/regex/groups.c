// What the groups of a match are. Of the ways to the same match the one counts that takes more earlier.
#include "internal.h"

// --- without back references: all ways at once -----------------------------------------------------------------------

// The ways that are left at one position, the better ones first.
struct ways {
    uint32_t *places;
    ptrdiff_t *slots; // 2 * REGEX_SPANS of each
    size_t count;
};

struct walk {
    const struct regex *regex;
    const char *text;
    size_t len;
    uint32_t *seen, generation;
    struct branch {
        uint32_t place;
        bool restores; // a slot, once what is behind it has been followed
        uint32_t slot;
        ptrdiff_t value;
    } *stack;
};

enum { SLOTS = 2 * REGEX_SPANS };

static void add_way(struct walk *walk, struct ways *ways, uint32_t place, size_t at, ptrdiff_t *slots) {
    const struct regex *regex = walk->regex;
    enum side before = at == 0 ? SIDE_NONE : side_of(walk->text[at - 1]);
    enum side behind = at == walk->len ? SIDE_NONE : side_of(walk->text[at]);
    size_t depth = 0;
    walk->stack[depth++] = (struct branch){.place = place};
    while (depth) {
        struct branch branch = walk->stack[--depth];
        if (branch.restores) {
            slots[branch.slot] = branch.value;
            continue;
        }
        place = branch.place;
        if (walk->seen[place] == walk->generation) continue;
        walk->seen[place] = walk->generation;
        const struct instruction *it = &regex->program[place];
        switch (it->op) {
            case OP_SPLIT:
                walk->stack[depth++] = (struct branch){.place = it->y};
                walk->stack[depth++] = (struct branch){.place = it->x};
                break;
            case OP_JUMP: walk->stack[depth++] = (struct branch){.place = it->x}; break;
            case OP_ASSERT:
                if (assertion_holds(regex, it->x, before, behind)) {
                    walk->stack[depth++] = (struct branch){.place = place + 1};
                }
                break;
            case OP_SAVE:
                if (it->x < SLOTS) {
                    walk->stack[depth++] = (struct branch){.restores = true, .slot = it->x, .value = slots[it->x]};
                    slots[it->x] = at;
                }
                walk->stack[depth++] = (struct branch){.place = place + 1};
                break;
            case OP_PROGRESS: walk->stack[depth++] = (struct branch){.place = place + 1}; break;
            default:
                ways->places[ways->count] = place;
                memcpy(ways->slots + SLOTS * ways->count++, slots, SLOTS * sizeof *slots);
        }
    }
}

void regex_fill_groups(const struct regex *regex, const char *text, size_t len, size_t from, size_t to, ptrdiff_t *slots) {
    size_t size = regex->program_len;
    struct walk walk = {.regex = regex, .text = text, .len = len};
    walk.seen = grow(NULL, size * sizeof *walk.seen);
    memset(walk.seen, 0, size * sizeof *walk.seen);
    walk.stack = grow(NULL, (3 * size + 3) * sizeof *walk.stack);
    struct ways all[2];
    for (int i = 0; i < 2; i++) {
        all[i].places = grow(NULL, size * sizeof *all[i].places);
        all[i].slots = grow(NULL, size * SLOTS * sizeof *all[i].slots);
        all[i].count = 0;
    }
    struct ways *now = &all[0], *next = &all[1];
    walk.generation = 1;
    add_way(&walk, now, 0, from, slots);
    for (size_t at = from; at < to; at++) {
        next->count = 0;
        walk.generation++;
        for (size_t i = 0; i < now->count; i++) {
            const struct instruction *it = &regex->program[now->places[i]];
            if (it->op != OP_SET || !set_has(&regex->sets[it->x], (unsigned char)text[at])) continue;
            add_way(&walk, next, now->places[i] + 1, at + 1, now->slots + SLOTS * i);
        }
        struct ways *swap = now;
        now = next;
        next = swap;
    }
    for (size_t i = 0; i < now->count; i++) {
        if (regex->program[now->places[i]].op != OP_MATCH) continue;
        memcpy(slots, now->slots + SLOTS * i, SLOTS * sizeof *slots);
        break;
    }
    slots[0] = from;
    slots[1] = to;
    for (int i = 0; i < 2; i++) {
        free(all[i].places);
        free(all[i].slots);
    }
    free(walk.seen);
    free(walk.stack);
}

// --- with back references: one way after the other -------------------------------------------------------------------

// Something to come back to: another way, or the value of a slot.
struct choice {
    uint32_t place;
    bool restores;
    uint32_t slot;
    ptrdiff_t value; // of the slot; else the position
};

struct choices {
    struct choice *at;
    size_t count, room;
};

enum { CHOICES_MAX = 1 << 22 };

static void push_choice(struct choices *choices, struct choice choice) {
    if (choices->count == choices->room) {
        if (choices->room >= CHOICES_MAX) die("regular expression needs too much memory");
        choices->room = 2 * choices->room + 64;
        choices->at = grow(choices->at, choices->room * sizeof *choices->at);
    }
    choices->at[choices->count++] = choice;
}

static void set_slot(struct choices *choices, ptrdiff_t *slots, uint32_t slot, ptrdiff_t value) {
    push_choice(choices, (struct choice){.restores = true, .slot = slot, .value = slots[slot]});
    slots[slot] = value;
}

// Whether the group's text is at `at`; moves behind it.
static bool repeats_group(const char *text, size_t len, const ptrdiff_t *slots, uint32_t group, size_t *at) {
    ptrdiff_t from = slots[2 * group], to = slots[2 * group + 1];
    if (from < 0 || to < from) return false;
    size_t size = to - from;
    if (size > len - *at || memcmp(text + from, text + *at, size)) return false;
    *at += size;
    return true;
}

bool regex_backtrack(const struct regex *regex, const char *text, size_t len, size_t from, ptrdiff_t *best) {
    ptrdiff_t *slots = grow(NULL, regex->slots * sizeof *slots), longest = -1;
    for (size_t i = 0; i < regex->slots; i++) slots[i] = -1;
    struct choices choices = {0};
    push_choice(&choices, (struct choice){.place = 0, .value = from});
    while (choices.count && longest != (ptrdiff_t)len) {
        struct choice choice = choices.at[--choices.count];
        if (choice.restores) {
            slots[choice.slot] = choice.value;
            continue;
        }
        uint32_t place = choice.place;
        size_t at = choice.value;
        for (bool goes_on = true; goes_on;) {
            const struct instruction *it = &regex->program[place++];
            switch (it->op) {
                case OP_SET: goes_on = at < len && set_has(&regex->sets[it->x], (unsigned char)text[at++]); break;
                case OP_SPLIT:
                    push_choice(&choices, (struct choice){.place = it->y, .value = at});
                    place = it->x;
                    break;
                case OP_JUMP: place = it->x; break;
                case OP_SAVE: set_slot(&choices, slots, it->x, at); break;
                case OP_PROGRESS: goes_on = slots[it->x] != (ptrdiff_t)at; break;
                case OP_ASSERT: {
                    enum side before = at == 0 ? SIDE_NONE : side_of(text[at - 1]);
                    goes_on = assertion_holds(regex, it->x, before, at == len ? SIDE_NONE : side_of(text[at]));
                    break;
                }
                case OP_BACK: goes_on = repeats_group(text, len, slots, it->x, &at); break;
                case OP_MATCH:
                    goes_on = false;
                    if ((ptrdiff_t)at <= longest) break;
                    longest = at;
                    memcpy(best, slots, SLOTS * sizeof *slots);
                    best[0] = from;
                    best[1] = at;
            }
        }
    }
    free(slots);
    free(choices.at);
    return longest >= 0;
}

// Searches a text with states that are made when they are met first.
#include "internal.h"

enum { UNKNOWN = -1, STATE_BYTES_MAX = 8 << 20 };

bool assertion_holds(const struct regex *regex, enum assertion assertion, enum side before, enum side behind) {
    bool word_before = before == SIDE_WORD, word_behind = behind == SIDE_WORD;
    switch (assertion) {
        case AT_LINE_START: return before == SIDE_NONE || (regex->is_multiline && before == SIDE_NEWLINE);
        case AT_LINE_END: return behind == SIDE_NONE || (regex->is_multiline && behind == SIDE_NEWLINE);
        case AT_TEXT_START: return before == SIDE_NONE;
        case AT_TEXT_END: return behind == SIDE_NONE;
        case AT_EDGE: return word_before != word_behind;
        case AT_NO_EDGE: return word_before == word_behind;
        case AT_WORD_START: return !word_before && word_behind;
        default: return word_before && !word_behind;
    }
}

static void forget_states(struct regex *regex) {
    for (uint32_t i = 0; i < regex->state_count; i++) {
        free(regex->states[i].places);
        free(regex->states[i].next);
    }
    regex->state_count = 0;
    regex->state_bytes = 0;
    memset(regex->buckets, 0, sizeof regex->buckets);
}

void regex_free(struct regex *regex) {
    if (!regex) return;
    forget_states(regex);
    free(regex->states);
    free(regex->program);
    free(regex->sets);
    free(regex->seen);
    free(regex->stack);
    free(regex->gathered);
    free(regex);
}

static int by_number(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

// The state of the places that were gathered.
static uint32_t state_for(struct regex *regex, uint32_t count, enum side before, bool is_search) {
    uint32_t *places = regex->gathered;
    if (count > 1) qsort(places, count, sizeof *places, by_number);
    uint32_t hash = 2166136261u ^ (before << 1 | is_search);
    for (uint32_t i = 0; i < count; i++) hash = (hash ^ places[i]) * 16777619u;
    uint32_t *bucket = &regex->buckets[hash % BUCKETS];
    for (uint32_t i = *bucket; i; i = regex->states[i - 1].next_in_bucket) {
        const struct state *state = &regex->states[i - 1];
        if (state->hash == hash && state->count == count && state->before == before && state->is_search == is_search &&
            memcmp(state->places, places, count * sizeof *places) == 0) return i - 1;
    }
    size_t size = count * sizeof *places + (regex->classes + 1) * sizeof(int32_t);
    if (regex->state_count == STATES_MAX || regex->state_bytes + size > STATE_BYTES_MAX) forget_states(regex);
    bucket = &regex->buckets[hash % BUCKETS];
    if (!regex->states) regex->states = grow(NULL, STATES_MAX * sizeof *regex->states);
    struct state *state = &regex->states[regex->state_count++];
    *state = (struct state){.count = count, .hash = hash, .before = before, .is_search = is_search};
    state->places = grow(NULL, count * sizeof *places);
    memcpy(state->places, places, count * sizeof *places);
    state->next = grow(NULL, (regex->classes + 1) * sizeof *state->next);
    for (size_t i = 0; i <= regex->classes; i++) state->next[i] = UNKNOWN;
    state->next_in_bucket = *bucket;
    *bucket = regex->state_count;
    regex->state_bytes += size;
    return regex->state_count - 1;
}

// Puts the places that `place` leads to by `byte` behind the `count` gathered ones. Answers how many there are then.
static uint32_t follow(struct regex *regex, const struct state *state, uint32_t place, int byte, uint32_t count,
                       bool *matches) {
    enum side before = state->before, behind = byte < 0 ? SIDE_NONE : side_of(byte);
    size_t depth = 0;
    regex->stack[depth++] = place;
    while (depth) {
        place = regex->stack[--depth];
        if (regex->seen[place] == regex->generation) continue;
        regex->seen[place] = regex->generation;
        const struct instruction *it = &regex->program[place];
        switch (it->op) {
            case OP_SET:
                if (byte >= 0 && set_has(&regex->sets[it->x], byte)) regex->gathered[count++] = place + 1;
                break;
            case OP_SPLIT:
                regex->stack[depth++] = it->y;
                regex->stack[depth++] = it->x;
                break;
            case OP_JUMP: regex->stack[depth++] = it->x; break;
            case OP_ASSERT:
                if (assertion_holds(regex, it->x, before, behind)) regex->stack[depth++] = place + 1;
                break;
            case OP_MATCH: *matches = true; break;
            default: regex->stack[depth++] = place + 1;
        }
    }
    return count;
}

// Where the state leads by a class of bytes, or, behind the last class, at the end of the text.
static int32_t step(struct regex *regex, uint32_t from, size_t class) {
    const struct state *state = &regex->states[from];
    int byte = class == regex->classes ? -1 : regex->example[class];
    bool is_search = state->is_search, matches = false;
    uint32_t count = 0, states_before = regex->state_count;
    regex->generation++;
    for (uint32_t i = 0; i < state->count; i++) {
        count = follow(regex, state, state->places[i], byte, count, &matches);
    }
    int32_t result = matches;
    if (byte >= 0) {
        // No instruction leads back to the first but a jump, so it is not among those gathered.
        if (is_search) regex->gathered[count++] = 0;
        enum side side = regex->has_assertions ? side_of(byte) : SIDE_NONE;
        result |= state_for(regex, count, side, is_search) << 1;
    }
    // Fewer states than before: they were forgotten, and so was this one.
    if (regex->state_count >= states_before) regex->states[from].next[class] = result;
    return result;
}

static uint32_t first_state(struct regex *regex, const char *text, size_t from, bool is_search) {
    regex->gathered[0] = 0;
    enum side before = from == 0 || !regex->has_assertions ? SIDE_NONE : side_of(text[from - 1]);
    return state_for(regex, 1, before, is_search);
}

static int32_t next_of(struct regex *regex, uint32_t state, size_t class) {
    int32_t next = regex->states[state].next[class];
    return next == UNKNOWN ? step(regex, state, class) : next;
}

// Whether there is a match anywhere from `from` on.
static bool has_match(struct regex *regex, const char *text, size_t len, size_t from) {
    uint32_t state = first_state(regex, text, from, true);
    for (size_t at = from; at < len; at++) {
        int32_t next = next_of(regex, state, regex->class_of[(unsigned char)text[at]]);
        if (next & 1) return true;
        state = next >> 1;
    }
    return next_of(regex, state, regex->classes) & 1;
}

// The end of the longest match that begins at `from`, or -1.
static ptrdiff_t match_end(struct regex *regex, const char *text, size_t len, size_t from) {
    uint32_t state = first_state(regex, text, from, false);
    ptrdiff_t end = -1;
    for (size_t at = from;; at++) {
        int32_t next = next_of(regex, state, at < len ? regex->class_of[(unsigned char)text[at]] : regex->classes);
        if (next & 1) end = at;
        if (at == len) return end;
        state = next >> 1;
        if (regex->states[state].count == 0) return end;
    }
}

bool regex_find(struct regex *regex, const char *text, size_t len, size_t from, struct span *spans, size_t count) {
    ptrdiff_t slots[2 * REGEX_SPANS];
    for (size_t i = 0; i < 2 * REGEX_SPANS; i++) slots[i] = -1;
    if (regex->begins_at_start && from > 0) return false;
    if (!regex->has_back && !spans) return has_match(regex, text, len, from);
    // A text without a match is passed once, however many starts look promising.
    if (!regex->has_back && len - from > 256 && !has_match(regex, text, len, from)) return false;
    size_t last = regex->begins_at_start ? from : len;
    for (; from <= last; from++) {
        if (!regex->may_be_empty) {
            while (from < len && !set_has(&regex->first, (unsigned char)text[from])) from++;
            if (from >= len || from > last) return false;
        }
        if (regex->has_back) {
            if (!regex_backtrack(regex, text, len, from, slots)) continue;
        } else {
            ptrdiff_t end = match_end(regex, text, len, from);
            if (end < 0) continue;
            slots[0] = from;
            slots[1] = end;
            if (spans && count > 1 && regex->groups) regex_fill_groups(regex, text, len, from, end, slots);
        }
        for (size_t i = 0; spans && i < count; i++) {
            bool is_there = i < REGEX_SPANS && slots[2 * i] >= 0 && slots[2 * i + 1] >= 0;
            spans[i] = is_there ? (struct span){slots[2 * i], slots[2 * i + 1]} : (struct span){-1, -1};
        }
        return true;
    }
    return false;
}

// Patterns become programs.
#include "internal.h"

#include <ctype.h>

enum kind { EMPTY, SET, CAT, ALT, REPEAT, GROUP, BACK, ASSERT };

// `first` is the first of the nodes inside, which are a list by `next`.
struct node {
    enum kind kind;
    uint32_t first, next;
    uint32_t number; // SET: its index. GROUP, BACK: of the group. ASSERT: which.
    uint32_t min, max;
};

enum { DEPTH_MAX = 200, PROGRAM_MAX = 200000 };
static const uint32_t NONE = 0, UNBOUNDED = UINT32_MAX, REPEAT_MAX = 32767;

struct parser {
    struct regex *regex;
    const unsigned char *at, *end, *start;
    int flags;
    struct node *nodes;
    size_t node_count, node_room;
    int depth;
    bool is_closed[REGEX_SPANS];
    const char *error;
};

static uint32_t add_node(struct parser *parser, enum kind kind, uint32_t number) {
    if (parser->node_count == parser->node_room) {
        parser->node_room = 2 * parser->node_room + 16;
        parser->nodes = grow(parser->nodes, parser->node_room * sizeof *parser->nodes);
    }
    parser->nodes[parser->node_count] = (struct node){.kind = kind, .number = number};
    return parser->node_count++;
}

static uint32_t fail(struct parser *parser, const char *error) {
    if (!parser->error) parser->error = error;
    parser->at = parser->end;
    return NONE;
}

static uint32_t add_set(struct parser *parser, const struct byte_set *set) {
    struct regex *regex = parser->regex;
    if (regex->set_count == regex->set_room) {
        regex->set_room = 2 * regex->set_room + 16;
        regex->sets = grow(regex->sets, regex->set_room * sizeof *regex->sets);
    }
    struct byte_set *made = &regex->sets[regex->set_count];
    *made = *set;
    for (int c = 'a'; parser->flags & REGEX_IGNORE_CASE && c <= 'z'; c++) {
        if (set_has(set, c)) set_add(made, c - 32);
        if (set_has(set, c - 32)) set_add(made, c);
    }
    return add_node(parser, SET, regex->set_count++);
}

static uint32_t add_byte(struct parser *parser, unsigned char byte) {
    struct byte_set set = {0};
    set_add(&set, byte);
    return add_set(parser, &set);
}

// --- brackets --------------------------------------------------------------------------------------------------------

static bool add_class(struct byte_set *set, const char *name, size_t len) {
    static const struct {
        const char *name;
        int (*has)(int);
    } classes[] = {{"alpha", isalpha}, {"digit", isdigit}, {"alnum", isalnum}, {"upper", isupper}, {"lower", islower},
                   {"space", isspace}, {"blank", isblank}, {"punct", ispunct}, {"print", isprint}, {"graph", isgraph},
                   {"cntrl", iscntrl}, {"xdigit", isxdigit}};
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        if (strlen(classes[i].name) != len || memcmp(classes[i].name, name, len)) continue;
        for (int c = 0; c < 128; c++) {
            if (classes[i].has(c)) set_add(set, c);
        }
        return true;
    }
    return false;
}

// A byte by its digits, of which there are up to two of base 16, else three; -1 if there are none. Moves `at` behind.
static int digits_of(const unsigned char **at, const unsigned char *end, int base) {
    int value = 0, count = 0;
    for (; count < (base == 16 ? 2 : 3) && *at < end; count++, ++*at) {
        int digit = isdigit(**at) ? **at - '0' : isxdigit(**at) ? tolower(**at) - 'a' + 10 : 99;
        if (digit >= base) break;
        value = value * base + digit;
    }
    return count ? value & 255 : -1;
}

// A byte after a backslash that stands for another one; -1 if it does not. Moves behind it.
static int escaped_byte(struct parser *parser) {
    static const char names[] = "ntrfva", values[] = "\n\t\r\f\v\a";
    int c = *parser->at;
    const char *name = c ? strchr(names, c) : NULL;
    if (name) {
        parser->at++;
        return values[name - names];
    }
    int base = parser->flags & REGEX_ESCAPES ? c == 'x' ? 16 : c == 'o' ? 8 : c == 'd' ? 10 : 0 : 0;
    if (base) {
        const unsigned char *digit = parser->at + 1;
        int value = digits_of(&digit, parser->end, base);
        if (value >= 0) parser->at = digit;
        return value;
    }
    if (!(parser->flags & REGEX_AWK)) return -1;
    if (c >= '0' && c <= '7') {
        int value = 0;
        for (int i = 0; i < 3 && parser->at < parser->end && *parser->at >= '0' && *parser->at <= '7'; i++) {
            value = value * 8 + *parser->at++ - '0';
        }
        return value & 255;
    }
    if (c == 'b') {
        parser->at++;
        return '\b';
    }
    return -1;
}

// One element of a bracket: its byte, -1 for a class that was added, -2 after an error.
static int bracket_element(struct parser *parser, struct byte_set *set) {
    int c = *parser->at++;
    if (c == '[' && parser->at < parser->end && strchr(".:=", *parser->at) && *parser->at) {
        char kind = *parser->at++;
        const unsigned char *name = parser->at;
        while (parser->at + 1 < parser->end && !(*parser->at == kind && parser->at[1] == ']')) parser->at++;
        if (parser->at + 1 >= parser->end) {
            fail(parser, "Unmatched [, [^, [:, [., or [=");
            return -2;
        }
        size_t len = parser->at - name;
        parser->at += 2;
        if (kind != ':' && len == 1) return *name;
        if (kind == ':' && add_class(set, (const char *)name, len)) return -1;
        fail(parser, kind == ':' ? "Invalid character class name" : "Invalid collation character");
        return -2;
    }
    if (c == '\\' && parser->at < parser->end && parser->flags & (REGEX_AWK | REGEX_ESCAPES)) {
        int byte = escaped_byte(parser);
        if (byte >= 0) return byte;
        if (parser->flags & REGEX_AWK) return *parser->at++;
    }
    return c;
}

static uint32_t parse_bracket(struct parser *parser) {
    struct byte_set set = {0};
    bool negated = parser->at < parser->end && *parser->at == '^';
    if (negated) parser->at++;
    for (bool first = true;; first = false) {
        if (parser->at >= parser->end) return fail(parser, "Unmatched [, [^, [:, [., or [=");
        if (*parser->at == ']' && !first) break;
        int low = bracket_element(parser, &set);
        if (low == -2) return NONE;
        if (low == -1) continue;
        int high = low;
        if (parser->at + 1 < parser->end && *parser->at == '-' && parser->at[1] != ']') {
            parser->at++;
            high = bracket_element(parser, &set);
            if (high < low) return fail(parser, "Invalid range end");
        }
        for (int c = low; c <= high; c++) set_add(&set, c);
    }
    parser->at++;
    if (negated && parser->flags & REGEX_IGNORE_CASE) {
        for (int c = 'a'; c <= 'z'; c++) {
            if (set_has(&set, c)) set_add(&set, c - 32);
            else if (set_has(&set, c - 32)) set_add(&set, c);
        }
    }
    for (int i = 0; negated && i < 8; i++) set.bits[i] = ~set.bits[i];
    int flags = parser->flags;
    if (negated) parser->flags &= ~REGEX_IGNORE_CASE;
    uint32_t node = add_set(parser, &set);
    parser->flags = flags;
    return node;
}

// --- the rest of the syntax --------------------------------------------------------------------------------------------

static uint32_t parse_alternatives(struct parser *parser);

static bool is_extended(const struct parser *parser) {
    return parser->flags & REGEX_EXTENDED;
}

// Whether what is next is the operator `c`, which has a backslash in a basic expression.
static bool is_operator(const struct parser *parser, const unsigned char *at, char c) {
    if (is_extended(parser)) return at < parser->end && *at == c;
    return at + 1 < parser->end && *at == '\\' && at[1] == c;
}

static size_t operator_len(const struct parser *parser) {
    return is_extended(parser) ? 1 : 2;
}

static uint32_t add_word_class(struct parser *parser, char name) {
    struct byte_set set = {0};
    for (int c = 0; c < 256; c++) {
        bool is_in = tolower((unsigned char)name) == 'w' ? is_word_byte(c) : c == ' ' || (c >= '\t' && c <= '\r');
        if (is_in == (islower((unsigned char)name) != 0)) set_add(&set, c);
    }
    return add_set(parser, &set);
}

static uint32_t add_assertion(struct parser *parser, enum assertion assertion) {
    parser->regex->has_assertions = true;
    return add_node(parser, ASSERT, assertion);
}

static uint32_t parse_escape(struct parser *parser) {
    if (parser->at >= parser->end) return fail(parser, "Trailing backslash");
    bool is_awk = parser->flags & REGEX_AWK;
    int c = *parser->at;
    if (c >= '1' && c <= '9' && !is_awk) {
        parser->at++;
        uint32_t group = c - '0';
        if (group > parser->regex->groups || !parser->is_closed[group]) return fail(parser, "Invalid back reference");
        parser->regex->has_back = true;
        return add_node(parser, BACK, group);
    }
    int byte = escaped_byte(parser);
    if (byte >= 0) return add_byte(parser, byte);
    parser->at++;
    switch (c) {
        case 'w': case 'W': case 's': case 'S': return add_word_class(parser, c);
        case '<': return add_assertion(parser, AT_WORD_START);
        case '>': return add_assertion(parser, AT_WORD_END);
        case 'y': if (is_awk) return add_assertion(parser, AT_EDGE); break;
        case 'b': return add_assertion(parser, AT_EDGE);
        case 'B': return add_assertion(parser, AT_NO_EDGE);
        case '`': return add_assertion(parser, AT_TEXT_START);
        case '\'': return add_assertion(parser, AT_TEXT_END);
    }
    return add_byte(parser, c);
}

static uint32_t parse_group(struct parser *parser) {
    if (++parser->depth > DEPTH_MAX) return fail(parser, "Regular expression too big");
    uint32_t number = ++parser->regex->groups;
    parser->at += operator_len(parser);
    uint32_t inner = parse_alternatives(parser);
    if (!is_operator(parser, parser->at, ')')) {
        return fail(parser, "Unmatched ( or \\(");
    }
    parser->at += operator_len(parser);
    parser->depth--;
    if (number < REGEX_SPANS) parser->is_closed[number] = true;
    uint32_t node = add_node(parser, GROUP, number);
    parser->nodes[node].first = inner;
    return node;
}

// `is_first`: nothing but anchors stands in front in this alternative.
static uint32_t parse_atom(struct parser *parser, bool is_first) {
    if (is_operator(parser, parser->at, '(')) return parse_group(parser);
    int c = *parser->at++;
    if (c == '[') return parse_bracket(parser);
    if (c == '.') {
        struct byte_set set;
        memset(&set, 255, sizeof set);
        return add_set(parser, &set);
    }
    if (c == '^' && (is_extended(parser) || is_first)) return add_assertion(parser, AT_LINE_START);
    bool is_last = parser->at == parser->end || is_operator(parser, parser->at, ')') ||
                   is_operator(parser, parser->at, '|');
    if (c == '$' && (is_extended(parser) || is_last)) return add_assertion(parser, AT_LINE_END);
    if (c == '\\') return parse_escape(parser);
    return add_byte(parser, c);
}

static bool parse_number(const struct parser *parser, const unsigned char **at, uint32_t *number) {
    const unsigned char *start = *at;
    for (*number = 0; *at < parser->end && isdigit(**at); ++*at) {
        if (*number <= REPEAT_MAX) *number = *number * 10 + (**at - '0');
    }
    return *at > start;
}

// An interval that begins at `at`; false if it is none.
static bool parse_interval(struct parser *parser, uint32_t *min, uint32_t *max) {
    const unsigned char *at = parser->at + operator_len(parser);
    bool has_min = parse_number(parser, &at, min);
    if (!has_min) *min = 0;
    *max = *min;
    if (at < parser->end && *at == ',') {
        at++;
        if (!parse_number(parser, &at, max)) *max = UNBOUNDED;
    } else if (!has_min) {
        return false;
    }
    if (!is_operator(parser, at, '}')) return false;
    parser->at = at + operator_len(parser);
    return true;
}

// What repeats the last atom; false if there is nothing of that kind.
static bool parse_repeat(struct parser *parser, uint32_t *min, uint32_t *max) {
    *min = 0;
    *max = UNBOUNDED;
    if (parser->at >= parser->end) return false;
    if (*parser->at == '*') {
        parser->at++;
    } else if (is_operator(parser, parser->at, '+')) {
        *min = 1;
        parser->at += operator_len(parser);
    } else if (is_operator(parser, parser->at, '?')) {
        *max = 1;
        parser->at += operator_len(parser);
    } else if (is_operator(parser, parser->at, '{')) {
        if (!parse_interval(parser, min, max)) {
            // Of an extended expression, a brace that begins no interval is one.
            if (!is_extended(parser)) fail(parser, "Invalid preceding regular expression");
            return false;
        }
        if (*min > REPEAT_MAX || (*max != UNBOUNDED && *max > REPEAT_MAX)) {
            fail(parser, "Regular expression too big");
        } else if (*max < *min) {
            fail(parser, "Invalid content of \\{\\}");
        }
    } else {
        return false;
    }
    return true;
}

static uint32_t parse_branch(struct parser *parser) {
    uint32_t branch = add_node(parser, CAT, 0), last = NONE;
    bool is_first = true;
    while (parser->at < parser->end && !is_operator(parser, parser->at, '|')) {
        if (is_operator(parser, parser->at, ')') && (parser->depth > 0 || !is_extended(parser))) break;
        uint32_t atom = NONE;
        // What would repeat nothing is a character, or of an extended expression, nothing.
        if (is_first && *parser->at == '*' && is_extended(parser)) {
            parser->at++;
            continue;
        }
        atom = is_first && *parser->at == '*' ? add_byte(parser, *parser->at++) : parse_atom(parser, is_first);
        if (parser->error) return branch;
        bool is_anchor = parser->nodes[atom].kind == ASSERT;
        if (!is_anchor) is_first = false;
        uint32_t min, max;
        for (int stacked = 0; !(is_anchor && !is_extended(parser)) && parse_repeat(parser, &min, &max); stacked++) {
            if (stacked > DEPTH_MAX) fail(parser, "Regular expression too big");
            if (parser->error) return branch;
            // (x*)* is x*, and a** does not nest.
            const struct node *inner = &parser->nodes[atom];
            if (inner->kind == REPEAT && inner->min == 0 && inner->max == UNBOUNDED && max == UNBOUNDED) continue;
            uint32_t repeat = add_node(parser, REPEAT, 0);
            parser->nodes[repeat].first = atom;
            parser->nodes[repeat].min = min;
            parser->nodes[repeat].max = max;
            atom = repeat;
        }
        if (parser->error) return branch;
        if (last) parser->nodes[last].next = atom;
        else parser->nodes[branch].first = atom;
        last = atom;
    }
    return branch;
}

static uint32_t parse_alternatives(struct parser *parser) {
    uint32_t first = parse_branch(parser);
    if (!is_operator(parser, parser->at, '|')) return first;
    uint32_t all = add_node(parser, ALT, 0), last = first;
    parser->nodes[all].first = first;
    while (!parser->error && is_operator(parser, parser->at, '|')) {
        parser->at += operator_len(parser);
        uint32_t branch = parse_branch(parser);
        parser->nodes[last].next = branch;
        last = branch;
    }
    return all;
}

// --- the program -----------------------------------------------------------------------------------------------------

static size_t emit(struct parser *parser, enum op op, uint32_t x, uint32_t y) {
    struct regex *regex = parser->regex;
    if (regex->program_len >= PROGRAM_MAX) {
        fail(parser, "Regular expression too big");
        return 0;
    }
    if (regex->program_len == regex->program_room) {
        regex->program_room = 2 * regex->program_room + 32;
        regex->program = grow(regex->program, regex->program_room * sizeof *regex->program);
    }
    regex->program[regex->program_len] = (struct instruction){op, x, y};
    return regex->program_len++;
}

static bool may_be_empty(const struct parser *parser, uint32_t node) {
    const struct node *it = &parser->nodes[node];
    switch (it->kind) {
        case SET: return false;
        case GROUP: return may_be_empty(parser, it->first);
        case REPEAT: return it->min == 0 || may_be_empty(parser, it->first);
        case CAT:
            for (uint32_t part = it->first; part; part = parser->nodes[part].next) {
                if (!may_be_empty(parser, part)) return false;
            }
            return true;
        case ALT:
            for (uint32_t part = it->first; part; part = parser->nodes[part].next) {
                if (may_be_empty(parser, part)) return true;
            }
            return false;
        default: return true;
    }
}

static void emit_node(struct parser *parser, uint32_t node);

static void emit_loop(struct parser *parser, uint32_t body) {
    struct regex *regex = parser->regex;
    bool guards = may_be_empty(parser, body);
    uint32_t slot = guards ? regex->slots++ : 0;
    size_t split = emit(parser, OP_SPLIT, 0, 0);
    if (guards) emit(parser, OP_SAVE, slot, 0);
    emit_node(parser, body);
    if (guards) emit(parser, OP_PROGRESS, slot, 0);
    emit(parser, OP_JUMP, split, 0);
    if (parser->error) return;
    regex->program[split].x = split + 1;
    regex->program[split].y = regex->program_len;
}

static void emit_repeat(struct parser *parser, const struct node *it) {
    struct regex *regex = parser->regex;
    for (uint32_t i = 0; i < it->min && !parser->error; i++) emit_node(parser, it->first);
    if (it->max == UNBOUNDED) {
        emit_loop(parser, it->first);
        return;
    }
    // Each further one may be missing, and then the ones behind it are.
    size_t first = regex->program_len;
    for (uint32_t i = it->min; i < it->max && !parser->error; i++) {
        size_t split = emit(parser, OP_SPLIT, 0, UINT32_MAX);
        if (!parser->error) regex->program[split].x = split + 1;
        emit_node(parser, it->first);
    }
    for (size_t i = first; i < regex->program_len; i++) {
        struct instruction *instruction = &regex->program[i];
        if (instruction->op == OP_SPLIT && instruction->y == UINT32_MAX) instruction->y = regex->program_len;
    }
}

static void emit_alternatives(struct parser *parser, const struct node *it) {
    struct regex *regex = parser->regex;
    size_t pending = 0; // jumps to the end, chained by their targets
    for (uint32_t part = it->first; part && !parser->error; part = parser->nodes[part].next) {
        bool is_last = !parser->nodes[part].next;
        size_t split = is_last ? 0 : emit(parser, OP_SPLIT, 0, 0);
        emit_node(parser, part);
        if (is_last || parser->error) break;
        pending = emit(parser, OP_JUMP, pending, 0);
        regex->program[split].x = split + 1;
        regex->program[split].y = regex->program_len;
    }
    while (pending && !parser->error) {
        size_t before = regex->program[pending].x;
        regex->program[pending].x = regex->program_len;
        pending = before;
    }
}

static void emit_node(struct parser *parser, uint32_t node) {
    if (parser->error) return;
    const struct node it = parser->nodes[node];
    switch (it.kind) {
        case EMPTY: break;
        case SET: emit(parser, OP_SET, it.number, 0); break;
        case CAT:
            for (uint32_t part = it.first; part; part = parser->nodes[part].next) emit_node(parser, part);
            break;
        case ALT: emit_alternatives(parser, &it); break;
        case REPEAT: emit_repeat(parser, &it); break;
        case GROUP:
            if (it.number < REGEX_SPANS) emit(parser, OP_SAVE, 2 * it.number, 0);
            emit_node(parser, it.first);
            if (it.number < REGEX_SPANS) emit(parser, OP_SAVE, 2 * it.number + 1, 0);
            break;
        case BACK: emit(parser, OP_BACK, it.number, 0); break;
        case ASSERT: emit(parser, OP_ASSERT, it.number, 0); break;
    }
}

// Bytes that no set tells apart are of one class.
static void find_classes(struct regex *regex) {
    for (int c = 0; c < 256; c++) {
        size_t class = 0;
        for (; class < regex->classes; class++) {
            unsigned char other = regex->example[class];
            bool is_same = !regex->has_assertions || side_of(other) == side_of(c);
            for (size_t i = 0; is_same && i < regex->set_count; i++) {
                is_same = set_has(&regex->sets[i], c) == set_has(&regex->sets[i], other);
            }
            if (is_same) break;
        }
        if (class == regex->classes) regex->example[regex->classes++] = c;
        regex->class_of[c] = class;
    }
}

// The bytes that a match may begin with, and whether it may do without.
static void find_first(struct regex *regex) {
    size_t depth = 0;
    regex->stack[depth++] = 0;
    regex->generation++;
    while (depth) {
        uint32_t place = regex->stack[--depth];
        if (regex->seen[place] == regex->generation) continue;
        regex->seen[place] = regex->generation;
        const struct instruction *it = &regex->program[place];
        switch (it->op) {
            case OP_SET:
                for (int i = 0; i < 8; i++) regex->first.bits[i] |= regex->sets[it->x].bits[i];
                break;
            case OP_SPLIT:
                regex->stack[depth++] = it->y;
                regex->stack[depth++] = it->x;
                break;
            case OP_JUMP: regex->stack[depth++] = it->x; break;
            case OP_BACK: case OP_MATCH: regex->may_be_empty = true; break;
            default: regex->stack[depth++] = place + 1;
        }
    }
}

struct regex *regex_compile(const char *pattern, size_t len, int flags, const char **error) {
    struct regex *regex = grow(NULL, sizeof *regex);
    *regex = (struct regex){.slots = 2 * REGEX_SPANS, .is_multiline = flags & REGEX_MULTILINE};
    const unsigned char *start = (const unsigned char *)pattern;
    struct parser parser = {.regex = regex, .at = start, .end = start + len, .start = start, .flags = flags};
    add_node(&parser, EMPTY, 0);
    uint32_t all = parse_alternatives(&parser);
    if (!parser.error && parser.at < parser.end) fail(&parser, "Unmatched ) or \\)");
    emit_node(&parser, all);
    emit(&parser, OP_MATCH, 0, 0);
    free(parser.nodes);
    if (parser.error) {
        *error = parser.error;
        regex_free(regex);
        return NULL;
    }
    const struct instruction *first = regex->program;
    regex->begins_at_start = first->op == OP_ASSERT && first->x == AT_LINE_START && !regex->is_multiline;
    // Each place is put on the stack at most twice.
    regex->seen = grow(NULL, regex->program_len * sizeof *regex->seen);
    memset(regex->seen, 0, regex->program_len * sizeof *regex->seen);
    regex->stack = grow(NULL, (2 * regex->program_len + 2) * sizeof *regex->stack);
    regex->gathered = grow(NULL, (regex->program_len + 1) * sizeof *regex->gathered);
    find_classes(regex);
    find_first(regex);
    return regex;
}

size_t regex_groups(const struct regex *regex) {
    return regex->groups;
}

// sort: lines in order.
#include "../box.h"

#include <ctype.h>
#include <limits.h>

// How a key compares.
struct order {
    bool numeric, reverse, fold, blanks;
};

// -k: from field and character to field and character, counted from 1; an end of 0 is the end of the line.
struct key {
    size_t from_field, from_char, to_field, to_char;
    bool to_blanks; // b at the end of the key
    struct order order;
    bool has_order;
};

struct line {
    char *at;
    size_t len, number;
};

static struct key *keys;
static size_t key_count;
static struct order global;
static int separator = -1;
static bool is_unique, is_stable;

static bool set_order(struct order *order, char letter) {
    switch (letter) {
        case 'n': order->numeric = true; break;
        case 'r': order->reverse = true; break;
        case 'f': order->fold = true; break;
        case 'b': order->blanks = true; break;
        default: return false;
    }
    return true;
}

static size_t key_number(const char **at, const char *whole) {
    if (!isdigit((unsigned char)**at)) die("invalid number at field start: '%s'", whole);
    size_t number = 0;
    for (; isdigit((unsigned char)**at); ++*at) {
        if (number < SIZE_MAX / 16) number = number * 10 + (**at - '0');
    }
    return number;
}

static void add_key(const char *text) {
    struct key key = {.from_char = 1};
    const char *at = text;
    key.from_field = key_number(&at, text);
    if (*at == '.') {
        at++;
        key.from_char = key_number(&at, text);
    }
    if (!key.from_field || !key.from_char) die("field number is zero: invalid field specification '%s'", text);
    for (; set_order(&key.order, *at); at++) key.has_order = true;
    if (*at == ',') {
        at++;
        key.to_field = key_number(&at, text);
        if (!key.to_field) die("field number is zero: invalid field specification '%s'", text);
        if (*at == '.') {
            at++;
            key.to_char = key_number(&at, text);
        }
        bool blanks = key.order.blanks;
        key.order.blanks = false;
        for (; set_order(&key.order, *at); at++) key.has_order = true;
        key.to_blanks = key.order.blanks;
        key.order.blanks = blanks;
    }
    if (*at) die("stray character in field spec: invalid field specification '%s'", text);
    keys = grow(keys, (key_count + 1) * sizeof *keys);
    keys[key_count++] = key;
}

static const char *skip_blanks(const char *at, const char *end) {
    while (at < end && isblank((unsigned char)*at)) at++;
    return at;
}

// Where field `number` begins: behind a separator, or with the blanks before it.
static const char *field(const char *at, const char *end, size_t number) {
    for (; number > 1 && at < end; number--) {
        if (separator >= 0) {
            const char *found = memchr(at, separator, end - at);
            at = found ? found + 1 : end;
        } else {
            at = skip_blanks(at, end);
            while (at < end && !isblank((unsigned char)*at)) at++;
        }
    }
    return at;
}

static const char *forward(const char *at, const char *end, size_t count) {
    return count < (size_t)(end - at) ? at + count : end;
}

static void key_range(const struct line *line, const struct key *key, bool blanks, const char **from, const char **to) {
    const char *end = line->at + line->len, *start = field(line->at, end, key->from_field);
    if (blanks) start = skip_blanks(start, end);
    *from = forward(start, end, key->from_char - 1);
    *to = end;
    if (key->to_field) {
        const char *last = field(line->at, end, key->to_field);
        if (key->to_char) {
            if (key->to_blanks || (!key->has_order && global.blanks)) last = skip_blanks(last, end);
            *to = forward(last, end, key->to_char);
        } else {
            *to = field(last, end, 2);
            if (separator >= 0 && *to > last && *to <= end && (*to)[-1] == separator) {
                // Not if the line ends with the field and no separator stands behind it.
                if (memchr(last, separator, end - last)) --*to;
            }
        }
    }
    if (*to < *from) *to = *from;
}

// A decimal number, however long: compared as text.
struct number {
    bool negative;
    const char *whole, *fraction;
    size_t whole_len, fraction_len;
};

static struct number parse_number(const char *at, const char *end) {
    struct number number = {0};
    at = skip_blanks(at, end);
    if (at < end && *at == '-') {
        number.negative = true;
        at++;
    }
    while (at < end && *at == '0') at++;
    number.whole = at;
    while (at < end && isdigit((unsigned char)*at)) at++;
    number.whole_len = at - number.whole;
    if (at < end && *at == '.') {
        number.fraction = ++at;
        while (at < end && isdigit((unsigned char)*at)) at++;
        while (at > number.fraction && at[-1] == '0') at--;
        number.fraction_len = at - number.fraction;
    }
    if (!number.whole_len && !number.fraction_len) number.negative = false;
    return number;
}

static int by_len(size_t a, size_t b) {
    return (a > b) - (a < b);
}

static int compare_bytes(const char *a, size_t a_len, const char *b, size_t b_len) {
    size_t len = a_len < b_len ? a_len : b_len;
    int order = len ? memcmp(a, b, len) : 0;
    return order ? order : by_len(a_len, b_len);
}

static int compare_numbers(const char *a, const char *a_end, const char *b, const char *b_end) {
    struct number left = parse_number(a, a_end), right = parse_number(b, b_end);
    if (left.negative != right.negative) return left.negative ? -1 : 1;
    int order = by_len(left.whole_len, right.whole_len);
    if (!order) order = compare_bytes(left.whole, left.whole_len, right.whole, right.whole_len);
    if (!order) order = compare_bytes(left.fraction, left.fraction_len, right.fraction, right.fraction_len);
    return left.negative ? -order : order;
}

static int compare_folded(const char *a, const char *a_end, const char *b, const char *b_end) {
    for (; a < a_end && b < b_end; a++, b++) {
        int order = toupper((unsigned char)*a) - toupper((unsigned char)*b);
        if (order) return order;
    }
    return (a < a_end) - (b < b_end);
}

static int compare_range(const char *a, const char *a_end, const char *b, const char *b_end, struct order order) {
    int result = order.numeric ? compare_numbers(a, a_end, b, b_end)
                 : order.fold  ? compare_folded(a, a_end, b, b_end)
                               : compare_bytes(a, a_end - a, b, b_end - b);
    return order.reverse ? -result : result;
}

// By the keys alone.
static int compare_keys(const struct line *a, const struct line *b) {
    for (size_t i = 0; i < key_count; i++) {
        struct order order = keys[i].has_order ? keys[i].order : global;
        const char *a_from, *a_to, *b_from, *b_to;
        key_range(a, &keys[i], order.blanks, &a_from, &a_to);
        key_range(b, &keys[i], order.blanks, &b_from, &b_to);
        int result = compare_range(a_from, a_to, b_from, b_to, order);
        if (result) return result;
    }
    if (key_count) return 0;
    const char *a_end = a->at + a->len, *b_end = b->at + b->len;
    const char *a_from = global.blanks ? skip_blanks(a->at, a_end) : a->at;
    const char *b_from = global.blanks ? skip_blanks(b->at, b_end) : b->at;
    return compare_range(a_from, a_end, b_from, b_end, global);
}

static int compare(const void *left, const void *right) {
    const struct line *a = left, *b = right;
    int result = compare_keys(a, b);
    if (result) return result;
    if (!is_unique && !is_stable) {
        result = compare_bytes(a->at, a->len, b->at, b->len);
        if (result) return global.reverse ? -result : result;
    }
    return by_len(a->number, b->number);
}

int tool_sort(int argc, char **argv) {
    trouble = 2;
    const char *output = NULL;
    bool checks = false, quiet = false;
    char end = '\n';
    for (int option; (option = getopt_long(argc, argv, "nrfbuscCmzk:t:o:S:T:", (struct option[]){{0}}, NULL)) != -1;) {
        switch (option) {
            case 'n': case 'r': case 'f': case 'b': set_order(&global, option); break;
            case 'u': is_unique = true; break;
            case 's': is_stable = true; break;
            case 'C': quiet = true; // fall through
            case 'c': checks = true; break;
            case 'm': break; // sorted files are sorted again
            case 'z': end = '\0'; break;
            case 'k': add_key(optarg); break;
            case 't':
                if (strcmp(optarg, "\\0") == 0) separator = 0;
                else if (!optarg[0] || optarg[1]) die("multi-character tab '%s'", optarg);
                else separator = (unsigned char)*optarg;
                break;
            case 'o': output = optarg; break;
            case 'S': case 'T': break;
            default: die_usage();
        }
    }
    struct line *lines = NULL;
    size_t count = 0, room = 0;
    for (int i = optind; i < argc || i == optind; i++) {
        struct bytes text;
        if (!read_whole(i < argc ? argv[i] : "-", &text)) exit(trouble);
        for (size_t at = 0; at < text.len;) {
            char *found = memchr(text.at + at, end, text.len - at);
            size_t len = found ? (size_t)(found - text.at - at) : text.len - at;
            if (count == room) {
                room = 2 * room + 1024;
                if (room > SIZE_MAX / sizeof *lines) die("out of memory");
                lines = grow(lines, room * sizeof *lines);
            }
            lines[count] = (struct line){text.at + at, len, count};
            count++;
            at += len + 1;
        }
    }
    if (checks) {
        for (size_t i = 1; i < count; i++) {
            int order = is_unique || is_stable ? compare_keys(&lines[i - 1], &lines[i]) : 0;
            if (!is_unique && !is_stable) {
                lines[i - 1].number = lines[i].number;
                order = compare(&lines[i - 1], &lines[i]);
            }
            if (order < 0 || (order == 0 && !is_unique)) continue;
            if (!quiet) {
                warn("%s:%zu: disorder: %.*s", optind < argc ? argv[optind] : "-", i + 1,
                     lines[i].len < INT_MAX ? (int)lines[i].len : INT_MAX, lines[i].at);
            }
            return 1;
        }
        return 0;
    }
    if (count) qsort(lines, count, sizeof *lines, compare);
    if (output && !freopen(output, "w", stdout)) die("open failed: %s: %s", output, strerror(errno));
    for (size_t i = 0; i < count; i++) {
        if (is_unique && i > 0 && compare_keys(&lines[i - 1], &lines[i]) == 0) continue;
        fwrite(lines[i].at, 1, lines[i].len, stdout);
        putchar(end);
    }
    return 0;
}

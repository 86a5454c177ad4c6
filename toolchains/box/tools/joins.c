// join: lines of two sorted files that have a field in common.
#include "../box.h"

#include <ctype.h>

struct row {
    char *text;
    size_t len;
    struct part {
        const char *at;
        size_t len;
    } *fields;
    size_t count;
};

// The lines of a file with the same key, and the one behind them.
struct side {
    FILE *file;
    int key; // from 0 on
    struct row *rows;
    size_t count, room;
    struct row next;
    bool has_next;
};

static int separator = -1; // blanks
static bool ignore_case, automatic, unpaired[2], paired = true, has_order, unsorted[2], checks = true;
static size_t automatic_count[2];
static const char *filler = "";
static struct {
    int file; // 0: the key
    size_t field;
} *order;
static size_t order_count;

static void split_row(struct row *row) {
    const char *at = row->text, *end = row->text + row->len;
    size_t room = 0;
    for (bool more = true; more;) {
        if (separator < 0) {
            while (at < end && isblank((unsigned char)*at)) at++;
            if (at == end) break;
        }
        const char *start = at;
        while (at < end && (separator < 0 ? !isblank((unsigned char)*at) : *at != separator)) at++;
        if (row->count == room) {
            room = 2 * room + 8;
            row->fields = grow(row->fields, room * sizeof *row->fields);
        }
        row->fields[row->count++] = (struct part){start, at - start};
        more = at < end;
        at++;
    }
}

static struct part field_of(const struct row *row, size_t index) {
    return index < row->count ? row->fields[index] : (struct part){"", 0};
}

static int compare_keys(const struct row *a, int a_key, const struct row *b, int b_key) {
    struct part x = field_of(a, a_key), y = field_of(b, b_key);
    size_t shorter = x.len < y.len ? x.len : y.len;
    int result = ignore_case ? strncasecmp(x.at, y.at, shorter) : memcmp(x.at, y.at, shorter);
    return result ? result : (x.len > y.len) - (x.len < y.len);
}

static bool read_row(struct side *side, struct row *row) {
    *row = (struct row){0};
    size_t room = 0;
    ssize_t count = getline(&row->text, &room, side->file);
    if (count <= 0) {
        free(row->text);
        return false;
    }
    row->len = count - (row->text[count - 1] == '\n');
    split_row(row);
    return true;
}

static void free_row(struct row *row) {
    free(row->text);
    free(row->fields);
}

// Reads the next lines that have one key; false at the end.
static bool read_group(struct side *side, int number) {
    for (size_t i = 0; i < side->count; i++) free_row(&side->rows[i]);
    side->count = 0;
    if (!side->has_next) return false;
    do {
        if (side->count == side->room) {
            side->room = 2 * side->room + 8;
            side->rows = grow(side->rows, side->room * sizeof *side->rows);
        }
        side->rows[side->count++] = side->next;
        side->has_next = read_row(side, &side->next);
        int result = side->has_next ? compare_keys(&side->rows[0], side->key, &side->next, side->key) : 1;
        if (side->has_next && result > 0) unsorted[number] = true;
        if (result) break;
    } while (true);
    return true;
}

static void put_field(bool *first, struct part part) {
    if (!*first) putchar(separator < 0 ? ' ' : separator);
    *first = false;
    if (part.len) fwrite(part.at, 1, part.len, stdout);
    else fputs(filler, stdout);
}

static void put_rest(bool *first, const struct row *row, size_t key, size_t count) {
    size_t most = automatic ? count : row ? row->count : 0;
    for (size_t i = 0; i < most; i++) {
        if (i != key) put_field(first, row ? field_of(row, i) : (struct part){"", 0});
    }
}

static void put_rows(const struct row *a, const struct row *b, const struct side *sides) {
    bool first = true;
    struct part key = a ? field_of(a, sides[0].key) : field_of(b, sides[1].key);
    if (has_order) {
        for (size_t i = 0; i < order_count; i++) {
            const struct row *row = order[i].file == 1 ? a : b;
            put_field(&first, order[i].file == 0 ? key : row ? field_of(row, order[i].field) : (struct part){"", 0});
        }
    } else {
        put_field(&first, key);
        put_rest(&first, a, sides[0].key, automatic_count[0]);
        put_rest(&first, b, sides[1].key, automatic_count[1]);
    }
    putchar('\n');
}

static void parse_order(const char *list) {
    has_order = true;
    if (strcmp(list, "auto") == 0) {
        automatic = true;
        has_order = false;
        return;
    }
    while (*list) {
        char *end;
        long file = strtol(list, &end, 10), field = 0;
        if (end == list || file < 0 || file > 2) die("invalid file number in field spec: '%s'", list);
        list = end;
        if (file) {
            if (*list != '.') die("invalid field specifier: '%s'", list);
            field = strtol(list + 1, &end, 10);
            if (end == list + 1 || field < 1) die("invalid field number: '%s'", list + 1);
            list = end;
        }
        order = grow(order, (order_count + 1) * sizeof *order);
        order[order_count].file = file;
        order[order_count++].field = field - 1;
        if (*list && *list != ',' && !isblank((unsigned char)*list)) die("invalid field specifier: '%s'", list);
        while (*list == ',' || isblank((unsigned char)*list)) list++;
    }
}

static int parse_field(const char *text) {
    uint64_t field = parse_count(text, "field number");
    if (!field || field > 1000000) die("invalid field number: '%s'", text);
    return (int)field - 1;
}

static void merge(struct side *sides) {
    bool there[2];
    for (int i = 0; i < 2; i++) there[i] = read_group(&sides[i], i);
    while (there[0] || there[1]) {
        int result = !there[1] ? -1 : !there[0] ? 1
                   : compare_keys(&sides[0].rows[0], sides[0].key, &sides[1].rows[0], sides[1].key);
        if (result == 0) {
            for (size_t i = 0; paired && i < sides[0].count; i++) {
                for (size_t j = 0; j < sides[1].count; j++) put_rows(&sides[0].rows[i], &sides[1].rows[j], sides);
            }
        } else {
            int alone = result > 0;
            for (size_t i = 0; unpaired[alone] && i < sides[alone].count; i++) {
                put_rows(alone ? NULL : &sides[0].rows[i], alone ? &sides[1].rows[i] : NULL, sides);
            }
        }
        if (result <= 0) there[0] = read_group(&sides[0], 0);
        if (result >= 0) there[1] = read_group(&sides[1], 1);
    }
}

int tool_join(int argc, char **argv) {
    struct side sides[2] = {0};
    bool has_header = false;
    static const struct option options[] = {{"header", no_argument, NULL, 'H'}, {"nocheck-order", no_argument, NULL, 'N'},
                                            {"ignore-case", no_argument, NULL, 'i'}, {0}};
    for (int option; (option = getopt_long(argc, argv, "t:1:2:j:o:a:v:e:i", options, NULL)) != -1;) {
        switch (option) {
            case 't':
                if (strcmp(optarg, "\\0") == 0) separator = 0;
                else if (!*optarg) separator = '\n';
                else if (optarg[1] && strcmp(optarg, "\\t")) die("multi-character tab '%s'", optarg);
                else separator = optarg[1] ? '\t' : *optarg;
                break;
            case '1': sides[0].key = parse_field(optarg); break;
            case '2': sides[1].key = parse_field(optarg); break;
            case 'j': sides[0].key = sides[1].key = parse_field(optarg); break;
            case 'o': parse_order(optarg); break;
            case 'a': case 'v':
                if ((*optarg != '1' && *optarg != '2') || optarg[1]) die("invalid file number: '%s'", optarg);
                unpaired[*optarg - '1'] = true;
                if (option == 'v') paired = false;
                break;
            case 'e': filler = optarg; break;
            case 'i': ignore_case = true; break;
            case 'H': has_header = true; break;
            case 'N': checks = false; break;
            default: die_usage();
        }
    }
    if (argc - optind < 2) die(optind < argc ? "missing operand after '%s'" : "missing operand", argv[argc - 1]);
    if (argc - optind > 2) die("extra operand '%s'", argv[optind + 2]);
    for (int i = 0; i < 2; i++) {
        sides[i].file = open_input(argv[optind + i]);
        if (!sides[i].file) return 1;
        sides[i].has_next = read_row(&sides[i], &sides[i].next);
        if (sides[i].has_next) automatic_count[i] = sides[i].next.count;
    }
    if (has_header && (sides[0].has_next || sides[1].has_next)) {
        put_rows(sides[0].has_next ? &sides[0].next : NULL, sides[1].has_next ? &sides[1].next : NULL, sides);
        for (int i = 0; i < 2; i++) {
            if (!sides[i].has_next) continue;
            free_row(&sides[i].next);
            sides[i].has_next = read_row(&sides[i], &sides[i].next);
        }
    }
    merge(sides);
    for (int i = 0; checks && i < 2; i++) {
        if (unsorted[i]) warn("%s: is not sorted", argv[optind + i]);
    }
    return checks && (unsorted[0] || unsorted[1]);
}

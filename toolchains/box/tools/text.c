// cat, cut, tee, tr, uniq, wc: text by bytes and lines.
#include "../box.h"

#include <ctype.h>
#include <fcntl.h>

static void put(const char *at, size_t len) {
    fwrite(at, 1, len, stdout);
}

int tool_cat(int argc, char **argv) {
    bool numbers = false;
    for (int option; (option = getopt_long(argc, argv, "un", (struct option[]){{0}}, NULL)) != -1;) {
        if (option == '?') die_usage();
        if (option == 'n') numbers = true;
    }
    int status = 0;
    uint64_t line = 0;
    bool at_start = true;
    static char block[1 << 16];
    EACH_FILE(path, argc, argv) {
        FILE *file = open_input(path);
        if (!file) {
            status = 1;
            continue;
        }
        off_t next;
        if (is_output(file, &next) && lseek(fileno(file), 0, SEEK_CUR) < next) {
            // It would read what it writes, without an end.
            status = warn("%s: input file is output file", path);
            close_input(file);
            continue;
        }
        // What is there is passed on before more is waited for.
        ssize_t count;
        while ((count = read(fileno(file), block, sizeof block)) > 0) {
            for (ssize_t i = 0; numbers && i < count; i++) {
                if (at_start) printf("%6llu\t", (unsigned long long)++line);
                putchar(block[i]);
                at_start = block[i] == '\n';
            }
            if (!numbers && fwrite(block, 1, count, stdout) < (size_t)count) return 1;
            if (fflush(stdout)) return 1;
        }
        if (count < 0) status = warn_path(path);
        close_input(file);
    }
    return status;
}

int tool_tee(int argc, char **argv) {
    int flags = O_WRONLY | O_CREAT | O_TRUNC, status = 0;
    for (int option; (option = getopt_long(argc, argv, "ai", (struct option[]){{0}}, NULL)) != -1;) {
        if (option == '?') die_usage();
        if (option == 'a') flags = O_WRONLY | O_CREAT | O_APPEND;
    }
    int count = argc - optind + 1;
    int *files = grow(NULL, count * sizeof *files);
    files[0] = 1;
    for (int i = 1; i < count; i++) {
        files[i] = open(argv[optind + i - 1], flags, 0666);
        if (files[i] < 0) status = warn_path(argv[optind + i - 1]);
    }
    static char block[1 << 16];
    ssize_t got;
    while ((got = read(0, block, sizeof block)) > 0) {
        for (int i = 0; i < count; i++) {
            for (ssize_t done = 0, more; files[i] >= 0 && done < got; done += more) {
                more = write(files[i], block + done, got - done);
                if (more >= 0) continue;
                status = warn_path(i ? argv[optind + i - 1] : "standard output");
                files[i] = -1;
                break;
            }
        }
    }
    return got < 0 ? warn_path("-") : status;
}

// --- wc --------------------------------------------------------------------------------------------------------------

struct counts {
    uint64_t lines, words, bytes;
};

static bool show_lines, show_words, show_bytes;

static void print_counts(const struct counts *counts, int width, const char *name) {
    const char *between = "";
    const uint64_t numbers[] = {counts->lines, counts->words, counts->bytes};
    const bool shown[] = {show_lines, show_words, show_bytes};
    for (int i = 0; i < 3; i++) {
        if (!shown[i]) continue;
        printf("%s%*llu", between, width, (unsigned long long)numbers[i]);
        between = " ";
    }
    printf(name ? " %s\n" : "\n", name);
}

int tool_wc(int argc, char **argv) {
    for (int option; (option = getopt_long(argc, argv, "lwcm", (struct option[]){{0}}, NULL)) != -1;) {
        switch (option) {
            case 'l': show_lines = true; break;
            case 'w': show_words = true; break;
            case 'c': case 'm': show_bytes = true; break;
            default: die_usage();
        }
    }
    if (!show_lines && !show_words && !show_bytes) show_lines = show_words = show_bytes = true;
    // As wide as the largest number may be, which is the size of all files; a stream's is not known.
    int width = 1, status = 0;
    if (argc - optind > 1 || show_lines + show_words + show_bytes > 1) {
        uint64_t total = 0;
        EACH_FILE(path, argc, argv) {
            struct stat stat_;
            bool known = (strcmp(path, "-") ? stat(path, &stat_) : fstat(0, &stat_)) == 0;
            if (known && S_ISREG(stat_.st_mode)) total += stat_.st_size;
            else if (known) width = 7;
        }
        int digits = snprintf(NULL, 0, "%llu", (unsigned long long)total);
        if (digits > width) width = digits;
    }
    struct counts all = {0};
    static unsigned char block[1 << 16];
    EACH_FILE(path, argc, argv) {
        struct counts counts = {0};
        FILE *file = open_input(path);
        if (!file) {
            status = 1;
            continue;
        }
        bool in_word = false;
        size_t got;
        while ((got = fread(block, 1, sizeof block, file)) > 0) {
            counts.bytes += got;
            for (size_t i = 0; i < got; i++) {
                bool space = isspace(block[i]);
                counts.lines += block[i] == '\n';
                counts.words += !space && !in_word;
                in_word = !space;
            }
        }
        if (ferror(file)) status = warn_path(path);
        close_input(file);
        print_counts(&counts, width, optind < argc ? path : NULL);
        all.lines += counts.lines;
        all.words += counts.words;
        all.bytes += counts.bytes;
    }
    if (argc - optind > 1) print_counts(&all, width, "total");
    return status;
}

// --- cut -------------------------------------------------------------------------------------------------------------

struct span {
    uint64_t from, to;
};

static struct span *spans;
static size_t span_count;

static void add_spans(char *list) {
    for (char *word; (word = strsep(&list, ", "));) {
        struct span span = {1, UINT64_MAX};
        char *dash = strchr(word, '-');
        if (dash) *dash++ = '\0';
        if (!*word && (!dash || !*dash)) die("invalid field range");
        if (*word) span.from = parse_count(word, "field value");
        if (!dash) span.to = span.from;
        else if (*dash) span.to = parse_count(dash, "field value");
        if (span.from == 0) die("fields are numbered from 1");
        if (span.to < span.from) die("invalid decreasing range");
        spans = grow(spans, (span_count + 1) * sizeof *spans);
        spans[span_count++] = span;
    }
}

static bool is_wanted(uint64_t number) {
    for (size_t i = 0; i < span_count; i++) {
        if (number >= spans[i].from && number <= spans[i].to) return true;
    }
    return false;
}

int tool_cut(int argc, char **argv) {
    int kind = 0, status = 0;
    char delimiter = '\t';
    bool only_delimited = false;
    for (int option; (option = getopt_long(argc, argv, "b:c:f:d:ns", (struct option[]){{0}}, NULL)) != -1;) {
        switch (option) {
            case 'b': case 'c': case 'f':
                if (kind) die("only one list may be specified");
                kind = option;
                add_spans(optarg);
                break;
            case 'd':
                if (optarg[0] && optarg[1]) die("the delimiter must be a single character");
                delimiter = *optarg;
                break;
            case 'n': break;
            case 's': only_delimited = true; break;
            default: die_usage();
        }
    }
    if (!kind) die("you must specify a list of bytes, characters, or fields");
    char *line = NULL;
    size_t room = 0;
    EACH_FILE(path, argc, argv) {
        FILE *file = open_input(path);
        if (!file) {
            status = 1;
            continue;
        }
        for (ssize_t len; (len = getline(&line, &room, file)) >= 0;) {
            if (len > 0 && line[len - 1] == '\n') len--;
            if (kind != 'f') {
                for (ssize_t i = 0; i < len; i++) {
                    if (is_wanted(i + 1)) putchar(line[i]);
                }
            } else if (!memchr(line, delimiter, len)) {
                if (only_delimited) continue;
                put(line, len);
            } else {
                bool first = true;
                ssize_t at = 0;
                for (uint64_t field = 1; at <= len; field++) {
                    char *end = memchr(line + at, delimiter, len - at);
                    size_t size = end ? (size_t)(end - line - at) : (size_t)(len - at);
                    if (is_wanted(field)) {
                        if (!first) putchar(delimiter);
                        put(line + at, size);
                        first = false;
                    }
                    at += size + 1;
                }
            }
            putchar('\n');
        }
        if (ferror(file)) status = warn_path(path);
        close_input(file);
    }
    free(line);
    return status;
}

// --- tr --------------------------------------------------------------------------------------------------------------

// The bytes of a set in order. `fill` is where [x*] stood, which is repeated to the length of the first set.
struct set {
    struct bytes bytes;
    size_t fill_at;
    bool fills;
    char fill;
};

static int set_char(const char **at) {
    if (**at == '\\' && (*at)[1]) {
        ++*at;
        if (!strchr("abfnrtv\\01234567", **at)) return (unsigned char)*(*at)++;
        return unescape(at, false);
    }
    return (unsigned char)*(*at)++;
}

static bool is_in_class(const char *name, int c) {
    static const struct {
        const char *name;
        int (*has)(int);
    } classes[] = {{"alnum", isalnum}, {"alpha", isalpha}, {"blank", isblank}, {"cntrl", iscntrl},
                   {"digit", isdigit}, {"graph", isgraph}, {"lower", islower}, {"print", isprint},
                   {"punct", ispunct}, {"space", isspace}, {"upper", isupper}, {"xdigit", isxdigit}};
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        if (strcmp(classes[i].name, name) == 0) return classes[i].has(c);
    }
    die("invalid character class '%s'", name);
}

static struct set parse_set(const char *text) {
    struct set set = {0};
    append(&set.bytes, "", 0);
    while (*text) {
        const char *close;
        if (text[0] == '[' && text[1] == ':' && (close = strstr(text + 2, ":]"))) {
            char name[16];
            snprintf(name, sizeof name, "%.*s", (int)(close - text - 2), text + 2);
            for (int c = 0; c < 256; c++) {
                char byte = c;
                if (is_in_class(name, c)) append(&set.bytes, &byte, 1);
            }
            text = close + 2;
            continue;
        }
        if (text[0] == '[' && text[1] == '=' && text[2] && text[3] == '=' && text[4] == ']') {
            append(&set.bytes, text + 2, 1);
            text += 5;
            continue;
        }
        const char *at = text + 1;
        if (text[0] == '[' && *at) {
            char byte = set_char(&at);
            size_t digits = *at == '*' ? strspn(at + 1, "0123456789") : 0;
            if (*at == '*' && at[1 + digits] == ']') {
                unsigned long count = strtoul(at + 1, NULL, at[1] == '0' ? 8 : 10);
                if (count > 1 << 20) die("too many repetitions");
                if (count == 0) {
                    set.fills = true;
                    set.fill = byte;
                    set.fill_at = set.bytes.len;
                }
                for (; count > 0; count--) append(&set.bytes, &byte, 1);
                text = at + 2 + digits;
                continue;
            }
        }
        int from = set_char(&text), to = from;
        if (text[0] == '-' && text[1]) {
            text++;
            to = set_char(&text);
            if (to < from) die("range-endpoints of '%c-%c' are in reverse collating sequence order", from, to);
        }
        for (int c = from; c <= to; c++) {
            char byte = c;
            append(&set.bytes, &byte, 1);
        }
    }
    return set;
}

static void complement(struct set *set) {
    bool has[256] = {false};
    for (size_t i = 0; i < set->bytes.len; i++) has[(unsigned char)set->bytes.at[i]] = true;
    set->bytes.len = 0;
    for (int c = 0; c < 256; c++) {
        char byte = c;
        if (!has[c]) append(&set->bytes, &byte, 1);
    }
}

static void stretch(struct set *set, size_t len) {
    if (set->fills && set->bytes.len < len) {
        size_t more = len - set->bytes.len, behind_fill = set->bytes.len - set->fill_at;
        for (size_t i = 0; i < more; i++) append(&set->bytes, &set->fill, 1);
        char *at = set->bytes.at + set->fill_at;
        memmove(at + more, at, behind_fill);
        memset(at, set->fill, more);
    }
    char last = set->bytes.len ? set->bytes.at[set->bytes.len - 1] : 0;
    while (set->bytes.len > 0 && set->bytes.len < len) append(&set->bytes, &last, 1);
}

int tool_tr(int argc, char **argv) {
    bool complements = false, deletes = false, squeezes = false, truncates = false;
    for (int option; (option = getopt_long(argc, argv, "+cCdst", (struct option[]){{0}}, NULL)) != -1;) {
        switch (option) {
            case 'c': case 'C': complements = true; break;
            case 'd': deletes = true; break;
            case 's': squeezes = true; break;
            case 't': truncates = true; break;
            default: die_usage();
        }
    }
    int count = argc - optind;
    if (count < 1) die("missing operand");
    if (count < 2 && deletes == squeezes) die("missing operand after '%s'", argv[optind]);
    if (count > 2 || (count == 2 && deletes && !squeezes)) die("extra operand '%s'", argv[argc - 1]);
    struct set first = parse_set(argv[optind]), second = count == 2 ? parse_set(argv[optind + 1]) : (struct set){0};
    if (complements) complement(&first);
    bool deleted[256] = {false}, squeezed[256] = {false};
    unsigned char map[256];
    for (int c = 0; c < 256; c++) map[c] = c;
    if (deletes) {
        for (size_t i = 0; i < first.bytes.len; i++) deleted[(unsigned char)first.bytes.at[i]] = true;
    } else if (count == 2) {
        if (truncates) {
            if (first.bytes.len > second.bytes.len) first.bytes.len = second.bytes.len;
        } else {
            if (!second.bytes.len && !second.fills) die("when not truncating set1, string2 must be non-empty");
            stretch(&second, first.bytes.len);
        }
        for (size_t i = 0; i < first.bytes.len; i++) map[(unsigned char)first.bytes.at[i]] = second.bytes.at[i];
    }
    if (squeezes) {
        const struct set *of = count == 2 ? &second : &first;
        for (size_t i = 0; i < of->bytes.len; i++) squeezed[(unsigned char)of->bytes.at[i]] = true;
    }
    int last = -1;
    for (int c; (c = getchar()) != EOF;) {
        if (deleted[c]) continue;
        c = map[c];
        if (squeezed[c] && c == last) continue;
        putchar(c);
        last = c;
    }
    return ferror(stdin) ? warn_path("-") : 0;
}

// --- uniq ------------------------------------------------------------------------------------------------------------

static uint64_t skip_fields, skip_chars, most_chars = UINT64_MAX;
static bool ignore_case;

static struct bytes compared(const struct bytes *line) {
    const char *at = line->at, *end = at + line->len;
    for (uint64_t i = 0; i < skip_fields && at < end; i++) {
        while (at < end && isblank((unsigned char)*at)) at++;
        while (at < end && !isblank((unsigned char)*at)) at++;
    }
    at += skip_chars < (uint64_t)(end - at) ? skip_chars : (uint64_t)(end - at);
    size_t len = end - at;
    return (struct bytes){.at = (char *)at, .len = len < most_chars ? len : most_chars};
}

static bool are_equal(const struct bytes *a, const struct bytes *b) {
    struct bytes left = compared(a), right = compared(b);
    if (left.len != right.len) return false;
    if (!ignore_case) return left.len == 0 || memcmp(left.at, right.at, left.len) == 0;
    for (size_t i = 0; i < left.len; i++) {
        if (tolower((unsigned char)left.at[i]) != tolower((unsigned char)right.at[i])) return false;
    }
    return true;
}

int tool_uniq(int argc, char **argv) {
    bool counts = false, repeated = false, single = false;
    for (int option; (option = getopt_long(argc, argv, "cduif:s:w:", (struct option[]){{0}}, NULL)) != -1;) {
        switch (option) {
            case 'c': counts = true; break;
            case 'd': repeated = true; break;
            case 'u': single = true; break;
            case 'i': ignore_case = true; break;
            case 'f': skip_fields = parse_count(optarg, "number of fields to skip"); break;
            case 's': skip_chars = parse_count(optarg, "number of bytes to skip"); break;
            case 'w': most_chars = parse_count(optarg, "number of bytes to compare"); break;
            default: die_usage();
        }
    }
    if (argc - optind > 2) die("extra operand '%s'", argv[optind + 2]);
    FILE *in = open_input(optind < argc ? argv[optind] : "-");
    if (!in) return 1;
    if (argc - optind == 2 && strcmp(argv[optind + 1], "-") && !freopen(argv[optind + 1], "w", stdout)) {
        return warn_path(argv[optind + 1]);
    }
    struct bytes line = {0}, kept = {0};
    uint64_t count = 0;
    bool more;
    do {
        ssize_t len = getline(&line.at, &line.room, in);
        more = len >= 0;
        line.len = more ? len - (len > 0 && line.at[len - 1] == '\n') : 0;
        if (more && count && are_equal(&line, &kept)) {
            count++;
            continue;
        }
        if (count && !(repeated && count == 1) && !(single && count > 1)) {
            if (counts) printf("%7llu ", (unsigned long long)count);
            put(kept.at, kept.len);
            putchar('\n');
        }
        struct bytes before = kept;
        kept = line;
        line = before;
        count = 1;
    } while (more);
    return ferror(in) ? warn_path("-") : 0;
}

// comm, fold, join, nl, paste, split, tac: lines of text.
#include "../box.h"

#include <ctype.h>
#include <fcntl.h>

// A line without its end.
struct line {
    char *at;
    size_t len, room;
    bool has_end;
};

static bool read_line(FILE *file, char end, struct line *line) {
    ssize_t count = getdelim(&line->at, &line->room, end, file);
    if (count <= 0) return false;
    line->has_end = line->at[count - 1] == end;
    line->len = count - line->has_end;
    return true;
}

static int compare_bytes(const char *a, size_t a_len, const char *b, size_t b_len) {
    int order = memcmp(a, b, a_len < b_len ? a_len : b_len);
    return order ? order : (a_len > b_len) - (a_len < b_len);
}

static FILE *must_open(const char *path) {
    FILE *file = open_input(path);
    if (!file) exit(trouble);
    return file;
}

// --- comm ----------------------------------------------------------------------------------------------------------------

static void put_column(int column, const bool *hidden, const char *separator, const struct line *line, char end) {
    if (hidden[column]) return;
    for (int i = 0; i < column; i++) {
        if (!hidden[i]) fputs(separator, stdout);
    }
    fwrite(line->at, 1, line->len, stdout);
    putchar(end);
}

int tool_comm(int argc, char **argv) {
    static const struct option options[] = {{"output-delimiter", required_argument, NULL, 'd'},
                                            {"check-order", no_argument, NULL, 'c'},
                                            {"nocheck-order", no_argument, NULL, 'n'},
                                            {"total", no_argument, NULL, 't'},
                                            {0}};
    bool hidden[3] = {0}, checks = true, totals = false, strict = false;
    const char *separator = "\t";
    char end = '\n';
    for (int option; (option = getopt_long(argc, argv, "123z", options, NULL)) != -1;) {
        if (option >= '1' && option <= '3') hidden[option - '1'] = true;
        else if (option == 'z') end = '\0';
        else if (option == 'd') separator = optarg;
        else if (option == 'c') strict = true;
        else if (option == 'n') checks = false;
        else if (option == 't') totals = true;
        else die_usage();
    }
    if (argc - optind < 2) die(optind < argc ? "missing operand after '%s'" : "missing operand", argv[argc - 1]);
    if (argc - optind > 2) die("extra operand '%s'", argv[optind + 2]);
    FILE *files[2] = {must_open(argv[optind]), must_open(argv[optind + 1])};
    struct line lines[2] = {0}, before[2] = {0};
    bool there[2], was[2] = {0}, complained = false, unpaired = false;
    unsigned long long counts[3] = {0};
    int status = 0;
    for (int i = 0; i < 2; i++) there[i] = read_line(files[i], end, &lines[i]);
    while (there[0] || there[1]) {
        int order = !there[1] ? -1 : !there[0] ? 1 : compare_bytes(lines[0].at, lines[0].len, lines[1].at, lines[1].len);
        int column = order < 0 ? 0 : order > 0 ? 1 : 2;
        unpaired |= column < 2;
        counts[column]++;
        put_column(column, hidden, separator, &lines[order > 0], end);
        for (int i = 0; i < 2; i++) {
            if (column != 2 && column != i) continue;
            struct line swap = before[i];
            before[i] = lines[i];
            lines[i] = swap;
            was[i] = true;
            there[i] = read_line(files[i], end, &lines[i]);
            bool is_wrong = was[i] && there[i] && checks && (unpaired || strict) &&
                            compare_bytes(before[i].at, before[i].len, lines[i].at, lines[i].len) > 0;
            if (!is_wrong) continue;
            if (!complained || strict) status = warn("file %d is not in sorted order", i + 1);
            if (strict) return status;
            complained = true;
        }
    }
    if (totals) {
        for (int i = 0; i < 3; i++) printf("%llu%s", counts[i], separator);
        printf("total%c", end);
    }
    if (status) warn("input is not in sorted order");
    return status;
}

// --- fold ----------------------------------------------------------------------------------------------------------------

static size_t column_after(size_t column, char c, bool bytes) {
    if (bytes) return column + 1;
    return c == '\b' ? column - (column > 0) : c == '\r' ? 0 : c == '\t' ? column + 8 - column % 8 : column + 1;
}

static void fold_file(FILE *file, size_t width, bool bytes, bool at_blanks) {
    struct bytes line = {0};
    size_t column = 0;
    for (int c; (c = getc(file)) != EOF;) {
        if (c == '\n') {
            append(&line, "\n", 1);
            fwrite(line.at, 1, line.len, stdout);
            column = line.len = 0;
            continue;
        }
        column = column_after(column, c, bytes);
        if (column > width && line.len) {
            size_t cut = line.len;
            if (at_blanks) {
                while (cut && !isblank((unsigned char)line.at[cut - 1])) cut--;
                if (!cut) cut = line.len;
            }
            fwrite(line.at, 1, cut, stdout);
            putchar('\n');
            memmove(line.at, line.at + cut, line.len - cut);
            line.len -= cut;
            column = 0;
            for (size_t i = 0; i < line.len; i++) column = column_after(column, line.at[i], bytes);
            column = column_after(column, c, bytes);
        }
        append(&line, &(char){c}, 1);
    }
    if (line.len) fwrite(line.at, 1, line.len, stdout);
    free(line.at);
}

int tool_fold(int argc, char **argv) {
    size_t width = 80;
    bool bytes = false, at_blanks = false;
    static const struct option options[] = {{"width", required_argument, NULL, 'w'}, {"spaces", no_argument, NULL, 's'},
                                            {"bytes", no_argument, NULL, 'b'}, {0}};
    for (int option; (option = getopt_long(argc, argv, "bsw:", options, NULL)) != -1;) {
        if (option == 'b') bytes = true;
        else if (option == 's') at_blanks = true;
        else if (option == 'w') width = parse_count(optarg, "number of columns");
        else die_usage();
    }
    if (!width) die("invalid number of columns: '0'");
    int status = 0;
    for (int i = optind; i < argc || i == optind; i++) {
        FILE *file = open_input(i < argc ? argv[i] : "-");
        if (!file) {
            status = 1;
            continue;
        }
        fold_file(file, width, bytes, at_blanks);
        close_input(file);
    }
    return status;
}

// --- nl ------------------------------------------------------------------------------------------------------------------

int tool_nl(int argc, char **argv) {
    char style = 't', format = 'r';
    int width = 6;
    long long number = 1, step = 1;
    const char *separator = "\t";
    for (int option; (option = getopt_long(argc, argv, "b:i:n:s:v:w:p", (struct option[]){{0}}, NULL)) != -1;) {
        switch (option) {
            case 'b':
                style = *optarg;
                if (!strchr("atn", style) || !style || optarg[1]) die("invalid body numbering style: '%s'", optarg);
                break;
            case 'i': step = atoll(optarg); break;
            case 'n':
                format = strcmp(optarg, "ln") == 0 ? 'l' : strcmp(optarg, "rn") == 0 ? 'r' : strcmp(optarg, "rz") == 0 ? 'z' : 0;
                if (!format) die("invalid line numbering format: '%s'", optarg);
                break;
            case 's': separator = optarg; break;
            case 'v': number = atoll(optarg); break;
            case 'w':
                width = (int)parse_count(optarg, "line number field width");
                if (width < 1 || width > 1000) die("invalid line number field width: '%s'", optarg);
                break;
            case 'p': break;
            default: die_usage();
        }
    }
    int status = 0;
    struct line line = {0};
    for (int i = optind; i < argc || i == optind; i++) {
        FILE *file = open_input(i < argc ? argv[i] : "-");
        if (!file) {
            status = 1;
            continue;
        }
        while (read_line(file, '\n', &line)) {
            if (style == 'a' || (style == 't' && line.len)) {
                printf(format == 'l' ? "%-*lld" : format == 'z' ? "%0*lld" : "%*lld", width, number);
                fputs(separator, stdout);
                number += step;
            } else {
                printf("%*s", width + (int)strlen(separator), "");
            }
            fwrite(line.at, 1, line.len, stdout);
            putchar('\n');
        }
        close_input(file);
    }
    return status;
}

// --- paste ---------------------------------------------------------------------------------------------------------------

// The delimiters, with `\0` for none; each is one byte here, or -1.
static int *parse_delimiters(const char *text, size_t *count) {
    int *delimiters = grow(NULL, (strlen(text) + 1) * sizeof *delimiters);
    *count = 0;
    for (; *text; text++) {
        int c = (unsigned char)*text;
        if (c == '\\' && text[1]) {
            text++;
            c = *text == 'n' ? '\n' : *text == 't' ? '\t' : *text == '0' ? -1 : (unsigned char)*text;
        }
        delimiters[(*count)++] = c;
    }
    if (!*count) delimiters[(*count)++] = -1;
    return delimiters;
}

static void put_delimiter(int delimiter) {
    if (delimiter >= 0) putchar(delimiter);
}

static void paste_serially(FILE *file, const int *delimiters, size_t count, char end) {
    struct line line = {0};
    for (size_t i = 0; read_line(file, end, &line); i++) {
        if (i) put_delimiter(delimiters[(i - 1) % count]);
        fwrite(line.at, 1, line.len, stdout);
    }
    putchar(end);
    free(line.at);
}

static void paste_together(FILE **files, int file_count, const int *delimiters, size_t count, char end) {
    struct line line = {0};
    for (;;) {
        int pending = 0; // files without a line, in front of the first that has one
        bool any = false;
        for (int i = 0; i < file_count; i++) {
            bool found = files[i] && read_line(files[i], end, &line);
            if (!found && !any) {
                pending++;
                continue;
            }
            for (int j = 0; j < pending; j++) put_delimiter(delimiters[j % count]);
            pending = 0;
            if (any) put_delimiter(delimiters[(i - 1) % count]);
            any = true;
            if (found) fwrite(line.at, 1, line.len, stdout);
        }
        if (!any) break;
        putchar(end);
    }
    free(line.at);
}

int tool_paste(int argc, char **argv) {
    bool serial = false;
    char end = '\n';
    size_t count;
    const char *list = "\t";
    static const struct option options[] = {{"delimiters", required_argument, NULL, 'd'}, {"serial", no_argument, NULL, 's'}, {0}};
    for (int option; (option = getopt_long(argc, argv, "sd:z", options, NULL)) != -1;) {
        if (option == 's') serial = true;
        else if (option == 'd') list = optarg;
        else if (option == 'z') end = '\0';
        else die_usage();
    }
    int *delimiters = parse_delimiters(list, &count), file_count = argc > optind ? argc - optind : 1, status = 0;
    FILE **files = grow(NULL, file_count * sizeof *files);
    for (int i = 0; i < file_count; i++) {
        files[i] = open_input(optind < argc ? argv[optind + i] : "-");
        if (!files[i]) status = 1;
        if (!files[i] && !serial) return 1;
        if (serial && files[i]) paste_serially(files[i], delimiters, count, end);
    }
    if (!serial) paste_together(files, file_count, delimiters, count, end);
    return status;
}

// --- tac -----------------------------------------------------------------------------------------------------------------

int tool_tac(int argc, char **argv) {
    bool before = false;
    const char *separator = "\n";
    for (int option; (option = getopt_long(argc, argv, "bs:", (struct option[]){{0}}, NULL)) != -1;) {
        if (option == 'b') before = true;
        else if (option == 's') separator = optarg;
        else die_usage();
    }
    size_t size = strlen(separator);
    if (!size) die("separator cannot be empty");
    int status = 0;
    for (int i = optind; i < argc || i == optind; i++) {
        struct bytes text;
        if (!read_whole(i < argc ? argv[i] : "-", &text)) {
            status = 1;
            free(text.at);
            continue;
        }
        size_t end = text.len, at = text.len;
        while (at > 0) {
            at--;
            bool found = at + size <= text.len && memcmp(text.at + at, separator, size) == 0;
            if (!found) continue;
            size_t cut = before ? at : at + size;
            if (cut < end) fwrite(text.at + cut, 1, end - cut, stdout);
            end = cut;
        }
        fwrite(text.at, 1, end, stdout);
        free(text.at);
    }
    return status;
}

// --- split ---------------------------------------------------------------------------------------------------------------

struct pieces {
    const char *prefix, *suffix;
    bool digits, has_len;
    int len;
    unsigned long long number;
    FILE *file;
};

static void open_piece(struct pieces *pieces) {
    if (pieces->file && fclose(pieces->file)) die("write error: %s", strerror(errno));
    int base = pieces->digits ? 10 : 26;
    unsigned long long room = 1;
    for (int i = 0; i < pieces->len; i++) room *= base;
    // Without -a names grow: the last first letter introduces those that are longer.
    unsigned long long number = pieces->number++;
    int len = pieces->len;
    if (!pieces->has_len) {
        unsigned long long group = room / base * (base - 1);
        int prefix = 0;
        for (; number >= group && len + 2 * prefix < 20; prefix++) number -= group, group *= base;
        char name[40];
        int at = 0;
        for (int i = 0; i < prefix; i++) name[at++] = pieces->digits ? '9' : 'z';
        for (int i = len + prefix; i-- > 0; number /= base) {
            name[at + i] = (pieces->digits ? '0' : 'a') + (char)(number % base);
        }
        name[at + len + prefix] = '\0';
        char *path = grow(NULL, strlen(pieces->prefix) + strlen(name) + strlen(pieces->suffix) + 1);
        sprintf(path, "%s%s%s", pieces->prefix, name, pieces->suffix);
        pieces->file = fopen(path, "w");
        if (!pieces->file) die("%s: %s", path, strerror(errno));
        free(path);
        return;
    }
    if (number >= room) die("output file suffixes exhausted");
    char name[24];
    for (int i = len; i-- > 0; number /= base) name[i] = (pieces->digits ? '0' : 'a') + (char)(number % base);
    name[len] = '\0';
    char *path = grow(NULL, strlen(pieces->prefix) + len + strlen(pieces->suffix) + 1);
    sprintf(path, "%s%s%s", pieces->prefix, name, pieces->suffix);
    pieces->file = fopen(path, "w");
    if (!pieces->file) die("%s: %s", path, strerror(errno));
    free(path);
}

int tool_split(int argc, char **argv) {
    struct pieces pieces = {.prefix = "x", .suffix = "", .len = 2};
    uint64_t size = 1000;
    bool bytes = false;
    static const struct option options[] = {{"lines", required_argument, NULL, 'l'}, {"bytes", required_argument, NULL, 'b'},
                                            {"suffix-length", required_argument, NULL, 'a'},
                                            {"numeric-suffixes", no_argument, NULL, 'd'},
                                            {"additional-suffix", required_argument, NULL, 'S'}, {0}};
    for (int option; (option = getopt_long(argc, argv, "l:b:a:d", options, NULL)) != -1;) {
        switch (option) {
            case 'l': case 'b':
                bytes = option == 'b';
                size = parse_count(optarg, bytes ? "number of bytes" : "number of lines");
                if (!size) die("invalid number of %s: '0'", bytes ? "bytes" : "lines");
                break;
            case 'a':
                pieces.len = (int)parse_count(optarg, "suffix length");
                pieces.has_len = true;
                if (pieces.len < 1 || pieces.len > 12) die("invalid suffix length: '%s'", optarg);
                break;
            case 'd': pieces.digits = true; break;
            case 'S': pieces.suffix = optarg; break;
            default: die_usage();
        }
    }
    if (argc - optind > 2) die("extra operand '%s'", argv[optind + 2]);
    FILE *file = must_open(optind < argc ? argv[optind] : "-");
    if (argc - optind == 2) pieces.prefix = argv[optind + 1];
    static char block[1 << 16];
    uint64_t left = 0;
    for (size_t count; (count = fread(block, 1, sizeof block, file)) > 0;) {
        for (size_t at = 0; at < count;) {
            if (!left) {
                open_piece(&pieces);
                left = size;
            }
            size_t len = count - at;
            if (bytes) {
                if (len > left) len = left;
                left -= len;
            } else {
                const char *newline = memchr(block + at, '\n', len);
                if (newline) {
                    len = newline + 1 - (block + at);
                    left--;
                }
            }
            if (fwrite(block + at, 1, len, pieces.file) != len) die("write error: %s", strerror(errno));
            at += len;
        }
    }
    if (ferror(file)) die("read error: %s", strerror(errno));
    if (pieces.file && fclose(pieces.file)) die("write error: %s", strerror(errno));
    return 0;
}

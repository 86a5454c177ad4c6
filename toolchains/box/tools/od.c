// od: bytes as numbers.
#include "../box.h"

#include <ctype.h>

struct format {
    char kind; // a c d o u x f
    int size, width; // of an element in bytes, and as it is printed
    bool shows_text;
};

static struct format *formats;
static size_t format_count;
static char radix = 'o';
static size_t line_size;

static void add_format(char kind, int size, bool shows_text) {
    static const int widths[][9] = {
        ['d' - 'a'] = {0, 4, 6, 0, 11, 0, 0, 0, 20}, ['o' - 'a'] = {0, 3, 6, 0, 11, 0, 0, 0, 22},
        ['u' - 'a'] = {0, 3, 5, 0, 10, 0, 0, 0, 20}, ['x' - 'a'] = {0, 2, 4, 0, 8, 0, 0, 0, 16},
        ['a' - 'a'] = {0, 3}, ['c' - 'a'] = {0, 3}, ['f' - 'a'] = {0, 0, 0, 0, 15, 0, 0, 0, 24},
    };
    formats = grow(formats, (format_count + 1) * sizeof *formats);
    formats[format_count++] = (struct format){kind, size, widths[kind - 'a'][size], shows_text};
}

static void parse_formats(const char *text) {
    for (const char *at = text; *at;) {
        char kind = *at++;
        if (!strchr("acdoufx", kind)) die("invalid character '%c' in type string '%s'", kind, text);
        int size = kind == 'a' || kind == 'c' ? 1 : kind == 'f' ? 8 : 4;
        if (strchr("doux", kind)) {
            if (*at && strchr("CSIL", *at)) {
                size = *at == 'C' ? 1 : *at == 'S' ? 2 : *at == 'I' ? 4 : 8;
                at++;
            } else if (isdigit((unsigned char)*at)) {
                size = (int)strtol(at, (char **)&at, 10);
            }
        } else if (kind == 'f') {
            if (*at == 'F' || *at == 'D') size = *at++ == 'F' ? 4 : 8;
            else if (isdigit((unsigned char)*at)) size = (int)strtol(at, (char **)&at, 10);
        }
        bool is_known = kind == 'f' ? size == 4 || size == 8 : size == 1 || size == 2 || size == 4 || size == 8;
        if (!is_known) die("invalid type string '%s'", text);
        bool shows_text = *at == 'z';
        if (shows_text) at++;
        add_format(kind, size, shows_text);
    }
}

static void put_address(uint64_t address) {
    if (radix == 'n') return;
    printf(radix == 'o' ? "%07llo" : radix == 'd' ? "%07llu" : "%06llx", (unsigned long long)address);
}

static void put_name(int c, char text[8]) {
    static const char *const names[] = {"nul", "soh", "stx", "etx", "eot", "enq", "ack", "bel", "bs", "ht", "nl",
                                        "vt", "ff", "cr", "so", "si", "dle", "dc1", "dc2", "dc3", "dc4", "nak",
                                        "syn", "etb", "can", "em", "sub", "esc", "fs", "gs", "rs", "us", "sp"};
    c &= 127;
    if (c == 127) strcpy(text, "del");
    else if (c <= 32) strcpy(text, names[c]);
    else snprintf(text, 8, "%c", c);
}

static void put_character(int c, char text[8]) {
    static const char from[] = "\a\b\f\n\r\t\v", to[] = "abfnrtv";
    const char *found = c ? strchr(from, c) : NULL;
    if (found) snprintf(text, 8, "\\%c", to[found - from]);
    else if (c == 0) strcpy(text, "\\0");
    else if (c < 32 || c > 126) snprintf(text, 8, "%03o", c);
    else snprintf(text, 8, "%c", c);
}

static void put_element(const struct format *format, const unsigned char *at, int column) {
    uint64_t value = 0;
    char text[64];
    for (int i = format->size; i-- > 0;) value = value << 8 | at[i];
    if (format->kind == 'a') put_name(*at, text);
    else if (format->kind == 'c') put_character(*at, text);
    else if (format->kind == 'f' && format->size == 4) {
        float number;
        memcpy(&number, at, 4);
        for (int digits = 1; digits < 10; digits++) {
            snprintf(text, sizeof text, "%.*g", digits, number);
            if (strtof(text, NULL) == number) break;
        }
    } else if (format->kind == 'f') {
        double number;
        memcpy(&number, at, 8);
        for (int digits = 1; digits < 18; digits++) {
            snprintf(text, sizeof text, "%.*g", digits, number);
            if (strtod(text, NULL) == number) break;
        }
    } else if (format->kind == 'd') {
        int64_t number = format->size < 8 && value >> (8 * format->size - 1) ? (int64_t)value - ((int64_t)1 << 8 * format->size)
                                                                             : (int64_t)value;
        snprintf(text, sizeof text, "%lld", (long long)number);
    } else {
        snprintf(text, sizeof text, format->kind == 'o' ? "%0*llo" : format->kind == 'x' ? "%0*llx" : "%*llu", format->width,
                 (unsigned long long)value);
    }
    printf("%*s", column, text);
}

// A line of all formats, below each other. `len` bytes are there; `block` goes on with zeros.
static void put_line(uint64_t address, const unsigned char *block, size_t len) {
    // Elements of one format stand below those of another that have the same bytes.
    int widest = 0; // of eight bytes
    for (size_t i = 0; i < format_count; i++) {
        int width = (formats[i].width + 1) * (8 / formats[i].size);
        if (width > widest) widest = width;
    }
    for (size_t i = 0; i < format_count; i++) {
        const struct format *format = &formats[i];
        if (i == 0) put_address(address);
        else printf("%*s", radix == 'n' ? 0 : radix == 'x' ? 6 : 7, "");
        int per_eight = 8 / format->size, extra = widest - format->width * per_eight;
        for (size_t at = 0; at < len; at += format->size) {
            // What is left over of the columns is spread over the elements of eight bytes.
            int index = (int)(at / format->size) % per_eight;
            int before = extra * (per_eight - index) / per_eight - extra * (per_eight - index - 1) / per_eight;
            put_element(format, block + at, before + format->width);
        }
        if (format->shows_text) {
            size_t missing = (line_size - len) / format->size;
            printf("%*s  >", (int)missing * (format->width + extra / per_eight), "");
            for (size_t at = 0; at < len; at++) putchar(block[at] >= 32 && block[at] < 127 ? block[at] : '.');
            putchar('<');
        }
        putchar('\n');
    }
}

// Reads as much as there is, from one file after the other.
static size_t read_files(unsigned char *to, size_t size, char **paths, int *next, int count, FILE **file, int *status) {
    size_t len = 0;
    while (len < size) {
        if (!*file) {
            if (*next == count) break;
            *file = open_input(paths[(*next)++]);
            if (!*file) *status = 1;
            continue;
        }
        size_t more = fread(to + len, 1, size - len, *file);
        len += more;
        if (more) continue;
        close_input(*file);
        *file = NULL;
    }
    return len;
}

static uint64_t parse_size(const char *text, const char *what) {
    if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) return strtoull(text, NULL, 16);
    return parse_count(text, what);
}

static int dump(char **paths, int count, uint64_t skip, uint64_t most, bool all) {
    unsigned char *block = grow(NULL, line_size + 8), *before = grow(NULL, line_size + 8), byte;
    int next = 0, status = 0;
    FILE *file = NULL;
    uint64_t address = 0;
    bool starred = false, has_before = false;
    for (; address < skip; address++) {
        if (!read_files(&byte, 1, paths, &next, count, &file, &status)) die("cannot skip past end of combined input");
    }
    uint64_t end = most > UINT64_MAX - skip ? UINT64_MAX : skip + most;
    while (address < end) {
        size_t room = end - address < line_size ? (size_t)(end - address) : line_size;
        size_t len = read_files(block, room, paths, &next, count, &file, &status);
        if (!len) break;
        memset(block + len, 0, line_size + 8 - len);
        if (!all && has_before && len == line_size && memcmp(block, before, len) == 0) {
            if (!starred) puts("*");
            starred = true;
        } else {
            starred = false;
            put_line(address, block, len);
        }
        memcpy(before, block, line_size);
        has_before = true;
        address += len;
    }
    put_address(address);
    if (radix != 'n') putchar('\n');
    return status;
}

int tool_od(int argc, char **argv) {
    bool all = false;
    uint64_t skip = 0, most = UINT64_MAX;
    static const struct option options[] = {{"address-radix", required_argument, NULL, 'A'}, {"format", required_argument, NULL, 't'},
                                            {"read-bytes", required_argument, NULL, 'N'}, {"skip-bytes", required_argument, NULL, 'j'},
                                            {"output-duplicates", no_argument, NULL, 'v'}, {"width", optional_argument, NULL, 'w'}, {0}};
    for (int option; (option = getopt_long(argc, argv, "A:t:N:j:vw::abcdoxs", options, NULL)) != -1;) {
        switch (option) {
            case 'A':
                radix = *optarg;
                if (!strchr("doxn", radix) || !radix) die("invalid output address radix '%c'; it must be one character from [doxn]", radix);
                break;
            case 't': parse_formats(optarg); break;
            case 'N': most = parse_size(optarg, "-N argument"); break;
            case 'j': skip = parse_size(optarg, "-j argument"); break;
            case 'v': all = true; break;
            case 'w': line_size = optarg ? parse_size(optarg, "-w argument") : 32; break;
            case 'a': add_format('a', 1, false); break;
            case 'b': add_format('o', 1, false); break;
            case 'c': add_format('c', 1, false); break;
            case 'd': add_format('u', 2, false); break;
            case 'o': add_format('o', 2, false); break;
            case 'x': add_format('x', 2, false); break;
            case 's': add_format('d', 2, false); break;
            default: die_usage();
        }
    }
    if (!format_count) add_format('o', 2, false);
    if (!line_size) line_size = 16;
    if (line_size > 65536) die("invalid -w argument");
    for (size_t i = 0; i < format_count; i++) {
        if (line_size % formats[i].size) die("invalid line width %zu", line_size);
    }
    char *stdin_only[] = {"-"};
    return dump(optind < argc ? argv + optind : stdin_only, optind < argc ? argc - optind : 1, skip, most, all);
}

// jsonfmt: lays JSON out, one value a line, without touching a value.
//
// The text is never turned into values and back: numbers and strings are copied as they stand, so
// 1.0 stays 1.0, 1e400 stays 1e400 and \u0041 stays \u0041. Only white space between them changes.
#define _XOPEN_SOURCE 700
#include "demo.h"

const char program[] = "jsonfmt";
const char help[] =
    "usage: jsonfmt [-i N] [FILE...]\n"
    "\n"
    "Lays out the JSON text in each FILE, in place, or standard input to standard output. Numbers,\n"
    "strings, and the order and number of keys stay as they are, byte for byte.\n"
    "\n"
    "  -i N    indent by N spaces, 0 to 16 (default 2); 0 puts everything on one line\n"
    "  --help  this text\n"
    "\n"
    "A text that is not JSON (RFC 8259) is named as FILE:LINE:COLUMN, columns counted in characters,\n"
    "and left as it is. Exits 0, 1 if a text is not JSON, 2 on wrong usage or if a file failed.\n";

// The text, and the place that is read next. The text ends in a NUL that is not part of it: a NUL
// fits nowhere in JSON, so whoever looks at the next byte stops there without counting.
struct text {
    const char *start, *at, *end;
    const char *error;   // what was expected at `at`; NULL while all is well
};

static int expected(struct text *t, const char *what) {
    t->error = what;
    return -1;
}

static void skip_space(struct text *t) {
    while (*t->at == ' ' || *t->at == '\n' || *t->at == '\t' || *t->at == '\r') t->at++;
}

static int is_digit(char c) { return c >= '0' && c <= '9'; }

static int is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

// Steps over one UTF-8 sequence of two bytes or more; whatever Unicode does not allow is refused.
static int skip_utf8(struct text *t) {
    const unsigned char *p = (const unsigned char *)t->at;
    unsigned char low = 0x80, high = 0xbf;
    int more;
    if (p[0] >= 0xc2 && p[0] <= 0xdf) more = 1;
    else if (p[0] >= 0xe0 && p[0] <= 0xef) more = 2;
    else if (p[0] >= 0xf0 && p[0] <= 0xf4) more = 3;
    else return expected(t, "invalid UTF-8");
    if (p[0] == 0xe0) low = 0xa0;    // no overlong forms
    if (p[0] == 0xed) high = 0x9f;   // no surrogates
    if (p[0] == 0xf0) low = 0x90;
    if (p[0] == 0xf4) high = 0x8f;   // nothing above U+10FFFF
    for (int i = 1; i <= more; i++) {
        if (p[i] < low || p[i] > high) return expected(t, "invalid UTF-8");
        low = 0x80;
        high = 0xbf;
    }
    t->at += more + 1;
    return 0;
}

static int skip_string(struct text *t) {
    const char *opening = t->at++;
    for (;;) {
        unsigned char c = (unsigned char)*t->at;
        if (c == '"') {
            t->at++;
            return 0;
        }
        if (c < 0x20) {
            if (t->at < t->end && c != '\n' && c != '\r')
                return expected(t, "control character in a string; write it as an escape");
            t->at = opening;
            return expected(t, "string without a closing quote");
        }
        if (c >= 0x80) {
            if (skip_utf8(t) != 0) return -1;
        } else if (c != '\\') {
            t->at++;
        } else if (t->at[1] == 'u') {
            for (int i = 2; i < 6; i++)
                if (!is_hex(t->at[i])) return expected(t, "\\u without four hexadecimal digits");
            t->at += 6;
        } else if (t->at[1] && strchr("\"\\/bfnrt", t->at[1])) {
            t->at += 2;
        } else {
            return expected(t, "unknown escape in a string");
        }
    }
}

static int skip_number(struct text *t) {
    if (*t->at == '-') t->at++;
    if (!is_digit(*t->at)) return expected(t, "expected a digit");
    if (*t->at == '0' && is_digit(t->at[1])) return expected(t, "number with a leading zero");
    while (is_digit(*t->at)) t->at++;
    if (*t->at == '.') {
        t->at++;
        if (!is_digit(*t->at)) return expected(t, "expected a digit after the decimal point");
        while (is_digit(*t->at)) t->at++;
    }
    if (*t->at == 'e' || *t->at == 'E') {
        t->at++;
        if (*t->at == '+' || *t->at == '-') t->at++;
        if (!is_digit(*t->at)) return expected(t, "expected a digit in the exponent");
        while (is_digit(*t->at)) t->at++;
    }
    return 0;
}

static int skip_word(struct text *t, const char *word) {
    size_t size = strlen(word);
    if (strncmp(t->at, word, size) != 0) return expected(t, "expected a value");
    t->at += size;
    return 0;
}

static int skip_scalar(struct text *t) {
    switch (*t->at) {
    case '"': return skip_string(t);
    case 't': return skip_word(t, "true");
    case 'f': return skip_word(t, "false");
    case 'n': return skip_word(t, "null");
    default:
        if (*t->at == '-' || is_digit(*t->at)) return skip_number(t);
        return expected(t, "expected a value");
    }
}

// --- layout ---------------------------------------------------------------------------------------

static int indent = 2;

// The three of these return -1 without t->error when there is no memory left.
static int new_line(struct bytes *to, size_t depth) {
    if (!indent) return 0;
    size_t spaces = depth * (size_t)indent;
    if (reserve(to, spaces + 1) != 0) return -1;
    to->at[to->size] = '\n';
    memset(to->at + to->size + 1, ' ', spaces);
    to->size += spaces + 1;
    return 0;
}

// A key with its colon, up to where the value begins.
static int format_key(struct text *t, struct bytes *to) {
    skip_space(t);
    if (*t->at != '"') return expected(t, "expected a key in double quotes");
    const char *key = t->at;
    if (skip_string(t) != 0 || add(to, key, (size_t)(t->at - key)) != 0) return -1;
    skip_space(t);
    if (*t->at != ':') return expected(t, "expected `:` after the key");
    t->at++;
    return add(to, ": ", indent ? 2 : 1);
}

// No recursion: what is open is kept in OPEN, one byte a level, so that depth costs memory and
// cannot run off the stack.
static int format(struct text *t, struct bytes *to, struct bytes *open) {
    to->size = open->size = 0;
    if (strncmp(t->at, "\xef\xbb\xbf", 3) == 0)
        return expected(t, "byte order mark before the text; remove it");
    for (;;) {
        skip_space(t);
        const char *value = t->at;
        if (*value == '{' || *value == '[') {
            char closing = *value == '{' ? '}' : ']';
            t->at++;
            skip_space(t);
            if (*t->at != closing) {
                if (add(to, value, 1) != 0 || add(open, &closing, 1) != 0) return -1;
                if (new_line(to, open->size) != 0) return -1;
                if (closing == '}' && format_key(t, to) != 0) return -1;
                continue;
            }
            t->at++;
            if (add(to, closing == '}' ? "{}" : "[]", 2) != 0) return -1;
        } else {
            if (skip_scalar(t) != 0 || add(to, value, (size_t)(t->at - value)) != 0) return -1;
        }
        // A value is complete: close what ends here, up to a comma or the end of the text.
        for (;;) {
            skip_space(t);
            if (open->size == 0) {
                if (t->at != t->end) return expected(t, "expected the end of the text");
                return add(to, "\n", 1);
            }
            char closing = open->at[open->size - 1];
            if (*t->at == ',') {
                t->at++;
                if (add(to, ",", 1) != 0 || new_line(to, open->size) != 0) return -1;
                if (closing == '}' && format_key(t, to) != 0) return -1;
                break;
            }
            if (*t->at != closing)
                return expected(t, closing == '}' ? "expected `,` or `}`" : "expected `,` or `]`");
            t->at++;
            open->size--;
            if (new_line(to, open->size) != 0 || add(to, &closing, 1) != 0) return -1;
        }
    }
}

// --- files ----------------------------------------------------------------------------------------

static void number_into(char **to, size_t n) {
    if (n >= 10) number_into(to, n / 10);
    *(*to)++ = (char)('0' + n % 10);
}

static void complain_at(const char *name, const struct text *t) {
    size_t line = 1, column = 1;
    for (const char *p = t->start; p < t->at; p++) {
        // A lone carriage return ends no line, and continuation bytes are no characters.
        if (*p == '\n') line++, column = 1;
        else if (((unsigned char)*p & 0xc0) != 0x80) column++;
    }
    char place[PATH_MAX + 48], *to = place;
    size_t size = strlen(name);
    if (size > PATH_MAX) size = PATH_MAX;
    memcpy(to, name, size);
    to += size;
    *to++ = ':';
    number_into(&to, line);
    *to++ = ':';
    number_into(&to, column);
    *to = 0;
    // At the end it helps more to hear that it is the end than what could have come.
    int early = t->at == t->end && strncmp(t->error, "expected", 8) == 0;
    complain(place, early ? "the text ends too early" : t->error);
}

// NAME is NULL for standard input. Returns an exit status.
static int process(const char *name) {
    static struct bytes from, to, open;
    const char *called = name ? name : "standard input";
    int fd = name ? open_input(name) : STDIN_FILENO;
    if (fd < 0) return 2;
    int failed = read_all(fd, &from) != 0 || reserve(&from, 1) != 0;
    int e = errno;
    if (name) close(fd);
    errno = e;
    if (!failed) {
        from.at[from.size] = 0;
        struct text t = {.start = from.at, .at = from.at, .end = from.at + from.size};
        failed = format(&t, &to, &open);
        if (t.error) {
            complain_at(called, &t);
            return 1;
        }
    }
    if (!failed && name) {
        // A file that is laid out already keeps its time and its inode.
        int same = from.size == to.size && memcmp(from.at, to.at, to.size) == 0;
        failed = !same && rewrite(name, to.at, to.size) != 0;
    }
    if (failed) {
        complain_errno(called);
        return 2;
    }
    if (!name) {
        out(to.at, to.size);
        out_flush();
    }
    return 0;
}

int main(int argc, char **argv) {
    out_failure = 2;
    int i = 1;
    for (; i < argc && argv[i][0] == '-' && argv[i][1]; i++) {
        if (strcmp(argv[i], "--help") == 0) show_help();
        if (strcmp(argv[i], "--") == 0) {
            i++;
            break;
        }
        if (argv[i][1] != 'i') usage_error(2, argv[i], "unknown option");
        const char *n = argv[i][2] ? argv[i] + 2 : argv[++i];
        if (!n) usage_error(2, "-i", "a number is needed");
        size_t digits = strspn(n, "0123456789");
        if (digits == 0 || digits > 2 || n[digits] || (indent = atoi(n)) > 16)
            usage_error(2, n, "-i takes a number from 0 to 16");
    }
    if (i == argc) return process(NULL);
    int status = 0;
    for (; i < argc; i++) {
        int one = process(argv[i]);
        if (one > status) status = one;
    }
    return status;
}

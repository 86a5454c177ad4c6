// wc: counts lines, words, characters and bytes.
#define _XOPEN_SOURCE 700
#include "demo.h"

const char program[] = "wc";
const char help[] =
    "usage: wc [-lwcm] [FILE...]\n"
    "\n"
    "Counts what each FILE, or standard input, holds; several files get a line of totals.\n"
    "`-` is standard input. Without options: lines, words and bytes. Always in this order:\n"
    "\n"
    "  -l      lines: newline characters\n"
    "  -w      words: runs of characters other than white space\n"
    "  -m      characters of UTF-8; bytes that are none are not counted\n"
    "  -c      bytes\n"
    "  --help  this text\n"
    "\n"
    "Exits 0, or 1 if a file could not be read.\n";

struct counts {
    uint64_t lines, words, chars, bytes;
};

static int show_lines, show_words, show_chars, show_bytes;

// UTF-8 is decoded only as far as needed to tell whether a sequence is whole and well formed.
struct decoder {
    unsigned left;             // continuation bytes still to come
    unsigned char low, high;   // the range of the next of them
};

static void decode(struct decoder *d, unsigned char byte, uint64_t *chars) {
    if (d->left) {
        if (byte >= d->low && byte <= d->high) {
            d->low = 0x80;
            d->high = 0xbf;
            if (--d->left == 0) ++*chars;
            return;
        }
        // The sequence broke off; this byte begins anew.
        d->left = 0;
    }
    d->low = 0x80;
    d->high = 0xbf;
    if (byte < 0x80) {
        ++*chars;
    } else if (byte >= 0xc2 && byte <= 0xdf) {
        d->left = 1;
    } else if (byte >= 0xe0 && byte <= 0xef) {
        d->left = 2;
        if (byte == 0xe0) d->low = 0xa0;    // no overlong forms
        if (byte == 0xed) d->high = 0x9f;   // no surrogates
    } else if (byte >= 0xf0 && byte <= 0xf4) {
        d->left = 3;
        if (byte == 0xf0) d->low = 0x90;
        if (byte == 0xf4) d->high = 0x8f;   // nothing above U+10FFFF
    }
}

static int count(int fd, const char *name, struct counts *c) {
    static unsigned char block[65536];
    struct decoder d = {0};
    int in_word = 0;
    for (;;) {
        ssize_t got = read_some(fd, block, sizeof block);
        if (got == 0) return 0;
        if (got < 0) {
            complain_errno(name);
            return 1;
        }
        c->bytes += (uint64_t)got;
        for (ssize_t i = 0; i < got; i++) {
            unsigned char byte = block[i];
            // \t \n \v \f \r and space
            int space = byte == ' ' || (byte >= '\t' && byte <= '\r');
            c->lines += byte == '\n';
            c->words += !space && !in_word;
            in_word = !space;
            if (show_chars) decode(&d, byte, &c->chars);
        }
    }
}

static void show(const struct counts *c, const char *name) {
    const uint64_t values[] = {c->lines, c->words, c->chars, c->bytes};
    const int wanted[] = {show_lines, show_words, show_chars, show_bytes};
    const char *gap = "";
    for (int i = 0; i < 4; i++) {
        if (!wanted[i]) continue;
        out_text(gap);
        out_number(values[i]);
        gap = " ";
    }
    if (name) {
        out_text(" ");
        out_text(name);
    }
    out_text("\n");
}

int main(int argc, char **argv) {
    int i = 1;
    for (; i < argc && argv[i][0] == '-' && argv[i][1]; i++) {
        if (strcmp(argv[i], "--help") == 0) show_help();
        if (strcmp(argv[i], "--") == 0) {
            i++;
            break;
        }
        for (const char *flag = argv[i] + 1; *flag; flag++) {
            switch (*flag) {
            case 'l': show_lines = 1; break;
            case 'w': show_words = 1; break;
            case 'm': show_chars = 1; break;
            case 'c': show_bytes = 1; break;
            default: usage_error(1, argv[i], "unknown option");
            }
        }
    }
    if (!show_lines && !show_words && !show_chars && !show_bytes) show_lines = show_words = show_bytes = 1;

    int status = 0;
    struct counts total = {0};
    int named = argc - i;
    for (int k = 0; k < named || k == 0; k++) {
        const char *name = named ? argv[i + k] : NULL;
        int from_stdin = !name || strcmp(name, "-") == 0;
        int fd = from_stdin ? STDIN_FILENO : open_input(name);
        if (fd < 0) {
            status = 1;
            continue;
        }
        struct counts c = {0};
        int failed = count(fd, from_stdin ? "standard input" : name, &c);
        if (!from_stdin) close(fd);
        status |= failed;
        total.lines += c.lines;
        total.words += c.words;
        total.chars += c.chars;
        total.bytes += c.bytes;
        if (!failed) show(&c, name);
    }
    if (named > 1) show(&total, "total");
    out_flush();
    return status;
}

// head and tail: the ends of files.
#include "../box.h"

#include <ctype.h>

// How much of a file is wanted.
struct part {
    uint64_t count;
    bool bytes, other; // other: head -n -COUNT and tail -n +COUNT
};

static void put(const char *at, size_t len) {
    fwrite(at, 1, len, stdout);
}

// The offset behind `count` lines or bytes.
static size_t behind(const struct bytes *text, uint64_t count, bool bytes) {
    if (bytes) return count < text->len ? count : text->len;
    size_t at = 0;
    for (; count > 0 && at < text->len; count--) {
        const char *end = memchr(text->at + at, '\n', text->len - at);
        at = end ? (size_t)(end - text->at) + 1 : text->len;
    }
    return at;
}

// The offset of the last `count` lines or bytes.
static size_t before_last(const struct bytes *text, uint64_t count, bool bytes) {
    if (bytes) return count < text->len ? text->len - count : 0;
    size_t at = text->len;
    if (count == 0) return at;
    if (at > 0 && text->at[at - 1] == '\n') at--;
    for (; at > 0; at--) {
        if (text->at[at - 1] == '\n' && --count == 0) break;
    }
    return at;
}

static void print_bytes(FILE *file, uint64_t left) {
    char piece[4096];
    size_t count = 1;
    for (; left > 0 && count > 0; left -= count) {
        count = fread(piece, 1, left < sizeof piece ? left : sizeof piece, file);
        fwrite(piece, 1, count, stdout);
    }
}

static void print_lines(FILE *file, uint64_t left) {
    for (int c; left > 0 && (c = getc(file)) != EOF; left -= c == '\n') putchar(c);
}

// The beginning of a file, without reading more of it than that.
static int head_of(const char *path, const struct part *part) {
    struct bytes text;
    if (part->other) {
        bool read = read_whole(path, &text);
        put(text.at, before_last(&text, part->count, part->bytes));
        free(text.at);
        return !read;
    }
    FILE *file = open_input(path);
    if (!file) return 1;
    // What follows is for whoever reads next: so many bytes are read, and no more.
    if (part->bytes) setvbuf(file, NULL, _IONBF, 0);
    (part->bytes ? print_bytes : print_lines)(file, part->count);
    int status = ferror(file) ? warn_path(path) : 0;
    close_input(file);
    return status;
}

// The end of an open file of `size` bytes; what is before it is not read. Answers whether reading went well.
static bool print_last_bytes(FILE *file, uint64_t size, const struct part *part) {
    uint64_t skip = part->count > 0 ? part->count - 1 : 0, start = part->other ? skip : size - part->count;
    if (!part->other && part->count > size) start = 0;
    if (fseeko(file, (off_t)(start < size ? start : size), SEEK_SET)) return false;
    print_bytes(file, UINT64_MAX);
    return !ferror(file);
}

// So much is read from the end that the lines are in it, and more if they are not.
static bool print_last_lines(FILE *file, uint64_t size, uint64_t count) {
    for (uint64_t wanted = 1 << 16;; wanted *= 4) {
        uint64_t start = wanted < size ? size - wanted : 0;
        if (fseeko(file, (off_t)start, SEEK_SET)) return false;
        struct bytes text = {0};
        append(&text, "", 0);
        read_rest(file, &text);
        bool failed = ferror(file);
        size_t at = before_last(&text, count, false);
        bool done = at > 0 || start == 0 || failed;
        if (done) put(text.at + at, text.len - at);
        free(text.at);
        if (done) return !failed;
    }
}

static int tail_of(const char *path, const struct part *part) {
    bool is_of_lines = part->other && !part->bytes;
    if (strcmp(path, "-") && !is_of_lines) {
        struct stat stat_;
        FILE *file = open_input(path);
        if (!file) return 1;
        if (fstat(fileno(file), &stat_) == 0 && S_ISREG(stat_.st_mode) && stat_.st_size > 0) {
            uint64_t size = stat_.st_size;
            bool done = part->bytes ? print_last_bytes(file, size, part) : print_last_lines(file, size, part->count);
            int status = done ? 0 : warn("error reading '%s': %s", path, strerror(errno));
            close_input(file);
            return status;
        }
        close_input(file);
    }
    struct bytes text;
    if (!read_whole(path, &text)) return 1;
    uint64_t skip = part->count > 0 ? part->count - 1 : 0;
    size_t at = part->other ? behind(&text, skip, part->bytes) : before_last(&text, part->count, part->bytes);
    put(text.at + at, text.len - at);
    free(text.at);
    return 0;
}

static int ends_of_files(int argc, char **argv, char sign, int (*print)(const char *, const struct part *)) {
    struct part part = {.count = 10};
    bool quiet = false, verbose = false;
    char *old_style = NULL;
    // -5, and for tail +5, as it once was.
    if (argc > 1 && (argv[1][0] == '-' || argv[1][0] == sign) && isdigit((unsigned char)argv[1][1])) {
        old_style = argv[1];
        part.count = parse_count(old_style + 1, "number of lines");
        part.other = sign == '+' && old_style[0] == '+';
        argv[1] = argv[0];
        argc--;
        argv++;
    }
    static const struct option LONG[] = {
        {"bytes", required_argument, NULL, 'c'}, {"lines", required_argument, NULL, 'n'}, {"quiet", no_argument, NULL, 'q'},
        {"silent", no_argument, NULL, 'q'}, {"verbose", no_argument, NULL, 'v'}, {0},
    };
    for (int option; (option = getopt_long(argc, argv, "n:c:qvf", LONG, NULL)) != -1;) {
        switch (option) {
            case 'n':
            case 'c': {
                part.bytes = option == 'c';
                part.other = *optarg == sign;
                if (*optarg == '+' || *optarg == '-') optarg++;
                part.count = parse_count(optarg, part.bytes ? "number of bytes" : "number of lines");
                break;
            }
            case 'q': quiet = true; break;
            case 'v': verbose = true; break;
            case 'f': break; // the end of a file is its end
            default: die_usage();
        }
    }
    bool titles = verbose || (argc - optind > 1 && !quiet), first = true;
    int status = 0;
    EACH_FILE(path, argc, argv) {
        struct stat stat_;
        if (titles && (strcmp(path, "-") == 0 || stat(path, &stat_) == 0)) {
            printf("%s==> %s <==\n", first ? "" : "\n", strcmp(path, "-") ? path : "standard input");
            first = false;
        }
        status |= print(path, &part);
    }
    return status;
}

int tool_head(int argc, char **argv) {
    return ends_of_files(argc, argv, '-', head_of);
}

int tool_tail(int argc, char **argv) {
    return ends_of_files(argc, argv, '+', tail_of);
}

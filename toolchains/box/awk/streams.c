// What a program of awk reads and writes.
#include "awk.h"

#include <fcntl.h>
#include <sys/wait.h>

struct stream {
    struct text *name;
    enum { INPUT_FILE, INPUT_COMMAND, OUTPUT_FILE, OUTPUT_COMMAND } kind;
    FILE *file;
    struct reader reader;
    struct stream *next;
};

static struct stream *streams;

enum { RECORD_MAX = 1 << 30 };

// --- records -------------------------------------------------------------------------------------------------------------

// Reads more behind what there is; false at the end.
static bool fill(struct reader *reader) {
    if (reader->is_at_end) return false;
    if (reader->start > 0) {
        memmove(reader->at, reader->at + reader->start, reader->len - reader->start);
        reader->len -= reader->start;
        reader->start = 0;
    }
    if (reader->len > RECORD_MAX) fail("a record is too long");
    if (reader->room - reader->len < 32768) {
        reader->room = 2 * reader->len + 65536;
        reader->at = grow(reader->at, reader->room);
    }
    ssize_t count = read(reader->fd, reader->at + reader->len, reader->room - reader->len);
    if (count <= 0) {
        if (count < 0) warn("read error: %s", strerror(errno));
        reader->is_at_end = true;
        return false;
    }
    reader->len += count;
    return true;
}

static struct value take(struct reader *reader, size_t len, size_t separator) {
    struct value value = of_text(INPUT, new_text(reader->at + reader->start, len));
    clear(&globals[V_RT].value);
    globals[V_RT].value = of_text(STRING, new_text(reader->at + reader->start + len, separator));
    reader->start += len + separator;
    return value;
}

// The end of the record that begins at `start`, and how long its separator is. False: there may be more of either.
static bool find_end(struct reader *reader, const struct text *rs, struct regex *regex, size_t *len, size_t *separator) {
    const char *at = reader->at + reader->start;
    size_t size = reader->len - reader->start;
    if (regex) {
        struct span span;
        if (!regex_find(regex, at, size, 0, &span, 1) || span.from == span.to) return false;
        *len = span.from;
        *separator = span.to - span.from;
        return (size_t)span.to < size || reader->is_at_end;
    }
    if (rs->len) {
        const char *end = size ? memchr(at, rs->at[0], size) : NULL;
        *len = end ? (size_t)(end - at) : 0;
        *separator = 1;
        return end != NULL;
    }
    const char *end = size ? memmem(at, size, "\n\n", 2) : NULL;
    if (!end) return false;
    *len = end - at;
    *separator = 2;
    while (*len + *separator < size && at[*len + *separator] == '\n') ++*separator;
    return *len + *separator < size || reader->is_at_end;
}

bool read_record(struct reader *reader, struct value *record) {
    struct text *rs = special_text(V_RS);
    struct regex *regex = rs->len > 1 ? regex_of(rs) : NULL;
    if (!rs->len) {
        // Empty lines in front of a paragraph are none of it.
        for (;;) {
            while (reader->start < reader->len && reader->at[reader->start] == '\n') reader->start++;
            if (reader->start < reader->len || !fill(reader)) break;
        }
    }
    size_t len = 0, separator = 0;
    bool found;
    while (!(found = find_end(reader, rs, regex, &len, &separator)) && fill(reader)) {}
    // At the end of the input, what is left is a record.
    if (!found) found = find_end(reader, rs, regex, &len, &separator);
    if (!found) {
        len = reader->len - reader->start;
        separator = 0;
        if (!rs->len && len && reader->at[reader->len - 1] == '\n') len--, separator = 1;
        found = len > 0;
    }
    if (found) *record = take(reader, len, separator);
    drop(rs);
    return found;
}

// --- the files of ARGV ---------------------------------------------------------------------------------------------------

static struct reader main_reader = {.fd = -1};
static int next_operand = 1;
static bool read_any, is_done;

static struct text *operand(int index) {
    struct text *key = number_text(index, NULL);
    struct value *value = array_find(globals[V_ARGV].array, key, false);
    drop(key);
    return value ? to_text(value) : empty_text();
}

static bool open_main(const char *path) {
    struct stat stat_;
    int fd = strcmp(path, "-") == 0 || strcmp(path, "/dev/stdin") == 0 ? 0 : open(path, O_RDONLY);
    if (fd < 0 || (fd > 0 && fstat(fd, &stat_) == 0 && S_ISDIR(stat_.st_mode))) {
        bool is_dir = fd >= 0;
        if (is_dir) {
            close(fd);
            warn("warning: command line argument `%s' is a directory: skipped", path);
            return false;
        }
        fail("cannot open file `%s' for reading: %s", path, strerror(errno));
    }
    main_reader.fd = fd;
    main_reader.start = main_reader.len = 0;
    main_reader.is_at_end = false;
    clear(&globals[V_FILENAME].value);
    if (strcmp(path, "-") || next_operand > 1) {
        globals[V_FILENAME].value = of_text(INPUT, new_text(path, strlen(path)));
    }
    globals[V_FNR].value = of_number(0);
    return true;
}

static bool open_next(void) {
    while (next_operand < to_number(&globals[V_ARGC].value)) {
        struct text *path = operand(next_operand++);
        size_t name_len = strspn(path->at, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789");
        bool assigns = name_len && path->at[name_len] == '=' && !(path->at[0] >= '0' && path->at[0] <= '9');
        if (assigns) assign_operand(path->at, name_len);
        bool opened = false;
        if (!assigns && path->len) {
            read_any = true;
            opened = open_main(path->at);
        }
        drop(path);
        if (opened) return true;
    }
    if (read_any || is_done) return false;
    read_any = true;
    return open_main("-");
}

void skip_file(void) {
    if (main_reader.fd > 0) close(main_reader.fd);
    main_reader.fd = -1;
}

int read_main(struct value *record) {
    while (!is_done) {
        if (main_reader.fd < 0 && !open_next()) {
            is_done = true;
            break;
        }
        if (read_record(&main_reader, record)) {
            globals[V_NR].value = of_number(to_number(&globals[V_NR].value) + 1);
            globals[V_FNR].value = of_number(to_number(&globals[V_FNR].value) + 1);
            return 1;
        }
        skip_file();
    }
    return 0;
}

// --- files and commands by name ------------------------------------------------------------------------------------------

static struct stream *find_stream(struct text *name, int kind) {
    for (struct stream *stream = streams; stream; stream = stream->next) {
        if ((kind < 0 || (int)stream->kind == kind) && stream->name->len == name->len &&
            memcmp(stream->name->at, name->at, name->len) == 0) return stream;
    }
    return NULL;
}

static struct stream *add_stream(struct text *name, int kind, FILE *file) {
    struct stream *stream = grow(NULL, sizeof *stream);
    *stream = (struct stream){.name = hold(name), .kind = kind, .file = file, .next = streams};
    if (kind == INPUT_FILE || kind == INPUT_COMMAND) stream->reader.fd = fileno(file);
    return streams = stream;
}

FILE *output_to(enum token how, struct text *name) {
    int kind = how == T_PIPE ? OUTPUT_COMMAND : OUTPUT_FILE;
    struct stream *stream = find_stream(name, kind);
    if (stream) return stream->file;
    FILE *file;
    fflush(NULL);
    if (how == T_PIPE) file = popen(name->at, "w");
    else if (strcmp(name->at, "/dev/stdout") == 0 || strcmp(name->at, "-") == 0) file = stdout;
    else if (strcmp(name->at, "/dev/stderr") == 0) file = stderr;
    else file = fopen(name->at, how == T_APPEND ? "a" : "w");
    if (!file) fail("cannot open \"%s\" for output: %s", name->at, strerror(errno));
    return add_stream(name, kind, file)->file;
}

struct reader *input_from(struct text *name, bool is_command) {
    int kind = is_command ? INPUT_COMMAND : INPUT_FILE;
    struct stream *stream = find_stream(name, kind);
    if (stream) return &stream->reader;
    FILE *file;
    if (is_command) {
        fflush(NULL);
        file = popen(name->at, "r");
    } else if (strcmp(name->at, "-") == 0 || strcmp(name->at, "/dev/stdin") == 0) {
        if (main_reader.fd == 0) return &main_reader;
        file = stdin;
    } else {
        file = is_dir(name->at) ? NULL : fopen(name->at, "r");
    }
    return file ? &add_stream(name, kind, file)->reader : NULL;
}

static double close_one(struct stream *stream) {
    bool is_standard = stream->file == stdin || stream->file == stdout || stream->file == stderr;
    int status;
    if (stream->kind == INPUT_COMMAND || stream->kind == OUTPUT_COMMAND) {
        fflush(stdout);
        status = pclose(stream->file);
        if (WIFEXITED(status)) status = WEXITSTATUS(status);
        else if (WIFSIGNALED(status)) status = 256 + WTERMSIG(status);
    } else {
        status = is_standard ? fflush(stream->file) : fclose(stream->file);
    }
    free(stream->reader.at);
    drop(stream->name);
    return status;
}

double close_stream(struct text *name) {
    double status = -1;
    for (struct stream *stream; (stream = find_stream(name, -1));) {
        struct stream **link = &streams;
        while (*link != stream) link = &(*link)->next;
        *link = stream->next;
        status = close_one(stream);
        free(stream);
    }
    return status;
}

double flush_stream(struct text *name) {
    if (!name) return fflush(NULL);
    struct stream *stream = find_stream(name, OUTPUT_FILE);
    if (!stream) stream = find_stream(name, OUTPUT_COMMAND);
    return stream ? fflush(stream->file) : -1;
}

void close_all(void) {
    while (streams) {
        struct stream *stream = streams;
        streams = stream->next;
        close_one(stream);
        free(stream);
    }
}

// Runs the script of sed: a cycle for each line.
#include "sed.h"

#include <ctype.h>

// What is printed at the end of a cycle.
struct pending {
    const struct command *command; // of a: its text; of r: its file
    struct bytes line;             // of R
};

static struct {
    char **files;
    int count, next;
    FILE *file;
    char *path; // of the file that is open
    struct bytes ahead;
    bool has_ahead, ahead_lacks_newline;
    uint64_t line_number;
    const char *suffix;
    char *temporary;
    bool executable;
} input;

static struct bytes space, held;
// Whether the last line that came into it had no newline.
static bool lacks_newline, held_lacks_newline;
static struct output out;
static struct pending *pending;
static size_t pending_count;
static struct regex *last_regex;
static bool replaced; // since the last line was read, for t
static int status;

// --- output --------------------------------------------------------------------------------------------------------------

static void write_bytes(struct output *output, const char *bytes, size_t len) {
    if (output->lacks_newline) putc(script.end_of_line, output->file);
    output->lacks_newline = false;
    if (len && fwrite(bytes, 1, len, output->file) != len) {
        trouble = 4;
        die("couldn't write to %s: %s", output->path ? output->path : "stdout", strerror(errno));
    }
    if (output->file != stdout && output != &out) fflush(output->file);
}

static void write_line(struct output *output, const char *bytes, size_t len, bool is_last_without) {
    // What writes to /dev/stdout shares the state of standard output.
    if (output->file == stdout && out.file == stdout) output = &out;
    write_bytes(output, bytes, len);
    if (is_last_without) output->lacks_newline = true;
    else write_bytes(output, &script.end_of_line, 1);
    if (script.unbuffered) fflush(output->file);
}

static void print_space(void) {
    write_line(&out, space.at, space.len, lacks_newline);
}

static void print_file(const char *path) {
    FILE *file = strcmp(path, "/dev/stdin") == 0 ? stdin : fopen(path, "r");
    if (!file) return;
    char block[8192];
    size_t count;
    while ((count = fread(block, 1, sizeof block, file)) > 0) write_bytes(&out, block, count);
    if (file != stdin) fclose(file);
}

static void print_pending(void) {
    for (size_t i = 0; i < pending_count; i++) {
        const struct command *command = pending[i].command;
        if (command->name == 'a') write_bytes(&out, command->text.at, command->text.len);
        else if (command->name == 'r') print_file(command->text.at);
        else write_line(&out, pending[i].line.at, pending[i].line.len, false);
        free(pending[i].line.at);
    }
    pending_count = 0;
}

static void add_pending(const struct command *command, struct bytes line) {
    pending = grow(pending, (pending_count + 1) * sizeof *pending);
    pending[pending_count++] = (struct pending){command, line};
}

// As l prints it: escaped, and folded so that no line is longer than `width`.
static void print_escaped(int width) {
    struct bytes line = {0};
    append(&line, "", 0);
    size_t column = 0;
    for (size_t i = 0; i < space.len; i++) {
        static const char from[] = "\\\a\b\f\n\r\t\v", to[] = "\\abfnrtv";
        unsigned char c = space.at[i];
        char text[8] = {c};
        const char *found = c ? strchr(from, c) : NULL;
        if (found) snprintf(text, sizeof text, "\\%c", to[found - from]);
        else if (c < 32 || c > 126) snprintf(text, sizeof text, "\\%03o", c);
        size_t len = strlen(text);
        if (width > 1 && column + len > (size_t)width - 1) {
            append(&line, "\\\n", 2);
            column = 0;
        }
        append(&line, text, len);
        column += len;
    }
    append(&line, "$\n", 2);
    write_bytes(&out, line.at, line.len);
    free(line.at);
}

// --- input ---------------------------------------------------------------------------------------------------------------

static void finish_file(void) {
    if (!input.file) return;
    if (ferror(input.file)) status = warn("read error on %s: %s", input.path, strerror(errno)) + 1;
    if (input.file != stdin) fclose(input.file);
    else clearerr(stdin);
    input.file = NULL;
    if (!input.temporary) return;
    bool failed = fclose(out.file) != 0;
    trouble = 4;
    if (input.suffix) {
        size_t len;
        const char *name = last_part(input.path, &len), *star = strchr(input.suffix, '*');
        struct bytes backup = {0};
        if (!strchr(input.suffix, '/')) append(&backup, input.path, name - input.path);
        if (!star) append(&backup, name, len);
        for (const char *at = input.suffix; *at; at++) append(&backup, *at == '*' ? name : at, *at == '*' ? len : 1);
        if (rename(input.path, backup.at)) die("cannot rename %s: %s", input.path, strerror(errno));
        free(backup.at);
    }
    if (!failed && input.executable != get_executable(input.temporary, true)) {
        failed = set_executable(input.temporary, input.executable) != 0;
    }
    if (failed || rename(input.temporary, input.path)) die("cannot write %s: %s", input.path, strerror(errno));
    trouble = 1;
    free(input.temporary);
    input.temporary = NULL;
    out = (struct output){.file = stdout};
}

// What is not complete is not to be found beside the file.
static void remove_temporary(void) {
    if (input.temporary) unlink(input.temporary);
}

static bool open_in_place(const char *path) {
    static bool is_registered;
    if (!is_registered) is_registered = atexit(remove_temporary) == 0;
    struct stat stat_;
    if (stat(path, &stat_)) {
        status = warn("can't read %s: %s", path, strerror(errno)) + 1;
        return false;
    }
    if (!S_ISREG(stat_.st_mode)) {
        status = warn("couldn't edit %s: not a regular file", path) + 3;
        return false;
    }
    size_t len;
    const char *name = last_part(path, &len);
    struct bytes temporary = {0};
    append(&temporary, path, name - path);
    append(&temporary, ".sed~", 5);
    append(&temporary, name, len);
    FILE *file = fopen(temporary.at, "w");
    trouble = 4;
    if (!file) die("couldn't open temporary file %s: %s", temporary.at, strerror(errno));
    trouble = 1;
    input.temporary = temporary.at;
    input.executable = get_executable(path, true);
    out = (struct output){.file = file, .path = input.temporary};
    return true;
}

static bool open_next_file(void) {
    while (!input.file && input.next < input.count) {
        char *path = input.files[input.next++];
        bool is_stdin = strcmp(path, "-") == 0 && !script.in_place;
        struct stat stat_;
        input.path = path;
        if (!is_stdin && !script.in_place && stat(path, &stat_) == 0 && S_ISDIR(stat_.st_mode)) {
            trouble = 4;
            die("read error on %s: Is a directory", path);
        }
        if (script.in_place && !open_in_place(path)) continue;
        input.file = is_stdin ? stdin : fopen(path, "r");
        if (!input.file) status = warn("can't read %s: %s", path, strerror(errno)) + 1;
        if (script.separate) input.line_number = 0;
    }
    return input.file != NULL;
}

// Reads a line that is not used yet. With -s and -i, not beyond the end of the file.
static bool read_ahead(void) {
    if (input.has_ahead) return true;
    while (input.file) {
        char *line = input.ahead.at;
        size_t room = input.ahead.room;
        ssize_t len = getdelim(&line, &room, script.end_of_line, input.file);
        input.ahead.at = line;
        input.ahead.room = room;
        if (len > 0) {
            input.ahead_lacks_newline = line[len - 1] != script.end_of_line;
            input.ahead.len = len - !input.ahead_lacks_newline;
            input.has_ahead = true;
            return true;
        }
        if (script.separate) return false;
        finish_file();
        open_next_file();
    }
    return false;
}

static bool is_last_line(void) {
    return !read_ahead();
}

// Puts the next line into `space`, or behind what is in it.
static bool read_line(bool appends) {
    print_pending();
    replaced = appends && replaced;
    while (!read_ahead()) {
        finish_file();
        if (!open_next_file()) return false;
        for (size_t i = 0; i < script.count && script.separate; i++) script.commands[i].state = RANGE_BEFORE;
    }
    if (appends) append(&space, &script.end_of_line, 1);
    else space.len = 0;
    append(&space, input.ahead.at, input.ahead.len);
    lacks_newline = input.ahead_lacks_newline;
    input.has_ahead = false;
    input.line_number++;
    return true;
}

// --- addresses -----------------------------------------------------------------------------------------------------------

static bool matches_regex(struct regex *regex, struct span *spans, size_t count, size_t from) {
    if (regex) last_regex = regex;
    if (!last_regex) die("no previous regular expression");
    return regex_find(last_regex, space.at, space.len, from, spans, count);
}

static bool matches_address(const struct address *address) {
    switch (address->kind) {
        case ADDRESS_LINE: return input.line_number == address->number;
        case ADDRESS_STEP:
            return input.line_number >= address->number && (input.line_number - address->number) % address->step == 0;
        case ADDRESS_LAST: return is_last_line();
        case ADDRESS_REGEX: return matches_regex(address->regex, NULL, 0, 0);
        default: return true;
    }
}

// Whether this line, which begins a range, is all of it.
static bool begin_range(struct command *command) {
    uint64_t line = input.line_number, number = command->second.number;
    switch (command->second.kind) {
        case ADDRESS_LINE: command->range_end = number; break;
        case ADDRESS_PLUS: command->range_end = line + number < line ? UINT64_MAX : line + number; break;
        case ADDRESS_MULTIPLE: command->range_end = number ? (line + number - 1) / number * number : line; break;
        default: return command->second.kind == ADDRESS_LAST && is_last_line();
    }
    return command->range_end <= line;
}

static bool is_in_range(struct command *command) {
    bool is_zero = command->first.kind == ADDRESS_LINE && command->first.number == 0;
    if (command->state == RANGE_BEFORE && is_zero) command->state = RANGE_INSIDE;
    if (command->state != RANGE_INSIDE) {
        // One that ended begins again only where it is looked for by what a line holds.
        if (command->state == RANGE_CLOSED && command->first.kind == ADDRESS_LINE) return false;
        if (!matches_address(&command->first)) return false;
        command->state = begin_range(command) ? RANGE_CLOSED : RANGE_INSIDE;
        return true;
    }
    switch (command->second.kind) {
        case ADDRESS_LINE: case ADDRESS_PLUS: case ADDRESS_MULTIPLE: {
            uint64_t line = input.line_number;
            if (line >= command->range_end) command->state = RANGE_CLOSED;
            // Lines were skipped: the range is over, but its first line may be this one.
            if (line > command->range_end && command->second.kind == ADDRESS_LINE) {
                return command->first.kind != ADDRESS_LINE && matches_address(&command->first);
            }
            return line <= command->range_end;
        }
        default:
            if (matches_address(&command->second)) command->state = RANGE_CLOSED;
            return true;
    }
}

static bool is_selected(struct command *command) {
    bool matches = command->second.kind ? is_in_range(command) : matches_address(&command->first);
    return matches != command->is_negated;
}

// --- substitution --------------------------------------------------------------------------------------------------------

static void append_cased(struct bytes *to, const char *text, size_t len, char *once, char all) {
    for (size_t i = 0; i < len; i++) {
        unsigned char c = text[i];
        char how = *once ? *once : all;
        *once = 0;
        c = how == 'U' || how == 'u' ? toupper(c) : how == 'L' || how == 'l' ? tolower(c) : c;
        append(to, &c, 1);
    }
}

static void append_replacement(struct bytes *to, const struct substitution *how, const struct span *spans) {
    char once = 0, all = 0;
    for (size_t i = 0; i < how->count; i++) {
        const struct piece *piece = &how->pieces[i];
        const char *text = piece->text.at;
        size_t len = piece->text.len;
        if (piece->kind == PIECE_CASE) {
            if (piece->letter == 'u' || piece->letter == 'l') once = piece->letter;
            else all = piece->letter == 'E' ? 0 : piece->letter, once = 0;
            continue;
        }
        if (piece->kind == PIECE_SPAN) {
            if (spans[piece->span].from < 0) continue;
            text = space.at + spans[piece->span].from;
            len = spans[piece->span].to - spans[piece->span].from;
        }
        if (once || all) append_cased(to, text, len, &once, all);
        else append(to, text, len);
    }
}

static void substitute(const struct substitution *how) {
    static struct bytes made; // whose memory is used again
    made.len = 0;
    size_t from = 0, copied = 0;
    ptrdiff_t before = -1; // the end of the last match
    uint64_t count = 0;
    bool changed = false;
    struct span spans[REGEX_SPANS];
    while (from <= space.len && matches_regex(how->regex, spans, REGEX_SPANS, from)) {
        size_t start = spans[0].from, stop = spans[0].to;
        append(&made, space.at + copied, start - copied);
        copied = start;
        // Nothing, just behind a match, is none.
        bool counts = !(start == stop && (ptrdiff_t)start == before);
        if (counts && ++count >= how->number) {
            append_replacement(&made, how, spans);
            copied = stop;
            changed = true;
            if (!how->all) break;
        }
        before = stop;
        from = stop;
        if (start == stop) from++;
    }
    if (!changed) return;
    append(&made, space.at + copied, space.len - copied);
    struct bytes swap = space;
    space = made;
    made = swap;
    replaced = true;
    if (how->prints) print_space();
    if (how->output) write_line(how->output, space.at, space.len, lacks_newline);
}

// --- the cycle -----------------------------------------------------------------------------------------------------------

enum outcome { GO_ON, END_CYCLE, DELETE, RESTART, QUIT };

static enum outcome read_next(char name) {
    bool appends = name == 'N';
    if (is_last_line() && (!script.separate || input.next == input.count)) {
        // Without a next line both end the run; GNU's N prints what there is, as n does.
        if (!script.quiet) print_space();
        return QUIT;
    }
    if (!appends && !script.quiet) print_space();
    return read_line(appends) ? GO_ON : QUIT;
}

static void read_one(const struct command *command) {
    static struct texts paths;
    static FILE **files;
    size_t i = 0;
    while (i < paths.count && strcmp(paths.at[i], command->text.at)) i++;
    if (i == paths.count) {
        push(&paths, copy_text(command->text.at));
        files = grow(files, paths.count * sizeof *files);
        files[i] = fopen(command->text.at, "r");
    }
    struct bytes line = {0};
    ssize_t len = files[i] ? getdelim(&line.at, &line.room, script.end_of_line, files[i]) : -1;
    if (len < 0) {
        free(line.at);
        return;
    }
    line.len = len - (line.at[len - 1] == script.end_of_line);
    add_pending(command, line);
}

static void exchange(void) {
    struct bytes swap = space;
    space = held;
    held = swap;
    append(&space, "", 0);
    bool lacked = lacks_newline;
    lacks_newline = held_lacks_newline;
    held_lacks_newline = lacked;
}

static void copy_bytes(struct bytes *to, const struct bytes *from, bool appends) {
    if (appends) append(to, &script.end_of_line, 1);
    else to->len = 0;
    append(to, from->at, from->len);
}

static enum outcome run_one(const struct command *command) {
    const char *newline;
    switch (command->name) {
        case '=':
            write_bytes(&out, "", 0);
            fprintf(out.file, "%llu\n", (unsigned long long)input.line_number);
            break;
        case 'a': case 'r': add_pending(command, (struct bytes){0}); break;
        case 'R': read_one(command); break;
        case 'i': write_bytes(&out, command->text.at, command->text.len); break;
        case 'c':
            if (command->is_negated || !command->second.kind || command->state != RANGE_INSIDE) {
                write_bytes(&out, command->text.at, command->text.len);
            }
            return DELETE;
        case 'd': return DELETE;
        case 'D':
            newline = memchr(space.at, script.end_of_line, space.len);
            if (!newline) return DELETE;
            space.len -= newline + 1 - space.at;
            memmove(space.at, newline + 1, space.len);
            return RESTART;
        case 'F': write_line(&out, input.path, strlen(input.path), false); break;
        case 'g':
            copy_bytes(&space, &held, false);
            lacks_newline = held_lacks_newline;
            break;
        case 'G':
            copy_bytes(&space, &held, true);
            lacks_newline = held_lacks_newline;
            break;
        case 'h':
            copy_bytes(&held, &space, false);
            held_lacks_newline = lacks_newline;
            break;
        case 'H':
            copy_bytes(&held, &space, true);
            held_lacks_newline = lacks_newline;
            break;
        case 'x': exchange(); break;
        case 'l': print_escaped(command->number < 0 ? 70 : command->number); break;
        case 'n': case 'N': return read_next(command->name);
        case 'p': print_space(); break;
        case 'P': case 'W':
            newline = memchr(space.at, script.end_of_line, space.len);
            write_line(command->name == 'P' ? &out : command->output, space.at,
                       newline ? (size_t)(newline - space.at) : space.len, false);
            break;
        case 'q': case 'Q':
            status = command->number;
            if (command->name == 'q' && !script.quiet) print_space();
            return QUIT;
        case 's': substitute(command->substitution); break;
        case 'w': write_line(command->output, space.at, space.len, lacks_newline); break;
        case 'y':
            for (size_t i = 0; i < space.len; i++) space.at[i] = command->table[(unsigned char)space.at[i]];
            break;
        case 'z': space.len = 0; break;
        default: break;
    }
    return GO_ON;
}

static enum outcome run_commands(void) {
    for (size_t i = 0; i < script.count; i++) {
        struct command *command = &script.commands[i];
        char name = command->name;
        if (name == '}' || name == ':') continue;
        bool selected = !command->first.kind || is_selected(command);
        if (name == '{') {
            if (!selected) i = command->target;
        } else if (!selected) {
            continue;
        } else if (name == 'b' || (name == 't' && replaced) || (name == 'T' && !replaced)) {
            if (name == 't') replaced = false;
            i = command->target;
        } else if (name == 't' || name == 'T') {
            replaced = false;
        } else {
            enum outcome outcome = run_one(command);
            if (outcome != GO_ON) return outcome;
        }
    }
    return END_CYCLE;
}

int run_script(char **files, int count, const char *suffix) {
    static char *stdin_only[] = {"-"};
    input.files = count ? files : stdin_only;
    input.count = count ? count : 1;
    input.suffix = suffix;
    out = (struct output){.file = stdout};
    append(&space, "", 0);
    append(&held, "", 0);
    open_next_file();
    enum outcome outcome = END_CYCLE;
    while (outcome == RESTART || read_line(false)) {
        outcome = run_commands();
        if (outcome == END_CYCLE && !script.quiet) print_space();
        if (outcome == RESTART) print_pending();
        if (outcome == QUIT) break;
    }
    print_pending();
    finish_file();
    return status;
}

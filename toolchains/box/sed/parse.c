// Reads the script of sed.
#include "sed.h"

#include <ctype.h>

static const char *at, *end, *start;
static struct output **outputs;
static size_t output_count;

static _Noreturn void bad(const char *message) {
    die("-e expression #1, char %zu: %s", (size_t)(at - start), message);
}

static int next(void) {
    return at < end ? (unsigned char)*at++ : -1;
}

static int peek(void) {
    return at < end ? (unsigned char)*at : -1;
}

static void skip_blanks(void) {
    while (at < end && isblank((unsigned char)*at)) at++;
}

static void skip_spaces(void) {
    while (at < end && (isspace((unsigned char)*at) || *at == ';')) at++;
}

static uint64_t read_number(void) {
    uint64_t number = 0;
    for (; at < end && isdigit((unsigned char)*at); at++) {
        if (__builtin_mul_overflow(number, 10, &number) || __builtin_add_overflow(number, *at - '0', &number)) {
            bad("number is too large");
        }
    }
    return number;
}

struct output *open_output(const char *path) {
    for (size_t i = 0; i < output_count; i++) {
        if (strcmp(outputs[i]->path, path) == 0) return outputs[i];
    }
    struct output *output = grow(NULL, sizeof *output);
    *output = (struct output){.path = copy_text(path)};
    if (strcmp(path, "/dev/stdout") == 0) output->file = stdout;
    else if (strcmp(path, "/dev/stderr") == 0) output->file = stderr;
    else output->file = fopen(path, "w");
    trouble = 4;
    if (!output->file) die("couldn't open file %s: %s", path, strerror(errno));
    trouble = 1;
    outputs = grow(outputs, (output_count + 1) * sizeof *outputs);
    outputs[output_count++] = output;
    return output;
}

// Copies what is left of a bracket expression; false, with nothing done, if no ] ends it.
static bool read_bracket(struct bytes *text) {
    const char *from = at;
    if (from < end && *from == '^') from++;
    if (from < end && *from == ']') from++;
    for (; from < end && *from != ']' && *from != '\n'; from++) {
        if (*from != '[' || from + 1 == end || !strchr(".:=", from[1]) || !from[1]) continue;
        const char kind[] = {from[1], ']', '\0'}, *close = memmem(from + 2, end - from - 2, kind, 2);
        if (close) from = close + 1;
    }
    if (from == end || *from != ']') return false;
    append(text, at, from + 1 - at);
    at = from + 1;
    return true;
}

// The text up to the delimiter, which may stand in it behind a backslash. False if the delimiter is missing.
static bool read_delimited(char delimiter, bool is_regex, struct bytes *text) {
    *text = (struct bytes){0};
    append(text, "", 0);
    for (int c; (c = next()) != -1;) {
        if (c == (unsigned char)delimiter) return true;
        if (c == '\n' && is_regex) return false;
        if (c != '\\') {
            append(text, &(char){c}, 1);
            if (c == '[' && is_regex) read_bracket(text);
            continue;
        }
        if ((c = next()) == -1) return false;
        if (c == (unsigned char)delimiter) {
            // An operator stays what it is without its backslash; an ordinary character is itself.
            if (!is_regex && (c == '&' || isdigit(c))) append(text, "\\", 1);
        } else if (c == 'n' && is_regex) {
            c = '\n';
        } else {
            append(text, "\\", 1);
        }
        append(text, &(char){c}, 1);
    }
    return false;
}

static struct regex *compile(const struct bytes *pattern, int flags) {
    if (pattern->len == 0) return NULL;
    const char *error;
    flags |= REGEX_ESCAPES | (script.is_extended ? REGEX_EXTENDED : 0);
    struct regex *regex = regex_compile(pattern->at, pattern->len, flags, &error);
    if (!regex) bad(error);
    return regex;
}

// --- addresses ---------------------------------------------------------------------------------------------------------

static bool parse_address(struct address *address) {
    int c = peek();
    *address = (struct address){0};
    if (c == '$') {
        at++;
        address->kind = ADDRESS_LAST;
    } else if (c != -1 && isdigit(c)) {
        address->kind = ADDRESS_LINE;
        address->number = read_number();
        skip_blanks();
        if (peek() == '~') {
            at++;
            address->step = read_number();
            if (address->step) address->kind = ADDRESS_STEP;
        }
    } else if (c == '/' || c == '\\') {
        at++;
        char delimiter = '/';
        if (c == '\\') {
            if (peek() == -1 || peek() == '\n') bad("unexpected `,'");
            delimiter = next();
        }
        struct bytes pattern;
        if (!read_delimited(delimiter, true, &pattern)) bad("unterminated address regex");
        int flags = 0;
        for (; peek() == 'I' || peek() == 'M'; at++) flags |= *at == 'I' ? REGEX_IGNORE_CASE : REGEX_MULTILINE;
        address->kind = ADDRESS_REGEX;
        address->regex = compile(&pattern, flags);
        free(pattern.at);
    } else {
        return false;
    }
    return true;
}

static void parse_addresses(struct command *command) {
    if (!parse_address(&command->first)) return;
    skip_blanks();
    if (peek() == ',') {
        at++;
        skip_blanks();
        if (peek() == '+' || peek() == '~') {
            command->second.kind = next() == '+' ? ADDRESS_PLUS : ADDRESS_MULTIPLE;
            if (peek() == -1 || !isdigit(peek())) bad("expected a number");
            command->second.number = read_number();
        } else if (!parse_address(&command->second)) {
            bad("unexpected `,'");
        }
    }
    bool is_zero = command->first.kind == ADDRESS_LINE && command->first.number == 0;
    if (is_zero && command->second.kind != ADDRESS_REGEX) bad("invalid usage of line address 0");
}

// --- replacements --------------------------------------------------------------------------------------------------------

static struct piece *add_piece(struct substitution *substitution, enum piece_kind kind) {
    if (kind == PIECE_TEXT && substitution->count && substitution->pieces[substitution->count - 1].kind == kind) {
        return &substitution->pieces[substitution->count - 1];
    }
    substitution->pieces = grow(substitution->pieces, (substitution->count + 1) * sizeof(struct piece));
    struct piece *piece = &substitution->pieces[substitution->count++];
    *piece = (struct piece){.kind = kind};
    return piece;
}

static int hex_of(int c) {
    return isdigit(c) ? c - '0' : isxdigit(c) ? tolower(c) - 'a' + 10 : -1;
}

// The byte that an escape stands for, whose letter is at `from`; -1 if it is none. Moves behind it.
static int read_escape(const char **from, const char *to) {
    static const char names[] = "afntvr", values[] = "\a\f\n\t\v\r";
    const char *name = **from ? strchr(names, **from) : NULL;
    if (name) {
        ++*from;
        return values[name - names];
    }
    int base = **from == 'x' ? 16 : **from == 'o' ? 8 : **from == 'd' ? 10 : 0;
    if (base) {
        int most = base == 16 ? 2 : 3, value = 0, count = 0;
        const char *digit = *from + 1;
        for (; count < most && digit < to; count++, digit++) {
            int one = hex_of((unsigned char)*digit);
            if (one < 0 || one >= base) break;
            value = value * base + one;
        }
        if (!count) return -1;
        *from = digit;
        return value & 255;
    }
    if (**from == 'c' && *from + 1 < to) {
        int value = toupper((unsigned char)(*from)[1]) ^ 64;
        *from += 2;
        return value;
    }
    return -1;
}

static size_t parse_replacement(struct substitution *substitution, const struct bytes *text) {
    size_t most = 0;
    const char *from = text->at, *to = text->at + text->len;
    while (from < to) {
        char c = *from++;
        if (c == '&') {
            add_piece(substitution, PIECE_SPAN)->span = 0;
            continue;
        }
        if (c != '\\' || from == to) {
            append(&add_piece(substitution, PIECE_TEXT)->text, &c, 1);
            continue;
        }
        if (isdigit((unsigned char)*from)) {
            size_t span = *from++ - '0';
            add_piece(substitution, PIECE_SPAN)->span = span;
            if (span > most) most = span;
        } else if (strchr("ULulE", *from) && *from) {
            add_piece(substitution, PIECE_CASE)->letter = *from++;
        } else {
            int escape = read_escape(&from, to);
            c = escape >= 0 ? escape : *from++;
            append(&add_piece(substitution, PIECE_TEXT)->text, &c, 1);
        }
    }
    return most;
}

static void read_file_name(struct bytes *name) {
    *name = (struct bytes){0};
    append(name, "", 0);
    skip_blanks();
    while (at < end && *at != '\n') append(name, at++, 1);
    if (!name->len) bad("missing filename in r/R/w/W commands");
}

static int parse_flags(struct substitution *substitution) {
    int flags = 0;
    for (;;) {
        int c = next();
        switch (c) {
            case 'g':
                if (substitution->all) bad("multiple `g' options to `s' command");
                substitution->all = true;
                continue;
            case 'p':
                if (substitution->prints) bad("multiple `p' options to `s' command");
                substitution->prints = true;
                continue;
            case 'i': case 'I': flags |= REGEX_IGNORE_CASE; continue;
            case 'm': case 'M': flags |= REGEX_MULTILINE; continue;
            case 'w': {
                struct bytes name;
                read_file_name(&name);
                substitution->output = open_output(name.at);
                free(name.at);
                return flags;
            }
            case -1: case '\n': case ';': return flags;
            case '}': case '#': at--; return flags;
            case ' ': case '\t': case '\r': continue;
            default: break;
        }
        if (!isdigit(c)) bad("unknown option to `s'");
        at--;
        substitution->number = read_number();
        if (!substitution->number) bad("number option to `s' command may not be zero");
    }
}

static void parse_substitution(struct command *command) {
    int delimiter = next();
    if (delimiter == -1 || delimiter == '\n' || delimiter == '\\') bad("unterminated `s' command");
    struct bytes pattern, replacement;
    if (!read_delimited(delimiter, true, &pattern)) bad("unterminated `s' command");
    if (!read_delimited(delimiter, false, &replacement)) bad("unterminated `s' command");
    struct substitution *made = grow(NULL, sizeof *made);
    *made = (struct substitution){.number = 1};
    command->substitution = made;
    size_t most = parse_replacement(made, &replacement);
    made->regex = compile(&pattern, parse_flags(made));
    if (made->regex && most > regex_groups(made->regex)) {
        char message[64];
        snprintf(message, sizeof message, "invalid reference \\%zu on `s' command's RHS", most);
        bad(message);
    }
    free(pattern.at);
    free(replacement.at);
}

// One side of y, whose escapes become what they stand for.
static void unescape_side(struct bytes *text) {
    size_t len = 0;
    const char *from = text->at, *to = text->at + text->len;
    while (from < to) {
        char c = *from++;
        if (c == '\\' && from < to) {
            int escape = *from == '\\' ? '\\' : -1;
            if (escape >= 0) from++;
            else escape = read_escape(&from, to);
            if (escape >= 0) c = escape;
            else if (*from == '\n') c = *from++;
        }
        text->at[len++] = c;
    }
    text->len = len;
}

static void parse_table(struct command *command) {
    int delimiter = next();
    struct bytes from, to;
    if (delimiter == -1 || delimiter == '\n' || delimiter == '\\' || !read_delimited(delimiter, false, &from) ||
        !read_delimited(delimiter, false, &to)) bad("unterminated `y' command");
    unescape_side(&from);
    unescape_side(&to);
    if (from.len != to.len) bad("strings for `y' command are different lengths");
    command->table = grow(NULL, 256);
    for (int c = 0; c < 256; c++) command->table[c] = c;
    for (size_t i = from.len; i-- > 0;) command->table[(unsigned char)from.at[i]] = to.at[i];
    free(from.at);
    free(to.at);
}

// --- commands ------------------------------------------------------------------------------------------------------------

// The text of a, i and c: up to the first newline without a backslash.
static void parse_text(struct command *command) {
    append(&command->text, "", 0);
    skip_blanks();
    if (peek() == -1) bad("expected \\ after `a', `c' or `i'");
    if (peek() == '\\') {
        const char *behind = at + 1;
        while (behind < end && isblank((unsigned char)*behind)) behind++;
        if (behind < end && *behind == '\n') at = behind + 1;
        else if (behind == end) at = behind;
        else at++;
        if (at == end) bad("expected \\ after `a', `c' or `i'");
    }
    while (at < end && *at != '\n') {
        char c = *at++;
        if (c == '\\' && at < end) {
            const char *letter = at;
            int escape = command->text.len ? read_escape(&letter, end) : -1;
            if (escape >= 0) at = letter;
            c = escape >= 0 ? escape : *at++;
        }
        append(&command->text, &c, 1);
    }
    if (at < end) at++;
    append(&command->text, "\n", 1);
}

static char *read_label(bool is_jump) {
    struct bytes label = {0};
    append(&label, "", 0);
    skip_blanks();
    while (at < end && !isspace((unsigned char)*at) && *at != ';' && !(is_jump && *at == '}')) append(&label, at++, 1);
    return label.at;
}

static void end_command(void) {
    skip_blanks();
    int c = peek();
    if (c == '}' || c == '#' || c == -1) return;
    if (c != ';' && c != '\n' && c != '\r') bad("extra characters after command");
    at++;
}

static struct command *add_command(void) {
    if (script.count == script.room) {
        script.room = 2 * script.room + 16;
        script.commands = grow(script.commands, script.room * sizeof *script.commands);
    }
    script.commands[script.count] = (struct command){0};
    return &script.commands[script.count++];
}

static void parse_arguments(struct command *command) {
    struct bytes name;
    switch (command->name) {
        case 'a': case 'i': case 'c': parse_text(command); return;
        case 'r': case 'R': read_file_name(&command->text); return;
        case 'w': case 'W':
            read_file_name(&name);
            command->output = open_output(name.at);
            free(name.at);
            return;
        case 's': parse_substitution(command); return;
        case 'y': parse_table(command); end_command(); return;
        case 'b': case 't': case 'T': command->label = read_label(true); end_command(); return;
        case 'q': case 'Q': case 'l': case 'L':
            skip_blanks();
            command->number = command->name == 'l' ? -1 : 0;
            if (peek() != -1 && isdigit(peek())) command->number = read_number();
            end_command();
            return;
        case 'v': free(read_label(false)); end_command(); return;
        case '=': case 'd': case 'D': case 'F': case 'g': case 'G': case 'h': case 'H': case 'n': case 'N': case 'p':
        case 'P': case 'x': case 'z':
            end_command();
            return;
        default: break;
    }
    char message[32];
    snprintf(message, sizeof message, "unknown command: `%c'", command->name);
    bad(message);
}

static void resolve_labels(void) {
    for (size_t i = 0; i < script.count; i++) {
        struct command *command = &script.commands[i];
        if (!command->label || command->name == ':') continue;
        command->target = script.count;
        bool found = !*command->label;
        for (size_t j = 0; !found && j < script.count; j++) {
            if (script.commands[j].name != ':' || strcmp(script.commands[j].label, command->label)) continue;
            command->target = j;
            found = true;
        }
        if (!found) die("-e expression #1, char %zu: can't find label for jump to `%s'", (size_t)(end - start), command->label);
    }
}

void parse_script(const struct bytes *text) {
    at = start = text->at;
    end = at + text->len;
    if (text->len >= 2 && memcmp(at, "#n", 2) == 0 && (text->len == 2 || at[2] == '\n')) script.quiet = true;
    size_t *open = NULL, open_count = 0;
    for (;;) {
        skip_spaces();
        if (at == end) break;
        if (*at == '#') {
            while (at < end && *at != '\n') at++;
            continue;
        }
        struct command command = {0};
        parse_addresses(&command);
        skip_blanks();
        for (; peek() == '!'; skip_blanks()) {
            at++;
            command.is_negated = true;
        }
        int name = next();
        if (name == -1) bad("missing command");
        command.name = name;
        if (name == '{') {
            open = grow(open, (open_count + 1) * sizeof *open);
            open[open_count++] = script.count;
        } else if (name == '}') {
            if (!open_count) bad("unexpected `}'");
            if (command.first.kind) bad("} doesn't want any addresses");
            script.commands[open[--open_count]].target = script.count;
            end_command();
        } else if (name == ':') {
            if (command.first.kind) bad(": doesn't want any addresses");
            command.label = read_label(false);
            if (!*command.label) bad("\":\" lacks a label");
        } else {
            parse_arguments(&command);
        }
        *add_command() = command;
    }
    if (open_count) die("-e expression #1, char 0: unmatched `{'");
    free(open);
    resolve_labels();
}

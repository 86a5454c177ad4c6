// The functions that awk has, and its formats.
#include "awk.h"

#include <ctype.h>
#include <math.h>
#include <sys/wait.h>
#include <time.h>

enum { WIDTH_MAX = 1 << 20 };

// --- formats -------------------------------------------------------------------------------------------------------------

static void append_padded(struct bytes *to, const char *at, size_t len, int width, bool is_left) {
    size_t room = width > 0 ? width : 0, blanks = room > len ? room - len : 0;
    for (size_t i = 0; !is_left && i < blanks; i++) append(to, " ", 1);
    append(to, at, len);
    for (size_t i = 0; is_left && i < blanks; i++) append(to, " ", 1);
}

// A conversion of printf: `spec` is what stands between % and its letter.
static void append_number(struct bytes *to, const char *flags, int width, int precision, char letter, double number) {
    char spec[32], piece[512];
    bool is_integer = strchr("diouxXc", letter) != NULL;
    if (is_integer && !(fabs(number) < 9.2e18)) {
        // Too large for an integer of the machine.
        letter = 'f';
        precision = 0;
        is_integer = false;
        if (isfinite(number)) number = trunc(number);
    }
    snprintf(spec, sizeof spec, precision >= 0 ? "%%%s*.*%s%c" : "%%%s*%s%c", flags, is_integer ? "ll" : "", letter);
    if (precision > 400) precision = 400;
    int room = width < 0 ? -width : width, pad = room > 400 ? 0 : width;
    int len;
    bool is_signed = letter == 'd' || letter == 'i';
    long long integer = 0;
    if (is_integer) integer = is_signed || number < 0 ? (long long)number : (long long)(unsigned long long)number;
    if (is_integer && precision >= 0) len = snprintf(piece, sizeof piece, spec, pad, precision, integer);
    else if (is_integer) len = snprintf(piece, sizeof piece, spec, pad, integer);
    else if (precision >= 0) len = snprintf(piece, sizeof piece, spec, pad, precision, number);
    else len = snprintf(piece, sizeof piece, spec, pad, number);
    if (len >= (int)sizeof piece) len = sizeof piece - 1;
    append_padded(to, piece, len, room, width < 0 || strchr(flags, '-'));
}

static void append_conversion(struct bytes *to, const char *flags, int width, int precision, char letter,
                              const struct value *value) {
    bool is_left = strchr(flags, '-') || width < 0;
    int room = width < 0 ? -width : width;
    if (letter == 'c') {
        char c = (char)(int64_t)to_number(value);
        if (value->kind == NUMBER) {
            append_padded(to, &c, 1, room, is_left);
            return;
        }
        struct text *text = to_text(value);
        append_padded(to, text->at, 1, room, is_left); // its NUL, if it is empty
        drop(text);
    } else if (letter == 's') {
        struct text *text = to_text(value);
        size_t len = precision >= 0 && (uint32_t)precision < text->len ? (uint32_t)precision : text->len;
        append_padded(to, text->at, len, room, is_left);
        drop(text);
    } else {
        append_number(to, flags, width, precision, letter, to_number(value));
    }
}

// A width or a precision, which may be an argument.
static const char *read_count(const char *at, int *count, struct value *values, size_t total, size_t *next) {
    double number = 0;
    if (*at == '*') {
        at++;
        if (*next >= total) fail("not enough arguments for a format");
        number = to_number(&values[(*next)++]);
    }
    for (; isdigit((unsigned char)*at); at++) number = number * 10 + (*at - '0');
    if (!(fabs(number) <= WIDTH_MAX)) fail("a width in a format is too large");
    *count = (int)number;
    return at;
}

struct text *format_values(struct value *values, size_t count) {
    struct bytes made = {0};
    append(&made, "", 0);
    struct text *format = to_text(&values[0]);
    size_t next = 1;
    const char *at = format->at, *end = format->at + format->len;
    while (at < end) {
        const char *percent = memchr(at, '%', end - at);
        append(&made, at, (percent ? percent : end) - at);
        if (!percent) break;
        at = percent + 1;
        if (*at == '%') {
            append(&made, at++, 1);
            continue;
        }
        char flags[8] = "";
        for (size_t used = 0; *at && strchr("-+ #0", *at); at++) {
            if (used < 6 && !strchr(flags, *at)) flags[used++] = *at, flags[used] = '\0';
        }
        int width, precision = -1;
        at = read_count(at, &width, values, count, &next);
        if (*at == '.') {
            at = read_count(at + 1, &precision, values, count, &next);
        }
        while (*at == 'l' || *at == 'h' || *at == 'L') at++;
        if (!*at || !strchr("diouxXeEfFgGaAcs", *at)) {
            // No conversion: it is text.
            append(&made, percent, at - percent);
            continue;
        }
        static const struct value unset;
        if (next >= count) fail("not enough arguments for the format: %s", format->at);
        append_conversion(&made, flags, width, precision, *at++, next < count ? &values[next] : &unset);
        next++;
    }
    drop(format);
    struct text *text = new_text(made.at, made.len);
    free(made.at);
    return text;
}

// --- substitution --------------------------------------------------------------------------------------------------------

// The text that takes a match's place. gensub also knows \1 to \9.
static void append_replacement(struct bytes *to, const struct text *with, const char *at, const struct span *spans,
                               bool has_groups) {
    for (uint32_t i = 0; i < with->len; i++) {
        char c = with->at[i];
        bool escapes = c == '\\' && i + 1 < with->len;
        char next = escapes ? with->at[i + 1] : 0;
        if (escapes && (next == '&' || (next == '\\' && (has_groups || (i + 2 < with->len && with->at[i + 2] == '&'))))) {
            append(to, &next, 1);
            i++;
        } else if (c == '&') {
            append(to, at + spans[0].from, spans[0].to - spans[0].from);
        } else if (escapes && has_groups && isdigit((unsigned char)next)) {
            const struct span *span = &spans[next - '0'];
            if (span->from >= 0) append(to, at + span->from, span->to - span->from);
            i++;
        } else {
            append(to, &c, 1);
        }
    }
}

// Replaces the matches from number `first` on, or that one alone. Answers how many were.
static size_t replace(struct text *text, struct regex *regex, const struct text *with, size_t first, bool all,
                      bool has_groups, struct bytes *made) {
    size_t from = 0, copied = 0, found = 0, count = 0;
    ptrdiff_t before = -1;
    struct span spans[REGEX_SPANS];
    append(made, "", 0);
    while (from <= text->len && regex_find(regex, text->at, text->len, from, spans, has_groups ? REGEX_SPANS : 1)) {
        size_t start = spans[0].from, stop = spans[0].to;
        append(made, text->at + copied, start - copied);
        copied = start;
        if (!(start == stop && (ptrdiff_t)start == before) && ++found >= first) {
            append_replacement(made, with, text->at, spans, has_groups);
            copied = stop;
            count++;
            if (!all) break;
        }
        before = from = stop;
        if (start == stop) from++;
    }
    append(made, text->at + copied, text->len - copied);
    return count;
}

static struct value substitute(struct node *node) {
    static struct node zero = {.kind = N_NUMBER, .value = {.kind = NUMBER}}, record = {.kind = N_FIELD, .a = &zero};
    struct node *target = node->a->next->next ? node->a->next->next : &record;
    struct regex *regex = regex_of_node(node->a);
    struct text *with = eval_text(node->a->next), *text = eval_text(target);
    // What was evaluated may have dropped an expression that is kept by its text.
    if (node->a->kind != N_REGEX) regex = regex_of_node(node->a);
    struct bytes made = {0};
    size_t count = replace(text, regex, with, 1, node->index == F_GSUB, false, &made);
    if (count) assign(target, of_text(STRING, new_text(made.at, made.len)));
    free(made.at);
    drop(with);
    drop(text);
    return of_number(count);
}

static struct value general_substitute(struct node *node) {
    struct node *with_node = node->a->next, *how_node = with_node->next, *target = how_node->next;
    struct text *with = eval_text(with_node), *how = eval_text(how_node);
    struct value record = target ? (struct value){0} : get_field(0);
    struct text *text = target ? eval_text(target) : hold(record.text);
    clear(&record);
    bool all = how->len && (how->at[0] == 'g' || how->at[0] == 'G'), is_all;
    double number = all ? 1 : parse_prefix(how->at, how->len, &is_all);
    struct bytes made = {0};
    replace(text, regex_of_node(node->a), with, number >= 1 ? (size_t)number : 1, all, true, &made);
    struct value value = of_text(STRING, new_text(made.at, made.len));
    free(made.at);
    drop(with);
    drop(how);
    drop(text);
    return value;
}

// --- texts ---------------------------------------------------------------------------------------------------------------

static struct value substring(struct node *node) {
    struct text *text = eval_text(node->a);
    double from = trunc(eval_number(node->a->next)), len = INFINITY;
    if (node->a->next->next) len = trunc(eval_number(node->a->next->next));
    if (!(from >= 1)) from = 1;
    double to = from + len;
    if (to > (double)text->len + 1) to = (double)text->len + 1;
    struct value value = of_text(STRING, to > from ? new_text(text->at + (size_t)from - 1, (size_t)(to - from)) : empty_text());
    drop(text);
    return value;
}

static struct value find_index(struct node *node) {
    struct text *text = eval_text(node->a), *part = eval_text(node->a->next);
    const char *found = memmem(text->at, text->len, part->at, part->len);
    double index = found ? found - text->at + 1 : 0;
    drop(text);
    drop(part);
    return of_number(index);
}

static struct value find_match(struct node *node) {
    struct text *text = eval_text(node->a);
    struct span spans[REGEX_SPANS];
    bool found = regex_find(regex_of_node(node->a->next), text->at, text->len, 0, spans, REGEX_SPANS);
    globals[V_RSTART].value = of_number(found ? spans[0].from + 1 : 0);
    globals[V_RLENGTH].value = of_number(found ? spans[0].to - spans[0].from : -1);
    if (node->a->next->next) {
        struct array *array = array_of(node->a->next->next);
        array_clear(array);
        for (int i = 0; found && i < REGEX_SPANS; i++) {
            if (spans[i].from < 0) continue;
            struct text *key = number_text(i, NULL);
            *array_find(array, key, true) =
                of_text(INPUT, new_text(text->at + spans[i].from, spans[i].to - spans[i].from));
            drop(key);
        }
    }
    drop(text);
    return copy_value(&globals[V_RSTART].value);
}

static struct value change_case(struct node *node, int (*change)(int)) {
    struct text *text = eval_text(node->a), *made = new_text(text->at, text->len);
    for (uint32_t i = 0; i < made->len; i++) made->at[i] = change((unsigned char)made->at[i]);
    drop(text);
    return of_text(STRING, made);
}

static struct value length_of(struct node *node) {
    if (node->a && (node->a->kind == N_GLOBAL || node->a->kind == N_LOCAL) && !node->a->next) {
        // A variable that may be an array shows which it is when it is evaluated.
        struct array *array = array_if_any(node->a);
        if (array) return of_number(array->count);
    }
    struct value value = node->a ? eval(node->a) : get_field(0);
    struct text *text = to_text(&value);
    double len = text->len;
    drop(text);
    clear(&value);
    return of_number(len);
}

static struct value split(struct node *node) {
    struct text *text = eval_text(node->a);
    struct array *array = array_of(node->a->next);
    struct node *by = node->a->next->next;
    struct value separator = by && by->kind != N_REGEX ? eval(by) : (struct value){0};
    int count = split_into(text, array, by && by->kind != N_REGEX ? &separator : NULL,
                           by && by->kind == N_REGEX ? regex_of_node(by) : NULL);
    clear(&separator);
    drop(text);
    return of_number(count);
}

static struct value format_time(struct node *node) {
    struct text *format = node->a ? eval_text(node->a) : new_text("%a %b %e %H:%M:%S UTC %Y", 24);
    time_t when = node->a && node->a->next ? (time_t)eval_number(node->a->next) : time(NULL);
    char piece[1024];
    struct tm *tm = gmtime(&when);
    size_t len = tm && format->len ? strftime(piece, sizeof piece, format->at, tm) : 0;
    drop(format);
    return of_text(STRING, new_text(piece, len));
}

static struct value numbers_of_text(struct node *node) {
    struct text *text = eval_text(node->a);
    const char *digits = text->at + (text->len && (text->at[0] == '-' || text->at[0] == '+'));
    bool is_all;
    double number = parse_prefix(text->at, text->len, &is_all);
    if (digits[0] == '0' && digits[1]) {
        bool is_hex = digits[1] == 'x' || digits[1] == 'X';
        if (is_hex || isdigit((unsigned char)digits[1])) number = (double)strtoull(digits, NULL, is_hex ? 16 : 8);
        if (text->at[0] == '-') number = -number;
    }
    drop(text);
    return of_number(number);
}

// --- numbers and programs ------------------------------------------------------------------------------------------------

static uint64_t random_state = 0x9e3779b97f4a7c15;

static double random_number(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (double)(random_state >> 11) / 9007199254740992.0;
}

static struct value seed(struct node *node) {
    static double last;
    double before = last;
    last = node->a ? eval_number(node->a) : (double)time(NULL);
    random_state = ((uint64_t)(int64_t)last + 1) * 0x9e3779b97f4a7c15;
    if (!random_state) random_state = 1;
    for (int i = 0; i < 8; i++) random_number();
    return of_number(before);
}

static struct value run_command(struct node *node) {
    struct text *command = eval_text(node->a);
    fflush(NULL);
    int status = system(command->at);
    drop(command);
    if (WIFEXITED(status)) return of_number(WEXITSTATUS(status));
    return of_number(WIFSIGNALED(status) ? 256 + WTERMSIG(status) : status);
}

static struct value close_or_flush(struct node *node) {
    if (!node->a) return of_number(flush_stream(NULL));
    struct text *name = eval_text(node->a);
    double status = node->index == F_CLOSE ? close_stream(name) : flush_stream(name);
    drop(name);
    return of_number(status);
}

static struct value format_node(struct node *node) {
    size_t count = 0, i = 0;
    for (struct node *arg = node->a; arg; arg = arg->next) count++;
    struct value *values = grow(NULL, count * sizeof *values);
    for (struct node *arg = node->a; arg; arg = arg->next) values[i++] = eval(arg);
    struct text *text = format_values(values, count);
    for (i = 0; i < count; i++) clear(&values[i]);
    free(values);
    return of_text(STRING, text);
}

struct value call_builtin(struct node *node) {
    switch ((enum builtin)node->index) {
        case F_ATAN2: {
            double y = eval_number(node->a);
            return of_number(atan2(y, eval_number(node->a->next)));
        }
        case F_CLOSE: case F_FFLUSH: return close_or_flush(node);
        case F_COS: return of_number(cos(eval_number(node->a)));
        case F_EXP: return of_number(exp(eval_number(node->a)));
        case F_GENSUB: return general_substitute(node);
        case F_GSUB: case F_SUB: return substitute(node);
        case F_INDEX: return find_index(node);
        case F_INT: return of_number(trunc(eval_number(node->a)));
        case F_LENGTH: return length_of(node);
        case F_LOG: return of_number(log(eval_number(node->a)));
        case F_MATCH: return find_match(node);
        case F_RAND: return of_number(random_number());
        case F_SIN: return of_number(sin(eval_number(node->a)));
        case F_SPLIT: return split(node);
        case F_SPRINTF: return format_node(node);
        case F_SQRT: return of_number(sqrt(eval_number(node->a)));
        case F_SRAND: return seed(node);
        case F_STRFTIME: return format_time(node);
        case F_STRTONUM: return numbers_of_text(node);
        case F_SUBSTR: return substring(node);
        case F_SYSTEM: return run_command(node);
        case F_SYSTIME: return of_number((double)time(NULL));
        case F_TOLOWER: return change_case(node, tolower);
        case F_TOUPPER: return change_case(node, toupper);
    }
    fail("there is no such function");
}

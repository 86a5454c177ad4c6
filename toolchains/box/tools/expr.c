// expr: computes with its arguments.
#include "../regex/regex.h"

static char **args;
static int depth;

// A text, which is a number where it looks like one.
static char *evaluate(int level);

static bool is_integer(const char *text, int64_t *number) {
    const char *digits = text + (*text == '-');
    if (!*digits || digits[strspn(digits, "0123456789")]) return false;
    errno = 0;
    *number = strtoll(text, NULL, 10);
    if (errno) {
        trouble = 3;
        die("%s: Numerical result out of range", text);
    }
    return true;
}

static bool is_null(const char *text) {
    const char *digits = text + (*text == '-');
    return !*text || (*digits && !digits[strspn(digits, "0")]);
}

static char *of_integer(int64_t number) {
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)number);
    return copy_text(text);
}

static char *match(const char *text, const char *pattern) {
    const char *error;
    struct regex *regex = regex_compile(pattern, strlen(pattern), 0, &error);
    if (!regex) die("%s", error);
    struct span spans[2];
    size_t len = strlen(text);
    // A match counts only from the start on.
    bool found = regex_find(regex, text, len, 0, spans, 2) && spans[0].from == 0;
    char *result;
    if (regex_groups(regex)) {
        bool has_group = found && spans[1].from >= 0;
        result = has_group ? strndup(text + spans[1].from, spans[1].to - spans[1].from) : copy_text("");
        if (!result) die("out of memory");
    } else {
        result = of_integer(found ? spans[0].to : 0);
    }
    regex_free(regex);
    return result;
}

static char *next_operand(void) {
    if (!*args) die("syntax error: missing argument after '%s'", args[-1]);
    return evaluate(6);
}

static int64_t next_number(void) {
    int64_t number;
    char *text = next_operand();
    return is_integer(text, &number) ? number : 0;
}

static char *primary(void) {
    char *word = *args;
    if (!word) die("syntax error: missing argument after '%s'", args[-1]);
    args++;
    if (strcmp(word, "(") == 0) {
        if (++depth > 500) die("syntax error: too many parentheses");
        char *inner = evaluate(0);
        depth--;
        if (!*args) die("syntax error: expecting ')' after '%s'", args[-1]);
        if (strcmp(*args, ")")) die("syntax error: expecting ')' instead of '%s'", *args);
        args++;
        return inner;
    }
    if (strcmp(word, ")") == 0) die("syntax error: unexpected ')'");
    if (strcmp(word, "+") == 0) {
        if (!*args) die("syntax error: missing argument after '+'");
        return copy_text(*args++);
    }
    if (strcmp(word, "length") == 0) return of_integer(strlen(next_operand()));
    if (strcmp(word, "match") == 0) {
        char *text = next_operand();
        return match(text, next_operand());
    }
    if (strcmp(word, "index") == 0) {
        char *text = next_operand(), *found = strpbrk(text, next_operand());
        return of_integer(found ? found - text + 1 : 0);
    }
    if (strcmp(word, "substr") == 0) {
        char *text = next_operand();
        int64_t from = next_number(), count = next_number(), len = strlen(text);
        if (from < 1 || count < 1 || from > len) return copy_text("");
        if (count > len - from + 1) count = len - from + 1;
        char *part = strndup(text + from - 1, count);
        if (!part) die("out of memory");
        return part;
    }
    return copy_text(word);
}

static char *calculate(char op, const char *left, const char *right) {
    int64_t a, b, result = 0;
    if (!is_integer(left, &a) || !is_integer(right, &b)) die("non-integer argument");
    if ((op == '/' || op == '%') && b == 0) die("division by zero");
    bool is_over = op == '+' ? __builtin_add_overflow(a, b, &result) : op == '-' ? __builtin_sub_overflow(a, b, &result)
                 : op == '*' ? __builtin_mul_overflow(a, b, &result) : a == INT64_MIN && b == -1;
    if (is_over) {
        trouble = 3;
        die("Numerical result out of range");
    }
    if (op == '/') result = a / b;
    if (op == '%') result = a % b;
    return of_integer(result);
}

static char *compare(const char *op, const char *left, const char *right) {
    int64_t a, b;
    int order = is_integer(left, &a) && is_integer(right, &b) ? (a > b) - (a < b) : strcmp(left, right);
    bool result = *op == '<' ? (op[1] ? order <= 0 : order < 0) : *op == '>' ? (op[1] ? order >= 0 : order > 0)
                : *op == '!' ? order != 0 : order == 0;
    return of_integer(result);
}

// The operators of each level, the loosest first.
static bool is_operator(int level, const char *word) {
    static const char *const operators[][7] = {
        {"|"}, {"&"}, {"<", "<=", "=", "==", "!=", ">=", ">"}, {"+", "-"}, {"*", "/", "%"}, {":"},
    };
    for (int i = 0; i < 7 && operators[level][i]; i++) {
        if (strcmp(operators[level][i], word) == 0) return true;
    }
    return false;
}

static char *evaluate(int level) {
    if (level == 6) return primary();
    char *left = evaluate(level + 1);
    while (*args && is_operator(level, *args)) {
        const char *op = *args++;
        char *right = evaluate(level + 1), *result;
        switch (level) {
            case 0: result = !is_null(left) ? left : !is_null(right) ? right : copy_text("0"); break;
            case 1: result = is_null(left) || is_null(right) ? copy_text("0") : left; break;
            case 2: result = compare(op, left, right); break;
            case 5: result = match(left, right); break;
            default: result = calculate(*op, left, right);
        }
        left = result;
    }
    return left;
}

int tool_expr(int argc, char **argv) {
    trouble = 2;
    args = argv + 1;
    if (argc > 1 && strcmp(argv[1], "--") == 0) args++;
    if (!*args) die("missing operand");
    char *result = evaluate(0);
    if (*args) die("syntax error: unexpected argument '%s'", *args);
    puts(result);
    return is_null(result);
}

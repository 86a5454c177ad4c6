// The tokens of a program of awk.
#include "awk.h"

#include <ctype.h>

struct lexer lexer;

_Noreturn void syntax_error(const char *message) {
    if (message) die("line %d: %s", lexer.line, message);
    const char *near = lexer.token == T_END ? "the end" : lexer.token == T_NEWLINE ? "the end of the line" : NULL;
    if (near) die("line %d: syntax error at %s", lexer.line, near);
    size_t len = strcspn(lexer.at, "\n");
    die("line %d: syntax error near %.*s", lexer.line, len > 40 ? 40 : (int)len, lexer.at);
}

static int digit_of(int c) {
    return isdigit(c) ? c - '0' : isxdigit(c) ? tolower(c) - 'a' + 10 : 99;
}

void unescape_text(const char *at, size_t len, struct bytes *to) {
    const char *end = at + len;
    while (at < end) {
        char c = *at++;
        if (c != '\\' || at == end) {
            append(to, &c, 1);
            continue;
        }
        static const char names[] = "\"\\/abfnrtv", values[] = "\"\\/\a\b\f\n\r\t\v";
        c = *at++;
        const char *name = c ? strchr(names, c) : NULL;
        if (name) {
            append(to, &values[name - names], 1);
        } else if (c == '\n') {
            continue;
        } else if (c >= '0' && c <= '7') {
            int value = c - '0';
            for (int i = 0; i < 2 && at < end && *at >= '0' && *at <= '7'; i++) value = value * 8 + (*at++ - '0');
            append(to, &(char){value}, 1);
        } else if (c == 'x' && at < end && digit_of((unsigned char)*at) < 16) {
            int value = 0;
            for (int i = 0; i < 2 && at < end && digit_of((unsigned char)*at) < 16; i++) {
                value = value * 16 + digit_of((unsigned char)*at++);
            }
            append(to, &(char){value}, 1);
        } else {
            // What is no escape keeps its backslash, which regular expressions in strings rely on.
            append(to, "\\", 1);
            append(to, &c, 1);
        }
    }
}

static void read_string(void) {
    const char *start = ++lexer.at;
    for (; lexer.at < lexer.end && *lexer.at != '"'; lexer.at++) {
        if (*lexer.at == '\n') syntax_error("unterminated string");
        if (*lexer.at == '\\' && lexer.at + 1 < lexer.end && *++lexer.at == '\n') lexer.line++;
    }
    if (lexer.at >= lexer.end) syntax_error("unterminated string");
    unescape_text(start, lexer.at - start, &lexer.text);
    lexer.at++;
}

void read_regex(void) {
    bool in_bracket = false;
    lexer.text.len = 0;
    append(&lexer.text, "", 0);
    if (lexer.token == T_DIV_ASSIGN) append(&lexer.text, "=", 1);
    const char *bracket = NULL;
    for (;; lexer.at++) {
        if (lexer.at >= lexer.end || *lexer.at == '\n') syntax_error("unterminated regular expression");
        char c = *lexer.at;
        if (c == '/' && !in_bracket) break;
        if (c == '\\' && lexer.at + 1 < lexer.end && lexer.at[1] == '/') c = *++lexer.at;
        else if (c == '\\' && lexer.at + 1 < lexer.end) append(&lexer.text, lexer.at++, 1), c = *lexer.at;
        else if (c == '[' && !in_bracket) in_bracket = true, bracket = lexer.at + 1 + (lexer.at[1] == '^');
        else if (c == '[' && lexer.at + 1 < lexer.end && lexer.at[1] == ':') {
            const char *close = memmem(lexer.at, lexer.end - lexer.at, ":]", 2);
            if (close) {
                append(&lexer.text, lexer.at, close + 1 - lexer.at);
                lexer.at = close + 1;
                c = ']';
            }
        } else if (c == ']' && lexer.at != bracket) in_bracket = false;
        append(&lexer.text, &c, 1);
    }
    lexer.at++;
    lexer.token = T_REGEX;
}

static const struct {
    const char *name;
    enum token token;
} keywords[] = {
    {"BEGIN", T_BEGIN}, {"END", T_END_RULE}, {"function", T_FUNCTION}, {"func", T_FUNCTION}, {"if", T_IF},
    {"else", T_ELSE}, {"while", T_WHILE}, {"for", T_FOR}, {"do", T_DO}, {"break", T_BREAK}, {"continue", T_CONTINUE},
    {"next", T_NEXT}, {"nextfile", T_NEXTFILE}, {"exit", T_EXIT}, {"return", T_RETURN}, {"delete", T_DELETE}, {"in", T_IN},
    {"getline", T_GETLINE}, {"print", T_PRINT}, {"printf", T_PRINTF},
};

static const char *const builtins[] = {
    [F_ATAN2] = "atan2", [F_CLOSE] = "close", [F_COS] = "cos", [F_EXP] = "exp", [F_FFLUSH] = "fflush",
    [F_GENSUB] = "gensub", [F_GSUB] = "gsub", [F_INDEX] = "index", [F_INT] = "int", [F_LENGTH] = "length", [F_LOG] = "log",
    [F_MATCH] = "match", [F_RAND] = "rand", [F_SIN] = "sin", [F_SPLIT] = "split", [F_SPRINTF] = "sprintf",
    [F_SQRT] = "sqrt", [F_SRAND] = "srand", [F_STRFTIME] = "strftime", [F_STRTONUM] = "strtonum", [F_SUB] = "sub",
    [F_SUBSTR] = "substr", [F_SYSTEM] = "system", [F_SYSTIME] = "systime", [F_TOLOWER] = "tolower",
    [F_TOUPPER] = "toupper",
};

static enum token read_name(void) {
    const char *start = lexer.at;
    while (lexer.at < lexer.end && (isalnum((unsigned char)*lexer.at) || *lexer.at == '_')) lexer.at++;
    append(&lexer.text, start, lexer.at - start);
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++) {
        if (strcmp(keywords[i].name, lexer.text.at) == 0) return keywords[i].token;
    }
    for (size_t i = 0; i < sizeof builtins / sizeof *builtins; i++) {
        if (strcmp(builtins[i], lexer.text.at)) continue;
        lexer.builtin = i;
        return T_BUILTIN;
    }
    return lexer.at < lexer.end && *lexer.at == '(' ? T_CALL_NAME : T_NAME;
}

static void read_number(void) {
    const char *start = lexer.at;
    if (*start == '0' && start + 2 < lexer.end && (start[1] == 'x' || start[1] == 'X') &&
        isxdigit((unsigned char)start[2])) {
        lexer.number = 0;
        for (lexer.at += 2; lexer.at < lexer.end && digit_of((unsigned char)*lexer.at) < 16; lexer.at++) {
            lexer.number = lexer.number * 16 + digit_of((unsigned char)*lexer.at);
        }
        return;
    }
    while (lexer.at < lexer.end && (isdigit((unsigned char)*lexer.at) || *lexer.at == '.')) lexer.at++;
    const char *exponent = lexer.at;
    if (exponent < lexer.end && (*exponent == 'e' || *exponent == 'E')) {
        exponent++;
        if (exponent < lexer.end && (*exponent == '+' || *exponent == '-')) exponent++;
        if (exponent < lexer.end && isdigit((unsigned char)*exponent)) {
            while (exponent < lexer.end && isdigit((unsigned char)*exponent)) exponent++;
            lexer.at = exponent;
        }
    }
    bool is_all;
    lexer.number = parse_prefix(start, lexer.at - start, &is_all);
}

static bool skip_space(void) {
    for (; lexer.at < lexer.end; lexer.at++) {
        if (*lexer.at == '\\' && lexer.at + 1 < lexer.end && lexer.at[1] == '\n') {
            lexer.at++;
            lexer.line++;
        } else if (*lexer.at == '\\' && lexer.at + 2 < lexer.end && lexer.at[1] == '\r' && lexer.at[2] == '\n') {
            lexer.at += 2;
            lexer.line++;
        } else if (*lexer.at == '#') {
            while (lexer.at < lexer.end && *lexer.at != '\n') lexer.at++;
            lexer.at--;
        } else if (*lexer.at != ' ' && *lexer.at != '\t' && *lexer.at != '\r') {
            return true;
        }
    }
    return false;
}

static enum token read_sign(void) {
    // The longer ones first.
    static const struct {
        const char *text;
        enum token token;
    } signs[] = {
        {"**=", T_POW_ASSIGN}, {"&&", T_AND}, {"||", T_OR}, {"++", T_INCREMENT}, {"--", T_DECREMENT}, {"+=", T_ADD_ASSIGN},
        {"-=", T_SUB_ASSIGN}, {"*=", T_MUL_ASSIGN}, {"/=", T_DIV_ASSIGN}, {"%=", T_MOD_ASSIGN}, {"^=", T_POW_ASSIGN},
        {"**", T_CARET}, {"==", T_EQUAL}, {"<=", T_LESS_EQUAL}, {">=", T_GREATER_EQUAL}, {"!=", T_NOT_EQUAL},
        {">>", T_APPEND}, {"!~", T_NOT_TILDE}, {"{", T_LEFT_BRACE}, {"}", T_RIGHT_BRACE}, {"(", T_LEFT_PAREN},
        {")", T_RIGHT_PAREN}, {"[", T_LEFT_BRACKET}, {"]", T_RIGHT_BRACKET}, {";", T_SEMICOLON}, {",", T_COMMA},
        {"+", T_PLUS}, {"-", T_MINUS}, {"*", T_STAR}, {"/", T_SLASH}, {"%", T_PERCENT}, {"^", T_CARET}, {"!", T_NOT},
        {">", T_GREATER}, {"<", T_LESS}, {"|", T_PIPE}, {"?", T_QUESTION}, {":", T_COLON}, {"~", T_TILDE}, {"$", T_DOLLAR},
        {"=", T_ASSIGN},
    };
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        size_t len = strlen(signs[i].text);
        if ((size_t)(lexer.end - lexer.at) < len || memcmp(lexer.at, signs[i].text, len)) continue;
        lexer.at += len;
        return signs[i].token;
    }
    syntax_error(NULL);
}

void next_token(void) {
    lexer.text.len = 0;
    append(&lexer.text, "", 0);
    if (!skip_space()) {
        lexer.token = T_END;
        return;
    }
    unsigned char c = *lexer.at;
    if (c == '\n') {
        lexer.at++;
        lexer.line++;
        lexer.token = T_NEWLINE;
    } else if (c == '"') {
        read_string();
        lexer.token = T_STRING;
    } else if (isdigit(c) || (c == '.' && lexer.at + 1 < lexer.end && isdigit((unsigned char)lexer.at[1]))) {
        read_number();
        lexer.token = T_NUMBER;
    } else if (isalpha(c) || c == '_') {
        lexer.token = read_name();
    } else {
        lexer.token = read_sign();
    }
}

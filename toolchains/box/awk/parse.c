// Programs of awk become trees.
#include "awk.h"

struct program program;

static char **locals; // names of the parameters of the function that is read
static int local_count;
static bool in_function, no_greater, no_in;
static int depth, loops;

enum { DEPTH_MAX = 400 };

static struct node *parse_expression(void);
static struct node *parse_concat(void);
static struct node *parse_statement(void);

static struct node *make(enum node_kind kind, struct node *a, struct node *b) {
    struct node *node = grow(NULL, sizeof *node);
    *node = (struct node){.kind = kind, .a = a, .b = b, .line = lexer.line};
    return node;
}

static bool accept(enum token token) {
    if (lexer.token != token) return false;
    next_token();
    return true;
}

static void expect(enum token token) {
    if (!accept(token)) syntax_error(NULL);
}

static void skip_newlines(void) {
    while (lexer.token == T_NEWLINE) next_token();
}

static void skip_terminators(void) {
    while (lexer.token == T_NEWLINE || lexer.token == T_SEMICOLON) next_token();
}

static void enter(void) {
    if (++depth > DEPTH_MAX) syntax_error("the program is nested too deeply");
}

// --- names -------------------------------------------------------------------------------------------------------------

int global_index(const char *name) {
    for (size_t i = 0; i < program.global_count; i++) {
        if (strcmp(program.globals[i], name) == 0) return i;
    }
    program.globals = grow(program.globals, (program.global_count + 1) * sizeof *program.globals);
    program.globals[program.global_count] = copy_text(name);
    return program.global_count++;
}

static int function_index(const char *name) {
    for (size_t i = 0; i < program.function_count; i++) {
        if (strcmp(program.functions[i].name, name) == 0) return i;
    }
    program.functions = grow(program.functions, (program.function_count + 1) * sizeof *program.functions);
    program.functions[program.function_count] = (struct function){.name = copy_text(name)};
    return program.function_count++;
}

static struct node *parse_name(void) {
    struct node *node = make(N_GLOBAL, NULL, NULL);
    for (int i = 0; in_function && i < local_count; i++) {
        if (strcmp(locals[i], lexer.text.at)) continue;
        node->kind = N_LOCAL;
        node->index = i;
    }
    if (node->kind == N_GLOBAL) node->index = global_index(lexer.text.at);
    next_token();
    return node;
}

// --- expressions -------------------------------------------------------------------------------------------------------

// Expressions between commas, as a list by `next`.
static struct node *parse_list(enum token end) {
    struct node *first = NULL, **last = &first;
    bool outer_greater = no_greater, outer_in = no_in;
    no_greater = no_in = false;
    skip_newlines();
    while (lexer.token != end) {
        *last = parse_expression();
        last = &(*last)->next;
        skip_newlines();
        if (lexer.token == end) break;
        expect(T_COMMA);
        skip_newlines();
        if (lexer.token == end) syntax_error(NULL);
    }
    no_greater = outer_greater;
    no_in = outer_in;
    next_token();
    return first;
}

static bool is_target(const struct node *node) {
    return node->kind == N_GLOBAL || node->kind == N_LOCAL || node->kind == N_FIELD || node->kind == N_INDEX;
}

static struct node *parse_subscript(struct node *name) {
    if (!accept(T_LEFT_BRACKET)) return name;
    struct node *list = parse_list(T_RIGHT_BRACKET);
    if (!list) syntax_error(NULL);
    return make(N_INDEX, name, list);
}

static struct node *parse_builtin(void) {
    struct node *node = make(N_BUILTIN, NULL, NULL);
    node->index = lexer.builtin;
    next_token();
    if (lexer.token == T_LEFT_PAREN) {
        next_token();
        node->a = parse_list(T_RIGHT_PAREN);
    } else if (node->index != F_LENGTH) {
        syntax_error(NULL);
    }
    static const struct {
        int least, most;
    } counts[] = {
        [F_ATAN2] = {2, 2}, [F_CLOSE] = {1, 2}, [F_COS] = {1, 1}, [F_EXP] = {1, 1}, [F_FFLUSH] = {0, 1}, [F_GENSUB] = {3, 4},
        [F_GSUB] = {2, 3}, [F_INDEX] = {2, 2}, [F_INT] = {1, 1}, [F_LENGTH] = {0, 1}, [F_LOG] = {1, 1}, [F_MATCH] = {2, 3},
        [F_RAND] = {0, 0}, [F_SIN] = {1, 1}, [F_SPLIT] = {2, 3}, [F_SPRINTF] = {1, 1 << 20}, [F_SQRT] = {1, 1},
        [F_SRAND] = {0, 1}, [F_STRFTIME] = {0, 3}, [F_STRTONUM] = {1, 1}, [F_SUB] = {2, 3}, [F_SUBSTR] = {2, 3},
        [F_SYSTEM] = {1, 1}, [F_SYSTIME] = {0, 0}, [F_TOLOWER] = {1, 1}, [F_TOUPPER] = {1, 1},
    };
    int count = 0;
    for (struct node *part = node->a; part; part = part->next) count++;
    if (count < counts[node->index].least || count > counts[node->index].most) {
        syntax_error("wrong number of arguments of a function");
    }
    return node;
}

static struct node *parse_unary(void);

// A variable, an element or a field.
static struct node *parse_target(void) {
    if (lexer.token == T_DOLLAR) {
        next_token();
        enter();
        struct node *index;
        if (lexer.token == T_INCREMENT || lexer.token == T_DECREMENT) {
            index = make(N_BEFORE, NULL, NULL);
            index->op = lexer.token;
            next_token();
            index->a = parse_target();
        } else if (lexer.token == T_MINUS || lexer.token == T_PLUS || lexer.token == T_NOT) {
            enum token sign = lexer.token;
            next_token();
            index = make(sign == T_MINUS ? N_NEGATE : sign == T_PLUS ? N_PLUS : N_NOT, parse_target(), NULL);
        } else {
            index = parse_target();
        }
        depth--;
        return make(N_FIELD, index, NULL);
    }
    if (lexer.token == T_NAME) return parse_subscript(parse_name());
    if (lexer.token == T_NUMBER) {
        struct node *node = make(N_NUMBER, NULL, NULL);
        node->value = of_number(lexer.number);
        next_token();
        return node;
    }
    if (lexer.token == T_STRING) {
        struct node *node = make(N_STRING, NULL, NULL);
        node->value = of_text(STRING, new_text(lexer.text.at, lexer.text.len));
        next_token();
        return node;
    }
    if (lexer.token == T_CALL_NAME) {
        struct node *node = make(N_CALL, NULL, NULL);
        node->index = function_index(lexer.text.at);
        next_token();
        next_token();
        node->a = parse_list(T_RIGHT_PAREN);
        return node;
    }
    if (lexer.token == T_BUILTIN) return parse_builtin();
    if (lexer.token == T_LEFT_PAREN) {
        next_token();
        struct node *list = parse_list(T_RIGHT_PAREN);
        if (!list) syntax_error(NULL);
        return make(N_GROUP, list, NULL);
    }
    syntax_error(NULL);
}

static struct node *parse_getline(struct node *command) {
    next_token();
    struct node *node = make(N_GETLINE, NULL, command);
    if (lexer.token == T_DOLLAR || lexer.token == T_NAME) node->a = parse_target();
    if (!command && lexer.token == T_LESS) {
        next_token();
        node->c = parse_target();
    }
    return node;
}

static struct node *parse_primary(void) {
    if (lexer.token == T_SLASH || lexer.token == T_DIV_ASSIGN) {
        read_regex();
        struct node *node = make(N_REGEX, NULL, NULL);
        node->value = of_text(STRING, new_text(lexer.text.at, lexer.text.len));
        regex_of_node(node); // complains now if it is none
        next_token();
        return node;
    }
    if (lexer.token == T_GETLINE) return parse_getline(NULL);
    if (lexer.token == T_INCREMENT || lexer.token == T_DECREMENT) {
        struct node *node = make(N_BEFORE, NULL, NULL);
        node->op = lexer.token;
        next_token();
        node->a = parse_target();
        if (!is_target(node->a)) syntax_error(NULL);
        return node;
    }
    struct node *node = parse_target();
    if (!is_target(node)) return node;
    if (lexer.token == T_INCREMENT || lexer.token == T_DECREMENT) {
        node = make(N_AFTER, node, NULL);
        node->op = lexer.token;
        next_token();
    } else if (lexer.token >= T_ASSIGN && lexer.token <= T_POW_ASSIGN) {
        node = make(N_ASSIGN, node, NULL);
        node->op = lexer.token;
        next_token();
        skip_newlines();
        node->b = parse_expression();
    }
    return node;
}

static struct node *parse_power(void) {
    struct node *node = parse_primary();
    if (lexer.token != T_CARET) return node;
    next_token();
    enter();
    node = make(N_BINARY, node, parse_unary());
    depth--;
    node->op = T_CARET;
    return node;
}

static struct node *parse_unary(void) {
    enum token token = lexer.token;
    if (token != T_NOT && token != T_MINUS && token != T_PLUS) return parse_power();
    next_token();
    enter();
    struct node *node = parse_unary();
    depth--;
    return make(token == T_NOT ? N_NOT : token == T_MINUS ? N_NEGATE : N_PLUS, node, NULL);
}

static struct node *parse_product(void) {
    struct node *node = parse_unary();
    while (lexer.token == T_STAR || lexer.token == T_SLASH || lexer.token == T_PERCENT) {
        enum token op = lexer.token;
        next_token();
        node = make(N_BINARY, node, parse_unary());
        node->op = op;
    }
    return node;
}

static struct node *parse_sum(void) {
    struct node *node = parse_product();
    while (lexer.token == T_PLUS || lexer.token == T_MINUS) {
        enum token op = lexer.token;
        next_token();
        node = make(N_BINARY, node, parse_product());
        node->op = op;
    }
    return node;
}

static bool begins_operand(void) {
    switch (lexer.token) {
        case T_NUMBER: case T_STRING: case T_NAME: case T_CALL_NAME: case T_BUILTIN: case T_DOLLAR: case T_NOT:
        case T_LEFT_PAREN: case T_INCREMENT: case T_DECREMENT:
            return true;
        default: return false;
    }
}

static struct node *parse_concat(void) {
    struct node *node = parse_sum();
    while (begins_operand()) node = make(N_CONCAT, node, parse_sum());
    return node;
}

static struct node *parse_comparison(void) {
    struct node *node = parse_concat();
    for (;;) {
        if (lexer.token == T_PIPE && lexer.at < lexer.end) {
            // A pipe of print, unless getline follows.
            struct lexer saved = lexer;
            saved.text = (struct bytes){0};
            next_token();
            if (lexer.token != T_GETLINE) {
                struct bytes text = lexer.text;
                lexer = saved;
                lexer.text = text;
                return node;
            }
            node = parse_getline(node);
            continue;
        }
        enum token op = lexer.token;
        bool compares = op == T_LESS || op == T_LESS_EQUAL || op == T_EQUAL || op == T_NOT_EQUAL || op == T_GREATER_EQUAL ||
                        (op == T_GREATER && !no_greater);
        if (!compares) return node;
        next_token();
        node = make(N_COMPARE, node, parse_concat());
        node->op = op;
    }
}

static struct node *parse_match(void) {
    struct node *node = parse_comparison();
    while (lexer.token == T_TILDE || lexer.token == T_NOT_TILDE) {
        enum token op = lexer.token;
        next_token();
        node = make(N_MATCH, node, parse_comparison());
        node->op = op;
    }
    return node;
}

static struct node *parse_in(void) {
    struct node *node = parse_match();
    while (lexer.token == T_IN && !no_in) {
        next_token();
        if (lexer.token != T_NAME) syntax_error(NULL);
        node = make(N_IN, parse_name(), node->kind == N_GROUP ? node->a : node);
    }
    return node;
}

static struct node *parse_and(void) {
    struct node *node = parse_in();
    while (accept(T_AND)) {
        skip_newlines();
        node = make(N_AND, node, parse_in());
    }
    return node;
}

static struct node *parse_or(void) {
    struct node *node = parse_and();
    while (accept(T_OR)) {
        skip_newlines();
        node = make(N_OR, node, parse_and());
    }
    return node;
}

static struct node *parse_expression(void) {
    enter();
    struct node *node = parse_or();
    if (lexer.token == T_QUESTION) {
        next_token();
        skip_newlines();
        node = make(N_CONDITION, node, parse_expression());
        skip_newlines();
        expect(T_COLON);
        skip_newlines();
        node->c = parse_expression();
    }
    depth--;
    return node;
}

// --- statements --------------------------------------------------------------------------------------------------------

static struct node *parse_print(void) {
    struct node *node = make(lexer.token == T_PRINT ? N_PRINT : N_PRINTF, NULL, NULL), **last = &node->a;
    next_token();
    bool outer = no_greater;
    no_greater = true;
    while (lexer.token != T_SEMICOLON && lexer.token != T_NEWLINE && lexer.token != T_RIGHT_BRACE && lexer.token != T_END &&
           lexer.token != T_GREATER && lexer.token != T_APPEND && lexer.token != T_PIPE) {
        *last = parse_expression();
        last = &(*last)->next;
        if (!accept(T_COMMA)) break;
        skip_newlines();
    }
    no_greater = outer;
    // The parentheses around all of the arguments.
    if (node->a && node->a->kind == N_GROUP && !node->a->next) node->a = node->a->a;
    if (node->kind == N_PRINTF && !node->a) syntax_error("printf needs a format");
    if (lexer.token == T_GREATER || lexer.token == T_APPEND || lexer.token == T_PIPE) {
        node->op = lexer.token;
        next_token();
        outer = no_greater;
        no_greater = true;
        node->b = parse_concat();
        no_greater = outer;
    }
    return node;
}

// A statement that ends with its line.
static struct node *parse_simple(void) {
    struct node *node;
    enum token token = lexer.token;
    switch (token) {
        case T_PRINT: case T_PRINTF: return parse_print();
        case T_BREAK: case T_CONTINUE: case T_NEXT: case T_NEXTFILE:
            if ((token == T_BREAK || token == T_CONTINUE) && !loops) syntax_error("break or continue outside of a loop");
            next_token();
            return make(token == T_BREAK ? N_BREAK : token == T_CONTINUE ? N_CONTINUE : token == T_NEXT ? N_NEXT : N_NEXTFILE,
                        NULL, NULL);
        case T_EXIT: case T_RETURN:
            if (token == T_RETURN && !in_function) syntax_error("return outside of a function");
            next_token();
            node = make(token == T_EXIT ? N_EXIT : N_RETURN, NULL, NULL);
            if (lexer.token != T_SEMICOLON && lexer.token != T_NEWLINE && lexer.token != T_RIGHT_BRACE &&
                lexer.token != T_END) node->a = parse_expression();
            return node;
        case T_DELETE:
            next_token();
            if (lexer.token != T_NAME) syntax_error(NULL);
            node = parse_name();
            return make(N_DELETE, node, accept(T_LEFT_BRACKET) ? parse_list(T_RIGHT_BRACKET) : NULL);
        default: return make(N_EXPRESSION, parse_expression(), NULL);
    }
}

static struct node *parse_body(void) {
    skip_newlines();
    if (accept(T_SEMICOLON)) return make(N_BLOCK, NULL, NULL);
    return parse_statement();
}

static struct node *parse_loop_body(void) {
    loops++;
    struct node *node = parse_body();
    loops--;
    return node;
}

static struct node *parse_for(void) {
    next_token();
    expect(T_LEFT_PAREN);
    struct node *node = make(N_FOR, NULL, NULL);
    if (lexer.token != T_SEMICOLON) {
        no_in = true;
        struct node *first = parse_simple();
        no_in = false;
        if (lexer.token == T_IN && first->kind == N_EXPRESSION && is_target(first->a)) {
            next_token();
            if (lexer.token != T_NAME) syntax_error(NULL);
            node->kind = N_FOR_IN;
            node->a = first->a;
            node->b = parse_name();
            expect(T_RIGHT_PAREN);
            node->d = parse_loop_body();
            return node;
        }
        // for ((i, j) in a) is no loop over an array.
        node->a = first;
    }
    expect(T_SEMICOLON);
    skip_newlines();
    if (lexer.token != T_SEMICOLON) node->b = parse_expression();
    expect(T_SEMICOLON);
    skip_newlines();
    if (lexer.token != T_RIGHT_PAREN) node->c = parse_simple();
    expect(T_RIGHT_PAREN);
    node->d = parse_loop_body();
    return node;
}

static struct node *parse_block(void) {
    expect(T_LEFT_BRACE);
    struct node *node = make(N_BLOCK, NULL, NULL), **last = &node->a;
    skip_terminators();
    while (lexer.token != T_RIGHT_BRACE) {
        if (lexer.token == T_END) syntax_error(NULL);
        *last = parse_statement();
        last = &(*last)->next;
        skip_terminators();
    }
    next_token();
    return node;
}

static void end_simple(void) {
    if (lexer.token == T_SEMICOLON || lexer.token == T_NEWLINE) next_token();
    else if (lexer.token != T_RIGHT_BRACE && lexer.token != T_END) syntax_error(NULL);
}

static struct node *parse_compound(void) {
    struct node *node;
    switch (lexer.token) {
        case T_LEFT_BRACE: return parse_block();
        case T_IF:
            next_token();
            expect(T_LEFT_PAREN);
            node = make(N_IF, parse_expression(), NULL);
            expect(T_RIGHT_PAREN);
            node->b = parse_body();
            skip_terminators();
            if (accept(T_ELSE)) node->c = parse_body();
            return node;
        case T_WHILE:
            next_token();
            expect(T_LEFT_PAREN);
            node = make(N_WHILE, parse_expression(), NULL);
            expect(T_RIGHT_PAREN);
            node->b = parse_loop_body();
            return node;
        case T_DO:
            next_token();
            node = make(N_DO, NULL, NULL);
            node->b = parse_loop_body();
            skip_terminators();
            expect(T_WHILE);
            expect(T_LEFT_PAREN);
            node->a = parse_expression();
            expect(T_RIGHT_PAREN);
            end_simple();
            return node;
        case T_FOR: return parse_for();
        default:
            node = parse_simple();
            end_simple();
            return node;
    }
}

static struct node *parse_statement(void) {
    enter();
    struct node *node = parse_compound();
    depth--;
    return node;
}

// --- programs ----------------------------------------------------------------------------------------------------------

static void parse_function(void) {
    next_token();
    if (lexer.token != T_NAME && lexer.token != T_CALL_NAME) syntax_error(NULL);
    int index = function_index(lexer.text.at);
    if (program.functions[index].is_defined) syntax_error("a function is defined twice");
    program.functions[index].is_defined = true;
    next_token();
    expect(T_LEFT_PAREN);
    local_count = 0;
    skip_newlines();
    while (lexer.token != T_RIGHT_PAREN) {
        if (lexer.token != T_NAME) syntax_error(NULL);
        locals = grow(locals, (local_count + 1) * sizeof *locals);
        locals[local_count++] = copy_text(lexer.text.at);
        next_token();
        skip_newlines();
        if (lexer.token == T_RIGHT_PAREN) break;
        expect(T_COMMA);
        skip_newlines();
    }
    next_token();
    skip_newlines();
    program.functions[index].parameters = local_count;
    in_function = true;
    struct node *body = parse_block();
    in_function = false;
    program.functions[index].body = body;
}

static void parse_rule(void) {
    struct rule rule = {.kind = RULE_PATTERN};
    if (lexer.token == T_BEGIN || lexer.token == T_END_RULE) {
        rule.kind = lexer.token == T_BEGIN ? RULE_BEGIN : RULE_END;
        next_token();
        skip_newlines();
        if (lexer.token != T_LEFT_BRACE) syntax_error("BEGIN and END need an action");
    } else if (lexer.token == T_LEFT_BRACE) {
        rule.kind = RULE_EACH;
    } else {
        rule.first = parse_expression();
        if (accept(T_COMMA)) {
            skip_newlines();
            rule.kind = RULE_RANGE;
            rule.last = parse_expression();
        }
    }
    if (lexer.token == T_LEFT_BRACE) rule.body = parse_block();
    program.rules = grow(program.rules, (program.rule_count + 1) * sizeof *program.rules);
    program.rules[program.rule_count++] = rule;
}

void parse_program(const struct bytes *source) {
    lexer.at = source->at;
    lexer.end = source->at + source->len;
    lexer.line = 1;
    next_token();
    for (skip_terminators(); lexer.token != T_END; skip_terminators()) {
        if (lexer.token == T_FUNCTION) parse_function();
        else parse_rule();
    }
    for (size_t i = 0; i < program.function_count; i++) {
        trouble = 2;
        if (!program.functions[i].is_defined) die("function %s is not defined", program.functions[i].name);
    }
}

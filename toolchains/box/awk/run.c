// Runs the rules of a program of awk.
#include "awk.h"

#include <math.h>
#include <stdarg.h>

// What goes on after a statement.
enum flow { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE, FLOW_NEXT, FLOW_NEXTFILE, FLOW_RETURN };

struct slot *globals;
int awk_status;

static struct slot *frame; // of the function that runs
static struct value returned;
static enum flow pending; // next inside of a function: what is left of the statement that called it is skipped
static bool in_end;
static int call_depth;

// Each call takes some kilobytes of a stack that has two megabytes.
enum { CALLS_MAX = 900 };

static enum flow run(struct node *node);
static _Noreturn void finish(void);

_Noreturn void fail(const char *format, ...) {
    char message[300];
    va_list list;
    va_start(list, format);
    vsnprintf(message, sizeof message, format, list);
    va_end(list);
    die("%s", message);
}

struct text *special_text(enum special special) {
    return to_text(&globals[special].value);
}

// --- regular expressions -------------------------------------------------------------------------------------------------

static struct regex *compile(const struct text *pattern) {
    const char *error;
    struct regex *regex = regex_compile(pattern->at, pattern->len, REGEX_EXTENDED | REGEX_AWK, &error);
    if (!regex) fail("%s: /%.100s/", error, pattern->at);
    return regex;
}

struct regex *regex_of(struct text *pattern) {
    static struct {
        struct text *pattern;
        struct regex *regex;
    } known[64];
    uint32_t hash = pattern->len;
    for (uint32_t i = 0; i < pattern->len; i++) hash = hash * 31 + (unsigned char)pattern->at[i];
    hash = (hash ^ hash >> 8) % 64;
    struct text *old = known[hash].pattern;
    if (old && old->len == pattern->len && memcmp(old->at, pattern->at, old->len) == 0) return known[hash].regex;
    struct regex *regex = compile(pattern);
    drop(old);
    regex_free(known[hash].regex);
    known[hash].pattern = hold(pattern);
    return known[hash].regex = regex;
}

// The expression itself, or the text that it has as a pattern.
struct regex *regex_of_node(struct node *node) {
    if (node->kind == N_REGEX) {
        if (!node->regex) node->regex = compile(node->value.text);
        return node->regex;
    }
    struct text *pattern = eval_text(node);
    struct regex *regex = regex_of(pattern);
    drop(pattern);
    return regex;
}

static bool matches(struct text *text, struct node *node) {
    return regex_find(regex_of_node(node), text->at, text->len, 0, NULL, 0);
}

// --- variables -----------------------------------------------------------------------------------------------------------

static struct slot *slot_of(struct node *node) {
    return node->kind == N_LOCAL ? &frame[node->index] : &globals[node->index];
}

struct array *array_of(struct node *node) {
    if (node->kind != N_GLOBAL && node->kind != N_LOCAL) fail("line %d: an array is needed", node->line);
    struct slot *slot = slot_of(node);
    if (slot->array) return slot->array;
    if (slot->value.kind != UNSET) fail("line %d: a scalar is used as an array", node->line);
    // The callers' variables that this one was passed from are the same array, from the farthest on.
    struct slot *first = slot;
    while (first->origin && !first->origin->array && first->origin->value.kind == UNSET) first = first->origin;
    struct array *array = first->origin && first->origin->array ? first->origin->array : new_array();
    for (struct slot *each = slot;; each = each->origin) {
        each->array = array;
        if (each == first) break;
    }
    return array;
}

struct array *array_if_any(struct node *node) {
    struct slot *slot = slot_of(node);
    // One that was passed here may have become an array elsewhere meanwhile.
    for (struct slot *each = slot; each && !slot->array; each = each->origin) slot->array = each->array;
    return slot->array;
}

// The key of an element: its subscripts, joined.
static struct text *key_of(struct node *list) {
    struct text *key = eval_text(list);
    for (list = list->next; list; list = list->next) {
        struct text *separator = special_text(V_SUBSEP), *part = eval_text(list);
        struct text *longer = new_text(NULL, (size_t)key->len + separator->len + part->len);
        memcpy(longer->at, key->at, key->len);
        memcpy(longer->at + key->len, separator->at, separator->len);
        memcpy(longer->at + key->len + separator->len, part->at, part->len);
        drop(key);
        drop(separator);
        drop(part);
        key = longer;
    }
    return key;
}

void assign(struct node *target, struct value value) {
    if (target->kind == N_GROUP && !target->a->next) target = target->a;
    if (target->kind == N_FIELD) {
        set_field(eval_number(target->a), &value);
        return;
    }
    if (target->kind == N_INDEX) {
        struct text *key = key_of(target->b);
        struct value *element = array_find(array_of(target->a), key, true);
        drop(key);
        clear(element);
        *element = value;
        return;
    }
    if (target->kind != N_GLOBAL && target->kind != N_LOCAL) fail("line %d: cannot assign to this", target->line);
    struct slot *slot = slot_of(target);
    if (slot->array) fail("line %d: an array is used as a scalar", target->line);
    bool is_special = target->kind == N_GLOBAL && target->index < SPECIALS;
    if (is_special && target->index == V_NF) {
        double count = to_number(&value);
        clear(&value);
        set_nf(count);
        return;
    }
    if (is_special && (target->index == V_FS || target->index == V_RS)) separators_changed();
    clear(&slot->value);
    slot->value = value;
}

void assign_operand(const char *operand, size_t name_len) {
    char *name = copy_text(operand);
    name[name_len] = '\0';
    struct bytes text = {0};
    append(&text, "", 0);
    unescape_text(operand + name_len + 1, strlen(operand) - name_len - 1, &text);
    size_t before = program.global_count;
    struct node target = {.kind = N_GLOBAL, .index = global_index(name)};
    if (program.global_count > before && globals) {
        globals = grow(globals, program.global_count * sizeof *globals);
        globals[before] = (struct slot){0};
    }
    assign(&target, of_text(INPUT, new_text(text.at, text.len)));
    free(text.at);
    free(name);
}

// --- expressions ---------------------------------------------------------------------------------------------------------

struct text *eval_text(struct node *node) {
    struct value value = eval(node);
    struct text *text = to_text(&value);
    clear(&value);
    return text;
}

double eval_number(struct node *node) {
    struct value value = eval(node);
    double number = to_number(&value);
    clear(&value);
    return number;
}

static bool eval_bool(struct node *node) {
    struct value value = eval(node);
    bool result = to_bool(&value);
    clear(&value);
    return result;
}

static double calculate(enum token op, double a, double b) {
    switch (op) {
        case T_PLUS: case T_ADD_ASSIGN: return a + b;
        case T_MINUS: case T_SUB_ASSIGN: return a - b;
        case T_STAR: case T_MUL_ASSIGN: return a * b;
        case T_SLASH: case T_DIV_ASSIGN:
            if (b == 0) trouble = 1, fail("division by zero");
            return a / b;
        case T_PERCENT: case T_MOD_ASSIGN:
            if (b == 0) trouble = 1, fail("division by zero in %%");
            return fmod(a, b);
        default: return pow(a, b);
    }
}

static struct value eval_assign(struct node *node) {
    struct value value = eval(node->b);
    if (node->op != T_ASSIGN) {
        double b = to_number(&value);
        clear(&value);
        value = of_number(calculate(node->op, eval_number(node->a), b));
    }
    assign(node->a, copy_value(&value));
    return value;
}

static struct value eval_step(struct node *node) {
    double before = eval_number(node->a), after = before + (node->op == T_INCREMENT ? 1 : -1);
    assign(node->a, of_number(after));
    return of_number(node->kind == N_AFTER ? before : after);
}

static struct value eval_concat(struct node *node) {
    // A chain leans to the left: it is put together at once.
    size_t count = 1, len = 0;
    for (struct node *left = node; left->kind == N_CONCAT; left = left->a) count++;
    struct text **parts = grow(NULL, count * sizeof *parts);
    struct node **nodes = grow(NULL, count * sizeof *nodes);
    size_t i = count;
    for (; node->kind == N_CONCAT; node = node->a) nodes[--i] = node->b;
    nodes[0] = node;
    for (i = 0; i < count; i++) {
        parts[i] = eval_text(nodes[i]);
        len += parts[i]->len;
    }
    struct text *whole = new_text(NULL, len);
    char *at = whole->at;
    for (i = 0; i < count; i++) {
        memcpy(at, parts[i]->at, parts[i]->len);
        at += parts[i]->len;
        drop(parts[i]);
    }
    free(parts);
    free(nodes);
    return of_text(STRING, whole);
}

static struct value eval_compare(struct node *node) {
    struct value a = eval(node->a), b = eval(node->b);
    int order = compare_values(&a, &b);
    clear(&a);
    clear(&b);
    switch (node->op) {
        case T_LESS: return of_number(order < 0);
        case T_LESS_EQUAL: return of_number(order <= 0);
        case T_EQUAL: return of_number(order == 0);
        case T_NOT_EQUAL: return of_number(order != 0);
        case T_GREATER: return of_number(order > 0);
        default: return of_number(order >= 0);
    }
}

static struct value eval_getline(struct node *node) {
    struct value line = {0};
    bool found;
    if (node->b || node->c) {
        struct text *name = eval_text(node->b ? node->b : node->c);
        struct reader *reader = input_from(name, node->b != NULL);
        drop(name);
        if (!reader) return of_number(-1);
        found = read_record(reader, &line);
        if (found && node->b) globals[V_NR].value = of_number(to_number(&globals[V_NR].value) + 1);
    } else {
        found = read_main(&line);
    }
    if (!found) return of_number(0);
    if (node->a) assign(node->a, line);
    else set_record(&line);
    return of_number(1);
}

static struct value call(struct node *node) {
    struct function *function = &program.functions[node->index];
    if (++call_depth > CALLS_MAX) fail("function calls are nested too deeply");
    struct slot *locals = grow(NULL, (function->parameters + 1) * sizeof *locals);
    memset(locals, 0, (function->parameters + 1) * sizeof *locals);
    int count = 0;
    for (struct node *arg = node->a; arg; arg = arg->next, count++) {
        if (count == function->parameters) fail("line %d: too many arguments of %s", node->line, function->name);
        bool is_name = arg->kind == N_GLOBAL || arg->kind == N_LOCAL;
        struct slot *slot = is_name ? slot_of(arg) : NULL;
        if (slot && slot->array) {
            locals[count].array = slot->array;
            locals[count].origin = slot;
        } else if (slot && slot->value.kind == UNSET && !(arg->kind == N_GLOBAL && arg->index < SPECIALS)) {
            locals[count].origin = slot;
        } else {
            locals[count].value = eval(arg);
        }
    }
    struct slot *outer = frame;
    frame = locals;
    clear(&returned);
    enum flow flow = run(function->body);
    if (flow == FLOW_NEXT || flow == FLOW_NEXTFILE) pending = flow;
    frame = outer;
    for (int i = 0; i < function->parameters; i++) {
        clear(&locals[i].value);
        // An array that is the function's own; others belong to where they came from.
        if (!locals[i].array || locals[i].origin) continue;
        array_clear(locals[i].array);
        free(locals[i].array);
    }
    free(locals);
    call_depth--;
    struct value value = returned;
    returned = (struct value){0};
    return value;
}

static struct value eval_variable(struct node *node) {
    if (node->kind == N_GLOBAL && node->index == V_NF) return of_number(get_nf());
    struct slot *slot = slot_of(node);
    if (slot->array) fail("line %d: an array is used as a scalar", node->line);
    return copy_value(&slot->value);
}

static struct value eval_element(struct node *node) {
    struct text *key = key_of(node->b);
    struct value *element = array_find(array_of(node->a), key, true);
    drop(key);
    return copy_value(element);
}

static struct value eval_match(struct node *node) {
    struct text *text = eval_text(node->a);
    struct node *pattern = node->b->kind == N_GROUP && !node->b->a->next ? node->b->a : node->b;
    bool found = matches(text, pattern);
    drop(text);
    return of_number(found == (node->op == T_TILDE));
}

struct value eval(struct node *node) {
    switch (node->kind) {
        case N_NUMBER: case N_STRING: return copy_value(&node->value);
        case N_REGEX: {
            struct value record = get_field(0);
            bool found = matches(record.text, node);
            clear(&record);
            return of_number(found);
        }
        case N_GLOBAL: case N_LOCAL: return eval_variable(node);
        case N_FIELD: return get_field(eval_number(node->a));
        case N_INDEX: return eval_element(node);
        case N_ASSIGN: return eval_assign(node);
        case N_CONDITION: return eval(eval_bool(node->a) ? node->b : node->c);
        case N_AND: return of_number(eval_bool(node->a) && eval_bool(node->b));
        case N_OR: return of_number(eval_bool(node->a) || eval_bool(node->b));
        case N_NOT: return of_number(!eval_bool(node->a));
        case N_NEGATE: return of_number(-eval_number(node->a));
        case N_PLUS: return of_number(eval_number(node->a));
        case N_BINARY: {
            double a = eval_number(node->a);
            return of_number(calculate(node->op, a, eval_number(node->b)));
        }
        case N_CONCAT: return eval_concat(node);
        case N_COMPARE: return eval_compare(node);
        case N_MATCH: return eval_match(node);
        case N_IN: {
            struct text *key = key_of(node->b);
            bool found = array_find(array_of(node->a), key, false) != NULL;
            drop(key);
            return of_number(found);
        }
        case N_BEFORE: case N_AFTER: return eval_step(node);
        case N_CALL: return call(node);
        case N_BUILTIN: return call_builtin(node);
        case N_GETLINE: return eval_getline(node);
        case N_GROUP:
            if (node->a->next) fail("line %d: syntax error: a list in parentheses", node->line);
            return eval(node->a);
        default: fail("line %d: this is no expression", node->line);
    }
}

// --- statements ----------------------------------------------------------------------------------------------------------

static void write_text(FILE *file, const struct text *text) {
    if (text->len && fwrite(text->at, 1, text->len, file) != text->len) fail("write error: %s", strerror(errno));
}

static void print_values(FILE *file, struct value *values, size_t count) {
    struct text *separator = special_text(V_OFS), *end = special_text(V_ORS), *format = special_text(V_OFMT);
    for (size_t i = 0; i < count; i++) {
        if (i) write_text(file, separator);
        struct text *text = values[i].kind == NUMBER ? number_text(values[i].number, format->at) : to_text(&values[i]);
        write_text(file, text);
        drop(text);
    }
    write_text(file, end);
    drop(separator);
    drop(end);
    drop(format);
}

static enum flow run_print(struct node *node) {
    size_t count = 0;
    for (struct node *arg = node->a; arg; arg = arg->next) count++;
    struct value *values = grow(NULL, (count + 1) * sizeof *values);
    if (!count) values[count++] = get_field(0);
    size_t i = 0;
    for (struct node *arg = node->a; arg; arg = arg->next) values[i++] = eval(arg);
    if (!pending) {
        FILE *file = stdout;
        if (node->op) {
            struct text *name = eval_text(node->b);
            file = output_to(node->op, name);
            drop(name);
        }
        if (node->kind == N_PRINT) {
            print_values(file, values, count);
        } else {
            struct text *text = format_values(values, count);
            write_text(file, text);
            drop(text);
        }
        if (file == stderr) fflush(file);
    }
    for (i = 0; i < count; i++) clear(&values[i]);
    free(values);
    return pending;
}

static bool goes_on(enum flow flow) {
    return !pending && (flow == FLOW_ON || flow == FLOW_CONTINUE);
}

// What goes on after a loop whose body ended with `flow`.
static enum flow after_loop(enum flow flow) {
    if (pending) return pending;
    return flow == FLOW_BREAK || flow == FLOW_CONTINUE ? FLOW_ON : flow;
}

static enum flow run_loop(struct node *node) {
    enum flow flow = FLOW_ON;
    if (node->kind == N_WHILE) {
        while (eval_bool(node->a) && goes_on(flow = run(node->b))) {}
    } else if (node->kind == N_DO) {
        do {
            flow = run(node->b);
        } while (goes_on(flow) && eval_bool(node->a) && !pending);
    } else {
        if (node->a) run(node->a);
        while (!pending && (!node->b || eval_bool(node->b)) && goes_on(flow = run(node->d))) {
            if (node->c) run(node->c);
        }
    }
    return after_loop(flow);
}

static enum flow run_for_in(struct node *node) {
    struct array *array = array_of(node->b);
    // The names that are there now; one that is deleted meanwhile is passed over.
    size_t count = 0;
    struct text **keys = grow(NULL, (array->used + 1) * sizeof *keys);
    for (uint32_t i = 0; i < array->used; i++) {
        if (array->entries[i].key) keys[count++] = hold(array->entries[i].key);
    }
    enum flow flow = FLOW_ON;
    for (size_t i = 0; i < count; i++) {
        if (goes_on(flow) && array_find(array, keys[i], false)) {
            assign(node->a, of_text(INPUT, hold(keys[i])));
            flow = run(node->d);
        }
        drop(keys[i]);
    }
    free(keys);
    return after_loop(flow);
}

static void run_delete(struct node *node) {
    struct array *array = array_of(node->a);
    if (!node->b) {
        array_clear(array);
        return;
    }
    struct text *key = key_of(node->b);
    array_remove(array, key);
    drop(key);
}

static enum flow run(struct node *node) {
    struct value value;
    switch (node->kind) {
        case N_BLOCK:
            for (struct node *each = node->a; each; each = each->next) {
                enum flow flow = run(each);
                if (flow != FLOW_ON) return flow;
            }
            return FLOW_ON;
        case N_EXPRESSION:
            value = eval(node->a);
            clear(&value);
            return pending;
        case N_PRINT: case N_PRINTF: return run_print(node);
        case N_IF: {
            bool is_true = eval_bool(node->a);
            if (pending) return pending;
            return is_true ? run(node->b) : node->c ? run(node->c) : FLOW_ON;
        }
        case N_WHILE: case N_DO: case N_FOR: return run_loop(node);
        case N_FOR_IN: return run_for_in(node);
        case N_BREAK: return FLOW_BREAK;
        case N_CONTINUE: return FLOW_CONTINUE;
        case N_NEXT: return FLOW_NEXT;
        case N_NEXTFILE: return FLOW_NEXTFILE;
        case N_EXIT:
            if (node->a) awk_status = (int)(int64_t)eval_number(node->a) & 255;
            finish();
        case N_RETURN:
            value = node->a ? eval(node->a) : (struct value){0};
            clear(&returned);
            returned = value;
            return FLOW_RETURN;
        case N_DELETE: run_delete(node); return pending;
        default: fail("line %d: this is no statement", node->line);
    }
}

// --- rules ---------------------------------------------------------------------------------------------------------------

static void run_all(enum rule_kind kind) {
    for (size_t i = 0; i < program.rule_count; i++) {
        if (program.rules[i].kind != kind) continue;
        run(program.rules[i].body);
        pending = FLOW_ON;
    }
}

// Runs what is left after `exit` or the last record, and ends.
static _Noreturn void finish(void) {
    if (!in_end) {
        in_end = true;
        run_all(RULE_END);
    }
    bool failed = ferror(stdout) | fflush(stdout);
    if (failed) {
        warn("write error: %s", strerror(errno));
        awk_status = 2;
    }
    close_all();
    exit(awk_status);
}

static bool applies(struct rule *rule) {
    if (rule->kind == RULE_EACH) return true;
    if (rule->kind == RULE_PATTERN) return eval_bool(rule->first);
    if (rule->kind != RULE_RANGE) return false;
    if (!rule->is_inside && !eval_bool(rule->first)) return false;
    rule->is_inside = !eval_bool(rule->last);
    return true;
}

static void run_record(void) {
    static struct node print = {.kind = N_PRINT};
    for (size_t i = 0; i < program.rule_count; i++) {
        if (!applies(&program.rules[i])) continue;
        enum flow flow = pending ? pending : run(program.rules[i].body ? program.rules[i].body : &print);
        pending = FLOW_ON;
        if (flow == FLOW_NEXTFILE) skip_file();
        if (flow == FLOW_NEXT || flow == FLOW_NEXTFILE) return;
    }
}

int run_program_rules(void) {
    bool reads = false;
    for (size_t i = 0; i < program.rule_count; i++) reads |= program.rules[i].kind != RULE_BEGIN;
    run_all(RULE_BEGIN);
    struct value record;
    while (reads && read_main(&record)) {
        set_record(&record);
        run_record();
    }
    finish();
}

// What the parts of awk share: values, the tree of a program, and the streams it reads and writes.
#ifndef AWK_H
#define AWK_H

#include "../regex/regex.h"

// --- values ------------------------------------------------------------------------------------------------------------

// Bytes that several values share.
struct text {
    uint32_t refs, len;
    char at[]; // ends with a NUL that is not counted
};

// INPUT is a text that came from outside: it is a number, too, where it looks like one.
enum value_kind { UNSET, NUMBER, STRING, INPUT };

struct value {
    enum value_kind kind;
    double number;
    struct text *text;
};

struct entry {
    struct text *key; // NULL once it was deleted
    uint32_t hash;
    struct value value;
};

// Entries in the order in which they came.
struct array {
    struct entry *entries;
    uint32_t *buckets; // indexes plus one
    uint32_t count, used, room, bucket_count;
};

// A variable. One without a value can still become an array, and then the variable that it was passed from does, too.
struct slot {
    struct value value;
    struct array *array;
    struct slot *origin;
};

struct text *new_text(const char *at, size_t len);
struct text *empty_text(void);
struct text *hold(struct text *text);
void drop(struct text *text);
struct value of_number(double number);
struct value of_text(enum value_kind kind, struct text *text); // takes the reference
struct value copy_value(const struct value *value);
void clear(struct value *value);
double parse_prefix(const char *at, size_t len, bool *is_all);
double to_number(const struct value *value);
struct text *number_text(double number, const char *format);
struct text *to_text(const struct value *value); // the caller drops it
bool to_bool(const struct value *value);
bool is_numeric(const struct value *value);
int compare_values(const struct value *a, const struct value *b);

struct array *new_array(void);
struct value *array_find(struct array *array, struct text *key, bool adds);
void array_remove(struct array *array, struct text *key);
void array_clear(struct array *array);

// --- programs ----------------------------------------------------------------------------------------------------------

enum token {
    T_END, T_NEWLINE, T_NUMBER, T_STRING, T_REGEX, T_NAME, T_CALL_NAME, T_BUILTIN, T_BEGIN, T_END_RULE, T_FUNCTION, T_IF,
    T_ELSE, T_WHILE, T_FOR, T_DO, T_BREAK, T_CONTINUE, T_NEXT, T_NEXTFILE, T_EXIT, T_RETURN, T_DELETE, T_IN, T_GETLINE,
    T_PRINT, T_PRINTF, T_LEFT_BRACE, T_RIGHT_BRACE, T_LEFT_PAREN, T_RIGHT_PAREN, T_LEFT_BRACKET, T_RIGHT_BRACKET,
    T_SEMICOLON, T_COMMA, T_PLUS, T_MINUS, T_STAR, T_SLASH, T_PERCENT, T_CARET, T_NOT, T_GREATER, T_LESS, T_PIPE,
    T_QUESTION, T_COLON, T_TILDE, T_NOT_TILDE, T_DOLLAR, T_ASSIGN, T_ADD_ASSIGN, T_SUB_ASSIGN, T_MUL_ASSIGN, T_DIV_ASSIGN,
    T_MOD_ASSIGN, T_POW_ASSIGN, T_EQUAL, T_LESS_EQUAL, T_GREATER_EQUAL, T_NOT_EQUAL, T_INCREMENT, T_DECREMENT, T_AND, T_OR,
    T_APPEND,
};

enum builtin {
    F_ATAN2, F_CLOSE, F_COS, F_EXP, F_FFLUSH, F_GENSUB, F_GSUB, F_INDEX, F_INT, F_LENGTH, F_LOG, F_MATCH, F_RAND, F_SIN,
    F_SPLIT, F_SPRINTF, F_SQRT, F_SRAND, F_STRFTIME, F_STRTONUM, F_SUB, F_SUBSTR, F_SYSTEM, F_SYSTIME, F_TOLOWER, F_TOUPPER,
};

enum node_kind {
    N_NUMBER, N_STRING, N_REGEX, N_GLOBAL, N_LOCAL, N_FIELD, N_INDEX, N_ASSIGN, N_CONDITION, N_AND, N_OR, N_NOT, N_NEGATE,
    N_PLUS, N_BINARY, N_CONCAT, N_COMPARE, N_MATCH, N_IN, N_BEFORE, N_AFTER, N_CALL, N_BUILTIN, N_GETLINE, N_GROUP, N_BLOCK,
    N_EXPRESSION, N_PRINT, N_PRINTF, N_IF, N_WHILE, N_DO, N_FOR, N_FOR_IN, N_BREAK, N_CONTINUE, N_NEXT, N_NEXTFILE, N_EXIT,
    N_RETURN, N_DELETE,
};

struct node {
    enum node_kind kind;
    enum token op;
    int index; // of a variable, a function; of N_BUILTIN: which
    struct node *a, *b, *c, *d, *next;
    struct value value;
    struct regex *regex;
    int line;
};

struct function {
    char *name;
    int parameters;
    struct node *body;
    bool is_defined;
};

enum rule_kind { RULE_BEGIN, RULE_END, RULE_EACH, RULE_PATTERN, RULE_RANGE };

struct rule {
    enum rule_kind kind;
    struct node *first, *last, *body; // without a body: print
    bool is_inside;
};

// Variables that awk itself reads or sets.
enum special {
    V_NF, V_NR, V_FNR, V_FS, V_OFS, V_ORS, V_RS, V_SUBSEP, V_CONVFMT, V_OFMT, V_RSTART, V_RLENGTH, V_FILENAME, V_ENVIRON,
    V_ARGC, V_ARGV, V_RT, SPECIALS,
};

struct program {
    struct rule *rules;
    size_t rule_count;
    struct function *functions;
    size_t function_count;
    char **globals; // names
    size_t global_count;
};

extern struct program program;
extern struct slot *globals;
extern int awk_status; // what it exits with

struct lexer {
    const char *at, *end;
    int line;
    enum token token;
    struct bytes text; // of names, strings and regular expressions
    double number;
    enum builtin builtin;
};

extern struct lexer lexer;
void next_token(void);
void read_regex(void); // after a slash
_Noreturn void syntax_error(const char *message);
// Escapes of strings become what they stand for.
void unescape_text(const char *at, size_t len, struct bytes *to);
int global_index(const char *name);
void parse_program(const struct bytes *source);

// --- records and streams -------------------------------------------------------------------------------------------------

struct reader {
    int fd;
    char *at;
    size_t start, len, room;
    bool is_at_end;
};

bool read_record(struct reader *reader, struct value *record);
// The next record of the files that are named by ARGV.
int read_main(struct value *record);
void skip_file(void);

// `$0` and its fields.
void set_record(struct value *record); // takes the value
struct value get_field(double index);
void set_field(double index, struct value *value); // takes the value
double get_nf(void);
void set_nf(double count);
void separators_changed(void);
int split_into(struct text *text, struct array *array, const struct value *separator, struct regex *regex);

FILE *output_to(enum token how, struct text *name);
struct reader *input_from(struct text *name, bool is_command);
double close_stream(struct text *name);
double flush_stream(struct text *name);
void close_all(void);

// --- running -------------------------------------------------------------------------------------------------------------

_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
struct regex *regex_of(struct text *pattern);
struct regex *regex_of_node(struct node *node);
struct value eval(struct node *node);
struct text *eval_text(struct node *node);
double eval_number(struct node *node);
struct array *array_of(struct node *node);
// The array that a variable is; NULL if it is none, or nothing yet.
struct array *array_if_any(struct node *node);
void assign(struct node *target, struct value value);
struct value call_builtin(struct node *node);
struct text *format_values(struct value *values, size_t count);
struct text *special_text(enum special special);
void assign_operand(const char *operand, size_t name_len);
int run_program_rules(void);

#endif

// find: walks trees and tests what is there.
#include "../box.h"

#include <fnmatch.h>
#include <time.h>

enum kind {
    AND, OR, NOT, NAME, PATH, TYPE, SIZE, EMPTY, NEWER, MTIME, EXECUTABLE, MODE, IS_TRUE, PRINT, PRINT0, DELETE, PRUNE, EXEC, EXEC_MANY, QUIT,
};

struct node {
    enum kind kind;
    struct node *left, *right;
    const char *text;
    int flags, sign; // of fnmatch; of a number: +1 more, -1 less, 0 just as much
    uint64_t number, unit;
    struct timespec time;
    char **argv; // of -exec, from the program to what stands before ; or +
    int argc;
    struct texts batch;
    size_t batch_bytes;
    bool in_dir; // -execdir
    char *batch_dir;
};

// Bytes of arguments of one command of -exec … +.
enum { BATCH_BYTES = 128 << 10 };

static char **args; // what is left of the expression
static bool depth_first, has_action, pruned, needs_stat, follows_operands;
static uint64_t min_depth, max_depth = UINT64_MAX;
static int status;
static int expression_depth;
static struct node **batches;
static size_t batch_count;

// --- the expression --------------------------------------------------------------------------------------------------

static struct node *make(enum kind kind, struct node *left, struct node *right) {
    struct node *node = grow(NULL, sizeof *node);
    *node = (struct node){.kind = kind, .left = left, .right = right};
    return node;
}

static char *operand(const char *of) {
    if (!*args) die("missing argument to '%s'", of);
    return *args++;
}

static void parse_number(struct node *node, const char *text, const char *of) {
    node->sign = *text == '+' ? 1 : *text == '-' ? -1 : 0;
    if (node->sign) text++;
    char *end;
    errno = 0;
    node->number = strtoull(text, &end, 10);
    if (end == text || *text == '-' || errno) die("invalid argument '%s' to '%s'", text, of);
    static const char units[] = "cwbkMG";
    static const uint64_t sizes[] = {1, 2, 512, 1 << 10, 1 << 20, 1 << 30};
    node->unit = 512;
    const char *unit = *end && node->kind == SIZE ? strchr(units, *end) : NULL;
    if (unit) node->unit = sizes[unit - units];
    if (*end && (!unit || end[1])) die("invalid argument '%s' to '%s'", text, of);
}

static struct node *parse_exec(const char *of) {
    struct node *node = make(EXEC, NULL, NULL);
    node->argv = args;
    node->in_dir = strcmp(of, "-execdir") == 0;
    for (; *args; args++, node->argc++) {
        if (strcmp(*args, ";") == 0) break;
        if (strcmp(*args, "+") == 0 && node->argc > 0 && strcmp(args[-1], "{}") == 0) {
            node->kind = EXEC_MANY;
            node->argc--;
            batches = grow(batches, (batch_count + 1) * sizeof *batches);
            batches[batch_count++] = node;
            break;
        }
    }
    if (!*args || node->argc == 0) die("missing argument to '%s'", of);
    args++;
    has_action = true;
    return node;
}

// What a name is; with -H, one of the command line is what its link leads to, if that leads to something.
static int look_at(const char *path, struct stat *stat_, uint64_t depth) {
    if (follows_operands && depth == 0 && stat(path, stat_) == 0) return 0;
    return lstat(path, stat_);
}

static struct node *parse_or(void);

// -executable and -perm; false if `word` is neither.
static bool parse_permission(struct node *node, const char *word) {
    needs_stat = true;
    if (strcmp(word, "-executable") == 0) {
        node->kind = EXECUTABLE;
        return true;
    }
    if (strcmp(word, "-perm") != 0) return false;
    node->kind = MODE;
    const char *text = operand(word);
    node->sign = *text == '-' ? -1 : *text == '/' ? 1 : 0;
    unsigned mode = 0;
    if (!parse_mode(text + (node->sign != 0), &mode, false)) die("invalid mode '%s'", text);
    node->number = mode;
    return true;
}

static struct node *parse_primary(void) {
    char *word = operand("the expression");
    if (strcmp(word, "!") == 0 || strcmp(word, "-not") == 0) {
        if (++expression_depth > 1000) die("the expression is too deep");
        struct node *node = make(NOT, parse_primary(), NULL);
        expression_depth--;
        return node;
    }
    if (strcmp(word, "(") == 0) {
        if (++expression_depth > 1000) die("the expression is too deep");
        struct node *inner = parse_or();
        expression_depth--;
        if (!*args || strcmp(*args, ")")) die("I was expecting to find a ')' somewhere but did not see one.");
        args++;
        return inner;
    }
    struct node *node = make(IS_TRUE, NULL, NULL);
    if (strcmp(word, "-name") == 0 || strcmp(word, "-iname") == 0) {
        node->kind = NAME;
        node->flags = word[1] == 'i' ? FNM_CASEFOLD : 0;
        node->text = operand(word);
    } else if (strcmp(word, "-path") == 0 || strcmp(word, "-wholename") == 0 || strcmp(word, "-ipath") == 0) {
        node->kind = PATH;
        node->flags = word[1] == 'i' ? FNM_CASEFOLD : 0;
        node->text = operand(word);
    } else if (strcmp(word, "-type") == 0) {
        node->kind = TYPE;
        node->text = operand(word);
        if (!*node->text || node->text[strspn(node->text, "fdlbcps,")]) die("unknown argument to -type: %s", node->text);
    } else if (strcmp(word, "-size") == 0) {
        node->kind = SIZE;
        needs_stat = true;
        parse_number(node, operand(word), word);
    } else if (strcmp(word, "-mtime") == 0) {
        node->kind = MTIME;
        needs_stat = true;
        parse_number(node, operand(word), word);
    } else if (strcmp(word, "-empty") == 0) {
        node->kind = EMPTY;
        needs_stat = true;
    } else if (strcmp(word, "-newer") == 0) {
        struct stat stat_;
        node->kind = NEWER;
        needs_stat = true;
        node->text = operand(word);
        if (look_at(node->text, &stat_, 0)) die("'%s': %s", node->text, strerror(errno));
        node->time = stat_.st_mtim;
    } else if (strcmp(word, "-maxdepth") == 0) {
        max_depth = parse_count(operand(word), "depth");
    } else if (strcmp(word, "-mindepth") == 0) {
        min_depth = parse_count(operand(word), "depth");
    } else if (strcmp(word, "-depth") == 0) {
        depth_first = true;
    } else if (strcmp(word, "-true") == 0) {
        node->kind = IS_TRUE;
    } else if (strcmp(word, "-false") == 0) {
        node->kind = NOT;
        node->left = make(IS_TRUE, NULL, NULL);
    } else if (strcmp(word, "-print") == 0) {
        node->kind = PRINT;
        has_action = true;
    } else if (strcmp(word, "-print0") == 0) {
        node->kind = PRINT0;
        has_action = true;
    } else if (strcmp(word, "-delete") == 0) {
        node->kind = DELETE;
        has_action = depth_first = true;
    } else if (strcmp(word, "-quit") == 0) {
        node->kind = QUIT;
        has_action = true;
    } else if (strcmp(word, "-prune") == 0) {
        node->kind = PRUNE;
    } else if (strcmp(word, "-exec") == 0 || strcmp(word, "-execdir") == 0) {
        free(node);
        node = parse_exec(word);
    } else if (!parse_permission(node, word)) {
        die("unknown predicate '%s'", word);
    }
    return node;
}

static struct node *parse_and(void) {
    struct node *node = parse_primary();
    while (*args && strcmp(*args, ")") && strcmp(*args, "-o") && strcmp(*args, "-or")) {
        if (strcmp(*args, "-a") == 0 || strcmp(*args, "-and") == 0) args++;
        node = make(AND, node, parse_primary());
    }
    return node;
}

static struct node *parse_or(void) {
    struct node *node = parse_and();
    while (*args && (strcmp(*args, "-o") == 0 || strcmp(*args, "-or") == 0)) {
        args++;
        node = make(OR, node, parse_and());
    }
    return node;
}

// --- the walk --------------------------------------------------------------------------------------------------------

// What is looked at.
struct visit {
    const char *path;
    unsigned char type;      // DT_REG, …
    const struct stat *stat; // NULL unless the expression needs more than the type
};

static char *with_path(const char *word, const char *path) {
    struct bytes made = {0};
    append(&made, "", 0);
    for (const char *found; (found = strstr(word, "{}")); word = found + 2) {
        append(&made, word, found - word);
        append(&made, path, strlen(path));
    }
    append(&made, word, strlen(word));
    return made.at;
}

// The directory that holds `path`, in which -execdir runs what is called `name` there.
static char *dir_of(const char *path, char **name) {
    size_t len;
    const char *part = last_part(path, &len);
    struct bytes dir = {0}, made = {0};
    append(&dir, path, part - path);
    if (part == path) append(&dir, *path == '/' ? "/" : ".", 1);
    append(&made, "./", *path == '/' && part == path ? 0 : 2);
    append(&made, part, strlen(part)); // with the slashes at its end
    *name = made.at;
    return dir.at;
}

static int run_in(const char *dir, char **argv) {
    if (!dir) return run_program(argv, -1);
    char *before = getcwd(NULL, 0);
    if (!before) die("cannot tell the current directory: %s", strerror(errno));
    int result = chdir(dir) ? warn("'%s': %s", dir, strerror(errno)) : run_program(argv, -1);
    if (chdir(before)) die("cannot go back to '%s': %s", before, strerror(errno));
    free(before);
    return result;
}

static void flush_batch(struct node *node) {
    if (!node->batch.count) return;
    struct texts argv = {0};
    for (int i = 0; i < node->argc; i++) push(&argv, copy_text(node->argv[i]));
    for (size_t i = 0; i < node->batch.count; i++) push(&argv, copy_text(node->batch.at[i]));
    if (run_in(node->batch_dir, argv.at)) status = 1;
    free(node->batch_dir);
    node->batch_dir = NULL;
    free_texts(&argv);
    free_texts(&node->batch);
    node->batch_bytes = 0;
}

static _Noreturn void quit(void) {
    for (size_t i = 0; i < batch_count; i++) flush_batch(batches[i]);
    exit(fflush(stdout) ? 1 : status);
}

static bool execute(struct node *node, const char *path) {
    char *name = NULL, *dir = node->in_dir ? dir_of(path, &name) : NULL;
    if (!name) name = copy_text(path);
    if (node->kind == EXEC_MANY) {
        size_t size = strlen(name) + 1;
        bool is_elsewhere = dir && node->batch_dir && strcmp(dir, node->batch_dir);
        if (node->batch.count && (is_elsewhere || node->batch_bytes + size > BATCH_BYTES)) flush_batch(node);
        push(&node->batch, name);
        node->batch_bytes += size;
        free(node->batch_dir);
        node->batch_dir = dir;
        return true;
    }
    struct texts argv = {0};
    for (int i = 0; i < node->argc; i++) push(&argv, with_path(node->argv[i], name));
    int result = run_in(dir, argv.at);
    free_texts(&argv);
    free(name);
    free(dir);
    return result == 0;
}

static bool compare_number(const struct node *node, uint64_t number) {
    return node->sign > 0 ? number > node->number : node->sign < 0 ? number < node->number : number == node->number;
}

static bool is_empty(const struct visit *visit) {
    if (visit->type != DT_DIR) return visit->type == DT_REG && visit->stat->st_size == 0;
    struct texts names;
    bool empty = list_dir(visit->path, &names) && names.count == 0;
    free_texts(&names);
    return empty;
}

static bool test(struct node *node, const struct visit *visit) {
    // Long expressions lean to the left, and go no deeper for that.
    struct node *chain = node;
    if (node->kind == AND || node->kind == OR) {
        size_t count = 1;
        while (chain->kind == node->kind) {
            chain = chain->left;
            count++;
        }
        struct node **parts = grow(NULL, count * sizeof *parts);
        chain = node;
        for (size_t i = count - 1; i > 0; i--) {
            parts[i] = chain->right;
            chain = chain->left;
        }
        parts[0] = chain;
        bool result = node->kind == AND;
        for (size_t i = 0; i < count && result == (node->kind == AND); i++) result = test(parts[i], visit);
        free(parts);
        return result;
    }
    switch (node->kind) {
        case NOT: return !test(node->left, visit);
        case NAME: {
            size_t len;
            const char *name = last_part(visit->path, &len);
            char *copy = grow(NULL, len + 1);
            memcpy(copy, name, len);
            copy[len] = '\0';
            bool matches = fnmatch(node->text, copy, node->flags) == 0;
            free(copy);
            return matches;
        }
        case PATH: return fnmatch(node->text, visit->path, node->flags) == 0;
        case TYPE: {
            char letter = visit->type == DT_REG ? 'f' : visit->type == DT_DIR ? 'd' : visit->type == DT_LNK ? 'l'
                        : visit->type == DT_CHR ? 'c' : 's';
            return strchr(node->text, letter) != NULL;
        }
        case SIZE: {
            uint64_t size = visit->stat->st_size;
            return compare_number(node, size / node->unit + (size % node->unit != 0));
        }
        case MTIME: {
            int64_t age = time(NULL) - visit->stat->st_mtim.tv_sec;
            return compare_number(node, age < 0 ? 0 : age / 86400);
        }
        case EXECUTABLE: return visit->type == DT_DIR || get_executable(visit->path, true);
        case MODE: {
            unsigned wanted = (unsigned)node->number, mode = mode_of(visit->path, visit->stat);
            return node->sign < 0 ? (mode & wanted) == wanted : node->sign > 0 ? !wanted || mode & wanted : mode == wanted;
        }
        case EMPTY: return is_empty(visit);
        case NEWER: {
            const struct timespec *time = &visit->stat->st_mtim;
            return time->tv_sec != node->time.tv_sec ? time->tv_sec > node->time.tv_sec
                                                     : time->tv_nsec > node->time.tv_nsec;
        }
        case PRINT: return puts(visit->path) >= 0;
        case PRINT0: return fputs(visit->path, stdout) >= 0 && putchar('\0') >= 0;
        case DELETE:
            if (strcmp(visit->path, ".") == 0) return true;
            if ((visit->type == DT_DIR ? rmdir : unlink)(visit->path) == 0) return true;
            status = warn("cannot delete '%s': %s", visit->path, strerror(errno));
            return false;
        case PRUNE: pruned = true; return true;
        case EXEC: case EXEC_MANY: return execute(node, visit->path);
        case QUIT: quit();
        default: return true;
    }
}

static unsigned char type_of(mode_t mode) {
    return S_ISREG(mode) ? DT_REG : S_ISDIR(mode) ? DT_DIR : S_ISLNK(mode) ? DT_LNK : S_ISCHR(mode) ? DT_CHR : DT_UNKNOWN;
}

// `type` is DT_UNKNOWN where nobody has listed `path`.
static void walk(const char *path, unsigned char type, struct node *expression, uint64_t depth) {
    struct stat stat_;
    bool has_stat = needs_stat || type == DT_UNKNOWN;
    if (has_stat) {
        if (look_at(path, &stat_, depth)) {
            status = warn("'%s': %s", path, strerror(errno));
            return;
        }
        type = type_of(stat_.st_mode);
    }
    struct visit visit = {path, type, has_stat ? &stat_ : NULL};
    pruned = false;
    if (!depth_first && depth >= min_depth) test(expression, &visit);
    if (type == DT_DIR && depth < max_depth && !(pruned && !depth_first)) {
        struct texts names;
        if (!list_dir(path, &names)) status = warn("'%s': %s", path, strerror(errno));
        for (size_t i = 0; i < names.count; i++) {
            char *inner = join(path, names.at[i]);
            walk(inner, listed_type(names.at[i]), expression, depth + 1);
            free(inner);
        }
        free_texts(&names);
    }
    if (depth_first && depth >= min_depth) test(expression, &visit);
}

int tool_find(int argc, char **argv) {
    int first = 1;
    for (; first < argc && (!strcmp(argv[first], "-H") || !strcmp(argv[first], "-P")); first++) {
        follows_operands = argv[first][1] == 'H';
    }
    int end = first;
    while (end < argc && argv[end][0] != '-' && strcmp(argv[end], "!") && strcmp(argv[end], "(")) end++;
    args = argv + end;
    struct node *expression = *args ? parse_or() : make(IS_TRUE, NULL, NULL);
    if (*args) die("paths must precede expression: '%s'", *args);
    if (!has_action) expression = make(AND, expression, make(PRINT, NULL, NULL));
    if (end == first) walk(".", DT_UNKNOWN, expression, 0);
    for (int i = first; i < end; i++) walk(argv[i], DT_UNKNOWN, expression, 0);
    for (size_t i = 0; i < batch_count; i++) flush_batch(batches[i]);
    return status;
}

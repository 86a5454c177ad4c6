// minimake [-j N] [-f FILE] [-n] [-k] [-s] [NAME=VALUE...] [TARGET...]: makes targets by the explicit rules of a
// makefile, several at once if asked to. What it prints does not depend on how many: the output of commands is kept
// until everything before it has been printed, in the order in which one after the other would have run.
//
// It knows rules, .PHONY, variables (= := ?= +=), $(NAME) and $@ $< $^, lines that go on after a backslash, comments,
// and the prefixes @ and - of commands. Commands run with an empty standard input; those with characters that a shell
// would look at are given to `sh -c`. There are no pattern rules, no functions and no conditions.
#define _GNU_SOURCE
#include "minimake/texts.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char usage[] = "usage: minimake [-j N] [-f FILE] [-n] [-k] [-s] [NAME=VALUE...] [TARGET...]\n";

// How deep rules and variables may lead.
enum { DEPTH_MAX = 1000 };

static bool only_shows, keeps_going, is_silent;
static size_t jobs_max = 1;

// --- targets and variables, by name ----------------------------------------------------------------------------------

enum state { WAITING, RUNNING, DONE, FAILED, SKIPPED };

struct command {
    char *text; // not expanded
    size_t line;
};

struct target {
    char *name;
    struct target **needs;
    size_t need_count;
    struct command *recipe;
    size_t recipe_len;
    bool has_rule, is_phony, is_planned, is_on_path;
    enum state state;
    bool remade;
    // While it is made:
    size_t next_line;
    bool ignores_failure;
    pid_t pid;
    int fds[2]; // its standard output and standard error; -1 when they have ended
    struct bytes texts[2];
};

struct variable {
    char *name, *value;
    bool fixed, simple; // fixed: from the command line
};

struct slot {
    void *item;
    char *name;
    struct slot *next;
};

static struct slot *target_slots[4096], *variable_slots[512];

static void **find(struct slot **slots, size_t count, const char *name, size_t len) {
    size_t hash = 5381;
    for (size_t i = 0; i < len; i++) hash = hash * 33 + (unsigned char)name[i];
    struct slot **at = &slots[hash % count];
    for (; *at; at = &(*at)->next) {
        if (strncmp((*at)->name, name, len) == 0 && !(*at)->name[len]) return &(*at)->item;
    }
    *at = grow(NULL, 1, sizeof **at);
    **at = (struct slot){.name = copy_of(name, len)};
    return &(*at)->item;
}

static struct target *target_called(const char *name) {
    void **found = find(target_slots, 4096, name, strlen(name));
    if (!*found) {
        struct target *made = grow(NULL, 1, sizeof *made);
        *made = (struct target){.name = copy_of(name, strlen(name)), .fds = {-1, -1}};
        *found = made;
    }
    return *found;
}

static struct variable *variable_called(const char *name, size_t len) {
    void **found = find(variable_slots, 512, name, len);
    if (!*found) {
        struct variable *made = grow(NULL, 1, sizeof *made);
        char *copy = copy_of(name, len), *of_environment = getenv(copy);
        *made = (struct variable){.name = copy, .simple = true};
        if (of_environment) made->value = of_environment;
        *found = made;
    }
    return *found;
}

// Appends `text` with its variables replaced. `target` is whose recipe it is, if it is one's.
static void expand(struct bytes *to, const char *text, const struct target *target, int depth) {
    if (depth > 100) die("a variable refers to itself: %.40s", text);
    for (const char *at = text; *at;) {
        size_t plain = strcspn(at, "$");
        append(to, at, plain);
        at += plain;
        if (!*at) return;
        char kind = *++at;
        if (!kind) die("a $ stands alone at the end");
        at++;
        if (kind == '$') {
            append(to, "$", 1);
        } else if (kind == '(' || kind == '{') {
            size_t len = strcspn(at, kind == '(' ? ")" : "}");
            if (!at[len]) die("a variable has no end: %.40s", at);
            if (memchr(at, ' ', len) || memchr(at, '$', len)) die("functions are not known: $(%.*s)", (int)len, at);
            const struct variable *variable = variable_called(at, len);
            if (variable->value && variable->simple) append(to, variable->value, strlen(variable->value));
            else if (variable->value) expand(to, variable->value, target, depth + 1);
            at += len + 1;
        } else if (target && kind == '@') {
            append(to, target->name, strlen(target->name));
        } else if (target && kind == '<') {
            if (target->need_count) append(to, target->needs[0]->name, strlen(target->needs[0]->name));
        } else if (target && kind == '^') {
            for (size_t i = 0; i < target->need_count; i++) {
                bool again = false;
                for (size_t k = 0; k < i; k++) again |= target->needs[k] == target->needs[i];
                if (again) continue;
                if (i) append(to, " ", 1);
                append(to, target->needs[i]->name, strlen(target->needs[i]->name));
            }
        } else {
            const struct variable *variable = variable_called(&kind, 1);
            if (variable->value) expand(to, variable->value, target, depth + 1);
        }
    }
}

static char *expanded(const char *text, const struct target *target) {
    struct bytes made = {0};
    append(&made, "", 0);
    expand(&made, text, target, 0);
    return made.at;
}

// --- the makefile ----------------------------------------------------------------------------------------------------

static struct target *default_goal;

static char *trimmed(const char *text, size_t len) {
    while (len && isspace((unsigned char)*text)) text++, len--;
    while (len && isspace((unsigned char)text[len - 1])) len--;
    return copy_of(text, len);
}

// Takes a line for a variable if it is one; `op` is at its equals sign.
static void assign(const char *line, const char *op, bool fixed) {
    char kind = op > line && strchr(":?+", op[-1]) ? op[-1] : '=';
    const char *name_end = kind == '=' ? op : op - 1;
    if (kind == ':' && name_end > line && name_end[-1] == ':') name_end--;
    char *name = trimmed(line, name_end - line), *value = trimmed(op + 1, strlen(op + 1));
    if (!*name || name[strcspn(name, " \t$")]) die("%s is no name of a variable", *name ? name : "nothing");
    struct variable *variable = variable_called(name, strlen(name));
    if (variable->fixed || (kind == '?' && variable->value)) return;
    if (kind == '+' && variable->value) {
        struct bytes both = {0};
        append(&both, variable->value, strlen(variable->value));
        append(&both, " ", 1);
        if (variable->simple) value = expanded(value, NULL);
        append(&both, value, strlen(value));
        variable->value = both.at;
        return;
    }
    variable->simple = kind == ':';
    variable->value = variable->simple ? expanded(value, NULL) : value;
    variable->fixed = fixed;
}

static void need(struct target *target, struct target *needed) {
    target->needs = grow(target->needs, target->need_count + 1, sizeof *target->needs);
    target->needs[target->need_count++] = needed;
}

static void add_command(struct target *target, char *text) {
    target->recipe = grow(target->recipe, target->recipe_len + 1, sizeof *target->recipe);
    target->recipe[target->recipe_len++] = (struct command){text, line_number};
}

// A rule; answers its targets, to which the recipe that follows belongs.
static struct texts add_rule(char *line, const char *recipe) {
    char *colon = strchr(line, ':');
    if (!colon) die("missing separator: %.40s", line);
    *colon = '\0';
    struct texts names = words_of(line), needs = words_of(colon + 1 + (colon[1] == ':'));
    if (!names.count) die("a rule without a target");
    bool is_phony = strcmp(names.at[0], ".PHONY") == 0;
    for (size_t i = 0; i < names.count; i++) {
        if (strchr(names.at[i], '%')) die("pattern rules are not known: %s", names.at[i]);
        struct target *target = target_called(names.at[i]);
        if (!is_phony) target->has_rule = true;
        if (!default_goal && names.at[i][0] != '.') default_goal = target;
        for (size_t k = 0; k < needs.count; k++) {
            struct target *needed = target_called(needs.at[k]);
            if (is_phony) needed->is_phony = true;
            else need(target, needed);
        }
        if (recipe) add_command(target, trimmed(recipe, strlen(recipe)));
    }
    return names;
}

// The next line, with those that it goes on in; NULL at the end.
static char *next_line(FILE *file, bool *is_recipe) {
    struct bytes whole = {0};
    char *line = NULL;
    size_t room = 0;
    for (ssize_t len; (len = getline(&line, &room, file)) >= 0;) {
        line_number++;
        if (memchr(line, '\0', len)) die("a NUL in the text");
        if (len && line[len - 1] == '\n') len--;
        if (len && line[len - 1] == '\r') len--;
        bool first = whole.len == 0;
        if (first) *is_recipe = len && line[0] == '\t';
        size_t skip = first ? 0 : strspn(line, *is_recipe ? "\t" : " \t");
        bool goes_on = len && line[len - 1] == '\\';
        append(&whole, line + skip, len - (skip < (size_t)len ? skip : (size_t)len));
        if (!goes_on) break;
        // A shell takes what is joined so for one line; the newline says nothing to anybody else.
        whole.len--;
        append(&whole, " ", 1);
    }
    free(line);
    return whole.at;
}

static void read_makefile(FILE *file) {
    struct texts current = {0};
    bool is_recipe = false;
    for (char *line; (line = next_line(file, &is_recipe)); free(line)) {
        if (is_recipe) {
            char *command = trimmed(line, strlen(line));
            if (!*command) continue;
            if (!current.count) die("a command before the first rule");
            for (size_t i = 0; i < current.count; i++) add_command(target_called(current.at[i]), command);
            continue;
        }
        char *comment = strchr(line, '#');
        if (comment) *comment = '\0';
        char *text = trimmed(line, strlen(line));
        if (!*text) continue;
        size_t word = strcspn(text, " \t=:");
        static const char *const unknown[] = {"include", "ifeq", "ifneq", "ifdef", "ifndef", "else", "endif", "define"};
        for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
            if (strlen(unknown[i]) == word && memcmp(text, unknown[i], word) == 0) die("%s is not known", unknown[i]);
        }
        const char *equals = strchr(text, '='), *colon = strchr(text, ':');
        if (equals && (!colon || colon >= equals - 1 || colon + 2 == equals)) {
            assign(text, equals, false);
            current.count = 0;
            continue;
        }
        char *recipe = strchr(text, ';');
        if (recipe) *recipe++ = '\0';
        current = add_rule(expanded(text, NULL), recipe);
    }
    line_number = 0;
}

// --- the plan --------------------------------------------------------------------------------------------------------

static struct target **plan; // what is needed, everything after what it needs
static size_t plan_count, plan_room;

static void add_to_plan(struct target *target, int depth) {
    if (target->is_planned) return;
    if (depth > DEPTH_MAX) die("the rules lead more than %d deep at %s", DEPTH_MAX, target->name);
    target->is_on_path = true;
    size_t kept = 0;
    for (size_t i = 0; i < target->need_count; i++) {
        struct target *needed = target->needs[i];
        if (needed->is_on_path) {
            fprintf(stderr, "minimake: Circular %s <- %s dependency dropped.\n", target->name, needed->name);
            continue;
        }
        target->needs[kept++] = needed;
        add_to_plan(needed, depth + 1);
    }
    target->need_count = kept;
    target->is_on_path = false;
    target->is_planned = true;
    if (plan_count == plan_room) {
        plan_room = 2 * plan_room + 64;
        plan = grow(plan, plan_room, sizeof *plan);
    }
    plan[plan_count++] = target;
}

static bool is_newer(const struct stat *a, const struct stat *b) {
    const struct timespec *x = &a->st_mtim, *y = &b->st_mtim;
    return x->tv_sec != y->tv_sec ? x->tv_sec > y->tv_sec : x->tv_nsec > y->tv_nsec;
}

static bool is_stale(const struct target *target) {
    struct stat own, other;
    if (target->is_phony || stat(target->name, &own)) return true;
    for (size_t i = 0; i < target->need_count; i++) {
        if (target->needs[i]->remade) return true;
        if (stat(target->needs[i]->name, &other) == 0 && is_newer(&other, &own)) return true;
    }
    return false;
}

// --- commands --------------------------------------------------------------------------------------------------------

static size_t running, shown, limit; // limit: the first that has failed, after which nothing begins
static bool any_failed, any_ran;
static int no_input;

__attribute__((format(printf, 3, 4))) static void say(struct target *target, int stream, const char *format, ...) {
    char *text;
    va_list list;
    va_start(list, format);
    int len = vasprintf(&text, format, list);
    va_end(list);
    if (len < 0) die("out of memory");
    append(&target->texts[stream], text, len);
    free(text);
}

// Prints what has its turn: all of what is done, and of the first that is not, what it has said until now.
static void show(void) {
    for (; shown < plan_count && shown <= limit; shown++) {
        struct target *target = plan[shown];
        for (int stream = 0; stream < 2; stream++) {
            struct bytes *text = &target->texts[stream];
            fwrite(text->at, 1, text->len, stream ? stderr : stdout);
            if (fflush(stream ? stderr : stdout)) die("cannot write: %s", strerror(errno));
            text->len = 0;
        }
        if (target->state == WAITING || target->state == RUNNING) break;
    }
}

static void fail(struct target *target, size_t index) {
    target->state = FAILED;
    any_failed = true;
    if (!keeps_going && index < limit) limit = index;
}

// Whether a shell has to look at a command.
static bool needs_shell(const char *command) {
    static const char *const builtins[] = {".",    ":",    "cd",   "command", "eval",  "exec", "exit",  "export", "for", "if",
                                           "read", "set",  "shift", "test",   "trap",  "type", "ulimit", "umask", "unset",
                                           "wait", "while", "until", "case"};
    if (command[strcspn(command, "|&;<>()$`\\\"'*?[]#~{}!%\n")]) return true;
    size_t len = strcspn(command, " \t");
    if (memchr(command, '=', len)) return true;
    for (size_t i = 0; i < sizeof builtins / sizeof *builtins; i++) {
        if (strlen(builtins[i]) == len && memcmp(builtins[i], command, len) == 0) return true;
    }
    return false;
}

// Starts a command with its output into pipes; an errno.
static int start(struct target *target, const char *command) {
    struct texts argv = {0};
    if (needs_shell(command)) {
        push(&argv, "sh");
        push(&argv, "-c");
        push(&argv, (char *)command);
    } else {
        argv = words_of(command);
    }
    int out[2], err[2];
    if (pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC)) die("cannot make a pipe: %s", strerror(errno));
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    int error = posix_spawn_file_actions_adddup2(&actions, no_input, 0);
    if (!error) error = posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    if (!error) error = posix_spawn_file_actions_adddup2(&actions, err[1], 2);
    if (!error) error = posix_spawnp(&target->pid, argv.at[0], &actions, NULL, argv.at, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(out[1]);
    close(err[1]);
    if (error) {
        close(out[0]);
        close(err[0]);
        say(target, 1, "minimake: %s: %s\n", argv.at[0], strerror(error));
        return error;
    }
    target->fds[0] = out[0];
    target->fds[1] = err[0];
    return 0;
}

static void complain(struct target *target, size_t index, const char *what, int code) {
    const char *ignored = target->ignores_failure ? " (ignored)" : "";
    const char *stars = target->ignores_failure ? "" : "*** ";
    say(target, 1, "minimake: %s[%s:%zu: %s] %s %d%s\n", stars, file_name,
        target->recipe[target->next_line - 1].line, target->name, what, code, ignored);
    if (!target->ignores_failure) fail(target, index);
}

// Goes on with a target's recipe until a command runs, or it has come to its end.
static void proceed(struct target *target, size_t index) {
    while (target->state == RUNNING && target->next_line < target->recipe_len) {
        char *whole = expanded(target->recipe[target->next_line++].text, target), *command = whole;
        bool hidden = is_silent;
        target->ignores_failure = false;
        for (; *command && strchr("@-+ \t", *command); command++) {
            hidden |= *command == '@';
            target->ignores_failure |= *command == '-';
        }
        if (*command) {
            if (!hidden || only_shows) say(target, 0, "%s\n", command);
            any_ran = true;
            int error = only_shows ? -1 : start(target, command);
            if (error == 0) return;
            if (error > 0) complain(target, index, "Error", error == ENOENT ? 127 : 126);
        }
        free(whole);
    }
    if (target->state == RUNNING) {
        target->state = DONE;
        target->remade = true;
    }
    running--;
}

// Decides what is to be done about a target all of whose needs are done with, and begins it.
static void begin(struct target *target, size_t index) {
    for (size_t i = 0; i < target->need_count; i++) {
        enum state state = target->needs[i]->state;
        if (state != FAILED && state != SKIPPED) continue;
        target->state = SKIPPED;
        say(target, 1, "minimake: Target '%s' not remade because of errors.\n", target->name);
        return;
    }
    if (!is_stale(target)) {
        target->state = DONE;
    } else if (!target->has_rule && !target->is_phony) {
        say(target, 1, "minimake: *** No rule to make target '%s'.%s\n", target->name, keeps_going ? "" : "  Stop.");
        fail(target, index);
    } else {
        target->state = RUNNING;
        running++;
        proceed(target, index);
    }
}

static bool are_needs_done(const struct target *target) {
    for (size_t i = 0; i < target->need_count; i++) {
        if (target->needs[i]->state == WAITING || target->needs[i]->state == RUNNING) return false;
    }
    return true;
}

// Takes what a command has written; when it has ended, goes on.
static void take(size_t index, int stream) {
    static char block[1 << 14];
    struct target *target = plan[index];
    ssize_t count = read(target->fds[stream], block, sizeof block);
    if (count < 0) die("cannot read from %s: %s", target->name, strerror(errno));
    if (count > 0) {
        append(&target->texts[stream], block, count);
        return;
    }
    close(target->fds[stream]);
    target->fds[stream] = -1;
    if (target->fds[0] >= 0 || target->fds[1] >= 0) return;
    int status;
    if (waitpid(target->pid, &status, 0) < 0) die("cannot wait for %s: %s", target->name, strerror(errno));
    if (WIFSIGNALED(status)) complain(target, index, "Signal", WTERMSIG(status));
    else if (WEXITSTATUS(status)) complain(target, index, "Error", WEXITSTATUS(status));
    proceed(target, index);
}

static void wait_for_output(void) {
    struct pollfd *polled = grow(NULL, 2 * running + 1, sizeof *polled);
    size_t *indices = grow(NULL, 2 * running + 1, sizeof *indices), count = 0;
    for (size_t i = 0; i < plan_count && count < 2 * running; i++) {
        for (int stream = 0; plan[i]->state == RUNNING && stream < 2; stream++) {
            if (plan[i]->fds[stream] < 0) continue;
            polled[count] = (struct pollfd){.fd = plan[i]->fds[stream], .events = POLLIN};
            indices[count++] = 2 * i + stream;
        }
    }
    if (poll(polled, count, -1) < 0) die("cannot wait for commands: %s", strerror(errno));
    for (size_t i = 0; i < count; i++) {
        if (polled[i].revents) take(indices[i] / 2, indices[i] % 2);
    }
    free(polled);
    free(indices);
}

static void make_all(void) {
    limit = SIZE_MAX;
    for (size_t first = 0; first < plan_count;) {
        for (size_t i = first; i < plan_count && i < limit && running < jobs_max; i++) {
            if (plan[i]->state == WAITING && are_needs_done(plan[i])) begin(plan[i], i);
        }
        show();
        while (first < plan_count && plan[first]->state != WAITING && plan[first]->state != RUNNING) first++;
        if (running) wait_for_output();
        else if (first >= limit) return;
    }
    show();
}

// --- the command line ------------------------------------------------------------------------------------------------

static size_t parse_jobs(const char *text) {
    char *end;
    unsigned long count = strtoul(text, &end, 10);
    if (end == text || *end || count == 0 || count > 1000) die("-j takes a number from 1 to 1000");
    return count;
}

int main(int argc, char **argv) {
    struct texts goals = {0};
    for (int option; (option = getopt(argc, argv, "j:f:nks")) != -1;) {
        switch (option) {
            case 'j': jobs_max = parse_jobs(optarg); break;
            case 'f': file_name = optarg; break;
            case 'n': only_shows = true; break;
            case 'k': keeps_going = true; break;
            case 's': is_silent = true; break;
            default: fputs(usage, stderr); return FAILED_EXIT;
        }
    }
    for (int i = optind; i < argc; i++) {
        const char *equals = strchr(argv[i], '=');
        if (equals) assign(argv[i], equals, true);
        else push(&goals, argv[i]);
    }
    if (!file_name) file_name = access("makefile", R_OK) ? "Makefile" : "makefile";
    FILE *file = fopen(file_name, "r");
    if (!file) die("%s: %s", file_name, strerror(errno));
    read_makefile(file);
    fclose(file);
    if (!goals.count) {
        if (!default_goal) die("no targets");
        push(&goals, default_goal->name);
    }
    int ends[2];
    if (pipe2(ends, O_CLOEXEC)) die("cannot make a pipe: %s", strerror(errno));
    close(ends[1]);
    no_input = ends[0];
    for (size_t i = 0; i < goals.count; i++) add_to_plan(target_called(goals.at[i]), 0);
    make_all();
    if (any_failed) return FAILED_EXIT;
    for (size_t i = 0; !any_ran && i < goals.count; i++) {
        const struct target *goal = target_called(goals.at[i]);
        bool has_file = goal->recipe_len && !goal->is_phony;
        printf(has_file ? "minimake: '%s' is up to date.\n" : "minimake: Nothing to be done for '%s'.\n", goal->name);
    }
    return 0;
}

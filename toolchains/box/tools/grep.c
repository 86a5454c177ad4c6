// grep: lines that match.
#include "../regex/regex.h"

#include <ctype.h>
#include <fnmatch.h>

// Bytes of a file that is searched as a whole first.
enum { WHOLE_BYTES_MAX = 4 << 20 };

static struct texts patterns;
static struct texts literals; // of each pattern, where `has_literals`
static bool has_literals;
static struct regex **compiled;
static bool extended, fixed, ignore_case, invert, numbers, count_only, names_only, names_without, quiet, matches_only;
static bool recursive, follows, whole_words, whole_lines, no_messages, as_text, ends_names;
static int show_names = -1; // unless said otherwise: with several files
// How many lines around each that is selected are printed, too.
static uint64_t before, after;
static bool has_context, has_printed;
static uint64_t most = UINT64_MAX;
static bool any_selected, any_error;

static void add_patterns(const char *text) {
    for (;;) {
        const char *end = strchrnul(text, '\n');
        char *pattern = grow(NULL, end - text + 1);
        memcpy(pattern, text, end - text);
        pattern[end - text] = '\0';
        push(&patterns, pattern);
        if (!*end) return;
        text = end + 1;
    }
}

static void compile(void) {
    if (fixed) return;
    compiled = grow(NULL, patterns.count * sizeof *compiled);
    int flags = (extended ? REGEX_EXTENDED : 0) | (ignore_case ? REGEX_IGNORE_CASE : 0);
    for (size_t i = 0; i < patterns.count; i++) {
        const char *error;
        compiled[i] = regex_compile(patterns.at[i], strlen(patterns.at[i]), flags, &error);
        if (!compiled[i]) die("%s: %s", patterns.at[i], error);
    }
}

static void find_literals(void) {
    has_literals = !(ignore_case || patterns.count == 0);
    for (size_t i = 0; has_literals && i < patterns.count; i++) {
        const char *pattern = patterns.at[i];
        char *literal = !fixed ? regex_literal(pattern, extended) : *pattern ? copy_text(pattern) : NULL;
        has_literals = literal != NULL;
        if (literal) push(&literals, literal);
    }
}

// Whether a text may have a match.
static bool may_match(const char *text, size_t len) {
    if (!has_literals) return true;
    for (size_t i = 0; i < literals.count; i++) {
        if (memmem(text, len, literals.at[i], strlen(literals.at[i]))) return true;
    }
    return false;
}

// Where something matches.
struct match {
    size_t from, to;
};

static bool find_fixed(const char *pattern, const char *line, size_t len, size_t from, struct match *match) {
    size_t size = strlen(pattern);
    for (; from + size <= len; from++) {
        bool same = ignore_case ? strncasecmp(line + from, pattern, size) == 0 : memcmp(line + from, pattern, size) == 0;
        if (!same) continue;
        *match = (struct match){from, from + size};
        return true;
    }
    return false;
}

static bool find_regex(struct regex *regex, const char *line, size_t len, size_t from, struct match *match) {
    // Where the match is matters only to some of the options.
    if (!whole_words && !whole_lines && !matches_only && patterns.count == 1) {
        *match = (struct match){from, from};
        return regex_find(regex, line, len, from, NULL, 0);
    }
    struct span span;
    if (!regex_find(regex, line, len, from, &span, 1)) return false;
    *match = (struct match){span.from, span.to};
    return true;
}

static bool is_word(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

// The first match of one pattern from `from` on that the options allow.
static bool find_one(size_t index, const char *line, size_t len, size_t from, struct match *match) {
    while (from <= len) {
        bool found = fixed ? find_fixed(patterns.at[index], line, len, from, match)
                           : find_regex(compiled[index], line, len, from, match);
        if (!found) return false;
        if (whole_lines) return match->from == 0 && match->to == len;
        if (!whole_words) return true;
        bool word = (match->from == 0 || !is_word(line[match->from - 1])) &&
                    (match->to == len || !is_word(line[match->to]));
        if (word) return true;
        from = match->from + 1;
    }
    return false;
}

// The first match of any, and of those the longest.
static bool find(const char *line, size_t len, size_t from, struct match *match) {
    bool any = false;
    for (size_t i = 0; i < patterns.count; i++) {
        struct match one;
        if (!find_one(i, line, len, from, &one)) continue;
        if (!any || one.from < match->from || (one.from == match->from && one.to > match->to)) *match = one;
        any = true;
        if (!matches_only) return true;
    }
    return any;
}

static void print_name(const char *name, char end) {
    fputs(name, stdout);
    putchar(ends_names ? '\0' : end);
}

// `mark` is ':', and '-' in front of a line that is not selected.
static void print_prefix(const char *name, uint64_t number, char mark) {
    if (show_names) print_name(name, mark);
    if (numbers) printf("%llu%c", (unsigned long long)number, mark);
}

static void print_line(const char *name, uint64_t number, char mark, const char *line, size_t len) {
    print_prefix(name, number, mark);
    fwrite(line, 1, len, stdout);
    putchar('\n');
}

// The lines before the one that may be selected next, as many as would be printed with it.
struct context {
    struct bytes *kept; // a ring
    size_t room, count, next;
    uint64_t printed; // the number of the line that was printed last
    uint64_t left;    // lines to print after one that was selected
};

static void keep(struct context *context, const char *line, size_t len) {
    if (context->count == context->room && context->room < before) {
        // It is full and has not come round yet, so that the oldest line is the first.
        size_t room = before - context->room > context->room ? 2 * context->room + 16 : before;
        context->kept = grow(context->kept, room * sizeof *context->kept);
        memset(context->kept + context->room, 0, (room - context->room) * sizeof *context->kept);
        context->next = context->room;
        context->room = room;
    }
    struct bytes *place = &context->kept[context->next];
    place->len = 0;
    append(place, line, len);
    context->next = (context->next + 1) % context->room;
    if (context->count < before) context->count++;
}

// Prints what comes in front of the line `number`, which is selected.
static void print_before(struct context *context, const char *name, uint64_t number) {
    if (!has_context) return;
    uint64_t first = number - context->count;
    if (has_printed && (!context->printed || context->printed + 1 != first)) puts("--");
    for (size_t i = 0; i < context->count; i++) {
        struct bytes *line = &context->kept[(context->next + context->room - context->count + i) % context->room];
        if (!matches_only) print_line(name, first + i, '-', line->at, line->len);
    }
    context->count = context->next = 0;
    context->printed = number;
    context->left = after;
    has_printed = true;
}

static void free_context(struct context *context) {
    for (size_t i = 0; i < context->room; i++) free(context->kept[i].at);
    free(context->kept);
}

// A file's lines, each with a NUL in place of its end.
struct lines {
    FILE *file;
    struct bytes text; // a line; all of the file if `is_whole`
    size_t at;
    bool is_whole;
};

// Reads the file at once if it is short.
static void read_short(struct lines *lines) {
    struct stat stat_;
    if (lines->file == stdin || fstat(fileno(lines->file), &stat_) || !S_ISREG(stat_.st_mode)) return;
    if (stat_.st_size > WHOLE_BYTES_MAX) return;
    static char *shared; // by all files
    static size_t shared_room;
    size_t room = stat_.st_size + 2;
    if (room > shared_room) shared = grow(shared, shared_room = 2 * room);
    size_t len = 0;
    // One byte more than the file has shows its end.
    for (ssize_t count; len < shared_room - 1; len += count) {
        count = read(fileno(lines->file), shared + len, shared_room - 1 - len);
        if (count <= 0) {
            lines->is_whole = count == 0;
            break;
        }
    }
    if (lines->is_whole) lines->text = (struct bytes){shared, len, shared_room};
    else lseek(fileno(lines->file), 0, SEEK_SET);
}

static char *next_line(struct lines *lines, size_t *len) {
    if (!lines->is_whole) {
        ssize_t count = getline(&lines->text.at, &lines->text.room, lines->file);
        if (count < 0) return NULL;
        *len = count - (count > 0 && lines->text.at[count - 1] == '\n');
        lines->text.at[*len] = '\0';
        return lines->text.at;
    }
    if (lines->at == lines->text.len) return NULL;
    char *line = lines->text.at + lines->at;
    size_t left = lines->text.len - lines->at;
    char *end = memchr(line, '\n', left);
    *len = end ? (size_t)(end - line) : left;
    line[*len] = '\0';
    lines->at += *len + (end != NULL);
    return line;
}

static void close_lines(struct lines *lines) {
    if (!lines->is_whole) free(lines->text.at);
    if (lines->file == stdin) clearerr(stdin);
    else fclose(lines->file);
}

static void print_matches(const char *name, uint64_t number, const char *line, size_t len) {
    struct match match;
    for (size_t from = 0; !invert && from <= len && find(line, len, from, &match);) {
        if (match.to > match.from) print_line(name, number, ':', line + match.from, match.to - match.from);
        from = match.to > match.from ? match.to : match.to + 1;
    }
}

static void search(const char *path, unsigned char type) {
    struct stat stat_;
    bool is_stdin = type == DT_UNKNOWN && strcmp(path, "-") == 0;
    if (type != DT_REG && !is_stdin && stat(path, &stat_) == 0 && S_ISDIR(stat_.st_mode)) {
        any_error = true;
        if (!no_messages) warn("%s: Is a directory", path);
        return;
    }
    FILE *file = is_stdin ? stdin : fopen(path, "r");
    if (!file) {
        any_error = true;
        if (!no_messages) warn_path(path);
        return;
    }
    const char *name = is_stdin ? "(standard input)" : path;
    off_t next;
    bool prints = !quiet && !count_only && !names_only && !names_without;
    if (prints && most > 1 && is_output(file, &next) && (!is_stdin || lseek(0, 0, SEEK_CUR) < next)) {
        // It would find what it writes.
        any_error = true;
        if (!no_messages) warn("%s: input file is also the output", name);
        if (!is_stdin) fclose(file);
        return;
    }
    struct lines lines = {.file = file};
    if (has_literals) read_short(&lines);
    uint64_t number = 0, selected = 0;
    bool binary = false, told = false;
    bool is_hopeless = lines.is_whole && !invert && !may_match(lines.text.at, lines.text.len);
    struct context context = {0};
    char *line;
    for (size_t len; !is_hopeless && (selected < most || context.left) && (line = next_line(&lines, &len));) {
        number++;
        binary |= !as_text && memchr(line, '\0', len) != NULL;
        struct match match;
        // What follows the last line that is to be printed is context, whether it matches or not.
        if (selected == most || (may_match(line, len) && find(line, len, 0, &match)) == invert) {
            if (!prints || binary) continue;
            if (!context.left) {
                if (before) keep(&context, line, len);
                continue;
            }
            if (!matches_only) print_line(name, number, '-', line, len);
            context.printed = number;
            context.left--;
            continue;
        }
        selected++;
        if (quiet) exit(0);
        if (names_only || names_without) break;
        if (count_only) continue;
        if (binary) {
            told = true;
            has_printed |= has_context;
            break;
        }
        print_before(&context, name, number);
        if (matches_only) print_matches(name, number, line, len);
        else print_line(name, number, ':', line, len);
    }
    free_context(&context);
    if (ferror(file)) {
        any_error = true;
        if (!no_messages) warn_path(path);
    }
    if (told) warn("%s: binary file matches", name);
    if (count_only && !names_only && !names_without) {
        if (show_names) print_name(name, ':');
        printf("%llu\n", (unsigned long long)selected);
    }
    if ((names_only && selected) || (names_without && !selected)) print_name(name, '\n');
    any_selected |= selected > 0;
    close_lines(&lines);
}

// Which files and directories are searched, by their names.
struct rule {
    const char *glob;
    bool includes;
};
static struct rules {
    struct rule *at;
    size_t count;
} file_rules, dir_rules;

static void add_rule(struct rules *rules, const char *glob, bool includes) {
    rules->at = grow(rules->at, (rules->count + 1) * sizeof *rules->at);
    rules->at[rules->count++] = (struct rule){glob, includes};
}

// The last rule that is about the name decides; without one, the first rule does, which excludes the rest if it includes.
// A name on the command line can be a path: a rule is about it and about each end of it.
static bool is_left_out(const struct rules *rules, const char *path) {
    for (size_t i = rules->count; i-- > 0;) {
        for (const char *name = path; name; name = strchr(name, '/')) {
            name += *name == '/';
            if (fnmatch(rules->at[i].glob, name, 0) == 0) return !rules->at[i].includes;
        }
    }
    return rules->count && rules->at[0].includes;
}

// A directory that is searched, and the one that it was come from.
struct above {
    dev_t dev;
    ino_t ino;
    const struct above *up;
};

static void search_listed(const char *dir, const struct texts *names, const struct above *above);

// Notes where the search is, if it follows links: false, after a message, if it has come round to there.
static bool enter(const char *path, struct above *here, const struct above *up) {
    struct stat stat_;
    *here = (struct above){.up = up};
    if (!follows || stat(path, &stat_)) return true;
    here->dev = stat_.st_dev;
    here->ino = stat_.st_ino;
    for (; up; up = up->up) {
        if (up->dev != stat_.st_dev || up->ino != stat_.st_ino) continue;
        if (!no_messages) warn("%s: warning: recursive directory loop", path);
        return false;
    }
    return true;
}

// `type` is DT_UNKNOWN where nobody has listed `path`.
static void search_tree(const char *path, unsigned char type, const struct above *up) {
    if (type == DT_REG || (type != DT_DIR && !is_dir(path))) {
        search(path, type);
        return;
    }
    struct above here;
    if (!enter(path, &here, up)) return;
    struct texts names;
    if (!list_dir(path, &names)) {
        any_error = true;
        if (!no_messages) warn_path(path);
        return;
    }
    search_listed(path, &names, &here);
    free_texts(&names);
}

// Links in a tree are followed with -R only.
static void search_listed(const char *dir, const struct texts *names, const struct above *above) {
    for (size_t i = 0; i < names->count; i++) {
        unsigned char type = listed_type(names->at[i]);
        char *inner = dir ? join(dir, names->at[i]) : names->at[i];
        struct stat stat_;
        bool is_link = type == DT_LNK || (type == DT_UNKNOWN && lstat(inner, &stat_) == 0 && S_ISLNK(stat_.st_mode));
        bool is_skipped = is_link && !follows;
        bool is_tree = type == DT_DIR || (type != DT_REG && !is_skipped && is_dir(inner));
        is_skipped |= is_left_out(is_tree ? &dir_rules : &file_rules, names->at[i]);
        if (!is_skipped) search_tree(inner, type, above);
        if (dir) free(inner);
    }
}

enum { INCLUDE = 256, EXCLUDE, EXCLUDE_DIR, COLOR };

static const struct option long_options[] = {
    {"after-context", required_argument, NULL, 'A'}, {"basic-regexp", no_argument, NULL, 'G'},
    {"before-context", required_argument, NULL, 'B'}, {"color", optional_argument, NULL, COLOR},
    {"colour", optional_argument, NULL, COLOR}, {"context", required_argument, NULL, 'C'},
    {"count", no_argument, NULL, 'c'}, {"dereference-recursive", no_argument, NULL, 'R'},
    {"exclude", required_argument, NULL, EXCLUDE}, {"exclude-dir", required_argument, NULL, EXCLUDE_DIR},
    {"extended-regexp", no_argument, NULL, 'E'}, {"file", required_argument, NULL, 'f'},
    {"files-with-matches", no_argument, NULL, 'l'}, {"files-without-match", no_argument, NULL, 'L'},
    {"fixed-strings", no_argument, NULL, 'F'}, {"ignore-case", no_argument, NULL, 'i'},
    {"include", required_argument, NULL, INCLUDE}, {"invert-match", no_argument, NULL, 'v'},
    {"line-number", no_argument, NULL, 'n'}, {"line-regexp", no_argument, NULL, 'x'},
    {"max-count", required_argument, NULL, 'm'}, {"no-filename", no_argument, NULL, 'h'},
    {"no-messages", no_argument, NULL, 's'}, {"null", no_argument, NULL, 'Z'},
    {"only-matching", no_argument, NULL, 'o'}, {"perl-regexp", no_argument, NULL, 'P'},
    {"quiet", no_argument, NULL, 'q'}, {"recursive", no_argument, NULL, 'r'},
    {"regexp", required_argument, NULL, 'e'}, {"silent", no_argument, NULL, 'q'},
    {"text", no_argument, NULL, 'a'}, {"with-filename", no_argument, NULL, 'H'},
    {"word-regexp", no_argument, NULL, 'w'}, {0},
};

static uint64_t context_of(const char *text) {
    has_context = true;
    if (!*text || text[strspn(text, "0123456789")]) die("%s: invalid context length argument", text);
    return parse_count(text, "context length argument");
}

static bool add_patterns_of(const char *path) {
    struct bytes text;
    if (!read_whole(path, &text)) exit(trouble);
    if (text.len && text.at[text.len - 1] == '\n') text.at[text.len - 1] = '\0';
    if (text.len) add_patterns(text.at);
    return true;
}

static bool parse_options(int argc, char **argv) {
    static const char letters[] = "0123456789A:B:C:EFGPivnclLqorRwxse:f:hHm:ayZ";
    bool has_pattern = false, has_before = false, has_after = false;
    uint64_t around = 0;
    int digits_in = 0; // the argument that the digit before came from
    for (int option, from; from = optind, (option = getopt_long(argc, argv, letters, long_options, NULL)) != -1;) {
        switch (option) {
            case 'A': after = context_of(optarg); has_after = true; break;
            case 'B': before = context_of(optarg); has_before = true; break;
            case 'C': around = context_of(optarg); break;
            case 'E': extended = true; fixed = false; break;
            case 'F': fixed = true; break;
            case 'G': extended = fixed = false; break;
            case 'P': die("there are no Perl regular expressions; write an extended one, with -E");
            case 'i': case 'y': ignore_case = true; break;
            case 'v': invert = true; break;
            case 'n': numbers = true; break;
            case 'c': count_only = true; break;
            case 'l': names_only = true; break;
            case 'L': names_without = true; break;
            case 'q': quiet = true; break;
            case 'o': matches_only = true; break;
            case 'R': follows = true; // fall through
            case 'r': recursive = true; break;
            case 'w': whole_words = true; break;
            case 'x': whole_lines = true; break;
            case 's': no_messages = true; break;
            case 'h': show_names = 0; break;
            case 'H': show_names = 1; break;
            case 'a': as_text = true; break;
            case 'Z': ends_names = true; break;
            case 'm': most = parse_count(optarg, "max count"); break;
            case INCLUDE: add_rule(&file_rules, optarg, true); break;
            case EXCLUDE: add_rule(&file_rules, optarg, false); break;
            case EXCLUDE_DIR: add_rule(&dir_rules, optarg, false); break;
            case COLOR: break; // never
            case 'e':
                add_patterns(optarg);
                has_pattern = true;
                break;
            case 'f': has_pattern = add_patterns_of(optarg); break;
            default:
                if (!isdigit(option)) die_usage();
                around = (digits_in == from ? around * 10 : 0) + (option - '0');
                if (around > UINT32_MAX) around = UINT32_MAX;
                digits_in = from;
                has_context = true;
        }
    }
    if (!has_before) before = around;
    if (!has_after) after = around;
    return has_pattern;
}

static int run(int argc, char **argv) {
    trouble = 2;
    if (!parse_options(argc, argv)) {
        if (optind == argc) die("usage: grep [OPTION...] PATTERN [FILE...]");
        add_patterns(argv[optind++]);
    }
    compile();
    find_literals();
    if (show_names < 0) show_names = argc - optind > 1 || (recursive && (optind == argc || is_dir(argv[optind])));
    if (optind == argc && recursive) {
        struct texts names;
        struct above here;
        enter(".", &here, NULL);
        if (!list_dir(".", &names)) die(".: %s", strerror(errno));
        search_listed(NULL, &names, &here);
    } else if (optind == argc) {
        search("-", DT_UNKNOWN);
    }
    for (int i = optind; i < argc; i++) {
        struct stat stat_;
        bool is_tree = recursive && is_dir(argv[i]), is_missing = recursive && stat(argv[i], &stat_);
        if (!is_missing && is_left_out(is_tree ? &dir_rules : &file_rules, argv[i])) continue;
        if (is_tree) search_tree(argv[i], DT_UNKNOWN, NULL);
        else search(argv[i], DT_UNKNOWN);
    }
    return any_error && !(quiet && any_selected) ? 2 : !any_selected;
}

int tool_grep(int argc, char **argv) {
    return run(argc, argv);
}

int tool_egrep(int argc, char **argv) {
    extended = true;
    return run(argc, argv);
}

int tool_fgrep(int argc, char **argv) {
    fixed = true;
    return run(argc, argv);
}

// grep: lines that match.
#include "../box.h"

#include <ctype.h>
#include <regex.h>

static struct texts patterns;
static regex_t *compiled;
static bool extended, fixed, ignore_case, invert, numbers, count_only, names_only, names_without, quiet, matches_only;
static bool recursive, whole_words, whole_lines, no_messages, as_text;
static int show_names = -1; // unless said otherwise: with several files
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
    int flags = (extended ? REG_EXTENDED : 0) | (ignore_case ? REG_ICASE : 0);
    for (size_t i = 0; i < patterns.count; i++) {
        int error = regcomp(&compiled[i], patterns.at[i], flags);
        if (!error) continue;
        char message[128];
        regerror(error, &compiled[i], message, sizeof message);
        die("%s: %s", patterns.at[i], message);
    }
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

// A line may hold NUL, at which a regular expression's text ends: the pieces between are searched one by one.
static bool find_regex(const regex_t *regex, const char *line, size_t len, size_t from, struct match *match) {
    for (size_t at = from; at <= len; at += strlen(line + at) + 1) {
        regmatch_t found;
        bool is_start = at == 0 || (at != from && line[at - 1] == '\0');
        if (regexec(regex, line + at, 1, &found, is_start ? 0 : REG_NOTBOL) == 0) {
            *match = (struct match){at + found.rm_so, at + found.rm_eo};
            return true;
        }
    }
    return false;
}

static bool is_word(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

// The first match of one pattern from `from` on that the options allow.
static bool find_one(size_t index, const char *line, size_t len, size_t from, struct match *match) {
    while (from <= len) {
        bool found = fixed ? find_fixed(patterns.at[index], line, len, from, match)
                           : find_regex(&compiled[index], line, len, from, match);
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

static void print_prefix(const char *name, uint64_t number) {
    if (show_names) printf("%s:", name);
    if (numbers) printf("%llu:", (unsigned long long)number);
}

static void search(const char *path) {
    struct stat stat_;
    if (strcmp(path, "-") && stat(path, &stat_) == 0 && S_ISDIR(stat_.st_mode)) {
        any_error = true;
        if (!no_messages) warn("%s: Is a directory", path);
        return;
    }
    FILE *file = strcmp(path, "-") ? fopen(path, "r") : stdin;
    if (!file) {
        any_error = true;
        if (!no_messages) warn_path(path);
        return;
    }
    const char *name = file == stdin ? "(standard input)" : path;
    off_t next;
    bool prints = !quiet && !count_only && !names_only && !names_without && most > 1;
    if (prints && is_output(file, &next) && (file != stdin || lseek(0, 0, SEEK_CUR) < next)) {
        // It would find what it writes.
        any_error = true;
        if (!no_messages) warn("%s: input file is also the output", name);
        if (file != stdin) fclose(file);
        return;
    }
    char *line = NULL;
    size_t room = 0;
    uint64_t number = 0, selected = 0;
    bool binary = false, told = false;
    for (ssize_t len; selected < most && (len = getline(&line, &room, file)) >= 0;) {
        bool has_end = len > 0 && line[len - 1] == '\n';
        len -= has_end;
        line[len] = '\0';
        number++;
        binary |= !as_text && memchr(line, '\0', len) != NULL;
        struct match match;
        if (find(line, len, 0, &match) == invert) continue;
        selected++;
        if (quiet) exit(0);
        if (names_only || names_without) break;
        if (count_only) continue;
        if (binary) {
            told = true;
            break;
        }
        if (!matches_only) {
            print_prefix(name, number);
            fwrite(line, 1, len, stdout);
            putchar('\n');
            continue;
        }
        for (size_t from = 0; !invert && find(line, len, from, &match);) {
            if (match.to > match.from) {
                print_prefix(name, number);
                fwrite(line + match.from, 1, match.to - match.from, stdout);
                putchar('\n');
            }
            from = match.to > match.from ? match.to : match.to + 1;
            if (from > (size_t)len) break;
        }
    }
    if (ferror(file)) {
        any_error = true;
        if (!no_messages) warn_path(path);
    }
    if (told) warn("%s: binary file matches", name);
    if (count_only && !names_only && !names_without) {
        if (show_names) printf("%s:", name);
        printf("%llu\n", (unsigned long long)selected);
    }
    if ((names_only && selected) || (names_without && !selected)) puts(name);
    any_selected |= selected > 0;
    free(line);
    if (file == stdin) clearerr(stdin);
    else fclose(file);
}

static void search_tree(const char *path) {
    if (!is_dir(path) || strcmp(path, "-") == 0) {
        search(path);
        return;
    }
    struct texts names;
    if (!list_dir(path, &names)) {
        any_error = true;
        if (!no_messages) warn_path(path);
        return;
    }
    for (size_t i = 0; i < names.count; i++) {
        struct stat stat_;
        char *inner = join(path, names.at[i]);
        // Links in a tree are not followed.
        if (lstat(inner, &stat_) == 0 && !S_ISLNK(stat_.st_mode)) search_tree(inner);
        free(inner);
    }
    free_texts(&names);
}

int tool_grep(int argc, char **argv) {
    trouble = 2;
    bool has_pattern = false;
    for (int option; (option = getopt_long(argc, argv, "EFGivnclLqorRwxse:f:hHm:ay", (struct option[]){{0}}, NULL)) != -1;) {
        switch (option) {
            case 'E': extended = true; fixed = false; break;
            case 'F': fixed = true; break;
            case 'G': extended = fixed = false; break;
            case 'i': case 'y': ignore_case = true; break;
            case 'v': invert = true; break;
            case 'n': numbers = true; break;
            case 'c': count_only = true; break;
            case 'l': names_only = true; break;
            case 'L': names_without = true; break;
            case 'q': quiet = true; break;
            case 'o': matches_only = true; break;
            case 'r': case 'R': recursive = true; break;
            case 'w': whole_words = true; break;
            case 'x': whole_lines = true; break;
            case 's': no_messages = true; break;
            case 'h': show_names = 0; break;
            case 'H': show_names = 1; break;
            case 'a': as_text = true; break;
            case 'm': most = parse_count(optarg, "max count"); break;
            case 'e':
                add_patterns(optarg);
                has_pattern = true;
                break;
            case 'f': {
                struct bytes text;
                if (!read_whole(optarg, &text)) exit(trouble);
                if (text.len && text.at[text.len - 1] == '\n') text.at[text.len - 1] = '\0';
                if (text.len) add_patterns(text.at);
                has_pattern = true;
                break;
            }
            default: die_usage();
        }
    }
    if (!has_pattern) {
        if (optind == argc) die("usage: grep [OPTION...] PATTERN [FILE...]");
        add_patterns(argv[optind++]);
    }
    compile();
    if (show_names < 0) show_names = argc - optind > 1 || (recursive && (optind == argc || is_dir(argv[optind])));
    if (optind == argc && recursive) {
        struct texts names;
        if (!list_dir(".", &names)) die(".: %s", strerror(errno));
        for (size_t i = 0; i < names.count; i++) search_tree(names.at[i]);
    } else if (optind == argc) {
        search("-");
    }
    for (int i = optind; i < argc; i++) {
        if (recursive) search_tree(argv[i]);
        else search(argv[i]);
    }
    return any_error && !(quiet && any_selected) ? 2 : !any_selected;
}

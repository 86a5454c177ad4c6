// diff: how files differ.
#include "diff.h"

#include <ctype.h>
#include <fnmatch.h>
#include <time.h>

static enum { NORMAL, UNIFIED, CONTEXT } style;
static size_t context = 3;
static bool brief, recursive, absent_is_empty, as_text, ignore_case, ignore_blanks, squeeze_blanks, ignore_empty, strip_returns;
static bool reports_same, first_absent_is_empty;
static const char *labels[2];
static struct texts excluded;
static struct bytes given; // the options, for the lines that name a pair of files

// --- reading -------------------------------------------------------------------------------------------------------------

// A line as it is compared. Answers its length in `to`, which has room for it.
static size_t simplify(const char *from, size_t len, char *to) {
    size_t made = 0;
    if (strip_returns && len && from[len - 1] == '\r') len--;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = from[i];
        if ((ignore_blanks || squeeze_blanks) && isspace(c)) {
            size_t next = i;
            while (next < len && isspace((unsigned char)from[next])) next++;
            i = next - 1;
            if (ignore_blanks || next == len) continue;
            c = ' ';
        }
        to[made++] = ignore_case ? tolower(c) : c;
    }
    return made;
}

static bool is_binary(const struct bytes *text) {
    size_t len = text->len < 32768 ? text->len : 32768;
    return !as_text && len && memchr(text->at, '\0', len);
}

static void find_lines(struct lines *lines) {
    size_t room = 0;
    const char *text = lines->text.at;
    for (size_t at = 0;;) {
        if (lines->count + 1 >= room) {
            room = 2 * room + 64;
            lines->starts = grow(lines->starts, room * sizeof *lines->starts);
        }
        lines->starts[lines->count] = at;
        if (at == lines->text.len) break;
        const char *end = memchr(text + at, '\n', lines->text.len - at);
        lines->lacks_newline = !end;
        at = end ? (size_t)(end - text) + 1 : lines->text.len;
        lines->count++;
    }
    lines->same = grow(NULL, (lines->count + 1) * sizeof *lines->same);
    lines->changed = grow(NULL, lines->count + 2);
    memset(lines->changed, 0, lines->count + 2);
    lines->changed++;
}

static size_t line_len(const struct lines *lines, size_t line) {
    size_t len = lines->starts[line + 1] - lines->starts[line];
    return len - (len && lines->text.at[lines->starts[line + 1] - 1] == '\n');
}

// Gives the lines of both files their numbers. Answers how many there are.
static size_t number_lines(struct lines *files) {
    size_t total = files[0].count + files[1].count, buckets = 16, count = 0;
    while (buckets < 2 * total) buckets *= 2;
    struct {
        uint32_t hash, number;
        const struct lines *lines;
        size_t line;
    } *table = grow(NULL, buckets * sizeof *table);
    memset(table, 0, buckets * sizeof *table);
    char *here = grow(NULL, files[0].text.len + files[1].text.len + 1), *there = grow(NULL, files[0].text.len + files[1].text.len + 1);
    for (int f = 0; f < 2; f++) {
        for (size_t i = 0; i < files[f].count; i++) {
            size_t len = simplify(files[f].text.at + files[f].starts[i], line_len(&files[f], i), here);
            // The last line without its end differs from one with it.
            bool is_cut = files[f].lacks_newline && i + 1 == files[f].count && !ignore_blanks && !squeeze_blanks;
            uint32_t hash = 2166136261u + is_cut;
            for (size_t j = 0; j < len; j++) hash = (hash ^ (unsigned char)here[j]) * 16777619u;
            size_t at = (hash ^ hash >> 15) & (buckets - 1);
            for (; table[at].lines; at = (at + 1) & (buckets - 1)) {
                if (table[at].hash != hash) continue;
                const struct lines *other = table[at].lines;
                bool other_cut = other->lacks_newline && table[at].line + 1 == other->count && !ignore_blanks && !squeeze_blanks;
                size_t size = simplify(other->text.at + other->starts[table[at].line], line_len(other, table[at].line), there);
                if (size == len && other_cut == is_cut && memcmp(here, there, len) == 0) break;
            }
            if (!table[at].lines) {
                table[at].hash = hash;
                table[at].number = count++;
                table[at].lines = &files[f];
                table[at].line = i;
            }
            files[f].same[i] = table[at].number;
        }
    }
    free(table);
    free(here);
    free(there);
    return count;
}

// --- changes -------------------------------------------------------------------------------------------------------------

struct change {
    size_t from[2], to[2]; // lines of each file
};

static struct change *find_changes(const struct lines *files, size_t *count) {
    struct change *changes = NULL;
    size_t room = 0, at[2] = {0};
    *count = 0;
    while (at[0] < files[0].count || at[1] < files[1].count) {
        if (!files[0].changed[at[0]] && !files[1].changed[at[1]]) {
            at[0]++;
            at[1]++;
            continue;
        }
        struct change change = {.from = {at[0], at[1]}};
        bool is_empty = true;
        for (int f = 0; f < 2; f++) {
            for (; files[f].changed[at[f]]; at[f]++) is_empty &= line_len(&files[f], at[f]) == 0;
            change.to[f] = at[f];
        }
        if (ignore_empty && is_empty) continue;
        if (*count == room) {
            room = 2 * room + 16;
            changes = grow(changes, room * sizeof *changes);
        }
        changes[(*count)++] = change;
    }
    return changes;
}

static void put_lines(const char *sign, const struct lines *lines, size_t from, size_t to) {
    for (; from < to; from++) {
        fputs(sign, stdout);
        fwrite(lines->text.at + lines->starts[from], 1, lines->starts[from + 1] - lines->starts[from], stdout);
        if (lines->lacks_newline && from + 1 == lines->count) puts("\n\\ No newline at end of file");
    }
}

static void put_normal(const struct lines *files, const struct change *change) {
    char letter = change->from[0] == change->to[0] ? 'a' : change->from[1] == change->to[1] ? 'd' : 'c';
    for (int f = 0; f < 2; f++) {
        if (f) putchar(letter);
        size_t from = change->from[f], to = change->to[f];
        if (to > from + 1) printf("%zu,%zu", from + 1, to);
        else printf("%zu", to > from ? from + 1 : from);
    }
    putchar('\n');
    put_lines("< ", &files[0], change->from[0], change->to[0]);
    if (letter == 'c') puts("---");
    put_lines("> ", &files[1], change->from[1], change->to[1]);
}

static void put_range(char sign, size_t from, size_t to) {
    size_t count = to - from;
    if (count == 1) printf("%c%zu", sign, from + 1);
    else printf("%c%zu,%zu", sign, count ? from + 1 : from, count);
}

static void put_unified(const struct lines *files, const struct change *changes, size_t count, const size_t *from, const size_t *to) {
    fputs("@@ ", stdout);
    put_range('-', from[0], to[0]);
    putchar(' ');
    put_range('+', from[1], to[1]);
    puts(" @@");
    size_t at = from[0];
    for (size_t i = 0; i < count; i++) {
        put_lines(" ", &files[0], at, changes[i].from[0]);
        put_lines("-", &files[0], changes[i].from[0], changes[i].to[0]);
        put_lines("+", &files[1], changes[i].from[1], changes[i].to[1]);
        at = changes[i].to[0];
    }
    put_lines(" ", &files[0], at, to[0]);
}

static void put_context(const struct lines *files, const struct change *changes, size_t count, const size_t *from, const size_t *to) {
    puts("***************");
    for (int f = 0; f < 2; f++) {
        const char *signs = f ? "---" : "***";
        if (to[f] > from[f] + 1) printf("%s %zu,%zu %s%s\n", signs, from[f] + 1, to[f], f ? "--" : "***", f ? "--" : "*");
        else printf("%s %zu %s%s\n", signs, to[f], f ? "--" : "***", f ? "--" : "*");
        bool has_any = false;
        for (size_t i = 0; i < count; i++) has_any |= changes[i].to[f] > changes[i].from[f];
        if (!has_any) continue;
        size_t at = from[f];
        for (size_t i = 0; i < count; i++) {
            bool both = changes[i].to[0] > changes[i].from[0] && changes[i].to[1] > changes[i].from[1];
            put_lines("  ", &files[f], at, changes[i].from[f]);
            put_lines(both ? "! " : f ? "+ " : "- ", &files[f], changes[i].from[f], changes[i].to[f]);
            at = changes[i].to[f];
        }
        put_lines("  ", &files[f], at, to[f]);
    }
}

// Changes that are close to each other are shown together.
static void put_hunks(const struct lines *files, const struct change *changes, size_t count) {
    for (size_t first = 0, next; first < count; first = next) {
        for (next = first + 1; next < count && changes[next].from[0] - changes[next - 1].to[0] <= 2 * context; next++) {}
        size_t from[2], to[2];
        for (int f = 0; f < 2; f++) {
            size_t before = changes[first].from[0] < changes[first].from[1] ? changes[first].from[0] : changes[first].from[1];
            size_t end = changes[next - 1].to[f], left[2] = {files[0].count - changes[next - 1].to[0], files[1].count - changes[next - 1].to[1]};
            from[f] = changes[first].from[f] - (before < context ? before : context);
            size_t behind = left[0] < left[1] ? left[0] : left[1];
            to[f] = end + (behind < context ? behind : context);
        }
        if (style == UNIFIED) put_unified(files, changes + first, next - first, from, to);
        else put_context(files, changes + first, next - first, from, to);
    }
}

// --- files ---------------------------------------------------------------------------------------------------------------

static void put_header(const char *sign, const char *path, int f, const struct stat *stat_, bool is_absent) {
    if (labels[f]) {
        printf("%s %s\n", sign, labels[f]);
        return;
    }
    char text[64];
    time_t seconds = is_absent ? 0 : stat_->st_mtim.tv_sec;
    struct tm *tm = gmtime(&seconds);
    size_t len = tm ? strftime(text, sizeof text, style == CONTEXT ? "%a %b %e %H:%M:%S %Y" : "%Y-%m-%d %H:%M:%S", tm) : 0;
    text[len] = '\0';
    if (style == CONTEXT) {
        printf("%s %s\t%s\n", sign, path, text);
        return;
    }
    printf("%s %s\t%s.%09ld +0000\n", sign, path, text, is_absent ? 0L : (long)stat_->st_mtim.tv_nsec);
}

static int put_differences(char *const *paths, struct lines *files, const struct stat *stats, const bool *absent, bool names_pair) {
    find_lines(&files[0]);
    find_lines(&files[1]);
    compare_lines(&files[0], &files[1], number_lines(files) + 1);
    size_t count;
    struct change *changes = find_changes(files, &count);
    if (count && brief) {
        printf("Files %s and %s differ\n", paths[0], paths[1]);
    } else if (count) {
        if (names_pair) printf("diff%s %s %s\n", given.at ? given.at : "", paths[0], paths[1]);
        if (style != NORMAL) {
            put_header(style == UNIFIED ? "---" : "***", paths[0], 0, &stats[0], absent[0]);
            put_header(style == UNIFIED ? "+++" : "---", paths[1], 1, &stats[1], absent[1]);
            put_hunks(files, changes, count);
        }
        for (size_t i = 0; i < count && style == NORMAL; i++) put_normal(files, &changes[i]);
    }
    free(changes);
    for (int f = 0; f < 2; f++) {
        free(files[f].starts);
        free(files[f].same);
        free(files[f].changed - 1);
    }
    return count > 0;
}

static int diff_files(char *const *paths, const struct stat *stats, const bool *absent, bool names_pair) {
    struct lines files[2] = {0};
    for (int f = 0; f < 2; f++) {
        if (!absent[f] && !read_whole(paths[f], &files[f].text)) return 2;
        if (absent[f]) append(&files[f].text, "", 0);
    }
    int status;
    bool is_same = strcmp(paths[0], paths[1]) == 0 || (files[0].text.len == files[1].text.len && memcmp(files[0].text.at, files[1].text.at, files[0].text.len) == 0);
    if (is_same) {
        status = 0;
    } else if (is_binary(&files[0].text) || is_binary(&files[1].text)) {
        printf("%s %s and %s differ\n", brief ? "Files" : "Binary files", paths[0], paths[1]);
        status = 1;
    } else {
        status = put_differences(paths, files, stats, absent, names_pair);
    }
    if (!status && reports_same) printf("Files %s and %s are identical\n", paths[0], paths[1]);
    free(files[0].text.at);
    free(files[1].text.at);
    return status;
}

static const char *kind_of(const struct stat *stat_) {
    return S_ISDIR(stat_->st_mode) ? "directory" : S_ISREG(stat_->st_mode) ? stat_->st_size ? "regular file" : "regular empty file"
         : "special file";
}

static int diff_paths(char *const *paths, const bool *absent, bool in_dirs);

static bool is_excluded(const char *name) {
    for (size_t i = 0; i < excluded.count; i++) {
        if (fnmatch(excluded.at[i], name, 0) == 0) return true;
    }
    return false;
}

static int diff_dirs(char *const *paths, const bool *absent) {
    struct texts names[2] = {0};
    for (int f = 0; f < 2; f++) {
        if (!absent[f] && !list_dir(paths[f], &names[f])) {
            warn_path(paths[f]);
            return 2;
        }
    }
    int status = 0;
    for (size_t i = 0, j = 0; i < names[0].count || j < names[1].count;) {
        int order = i == names[0].count ? 1 : j == names[1].count ? -1 : strcmp(names[0].at[i], names[1].at[j]);
        const char *name = order <= 0 ? names[0].at[i] : names[1].at[j];
        i += order <= 0;
        j += order >= 0;
        if (is_excluded(name)) continue;
        char *inner[2] = {join(paths[0], name), join(paths[1], name)};
        int found = 1;
        bool inner_absent[2] = {order > 0, order < 0}, shows = order == 0 || absent_is_empty || (order > 0 && first_absent_is_empty);
        if (shows) found = diff_paths(inner, inner_absent, true);
        else printf("Only in %s: %s\n", paths[order > 0], name);
        if (found > status) status = found;
        free(inner[0]);
        free(inner[1]);
    }
    free_texts(&names[0]);
    free_texts(&names[1]);
    return status;
}

static int diff_paths(char *const *paths, const bool *absent, bool in_dirs) {
    struct stat stats[2] = {0};
    int missing = 0;
    for (int f = 0; f < 2; f++) {
        bool is_stdin = strcmp(paths[f], "-") == 0;
        if (absent[f] || (is_stdin ? fstat(0, &stats[f]) : stat(paths[f], &stats[f])) == 0) continue;
        warn_path(paths[f]);
        missing = 2;
    }
    if (missing) return missing;
    for (int f = 0; f < 2; f++) {
        if (absent[f]) stats[f].st_mode = stats[!f].st_mode;
    }
    bool is_dir_[2] = {S_ISDIR(stats[0].st_mode), S_ISDIR(stats[1].st_mode)};
    if (is_dir_[0] && is_dir_[1]) {
        if (recursive || !in_dirs) return diff_dirs(paths, absent);
        printf("Common subdirectories: %s and %s\n", paths[0], paths[1]);
        return 0;
    }
    if (is_dir_[0] || is_dir_[1]) {
        if (in_dirs) {
            printf("File %s is a %s while file %s is a %s\n", paths[0], kind_of(&stats[0]), paths[1], kind_of(&stats[1]));
            return 1;
        }
        // A file and a directory: the file of that name in it.
        char *inner[2] = {paths[0], paths[1]};
        int dir = is_dir_[0] ? 0 : 1;
        inner[dir] = into_dir(paths[dir], paths[!dir]);
        int status = diff_paths(inner, absent, false);
        free(inner[dir]);
        return status;
    }
    return diff_files(paths, stats, absent, in_dirs);
}

static void note_options(int argc, char **argv) {
    append(&given, "", 0);
    for (int i = 1; i < argc && optind > 1; i++) {
        if (argv[i][0] != '-' || !argv[i][1] || strcmp(argv[i], "--") == 0) break;
        append(&given, " ", 1);
        append(&given, argv[i], strlen(argv[i]));
    }
}

int tool_diff(int argc, char **argv) {
    trouble = 2;
    enum { TEXT = 256, STRIP, NEW_FILE, FIRST_ABSENT };
    static const struct option options[] = {
        {"unified", optional_argument, NULL, 'u'}, {"context", optional_argument, NULL, 'c'}, {"brief", no_argument, NULL, 'q'},
        {"recursive", no_argument, NULL, 'r'}, {"new-file", no_argument, NULL, 'N'}, {"text", no_argument, NULL, 'a'},
        {"ignore-case", no_argument, NULL, 'i'}, {"ignore-all-space", no_argument, NULL, 'w'},
        {"ignore-space-change", no_argument, NULL, 'b'}, {"ignore-blank-lines", no_argument, NULL, 'B'},
        {"report-identical-files", no_argument, NULL, 's'}, {"exclude", required_argument, NULL, 'x'},
        {"label", required_argument, NULL, 'L'}, {"strip-trailing-cr", no_argument, NULL, STRIP},
        {"unidirectional-new-file", no_argument, NULL, FIRST_ABSENT}, {"normal", no_argument, NULL, 'n' + 256},
        {"minimal", no_argument, NULL, 'd'}, {"color", optional_argument, NULL, 'd'}, {0}};
    int label = 0;
    for (int option; (option = getopt_long(argc, argv, "uU:cC:qrNPaiwbBsx:L:dpt", options, NULL)) != -1;) {
        switch (option) {
            case 'u': case 'U':
                style = UNIFIED;
                if (optarg) context = parse_count(optarg, "context length");
                break;
            case 'c': case 'C':
                style = CONTEXT;
                if (optarg) context = parse_count(optarg, "context length");
                break;
            case 'q': brief = true; break;
            case 'r': recursive = true; break;
            case 'N': absent_is_empty = true; break;
            case 'P': case FIRST_ABSENT: first_absent_is_empty = true; break;
            case 'a': as_text = true; break;
            case 'i': ignore_case = true; break;
            case 'w': ignore_blanks = true; break;
            case 'b': squeeze_blanks = true; break;
            case 'B': ignore_empty = true; break;
            case 's': reports_same = true; break;
            case 'x': push(&excluded, optarg); break;
            case 'L': if (label < 2) labels[label++] = optarg; break;
            case STRIP: strip_returns = true; break;
            case 'n' + 256: style = NORMAL; break;
            case 'd': case 'p': case 't': break;
            default: die_usage();
        }
    }
    if (argc - optind < 2) die(optind < argc ? "missing operand after '%s'" : "missing operand", argv[argc - 1]);
    if (argc - optind > 2) die("extra operand '%s'", argv[optind + 2]);
    note_options(argc, argv);
    // Nothing is shown that 2^31 lines of context do not show.
    if (context > INT32_MAX) context = INT32_MAX;
    bool absent[2] = {0};
    struct stat stat_;
    for (int f = 0; f < 2; f++) {
        bool is_stdin = strcmp(argv[optind + f], "-") == 0;
        absent[f] = !is_stdin && absent_is_empty && stat(argv[optind + f], &stat_) && errno == ENOENT;
    }
    if (absent[0] && absent[1]) die("%s: %s", argv[optind], strerror(ENOENT));
    return diff_paths(argv + optind, absent, false);
}

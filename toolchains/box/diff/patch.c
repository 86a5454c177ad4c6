// patch: applies what diff -u prints.
#include "diff.h"

#include <ctype.h>

// A line with its end, if it has one.
struct piece {
    const char *at;
    size_t len;
};

struct pieces {
    struct piece *at;
    size_t count, room;
};

// Lines of a hunk, each with its sign.
struct hunk {
    size_t from[2], len[2]; // lines of the old and of the new file, as its head says
    struct pieces old, new;
    struct pieces lines;    // as they are in the patch, signs included
    size_t before, behind;  // lines of context
};

static struct bytes text; // of the patch
static size_t at, line_number;
static bool reversed, dry, silent, forward, batch, keeps_empty, removes_empty, loose, backs_up, no_mismatch_backup;
static int strip = -1;
static size_t most_fuzz = 2;
static const char *output_path, *reject_path, *suffix = ".orig";

static void add_piece(struct pieces *pieces, const char *start, size_t len) {
    if (pieces->count == pieces->room) {
        pieces->room = 2 * pieces->room + 16;
        pieces->at = grow(pieces->at, pieces->room * sizeof *pieces->at);
    }
    pieces->at[pieces->count++] = (struct piece){start, len};
}

static void split_lines(const struct bytes *bytes, struct pieces *pieces) {
    for (size_t start = 0; start < bytes->len;) {
        const char *end = memchr(bytes->at + start, '\n', bytes->len - start);
        size_t next = end ? (size_t)(end - bytes->at) + 1 : bytes->len;
        add_piece(pieces, bytes->at + start, next - start);
        start = next;
    }
}

// --- the patch -----------------------------------------------------------------------------------------------------------

static bool peek_line(struct piece *line) {
    if (at >= text.len) return false;
    const char *end = memchr(text.at + at, '\n', text.len - at);
    *line = (struct piece){text.at + at, end ? (size_t)(end + 1 - (text.at + at)) : text.len - at};
    return true;
}

static void skip_line(const struct piece *line) {
    at += line->len;
    line_number++;
}

static bool begins_with(const struct piece *line, const char *with) {
    size_t len = strlen(with);
    return line->len >= len && memcmp(line->at, with, len) == 0;
}

// One range of a hunk's head, as 3,4.
static bool parse_range(const char **from, size_t *start, size_t *len) {
    char *end;
    if (!isdigit((unsigned char)**from)) return false;
    *start = strtoul(*from, &end, 10);
    *len = 1;
    if (*end == ',') {
        if (!isdigit((unsigned char)end[1])) return false;
        *len = strtoul(end + 1, &end, 10);
    }
    *from = end;
    return *start <= INT32_MAX && *len <= INT32_MAX;
}

static bool parse_head(const struct piece *line, struct hunk *hunk) {
    if (!begins_with(line, "@@ -")) return false;
    const char *from = line->at + 4;
    if (!parse_range(&from, &hunk->from[0], &hunk->len[0])) return false;
    if (from[0] != ' ' || from[1] != '+') return false;
    from += 2;
    return parse_range(&from, &hunk->from[1], &hunk->len[1]) && strncmp(from, " @@", 3) == 0;
}

static void free_hunk(struct hunk *hunk) {
    free(hunk->old.at);
    free(hunk->new.at);
    free(hunk->lines.at);
    *hunk = (struct hunk){0};
}

static _Noreturn void malformed(void) {
    struct piece line = {"", 0};
    bool is_there = peek_line(&line);
    die("**** malformed patch at line %zu: %.*s", line_number + is_there, (int)(line.len < 200 ? line.len : 200), line.at);
}

static bool read_hunk(struct hunk *hunk) {
    struct piece line;
    *hunk = (struct hunk){0};
    if (!peek_line(&line) || !parse_head(&line, hunk)) return false;
    skip_line(&line);
    size_t left[2] = {hunk->len[0], hunk->len[1]};
    bool changed = false;
    while (left[0] || left[1]) {
        if (!peek_line(&line)) malformed();
        char sign = line.at[0];
        const char *rest = line.at + 1;
        size_t len = line.len - 1;
        if (sign == '\n') sign = ' ', rest = line.at, len = 1; // an empty line whose blank was lost
        if (!strchr(" +-\\", sign) || !sign) malformed();
        if (sign == '\\') goto no_newline;
        if ((sign != '+' && !left[0]) || (sign != '-' && !left[1])) malformed();
        if (sign != '+') left[0]--, add_piece(&hunk->old, rest, len);
        if (sign != '-') left[1]--, add_piece(&hunk->new, rest, len);
        if (sign == ' ') {
            if (!changed) hunk->before++;
            hunk->behind++;
        } else {
            changed = true;
            hunk->behind = 0;
        }
        add_piece(&hunk->lines, line.at, line.len);
        skip_line(&line);
        if (!peek_line(&line) || line.at[0] != '\\') continue;
    no_newline:
        // The line before has no end.
        if (!hunk->lines.count) malformed();
        char last = hunk->lines.at[hunk->lines.count - 1].at[0];
        struct piece *old = hunk->old.count && last != '+' ? &hunk->old.at[hunk->old.count - 1] : NULL;
        struct piece *new = hunk->new.count && last != '-' ? &hunk->new.at[hunk->new.count - 1] : NULL;
        if (old && old->len && old->at[old->len - 1] == '\n') old->len--;
        if (new && new->len && new->at[new->len - 1] == '\n') new->len--;
        add_piece(&hunk->lines, line.at, line.len);
        skip_line(&line);
    }
    if (!changed) hunk->behind = 0;
    if (!reversed) return true;
    struct pieces swap = hunk->old;
    hunk->old = hunk->new;
    hunk->new = swap;
    size_t from = hunk->from[0], len = hunk->len[0];
    hunk->from[0] = hunk->from[1];
    hunk->len[0] = hunk->len[1];
    hunk->from[1] = from;
    hunk->len[1] = len;
    return true;
}

// --- where a hunk belongs ------------------------------------------------------------------------------------------------

static bool same_line(const struct piece *a, const struct piece *b) {
    if (!loose) return a->len == b->len && memcmp(a->at, b->at, a->len) == 0;
    size_t i = 0, j = 0;
    for (;;) {
        bool blank_a = i < a->len && isspace((unsigned char)a->at[i]), blank_b = j < b->len && isspace((unsigned char)b->at[j]);
        while (i < a->len && isspace((unsigned char)a->at[i])) i++;
        while (j < b->len && isspace((unsigned char)b->at[j])) j++;
        if (i == a->len || j == b->len) return i == a->len && j == b->len;
        if (blank_a != blank_b || a->at[i++] != b->at[j++]) return false;
    }
}

static bool matches_at(const struct pieces *file, const struct hunk *hunk, ptrdiff_t where, size_t skip_first, size_t skip_last) {
    if (where < 0 || where + hunk->old.count - skip_last > file->count) return false;
    for (size_t i = skip_first; i + skip_last < hunk->old.count; i++) {
        if (!same_line(&file->at[where + i], &hunk->old.at[i])) return false;
    }
    return true;
}

// Where the old lines are, from 0 on, or -1. `first` is the first line that is still free, `guess` where they should be.
static ptrdiff_t find_place(const struct pieces *file, const struct hunk *hunk, ptrdiff_t guess, ptrdiff_t first, size_t fuzz) {
    ptrdiff_t most = hunk->before > hunk->behind ? hunk->before : hunk->behind;
    ptrdiff_t skip_first = (ptrdiff_t)(fuzz + hunk->before) - most, skip_last = (ptrdiff_t)(fuzz + hunk->behind) - most;
    ptrdiff_t count = hunk->old.count, total = file->count;
    if (!count) return guess < 0 ? 0 : guess > total ? total : guess;
    if (skip_first < 0 && hunk->from[0] <= 1) {
        // Less context in front: the hunk is at the start.
        if (skip_last < 0 && count != total) return -1;
        return first == 0 && matches_at(file, hunk, 0, 0, skip_last < 0 ? 0 : skip_last) ? 0 : -1;
    }
    if (skip_first < 0) skip_first = 0;
    if (skip_last < 0) {
        ptrdiff_t where = total - count;
        return where >= first && matches_at(file, hunk, where, skip_first, 0) ? where : -1;
    }
    for (ptrdiff_t offset = 0; offset <= total + guess; offset++) {
        if (guess + offset >= first && matches_at(file, hunk, guess + offset, skip_first, skip_last)) return guess + offset;
        if (offset && guess - offset >= first && matches_at(file, hunk, guess - offset, skip_first, skip_last)) return guess - offset;
    }
    return -1;
}

// --- one file ------------------------------------------------------------------------------------------------------------

struct target {
    char *path;
    struct bytes bytes;
    struct pieces file, made;
    size_t used;      // lines of the file that are in `made` already
    ptrdiff_t offset; // of the last hunk
    size_t hunks, failed;
    bool is_mismatched;
    struct bytes rejects;
};

static void reject(struct target *target, const struct hunk *hunk) {
    char head[128];
    // Where it is in the file as it is now, after the hunks in front.
    ptrdiff_t shift = (ptrdiff_t)target->made.count - (ptrdiff_t)target->used;
    snprintf(head, sizeof head, "@@ -%td,%zu +%td,%zu @@\n", (ptrdiff_t)hunk->from[0] + shift, hunk->len[0],
             (ptrdiff_t)hunk->from[1] + shift, hunk->len[1]);
    append(&target->rejects, head, strlen(head));
    for (size_t i = 0; i < hunk->lines.count; i++) {
        char sign = hunk->lines.at[i].at[0];
        if (reversed && (sign == '+' || sign == '-')) sign = sign == '+' ? '-' : '+';
        append(&target->rejects, &sign, 1);
        append(&target->rejects, hunk->lines.at[i].at + 1, hunk->lines.at[i].len - 1);
    }
    target->failed++;
}

static void apply_hunk(struct target *target, const struct hunk *hunk) {
    size_t number = ++target->hunks, fuzz = 0;
    ptrdiff_t wanted = (ptrdiff_t)hunk->from[0] - (hunk->len[0] > 0), where = -1;
    ptrdiff_t guess = wanted + target->offset;
    size_t context_most = hunk->before > hunk->behind ? hunk->before : hunk->behind;
    for (fuzz = 0; where < 0 && fuzz <= most_fuzz && fuzz <= context_most; fuzz++) {
        where = find_place(&target->file, hunk, guess, target->used, fuzz);
    }
    fuzz--;
    // A new file must not be there yet.
    if (where >= 0 && !hunk->old.count && hunk->from[0] == 0 && target->file.count) where = -1;
    if (where < 0) {
        target->is_mismatched = true;
        ptrdiff_t line = (ptrdiff_t)hunk->from[1] + target->offset;
        printf("Hunk #%zu FAILED at %td.\n", number, line > 0 ? line : 1);
        reject(target, hunk);
        return;
    }
    target->offset = where - wanted;
    if (target->offset || fuzz) {
        target->is_mismatched = true;
        if (!silent) {
            // As the new file has it, which grew or shrank in front.
            printf("Hunk #%zu succeeded at %td", number, where + 1 + (ptrdiff_t)target->made.count - (ptrdiff_t)target->used);
            if (fuzz) printf(" with fuzz %zu", fuzz);
            if (target->offset) printf(" (offset %td line%s)", target->offset, target->offset == 1 || target->offset == -1 ? "" : "s");
            puts(".");
        }
    }
    for (; (ptrdiff_t)target->used < where; target->used++) {
        add_piece(&target->made, target->file.at[target->used].at, target->file.at[target->used].len);
    }
    // Lines that fuzz left out, and those that only blanks differ in, stay as the file has them.
    size_t old = 0, new = 0;
    for (size_t i = 0; i < hunk->lines.count; i++) {
        char sign = hunk->lines.at[i].at[0];
        if (sign == '\\') continue;
        if (reversed && (sign == '+' || sign == '-')) sign = sign == '+' ? '-' : '+';
        if (sign == '+') {
            add_piece(&target->made, hunk->new.at[new].at, hunk->new.at[new].len);
            new++;
            continue;
        }
        const struct piece *there = where + old < target->file.count ? &target->file.at[where + old] : NULL;
        old++;
        if (sign == '-') continue;
        new++;
        if (there) add_piece(&target->made, there->at, there->len);
    }
    target->used = where + old < target->file.count ? where + old : target->file.count;
}

static void write_bytes(const char *path, const struct bytes *bytes) {
    FILE *file = strcmp(path, "-") == 0 ? stdout : fopen(path, "w");
    if (!file) die("**** Can't create file %s : %s", path, strerror(errno));
    fwrite(bytes->at, 1, bytes->len, file);
    if (ferror(file) | (file == stdout ? fflush(file) : fclose(file))) die("**** write error on %s: %s", path, strerror(errno));
}

static char *with_suffix(const char *path, const char *end) {
    char *longer = grow(NULL, strlen(path) + strlen(end) + 1);
    sprintf(longer, "%s%s", path, end);
    return longer;
}

// Writes a file beside, which takes the place of `path`: further names of that keep what they have.
static void replace_bytes(const char *path, const struct bytes *bytes) {
    size_t len;
    const char *name = last_part(path, &len);
    struct bytes beside = {0};
    append(&beside, path, name - path);
    append(&beside, ".patch~", 7);
    append(&beside, name, len);
    bool executable = get_executable(path, true);
    write_bytes(beside.at, bytes);
    bool failed = executable != get_executable(beside.at, true) && set_executable(beside.at, executable);
    if (failed || rename(beside.at, path)) {
        int error = errno;
        unlink(beside.at);
        die("**** Can't rename file %s to %s : %s", beside.at, path, strerror(error));
    }
    free(beside.at);
}

static void make_parents_of(const char *path) {
    size_t len;
    char *dir = copy_text(path), *name = (char *)last_part(dir, &len);
    if (name > dir) {
        *name = '\0';
        while (name > dir + 1 && name[-1] == '/') *--name = '\0';
        if (make_dirs(dir)) exit(2);
    }
    free(dir);
}

static void append_head(struct bytes *to, const char *sign, const char *line);

static void write_rejects(const struct target *target, const char *old_name, const char *new_name, const char *what) {
    char *path = reject_path ? copy_text(reject_path) : with_suffix(output_path && strcmp(output_path, "-") ? output_path : target->path, ".rej");
    printf("%zu out of %zu hunk%s %s", target->failed, target->hunks, target->hunks == 1 ? "" : "s", what);
    if (dry) puts("");
    else printf(" -- saving rejects to file %s\n", path);
    if (!dry) {
        struct bytes all = {0};
        append_head(&all, "--- ", old_name);
        append_head(&all, "+++ ", new_name);
        append(&all, target->rejects.at, target->rejects.len);
        write_bytes(path, &all);
        free(all.at);
    }
    free(path);
}

static void finish_target(struct target *target, bool removes, bool was_there) {
    for (; target->used < target->file.count; target->used++) {
        add_piece(&target->made, target->file.at[target->used].at, target->file.at[target->used].len);
    }
    struct bytes made = {0};
    append(&made, "", 0);
    for (size_t i = 0; i < target->made.count; i++) append(&made, target->made.at[i].at, target->made.at[i].len);
    bool backs = backs_up || (target->is_mismatched && !no_mismatch_backup);
    if (!dry && backs && was_there && !output_path) {
        char *backup = with_suffix(target->path, suffix);
        write_bytes(backup, &target->bytes);
        free(backup);
    }
    const char *to = output_path ? output_path : target->path;
    if (dry || (target->failed == target->hunks && target->hunks)) {
        // Nothing came of it.
    } else if (!made.len && (removes || removes_empty) && !keeps_empty && !output_path) {
        if (was_there && unlink(to)) die("**** Can't remove file %s : %s", to, strerror(errno));
    } else {
        if (!was_there) make_parents_of(to);
        if (was_there && !output_path) {
            replace_bytes(to, &made);
        } else {
            write_bytes(to, &made);
            if (was_there && get_executable(target->path, true)) set_executable(to, true);
        }
    }
    free(made.at);
}

// --- which file ------------------------------------------------------------------------------------------------------------

// The name of a head line, up to its tab or its time; NULL for /dev/null. `strip` counts what is taken off.
static char *name_of(const char *line) {
    while (*line == ' ' || *line == '\t') line++;
    size_t len = strcspn(line, "\t\n\r");
    char *name = strndup(line, len);
    if (!name) die("out of memory");
    if (strcmp(name, "/dev/null") == 0) {
        free(name);
        return NULL;
    }
    char *rest = name;
    for (int i = 0; strip < 0 || i < strip; i++) {
        char *slash = strchr(rest, '/');
        if (!slash) break;
        while (*slash == '/') slash++;
        rest = slash;
    }
    char *stripped = copy_text(rest);
    free(name);
    return stripped;
}

// A line of a head, with its name as it was looked for.
static void append_head(struct bytes *to, const char *sign, const char *line) {
    char *name = name_of(line);
    const char *shown = name ? name : "/dev/null", *time = line + strcspn(line, "\t\n");
    append(to, sign, 4);
    append(to, shown, strlen(shown));
    append(to, time, strcspn(time, "\n"));
    append(to, "\n", 1);
    free(name);
}

// A patch that comes from elsewhere writes nothing outside of the current directory.
static bool is_inside(const char *path) {
    if (*path == '/' || !*path) return false;
    for (const char *part = path; part; part = strchr(part, '/') ? strchr(part, '/') + 1 : NULL) {
        if (strncmp(part, "..", 2) == 0 && (!part[2] || part[2] == '/')) return false;
    }
    return true;
}

static size_t parts_of(const char *path) {
    size_t count = 0;
    for (; *path; path++) count += *path == '/';
    return count;
}

static char *choose(char *old_name, char *new_name) {
    struct stat stat_;
    bool old_there = old_name && stat(old_name, &stat_) == 0, new_there = new_name && stat(new_name, &stat_) == 0;
    if (old_there && new_there) return parts_of(new_name) < parts_of(old_name) || (parts_of(new_name) == parts_of(old_name) && strlen(new_name) < strlen(old_name)) ? new_name : old_name;
    if (old_there) return old_name;
    return new_there ? new_name : NULL;
}

static bool is_epoch(const char *line) {
    const char *tab = memchr(line, '\t', strcspn(line, "\n"));
    return tab && (strncmp(tab + 1, "1970-01-01 00:00:00", 19) == 0 || strncmp(tab + 1, "Thu Jan  1 00:00:00 1970", 24) == 0);
}

// Skips the hunks of a file, of which `hunk` is the first, and keeps them as rejects where the file's names are given.
static int ignore_hunks(struct target *target, struct hunk *hunk, const char *old_line, const char *new_line) {
    puts(forward ? "  Skipping patch." : "  Assume -R? [n] \nApply anyway? [n] \nSkipping patch.");
    do {
        target->hunks++;
        reject(target, hunk);
        free_hunk(hunk);
    } while (read_hunk(hunk));
    if (old_line) write_rejects(target, old_line, new_line, "ignored");
    else printf("%zu out of %zu hunk%s ignored\n", target->failed, target->hunks, target->hunks == 1 ? "" : "s");
    return 1;
}

static int patch_file(const char *old_line, const char *new_line, const char *operand) {
    if (reversed) {
        const char *swap = old_line;
        old_line = new_line;
        new_line = swap;
    }
    char *old_name = name_of(old_line), *new_name = name_of(new_line);
    struct hunk hunk;
    struct target target = {0};
    size_t hunk_line = line_number;
    bool has_hunk = read_hunk(&hunk);
    if (!has_hunk) return 0;
    bool creates = hunk.from[0] == 0 && hunk.len[0] == 0, removes = !new_name || (hunk.from[1] == 0 && hunk.len[1] == 0 && is_epoch(new_line));
    target.path = operand ? copy_text(operand) : choose(old_name, new_name);
    if (!target.path && creates && new_name) target.path = new_name;
    if (!target.path && removes && old_name) target.path = old_name;
    if (!target.path && !creates) {
        printf("can't find file to patch at input line %zu\n", hunk_line + 1);
        printf("No file to patch.  Skipping patch.\n");
    } else if (!operand && target.path && !is_inside(target.path)) {
        printf("Ignoring potentially dangerous file name %s\n", target.path);
        target.path = NULL;
    }
    if (!target.path) {
        size_t count = 0;
        for (; has_hunk; has_hunk = read_hunk(&hunk)) count++, free_hunk(&hunk);
        printf("%zu out of %zu hunk%s ignored\n", count, count, count == 1 ? "" : "s");
        return 1;
    }
    struct stat stat_;
    bool was_there = stat(target.path, &stat_) == 0;
    if (was_there && !S_ISREG(stat_.st_mode)) die("**** File %s is not a regular file", target.path);
    if (was_there && !read_whole(target.path, &target.bytes)) exit(2);
    split_lines(&target.bytes, &target.file);
    bool is_double = (creates && target.bytes.len) || (!was_there && removes && !creates);
    if (is_double) {
        printf("The next patch would %s the file %s,\nwhich %s!", creates ? "create" : "delete", target.path,
               creates ? "already exists" : "does not exist");
        return ignore_hunks(&target, &hunk, NULL, NULL);
    }
    const char *verb = dry ? "checking" : "patching";
    if (!silent && output_path) printf("%s file %s (read from %s)\n", verb, output_path, target.path);
    else if (!silent) printf("%s file %s\n", verb, target.path);
    // Whether it was applied before: its first hunk fits the other way round.
    if (find_place(&target.file, &hunk, hunk.from[0] - (hunk.len[0] > 0), 0, 0) < 0) {
        struct hunk back = hunk;
        back.old = hunk.new;
        back.new = hunk.old;
        back.from[0] = hunk.from[1];
        bool was_applied = back.old.count && find_place(&target.file, &back, back.from[0] - 1, 0, 0) >= 0;
        if (was_applied && !batch) {
            printf("%s (or previously applied) patch detected!", reversed ? "Unreversed" : "Reversed");
            return ignore_hunks(&target, &hunk, old_line, new_line);
        }
    }
    for (; has_hunk; has_hunk = read_hunk(&hunk)) {
        apply_hunk(&target, &hunk);
        free_hunk(&hunk);
    }
    finish_target(&target, removes, was_there);
    if (target.failed) write_rejects(&target, old_line, new_line, "FAILED");
    return target.failed > 0;
}

static int patch_all(const char *operand) {
    struct piece line;
    const char *old_line = NULL;
    int status = 0;
    bool any = false;
    while (peek_line(&line)) {
        struct hunk probe = {0};
        if (begins_with(&line, "--- ")) {
            struct piece next;
            size_t saved = at;
            skip_line(&line);
            if (peek_line(&next) && begins_with(&next, "+++ ")) {
                old_line = line.at + 4;
                const char *new_line = next.at + 4;
                skip_line(&next);
                any = true;
                status |= patch_file(old_line, new_line, operand);
                continue;
            }
            at = saved;
            line_number--;
        } else if (parse_head(&line, &probe) && operand) {
            any = true;
            status |= patch_file("/dev/null\n", "/dev/null\n", operand);
            continue;
        }
        skip_line(&line);
    }
    if (!any && text.len) die("**** Only garbage was found in the patch input.");
    return status;
}

int tool_patch(int argc, char **argv) {
    trouble = 2;
    enum { DRY = 256, NO_BACKUP, POSIX };
    static const struct option options[] = {
        {"strip", required_argument, NULL, 'p'}, {"reverse", no_argument, NULL, 'R'}, {"dry-run", no_argument, NULL, DRY},
        {"silent", no_argument, NULL, 's'}, {"quiet", no_argument, NULL, 's'}, {"input", required_argument, NULL, 'i'},
        {"directory", required_argument, NULL, 'd'}, {"output", required_argument, NULL, 'o'}, {"forward", no_argument, NULL, 'N'},
        {"force", no_argument, NULL, 'f'}, {"batch", no_argument, NULL, 't'}, {"remove-empty-files", no_argument, NULL, 'E'},
        {"fuzz", required_argument, NULL, 'F'}, {"backup", no_argument, NULL, 'b'}, {"suffix", required_argument, NULL, 'z'},
        {"ignore-whitespace", no_argument, NULL, 'l'}, {"unified", no_argument, NULL, 'u'}, {"posix", no_argument, NULL, POSIX},
        {"no-backup-if-mismatch", no_argument, NULL, NO_BACKUP}, {"reject-file", required_argument, NULL, 'r'},
        {"binary", no_argument, NULL, 'u'}, {0}};
    const char *input = "-";
    for (int option; (option = getopt_long(argc, argv, "p:Rsi:d:o:NftEF:bz:lur:", options, NULL)) != -1;) {
        switch (option) {
            case 'p': strip = (int)(parse_count(optarg, "strip count") & 0xffff); break;
            case 'R': reversed = true; break;
            case DRY: dry = true; break;
            case 's': silent = true; break;
            case 'i': input = optarg; break;
            case 'd': if (chdir(optarg)) die("**** Can't change to directory %s : %s", optarg, strerror(errno)); break;
            case 'o': output_path = optarg; break;
            case 'N': forward = true; break;
            case 'f': case 't': batch = true; break;
            case 'E': removes_empty = true; break;
            case 'F': most_fuzz = parse_count(optarg, "fuzz factor"); break;
            case 'b': backs_up = true; break;
            case 'z': suffix = optarg; break;
            case 'l': loose = true; break;
            case 'u': break;
            case 'r': reject_path = optarg; break;
            case NO_BACKUP: no_mismatch_backup = true; break;
            case POSIX: keeps_empty = no_mismatch_backup = true; break;
            default: die_usage();
        }
    }
    const char *operand = optind < argc ? argv[optind++] : NULL;
    if (optind < argc) input = argv[optind++];
    if (optind < argc) die("**** extra operand '%s'", argv[optind]);
    if (!read_whole(input, &text)) return 2;
    return patch_all(operand);
}

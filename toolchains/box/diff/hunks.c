// The hunks of a patch, and where they belong in a file.
#include "patch.h"

#include <ctype.h>

struct patch_options patch_options;
struct bytes patch_text;
size_t patch_at, patch_line;

void add_piece(struct pieces *pieces, const char *start, size_t len) {
    if (pieces->count == pieces->room) {
        pieces->room = 2 * pieces->room + 16;
        pieces->at = grow(pieces->at, pieces->room * sizeof *pieces->at);
    }
    pieces->at[pieces->count++] = (struct piece){start, len};
}

void split_lines(const struct bytes *bytes, struct pieces *pieces) {
    for (size_t start = 0; start < bytes->len;) {
        const char *end = memchr(bytes->at + start, '\n', bytes->len - start);
        size_t next = end ? (size_t)(end - bytes->at) + 1 : bytes->len;
        add_piece(pieces, bytes->at + start, next - start);
        start = next;
    }
}

// --- the patch -----------------------------------------------------------------------------------------------------------

bool peek_line(struct piece *line) {
    if (patch_at >= patch_text.len) return false;
    const char *end = memchr(patch_text.at + patch_at, '\n', patch_text.len - patch_at);
    *line = (struct piece){patch_text.at + patch_at, end ? (size_t)(end + 1 - (patch_text.at + patch_at)) : patch_text.len - patch_at};
    return true;
}

void skip_line(const struct piece *line) {
    patch_at += line->len;
    patch_line++;
}

bool begins_with(const struct piece *line, const char *with) {
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

bool parse_head(const struct piece *line, struct hunk *hunk) {
    if (!begins_with(line, "@@ -")) return false;
    const char *from = line->at + 4;
    if (!parse_range(&from, &hunk->from[0], &hunk->len[0])) return false;
    if (from[0] != ' ' || from[1] != '+') return false;
    from += 2;
    return parse_range(&from, &hunk->from[1], &hunk->len[1]) && strncmp(from, " @@", 3) == 0;
}

void free_hunk(struct hunk *hunk) {
    free(hunk->old.at);
    free(hunk->new.at);
    free(hunk->lines.at);
    *hunk = (struct hunk){0};
}

char sign_of(const struct hunk *hunk, size_t line) {
    char sign = hunk->lines.at[line].at[0];
    if (!hunk->is_turned || (sign != '+' && sign != '-')) return sign;
    return sign == '+' ? '-' : '+';
}

void turn_hunk(struct hunk *hunk) {
    struct pieces old = hunk->old;
    size_t from = hunk->from[0], len = hunk->len[0];
    hunk->old = hunk->new;
    hunk->new = old;
    hunk->from[0] = hunk->from[1];
    hunk->len[0] = hunk->len[1];
    hunk->from[1] = from;
    hunk->len[1] = len;
    hunk->is_turned = !hunk->is_turned;
}

static _Noreturn void malformed(void) {
    struct piece line = {"", 0};
    bool is_there = peek_line(&line);
    die("**** malformed patch at line %zu: %.*s", patch_line + is_there, (int)(line.len < 200 ? line.len : 200), line.at);
}

bool read_hunk(struct hunk *hunk) {
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
    if (patch_options.reversed) turn_hunk(hunk);
    return true;
}

// --- where a hunk belongs ------------------------------------------------------------------------------------------------

static bool same_line(const struct piece *a, const struct piece *b) {
    if (!patch_options.loose) return a->len == b->len && memcmp(a->at, b->at, a->len) == 0;
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

ptrdiff_t find_place(const struct pieces *file, const struct hunk *hunk, ptrdiff_t guess, ptrdiff_t first, size_t fuzz) {
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

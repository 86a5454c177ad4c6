// Finds the lines that two files have in common: the algorithm of Myers, which divides at the middle of a shortest way.
#include "diff.h"

struct work {
    const uint32_t *a, *b; // the numbers of the lines that both files have
    bool *a_changed, *b_changed;
    ptrdiff_t *forward, *backward; // how far each diagonal was followed
    ptrdiff_t most;                // steps before a way counts as good enough
};

struct middle {
    ptrdiff_t x, y;
};

// The best point that was reached, once a shortest way would take too long.
static struct middle best_so_far(const struct work *work, ptrdiff_t x0, ptrdiff_t x1, ptrdiff_t y0, ptrdiff_t y1,
                                 const ptrdiff_t ranges[4]) {
    ptrdiff_t best = -1, least = -1;
    struct middle ahead = {x0, y0}, behind = {x1, y1};
    for (ptrdiff_t d = ranges[1]; d >= ranges[0]; d -= 2) {
        ptrdiff_t x = work->forward[d] < x1 ? work->forward[d] : x1, y = x - d;
        if (y > y1) x = y1 + d, y = y1;
        if (x + y > best) best = x + y, ahead = (struct middle){x, y};
    }
    for (ptrdiff_t d = ranges[3]; d >= ranges[2]; d -= 2) {
        ptrdiff_t x = work->backward[d] > x0 ? work->backward[d] : x0, y = x - d;
        if (y < y0) x = y0 + d, y = y0;
        if (least < 0 || x + y < least) least = x + y, behind = (struct middle){x, y};
    }
    return (x1 + y1) - least < best - (x0 + y0) ? ahead : behind;
}

static struct middle find_middle(const struct work *work, ptrdiff_t x0, ptrdiff_t x1, ptrdiff_t y0, ptrdiff_t y1) {
    ptrdiff_t lowest = x0 - y1, highest = x1 - y0, start = x0 - y0, end = x1 - y1;
    ptrdiff_t forward_low = start, forward_high = start, backward_low = end, backward_high = end;
    bool is_odd = (start - end) & 1;
    ptrdiff_t *forward = work->forward, *backward = work->backward;
    forward[start] = x0;
    backward[end] = x1;
    for (ptrdiff_t steps = 1;; steps++) {
        // The diagonals outside count as not reached.
        if (forward_low > lowest) forward[--forward_low - 1] = -1;
        else forward_low++;
        if (forward_high < highest) forward[++forward_high + 1] = -1;
        else forward_high--;
        for (ptrdiff_t d = forward_high; d >= forward_low; d -= 2) {
            ptrdiff_t below = forward[d - 1], above = forward[d + 1], x = below < above ? above : below + 1, y = x - d;
            while (x < x1 && y < y1 && work->a[x] == work->b[y]) x++, y++;
            forward[d] = x;
            if (is_odd && backward_low <= d && d <= backward_high && backward[d] <= x) return (struct middle){x, y};
        }
        if (backward_low > lowest) backward[--backward_low - 1] = PTRDIFF_MAX;
        else backward_low++;
        if (backward_high < highest) backward[++backward_high + 1] = PTRDIFF_MAX;
        else backward_high--;
        for (ptrdiff_t d = backward_high; d >= backward_low; d -= 2) {
            ptrdiff_t below = backward[d - 1], above = backward[d + 1], x = below < above ? below : above - 1, y = x - d;
            while (x > x0 && y > y0 && work->a[x - 1] == work->b[y - 1]) x--, y--;
            backward[d] = x;
            if (!is_odd && forward_low <= d && d <= forward_high && x <= forward[d]) return (struct middle){x, y};
        }
        if (steps < work->most) continue;
        const ptrdiff_t ranges[4] = {forward_low, forward_high, backward_low, backward_high};
        return best_so_far(work, x0, x1, y0, y1, ranges);
    }
}

static void mark(const struct work *work, ptrdiff_t x0, ptrdiff_t x1, ptrdiff_t y0, ptrdiff_t y1) {
    for (;;) {
        while (x0 < x1 && y0 < y1 && work->a[x0] == work->b[y0]) x0++, y0++;
        while (x0 < x1 && y0 < y1 && work->a[x1 - 1] == work->b[y1 - 1]) x1--, y1--;
        if (x0 == x1) {
            while (y0 < y1) work->b_changed[y0++] = true;
            return;
        }
        if (y0 == y1) {
            while (x0 < x1) work->a_changed[x0++] = true;
            return;
        }
        struct middle middle = find_middle(work, x0, x1, y0, y1);
        if ((middle.x == x0 && middle.y == y0) || (middle.x == x1 && middle.y == y1)) {
            // No way was found in time: all of it is different.
            while (x0 < x1) work->a_changed[x0++] = true;
            while (y0 < y1) work->b_changed[y0++] = true;
            return;
        }
        mark(work, x0, middle.x, y0, middle.y);
        x0 = middle.x;
        y0 = middle.y;
    }
}

// Lines that the other file does not have are different without a search. Answers the others' numbers and places.
static size_t keep_common(struct lines *lines, const uint32_t *others, uint32_t *numbers, size_t *places) {
    size_t count = 0;
    for (size_t i = 0; i < lines->count; i++) {
        lines->changed[i] = !others[lines->same[i]];
        if (lines->changed[i]) continue;
        numbers[count] = lines->same[i];
        places[count++] = i;
    }
    return count;
}

// A run of different lines can often be moved, as its first line is the same as the one behind it. It goes as far down
// as it can, or to where the other file has different lines too.
static void move_runs(struct lines *lines, const struct lines *other) {
    bool *changed = lines->changed;
    const bool *other_changed = other->changed;
    const uint32_t *same = lines->same;
    ptrdiff_t end = lines->count, at = 0, beside = 0; // beside: the line of the other file
    for (;;) {
        for (; at < end && !changed[at]; at++) {
            while (other_changed[beside]) beside++;
            beside++;
        }
        if (at == end) return;
        ptrdiff_t start = at, len, partner;
        while (changed[at]) at++;
        while (other_changed[beside]) beside++;
        do {
            len = at - start;
            while (start && same[start - 1] == same[at - 1]) {
                changed[--start] = true;
                changed[--at] = false;
                while (start && changed[start - 1]) start--;
                beside--;
                while (other_changed[beside]) beside--;
            }
            partner = beside && other_changed[beside - 1] ? at : end;
            while (at < end && same[start] == same[at]) {
                changed[start++] = false;
                changed[at++] = true;
                while (changed[at]) at++;
                beside++;
                for (; other_changed[beside]; beside++) partner = at;
            }
        } while (len != at - start);
        while (partner < at) {
            changed[--start] = true;
            changed[--at] = false;
            beside--;
            while (other_changed[beside]) beside--;
        }
    }
}

void compare_lines(struct lines *a, struct lines *b, size_t numbers) {
    uint32_t *in_a = grow(NULL, numbers * sizeof *in_a), *in_b = grow(NULL, numbers * sizeof *in_b);
    memset(in_a, 0, numbers * sizeof *in_a);
    memset(in_b, 0, numbers * sizeof *in_b);
    for (size_t i = 0; i < a->count; i++) in_a[a->same[i]]++;
    for (size_t i = 0; i < b->count; i++) in_b[b->same[i]]++;
    uint32_t *x = grow(NULL, a->count * sizeof *x), *y = grow(NULL, b->count * sizeof *y);
    size_t *x_places = grow(NULL, a->count * sizeof *x_places), *y_places = grow(NULL, b->count * sizeof *y_places);
    size_t x_count = keep_common(a, in_b, x, x_places), y_count = keep_common(b, in_a, y, y_places);
    size_t diagonals = x_count + y_count + 3;
    ptrdiff_t *ways = grow(NULL, 2 * diagonals * sizeof *ways);
    bool *x_changed = grow(NULL, x_count + 1), *y_changed = grow(NULL, y_count + 1);
    memset(x_changed, 0, x_count + 1);
    memset(y_changed, 0, y_count + 1);
    struct work work = {.a = x, .b = y, .a_changed = x_changed, .b_changed = y_changed, .most = 4096};
    work.forward = ways + y_count + 1;
    work.backward = work.forward + diagonals;
    mark(&work, 0, x_count, 0, y_count);
    for (size_t i = 0; i < x_count; i++) a->changed[x_places[i]] = x_changed[i];
    for (size_t i = 0; i < y_count; i++) b->changed[y_places[i]] = y_changed[i];
    move_runs(a, b);
    move_runs(b, a);
    free(in_a);
    free(in_b);
    free(x);
    free(y);
    free(x_places);
    free(y_places);
    free(ways);
    free(x_changed);
    free(y_changed);
}

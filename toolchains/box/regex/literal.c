// A text that each match of an expression has: who looks for that first runs the expression on fewer lines.
#include "regex.h"

// Anything that is not clearly a plain character ends a text, which is then shorter than it could be.
char *regex_literal(const char *pattern, bool extended) {
    const char *special = extended ? "^$.[]*+?{}()|\\" : "^$.[]*\\";
    struct bytes best = {0}, run = {0};
    append(&best, "", 0);
    append(&run, "", 0);
    for (const char *at = pattern;; at++) {
        bool escapes = *at == '\\' && at[1] && strchr(extended ? ".[]*^$\\/-+?(){}|" : ".[]*^$\\/-", at[1]);
        const char *character = escapes ? at + 1 : at;
        bool plain = escapes || (*at && !(*at & 0x80) && !strchr(special, *at));
        const char *next = plain ? character + 1 : at;
        // The character in front of these may be missing, or be there more than once.
        const char *sign = extended ? next : next + (*next == '\\');
        bool repeats = plain && (*next == '*' || ((extended || sign != next) && *sign && strchr("+?{", *sign)));
        if (plain && !repeats) {
            append(&run, character, 1);
            at = character;
            continue;
        }
        if (run.len > best.len) {
            struct bytes swap = best;
            best = run;
            run = swap;
        }
        run.len = 0;
        if (plain) {
            at = character;
        } else if (!*at) {
            break;
        } else if (*at == '[') {
            const char *end = at + 1 + (at[1] == '^');
            if (*end == ']') end++;
            while (*end && *end != ']') {
                const char *inner = *end == '[' && end[1] && strchr(".:=", end[1]) ? strchr(end + 2, ']') : NULL;
                end = inner ? inner + 1 : end + 1;
            }
            if (!*end) break;
            at = end;
        } else if (*at == '{') {
            at += strcspn(at, "}");
            if (!*at) break;
        } else if (*at == '\\' && at[1] && strchr("wWsSbB<>?+123456789", at[1])) {
            at++;
        } else if (*at == '\\' || (extended && strchr("()|", *at))) {
            // What is inside may be optional, or one of several; or the escape takes more than one character.
            best.len = 0;
            break;
        }
    }
    free(run.at);
    if (!best.len) {
        free(best.at);
        return NULL;
    }
    return best.at;
}

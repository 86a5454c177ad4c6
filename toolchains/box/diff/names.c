// The names in the head lines of a patch.
#include "patch.h"

#include <ctype.h>

// What stands between double quotes, as C has it, from behind the first. `end` moves behind the last. NULL if it is no
// such text, or none that can be a name.
static char *unquote(const char *at, const char **end) {
    static const char letters[] = "abfnrtv\\\"", values[] = "\a\b\f\n\r\t\v\\\"";
    struct bytes name = {0};
    append(&name, "", 0);
    for (; *at != '"'; at++) {
        char c = *at;
        if (c == '\\') {
            const char *letter = *++at ? strchr(letters, *at) : NULL;
            bool is_octal = *at >= '0' && *at <= '3' && at[1] >= '0' && at[1] <= '7' && at[2] >= '0' && at[2] <= '7';
            c = letter ? values[letter - letters] : is_octal ? (char)((*at - '0') << 6 | (at[1] - '0') << 3 | (at[2] - '0')) : '\0';
            if (is_octal) at += 2;
        } else if (c == '\n') {
            c = '\0';
        }
        if (!c) {
            free(name.at);
            return NULL;
        }
        append(&name, &c, 1);
    }
    *end = at + 1;
    return name.at;
}

// Where the name of a line ends that has no quotes: at the first blank, or at a tab behind, as that is what stands
// between a name with blanks and its time.
static const char *end_of_name(const char *line) {
    const char *end = line;
    while (*end && !isspace((unsigned char)*end)) end++;
    if (*end == '\t') return end;
    const char *tab = end + strcspn(end, "\t\n");
    return *tab == '\t' ? tab : end;
}

// The name as it is written, "" if it cannot be read, and where it ends.
static char *whole_name(const char *line, const char **end) {
    while (*line == ' ' || *line == '\t') line++;
    *end = line + strcspn(line, "\n");
    if (*line == '"') {
        char *name = unquote(line + 1, end);
        return name ? name : copy_text("");
    }
    *end = end_of_name(line);
    char *name = strndup(line, *end - line);
    if (!name) die("out of memory");
    return name;
}

char *name_of(const char *line, int strip) {
    const char *end;
    char *name = whole_name(line, &end);
    bool is_none = strcmp(name, "/dev/null") == 0;
    const char *rest = name;
    for (int i = 0; strip < 0 || i < strip; i++) {
        const char *slash = strchr(rest, '/');
        if (!slash) break;
        rest = slash + strspn(slash, "/");
    }
    char *stripped = is_none ? NULL : copy_text(rest);
    free(name);
    return stripped;
}

const char *behind_name(const char *line) {
    const char *end;
    free(whole_name(line, &end));
    return end;
}

char *quoted(const char *name) {
    bool is_plain = *name && *name != '#' && *name != '~';
    for (const char *at = name; *at && is_plain; at++) {
        is_plain = (unsigned char)*at > ' ' && *at != 0x7f && !strchr("!\"$&'()*;<=>?[\\^`|", *at);
    }
    if (is_plain) return copy_text(name);
    struct bytes text = {0};
    append(&text, "'", 1);
    for (const char *at = name; *at; at++) {
        if (*at == '\'') append(&text, "'\\'", 3);
        append(&text, at, 1);
    }
    append(&text, "'", 1);
    return text.at;
}

// Takes the first part off a path. The caller frees it; NULL at the last one.
static char *take_part(char **path) {
    size_t len = strcspn(*path, "/"), next = len + strspn(*path + len, "/");
    if (!(*path)[next]) return NULL;
    char *part = strndup(*path, len);
    if (!part) die("out of memory");
    memmove(*path, *path + next, strlen(*path + next) + 1);
    return part;
}

bool leads_out(const char *path) {
    char *rest = copy_text(path), *here = copy_text(""), *part;
    bool is_outside = false;
    for (int links = 0; !is_outside && (part = take_part(&rest)); free(part)) {
        if (strcmp(part, "..") == 0) {
            is_outside = !*here;
            char *slash = strrchr(here, '/');
            *(slash ? slash : here) = '\0';
            continue;
        }
        if (!*part || strcmp(part, ".") == 0) continue;
        char *next = join(here, part), *target = link_text(next);
        is_outside = target && (*target == '/' || ++links > 40);
        if (target) {
            char *longer = join(target, rest);
            free(rest);
            rest = longer;
            free(target);
            free(next);
        } else {
            free(here);
            here = next;
        }
    }
    free(rest);
    free(here);
    return is_outside;
}

// What git writes in front of the hunks of a file: its modes, and that it is another's copy.
#include "patch.h"

// The name of a line `diff --git a/NAME b/NAME`, from behind `--git `: without quotes, the names are halves of it.
static char *name_of_pair(const struct piece *line, size_t skipped, int strip) {
    struct bytes name = {0};
    const char *at = line->at + skipped;
    size_t len = line->len - skipped;
    while (len && (at[len - 1] == '\n' || at[len - 1] == '\r')) len--;
    append(&name, at, *at == '"' ? len : len / 2);
    append(&name, "\t\n", 2);
    char *stripped = name_of(name.at, strip);
    free(name.at);
    return stripped ? stripped : copy_text("");
}

static bool parse_mode_of(const struct piece *line, const char *with, unsigned *mode) {
    if (!begins_with(line, with)) return false;
    *mode = (unsigned)strtoul(line->at + strlen(with), NULL, 8);
    return true;
}

bool read_git(struct git *git, int strip) {
    static const char start[] = "diff --git ";
    struct piece line;
    *git = (struct git){0};
    if (!peek_line(&line) || !begins_with(&line, start)) return false;
    git->name = name_of_pair(&line, sizeof start - 1, strip);
    for (skip_line(&line); peek_line(&line); skip_line(&line)) {
        bool moves = begins_with(&line, "rename ") || begins_with(&line, "copy ");
        bool is_of_mode = parse_mode_of(&line, "old mode ", &git->modes[0]) || parse_mode_of(&line, "new mode ", &git->modes[1]);
        git->creates |= parse_mode_of(&line, "new file mode ", &git->modes[1]);
        git->removes |= parse_mode_of(&line, "deleted file mode ", &git->modes[0]);
        git->moves |= moves;
        git->is_binary |= begins_with(&line, "GIT binary patch") || begins_with(&line, "Binary files ");
        bool is_known = moves || is_of_mode || git->is_binary || begins_with(&line, "new file mode ") ||
                        begins_with(&line, "deleted file mode ") || begins_with(&line, "index ") ||
                        begins_with(&line, "similarity index ") || begins_with(&line, "dissimilarity index ");
        if (!is_known || git->is_binary) break;
    }
    git->has_hunks = peek_line(&line) && begins_with(&line, "--- ");
    if (!patch_options.reversed) return true;
    unsigned mode = git->modes[0];
    bool creates = git->creates;
    git->modes[0] = git->modes[1];
    git->modes[1] = mode;
    git->creates = git->removes;
    git->removes = creates;
    return true;
}

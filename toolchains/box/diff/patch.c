// patch: applies what diff -u prints.
#include "patch.h"

static bool dry, silent, keeps_empty, removes_empty, backs_up, no_mismatch_backup;
static enum { ASK, FORWARD, BATCH, FORCE } manner; // -N, -t, -f: of what looks as if it was applied before
static int strip = -1;
static size_t most_fuzz = 2;
static const char *output_path, *reject_path, *suffix = ".orig";
static struct git git; // of the file that is patched

// --- one file ------------------------------------------------------------------------------------------------------------

struct target {
    char *path;
    struct bytes bytes;
    struct pieces file, made;
    size_t used;      // lines of the file that are in `made` already
    ptrdiff_t offset; // of the last hunk
    size_t hunks, failed;
    bool was_there, removes, is_mismatched, is_turned; // is_turned: it was applied before, and is taken back
    struct bytes rejects;
};

// A range of a hunk's head: a single line goes without its count.
static void append_range(struct bytes *to, const char *sign, ptrdiff_t start, size_t len) {
    char text[64];
    if (len == 1) snprintf(text, sizeof text, "%s%td", sign, start);
    else snprintf(text, sizeof text, "%s%td,%zu", sign, start, len);
    append(to, text, strlen(text));
}

// Of these lines, those with the sign `wanted`, each with the remark that it has no end.
static void append_lines(struct bytes *to, const struct hunk *hunk, size_t from, size_t end, char wanted) {
    bool takes = false;
    for (size_t i = from; i < end; i++) {
        char sign = sign_of(hunk, i);
        if (sign != '\\') takes = sign == wanted;
        if (!takes) continue;
        append(to, &sign, 1);
        append(to, hunk->lines.at[i].at + 1, hunk->lines.at[i].len - 1);
    }
}

static void reject(struct target *target, const struct hunk *hunk) {
    // Where it is in the file as it is now, after the hunks in front.
    ptrdiff_t shift = (ptrdiff_t)target->made.count - (ptrdiff_t)target->used;
    append_range(&target->rejects, "@@ -", (ptrdiff_t)hunk->from[0] + shift, hunk->len[0]);
    append_range(&target->rejects, " +", (ptrdiff_t)hunk->from[1] + shift, hunk->len[1]);
    append(&target->rejects, " @@\n", 4);
    for (size_t i = 0, end; i < hunk->lines.count; i = end) {
        for (end = i; end < hunk->lines.count && sign_of(hunk, end) != ' ';) end++;
        if (end == i) {
            do end++;
            while (end < hunk->lines.count && sign_of(hunk, end) == '\\');
            append_lines(&target->rejects, hunk, i, end, ' ');
        }
        // What goes stands in front of what comes, also where the patch is turned around.
        append_lines(&target->rejects, hunk, i, end, '-');
        append_lines(&target->rejects, hunk, i, end, '+');
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
        char sign = sign_of(hunk, i);
        if (sign == '\\') continue;
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
    if (bytes->len) fwrite(bytes->at, 1, bytes->len, file);
    if (ferror(file) | (file == stdout ? fflush(file) : fclose(file))) die("**** write error on %s: %s", path, strerror(errno));
}

// Writes a file in the place of what is there, which is not written through if it is a link.
static void write_new(const char *path, const struct bytes *bytes) {
    unlink(path);
    write_bytes(path, bytes);
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
    write_new(beside.at, bytes);
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
    if (dry) {
        puts("");
    } else {
        char *shown = quoted(path);
        printf(" -- saving rejects to file %s\n", shown);
        free(shown);
        struct bytes all = {0};
        append_head(&all, "--- ", old_name);
        append_head(&all, "+++ ", new_name);
        append(&all, target->rejects.at, target->rejects.len);
        struct stat stat_;
        if (reject_path && lstat(path, &stat_) == 0 && S_ISLNK(stat_.st_mode)) {
            die("**** Can't create file %s : %s", path, strerror(ELOOP));
        }
        write_new(path, &all);
        free(all.at);
    }
    free(path);
}

// What the file was before is kept beside it: once, if a patch has several parts for it. Of a new file, that is nothing.
static void back_up(const struct target *target) {
    static struct texts kept;
    for (size_t i = 0; i < kept.count; i++) {
        if (strcmp(kept.at[i], target->path) == 0) return;
    }
    push(&kept, copy_text(target->path));
    char *backup = with_suffix(target->path, suffix);
    make_parents_of(backup);
    write_new(backup, &target->bytes);
    bool executable = target->was_there && get_executable(target->path, true);
    if (executable != get_executable(backup, true)) set_executable(backup, executable);
    free(backup);
}

// Removes a file, and the directories that it leaves empty.
static void remove_file(const char *path) {
    if (unlink(path)) die("**** Can't remove file %s : %s", path, strerror(errno));
    char *dir = copy_text(path);
    for (char *slash; (slash = strrchr(dir, '/'));) {
        while (slash > dir && slash[-1] == '/') slash--;
        *slash = '\0';
        if (!*dir || rmdir(dir)) break;
    }
    free(dir);
}

static void set_mode(const char *path, unsigned mode) {
    bool executable = mode & 0111;
    if (executable != get_executable(path, true) && set_executable(path, executable)) {
        die("**** Can't set permissions on file %s : %s", path, strerror(errno));
    }
}

static void write_target(const struct target *target, const struct bytes *made) {
    const char *to = output_path ? output_path : target->path;
    if (!target->was_there) make_parents_of(to);
    if (target->was_there && !output_path) {
        replace_bytes(to, made);
    } else {
        write_bytes(to, made);
        if (target->was_there && get_executable(target->path, true)) set_executable(to, true);
    }
    unsigned mode = git.modes[!target->is_turned];
    if (mode) set_mode(to, mode);
}

static void finish_target(struct target *target) {
    for (; target->used < target->file.count; target->used++) {
        add_piece(&target->made, target->file.at[target->used].at, target->file.at[target->used].len);
    }
    struct bytes made = {0};
    append(&made, "", 0);
    for (size_t i = 0; i < target->made.count; i++) append(&made, target->made.at[i].at, target->made.at[i].len);
    bool backs = backs_up || (target->is_mismatched && !no_mismatch_backup);
    if (!dry && backs && !output_path) back_up(target);
    if (dry || (target->failed == target->hunks && target->hunks)) {
        // Nothing came of it.
    } else if (!made.len && (target->removes || removes_empty) && !keeps_empty && !output_path) {
        if (target->was_there) remove_file(target->path);
    } else {
        write_target(target, &made);
    }
    free(made.at);
}

// --- which file ------------------------------------------------------------------------------------------------------------

// A line of a head, with its name as it was looked for.
static void append_head(struct bytes *to, const char *sign, const char *line) {
    char *name = name_of(line, strip);
    const char *shown = name ? name : "/dev/null", *time = behind_name(line);
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
    bool old_there = old_name && lstat(old_name, &stat_) == 0, new_there = new_name && lstat(new_name, &stat_) == 0;
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
    do {
        target->hunks++;
        reject(target, hunk);
        free_hunk(hunk);
    } while (read_hunk(hunk));
    if (old_line) write_rejects(target, old_line, new_line, "ignored");
    else printf("%zu out of %zu hunk%s ignored\n", target->failed, target->hunks, target->hunks == 1 ? "" : "s");
    return 1;
}

// After a message that the patch looks as if it was applied before: whether to go on.
static bool goes_on(struct target *target, struct hunk *hunk) {
    const char *what = patch_options.reversed ? "Ignor" : "Assum";
    switch (manner) {
        case FORCE: puts("  Applying it anyway."); return true;
        case BATCH:
            printf("  %sing -R.\n", what);
            target->is_turned = true;
            turn_hunk(hunk);
            return true;
        case FORWARD: puts("  Skipping patch."); return false;
        default: printf("  %se -R? [n] \nApply anyway? [n] \nSkipping patch.\n", what); return false;
    }
}

static bool removes_file(const struct hunk *hunk, const char *new_name, const char *new_line) {
    return !new_name || (hunk->from[1] == 0 && hunk->len[1] == 0 && is_epoch(new_line));
}

// Whether the file is there that a patch makes, or missing that it removes; and it goes on in spite of that.
static bool passes_existence(struct target *target, struct hunk *hunk, bool creates) {
    bool is_double = (creates && target->bytes.len) || (!target->was_there && target->removes && !creates);
    if (!is_double) return true;
    char *shown = quoted(target->path);
    printf("The next patch%s would %s the file %s,\nwhich %s!", patch_options.reversed ? ", when reversed," : "",
           creates ? "create" : "delete", shown, creates ? "already exists" : "does not exist");
    free(shown);
    if (!goes_on(target, hunk)) return false;
    if (target->is_turned) target->removes = creates;
    return true;
}

// Whether the first hunk does not fit the other way round only; or it goes on in spite of that.
static bool passes_direction(struct target *target, struct hunk *hunk) {
    if (manner == FORCE || find_place(&target->file, hunk, (ptrdiff_t)hunk->from[0] - (hunk->len[0] > 0), 0, 0) >= 0) return true;
    turn_hunk(hunk);
    bool was_applied = hunk->old.count && find_place(&target->file, hunk, (ptrdiff_t)hunk->from[0] - 1, 0, 0) >= 0;
    turn_hunk(hunk);
    if (!was_applied) return true;
    printf(patch_options.reversed ? "Unreversed patch detected!" : "Reversed (or previously applied) patch detected!");
    if (!goes_on(target, hunk)) return false;
    target->is_mismatched = true;
    return true;
}

static void tell_file(const struct target *target) {
    if (silent) return;
    char *shown = quoted(target->path), *to = output_path ? quoted(output_path) : NULL;
    const char *verb = dry ? "checking" : "patching";
    if (to) printf("%s file %s (read from %s)\n", verb, to, shown);
    else printf("%s file %s\n", verb, shown);
    free(shown);
    free(to);
}

// The file that a patch is for; NULL, after a message, if there is none.
static char *find_path(char *old_name, char *new_name, bool creates, bool removes, size_t line) {
    char *path = choose(old_name, new_name);
    if (!path && creates && new_name && *new_name) path = new_name;
    if (!path && removes && old_name && *old_name) path = old_name;
    if (!path) {
        printf("can't find file to patch at input line %zu\n", line);
        printf("No file to patch.  Skipping patch.\n");
        return NULL;
    }
    if (is_inside(path) && leads_out(path)) {
        printf("Invalid file name %s -- skipping patch\n", path);
        return NULL;
    }
    if (is_inside(path)) return path;
    printf("Ignoring potentially dangerous file name %s\n", path);
    return NULL;
}

static int patch_target(struct target *target, struct hunk *hunk, const char *old_line, const char *new_line, bool creates) {
    struct stat stat_;
    target->was_there = lstat(target->path, &stat_) == 0;
    if (target->was_there && !S_ISREG(stat_.st_mode)) {
        char *shown = quoted(target->path);
        printf("File %s is not a regular file -- refusing to patch\n", shown);
        free(shown);
        return ignore_hunks(target, hunk, old_line, new_line);
    }
    if (target->was_there && !read_whole(target->path, &target->bytes)) exit(2);
    split_lines(&target->bytes, &target->file);
    if (!passes_existence(target, hunk, creates)) return ignore_hunks(target, hunk, NULL, NULL);
    tell_file(target);
    if (!target->is_turned && !passes_direction(target, hunk)) return ignore_hunks(target, hunk, old_line, new_line);
    for (bool has_hunk = true; has_hunk;) {
        apply_hunk(target, hunk);
        free_hunk(hunk);
        has_hunk = read_hunk(hunk);
        if (has_hunk && target->is_turned) turn_hunk(hunk);
    }
    finish_target(target);
    if (target->failed) write_rejects(target, old_line, new_line, "FAILED");
    return target->failed > 0;
}

static int patch_file(const char *old_line, const char *new_line, const char *operand) {
    if (patch_options.reversed) {
        const char *swap = old_line;
        old_line = new_line;
        new_line = swap;
    }
    struct hunk hunk;
    size_t line = patch_line + 1;
    if (!read_hunk(&hunk)) return 0;
    char *old_name = name_of(old_line, strip), *new_name = name_of(new_line, strip);
    bool creates = hunk.from[0] == 0 && hunk.len[0] == 0;
    struct target target = {.removes = removes_file(&hunk, new_name, new_line)};
    char *path = operand ? (char *)operand : find_path(old_name, new_name, creates, target.removes, line);
    int status = 1;
    if (path) {
        target.path = copy_text(path);
        status = patch_target(&target, &hunk, old_line, new_line, creates);
    } else {
        size_t count = 0;
        do count++, free_hunk(&hunk);
        while (read_hunk(&hunk));
        printf("%zu out of %zu hunk%s ignored\n", count, count, count == 1 ? "" : "s");
    }
    free(old_name);
    free(new_name);
    return status;
}

// Of what git says, what is not done here: answers what to say of it, or NULL.
static const char *beyond(void) {
    enum { TYPE = 0170000, LINK = 0120000 };
    if (git.is_binary) return "git binary diffs are not supported.";
    if (git.moves) return "git renames and copies are not supported.";
    bool is_link = (git.modes[0] & TYPE) == LINK || (git.modes[1] & TYPE) == LINK;
    return is_link ? "git diffs of symbolic links are not supported." : NULL;
}

// A file that has no hunks: it is empty, and made or removed, or its mode changes.
static int patch_without_hunks(void) {
    struct stat stat_;
    if (!git.creates && !git.removes && !git.modes[1]) return 0;
    bool is_there = lstat(git.name, &stat_) == 0;
    if (!is_inside(git.name) || leads_out(git.name) || (is_there && !S_ISREG(stat_.st_mode)) || is_there == git.creates || (git.removes && stat_.st_size)) {
        printf("File %s: the change of git does not fit -- refusing to patch\n", git.name);
        return 1;
    }
    struct target target = {.path = git.name, .was_there = is_there};
    tell_file(&target);
    if (dry || output_path) return 0;
    if (git.removes) {
        remove_file(git.name);
    } else {
        if (git.creates) write_target(&target, &(struct bytes){.at = ""});
        set_mode(git.name, git.modes[1]);
    }
    return 0;
}

// Takes in what git says of a file, and does what it can without hunks.
static int start_git(void) {
    free(git.name);
    if (!read_git(&git, strip)) return 0;
    const char *why = beyond();
    if (!why) return git.has_hunks ? 0 : patch_without_hunks();
    printf("File %s: %s\n", git.name, why);
    struct piece line;
    struct hunk hunk;
    for (int i = 0; git.has_hunks && i < 2 && peek_line(&line); i++) skip_line(&line);
    while (git.has_hunks && read_hunk(&hunk)) free_hunk(&hunk);
    return 1;
}

static int patch_all(const char *operand) {
    struct piece line;
    const char *old_line = NULL;
    int status = 0;
    bool any = false;
    while (peek_line(&line)) {
        struct hunk probe = {0};
        if (begins_with(&line, "diff --git ")) {
            any = true;
            status |= start_git();
            continue;
        }
        if (begins_with(&line, "--- ")) {
            struct piece next;
            size_t saved = patch_at;
            skip_line(&line);
            if (peek_line(&next) && begins_with(&next, "+++ ")) {
                old_line = line.at + 4;
                const char *new_line = next.at + 4;
                skip_line(&next);
                any = true;
                status |= patch_file(old_line, new_line, operand);
                free(git.name);
                git = (struct git){0};
                continue;
            }
            patch_at = saved;
            patch_line--;
        } else if (parse_head(&line, &probe) && operand) {
            any = true;
            status |= patch_file("/dev/null\n", "/dev/null\n", operand);
            continue;
        }
        skip_line(&line);
    }
    if (!any && patch_text.len) die("**** Only garbage was found in the patch input.");
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
            case 'R': patch_options.reversed = true; break;
            case DRY: dry = true; break;
            case 's': silent = true; break;
            case 'i': input = optarg; break;
            case 'd': if (chdir(optarg)) die("**** Can't change to directory %s : %s", optarg, strerror(errno)); break;
            case 'o': output_path = optarg; break;
            case 'N': manner = FORWARD; break;
            case 'f': manner = FORCE; break;
            case 't': manner = BATCH; break;
            case 'E': removes_empty = true; break;
            case 'F': most_fuzz = parse_count(optarg, "fuzz factor"); break;
            case 'b': backs_up = true; break;
            case 'z': suffix = optarg; break;
            case 'l': patch_options.loose = true; break;
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
    if (!read_whole(input, &patch_text)) return 2;
    return patch_all(operand);
}

// ls: what is in directories.
#include "../box.h"

#include <time.h>

static bool all, almost_all, is_long, recursive, dirs_as_files, marks, slashes, reverse, by_time, by_size, inodes, human;
// Whether what links lead to is shown in place of them: of all, or of those that are named.
static bool follows_all, follows_operands;

struct entry {
    char *name;
    struct stat stat;
    bool executable;
    char *target; // of a link
};

static int compare(const void *left, const void *right) {
    const struct entry *a = left, *b = right;
    int order = 0;
    if (by_size) order = (b->stat.st_size > a->stat.st_size) - (b->stat.st_size < a->stat.st_size);
    if (by_time) {
        const struct timespec *x = &a->stat.st_mtim, *y = &b->stat.st_mtim;
        order = y->tv_sec != x->tv_sec ? (y->tv_sec > x->tv_sec ? 1 : -1) : (y->tv_nsec > x->tv_nsec) - (y->tv_nsec < x->tv_nsec);
    }
    if (!order) order = strcmp(a->name, b->name);
    return reverse ? -order : order;
}

static char *target_of(const char *path) {
    for (size_t size = 256; size < 1 << 20; size *= 2) {
        char *text = grow(NULL, size);
        ssize_t len = readlink(path, text, size);
        if (len >= 0 && len < (ssize_t)size) {
            text[len] = '\0';
            return text;
        }
        free(text);
        if (len < 0) break;
    }
    return NULL;
}

static void print_size(off_t size) {
    static const char units[] = "KMGT";
    if (!human || size < 1024) {
        printf(human ? "%4lld" : "%lld", (long long)size);
        return;
    }
    double scaled = size;
    int unit = -1;
    for (; scaled >= 1024 && unit < 3; unit++) scaled /= 1024;
    printf(scaled < 9.95 ? "%3.1f%c" : "%3.0f%c", scaled, units[unit]);
}

// There are no users and, but for executing, no modes: what is shown for them says what kind it is, and that anybody may.
static void print_long(const struct entry *entry, int links_width, int size_width) {
    mode_t mode = entry->stat.st_mode;
    const char *shown = S_ISDIR(mode) ? "drwxr-xr-x" : S_ISLNK(mode) ? "lrwxrwxrwx"
                      : entry->executable ? "-rwxr-xr-x" : "-rw-r--r--";
    printf("%s %*llu root root ", shown, links_width, (unsigned long long)entry->stat.st_nlink);
    if (human) print_size(entry->stat.st_size);
    else printf("%*lld", size_width, (long long)entry->stat.st_size);
    char text[64];
    time_t now = time(NULL), then = entry->stat.st_mtim.tv_sec;
    bool recent = then <= now && now - then < 15778476;
    strftime(text, sizeof text, recent ? " %b %e %H:%M " : " %b %e  %Y ", gmtime(&then));
    fputs(text, stdout);
}

static void print_entries(struct entry *entries, size_t count) {
    int links_width = 1, size_width = 1;
    for (size_t i = 0; is_long && i < count; i++) {
        int links = snprintf(NULL, 0, "%llu", (unsigned long long)entries[i].stat.st_nlink);
        int size = snprintf(NULL, 0, "%lld", (long long)entries[i].stat.st_size);
        if (links > links_width) links_width = links;
        if (size > size_width) size_width = size;
    }
    for (size_t i = 0; i < count; i++) {
        const struct entry *entry = &entries[i];
        if (inodes) printf("%llu ", (unsigned long long)entry->stat.st_ino);
        if (is_long) print_long(entry, links_width, size_width);
        fputs(entry->name, stdout);
        if (is_long && entry->target) printf(" -> %s", entry->target);
        else if (S_ISDIR(entry->stat.st_mode) && (marks || slashes)) putchar('/');
        else if (S_ISLNK(entry->stat.st_mode) && marks) putchar('@');
        else if (entry->executable && marks) putchar('*');
        putchar('\n');
    }
}

static void free_entries(struct entry *entries, size_t count) {
    for (size_t i = 0; i < count; i++) {
        free(entries[i].name);
        free(entries[i].target);
    }
    free(entries);
}

// Fills `entry`; false after a message.
static bool look(const char *path, const char *name, bool follow, struct entry *entry) {
    bool found = follow && !stat(path, &entry->stat);
    // A link that leads nowhere is shown itself; one that leads through a file is an error.
    if (!found && (!follow || errno == ENOENT || errno == ELOOP)) found = !lstat(path, &entry->stat);
    // The root's parent is the root, which some namespaces do not say.
    if (!found && errno == EPERM && !strcmp(name, "..")) {
        char *here = copy_text(path);
        here[strlen(here) - 1] = '\0';
        found = !lstat(here, &entry->stat);
        free(here);
    }
    if (!found) {
        warn("cannot access '%s': %s", path, strerror(errno));
        return false;
    }
    entry->name = copy_text(name);
    entry->executable = (is_long || marks) && S_ISREG(entry->stat.st_mode) && get_executable(path, true);
    entry->target = S_ISLNK(entry->stat.st_mode) ? target_of(path) : NULL;
    return true;
}

static int list(const char *path, bool titled, bool first) {
    struct texts names;
    if (!list_dir(path, &names)) {
        warn("cannot open directory '%s': %s", path, strerror(errno));
        return 2;
    }
    if (all) {
        push(&names, copy_text("."));
        push(&names, copy_text(".."));
    }
    if (!first) putchar('\n');
    if (titled) printf("%s:\n", path);
    struct entry *entries = grow(NULL, (names.count + 1) * sizeof *entries);
    size_t count = 0;
    int status = 0;
    unsigned long long blocks = 0;
    for (size_t i = 0; i < names.count; i++) {
        if (names.at[i][0] == '.' && !all && !almost_all) continue;
        char *inner = join(path, names.at[i]);
        if (!look(inner, names.at[i], follows_all, &entries[count])) status = 1;
        else blocks += entries[count++].stat.st_blocks;
        free(inner);
    }
    free_texts(&names);
    qsort(entries, count, sizeof *entries, compare);
    if (is_long) printf("total %llu\n", blocks / 2);
    print_entries(entries, count);
    for (size_t i = 0; recursive && i < count; i++) {
        const char *name = entries[i].name;
        if (!S_ISDIR(entries[i].stat.st_mode) || !strcmp(name, ".") || !strcmp(name, "..")) continue;
        char *inner = join(path, name);
        int inner_status = list(inner, true, false);
        if (inner_status > status) status = inner_status;
        free(inner);
    }
    free_entries(entries, count);
    return status;
}

int tool_ls(int argc, char **argv) {
    trouble = 2;
    for (int option; (option = getopt_long(argc, argv, "1aAlRdFprtSihLHn", (struct option[]){{0}}, NULL)) != -1;) {
        switch (option) {
            case '1': break;
            case 'L': follows_all = true; break;
            case 'H': follows_operands = true; break;
            case 'a': all = true; break;
            case 'A': almost_all = true; break;
            case 'l': case 'n': is_long = true; break;
            case 'R': recursive = true; break;
            case 'd': dirs_as_files = true; break;
            case 'F': marks = true; break;
            case 'p': slashes = true; break;
            case 'r': reverse = true; break;
            case 't': by_time = true; break;
            case 'S': by_size = true; break;
            case 'i': inodes = true; break;
            case 'h': human = true; break;
            default: die_usage();
        }
    }
    char *here[] = {".", NULL}, **operands = optind < argc ? argv + optind : here;
    size_t operand_count = optind < argc ? (size_t)(argc - optind) : 1;
    struct entry *files = grow(NULL, operand_count * sizeof *files), *dirs = grow(NULL, operand_count * sizeof *dirs);
    size_t file_count = 0, dir_count = 0;
    int status = 0;
    for (size_t i = 0; i < operand_count; i++) {
        struct entry entry = {0};
        // A link that is named is followed, unless it is asked about itself.
        bool follows = follows_all || follows_operands || (!is_long && !dirs_as_files && !marks);
        if (!look(operands[i], operands[i], follows, &entry)) {
            status = 2;
        } else if (S_ISDIR(entry.stat.st_mode) && !dirs_as_files) {
            dirs[dir_count++] = entry;
        } else {
            files[file_count++] = entry;
        }
    }
    qsort(files, file_count, sizeof *files, compare);
    qsort(dirs, dir_count, sizeof *dirs, compare);
    print_entries(files, file_count);
    for (size_t i = 0; i < dir_count; i++) {
        int dir_status = list(dirs[i].name, operand_count > 1 || recursive, i == 0 && file_count == 0);
        if (dir_status > status) status = dir_status;
    }
    free_entries(files, file_count);
    free_entries(dirs, dir_count);
    return status;
}

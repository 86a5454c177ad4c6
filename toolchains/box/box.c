// box: the small tools that scripts of builds call, in one module. The tool is that of its name: `cat FILE` where the
// module is called `cat`, or `box cat FILE`. Locale, users and permissions are none: text is bytes, time is UTC.
#include "box.h"

#include <ctype.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <time.h>

const char *tool = "box";
int trouble = 1;

static void complain(const char *format, va_list list) {
    fflush(stdout);
    fprintf(stderr, "%s: ", tool);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
}

int warn(const char *format, ...) {
    va_list list;
    va_start(list, format);
    complain(format, list);
    va_end(list);
    return 1;
}

int warn_path(const char *path) {
    return warn("%s: %s", path, strerror(errno));
}

_Noreturn void die(const char *format, ...) {
    va_list list;
    va_start(list, format);
    complain(format, list);
    va_end(list);
    exit(trouble);
}

_Noreturn void die_usage(void) {
    exit(trouble);
}

// --- memory ----------------------------------------------------------------------------------------------------------

void *grow(void *memory, size_t size) {
    void *grown = realloc(memory, size ? size : 1);
    if (!grown) die("out of memory");
    return grown;
}

char *copy_text(const char *text) {
    size_t size = strlen(text) + 1;
    return memcpy(grow(NULL, size), text, size);
}

char *join(const char *dir, const char *name) {
    size_t len = strlen(dir), name_len = strlen(name);
    char *path = grow(NULL, len + name_len + 2);
    memcpy(path, dir, len);
    if (len && dir[len - 1] != '/') path[len++] = '/';
    memcpy(path + len, name, name_len + 1);
    return path;
}

void append(struct bytes *bytes, const void *more, size_t len) {
    if (len >= SIZE_MAX / 4 || bytes->len >= SIZE_MAX / 4) die("out of memory");
    if (bytes->len + len + 1 > bytes->room) {
        bytes->room = 2 * (bytes->len + len) + 64;
        bytes->at = grow(bytes->at, bytes->room);
    }
    if (len) memcpy(bytes->at + bytes->len, more, len);
    bytes->len += len;
    bytes->at[bytes->len] = '\0';
}

void push(struct texts *texts, char *text) {
    if (texts->count + 1 >= texts->room) {
        if (texts->room >= SIZE_MAX / 16) die("out of memory");
        texts->room = 2 * texts->room + 16;
        texts->at = grow(texts->at, texts->room * sizeof *texts->at);
    }
    texts->at[texts->count++] = text;
    texts->at[texts->count] = NULL;
}

void free_texts(struct texts *texts) {
    for (size_t i = 0; i < texts->count; i++) free(texts->at[i]);
    free(texts->at);
    *texts = (struct texts){0};
}

// --- files -----------------------------------------------------------------------------------------------------------

FILE *open_input(const char *path) {
    if (strcmp(path, "-") == 0) return stdin;
    struct stat stat_;
    if (stat(path, &stat_) == 0 && S_ISDIR(stat_.st_mode)) {
        errno = EISDIR;
        warn_path(path);
        return NULL;
    }
    FILE *file = fopen(path, "r");
    if (!file) warn_path(path);
    return file;
}

void close_input(FILE *file) {
    if (file != stdin) fclose(file);
}

bool is_output(FILE *file, off_t *next) {
    static struct stat output;
    static enum { UNKNOWN, A_FILE, ANOTHER } kind;
    if (kind == UNKNOWN) kind = fstat(1, &output) == 0 && S_ISREG(output.st_mode) ? A_FILE : ANOTHER;
    struct stat input, now;
    if (kind == ANOTHER || fstat(fileno(file), &input) || !S_ISREG(input.st_mode)) return false;
    if (input.st_dev != output.st_dev || input.st_ino != output.st_ino) return false;
    bool appends = fcntl(1, F_GETFL) & O_APPEND;
    *next = appends ? (fstat(1, &now) ? 0 : now.st_size) : lseek(1, 0, SEEK_CUR);
    return true;
}

void read_rest(FILE *file, struct bytes *bytes) {
    char block[16384];
    size_t count;
    while ((count = fread(block, 1, sizeof block, file)) > 0) append(bytes, block, count);
}

bool read_whole(const char *path, struct bytes *bytes) {
    *bytes = (struct bytes){0};
    append(bytes, "", 0);
    FILE *file = open_input(path);
    if (!file) return false;
    read_rest(file, bytes);
    bool failed = ferror(file);
    if (failed) warn_path(path);
    clearerr(file);
    close_input(file);
    return !failed;
}

static int by_bytes(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

bool list_open_dir(DIR *dir, struct texts *names) {
    *names = (struct texts){0};
    errno = 0;
    for (struct dirent *entry; (entry = readdir(dir)); errno = 0) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        size_t len = strlen(entry->d_name);
        char *name = grow(NULL, len + 2);
        memcpy(name, entry->d_name, len + 1);
        name[len + 1] = (char)entry->d_type;
        push(names, name);
    }
    int error = errno;
    if (names->count) qsort(names->at, names->count, sizeof *names->at, by_bytes);
    errno = error;
    return error == 0;
}

bool list_dir(const char *path, struct texts *names) {
    *names = (struct texts){0};
    DIR *dir = opendir(path);
    if (!dir) return false;
    bool done = list_open_dir(dir, names);
    int error = errno;
    closedir(dir);
    errno = error;
    return done;
}

unsigned char listed_type(const char *name) {
    return (unsigned char)name[strlen(name) + 1];
}

const char *last_part(const char *path, size_t *len) {
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/') end--;
    size_t start = end;
    while (start > 0 && path[start - 1] != '/') start--;
    if (end == 1 && path[0] == '/') start = 0;
    *len = end - start;
    return path + start;
}

char *into_dir(const char *dir, const char *path) {
    size_t len;
    const char *name = last_part(path, &len);
    char *part = grow(NULL, len + 1);
    memcpy(part, name, len);
    part[len] = '\0';
    char *joined = join(dir, part);
    free(part);
    return joined;
}

bool is_dir(const char *path) {
    struct stat stat_;
    return stat(path, &stat_) == 0 && S_ISDIR(stat_.st_mode);
}

// --- numbers, times, escapes -----------------------------------------------------------------------------------------

uint64_t parse_count(const char *text, const char *what) {
    static const char suffixes[] = "bkKMG";
    static const uint64_t factors[] = {512, 1 << 10, 1 << 10, 1 << 20, 1 << 30};
    uint64_t count = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++) {
        if (__builtin_mul_overflow(count, 10, &count) || __builtin_add_overflow(count, *at - '0', &count)) {
            count = UINT64_MAX / 2;
        }
    }
    const char *suffix = *at ? strchr(suffixes, *at) : NULL;
    if (at == text || (*at && (!suffix || at[1]))) die("invalid %s: '%s'", what, text);
    if (suffix && __builtin_mul_overflow(count, factors[suffix - suffixes], &count)) count = UINT64_MAX / 2;
    return count;
}

// The nanoseconds of a fraction that begins with a point or a comma, if there is one; `at` moves behind it.
static long parse_fraction(const char **at) {
    long nanoseconds = 0, unit = 100000000;
    if ((**at != '.' && **at != ',') || !isdigit((unsigned char)(*at)[1])) return 0;
    for (++*at; isdigit((unsigned char)**at); ++*at, unit /= 10) nanoseconds += unit * (**at - '0');
    return nanoseconds;
}

// The seconds that a time zone is ahead of UTC: `Z`, `UTC`, `GMT`, `+01:00` or `-0130`; `at` moves behind it.
static long parse_zone(const char **at) {
    const char *zone = *at + strspn(*at, " ");
    int hours, minutes, used = 0;
    for (size_t i = 0; i < 3; i++) {
        const char *name = (const char *[]){"UTC", "GMT", "Z"}[i];
        if (strcmp(zone, name)) continue;
        *at = zone + strlen(name);
        return 0;
    }
    if (*zone != '+' && *zone != '-') return 0;
    if ((sscanf(zone + 1, "%2d:%2d%n", &hours, &minutes, &used) < 2 || !used) &&
        (used = 0, sscanf(zone + 1, "%2d%2d%n", &hours, &minutes, &used) < 2 || used != 4)) {
        return 0;
    }
    *at = zone + 1 + used;
    return (hours * 60 + minutes) * (*zone == '-' ? -60 : 60);
}

// The seconds from now to `yesterday`, `2 hours ago` or `+3 days`. False if it is none of these.
static bool parse_relative(const char *text, long long *seconds) {
    static const struct {
        const char *name;
        long seconds;
    } units[] = {{"sec", 1}, {"second", 1}, {"min", 60}, {"minute", 60}, {"hour", 3600}, {"day", 86400}, {"week", 604800}};
    char unit[16], ago[5];
    long long count;
    int used = 0;
    *seconds = strcmp(text, "yesterday") ? strcmp(text, "tomorrow") ? 0 : 86400 : -86400;
    if (*seconds || strcmp(text, "now") == 0 || strcmp(text, "today") == 0) return true;
    int parts = sscanf(text, "%lld %15[a-z]%n %4[a-z]%n", &count, unit, &used, ago, &used);
    if (parts < 2 || text[used] || (parts == 3 && strcmp(ago, "ago"))) return false;
    size_t len = strlen(unit);
    if (len > 1 && unit[len - 1] == 's') unit[len - 1] = '\0';
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(unit, units[i].name)) continue;
        return !__builtin_mul_overflow(parts == 3 ? -count : count, units[i].seconds, seconds);
    }
    return false;
}

struct timespec parse_time(const char *text, const struct timespec *now) {
    struct timespec time = {0};
    const char *rest = text + 1;
    if (*text == '@') {
        char *end;
        time.tv_sec = strtoll(rest, &end, 10);
        bool has_digits = end != rest;
        rest = end;
        time.tv_nsec = parse_fraction(&rest);
        if (!has_digits || *rest) die("invalid date '%s'", text);
        // A fraction before the epoch leads away from it.
        if (text[1] == '-' && time.tv_nsec) time.tv_sec--, time.tv_nsec = 1000000000 - time.tv_nsec;
        return time;
    }
    struct tm tm = {0};
    int used = 0;
    long long seconds;
    if (parse_relative(text, &seconds)) {
        if (now) time = *now;
        else clock_gettime(CLOCK_REALTIME, &time);
        if (__builtin_add_overflow(time.tv_sec, seconds, &time.tv_sec)) die("invalid date '%s'", text);
        return time;
    }
    if (sscanf(text, "%4d-%2d-%2d%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &used) < 3) die("invalid date '%s'", text);
    rest = text + used;
    if (*rest == 'T' || *rest == ' ') {
        rest++;
        used = 0;
        if (sscanf(rest, "%2d:%2d%n", &tm.tm_hour, &tm.tm_min, &used) < 2) die("invalid date '%s'", text);
        rest += used;
        if (*rest == ':') {
            used = 0;
            if (sscanf(rest, ":%2d%n", &tm.tm_sec, &used) < 1) die("invalid date '%s'", text);
            rest += used;
        }
        time.tv_nsec = parse_fraction(&rest);
    }
    long ahead = parse_zone(&rest);
    if (*rest || tm.tm_mon < 1 || tm.tm_mon > 12 || tm.tm_mday < 1 || tm.tm_mday > 31) die("invalid date '%s'", text);
    tm.tm_year -= 1900;
    tm.tm_mon--;
    time.tv_sec = timegm(&tm) - ahead;
    return time;
}

static int digit_of(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : 99;
}

int unescape(const char **at, bool leading_zero) {
    static const char names[] = "abefnrtv\\", values[] = "\a\b\033\f\n\r\t\v\\";
    char c = *(*at)++;
    const char *name = c ? strchr(names, c) : NULL;
    if (name) return (unsigned char)values[name - names];
    if (c == 'c') return -1;
    int value = 0, digits = 0;
    if (c == 'x' && digit_of(**at) < 16) {
        for (; digits < 2 && digit_of(**at) < 16; digits++) value = value * 16 + digit_of(*(*at)++);
        return value;
    }
    if (c >= '0' && c <= '7') {
        int most = leading_zero && c == '0' ? 4 : 3;
        for (--*at; digits < most && digit_of(**at) < 8; digits++) value = value * 8 + digit_of(*(*at)++);
        return value & 0xff;
    }
    // No escape: the backslash stands for itself.
    --*at;
    return '\\';
}

// --- programs --------------------------------------------------------------------------------------------------------

int run_program(char **argv, int in) {
    fflush(NULL);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    if (in >= 0) posix_spawn_file_actions_adddup2(&actions, in, 0);
    pid_t pid;
    int status = 0, error = posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error) {
        errno = error;
        warn_path(argv[0]);
        return error == ENOENT ? 127 : 126;
    }
    if (waitpid(pid, &status, 0) < 0) die("cannot wait for %s: %s", argv[0], strerror(errno));
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// --- the door --------------------------------------------------------------------------------------------------------

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} tools[] = {
#define ENTRY(name) {#name, tool_##name},
    TOOLS(ENTRY)
#undef ENTRY
};

static int list_tools(FILE *to) {
    fputs("usage: box TOOL [ARGUMENT...], with a TOOL of:\n", to);
    for (size_t i = 0; i < sizeof tools / sizeof *tools; i++) fprintf(to, " %s", tools[i].name);
    fputc('\n', to);
    return to == stdout ? 0 : 2;
}

int main(int argc, char **argv) {
    if (argc < 1) return list_tools(stderr);
    for (int round = 0; round < 2 && argc > 0; round++, argc--, argv++) {
        size_t len;
        const char *name = last_part(argv[0], &len);
        if (len > 5 && memcmp(name + len - 5, ".wasm", 5) == 0) len -= 5;
        for (size_t i = 0; i < sizeof tools / sizeof *tools; i++) {
            if (strlen(tools[i].name) != len || memcmp(tools[i].name, name, len)) continue;
            tool = tools[i].name;
            argv[0] = (char *)tool;
            int status = tools[i].run(argc, argv);
            if (ferror(stdout) | fflush(stdout)) {
                warn("write error: %s", strerror(errno));
                if (status == 0) status = trouble;
            }
            return status;
        }
        if (round == 1) {
            warn("there is no tool %s", argv[0]);
            return 127;
        }
        if (argc > 1 && strcmp(argv[1], "--help") == 0) return list_tools(stdout);
    }
    return list_tools(stderr);
}

// replace: replaces literal text in files.
#define _XOPEN_SOURCE 700
#include "demo.h"

const char program[] = "replace";
const char help[] =
    "usage: replace [-n] [--] OLD NEW FILE...\n"
    "\n"
    "Replaces OLD by NEW wherever it stands in each FILE, from left to right, byte for byte; neither is\n"
    "a pattern. A file is written whole beside itself and renamed into place, or stays as it was.\n"
    "Prints `FILE: N replacements` for each file that changes.\n"
    "\n"
    "  -n      count only, change nothing\n"
    "  --      what follows is no option, even if it begins with a dash\n"
    "  --help  this text\n"
    "\n"
    "Exits 0, 1 if OLD stands in none of the files, 2 on wrong usage or if a file failed.\n";

// Finds WHAT in the SIZE bytes at AT, or returns NULL.
static const char *find(const char *at, size_t size, const char *what, size_t length) {
    while (size >= length) {
        // memchr does the bulk of the work, a word at a time.
        const char *hit = memchr(at, what[0], size - length + 1);
        if (!hit) return NULL;
        if (memcmp(hit, what, length) == 0) return hit;
        size -= (size_t)(hit + 1 - at);
        at = hit + 1;
    }
    return NULL;
}

// Returns the number of replacements in NAME, or -1 after a complaint.
static int64_t replace(const char *name, const char *old, const char *new, int dry) {
    static struct bytes before, after;
    int fd = open_input(name);
    if (fd < 0) return -1;
    int failed = read_all(fd, &before);
    int e = errno;
    close(fd);
    errno = e;
    size_t old_size = strlen(old), new_size = strlen(new);
    int64_t hits = 0;
    if (!failed) {
        const char *at = before.at, *end = before.at + before.size;
        after.size = 0;
        for (const char *hit; !failed && (hit = find(at, (size_t)(end - at), old, old_size)); hits++) {
            if (!dry) failed = add(&after, at, (size_t)(hit - at)) || add(&after, new, new_size);
            at = hit + old_size;
        }
        if (!dry && hits && !failed)
            failed = add(&after, at, (size_t)(end - at)) || rewrite(name, after.at, after.size);
    }
    if (failed) {
        complain_errno(name);
        return -1;
    }
    return hits;
}

int main(int argc, char **argv) {
    out_failure = 2;
    int dry = 0, i = 1;
    for (; i < argc && argv[i][0] == '-' && argv[i][1]; i++) {
        if (strcmp(argv[i], "--help") == 0) show_help();
        if (strcmp(argv[i], "--") == 0) {
            i++;
            break;
        }
        if (strcmp(argv[i], "-n") != 0)
            usage_error(2, argv[i], "unknown option (put -- before text that begins with a dash)");
        dry = 1;
    }
    if (argc - i < 3) usage_error(2, "OLD, NEW and at least one FILE are needed", NULL);
    const char *old = argv[i], *new = argv[i + 1];
    if (!*old) usage_error(2, "OLD is empty, and the empty text stands everywhere", NULL);
    int failed = 0, found = 0;
    for (i += 2; i < argc; i++) {
        int64_t hits = replace(argv[i], old, new, dry);
        if (hits < 0) failed = 1;
        if (hits <= 0) continue;
        found = 1;
        out_text(argv[i]);
        out_text(": ");
        out_number((uint64_t)hits);
        out_text(hits == 1 ? " replacement\n" : " replacements\n");
    }
    out_flush();
    return failed ? 2 : !found;
}

// Lists archives and takes files out of them: those of ustar, GNU and pax.
#include "tar.h"

#include <fcntl.h>
#include <fnmatch.h>

struct member {
    char *name, *target;
    char type;
    unsigned mode;
    uint64_t size;
    int64_t time;
};

static FILE *input;
static struct gunzip *unpacked;
static bool *found; // of the members that are wanted
static struct member pending; // what headers in front say of the next member

enum { NAME_MAX_BYTES = 1 << 20 };

static size_t take(void *to, size_t size) {
    size_t done = 0;
    while (done < size) {
        const char *error = NULL;
        size_t count = unpacked ? gunzip_read(unpacked, (char *)to + done, size - done, &error) : fread((char *)to + done, 1, size - done, input);
        if (error && !strstr(error, "ignored")) die("%s", error);
        if (!count) break;
        done += count;
    }
    return done;
}

static void skip(uint64_t size) {
    static char block[16384];
    while (size > 0) {
        size_t count = take(block, size < sizeof block ? (size_t)size : sizeof block);
        if (!count) die("Unexpected EOF in archive");
        size -= count;
    }
}

static uint64_t padded(uint64_t size) {
    if (size > UINT64_MAX - TAR_BLOCK) die("Archive contains a size that is too large");
    return (size + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;
}

static uint64_t parse_number(const char *at, size_t size) {
    uint64_t number = 0;
    if (*at & 0x80) {
        for (size_t i = 1; i < size; i++) number = number << 8 | (unsigned char)at[i];
        return number;
    }
    size_t i = 0;
    while (i < size && at[i] == ' ') i++;
    for (; i < size && at[i] >= '0' && at[i] <= '7'; i++) number = number << 3 | (uint64_t)(at[i] - '0');
    return number;
}

// The data of a member as a text.
static char *take_text(uint64_t size) {
    if (size > NAME_MAX_BYTES) die("Archive contains a name that is too long");
    char *text = grow(NULL, size + 1);
    if (take(text, size) != size) die("Unexpected EOF in archive");
    text[size] = '\0';
    skip(padded(size) - size);
    return text;
}

// Records of pax: LENGTH KEY=VALUE\n
static void take_records(uint64_t size) {
    char *text = take_text(size);
    for (char *at = text; at < text + size;) {
        char *end, *key;
        unsigned long len = strtoul(at, &end, 10);
        if (*end != ' ' || len == 0 || len > (size_t)(text + size - at) || end + 1 >= at + len) break;
        key = end + 1;
        char *value = memchr(key, '=', at + len - key);
        if (!value) break;
        at[len - 1] = '\0';
        *value++ = '\0';
        if (strcmp(key, "path") == 0) {
            free(pending.name);
            pending.name = copy_text(value);
        } else if (strcmp(key, "linkpath") == 0) {
            free(pending.target);
            pending.target = copy_text(value);
        } else if (strcmp(key, "size") == 0) {
            pending.size = strtoull(value, NULL, 10);
            pending.type = 1;
        } else if (strcmp(key, "mtime") == 0) {
            pending.time = strtoll(value, NULL, 10);
            pending.mode = 1;
        }
        at += len;
    }
    free(text);
}

static bool is_valid(const char *block) {
    unsigned sum = 0;
    for (int i = 0; i < TAR_BLOCK; i++) sum += i >= 148 && i < 156 ? ' ' : (unsigned char)block[i];
    return parse_number(block + 148, 8) == sum;
}

// Reads the header of the next member; false at the end.
static bool next_member(struct member *member) {
    char block[TAR_BLOCK];
    static bool any;
    for (;;) {
        size_t count = take(block, sizeof block);
        if (!count && any) return false;
        if (count < sizeof block) die(any ? "Unexpected EOF in archive" : "This does not look like a tar archive");
        bool is_empty = true;
        for (int i = 0; is_empty && i < TAR_BLOCK; i++) is_empty = !block[i];
        if (is_empty) return false;
        if (!is_valid(block)) die(any ? "Skipping to next header" : "This does not look like a tar archive");
        any = true;
        char type = block[156] ? block[156] : '0';
        uint64_t size = parse_number(block + 124, 12);
        if (type == 'L' || type == 'K') {
            char **text = type == 'L' ? &pending.name : &pending.target;
            free(*text);
            *text = take_text(size);
            continue;
        }
        if (type == 'x') {
            take_records(size);
            continue;
        }
        if (type == 'g') {
            skip(padded(size));
            continue;
        }
        *member = (struct member){.name = pending.name, .target = pending.target, .type = type};
        member->size = pending.type ? pending.size : size;
        member->mode = (unsigned)parse_number(block + 100, 8) & 07777;
        member->time = pending.mode ? pending.time : (int64_t)parse_number(block + 136, 12);
        pending = (struct member){0};
        if (!member->target && !(member->target = strndup(block + 157, 100))) die("out of memory");
        if (!member->name) {
            char name[260];
            bool has_prefix = memcmp(block + 257, "ustar\0", 6) == 0 && block[345];
            snprintf(name, sizeof name, "%.155s%s%.100s", has_prefix ? block + 345 : "", has_prefix ? "/" : "", block);
            member->name = copy_text(name);
        }
        size_t len = strlen(member->name);
        // An old archive marks a directory by its slash.
        if (type == '0' && len && member->name[len - 1] == '/') member->type = '5';
        if (member->type != '0' && member->type != '7') member->size = member->type == '1' || member->type == '2' || member->type == '5' ? 0 : member->size;
        return true;
    }
}

static bool is_wanted(const char *name) {
    if (tar_is_excluded(name)) return false;
    bool wanted = tar_options.member_count == 0;
    for (int i = 0; i < tar_options.member_count; i++) {
        const char *want = tar_options.members[i];
        size_t len = strlen(want);
        while (len > 1 && want[len - 1] == '/') len--;
        if (strncmp(name, want, len) || (name[len] && name[len] != '/')) continue;
        bool is_inner = name[len + strspn(name + len, "/")];
        if (is_inner && !tar_options.with_inner[i]) continue;
        wanted = found[i] = true;
    }
    return wanted;
}

// The name to extract to: without its first parts and slashes; NULL if there is nothing left, or it leads elsewhere.
static const char *place_of(const char *name) {
    static bool told;
    for (const char *part = name; part; part = strchr(part, '/') ? strchr(part, '/') + 1 : NULL) {
        if (strncmp(part, "..", 2) || (part[2] && part[2] != '/')) continue;
        warn("%s: Member name contains '..', skipping", name);
        tar_status = 2;
        return NULL;
    }
    const char *place = name;
    while (*place == '/') place++;
    if (place > name && !told) {
        warn("Removing leading `/' from member names");
        told = true;
    }
    for (int i = 0; i < tar_options.strip; i++) {
        place = strchr(place, '/');
        if (!place) return NULL;
        while (*place == '/') place++;
    }
    return *place ? place : NULL;
}

static void fail(const char *name, const char *what) {
    warn("%s: %s: %s", name, what, strerror(errno));
    tar_status = 2;
}

static void copy_data(FILE *to, uint64_t size, const char *name) {
    static char block[65536];
    uint64_t left = size;
    while (left > 0) {
        size_t count = take(block, left < sizeof block ? (size_t)left : sizeof block);
        if (!count) die("Unexpected EOF in archive");
        if (to && fwrite(block, 1, count, to) != count) {
            fail(name, "Cannot write");
            to = NULL;
        }
        left -= count;
    }
    skip(padded(size) - size);
}

static void make_parents(const char *path) {
    char *dir = copy_text(path);
    for (char *at = dir + 1; *at; at++) {
        if (*at != '/' || at[-1] == '/') continue;
        *at = '\0';
        mkdir(dir, 0777); // what does not work shows when the file is made
        *at = '/';
    }
    free(dir);
}

// `was_there` tells whether the name was another file's before, from which a permission can be left over.
static void extract_file(const struct member *member, const char *place, bool was_there) {
    int fd = open(place, O_WRONLY | O_CREAT | O_EXCL, 0666);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    if (!file) fail(place, "Cannot open");
    copy_data(file, member->size, place);
    if (!file) return;
    if (fclose(file)) fail(place, "Cannot write");
    bool executable = member->mode & 0111;
    if (was_there ? executable != get_executable(place, false) : executable) set_executable(place, executable);
}

// Times of directories are set at last: what is put into them changes them.
static struct texts dirs;
static int64_t *dir_times;

// Links that may lead out of the current directory are made at last, as GNU tar does: until then an empty file is in
// the place of each, so that no member is written through it.
static struct late_link {
    char *place, *target;
    int64_t time;
    ino_t ino;
} *late_links;
static size_t late_link_count;

static bool may_lead_out(const char *target) {
    if (*target == '/') return true;
    for (const char *at = target; at; at = strchr(at, '/')) {
        at += strspn(at, "/");
        if (strncmp(at, "..", 2) == 0 && (at[2] == '/' || !at[2])) return true;
    }
    return false;
}

static void extract_link(const char *target, const char *place, int64_t time) {
    if (!may_lead_out(target)) {
        if (symlink(target, place)) fail(place, "Cannot create symlink");
        return;
    }
    struct stat stat_;
    int fd = open(place, O_WRONLY | O_CREAT | O_EXCL, 0666);
    if (fd < 0 || fstat(fd, &stat_)) {
        fail(place, "Cannot create symlink");
        if (fd >= 0) close(fd);
        return;
    }
    close(fd);
    late_links = grow(late_links, (late_link_count + 1) * sizeof *late_links);
    late_links[late_link_count++] = (struct late_link){copy_text(place), copy_text(target), time, stat_.st_ino};
}

static void make_late_links(void) {
    for (size_t i = 0; i < late_link_count; i++) {
        struct late_link *link_ = &late_links[i];
        struct stat stat_;
        // A later member may have taken the place.
        bool is_there = lstat(link_->place, &stat_) == 0 && S_ISREG(stat_.st_mode) && stat_.st_ino == link_->ino;
        if (is_there && (unlink(link_->place) || symlink(link_->target, link_->place))) fail(link_->place, "Cannot create symlink");
        struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, {.tv_sec = link_->time}};
        if (is_there && !tar_options.no_times) utimensat(AT_FDCWD, link_->place, times, AT_SYMLINK_NOFOLLOW);
        free(link_->place);
        free(link_->target);
    }
    free(late_links);
}

// A link or a file that is in the way goes: what follows belongs into a directory of this place.
static void extract_dir(const struct member *member, const char *place, const struct stat *there) {
    if (there && !S_ISDIR(there->st_mode)) {
        bool is_kept = tar_options.keeps_old || (tar_options.keeps_dir_links && S_ISLNK(there->st_mode) && is_dir(place));
        if (is_kept) return;
        if (unlink(place)) fail(place, "Cannot unlink");
        there = NULL;
    }
    if (!there && mkdir(place, 0777) && !is_dir(place)) fail(place, "Cannot mkdir");
    push(&dirs, copy_text(place));
    dir_times = grow(dir_times, dirs.count * sizeof *dir_times);
    dir_times[dirs.count - 1] = member->time;
}

static void extract_to(const struct member *member, const char *place) {
    struct stat stat_;
    bool is_there = lstat(place, &stat_) == 0;
    if (!is_there) make_parents(place);
    if (member->type == '5') {
        extract_dir(member, place, is_there ? &stat_ : NULL);
        return;
    }
    if (is_there && tar_options.keeps_old) {
        errno = EEXIST;
        fail(place, "Cannot open");
        skip(padded(member->size));
        return;
    }
    if (is_there && (S_ISDIR(stat_.st_mode) ? rmdir : unlink)(place)) fail(place, "Cannot unlink");
    const char *target = member->type == '1' ? place_of(member->target) : member->target;
    switch (member->type) {
        case '2': extract_link(target, place, member->time); break;
        case '1': if (!target || link(target, place)) fail(place, "Cannot hard link"); return;
        case '0': case '7': extract_file(member, place, is_there); break;
        default:
            warn("%s: Unknown file type '%c', skipped", member->name, member->type);
            skip(padded(member->size));
            return;
    }
    struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, {.tv_sec = member->time}};
    if (!tar_options.no_times) utimensat(AT_FDCWD, place, times, AT_SYMLINK_NOFOLLOW);
}

static void extract(const struct member *member) {
    const char *name = place_of(member->name);
    if (!name) {
        skip(padded(member->size));
        return;
    }
    // With a slash at its end a link would be what it leads to.
    char *place = copy_text(name);
    for (size_t len = strlen(place); len > 1 && place[len - 1] == '/'; len--) place[len - 1] = '\0';
    extract_to(member, place);
    free(place);
}

void tar_read(FILE *file, bool extracts) {
    input = file;
    int first = getc(file);
    if (first != EOF) ungetc(first, file);
    if (first == 0x1f || tar_options.compresses) unpacked = gunzip_open(file);
    found = grow(NULL, tar_options.member_count + 1);
    memset(found, 0, tar_options.member_count + 1);
    struct member member;
    while (next_member(&member)) {
        if (!is_wanted(member.name)) {
            skip(padded(member.size));
        } else if (!extracts) {
            if (!tar_options.keeps_names) tar_safe_name(member.name);
            tar_print_name(member.name, member.type, tar_options.verbose ? member.mode : UINT32_MAX, member.size, member.time, member.target, stdout);
            skip(padded(member.size));
        } else {
            if (tar_options.verbose) tar_print_name(member.name, member.type, UINT32_MAX, 0, 0, "", tar_options.to_stdout ? stderr : stdout);
            if (tar_options.to_stdout) copy_data(member.type == '0' ? stdout : NULL, member.size, member.name);
            else extract(&member);
        }
        free(member.name);
        free(member.target);
    }
    make_late_links();
    for (size_t i = dirs.count; i-- > 0 && !tar_options.no_times;) {
        struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, {.tv_sec = dir_times[i]}};
        utimensat(AT_FDCWD, dirs.at[i], times, AT_SYMLINK_NOFOLLOW);
    }
    for (int i = 0; i < tar_options.member_count; i++) {
        if (found[i]) continue;
        warn("%s: Not found in archive", tar_options.members[i]);
        tar_status = 2;
    }
}

// Makes archives, in the format of GNU for names that are too long for ustar.
#include "tar.h"

static FILE *output;
static struct gzip *packed;
static uint64_t written;
static struct stat archive_stat;
static bool has_archive, recurses = true;
static struct texts linked; // names of files that have several, one for each; `linked_ids` says which files they are
static struct stat *linked_ids;

static void put(const void *from, size_t size) {
    written += size;
    if (packed) gzip_write(packed, from, size);
    else if (fwrite(from, 1, size, output) != size) die("Cannot write: %s", strerror(errno));
}

static void fill_block(void) {
    static const char zeros[TAR_BLOCK];
    if (written % TAR_BLOCK) put(zeros, TAR_BLOCK - written % TAR_BLOCK);
}

static void put_octal(char *to, size_t size, uint64_t number) {
    // What octal digits cannot hold is binary, as GNU has it.
    if (size < 22 && number >> 3 * (size - 1)) {
        for (size_t i = size; i-- > 1; number >>= 8) to[i] = (char)number;
        to[0] = (char)0x80;
        return;
    }
    for (size_t i = size - 1; i-- > 0; number >>= 3) to[i] = '0' + (number & 7);
}

static void put_header(const char *name, const char *target, char type, unsigned mode, uint64_t size, int64_t time) {
    // A name that does not fit comes first, as a file of its own.
    for (int part = 0; part < 2; part++) {
        const char *text = part ? name : target;
        if (strlen(text) <= 100) continue;
        put_header("././@LongLink", "", part ? 'L' : 'K', 0, strlen(text) + 1, 0);
        put(text, strlen(text) + 1);
        fill_block();
    }
    char block[TAR_BLOCK] = {0};
    memcpy(block, name, strnlen(name, 100));
    put_octal(block + 100, 8, mode);
    put_octal(block + 108, 8, 0);
    put_octal(block + 116, 8, 0);
    put_octal(block + 124, 12, size);
    put_octal(block + 136, 12, time < 0 ? 0 : (uint64_t)time);
    memset(block + 148, ' ', 8);
    block[156] = type;
    memcpy(block + 157, target, strnlen(target, 100));
    memcpy(block + 257, "ustar  ", 8);
    memcpy(block + 265, "root", 4);
    memcpy(block + 297, "root", 4);
    unsigned sum = 0;
    for (int i = 0; i < TAR_BLOCK; i++) sum += (unsigned char)block[i];
    snprintf(block + 148, 8, "%06o", sum);
    block[155] = ' ';
    put(block, sizeof block);
}

static unsigned stored_mode(unsigned mode, bool is_directory) {
    if (tar_options.mode) parse_mode(tar_options.mode, &mode, is_directory);
    return mode;
}

// The name is told as it was given.
static void tell(const char *path, char type) {
    if (tar_options.verbose) tar_print_name(path, type, UINT32_MAX, 0, 0, "", has_archive ? stdout : stderr);
}

static void put_file(const char *path, const char *name, const struct stat *stat_) {
    FILE *file = fopen(path, "r");
    if (!file) {
        warn("%s: Cannot open: %s", path, strerror(errno));
        tar_status = 2;
        return;
    }
    uint64_t size = stat_->st_size, left = size;
    put_header(name, "", '0', stored_mode(mode_of(path, stat_), false), size, stat_->st_mtim.tv_sec);
    tell(path, '0');
    static char block[65536];
    while (left > 0) {
        size_t count = fread(block, 1, left < sizeof block ? (size_t)left : sizeof block, file);
        if (!count) {
            warn("%s: File shrank by %llu bytes; padding with zeros", path, (unsigned long long)left);
            tar_status = 1;
            memset(block, 0, sizeof block);
            count = left < sizeof block ? (size_t)left : sizeof block;
        }
        put(block, count);
        left -= count;
    }
    fclose(file);
    fill_block();
}

// The name under which a file with several names is in the archive already; else it is noted.
static const char *known_link(const struct stat *stat_, const char *name) {
    if (stat_->st_nlink < 2) return NULL;
    for (size_t i = 0; i < linked.count; i++) {
        if (linked_ids[i].st_dev == stat_->st_dev && linked_ids[i].st_ino == stat_->st_ino) return linked.at[i];
    }
    push(&linked, copy_text(name));
    linked_ids = grow(linked_ids, linked.count * sizeof *linked_ids);
    linked_ids[linked.count - 1] = *stat_;
    return NULL;
}

static void add(const char *path);

static char *with_slash(const char *name) {
    size_t len = strlen(name);
    char *slashed = grow(NULL, len + 2);
    sprintf(slashed, "%s%s", name, len && name[len - 1] == '/' ? "" : "/");
    return slashed;
}

static void add_dir(const char *path, const char *name, const struct stat *stat_) {
    char *slashed = with_slash(name), *shown = with_slash(path);
    put_header(slashed, "", '5', stored_mode(0755, true), 0, stat_->st_mtim.tv_sec);
    tell(shown, '5');
    free(slashed);
    free(shown);
    if (!recurses) return;
    struct texts names;
    if (!list_dir(path, &names)) {
        warn("%s: Cannot open: %s", path, strerror(errno));
        tar_status = 2;
    }
    for (size_t i = 0; i < names.count; i++) {
        char *inner = join(path, names.at[i]);
        add(inner);
        free(inner);
    }
    free_texts(&names);
}

static void add(const char *path) {
    struct stat stat_;
    if (tar_is_excluded(path)) return;
    if ((tar_options.follows ? stat : lstat)(path, &stat_)) {
        warn("%s: Cannot stat: %s", path, strerror(errno));
        tar_status = 2;
        return;
    }
    if (has_archive && stat_.st_dev == archive_stat.st_dev && stat_.st_ino == archive_stat.st_ino) {
        warn("%s: archive cannot contain itself; not dumped", path);
        return;
    }
    const char *name = tar_options.keeps_names ? path : tar_safe_name(path);
    if (S_ISDIR(stat_.st_mode)) {
        add_dir(path, name, &stat_);
        return;
    }
    if (S_ISLNK(stat_.st_mode)) {
        char *target = link_text(path);
        put_header(name, target ? target : "", '2', stored_mode(0777, false), 0, stat_.st_mtim.tv_sec);
        free(target);
    } else if (S_ISREG(stat_.st_mode)) {
        const char *first = known_link(&stat_, name);
        if (!first) {
            put_file(path, name, &stat_);
            return;
        }
        put_header(name, first, '1', stored_mode(mode_of(path, &stat_), false), 0, stat_.st_mtim.tv_sec);
    } else {
        warn("%s: file is not archived", path);
        return;
    }
    tell(path, '0');
}

void tar_create(FILE *file, char **operands, int count, const char *archive) {
    output = file;
    has_archive = archive && stat(archive, &archive_stat) == 0;
    if (tar_options.compresses) packed = gzip_open(file, 6, NULL, 0);
    for (int i = 0; i < count; i++) {
        if (operands[i] == tar_recursion || operands[i] == tar_no_recursion) recurses = operands[i] == tar_recursion;
        else if (strcmp(operands[i], "-C") || i + 1 == count) add(operands[i]);
        else if (chdir(operands[++i])) die("%s: Cannot open: %s", operands[i], strerror(errno));
    }
    static const char zeros[TAR_BLOCK];
    put(zeros, TAR_BLOCK);
    put(zeros, TAR_BLOCK);
    while (written % (20 * TAR_BLOCK)) put(zeros, TAR_BLOCK);
    if (packed) gzip_close(packed);
}

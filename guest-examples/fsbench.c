// fsbench OP N: times N operations in the current folder and removes what it made.
//
//   create     open O_CREAT|O_TRUNC, write 1 KiB, close: N distinct names
//   open_read  open, read 1 KiB, close: files made before
//   stat_hit   stat: files made before
//   stat_miss  stat of a name that does not exist
//   readdir    one listing of a folder of N files, per entry
//   clock      clock_gettime
//   seqwrite   N MiB into one file in 64 KiB writes
//   read4k     N MiB out of one file in 4 KiB reads
//
// Prints `OP VALUE UNIT COUNT ops`, the unit being ns/op or MiB/s. The program measures itself, so
// that starting it does not count, and the same source builds natively (`cc -O2 fsbench.c`), so that
// both sides do the same work. Inside the timed part there is nothing but the calls.
#define _XOPEN_SOURCE 700
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { KIB = 1024, BLOCK = 64 * KIB, SMALL = 4 * KIB };
// Enough names to defeat a cache of one, few enough to make quickly on a slow disk.
enum { EXISTING = 1000 };

static char block[BLOCK];

_Noreturn static void fail(const char *what) {
    fprintf(stderr, "fsbench: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint64_t now(void) {
    struct timespec t;
    if (clock_gettime(CLOCK_MONOTONIC, &t) != 0) fail("clock_gettime");
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

// One name, counted up in place: formatting a number would cost more than some of these calls.
static char name[] = "fsbench.d/00000000";
enum { LAST = sizeof name - 2, DIGITS = 8 };

static void first_name(void) { memset(name + LAST - DIGITS + 1, '0', DIGITS); }

static void next_name(void) {
    for (int i = LAST; i > LAST - DIGITS; i--) {
        if (name[i] != '9') {
            name[i]++;
            return;
        }
        name[i] = '0';
    }
}

static void create_one(const char *path) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (fd < 0) fail(path);
    if (write(fd, block, KIB) != KIB) fail(path);
    close(fd);
}

// The names of the flat operations are one component long, as in the folder that a tool works in.
static const char *flat(void) {
    name[7] = '.';
    name[8] = 'f';
    name[9] = '.';
    return name;
}

static void make(const char *path, uint64_t count) {
    first_name();
    for (uint64_t i = 0; i < count; i++, next_name()) create_one(path);
}

static void unmake(const char *path, uint64_t count) {
    first_name();
    for (uint64_t i = 0; i < count; i++, next_name())
        if (unlink(path) != 0) fail(path);
}

static void report(const char *op, uint64_t ns, uint64_t mib, uint64_t ops) {
    if (ns == 0) {
        fputs("fsbench: the monotonic clock did not move, so there is nothing to report\n", stderr);
        exit(1);
    }
    // Integers only: formatting floats would make up most of the module.
    uint64_t tenths = mib ? mib * 10000000000u / ns : ns * 10 / ops;
    printf("%s %llu.%llu %s %llu ops\n", op, (unsigned long long)(tenths / 10),
           (unsigned long long)(tenths % 10), mib ? "MiB/s" : "ns/op", (unsigned long long)ops);
}

static void bench_create(const char *op, uint64_t n) {
    const char *path = flat();
    first_name();
    uint64_t start = now();
    for (uint64_t i = 0; i < n; i++, next_name()) {
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
        if (fd < 0) fail(path);
        if (write(fd, block, KIB) != KIB) fail(path);
        close(fd);
    }
    report(op, now() - start, 0, n);
    unmake(path, n);
}

static void bench_open_read(const char *op, uint64_t n) {
    const char *path = flat();
    uint64_t files = n < EXISTING ? n : EXISTING;
    make(path, files);
    first_name();
    uint64_t start = now();
    for (uint64_t i = 0, k = 0; i < n; i++) {
        int fd = open(path, O_RDONLY);
        if (fd < 0) fail(path);
        if (read(fd, block, KIB) != KIB) fail(path);
        close(fd);
        if (++k == files) {
            first_name();
            k = 0;
        } else {
            next_name();
        }
    }
    report(op, now() - start, 0, n);
    unmake(path, files);
}

static void bench_stat_hit(const char *op, uint64_t n) {
    const char *path = flat();
    uint64_t files = n < EXISTING ? n : EXISTING;
    make(path, files);
    first_name();
    struct stat st;
    uint64_t start = now();
    for (uint64_t i = 0, k = 0; i < n; i++) {
        if (stat(path, &st) != 0 || st.st_size != KIB) fail(path);
        if (++k == files) {
            first_name();
            k = 0;
        } else {
            next_name();
        }
    }
    report(op, now() - start, 0, n);
    unmake(path, files);
}

static void bench_stat_miss(const char *op, uint64_t n) {
    const char *path = flat();
    first_name();
    struct stat st;
    uint64_t start = now();
    for (uint64_t i = 0; i < n; i++, next_name())
        if (stat(path, &st) == 0 || errno != ENOENT) fail(path);
    report(op, now() - start, 0, n);
}

static void bench_readdir(const char *op, uint64_t n) {
    if (mkdir("fsbench.d", 0777) != 0) fail("fsbench.d");
    make(name, n);
    uint64_t start = now();
    DIR *dir = opendir("fsbench.d");
    if (!dir) fail("fsbench.d");
    uint64_t entries = 0;
    for (struct dirent *e; (e = readdir(dir));) entries += e->d_name[0] != '.';
    closedir(dir);
    uint64_t end = now();
    if (entries != n) {
        fprintf(stderr, "fsbench: fsbench.d: listed %llu of %llu files\n", (unsigned long long)entries,
                (unsigned long long)n);
        exit(1);
    }
    report(op, end - start, 0, n);
    unmake(name, n);
    if (rmdir("fsbench.d") != 0) fail("fsbench.d");
}

static void write_data(uint64_t mib) {
    int fd = open("fsbench.data", O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (fd < 0) fail("fsbench.data");
    for (uint64_t i = 0; i < mib * 16; i++)
        if (write(fd, block, BLOCK) != BLOCK) fail("fsbench.data");
    if (close(fd) != 0) fail("fsbench.data");
}

static void bench_seqwrite(const char *op, uint64_t mib) {
    uint64_t start = now();
    write_data(mib);
    report(op, now() - start, mib, mib * 16);
    unlink("fsbench.data");
}

static void bench_read4k(const char *op, uint64_t mib) {
    write_data(mib);
    uint64_t start = now();
    int fd = open("fsbench.data", O_RDONLY);
    if (fd < 0) fail("fsbench.data");
    for (uint64_t i = 0; i < mib * 256; i++)
        if (read(fd, block, SMALL) != SMALL) fail("fsbench.data");
    close(fd);
    report(op, now() - start, mib, mib * 256);
    unlink("fsbench.data");
}

static void bench_clock(const char *op, uint64_t n) {
    struct timespec t;
    uint64_t start = now();
    for (uint64_t i = 0; i < n; i++)
        if (clock_gettime(CLOCK_MONOTONIC, &t) != 0) fail("clock_gettime");
    report(op, now() - start, 0, n);
}

static const struct { const char *op; void (*run)(const char *, uint64_t); } benches[] = {
    {"create", bench_create},     {"open_read", bench_open_read}, {"stat_hit", bench_stat_hit},
    {"stat_miss", bench_stat_miss}, {"readdir", bench_readdir},   {"clock", bench_clock},
    {"seqwrite", bench_seqwrite}, {"read4k", bench_read4k},
};

int main(int argc, char **argv) {
    long long n = argc == 3 ? atoll(argv[2]) : 0;
    // Zeros would let a file system store nothing.
    for (size_t i = 0; i < sizeof block; i++) block[i] = (char)('!' + i * 7 % 94);
    for (size_t i = 0; n > 0 && n < 100000000 && i < sizeof benches / sizeof *benches; i++)
        if (strcmp(argv[1], benches[i].op) == 0) {
            benches[i].run(argv[1], (uint64_t)n);
            return 0;
        }
    fputs("usage: fsbench create|open_read|stat_hit|stat_miss|readdir|clock N\n"
          "       fsbench seqwrite|read4k MIB\n", stderr);
    return 2;
}

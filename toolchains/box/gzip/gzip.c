// gzip, gunzip, zcat: compressed files.
#include "gzip.h"

#include <fcntl.h>

static bool to_stdout, decompresses, forced, keeps, quiet, tests, recursive, no_name, verbose;
static int level = 6;
static const char *suffix = ".gz";

static int complain(const char *path, const char *message) {
    return warn("%s: %s", path, message);
}

static int unpack(FILE *in, FILE *out, const char *path) {
    struct gunzip *gunzip = gunzip_open(in);
    static char block[16384];
    const char *error = NULL;
    for (size_t count = 1; count > 0 && !error;) {
        count = gunzip_read(gunzip, block, sizeof block, &error);
        if (!tests && fwrite(block, 1, count, out) != count) die("%s: %s", path, strerror(errno));
    }
    gunzip_close(gunzip);
    if (!error) return 0;
    complain(path, error);
    // What is behind the data does no harm.
    return strstr(error, "ignored") ? 2 : 1;
}

static void pack(FILE *in, FILE *out, const char *name, uint32_t time) {
    struct gzip *gzip = gzip_open(out, level, no_name ? NULL : name, no_name ? 0 : time);
    static char block[65536];
    for (size_t count; (count = fread(block, 1, sizeof block, in)) > 0;) gzip_write(gzip, block, count);
    gzip_close(gzip);
}

static bool ends_with(const char *text, const char *end) {
    size_t len = strlen(text), end_len = strlen(end);
    return len > end_len && strcmp(text + len - end_len, end) == 0;
}

// The name of the result beside a file; NULL after a message.
static char *result_name(const char *path) {
    char *name = grow(NULL, strlen(path) + strlen(suffix) + 5);
    if (!decompresses) {
        sprintf(name, "%s%s", path, suffix);
        return name;
    }
    strcpy(name, path);
    if (ends_with(path, ".tgz") || ends_with(path, ".taz")) strcpy(name + strlen(name) - 3, "tar");
    else if (ends_with(path, suffix)) name[strlen(name) - strlen(suffix)] = '\0';
    else if (ends_with(path, ".gz") || ends_with(path, "-gz")) name[strlen(name) - 3] = '\0';
    else if (ends_with(path, ".z")) name[strlen(name) - 2] = '\0';
    else {
        free(name);
        return NULL;
    }
    return name;
}

static int convert(FILE *in, FILE *out, const char *path, const struct stat *stat_) {
    int status = 0;
    if (decompresses) {
        status = unpack(in, out, path);
    } else {
        size_t len;
        const char *name = stat_ ? last_part(path, &len) : NULL;
        pack(in, out, name, stat_ && stat_->st_mtim.tv_sec > 0 ? (uint32_t)stat_->st_mtim.tv_sec : 0);
    }
    if (ferror(in)) status = warn_path(path);
    return status;
}

static int convert_stream(const char *path, FILE *in, const struct stat *stat_) {
    int status = convert(in, stdout, path, stat_);
    if (fflush(stdout)) die("stdout: %s", strerror(errno));
    return status;
}

static int run_file(const char *path);

static int run_dir(const char *path) {
    if (!recursive) {
        if (!quiet) complain(path, "is a directory -- ignored");
        return 2;
    }
    struct texts names;
    if (!list_dir(path, &names)) return warn_path(path);
    int status = 0;
    for (size_t i = 0; i < names.count; i++) {
        char *inner = join(path, names.at[i]);
        int one = run_file(inner);
        if (one && status != 1) status = one;
        free(inner);
    }
    free_texts(&names);
    return status;
}

// Converts to a file beside, which takes the place of this one.
static int replace(const char *path, FILE *in, const struct stat *stat_) {
    struct stat there;
    char *name = result_name(path);
    if (!name) {
        if (!quiet) complain(path, "unknown suffix -- ignored");
        return 2;
    }
    if (!forced && lstat(name, &there) == 0) {
        int status = complain(name, "already exists;\tnot overwritten") + 1;
        free(name);
        return status;
    }
    unlink(name); // nothing is written through a link, nor into what has other names
    FILE *out = fopen(name, "w");
    if (!out) die("%s: %s", name, strerror(errno));
    int status = convert(in, out, path, stat_);
    if (ferror(out) | fclose(out)) die("%s: %s", name, strerror(errno));
    if (status == 1) {
        unlink(name);
    } else {
        bool executable = get_executable(path, true);
        if (executable != get_executable(name, true) && set_executable(name, executable)) status = warn_path(name);
        struct timespec times[2] = {stat_->st_atim, stat_->st_mtim};
        utimensat(AT_FDCWD, name, times, 0);
        if (verbose) fprintf(stderr, "%s:\treplaced with %s\n", path, name);
        if (!keeps && unlink(path)) status = warn_path(path);
    }
    free(name);
    return status;
}

static int run_file(const char *path) {
    if (strcmp(path, "-") == 0) return convert_stream("stdin", stdin, NULL);
    struct stat stat_;
    if ((forced || to_stdout || tests ? stat : lstat)(path, &stat_)) {
        // gunzip NAME is gunzip NAME.gz, too.
        char *longer = grow(NULL, strlen(path) + strlen(suffix) + 1);
        sprintf(longer, "%s%s", path, suffix);
        int error = errno, status = decompresses && !ends_with(path, suffix) && stat(longer, &stat_) == 0 ? run_file(longer) : -1;
        free(longer);
        errno = error;
        return status >= 0 ? status : warn_path(path);
    }
    if (S_ISDIR(stat_.st_mode)) return run_dir(path);
    if (S_ISLNK(stat_.st_mode)) {
        errno = ELOOP;
        return warn_path(path);
    }
    if (!S_ISREG(stat_.st_mode)) return complain(path, "is not a directory or a regular file - ignored") + 1;
    if (!decompresses && !to_stdout && !forced && ends_with(path, suffix)) {
        if (!quiet) warn("%s already has %s suffix -- unchanged", path, suffix);
        return 0;
    }
    if (stat_.st_nlink > 1 && !to_stdout && !tests && !forced) {
        unsigned others = (unsigned)stat_.st_nlink - 1;
        warn("%s has %u other link%s -- file ignored", path, others, others == 1 ? "" : "s");
        return 2;
    }
    FILE *in = fopen(path, "r");
    if (!in) return warn_path(path);
    int status = to_stdout || tests ? convert_stream(path, in, &stat_) : replace(path, in, &stat_);
    fclose(in);
    return status;
}

static int run(int argc, char **argv) {
    static const struct option options[] = {
        {"stdout", no_argument, NULL, 'c'}, {"to-stdout", no_argument, NULL, 'c'}, {"decompress", no_argument, NULL, 'd'},
        {"uncompress", no_argument, NULL, 'd'}, {"force", no_argument, NULL, 'f'}, {"keep", no_argument, NULL, 'k'},
        {"no-name", no_argument, NULL, 'n'}, {"name", no_argument, NULL, 'N'}, {"quiet", no_argument, NULL, 'q'},
        {"recursive", no_argument, NULL, 'r'}, {"suffix", required_argument, NULL, 'S'}, {"test", no_argument, NULL, 't'},
        {"verbose", no_argument, NULL, 'v'}, {"fast", no_argument, NULL, '1'}, {"best", no_argument, NULL, '9'}, {0}};
    for (int option; (option = getopt_long(argc, argv, "cdfkmMnNqrS:tvh123456789", options, NULL)) != -1;) {
        switch (option) {
            case 'c': to_stdout = true; break;
            case 'd': decompresses = true; break;
            case 'f': forced = true; break;
            case 'k': keeps = true; break;
            case 'n': no_name = true; break;
            case 'N': case 'm': case 'M': break;
            case 'q': quiet = true; break;
            case 'r': recursive = true; break;
            case 'S': suffix = optarg; break;
            case 't': tests = decompresses = true; break;
            case 'v': verbose = true; break;
            default:
                if (option < '1' || option > '9') die_usage();
                level = option - '0';
        }
    }
    if (!*suffix) die("invalid suffix ''");
    if (optind == argc) return run_file("-");
    int status = 0;
    for (; optind < argc; optind++) {
        int one = run_file(argv[optind]);
        if (one && status != 1) status = one;
    }
    return status;
}

int tool_gzip(int argc, char **argv) {
    return run(argc, argv);
}

int tool_gunzip(int argc, char **argv) {
    decompresses = true;
    return run(argc, argv);
}

int tool_zcat(int argc, char **argv) {
    decompresses = to_stdout = true;
    return run(argc, argv);
}

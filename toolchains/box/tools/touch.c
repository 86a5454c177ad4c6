// touch: the times of files.
#include "../box.h"

#include <fcntl.h>
#include <time.h>

// [[CC]YY]MMDDhhmm[.ss]
static struct timespec parse_stamp(const char *text) {
    struct tm tm = {0};
    size_t digits = strspn(text, "0123456789");
    int year = 0, numbers[4];
    const char *at = text;
    if ((digits != 8 && digits != 10 && digits != 12) || (text[digits] && text[digits] != '.')) {
        die("invalid date format '%s'", text);
    }
    if (digits == 12) {
        year = (at[0] - '0') * 1000 + (at[1] - '0') * 100 + (at[2] - '0') * 10 + (at[3] - '0');
        at += 4;
    } else if (digits == 10) {
        year = (at[0] - '0') * 10 + (at[1] - '0');
        year += year < 69 ? 2000 : 1900;
        at += 2;
    } else {
        time_t now = time(NULL);
        year = gmtime(&now)->tm_year + 1900;
    }
    for (int i = 0; i < 4; i++, at += 2) numbers[i] = (at[0] - '0') * 10 + (at[1] - '0');
    tm.tm_sec = *at == '.' ? atoi(at + 1) : 0;
    tm.tm_year = year - 1900;
    tm.tm_mon = numbers[0] - 1;
    tm.tm_mday = numbers[1];
    tm.tm_hour = numbers[2];
    tm.tm_min = numbers[3];
    return (struct timespec){.tv_sec = timegm(&tm)};
}

// Of --time=WORD: whether only the time of access is meant.
static bool is_access(const char *word) {
    static const struct { const char *word; bool is_access; } WORDS[] = {
        {"atime", true}, {"access", true}, {"use", true}, {"mtime", false}, {"modify", false},
    };
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++) {
        if (strcmp(word, WORDS[i].word) == 0) return WORDS[i].is_access;
    }
    die("invalid argument '%s' for '--time'", word);
}

int tool_touch(int argc, char **argv) {
    static const struct option LONG[] = {
        {"no-create", no_argument, NULL, 'c'}, {"date", required_argument, NULL, 'd'},
        {"no-dereference", no_argument, NULL, 'h'}, {"reference", required_argument, NULL, 'r'},
        {"time", required_argument, NULL, 'T'}, {0},
    };
    bool creates = true, access_only = false, change_only = false;
    int of_link = 0;
    const char *reference = NULL, *date = NULL;
    struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_NOW}};
    for (int option; (option = getopt_long(argc, argv, "acd:fhmr:t:", LONG, NULL)) != -1;) {
        switch (option) {
            case 'a': access_only = true; break;
            case 'm': change_only = true; break;
            case 'T': *(is_access(optarg) ? &access_only : &change_only) = true; break;
            case 'c': creates = false; break;
            case 'f': break;
            case 'h': of_link = AT_SYMLINK_NOFOLLOW; break;
            case 'd': date = optarg; break;
            case 't': times[0] = times[1] = parse_stamp(optarg); break;
            case 'r': reference = optarg; break;
            default: die_usage();
        }
    }
    if (optind == argc) die("missing file operand");
    if (reference) {
        struct stat stat_;
        if (fstatat(AT_FDCWD, reference, &stat_, of_link)) {
            die("failed to get attributes of '%s': %s", reference, strerror(errno));
        }
        times[0] = stat_.st_atim;
        times[1] = stat_.st_mtim;
    }
    for (int i = 0; date && i < 2; i++) times[i] = parse_time(date, reference ? &times[i] : NULL);
    if (access_only && !change_only) times[1].tv_nsec = UTIME_OMIT;
    if (change_only && !access_only) times[0].tv_nsec = UTIME_OMIT;
    int status = 0;
    for (int i = optind; i < argc; i++) {
        if (utimensat(AT_FDCWD, argv[i], times, of_link) == 0) continue;
        if (errno == ENOENT && !creates) continue;
        if (errno == ENOENT && of_link) {
            status |= warn("setting times of '%s': %s", argv[i], strerror(errno));
            continue;
        }
        int fd = errno == ENOENT ? open(argv[i], O_WRONLY | O_CREAT, 0666) : -1;
        if (fd < 0 || futimens(fd, times)) status |= warn("cannot touch '%s': %s", argv[i], strerror(errno));
        if (fd >= 0) close(fd);
    }
    return status;
}

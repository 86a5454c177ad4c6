// basename, date, dirname, echo, env, false, printf, seq, sleep, true, uname, xargs, yes: arguments, numbers and programs.
#include "../box.h"

#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <sys/utsname.h>
#include <time.h>

int tool_true(int argc, char **argv) {
    (void)argc;
    (void)argv;
    return 0;
}

int tool_false(int argc, char **argv) {
    (void)argc;
    (void)argv;
    return 1;
}

int tool_yes(int argc, char **argv) {
    struct bytes line = {0};
    if (argc < 2) append(&line, "y", 1);
    for (int i = 1; i < argc; i++) {
        if (i > 1) append(&line, " ", 1);
        append(&line, argv[i], strlen(argv[i]));
    }
    append(&line, "\n", 1);
    while (fwrite(line.at, 1, line.len, stdout) == line.len) {}
    return 1;
}

int tool_basename(int argc, char **argv) {
    bool many = false;
    const char *suffix = NULL;
    for (int option; (option = getopt_long(argc, argv, "+as:", (struct option[]){{0}}, NULL)) != -1;) {
        if (option == '?') die_usage();
        many = true;
        if (option == 's') suffix = optarg;
    }
    if (optind == argc) die("missing operand");
    if (!many && argc - optind > 2) die("extra operand '%s'", argv[optind + 2]);
    if (!many && argc - optind == 2) suffix = argv[--argc];
    for (int i = optind; i < argc; i++) {
        size_t len, cut = suffix ? strlen(suffix) : 0;
        const char *name = last_part(argv[i], &len);
        if (cut && cut < len && memcmp(name + len - cut, suffix, cut) == 0) len -= cut;
        printf("%.*s\n", (int)len, name);
    }
    return 0;
}

int tool_dirname(int argc, char **argv) {
    int first = argc > 1 && strcmp(argv[1], "--") == 0 ? 2 : 1;
    if (first == argc) die("missing operand");
    for (int i = first; i < argc; i++) {
        size_t len, end;
        const char *name = last_part(argv[i], &len);
        end = name - argv[i];
        if (end == 0) {
            puts(*argv[i] == '/' ? "/" : ".");
            continue;
        }
        while (end > 1 && argv[i][end - 1] == '/') end--;
        printf("%.*s\n", (int)end, argv[i]);
    }
    return 0;
}

// Writes a text whose escapes count; false after \c.
static bool put_escaped(const char *text, bool leading_zero) {
    while (*text) {
        int c = (unsigned char)*text++;
        if (c == '\\' && (c = unescape(&text, leading_zero)) < 0) return false;
        putchar(c);
    }
    return true;
}

int tool_echo(int argc, char **argv) {
    bool newline = true, escapes = false;
    int i = 1;
    for (; i < argc && argv[i][0] == '-' && argv[i][1] && !argv[i][1 + strspn(argv[i] + 1, "neE")]; i++) {
        for (const char *at = argv[i] + 1; *at; at++) {
            if (*at == 'n') newline = false;
            else escapes = *at == 'e';
        }
    }
    for (int first = i; i < argc; i++) {
        if (i > first) putchar(' ');
        if (!escapes) fputs(argv[i], stdout);
        else if (!put_escaped(argv[i], true)) return 0;
    }
    if (newline) putchar('\n');
    return 0;
}

// --- printf ----------------------------------------------------------------------------------------------------------

static int printf_status;

static void check_number(const char *text, const char *end) {
    if (end == text || !*text) printf_status = warn("'%s': expected a numeric value", text);
    else if (*end) printf_status = warn("'%s': value not completely converted", text);
    else if (errno == ERANGE) printf_status = warn("'%s': Numerical result out of range", text);
}

static intmax_t integer_of(const char *text, bool is_signed) {
    if (!text) return 0;
    if (*text == '\'' || *text == '"') return (unsigned char)text[1];
    char *end;
    errno = 0;
    intmax_t value = is_signed ? strtoimax(text, &end, 0) : (intmax_t)strtoumax(text, &end, 0);
    check_number(text, end);
    return value;
}

static double float_of(const char *text) {
    if (!text) return 0;
    if (*text == '\'' || *text == '"') return (unsigned char)text[1];
    char *end;
    errno = 0;
    double value = strtod(text, &end);
    check_number(text, end);
    return value;
}

// One pass over the format. False after \c.
static bool print_once(const char *format, char ***args) {
    while (*format) {
        if (*format == '\\') {
            format++;
            if (*format == '"') {
                putchar(*format++);
                continue;
            }
            int c = unescape(&format, false);
            if (c < 0) return false;
            putchar(c);
            continue;
        }
        if (*format != '%') {
            putchar(*format++);
            continue;
        }
        if (*++format == '%') {
            putchar(*format++);
            continue;
        }
        char spec[64] = "%", *at = spec + 1;
        for (; *format && strchr("-+ #0", *format); format++) {
            if (at < spec + 6) *at++ = *format;
        }
        // Width and precision; ours are bounded, so that a format cannot ask for gigabytes of blanks by mistake.
        for (int part = 0; part < 2; part++) {
            if (part == 1) {
                if (*format != '.') break;
                format++;
                *at++ = '.';
            }
            long value = 0;
            if (*format == '*') {
                format++;
                value = integer_of(**args, true);
                if (**args) ++*args;
            } else if (*format >= '0' && *format <= '9') {
                value = strtol(format, (char **)&format, 10);
            } else {
                continue;
            }
            if (value > 1 << 20 || value < -(1 << 20)) die("%s: a width or precision is too large", "format");
            if (part == 1 && value < 0) at--;
            else at += sprintf(at, "%ld", value);
        }
        char conversion = *format;
        if (!conversion || !strchr("diouxXeEfFgGaAcsb", conversion)) die("%s: invalid conversion specification", spec);
        format++;
        const char *arg = **args;
        if (arg) ++*args;
        if (strchr("diouxX", conversion)) {
            bool is_signed = conversion == 'd' || conversion == 'i';
            sprintf(at, "j%c", conversion);
            printf(spec, integer_of(arg, is_signed));
        } else if (strchr("eEfFgGaA", conversion)) {
            sprintf(at, "%c", conversion);
            printf(spec, float_of(arg));
        } else if (conversion == 'c') {
            if (arg && *arg) {
                strcpy(at, "c");
                printf(spec, *arg);
            }
        } else if (conversion == 's') {
            strcpy(at, "s");
            printf(spec, arg ? arg : "");
        } else if (arg && !put_escaped(arg, true)) {
            return false;
        }
    }
    return true;
}

int tool_printf(int argc, char **argv) {
    int first = argc > 1 && strcmp(argv[1], "--") == 0 ? 2 : 1;
    if (first >= argc) die("missing operand");
    char **args = argv + first + 1, **before;
    do {
        before = args;
        if (!print_once(argv[first], &args)) break;
    } while (*args && args != before);
    return printf_status;
}

// --- numbers and times -----------------------------------------------------------------------------------------------

static int decimals_of(const char *text) {
    const char *point = strchr(text, '.');
    return point ? (int)strspn(point + 1, "0123456789") : 0;
}

static double number_of(const char *text) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || isnan(value)) die("invalid floating point argument: '%s'", text);
    return value;
}

int tool_seq(int argc, char **argv) {
    const char *separator = "\n";
    bool equal_width = false;
    int i = 1;
    for (; i < argc && argv[i][0] == '-'; i++) {
        if (strncmp(argv[i], "-s", 2) == 0) {
            if (!argv[i][2] && i + 1 == argc) die("option requires an argument -- 's'");
            separator = argv[i][2] ? argv[i] + 2 : argv[++i];
        } else if (strcmp(argv[i], "-w") == 0) {
            equal_width = true;
        } else if (strcmp(argv[i], "--") == 0) {
            i++;
            break;
        } else {
            break; // a negative number
        }
    }
    int count = argc - i;
    if (count < 1) die("missing operand");
    if (count > 3) die("extra operand '%s'", argv[i + 3]);
    const char *first_text = count > 1 ? argv[i] : "1", *step_text = count > 2 ? argv[i + 1] : "1";
    const char *last_text = argv[argc - 1];
    double first = number_of(first_text), step = number_of(step_text), last = number_of(last_text);
    if (step == 0) die("invalid Zero increment value: '%s'", step_text);
    int decimals = decimals_of(first_text), step_decimals = decimals_of(step_text);
    if (step_decimals > decimals) decimals = step_decimals;
    // What the last number may be off by, after many additions in binary.
    double slack = fabs(step) * 1e-9, steps = floor((last - first + (step > 0 ? slack : -slack)) / step);
    int width = 0;
    if (equal_width && steps >= 0) {
        int a = snprintf(NULL, 0, "%.*f", decimals, first), b = snprintf(NULL, 0, "%.*f", decimals, last);
        width = a > b ? a : b;
    }
    for (double n = 0; n <= steps; n++) {
        double value = first + n * step;
        if (n > 0) fputs(separator, stdout);
        if (printf("%0*.*f", width, decimals, value == 0 ? 0 : value) < 0) return 1;
    }
    if (steps >= 0) putchar('\n');
    return 0;
}

int tool_sleep(int argc, char **argv) {
    double total = 0;
    if (argc < 2) die("missing operand");
    for (int i = 1; i < argc; i++) {
        char *end;
        double seconds = strtod(argv[i], &end);
        double unit = *end == 'm' ? 60 : *end == 'h' ? 3600 : *end == 'd' ? 86400 : 1;
        if (end == argv[i] || isnan(seconds) || seconds < 0 || (*end && (!strchr("smhd", *end) || end[1]))) {
            die("invalid time interval '%s'", argv[i]);
        }
        total += seconds * unit;
    }
    if (total > 9e9) total = 9e9;
    struct timespec time = {.tv_sec = (time_t)total};
    time.tv_nsec = (long)((total - (double)time.tv_sec) * 1e9);
    while (nanosleep(&time, &time) && errno == EINTR) {}
    return 0;
}

// strftime with %N, and however long it gets.
static void print_time(const char *format, struct timespec time) {
    struct bytes whole = {0};
    append(&whole, "", 0);
    for (const char *at = format; *at;) {
        if (*at != '%' || !at[1]) {
            append(&whole, at++, 1);
            continue;
        }
        char digits[16];
        if (at[1] == 'N') append(&whole, digits, snprintf(digits, sizeof digits, "%09ld", time.tv_nsec));
        else append(&whole, at, 2);
        at += 2;
    }
    append(&whole, "x", 1); // an empty answer is none, and one that does not fit is none either
    struct tm *tm = gmtime(&time.tv_sec);
    if (!tm) die("a time is out of range");
    for (size_t size = whole.len * 8 + 256; size < 1u << 30; size *= 2) {
        char *text = grow(NULL, size);
        size_t len = strftime(text, size, whole.at, tm);
        if (len) {
            fwrite(text, 1, len - 1, stdout);
            putchar('\n');
            return;
        }
        free(text);
    }
    die("the format is too long");
}

int tool_date(int argc, char **argv) {
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    const char *format = "%a %b %e %H:%M:%S %Z %Y";
    struct stat stat_;
    for (int option; (option = getopt_long(argc, argv, "uRId:r:", (struct option[]){{0}}, NULL)) != -1;) {
        switch (option) {
            case 'u': break;
            case 'R': format = "%a, %d %b %Y %H:%M:%S +0000"; break;
            case 'I': format = "%Y-%m-%d"; break;
            case 'd': time = parse_time(optarg, NULL); break;
            case 'r':
                if (stat(optarg, &stat_)) die("%s: %s", optarg, strerror(errno));
                time = stat_.st_mtim;
                break;
            default: die_usage();
        }
    }
    if (optind < argc) {
        if (argv[optind][0] != '+') die("invalid date '%s'", argv[optind]);
        if (optind + 1 < argc) die("extra operand '%s'", argv[optind + 1]);
        format = argv[optind] + 1;
    }
    print_time(format, time);
    return 0;
}

// --- programs --------------------------------------------------------------------------------------------------------

int tool_env(int argc, char **argv) {
    trouble = 125;
    char end = '\n';
    for (int option; (option = getopt_long(argc, argv, "+iu:0", (struct option[]){{0}}, NULL)) != -1;) {
        switch (option) {
            case 'i': clearenv(); break;
            case 'u':
                if (unsetenv(optarg)) die("cannot unset '%s': %s", optarg, strerror(errno));
                break;
            case '0': end = '\0'; break;
            default: die_usage();
        }
    }
    if (optind < argc && strcmp(argv[optind], "-") == 0) {
        clearenv();
        optind++;
    }
    for (; optind < argc && strchr(argv[optind], '='); optind++) {
        if (argv[optind][0] == '=' || putenv(argv[optind])) die("cannot set '%s'", argv[optind]);
    }
    if (optind < argc) {
        fflush(NULL);
        execvp(argv[optind], argv + optind);
        warn_path(argv[optind]);
        return errno == ENOENT ? 127 : 126;
    }
    for (char **variable = environ; variable && *variable; variable++) {
        fputs(*variable, stdout);
        putchar(end);
    }
    return 0;
}

// Bytes of arguments of one command, as other systems have it.
enum { COMMAND_BYTES = 128 << 10 };

struct xargs {
    char **command;
    int command_count;
    const char *replace; // what -I replaces
    bool trace;
    int status;
    struct texts args;
    size_t bytes;
    int no_input; // to read nothing from
};

static char *replaced(const char *text, const char *what, const char *with) {
    struct bytes made = {0};
    size_t len = strlen(what);
    append(&made, "", 0);
    for (const char *found; (found = strstr(text, what)); text = found + len) {
        append(&made, text, found - text);
        append(&made, with, strlen(with));
    }
    append(&made, text, strlen(text));
    return made.at;
}

// Runs the command with what has come together.
static void flush_args(struct xargs *x) {
    struct texts argv = {0};
    for (int i = 0; i < x->command_count; i++) {
        const char *word = x->command[i];
        push(&argv, x->replace && x->args.count ? replaced(word, x->replace, x->args.at[0]) : copy_text(word));
    }
    for (size_t i = 0; !x->replace && i < x->args.count; i++) push(&argv, copy_text(x->args.at[i]));
    if (x->trace) {
        for (size_t i = 0; i < argv.count; i++) fprintf(stderr, "%s%s", i ? " " : "", argv.at[i]);
        fputc('\n', stderr);
    }
    int status = run_program(argv.at, x->no_input);
    free_texts(&argv);
    free_texts(&x->args);
    x->bytes = 0;
    if (status == 126 || status == 127) exit(status);
    if (status == 255) {
        warn("%s: exited with status 255; aborting", x->command[0]);
        exit(124);
    }
    if (status > 128) {
        warn("%s: terminated by signal %d", x->command[0], status - 128);
        exit(125);
    }
    if (status) x->status = 123;
}

// The next argument, NULL at the end and for an unmatched quote, which goes to `unmatched`. `eol` says whether a line
// ended with it.
static char *next_arg(bool by_nul, bool by_line, bool *eol, int *unmatched) {
    struct bytes arg = {0};
    bool any = false;
    int c, quote = 0;
    *eol = false;
    while ((c = getchar()) != EOF) {
        if (by_nul) {
            if (c == '\0') return append(&arg, "", 0), arg.at;
        } else if (quote) {
            if (c == '\n') return *unmatched = quote, NULL;
            if (c == quote) {
                quote = 0;
                continue;
            }
        } else if (c == '\'' || c == '"') {
            quote = c;
            any = true;
            continue;
        } else if (c == '\\') {
            if ((c = getchar()) == EOF) break;
        } else if (c == '\n' || (!by_line && (c == ' ' || c == '\t'))) {
            if (!any) continue;
            *eol = c == '\n';
            append(&arg, "", 0);
            return arg.at;
        } else if (by_line && !any && (c == ' ' || c == '\t')) {
            continue;
        }
        any = true;
        char byte = c;
        append(&arg, &byte, 1);
    }
    if (quote) return *unmatched = quote, NULL;
    if (!any) return NULL;
    append(&arg, "", 0);
    *eol = true;
    return arg.at;
}

int tool_xargs(int argc, char **argv) {
    bool by_nul = false, not_empty = false;
    uint64_t most = UINT64_MAX, most_lines = UINT64_MAX, lines = 0;
    struct xargs x = {0};
    for (int option; (option = getopt_long(argc, argv, "+0rtn:I:L:P:", (struct option[]){{0}}, NULL)) != -1;) {
        switch (option) {
            case '0': by_nul = true; break;
            case 'r': not_empty = true; break;
            case 't': x.trace = true; break;
            case 'n': most = parse_count(optarg, "number"); break;
            case 'L': most_lines = parse_count(optarg, "number"); break;
            case 'I': x.replace = optarg; break;
            case 'P': break; // one at a time, whatever is asked for: the output has an order then
            default: die_usage();
        }
    }
    if (most == 0 || most_lines == 0) die("value 0 for an option that takes at least 1");
    if (x.replace) {
        if (!*x.replace) die("-I needs a text to replace");
        most = 1;
    }
    char *echo[] = {"echo", NULL};
    x.command = optind < argc ? argv + optind : echo;
    x.command_count = optind < argc ? argc - optind : 1;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC)) die("cannot make a pipe: %s", strerror(errno));
    close(ends[1]);
    x.no_input = ends[0];
    bool ran = false, eol;
    int unmatched = 0;
    for (char *arg; (arg = next_arg(by_nul, x.replace, &eol, &unmatched));) {
        size_t size = strlen(arg) + 1;
        if (x.args.count && x.bytes + size > COMMAND_BYTES) {
            flush_args(&x);
            ran = true;
        }
        push(&x.args, arg);
        x.bytes += size;
        lines += eol;
        if (x.args.count >= most || lines >= most_lines) {
            flush_args(&x);
            ran = true;
            lines = 0;
        }
    }
    if (x.args.count || (!ran && !not_empty && !x.replace && !unmatched)) flush_args(&x);
    if (unmatched) die("unmatched %s quote", unmatched == '"' ? "double" : "single");
    return x.status;
}

// --- uname -----------------------------------------------------------------------------------------------------------

// What the C library says of the system: wasi, on wasm32.
int tool_uname(int argc, char **argv) {
    static const char order[] = "snrvm";
    static const struct option longs[] = {
        {"all", no_argument, NULL, 'a'}, {"kernel-name", no_argument, NULL, 's'}, {"nodename", no_argument, NULL, 'n'},
        {"kernel-release", no_argument, NULL, 'r'}, {"kernel-version", no_argument, NULL, 'v'},
        {"machine", no_argument, NULL, 'm'}, {"processor", no_argument, NULL, 'p'},
        {"operating-system", no_argument, NULL, 'o'}, {0},
    };
    bool wanted[sizeof order] = {0}, all = false, any = false, system = false, processor = false;
    for (int option; (option = getopt_long(argc, argv, "asnrvmpio", longs, NULL)) != -1; any = true) {
        if (option == '?') die_usage();
        else if (option == 'a') all = true;
        else if (option == 'o') system = true;
        else if (option == 'p' || option == 'i') processor = true;
        else wanted[strchr(order, option) - order] = true;
    }
    if (optind < argc) die("extra operand '%s'", argv[optind]);
    struct utsname names;
    if (uname(&names)) die("cannot get the name of the system: %s", strerror(errno));
    const char *texts[] = {names.sysname, names.nodename, names.release, names.version, names.machine};
    const char *separator = "";
    for (size_t i = 0; i < strlen(order); i++) {
        if (!all && any && !wanted[i]) continue;
        if (!any && order[i] != 's') continue;
        printf("%s%s", separator, texts[i]);
        separator = " ";
    }
    if (processor) {
        printf("%sunknown", separator);
        separator = " ";
    }
    if (all || system) printf("%s%s", separator, names.sysname);
    putchar('\n');
    return 0;
}

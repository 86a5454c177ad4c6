// base64, cksum, cmp, md5sum: bytes of files.
#include "../box.h"

#include <ctype.h>

// --- cksum ---------------------------------------------------------------------------------------------------------------

int tool_cksum(int argc, char **argv) {
    int status = 0;
    for (int option; (option = getopt_long(argc, argv, "", (struct option[]){{0}}, NULL)) != -1;) die_usage();
    uint32_t table[256];
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t value = i << 24;
        for (int bit = 0; bit < 8; bit++) value = value << 1 ^ (value >> 31 ? 0x04c11db7 : 0);
        table[i] = value;
    }
    for (int i = optind; i < argc || i == optind; i++) {
        FILE *file = open_input(i < argc ? argv[i] : "-");
        if (!file) {
            status = 1;
            continue;
        }
        static unsigned char block[1 << 16];
        uint32_t sum = 0;
        uint64_t size = 0;
        for (size_t count; (count = fread(block, 1, sizeof block, file)) > 0; size += count) {
            for (size_t j = 0; j < count; j++) sum = sum << 8 ^ table[(sum >> 24 ^ block[j]) & 255];
        }
        if (ferror(file)) status = warn_path(argv[i]);
        for (uint64_t rest = size; rest; rest >>= 8) sum = sum << 8 ^ table[(sum >> 24 ^ rest) & 255];
        printf("%lu %llu", (unsigned long)~sum & 0xffffffff, (unsigned long long)size);
        if (i < argc) printf(" %s", argv[i]);
        putchar('\n');
        close_input(file);
    }
    return status;
}

// --- md5sum --------------------------------------------------------------------------------------------------------------

struct md5 {
    uint32_t state[4];
    uint64_t size;
    unsigned char block[64];
};

static void md5_block(struct md5 *md5) {
    // The constants are those of RFC 1321: |sin(i + 1)| in units of 2^-32.
    static const uint32_t add[64] = {
        0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
        0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
        0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
        0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
        0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
        0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
        0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
        0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391,
    };
    static const unsigned char turns[4][4] = {{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};
    uint32_t words[16], a = md5->state[0], b = md5->state[1], c = md5->state[2], d = md5->state[3];
    for (int i = 0; i < 16; i++) {
        const unsigned char *at = md5->block + 4 * i;
        words[i] = at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
    }
    for (int i = 0; i < 64; i++) {
        int round = i / 16, word = round == 0 ? i : round == 1 ? 5 * i + 1 : round == 2 ? 3 * i + 5 : 7 * i;
        uint32_t mixed = round == 0 ? (b & c) | (~b & d) : round == 1 ? (d & b) | (~d & c) : round == 2 ? b ^ c ^ d : c ^ (b | ~d);
        mixed += a + add[i] + words[word & 15];
        a = d;
        d = c;
        c = b;
        int turn = turns[round][i & 3];
        b += mixed << turn | mixed >> (32 - turn);
    }
    md5->state[0] += a;
    md5->state[1] += b;
    md5->state[2] += c;
    md5->state[3] += d;
}

static void md5_add(struct md5 *md5, const unsigned char *at, size_t len) {
    for (size_t i = 0; i < len; i++) {
        md5->block[md5->size++ % 64] = at[i];
        if (md5->size % 64 == 0) md5_block(md5);
    }
}

// The digest in hexadecimal; false after a message.
static bool md5_of(const char *path, char text[33]) {
    FILE *file = open_input(path);
    if (!file) return false;
    struct md5 md5 = {.state = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476}};
    static unsigned char block[1 << 16];
    for (size_t count; (count = fread(block, 1, sizeof block, file)) > 0;) md5_add(&md5, block, count);
    bool failed = ferror(file);
    if (failed) warn_path(path);
    close_input(file);
    uint64_t bits = md5.size * 8;
    md5_add(&md5, (const unsigned char *)"\x80", 1);
    while (md5.size % 64 != 56) md5_add(&md5, (const unsigned char *)"", 1);
    for (int i = 0; i < 8; i++) md5_add(&md5, &(unsigned char){bits >> 8 * i}, 1);
    for (int i = 0; i < 16; i++) snprintf(text + 2 * i, 3, "%02x", md5.state[i / 4] >> 8 * (i % 4) & 255);
    return !failed;
}

static int md5_check(const char *path, bool quiet, bool silent) {
    FILE *file = open_input(path);
    if (!file) return 1;
    char *line = NULL, text[33];
    size_t room = 0, lines = 0, bad = 0, unread = 0, differing = 0;
    for (ssize_t len; (len = getline(&line, &room, file)) > 0;) {
        if (line[len - 1] == '\n') line[--len] = '\0';
        size_t digits = strspn(line, "0123456789abcdefABCDEF");
        if (digits != 32 || len < 35 || line[32] != ' ' || (line[33] != ' ' && line[33] != '*')) {
            bad++;
            continue;
        }
        lines++;
        const char *name = line + 34;
        if (!md5_of(name, text)) {
            unread++;
            if (!silent) printf("%s: FAILED open or read\n", name);
            continue;
        }
        bool same = strncasecmp(text, line, 32) == 0;
        if (!same) differing++;
        if (!silent && !(same && quiet)) printf("%s: %s\n", name, same ? "OK" : "FAILED");
    }
    free(line);
    close_input(file);
    if (!lines) return warn("%s: no properly formatted MD5 checksum lines found", path);
    if (bad && !silent) warn("WARNING: %zu line%s improperly formatted", bad, bad == 1 ? " is" : "s are");
    if (unread && !silent) warn("WARNING: %zu listed file%s could not be read", unread, unread == 1 ? "" : "s");
    if (differing && !silent) warn("WARNING: %zu computed checksum%s did NOT match", differing, differing == 1 ? "" : "s");
    return unread || differing;
}

int tool_md5sum(int argc, char **argv) {
    static const struct option options[] = {{"check", no_argument, NULL, 'c'}, {"binary", no_argument, NULL, 'b'},
                                            {"text", no_argument, NULL, 't'}, {"quiet", no_argument, NULL, 'q'},
                                            {"status", no_argument, NULL, 's'}, {0}};
    bool checks = false, quiet = false, silent = false, binary = false;
    for (int option; (option = getopt_long(argc, argv, "cbt", options, NULL)) != -1;) {
        if (option == 'c') checks = true;
        else if (option == 'q') quiet = true;
        else if (option == 's') silent = true;
        else if (option == 'b') binary = true;
        else if (option != 't') die_usage();
    }
    int status = 0;
    char text[33];
    for (int i = optind; i < argc || i == optind; i++) {
        const char *path = i < argc ? argv[i] : "-";
        if (checks) status |= md5_check(path, quiet, silent);
        else if (md5_of(path, text)) printf("%s %c%s\n", text, binary ? '*' : ' ', path);
        else status = 1;
    }
    return status;
}

// --- base64 --------------------------------------------------------------------------------------------------------------

static const char digits64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

// What there is of a group that is not complete; GNU calls that invalid, too.
static int end_group64(uint32_t bits, int count) {
    for (int i = 0; i < count - 1; i++) putchar((bits << 6 * (4 - count)) >> (16 - 8 * i) & 255);
    return warn("invalid input");
}

static int decode64(FILE *file, bool skips) {
    uint32_t bits = 0;
    int count = 0, padding = 0;
    for (int c; (c = getc(file)) != EOF;) {
        if (c == '\n') continue;
        const char *digit = c ? strchr(digits64, c) : NULL;
        if (c == '=' && (count == 2 || count == 3) && count + padding < 4) {
            padding++;
        } else if (digit && !padding) {
            bits = bits << 6 | (uint32_t)(digit - digits64);
            count++;
        } else if (!skips) {
            return end_group64(bits, count);
        }
        if (count + padding < 4) continue;
        for (int i = 0; i < 3 - padding; i++) putchar((bits << 6 * padding) >> (16 - 8 * i) & 255);
        bits = 0;
        count = padding = 0;
    }
    return count ? end_group64(bits, count) : 0;
}

int tool_base64(int argc, char **argv) {
    static const struct option options[] = {{"decode", no_argument, NULL, 'd'}, {"wrap", required_argument, NULL, 'w'},
                                            {"ignore-garbage", no_argument, NULL, 'i'}, {0}};
    bool decodes = false, skips = false;
    uint64_t wrap = 76, column = 0;
    for (int option; (option = getopt_long(argc, argv, "dDiw:", options, NULL)) != -1;) {
        if (option == 'd' || option == 'D') decodes = true;
        else if (option == 'i') skips = true;
        else if (option == 'w') wrap = parse_count(optarg, "wrap size");
        else die_usage();
    }
    if (argc - optind > 1) die("extra operand '%s'", argv[optind + 1]);
    FILE *file = open_input(optind < argc ? argv[optind] : "-");
    if (!file) return 1;
    if (decodes) return decode64(file, skips);
    unsigned char piece[3];
    for (size_t count; (count = fread(piece, 1, 3, file)) > 0;) {
        uint32_t bits = (uint32_t)piece[0] << 16 | (count > 1 ? piece[1] << 8 : 0) | (count > 2 ? piece[2] : 0);
        for (size_t i = 0; i < 4; i++) {
            putchar(i > count ? '=' : digits64[bits >> (18 - 6 * i) & 63]);
            if (wrap && ++column == wrap) {
                putchar('\n');
                column = 0;
            }
        }
    }
    if (ferror(file)) return warn_path(optind < argc ? argv[optind] : "-");
    if (wrap && column) putchar('\n');
    return 0;
}

// --- cmp -----------------------------------------------------------------------------------------------------------------

static void skip_bytes(FILE *file, uint64_t count) {
    while (count-- > 0 && getc(file) != EOF) {}
}

// A byte as cmp -b shows it.
static void visible(int c, char text[8]) {
    int low = c & 127;
    snprintf(text, 8, "%s%s%c", c & 128 ? "M-" : "", low < 32 || low == 127 ? "^" : "", low < 32 || low == 127 ? low ^ 64 : low);
}

int tool_cmp(int argc, char **argv) {
    trouble = 2;
    static const struct option options[] = {{"silent", no_argument, NULL, 's'}, {"quiet", no_argument, NULL, 's'},
                                            {"verbose", no_argument, NULL, 'l'}, {"bytes", required_argument, NULL, 'n'},
                                            {"print-bytes", no_argument, NULL, 'b'}, {0}};
    bool silent = false, all = false, shows = false;
    uint64_t most = UINT64_MAX, skip[2] = {0};
    for (int option; (option = getopt_long(argc, argv, "slbn:i:", options, NULL)) != -1;) {
        switch (option) {
            case 's': silent = true; break;
            case 'l': all = true; break;
            case 'b': shows = true; break;
            case 'n': most = parse_count(optarg, "--bytes value"); break;
            case 'i': {
                char *colon = strchr(optarg, ':');
                if (colon) *colon = '\0';
                skip[0] = skip[1] = parse_count(optarg, "--ignore-initial value");
                if (colon) skip[1] = parse_count(colon + 1, "--ignore-initial value");
                break;
            }
            default: die_usage();
        }
    }
    if (optind == argc) die("missing operand after 'cmp'");
    if (argc - optind > 4) die("extra operand '%s'", argv[optind + 4]);
    const char *names[2] = {argv[optind], optind + 1 < argc ? argv[optind + 1] : "-"};
    for (int i = 0; i < 2 && optind + 2 + i < argc; i++) skip[i] = parse_count(argv[optind + 2 + i], "--ignore-initial value");
    FILE *files[2];
    for (int i = 0; i < 2; i++) {
        // With -s, not even that.
        if (silent && strcmp(names[i], "-") && access(names[i], R_OK)) return 2;
        files[i] = open_input(names[i]);
        if (!files[i]) return 2;
        skip_bytes(files[i], skip[i]);
    }
    if (strcmp(names[0], names[1]) == 0 && skip[0] == skip[1]) return 0;
    uint64_t byte = 0, line = 1;
    int a, b, status = 0, last = '\n';
    while (byte < most) {
        a = getc(files[0]);
        b = getc(files[1]);
        if (a == EOF || b == EOF) break;
        byte++;
        if (a != b) {
            status = 1;
            if (silent) return 1;
            char x[8], y[8];
            visible(a, x);
            visible(b, y);
            if (all && shows) printf("%llu %3o %-4s %3o %s\n", (unsigned long long)byte, a, x, b, y);
            else if (all) printf("%llu %3o %3o\n", (unsigned long long)byte, a, b);
            else {
                printf("%s %s differ: %s %llu, line %llu", names[0], names[1], shows ? "byte" : "char", (unsigned long long)byte,
                       (unsigned long long)line);
                if (shows) printf(" is %3o %s %3o %s", a, x, b, y);
                putchar('\n');
                return 1;
            }
        }
        last = a;
        if (a == '\n') line++;
    }
    if (byte == most || (a == EOF && b == EOF)) return status;
    if (silent) return 1;
    const char *shorter = a == EOF ? names[0] : names[1];
    unsigned long long at = byte;
    fflush(stdout);
    if (!byte) fprintf(stderr, "cmp: EOF on %s which is empty\n", shorter);
    else if (all) fprintf(stderr, "cmp: EOF on %s after byte %llu\n", shorter, at);
    else {
        fprintf(stderr, "cmp: EOF on %s after byte %llu, %sline %llu\n", shorter, at, last == '\n' ? "" : "in ",
                (unsigned long long)line - (last == '\n'));
    }
    return 1;
}

// sha256sum: prints and checks SHA-256 digests, in the format of the GNU program of that name.
#define _XOPEN_SOURCE 700
#include "demo.h"

const char program[] = "sha256sum";
const char help[] =
    "usage: sha256sum [FILE...]\n"
    "       sha256sum -c [FILE...]\n"
    "\n"
    "Prints the SHA-256 digest of each FILE, or of standard input. `-` is standard input.\n"
    "\n"
    "  -c, --check  read such lines from each FILE and check the files they name\n"
    "  --help       this text\n"
    "\n"
    "A name with a backslash, newline or carriage return is printed with these escaped, and a\n"
    "backslash before the digest says so.\n"
    "\n"
    "Exits 0, or 1 if a file could not be read, a line was malformed beyond use, or a digest differs.\n";

// --- SHA-256 (FIPS 180-4) -------------------------------------------------------------------------

struct sha256 {
    uint32_t h[8];
    uint64_t size;
    unsigned char block[64];
};

static const uint32_t k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate(uint32_t x, int by) { return x >> by | x << (32 - by); }

static void compress(uint32_t h[8], const unsigned char *block) {
    uint32_t w[64];
    for (int i = 0; i < 16; i++, block += 4)
        w[i] = (uint32_t)block[0] << 24 | (uint32_t)block[1] << 16 | (uint32_t)block[2] << 8 | block[3];
    for (int i = 16; i < 64; i++) {
        uint32_t s0 = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ w[i - 15] >> 3;
        uint32_t s1 = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    uint32_t v[8];
    memcpy(v, h, sizeof v);
    for (int i = 0; i < 64; i++) {
        uint32_t s1 = rotate(v[4], 6) ^ rotate(v[4], 11) ^ rotate(v[4], 25);
        uint32_t t1 = v[7] + s1 + ((v[4] & v[5]) ^ (~v[4] & v[6])) + k[i] + w[i];
        uint32_t s0 = rotate(v[0], 2) ^ rotate(v[0], 13) ^ rotate(v[0], 22);
        uint32_t t2 = s0 + ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
        v[7] = v[6], v[6] = v[5], v[5] = v[4], v[4] = v[3] + t1;
        v[3] = v[2], v[2] = v[1], v[1] = v[0], v[0] = t1 + t2;
    }
    for (int i = 0; i < 8; i++) h[i] += v[i];
}

static void sha256_start(struct sha256 *s) {
    *s = (struct sha256){.h = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                               0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

static void sha256_add(struct sha256 *s, const unsigned char *bytes, size_t size) {
    size_t held = s->size % 64;
    s->size += size;
    if (held) {
        size_t part = 64 - held < size ? 64 - held : size;
        memcpy(s->block + held, bytes, part);
        if (held + part < 64) return;
        compress(s->h, s->block);
        bytes += part;
        size -= part;
    }
    for (; size >= 64; bytes += 64, size -= 64) compress(s->h, bytes);
    memcpy(s->block, bytes, size);
}

static void sha256_end(struct sha256 *s, char hex[65]) {
    uint64_t bits = s->size * 8;
    // A one bit, zeros, and the length in the last eight bytes of a block.
    unsigned char tail[72] = {0x80};
    size_t pad = (s->size % 64 < 56 ? 56 : 120) - s->size % 64;
    for (int i = 0; i < 8; i++) tail[pad + (size_t)i] = (unsigned char)(bits >> (56 - 8 * i));
    sha256_add(s, tail, pad + 8);
    for (int i = 0; i < 64; i++) hex[i] = "0123456789abcdef"[s->h[i / 8] >> (28 - i % 8 * 4) & 15];
    hex[64] = 0;
}

// --- files ----------------------------------------------------------------------------------------

static int is_stdin(const char *name) { return strcmp(name, "-") == 0; }

// What messages call NAME.
static const char *called(const char *name) { return is_stdin(name) ? "standard input" : name; }

static int digest(const char *name, char hex[65]) {
    static unsigned char block[65536];
    int fd = is_stdin(name) ? STDIN_FILENO : open_input(name);
    if (fd < 0) return -1;
    struct sha256 s;
    sha256_start(&s);
    ssize_t got;
    while ((got = read_some(fd, block, sizeof block)) > 0) sha256_add(&s, block, (size_t)got);
    if (got < 0) complain_errno(called(name));
    if (fd != STDIN_FILENO) close(fd);
    if (got < 0) return -1;
    sha256_end(&s, hex);
    return 0;
}

static int needs_escape(const char *name) { return strpbrk(name, "\\\n\r") != NULL; }

static void out_name(const char *name) {
    for (; *name; name++) {
        switch (*name) {
        case '\\': out_text("\\\\"); break;
        case '\n': out_text("\\n"); break;
        case '\r': out_text("\\r"); break;
        default: out(name, 1);
        }
    }
}

static int print(const char *name) {
    char hex[65];
    if (digest(name, hex) != 0) return 1;
    if (needs_escape(name)) out_text("\\");
    out_text(hex);
    out_text("  ");
    out_name(name);
    out_text("\n");
    return 0;
}

// --- checking -------------------------------------------------------------------------------------

// Undoes out_name in place. Returns -1 if that could not have written it.
static int unescape(char *name) {
    char *to = name;
    for (; *name; name++) {
        if (*name != '\\') {
            *to++ = *name;
            continue;
        }
        switch (*++name) {
        case '\\': *to++ = '\\'; break;
        case 'n': *to++ = '\n'; break;
        case 'r': *to++ = '\r'; break;
        default: return -1;
        }
    }
    *to = 0;
    return 0;
}

// Takes `[\]DIGEST(two spaces, or space and star)NAME` apart, in place, the digest in lower case.
static int parse(char *line, char **hex, char **name) {
    int escaped = *line == '\\';
    *hex = line += escaped;
    for (int i = 0; i < 64; i++, line++) {
        if (*line >= 'A' && *line <= 'F') *line += 'a' - 'A';
        if (!(*line >= '0' && *line <= '9') && !(*line >= 'a' && *line <= 'f')) return -1;
    }
    if (line[0] != ' ' || (line[1] != ' ' && line[1] != '*') || !line[2]) return -1;
    *line = 0;
    *name = line + 2;
    return escaped ? unescape(*name) : 0;
}

static void warn_count(uint64_t n, const char *one, const char *many) {
    if (!n) return;
    char text[128] = "WARNING: ";
    size_t at = strlen(text);
    char digits[20];
    size_t d = sizeof digits;
    uint64_t rest = n;
    do digits[--d] = (char)('0' + rest % 10);
    while (rest /= 10);
    memcpy(text + at, digits + d, sizeof digits - d);
    at += sizeof digits - d;
    const char *what = n == 1 ? one : many;
    memcpy(text + at, what, strlen(what) + 1);
    complain(text, NULL);
}

static int check(const char *name) {
    static struct bytes list;
    int fd = is_stdin(name) ? STDIN_FILENO : open_input(name);
    if (fd < 0) return 1;
    int failed = read_all(fd, &list) != 0 || reserve(&list, 1) != 0;
    if (failed) complain_errno(called(name));
    if (fd != STDIN_FILENO) close(fd);
    if (failed) return 1;

    uint64_t good = 0, malformed = 0, unread = 0, wrong = 0;
    char *end = list.at + list.size;
    for (char *line = list.at; line < end;) {
        char *stop = memchr(line, '\n', (size_t)(end - line));
        char *next = stop ? stop + 1 : end;
        if (!stop) stop = end;
        *stop = 0;
        // A list that went through Windows.
        if (stop > line && stop[-1] == '\r') stop[-1] = 0;
        char *hex, *file, now[65];
        // A comment, and a line cut short by a NUL, are no digests.
        if (*line == '#') {
            line = next;
            continue;
        }
        if (strlen(line) + 1 < (size_t)(stop - line) || parse(line, &hex, &file) != 0) {
            malformed++;
            line = next;
            continue;
        }
        line = next;
        good++;
        const char *verdict = "OK";
        if (digest(file, now) != 0) {
            unread++;
            verdict = "FAILED open or read";
        } else if (memcmp(now, hex, 64) != 0) {
            wrong++;
            verdict = "FAILED";
        }
        // Unlike in a list, a backslash alone is no reason to escape: nobody reads this back.
        if (strchr(file, '\n')) {
            out_text("\\");
            out_name(file);
        } else {
            out_text(file);
        }
        out_text(": ");
        out_text(verdict);
        out_text("\n");
    }
    out_flush();
    if (!good) {
        complain(called(name), "no properly formatted checksum lines found");
        return 1;
    }
    warn_count(malformed, " line is improperly formatted", " lines are improperly formatted");
    warn_count(unread, " listed file could not be read", " listed files could not be read");
    warn_count(wrong, " computed checksum did NOT match", " computed checksums did NOT match");
    return unread || wrong;
}

int main(int argc, char **argv) {
    int checking = 0, i = 1;
    for (; i < argc && argv[i][0] == '-' && argv[i][1]; i++) {
        if (strcmp(argv[i], "--help") == 0) show_help();
        if (strcmp(argv[i], "--") == 0) {
            i++;
            break;
        }
        if (strcmp(argv[i], "-c") != 0 && strcmp(argv[i], "--check") != 0)
            usage_error(1, argv[i], "unknown option");
        checking = 1;
    }
    int status = 0;
    if (i == argc) status = checking ? check("-") : print("-");
    for (; i < argc; i++) status |= checking ? check(argv[i]) : print(argv[i]);
    out_flush();
    return status;
}

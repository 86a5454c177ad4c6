// compute ROUNDS [PART]: computes and calls nothing, then prints a checksum of all of it. Floats, integers
// and memory in turn, or the PART `floats` or `integers` (and memory) alone: a matrix product, the mixing of a hash function, a sieve. The checksum is
// the same on every machine: IEEE arithmetic in a fixed order, no fused multiply-add (`-std=c11`
// natively), no library functions.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 96, WORDS = 16384, LIMIT = 200000 };

static double a[SIDE][SIDE], b[SIDE][SIDE], c[SIDE][SIDE];
static uint32_t words[WORDS];
static unsigned char composite[LIMIT + 1];

static uint64_t state = 0x9e3779b97f4a7c15u;

// xorshift64*: every part feeds on the one before, so no round can be skipped.
static uint64_t next(void) {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 0x2545f4914f6cdd1du;
}

static uint32_t rotate(uint32_t x, int by) { return x >> by | x << (32 - by); }

static void multiply(void) {
    for (int i = 0; i < SIDE; i++)
        for (int j = 0; j < SIDE; j++) {
            a[i][j] = (double)(next() >> 11) * 0x1p-53;
            b[i][j] = (double)(next() >> 11) * 0x1p-53 - 0.5;
            c[i][j] = 0;
        }
    for (int i = 0; i < SIDE; i++)
        for (int k = 0; k < SIDE; k++)
            for (int j = 0; j < SIDE; j++) c[i][j] += a[i][k] * b[k][j];
    for (int i = 0; i < SIDE; i++) {
        uint64_t bits;
        memcpy(&bits, &c[i][SIDE - 1 - i], sizeof bits);
        state ^= bits + (uint64_t)i;
    }
}

static void mix(void) {
    uint32_t h[8];
    for (int i = 0; i < 8; i++) h[i] = (uint32_t)(next() >> 32);
    for (int i = 0; i < WORDS; i++) words[i] = (uint32_t)next();
    for (int i = 0; i < WORDS; i++) {
        uint32_t s1 = rotate(h[4], 6) ^ rotate(h[4], 11) ^ rotate(h[4], 25);
        uint32_t s0 = rotate(h[0], 2) ^ rotate(h[0], 13) ^ rotate(h[0], 22);
        uint32_t t1 = h[7] + s1 + ((h[4] & h[5]) ^ (~h[4] & h[6])) + words[i];
        uint32_t t2 = s0 + ((h[0] & h[1]) ^ (h[0] & h[2]) ^ (h[1] & h[2]));
        memmove(h + 1, h, 7 * sizeof *h);
        h[4] += t1;
        h[0] = t1 + t2;
    }
    for (int i = 0; i < 8; i += 2) state ^= (uint64_t)h[i] << 32 | h[i + 1];
}

static void sieve(void) {
    memset(composite, 0, sizeof composite);
    uint32_t limit = LIMIT - (uint32_t)(next() % 1000), primes = 0;
    for (uint32_t i = 2; i <= limit; i++) {
        if (composite[i]) continue;
        primes++;
        for (uint64_t j = (uint64_t)i * i; j <= limit; j += i) composite[j] = 1;
    }
    state += primes;
}

int main(int argc, char **argv) {
    const char *part = argc == 3 ? argv[2] : "all";
    int is_all = !strcmp(part, "all"), is_floats = !strcmp(part, "floats"), is_integers = !strcmp(part, "integers");
    if (argc < 2 || argc > 3 || !(is_all || is_floats || is_integers)) {
        fputs("usage: compute ROUNDS [floats|integers]\n", stderr);
        return 2;
    }
    long rounds = atol(argv[1]);
    for (long i = 0; i < rounds; i++) {
        if (is_all || is_floats) multiply();
        if (is_all || is_integers) {
            mix();
            sieve();
        }
        // Xor of arbitrary values could in principle reach zero, where xorshift stays for ever.
        state |= 1;
    }
    printf("%016llx\n", (unsigned long long)state);
    return 0;
}

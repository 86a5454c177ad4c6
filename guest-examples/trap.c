// trap [unreachable|divide|overflow|memory|call]: ends in a trap of that kind (default: unreachable).
// The kinds are what WebAssembly makes of them; a native build crashes in its own way, or not at all.
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static int takes_one(int x) { return x; }

int main(int argc, char **argv) {
    const char *kind = argc > 1 ? argv[1] : "unreachable";
    // volatile throughout: each of these is undefined in C, so the compiler must not see it coming.
    volatile int zero = 0, one = 1, minus_one = -1, least = INT_MIN;
    if (strcmp(kind, "unreachable") == 0) __builtin_trap();
    if (strcmp(kind, "divide") == 0) return one / zero;
    if (strcmp(kind, "overflow") == 0) return least / minus_one;
    if (strcmp(kind, "memory") == 0) {
        volatile uintptr_t top = UINTPTR_MAX - 15;
        return *(volatile char *)top;
    }
    if (strcmp(kind, "call") == 0) {
        // A call through a pointer of another type: WebAssembly checks the signature at the call.
        void *volatile target = (void *)(uintptr_t)takes_one;
        return (int)((double (*)(double, double))(uintptr_t)target)(1, 2);
    }
    fputs("usage: trap [unreachable|divide|overflow|memory|call]\n", stderr);
    return 2;
}

// spin MS: reads the monotonic clock and does nothing else until MS milliseconds have passed.
// Under a clock that never moves on its own this does not end: the runtime has to see to that.
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static long long now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fputs("usage: spin MS\n", stderr);
        return 2;
    }
    long long end = now_ns() + atoll(argv[1]) * 1000000LL;
    unsigned long long reads = 1;
    do reads++;
    while (now_ns() < end);
    printf("finished after %llu reads\n", reads);
    return 0;
}

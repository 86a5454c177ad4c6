// sleeper MS: sleeps, then prints how many milliseconds the monotonic clock moved.
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(int argc, char **argv) {
    if (argc != 2) {
        fputs("usage: sleeper MS\n", stderr);
        return 2;
    }
    long long ms = atoll(argv[1]);
    struct timespec length = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    if (nanosleep(&length, NULL) != 0) {
        perror("sleeper: nanosleep");
        return 1;
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    long long ns = (end.tv_sec - start.tv_sec) * 1000000000LL + (end.tv_nsec - start.tv_nsec);
    printf("%lld ms\n", ns / 1000000);
    return 0;
}

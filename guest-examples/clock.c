// clock: prints what the two clocks say and how finely they count, in seconds.
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <time.h>

static int show(const char *name, clockid_t id) {
    struct timespec now, res;
    if (clock_gettime(id, &now) != 0 || clock_getres(id, &res) != 0) {
        perror(name);
        return 1;
    }
    printf("%s %lld.%09ld\n", name, (long long)now.tv_sec, (long)now.tv_nsec);
    printf("%s-resolution %lld.%09ld\n", name, (long long)res.tv_sec, (long)res.tv_nsec);
    return 0;
}

int main(void) {
    return show("realtime", CLOCK_REALTIME) | show("monotonic", CLOCK_MONOTONIC);
}

// deep LEVELS: recurses that far and prints how far it came, to find where the call stack ends.
// It is linked with a large stack of its own, so that the runtime's is the one that ends first.
#include <stdio.h>
#include <stdlib.h>

static unsigned long down(unsigned long levels) {
    // volatile, and read after the call: no tail call, and no frame that could be dropped.
    volatile char frame[16];
    frame[levels % sizeof frame] = 1;
    if (levels == 0) return 0;
    return down(levels - 1) + (unsigned long)frame[levels % sizeof frame];
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fputs("usage: deep LEVELS\n", stderr);
        return 2;
    }
    printf("%lu levels\n", down(strtoul(argv[1], NULL, 10)));
    return 0;
}

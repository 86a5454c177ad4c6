// alloc_bomb: takes 16 MiB after 16 MiB, touches every page, and prints how many MiB it got.
// Exits 3 once malloc refuses. Run it natively only under `ulimit -v`.
#include <stdio.h>
#include <stdlib.h>

// The allocator puts a header before a block and rounds up to a power of two: without room for the
// header, every block would take twice what it is counted as.
enum { MIB = 16, PAGE = 4096, BLOCK = (MIB << 20) - PAGE };

int main(void) {
    for (unsigned total = 0;; total += MIB) {
        // volatile: an allocation that nobody reads would be optimised away.
        volatile char *block = malloc(BLOCK);
        if (!block) {
            printf("%u MiB\n", total);
            return 3;
        }
        for (size_t at = 0; at < BLOCK; at += PAGE) block[at] = 1;
    }
}

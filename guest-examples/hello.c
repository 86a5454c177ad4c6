// The smallest useful guest: what starting, running and dropping a program costs.
#include <stdio.h>

int main(void) {
    return puts("hello, world") < 0;
}

// random: prints 32 bytes of the system's randomness in hexadecimal.
#define _DEFAULT_SOURCE
#include <stdio.h>
#include <unistd.h>

int main(void) {
    unsigned char bytes[32];
    if (getentropy(bytes, sizeof bytes) != 0) {
        perror("random: getentropy");
        return 1;
    }
    for (size_t i = 0; i < sizeof bytes; i++) printf("%02x", bytes[i]);
    putchar('\n');
    return 0;
}

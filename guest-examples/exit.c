// exit CODE: ends with CODE and prints nothing.
#include <stdlib.h>

int main(int argc, char **argv) {
    exit(argc > 1 ? atoi(argv[1]) : 0);
}

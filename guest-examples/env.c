// env [ARG...]: prints the arguments and then the environment, one per line, in the order given.
#include <stdio.h>

extern char **environ;

int main(int argc, char **argv) {
    for (int i = 0; i < argc; i++) printf("argv[%d]=%s\n", i, argv[i]);
    for (int i = 0; environ && environ[i]; i++) printf("environ[%d]=%s\n", i, environ[i]);
    return 0;
}

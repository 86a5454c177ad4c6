// Asks the host by name: `ask OPERATION [PARAMS]...` prints each answer, `ask -h NAME...` whether it can be asked for.
#include <belljar_ask.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Prints what the host answers; 1 if that is an error, 3 if it was not asked.
static int ask(const char *operation, const char *params) {
    char *answer = belljar_ask(operation, params);
    if (!answer) {
        fprintf(stderr, "ask: %s: %s\n", operation, strerror(errno));
        return 3;
    }
    puts(answer);
    int failed = strncmp(answer, "{\"error\"", 8) == 0;
    free(answer);
    return failed;
}

int main(int argc, char **argv) {
    if (argc < 2 || (strcmp(argv[1], "-h") == 0 && argc < 3)) {
        fputs("usage: ask OPERATION [PARAMS]... | ask -h NAME...\n", stderr);
        return 2;
    }
    if (strcmp(argv[1], "-h") == 0) {
        for (int i = 2; i < argc; i++) {
            int has = belljar_can_ask(argv[i]);
            if (has < 0) {
                fprintf(stderr, "ask: %s: %s\n", argv[i], strerror(errno));
                return 3;
            }
            printf("%s %s\n", argv[i], has ? "yes" : "no");
        }
        return 0;
    }
    if (argc == 2) return ask(argv[1], NULL);
    int status = 0;
    for (int i = 2; i < argc; i++) {
        int answered = ask(argv[1], argv[i]);
        if (answered > status) status = answered;
    }
    return status;
}

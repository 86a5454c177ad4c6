// Calls of the host.
#include "internal.h"

#include <belljar_ask.h>
#include <stdlib.h>
#include <string.h>

// Most answers have fewer bytes.
enum { BELLJAR_ANSWER_BYTES = 4096 };

int belljar_can_ask(const char *name) {
    uint32_t has;
    if (belljar_done(belljar_host_has(name, strlen(name), &has))) return -1;
    return (int)has;
}

char *belljar_ask(const char *operation, const char *params) {
    uint32_t size, more;
    char *answer = malloc(BELLJAR_ANSWER_BYTES);
    if (!answer) return NULL;
    int32_t error = belljar_host_call(operation, strlen(operation), params, params ? strlen(params) : 0, answer,
                                      BELLJAR_ANSWER_BYTES - 1, &size);
    if (error) {
        free(answer);
        belljar_done(error);
        return NULL;
    }
    if (size >= BELLJAR_ANSWER_BYTES) {
        char *longer = realloc(answer, (size_t)size + 1);
        if (!longer) {
            free(answer);
            return NULL;
        }
        answer = longer;
        belljar_host_reply(BELLJAR_ANSWER_BYTES - 1, answer + BELLJAR_ANSWER_BYTES - 1, size - (BELLJAR_ANSWER_BYTES - 1),
                           &more);
    }
    answer[size] = '\0';
    return answer;
}

// <stdio.h> of wasi-libc, and what libbelljar adds to it.
#include_next <stdio.h>

#ifndef BELLJAR_STDIO_H
#define BELLJAR_STDIO_H

#ifdef __cplusplus
extern "C" {
#endif

FILE *popen(const char *command, const char *mode);
int pclose(FILE *stream);

#ifdef __cplusplus
}
#endif

#endif

// <stdlib.h> of wasi-libc, and what libbelljar adds to it: it defines system, and has files with names of their own.
#include_next <stdlib.h>

#ifndef BELLJAR_STDLIB_H
#define BELLJAR_STDLIB_H

#ifdef __cplusplus
extern "C" {
#endif

int mkstemp(char *path);

#ifdef __cplusplus
}
#endif

#endif

// <fcntl.h> of wasi-libc, and what libbelljar adds to it: descriptors that are closed on exec, and copies of them.
#include_next <fcntl.h>

#ifndef BELLJAR_FCNTL_H
#define BELLJAR_FCNTL_H

// A bit that wasi-libc has no use for: there it is 0, since nothing can be executed.
#undef O_CLOEXEC
#define O_CLOEXEC 0x20000000

#define F_DUPFD 0
#define F_DUPFD_CLOEXEC 1030

#ifdef __cplusplus
extern "C" {
#endif

// wasi-libc's own code goes on calling wasi-libc's open.
int open(const char *path, int flags, ...) __asm__("belljar_open");
int openat(int dir, const char *path, int flags, ...) __asm__("belljar_openat");

#ifdef __cplusplus
}
#endif

#endif

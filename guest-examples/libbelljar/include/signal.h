// <signal.h> of wasi-libc, and what libbelljar adds to it. A signal that another process sends ends this one, or is
// ignored: no handler sees it. Handlers are called by raise.
#ifndef _WASI_EMULATED_SIGNAL
#define _WASI_EMULATED_SIGNAL // libbelljar has signal and raise
#endif
#include_next <signal.h>

#ifndef BELLJAR_SIGNAL_H
#define BELLJAR_SIGNAL_H

#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

// Only a positive pid: there are no process groups.
int kill(pid_t pid, int sig);

#ifdef __cplusplus
}
#endif

#endif

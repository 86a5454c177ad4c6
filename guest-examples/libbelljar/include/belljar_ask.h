// Asking the host by name: docs/host.md says for what. POSIX has no such thing.
#ifndef BELLJAR_ASK_H
#define BELLJAR_ASK_H

#ifdef __cplusplus
extern "C" {
#endif

// Whether the host can be asked for `name`, a capability or an operation: 1 or 0. -1, and errno, if there is no host.
int belljar_can_ask(const char *name);

// Asks the host for `operation`, passing the JSON `params`, or nothing if that is a null pointer. Answers JSON, also for
// a failure: {"ok": …} or {"error": …}; the caller frees it. A null pointer, and errno, if the host was not asked.
char *belljar_ask(const char *operation, const char *params);

#ifdef __cplusplus
}
#endif

#endif

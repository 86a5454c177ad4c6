// libbelljar gives C programs POSIX processes, pipes and descriptors, on the import module `belljar`.
//
// Put include/ here and guest-examples/include before the headers of the C library, and this file on the command line
// before the program's own, so that the linker meets it before the functions of the C library that it replaces;
// docs/guest-abi.md shows how. What is not called is not linked.
//
// A program that is linked with it tells /tmp/x from tmp/x, which wasi-libc alone does not: descriptor 3 is the root
// and descriptor 4 the current directory, and neither is there for the program to close or to replace.
#include "internal.h"

#include "paths.c"
#include "descriptors.c"
#include "process.c"
#include "spawn.c"
#include "commands.c"
#include "host.c"

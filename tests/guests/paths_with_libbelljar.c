// As paths.c, with the library that knows the current directory.
#include "paths.c"

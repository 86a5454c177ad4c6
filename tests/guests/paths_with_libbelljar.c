// As paths.c, with the library that knows the current directory.
#define HAS_CURRENT_DIR
#include "paths.c"

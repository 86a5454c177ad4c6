#include <stdio.h>
#include <stdlib.h>
#include "errors.h"

int main(int argc, char **argv)
{
    puts(error_message(argc > 1 ? atoi(argv[1]) : 0));
}

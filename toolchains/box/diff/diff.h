// What the parts of diff share.
#ifndef DIFF_H
#define DIFF_H

#include "../box.h"

// A file, by lines. Lines that count as the same have the same number.
struct lines {
    struct bytes text;
    size_t *starts; // of each line, and of the end
    uint32_t *same;
    bool *changed; // has an element more on each side, which is false
    size_t count;
    bool lacks_newline;
};

// Marks the lines that are not common to both. The numbers of `same` are below `numbers`.
void compare_lines(struct lines *a, struct lines *b, size_t numbers);

#endif

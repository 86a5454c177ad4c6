// What the parts of tar share.
#ifndef TAR_H
#define TAR_H

#include "../box.h"
#include "../gzip/gzip.h"

enum { TAR_BLOCK = 512 };

struct tar_options {
    bool verbose, compresses, to_stdout, keeps_old, no_times, follows;
    int strip;
    char **members; // what is wanted of an archive; all if there are none
    int member_count;
    struct texts excluded;
};

extern struct tar_options tar_options;
extern int tar_status;

bool tar_is_excluded(const char *name);
void tar_print_name(const char *name, char type, unsigned mode, uint64_t size, int64_t time, const char *target, FILE *to);
void tar_read(FILE *file, bool extracts);
void tar_create(FILE *file, char **operands, int count, const char *archive);

#endif

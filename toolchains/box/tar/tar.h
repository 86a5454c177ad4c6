// What the parts of tar share.
#ifndef TAR_H
#define TAR_H

#include "../box.h"
#include "../gzip/gzip.h"

enum { TAR_BLOCK = 512 };

struct tar_options {
    bool verbose, compresses, to_stdout, keeps_old, no_times, follows, keeps_names, keeps_dir_links;
    int strip;
    const char *mode; // what the modes of members become, as chmod has it
    char **members; // what is wanted of an archive; all if there are none
    bool *with_inner; // for each of them, whether what is below it is wanted, too
    int member_count;
    struct texts excluded;
};

extern struct tar_options tar_options;
extern int tar_status;

// These stand between the names of the command line, for those that follow; compared by their address.
extern char tar_recursion[], tar_no_recursion[];

bool tar_is_excluded(const char *name);
// What is left of a name without a start that leads out of where it is unpacked, after a message.
const char *tar_safe_name(const char *name);
void tar_print_name(const char *name, char type, unsigned mode, uint64_t size, int64_t time, const char *target, FILE *to);
void tar_read(FILE *file, bool extracts);
void tar_create(FILE *file, char **operands, int count, const char *archive);

#endif

// Compressed data as RFC 1951 and 1952 have it.
#ifndef GZIP_H
#define GZIP_H

#include "../box.h"

// Reads what was compressed, one member after the other.
struct gunzip;
struct gunzip *gunzip_open(FILE *file);
// Answers fewer bytes than asked for at the end, or when `*error` is set.
size_t gunzip_read(struct gunzip *gunzip, void *to, size_t size, const char **error);
void gunzip_close(struct gunzip *gunzip);

// Writes data compressed. `level` is from 1, fast, to 9, small. `name` may be NULL.
struct gzip;
struct gzip *gzip_open(FILE *file, int level, const char *name, uint32_t time);
void gzip_write(struct gzip *gzip, const void *from, size_t size);
void gzip_close(struct gzip *gzip);

uint32_t crc_of(uint32_t crc, const unsigned char *at, size_t len);

// Codes for lengths and distances: the first value, and how many bits are added to it.
extern const uint16_t length_base[29], distance_base[30];
extern const uint8_t length_bits[29], distance_bits[30], length_order[19];

#endif

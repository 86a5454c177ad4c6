// Texts and lists that grow, and the end when something is wrong, for minimake.c.
#ifndef MINIMAKE_TEXTS_H
#define MINIMAKE_TEXTS_H

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// What a failure exits with, as make has it.
enum { FAILED_EXIT = 2 };

// The makefile, and the line that is being read, or 0.
static const char *file_name;
static size_t line_number;

static _Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

static _Noreturn void die(const char *format, ...) {
    va_list list;
    va_start(list, format);
    fflush(stdout);
    fputs("minimake: ", stderr);
    if (line_number) fprintf(stderr, "%s:%zu: ", file_name, line_number);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    exit(FAILED_EXIT);
}

static void *grow(void *memory, size_t count, size_t size) {
    if (count > SIZE_MAX / 2 / size) die("out of memory");
    void *grown = realloc(memory, count * size);
    if (!grown) die("out of memory");
    return grown;
}

struct bytes {
    char *at;
    size_t len, room;
};

static void append(struct bytes *bytes, const char *more, size_t len) {
    if (bytes->len + len + 1 > bytes->room) {
        bytes->room = 2 * (bytes->len + len) + 64;
        bytes->at = grow(bytes->at, bytes->room, 1);
    }
    memcpy(bytes->at + bytes->len, more, len);
    bytes->len += len;
    bytes->at[bytes->len] = '\0';
}

static char *copy_of(const char *text, size_t len) {
    struct bytes copy = {0};
    append(&copy, text, len);
    return copy.at;
}

struct texts {
    char **at;
    size_t count, room;
};

static void push(struct texts *texts, char *text) {
    if (texts->count + 1 >= texts->room) {
        texts->room = 2 * texts->room + 8;
        texts->at = grow(texts->at, texts->room, sizeof *texts->at);
    }
    texts->at[texts->count++] = text;
    texts->at[texts->count] = NULL;
}

static struct texts words_of(const char *text) {
    struct texts words = {0};
    for (const char *at = text;;) {
        at += strspn(at, " \t");
        size_t len = strcspn(at, " \t");
        if (!len) return words;
        push(&words, copy_of(at, len));
        at += len;
    }
}

#endif

// Values of awk, and arrays of them.
#include "awk.h"

#include <ctype.h>
#include <math.h>

struct text *new_text(const char *at, size_t len) {
    if (len > INT32_MAX) fail("a string is too long");
    struct text *text = grow(NULL, sizeof *text + len + 1);
    text->refs = 1;
    text->len = len;
    if (len && at) memcpy(text->at, at, len);
    text->at[len] = '\0';
    return text;
}

struct text *empty_text(void) {
    static struct text *empty;
    if (!empty) empty = new_text("", 0);
    return hold(empty);
}

struct text *hold(struct text *text) {
    text->refs++;
    return text;
}

void drop(struct text *text) {
    if (text && --text->refs == 0) free(text);
}

struct value of_number(double number) {
    return (struct value){.kind = NUMBER, .number = number};
}

struct value of_text(enum value_kind kind, struct text *text) {
    return (struct value){.kind = kind, .text = text};
}

struct value copy_value(const struct value *value) {
    if (value->text) hold(value->text);
    return *value;
}

void clear(struct value *value) {
    drop(value->text);
    *value = (struct value){0};
}

// --- numbers -----------------------------------------------------------------------------------------------------------

// The number that a text begins with; 0 if it begins with none. `is_all`: nothing but blanks is around it.
double parse_prefix(const char *at, size_t len, bool *is_all) {
    const char *end = at + len, *start;
    while (at < end && isspace((unsigned char)*at)) at++;
    start = at;
    if (at < end && (*at == '+' || *at == '-')) at++;
    const char *digits = at;
    while (at < end && isdigit((unsigned char)*at)) at++;
    size_t count = at - digits;
    if (at < end && *at == '.') {
        const char *fraction = ++at;
        while (at < end && isdigit((unsigned char)*at)) at++;
        count += at - fraction;
    }
    *is_all = false;
    if (!count) return 0;
    bool is_integer = count < 16 && (size_t)(at - digits) == count;
    const char *exponent = at;
    if (exponent < end && (*exponent == 'e' || *exponent == 'E')) {
        exponent++;
        if (exponent < end && (*exponent == '+' || *exponent == '-')) exponent++;
        if (exponent < end && isdigit((unsigned char)*exponent)) {
            while (exponent < end && isdigit((unsigned char)*exponent)) exponent++;
            at = exponent;
            is_integer = false;
        }
    }
    const char *rest = at;
    while (rest < end && isspace((unsigned char)*rest)) rest++;
    *is_all = rest == end;
    if (is_integer) {
        int64_t value = 0;
        for (const char *digit = digits; digit < at; digit++) value = value * 10 + (*digit - '0');
        return *start == '-' ? -(double)value : (double)value;
    }
    // strtod alone would take hexadecimal numbers and names such as inf, too.
    char piece[400];
    size_t size = at - start < (ptrdiff_t)sizeof piece ? (size_t)(at - start) : sizeof piece - 1;
    memcpy(piece, start, size);
    piece[size] = '\0';
    return strtod(piece, NULL);
}

double to_number(const struct value *value) {
    bool is_all;
    if (value->kind == NUMBER) return value->number;
    return value->kind == UNSET ? 0 : parse_prefix(value->text->at, value->text->len, &is_all);
}

struct text *number_text(double number, const char *format) {
    char piece[512];
    int len;
    if (number == (double)(int64_t)number && fabs(number) < 1e18) {
        len = snprintf(piece, sizeof piece, "%lld", (long long)number);
    } else if (isnan(number) || isinf(number)) {
        len = snprintf(piece, sizeof piece, "%s%s", signbit(number) ? "-" : "+", isnan(number) ? "nan" : "inf");
    } else if (number == floor(number)) {
        len = snprintf(piece, sizeof piece, "%.0f", number);
    } else {
        // The format is the program's: it goes through the same door as those of printf.
        struct value values[2] = {of_text(STRING, new_text(format, strlen(format))), of_number(number)};
        struct text *text = format_values(values, 2);
        clear(&values[0]);
        return text;
    }
    return new_text(piece, len);
}

struct text *to_text(const struct value *value) {
    if (value->kind == UNSET) return empty_text();
    if (value->kind != NUMBER) return hold(value->text);
    if (value->number == (double)(int64_t)value->number) return number_text(value->number, NULL);
    struct text *format = special_text(V_CONVFMT), *text = number_text(value->number, format->at);
    drop(format);
    return text;
}

bool is_numeric(const struct value *value) {
    if (value->kind != INPUT) return value->kind != STRING;
    bool is_all;
    parse_prefix(value->text->at, value->text->len, &is_all);
    return is_all;
}

bool to_bool(const struct value *value) {
    if (value->kind == NUMBER) return value->number != 0;
    if (value->kind == UNSET) return false;
    return is_numeric(value) ? to_number(value) != 0 : value->text->len > 0;
}

int compare_values(const struct value *a, const struct value *b) {
    if (is_numeric(a) && is_numeric(b)) {
        double x = to_number(a), y = to_number(b);
        return (x > y) - (x < y);
    }
    struct text *x = to_text(a), *y = to_text(b);
    size_t shorter = x->len < y->len ? x->len : y->len;
    int order = memcmp(x->at, y->at, shorter);
    if (!order) order = (x->len > y->len) - (x->len < y->len);
    drop(x);
    drop(y);
    return order;
}

// --- arrays ------------------------------------------------------------------------------------------------------------

struct array *new_array(void) {
    struct array *array = grow(NULL, sizeof *array);
    *array = (struct array){0};
    return array;
}

static uint32_t hash_of(const struct text *key) {
    uint32_t hash = 2166136261u;
    for (uint32_t i = 0; i < key->len; i++) hash = (hash ^ (unsigned char)key->at[i]) * 16777619u;
    return hash ^ hash >> 15;
}

static uint32_t *bucket_of(struct array *array, const struct text *key, uint32_t hash) {
    for (uint32_t i = hash & (array->bucket_count - 1);; i = (i + 1) & (array->bucket_count - 1)) {
        uint32_t index = array->buckets[i];
        if (!index) return &array->buckets[i];
        const struct entry *entry = &array->entries[index - 1];
        if (entry->key && entry->hash == hash && entry->key->len == key->len &&
            memcmp(entry->key->at, key->at, key->len) == 0) return &array->buckets[i];
    }
}

// Makes room, and drops what was deleted.
static void rebuild(struct array *array) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < array->used; i++) {
        if (array->entries[i].key) array->entries[kept++] = array->entries[i];
    }
    array->used = kept;
    if (kept > INT32_MAX / 64) fail("an array is too large");
    array->room = 2 * kept + 8;
    array->entries = grow(array->entries, array->room * sizeof *array->entries);
    array->bucket_count = 16;
    while (array->bucket_count < 2 * array->room) array->bucket_count *= 2;
    array->buckets = grow(array->buckets, array->bucket_count * sizeof *array->buckets);
    memset(array->buckets, 0, array->bucket_count * sizeof *array->buckets);
    for (uint32_t i = 0; i < kept; i++) *bucket_of(array, array->entries[i].key, array->entries[i].hash) = i + 1;
}

struct value *array_find(struct array *array, struct text *key, bool adds) {
    uint32_t hash = hash_of(key);
    if (array->bucket_count) {
        uint32_t *bucket = bucket_of(array, key, hash);
        if (*bucket) return &array->entries[*bucket - 1].value;
    }
    if (!adds) return NULL;
    if (array->used == array->room) rebuild(array);
    struct entry *entry = &array->entries[array->used];
    *entry = (struct entry){.key = hold(key), .hash = hash};
    *bucket_of(array, key, hash) = ++array->used;
    array->count++;
    return &entry->value;
}

void array_remove(struct array *array, struct text *key) {
    if (!array->bucket_count) return;
    uint32_t *bucket = bucket_of(array, key, hash_of(key));
    if (!*bucket) return;
    // The bucket stays taken, by an entry without a key, so that searches pass it.
    struct entry *entry = &array->entries[*bucket - 1];
    drop(entry->key);
    entry->key = NULL;
    clear(&entry->value);
    array->count--;
}

void array_clear(struct array *array) {
    for (uint32_t i = 0; i < array->used; i++) {
        drop(array->entries[i].key);
        clear(&array->entries[i].value);
    }
    free(array->entries);
    free(array->buckets);
    *array = (struct array){0};
}

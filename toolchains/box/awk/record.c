// Records and their fields.
#include "awk.h"

// Fields are found when one is asked for; $0 is put together again when it is, after a field was set.
static struct value record;
static struct value *fields; // from 1 on
static size_t field_count, field_room;
static bool is_split = true, is_stale;

enum { FIELDS_MAX = 10000000 };

static void reserve(size_t count) {
    if (count > FIELDS_MAX) fail("there are too many fields");
    if (count < field_room) return;
    size_t room = 2 * count + 64;
    fields = grow(fields, room * sizeof *fields);
    memset(fields + field_room, 0, (room - field_room) * sizeof *fields);
    field_room = room;
}

// --- splitting -----------------------------------------------------------------------------------------------------------

// What takes the parts of a text: an array, or the fields if it is NULL.
static void put_part(struct array *array, size_t number, const char *at, size_t len) {
    struct value value = of_text(INPUT, new_text(at, len));
    if (array) {
        struct text *key = number_text(number, NULL);
        struct value *element = array_find(array, key, true);
        drop(key);
        clear(element);
        *element = value;
        return;
    }
    reserve(number);
    clear(&fields[number]);
    fields[number] = value;
}

static size_t split_blanks(const char *at, size_t len, struct array *array) {
    const char *end = at + len;
    size_t count = 0;
    for (;;) {
        while (at < end && (*at == ' ' || *at == '\t' || *at == '\n')) at++;
        if (at == end) return count;
        const char *start = at;
        while (at < end && *at != ' ' && *at != '\t' && *at != '\n') at++;
        put_part(array, ++count, start, at - start);
    }
}

static size_t split_bytes(const char *at, size_t len, char separator, bool newline_too, struct array *array) {
    const char *end = at + len;
    size_t count = 0;
    for (const char *start = at;; start = at + 1) {
        for (at = start; at < end && *at != separator && !(newline_too && *at == '\n');) at++;
        put_part(array, ++count, start, at - start);
        if (at == end) return count;
    }
}

static size_t split_regex(const char *at, size_t len, struct regex *regex, struct array *array) {
    size_t count = 0, start = 0, from = 0;
    struct span span;
    while (from <= len && regex_find(regex, at, len, from, &span, 1)) {
        // Nothing separates nothing.
        if (span.to == span.from) {
            from = span.to + 1;
            continue;
        }
        put_part(array, ++count, at + start, span.from - start);
        start = from = span.to;
    }
    put_part(array, ++count, at + start, len - start);
    return count;
}

static size_t split_text(const char *at, size_t len, const struct text *separator, struct regex *regex, bool by_lines,
                         struct array *array) {
    if (len == 0) return 0;
    if (regex) return split_regex(at, len, regex, array);
    if (separator->len == 1 && separator->at[0] == ' ') return split_blanks(at, len, array);
    if (separator->len == 0) {
        for (size_t i = 0; i < len; i++) put_part(array, i + 1, at + i, 1);
        return len;
    }
    if (separator->len == 1 && separator->at[0] != '\\') return split_bytes(at, len, separator->at[0], by_lines, array);
    if (!by_lines) return split_regex(at, len, regex_of((struct text *)separator), array);
    struct bytes both = {0};
    append(&both, "(", 1);
    append(&both, separator->at, separator->len);
    append(&both, ")|\n", 3);
    struct text *pattern = new_text(both.at, both.len);
    free(both.at);
    size_t count = split_regex(at, len, regex_of(pattern), array);
    drop(pattern);
    return count;
}

int split_into(struct text *text, struct array *array, const struct value *separator, struct regex *regex) {
    struct text *by = separator ? to_text(separator) : special_text(V_FS);
    hold(text); // which may be an element of the array
    array_clear(array);
    int count = split_text(text->at, text->len, by, regex, false, array);
    drop(text);
    drop(by);
    return count;
}

static void store_nf(void) {
    globals[V_NF].value = of_number(field_count);
}

static void split_record(void) {
    if (is_split) return;
    is_split = true;
    struct text *text = to_text(&record), *separator = special_text(V_FS), *rs = special_text(V_RS);
    field_count = split_text(text->at, text->len, separator, NULL, rs->len == 0, NULL);
    drop(text);
    drop(separator);
    drop(rs);
    store_nf();
}

// A new separator is for the records that follow.
void separators_changed(void) {
    split_record();
}

// --- fields --------------------------------------------------------------------------------------------------------------

static void put_together(void) {
    if (!is_stale) return;
    is_stale = false;
    struct bytes whole = {0};
    append(&whole, "", 0);
    struct text *separator = special_text(V_OFS);
    for (size_t i = 1; i <= field_count; i++) {
        if (i > 1) append(&whole, separator->at, separator->len);
        struct text *text = to_text(&fields[i]);
        append(&whole, text->at, text->len);
        drop(text);
    }
    drop(separator);
    clear(&record);
    record = of_text(INPUT, new_text(whole.at, whole.len));
    free(whole.at);
}

void set_record(struct value *value) {
    clear(&record);
    record = *value;
    // A number would lose its look when it is asked for as a text.
    if (record.kind != INPUT) {
        struct text *text = to_text(&record);
        clear(&record);
        record = of_text(INPUT, text);
    }
    is_split = is_stale = false;
}

static size_t index_of(double index) {
    if (!(index >= 0)) fail("a field has a negative number");
    if (index > FIELDS_MAX) fail("there are too many fields");
    return index;
}

struct value get_field(double number) {
    size_t index = index_of(number);
    if (index == 0) {
        put_together();
        return record.kind == UNSET ? of_text(INPUT, empty_text()) : copy_value(&record);
    }
    split_record();
    return index > field_count ? (struct value){0} : copy_value(&fields[index]);
}

static void set_count(size_t count) {
    reserve(count);
    for (size_t i = count + 1; i <= field_count; i++) clear(&fields[i]);
    for (size_t i = field_count + 1; i <= count; i++) fields[i] = of_text(INPUT, empty_text());
    field_count = count;
    is_stale = true;
    store_nf();
}

void set_field(double number, struct value *value) {
    size_t index = index_of(number);
    if (index == 0) {
        set_record(value);
        return;
    }
    split_record();
    if (index > field_count) set_count(index);
    clear(&fields[index]);
    fields[index] = *value;
    is_stale = true;
}

double get_nf(void) {
    split_record();
    return field_count;
}

void set_nf(double count) {
    split_record();
    set_count(index_of(count));
}

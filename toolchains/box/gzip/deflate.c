// Compresses.
#include "gzip.h"

enum { HISTORY = 32768, CHUNK = 131072, SYMBOLS_MAX = 16384, HASHES = 32768, MATCH_MAX = 258, CODE_BITS_MAX = 15 };

struct gzip {
    FILE *file;
    uint64_t bits;
    int bit_count, level;
    uint32_t crc, size;
    unsigned char data[HISTORY + CHUNK]; // what was compressed before, and what is next
    size_t start, len;                   // of what is next
    int32_t head[HASHES], before[HISTORY + CHUNK];
    // Literals (distance 0) and matches.
    uint16_t lengths[SYMBOLS_MAX], distances[SYMBOLS_MAX];
    size_t symbols;
};

struct huffman {
    uint32_t weights[286];
    uint8_t lengths[286];
    uint16_t codes[286];
};

static void put_bits(struct gzip *gzip, uint32_t value, int count) {
    gzip->bits |= (uint64_t)value << gzip->bit_count;
    gzip->bit_count += count;
    for (; gzip->bit_count >= 8; gzip->bit_count -= 8, gzip->bits >>= 8) putc(gzip->bits & 255, gzip->file);
}

static void put_word(struct gzip *gzip, uint32_t value) {
    for (int i = 0; i < 4; i++) put_bits(gzip, value >> 8 * i & 255, 8);
}

struct gzip *gzip_open(FILE *file, int level, const char *name, uint32_t time) {
    struct gzip *gzip = grow(NULL, sizeof *gzip);
    memset(gzip, 0, sizeof *gzip);
    gzip->file = file;
    gzip->level = level;
    for (int i = 0; i < HASHES; i++) gzip->head[i] = -1;
    put_bits(gzip, 0x1f, 8);
    put_bits(gzip, 0x8b, 8);
    put_bits(gzip, 8, 8);
    put_bits(gzip, name ? 8 : 0, 8);
    put_word(gzip, time);
    put_bits(gzip, level == 9 ? 2 : level == 1 ? 4 : 0, 8);
    put_bits(gzip, 3, 8);
    for (; name && *name; name++) put_bits(gzip, (unsigned char)*name, 8);
    if (name) put_bits(gzip, 0, 8);
    return gzip;
}

// --- codes ---------------------------------------------------------------------------------------------------------------

struct leaf {
    uint32_t weight;
    uint16_t symbol;
};

static int by_weight(const void *a, const void *b) {
    const struct leaf *x = a, *y = b;
    if (x->weight != y->weight) return x->weight < y->weight ? -1 : 1;
    return (x->symbol > y->symbol) - (x->symbol < y->symbol);
}

// The lengths of codes of at most `most` bits.
static void find_lengths(struct huffman *huffman, int symbols, int most) {
    struct leaf leaves[286];
    int count = 0;
    memset(huffman->lengths, 0, sizeof huffman->lengths);
    for (int i = 0; i < symbols; i++) {
        if (huffman->weights[i]) leaves[count++] = (struct leaf){huffman->weights[i], i};
    }
    // A code needs two symbols to be complete.
    for (int i = 0; count < 2 && i < symbols; i++) {
        if (!huffman->weights[i]) leaves[count++] = (struct leaf){1, i};
    }
    qsort(leaves, count, sizeof *leaves, by_weight);
    // Nodes are made in the order of their weights: the lightest two are at the front of the leaves or of the nodes.
    uint64_t weights[286];
    int parents[572], leaf = 0, node = 0;
    for (int made = 0; made < count - 1; made++) {
        weights[made] = 0;
        for (int side = 0; side < 2; side++) {
            bool takes_leaf = leaf < count && (node >= made || leaves[leaf].weight <= weights[node]);
            weights[made] += takes_leaf ? leaves[leaf].weight : weights[node];
            parents[takes_leaf ? leaf++ : count + node++] = made;
        }
    }
    int depths[286], lengths[64] = {0};
    depths[count - 2] = 0;
    for (int i = count - 3; i >= 0; i--) depths[i] = depths[parents[count + i]] + 1;
    for (int i = 0; i < count; i++) {
        int depth = depths[parents[i]] + 1;
        lengths[depth < most ? depth : most]++;
    }
    // Those that were cut take too much room: shorter ones get longer until all fit.
    uint32_t used = 0;
    for (int bits = 1; bits <= most; bits++) used += (uint32_t)lengths[bits] << (most - bits);
    for (; used > (uint32_t)1 << most; used--) {
        lengths[most]--;
        int bits = most - 1;
        while (!lengths[bits]) bits--;
        lengths[bits]--;
        lengths[bits + 1] += 2;
    }
    // The heaviest get the shortest.
    int next = count;
    for (int bits = 1; bits <= most; bits++) {
        for (int i = 0; i < lengths[bits]; i++) huffman->lengths[leaves[--next].symbol] = bits;
    }
}

static void assign_codes(struct huffman *huffman, int symbols) {
    uint16_t counts[CODE_BITS_MAX + 1] = {0}, next[CODE_BITS_MAX + 2] = {0};
    for (int i = 0; i < symbols; i++) counts[huffman->lengths[i]]++;
    counts[0] = 0;
    for (int bits = 1; bits <= CODE_BITS_MAX; bits++) next[bits + 1] = (next[bits] + counts[bits]) << 1;
    for (int i = 0; i < symbols; i++) {
        uint16_t code = huffman->lengths[i] ? next[huffman->lengths[i]]++ : 0, turned = 0;
        for (int bit = 0; bit < huffman->lengths[i]; bit++) turned |= (code >> bit & 1) << (huffman->lengths[i] - 1 - bit);
        huffman->codes[i] = turned;
    }
}

static int length_code(int len) {
    int code = len < 11 ? len - 3 : len < 35 ? 19 : 28;
    while (length_base[code] > len) code--;
    return code;
}

static int distance_code(int distance) {
    int code = distance < 257 ? 15 : distance < 4097 ? 23 : 29;
    while (distance_base[code] > distance) code--;
    return code;
}

// --- blocks --------------------------------------------------------------------------------------------------------------

// The lengths of both codes, with repetitions, in the code for them.
static void put_lengths(struct gzip *gzip, const struct huffman *lengths, const struct huffman *distances) {
    uint8_t all[316], packed[316], extra[316];
    int total = 0, count = 0, distance_count = 30;
    for (int i = 0; i < 286; i++) all[total++] = lengths->lengths[i];
    for (int i = 0; i < distance_count; i++) all[total++] = distances->lengths[i];
    struct huffman codes = {0};
    for (int at = 0, run; at < total; at += run) {
        for (run = 1; at + run < total && all[at + run] == all[at] && run < 138; run++) {}
        if (all[at] == 0 && run >= 3) {
            packed[count] = run < 11 ? 17 : 18;
            extra[count] = run < 11 ? run - 3 : run - 11;
        } else if (at && all[at] == all[at - 1] && run >= 3) {
            if (run > 6) run = 6;
            packed[count] = 16;
            extra[count] = run - 3;
        } else {
            run = 1;
            packed[count] = all[at];
        }
        codes.weights[packed[count++]]++;
    }
    find_lengths(&codes, 19, 7);
    assign_codes(&codes, 19);
    put_bits(gzip, 286 - 257, 5);
    put_bits(gzip, distance_count - 1, 5);
    put_bits(gzip, 19 - 4, 4);
    for (int i = 0; i < 19; i++) put_bits(gzip, codes.lengths[length_order[i]], 3);
    for (int i = 0; i < count; i++) {
        put_bits(gzip, codes.codes[packed[i]], codes.lengths[packed[i]]);
        if (packed[i] >= 16) put_bits(gzip, extra[i], packed[i] == 16 ? 2 : packed[i] == 17 ? 3 : 7);
    }
}

static void put_block(struct gzip *gzip, bool is_last) {
    struct huffman lengths = {0}, distances = {0};
    lengths.weights[256] = 1;
    for (size_t i = 0; i < gzip->symbols; i++) {
        if (!gzip->distances[i]) {
            lengths.weights[gzip->lengths[i]]++;
            continue;
        }
        lengths.weights[257 + length_code(gzip->lengths[i])]++;
        distances.weights[distance_code(gzip->distances[i])]++;
    }
    find_lengths(&lengths, 286, CODE_BITS_MAX);
    find_lengths(&distances, 30, CODE_BITS_MAX);
    assign_codes(&lengths, 286);
    assign_codes(&distances, 30);
    put_bits(gzip, is_last, 1);
    put_bits(gzip, 2, 2);
    put_lengths(gzip, &lengths, &distances);
    for (size_t i = 0; i < gzip->symbols; i++) {
        int len = gzip->lengths[i], distance = gzip->distances[i];
        int symbol = distance ? 257 + length_code(len) : len;
        put_bits(gzip, lengths.codes[symbol], lengths.lengths[symbol]);
        if (!distance) continue;
        put_bits(gzip, len - length_base[symbol - 257], length_bits[symbol - 257]);
        int code = distance_code(distance);
        put_bits(gzip, distances.codes[code], distances.lengths[code]);
        put_bits(gzip, distance - distance_base[code], distance_bits[code]);
    }
    put_bits(gzip, lengths.codes[256], lengths.lengths[256]);
    gzip->symbols = 0;
}

static void put_symbol(struct gzip *gzip, int len, int distance) {
    gzip->lengths[gzip->symbols] = len;
    gzip->distances[gzip->symbols++] = distance;
    if (gzip->symbols == SYMBOLS_MAX) put_block(gzip, false);
}

// --- matches ---------------------------------------------------------------------------------------------------------------

static void remember(struct gzip *gzip, size_t at, size_t end) {
    if (at + 3 > end) return;
    const unsigned char *data = gzip->data + at;
    uint32_t hash = ((uint32_t)data[0] << 16 | data[1] << 8 | data[2]) * 2654435761u >> 17;
    gzip->before[at] = gzip->head[hash];
    gzip->head[hash] = at;
}

// The longest text behind that goes on as the one at `at` does, if it is longer than `known`; else 0.
static int find_match(const struct gzip *gzip, size_t at, size_t end, int known, int *distance) {
    if (at + 3 > end) return 0;
    const unsigned char *data = gzip->data;
    uint32_t hash = ((uint32_t)data[at] << 16 | data[at + 1] << 8 | data[at + 2]) * 2654435761u >> 17;
    int best = known, most = end - at < MATCH_MAX ? (int)(end - at) : MATCH_MAX, tries = gzip->level * gzip->level * 4;
    // Where a good match is known already, a better one is worth less.
    if (known >= 8) tries /= 4;
    if (best >= most) return 0;
    int enough = gzip->level <= 6 && most > 128 ? 128 : most;
    for (int32_t other = gzip->head[hash]; other >= 0 && at - other < HISTORY && tries-- > 0; other = gzip->before[other]) {
        if (data[other + best] != data[at + best]) continue;
        int len = 0;
        while (len < most && data[other + len] == data[at + len]) len++;
        if (len <= best) continue;
        best = len;
        *distance = (int)(at - other);
        if (best >= enough) break;
    }
    return best >= 3 && best > known ? best : 0;
}

static void compress(struct gzip *gzip) {
    size_t at = gzip->start, end = gzip->start + gzip->len;
    while (at < end) {
        int distance = 0, later_distance, len = find_match(gzip, at, end, 0, &distance);
        remember(gzip, at, end);
        // A longer match at the next byte is better.
        if (len && len < (gzip->level > 6 ? 128 : 16) && gzip->level > 3 && find_match(gzip, at + 1, end, len, &later_distance)) len = 0;
        if (!len) {
            put_symbol(gzip, gzip->data[at++], 0);
            continue;
        }
        put_symbol(gzip, len, distance);
        for (int i = 1; i < len; i++) remember(gzip, at + i, end);
        at += len;
    }
    // The end of what there is now is what comes before the next bytes.
    size_t kept = end < HISTORY ? end : HISTORY, shift = end - kept;
    memmove(gzip->data, gzip->data + shift, kept);
    memmove(gzip->before, gzip->before + shift, kept * sizeof *gzip->before);
    for (size_t i = 0; i < kept; i++) gzip->before[i] -= gzip->before[i] < 0 ? 0 : (int32_t)shift;
    for (int i = 0; i < HASHES; i++) gzip->head[i] = gzip->head[i] < (int32_t)shift ? -1 : gzip->head[i] - (int32_t)shift;
    gzip->start = kept;
    gzip->len = 0;
}

void gzip_write(struct gzip *gzip, const void *from, size_t size) {
    const unsigned char *at = from;
    gzip->crc = crc_of(gzip->crc, at, size);
    gzip->size += (uint32_t)size;
    while (size) {
        size_t room = HISTORY + CHUNK - gzip->start - gzip->len, count = size < room ? size : room;
        memcpy(gzip->data + gzip->start + gzip->len, at, count);
        gzip->len += count;
        at += count;
        size -= count;
        if (count == room) compress(gzip);
    }
}

void gzip_close(struct gzip *gzip) {
    compress(gzip);
    put_block(gzip, true);
    if (gzip->bit_count) put_bits(gzip, 0, 8 - gzip->bit_count);
    put_word(gzip, gzip->crc);
    put_word(gzip, gzip->size);
    free(gzip);
}

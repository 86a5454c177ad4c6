// Decompresses.
#include "gzip.h"

enum { WINDOW = 65536, BITS_MAX = 15, QUICK_BITS = 9 };

// A code by the numbers of its codes of each length, and its symbols in order.
struct code {
    uint16_t counts[BITS_MAX + 1], symbols[288];
    uint16_t quick[1 << QUICK_BITS]; // by the next bits: a symbol of a short code times 16, and its length; or 0
};

struct gunzip {
    FILE *file;
    unsigned char input[16384];
    size_t input_at, input_len;
    uint32_t bits, bit_count;
    unsigned char window[WINDOW];
    size_t made, taken; // bytes so far
    size_t member_start, summed; // summed: bytes that are in `crc`
    uint32_t crc;
    enum { MEMBER, BLOCK, STORED, CODED, TRAILER, ENDED } state;
    bool is_last, any_member;
    size_t stored_left;
    struct code lengths, distances;
    const char *error;
};

const uint16_t length_base[29] = {3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
const uint8_t length_bits[29] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
const uint16_t distance_base[30] = {1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025, 1537, 2049, 3073,
                                    4097, 6145, 8193, 12289, 16385, 24577};
const uint8_t distance_bits[30] = {0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13};
const uint8_t length_order[19] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};

uint32_t crc_of(uint32_t crc, const unsigned char *at, size_t len) {
    static uint32_t table[256];
    if (!table[1]) {
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t value = i;
            for (int bit = 0; bit < 8; bit++) value = value >> 1 ^ (value & 1 ? 0xedb88320 : 0);
            table[i] = value;
        }
    }
    crc = ~crc;
    for (size_t i = 0; i < len; i++) crc = crc >> 8 ^ table[(crc ^ at[i]) & 255];
    return ~crc;
}

struct gunzip *gunzip_open(FILE *file) {
    struct gunzip *gunzip = grow(NULL, sizeof *gunzip);
    *gunzip = (struct gunzip){.file = file};
    return gunzip;
}

void gunzip_close(struct gunzip *gunzip) {
    free(gunzip);
}

static void fail(struct gunzip *gunzip, const char *error) {
    if (!gunzip->error) gunzip->error = error;
    gunzip->state = ENDED;
}

static int next_byte(struct gunzip *gunzip) {
    if (gunzip->input_at == gunzip->input_len) {
        gunzip->input_at = 0;
        gunzip->input_len = fread(gunzip->input, 1, sizeof gunzip->input, gunzip->file);
        if (!gunzip->input_len) return EOF;
    }
    return gunzip->input[gunzip->input_at++];
}

static uint32_t take_bits(struct gunzip *gunzip, uint32_t count) {
    while (gunzip->bit_count < count) {
        int byte = next_byte(gunzip);
        if (byte == EOF) {
            fail(gunzip, "unexpected end of file");
            return 0;
        }
        gunzip->bits |= (uint32_t)byte << gunzip->bit_count;
        gunzip->bit_count += 8;
    }
    uint32_t value = gunzip->bits & (((uint32_t)1 << count) - 1);
    gunzip->bits >>= count;
    gunzip->bit_count -= count;
    return value;
}

static void align(struct gunzip *gunzip) {
    uint32_t rest = gunzip->bit_count & 7;
    gunzip->bits >>= rest;
    gunzip->bit_count -= rest;
}

// False if there are more codes than their lengths allow.
static bool make_code(struct code *code, const uint8_t *lengths, size_t count) {
    uint16_t offsets[BITS_MAX + 1];
    memset(code->counts, 0, sizeof code->counts);
    for (size_t i = 0; i < count; i++) code->counts[lengths[i]]++;
    int left = 1;
    for (int bits = 1; bits <= BITS_MAX; bits++) {
        left = 2 * left - code->counts[bits];
        if (left < 0) return false;
    }
    offsets[1] = 0;
    for (int bits = 1; bits < BITS_MAX; bits++) offsets[bits + 1] = offsets[bits] + code->counts[bits];
    for (size_t i = 0; i < count; i++) {
        if (lengths[i]) code->symbols[offsets[lengths[i]]++] = i;
    }
    code->counts[0] = 0;
    memset(code->quick, 0, sizeof code->quick);
    int value = 0, index = 0;
    for (int bits = 1; bits <= QUICK_BITS; bits++, value <<= 1) {
        for (int i = 0; i < code->counts[bits]; i++, value++, index++) {
            // The first bit of a code comes first, and so is the lowest.
            int turned = 0;
            for (int bit = 0; bit < bits; bit++) turned |= (value >> bit & 1) << (bits - 1 - bit);
            for (; turned < 1 << QUICK_BITS; turned += 1 << bits) code->quick[turned] = code->symbols[index] << 4 | bits;
        }
    }
    return true;
}

static int take_symbol(struct gunzip *gunzip, const struct code *code) {
    int byte;
    // More bits than a code has do no harm: they stay for what follows, and the end may come first.
    while (gunzip->bit_count < QUICK_BITS && (byte = next_byte(gunzip)) != EOF) {
        gunzip->bits |= (uint32_t)byte << gunzip->bit_count;
        gunzip->bit_count += 8;
    }
    uint16_t quick = code->quick[gunzip->bits & ((1 << QUICK_BITS) - 1)];
    if (quick && (quick & 15u) <= gunzip->bit_count) {
        gunzip->bits >>= quick & 15;
        gunzip->bit_count -= quick & 15;
        return quick >> 4;
    }
    int value = 0, first = 0, index = 0;
    for (int bits = 1; bits <= BITS_MAX; bits++) {
        value |= (int)take_bits(gunzip, 1);
        if (gunzip->error) return -1;
        int count = code->counts[bits];
        if (value - count < first) return code->symbols[index + value - first];
        index += count;
        first = (first + count) << 1;
        value <<= 1;
    }
    fail(gunzip, "invalid compressed data--format violated");
    return -1;
}

static void emit(struct gunzip *gunzip, unsigned char byte) {
    gunzip->window[gunzip->made++ % WINDOW] = byte;
}

static void sum_up(struct gunzip *gunzip) {
    while (gunzip->summed < gunzip->made) {
        size_t from = gunzip->summed % WINDOW, count = gunzip->made - gunzip->summed;
        if (count > WINDOW - from) count = WINDOW - from;
        gunzip->crc = crc_of(gunzip->crc, gunzip->window + from, count);
        gunzip->summed += count;
    }
}

static void begin_fixed(struct gunzip *gunzip) {
    uint8_t lengths[288];
    for (int i = 0; i < 288; i++) lengths[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
    make_code(&gunzip->lengths, lengths, 288);
    memset(lengths, 5, 30);
    make_code(&gunzip->distances, lengths, 30);
}

static void begin_dynamic(struct gunzip *gunzip) {
    size_t lengths_count = take_bits(gunzip, 5) + 257, distances_count = take_bits(gunzip, 5) + 1, codes = take_bits(gunzip, 4) + 4;
    uint8_t lengths[320] = {0};
    static const char violated[] = "invalid compressed data--format violated";
    if (gunzip->error) return;
    if (lengths_count > 286 || distances_count > 30) {
        fail(gunzip, violated);
        return;
    }
    for (size_t i = 0; i < codes; i++) lengths[length_order[i]] = take_bits(gunzip, 3);
    if (!make_code(&gunzip->lengths, lengths, 19)) fail(gunzip, violated);
    memset(lengths, 0, sizeof lengths);
    for (size_t at = 0; at < lengths_count + distances_count && !gunzip->error;) {
        int symbol = take_symbol(gunzip, &gunzip->lengths);
        if (symbol < 0) return;
        if (symbol < 16) {
            lengths[at++] = symbol;
            continue;
        }
        uint8_t value = symbol == 16 && at ? lengths[at - 1] : 0;
        size_t repeat = symbol == 16 ? 3 + take_bits(gunzip, 2) : symbol == 17 ? 3 + take_bits(gunzip, 3) : 11 + take_bits(gunzip, 7);
        if ((symbol == 16 && !at) || at + repeat > lengths_count + distances_count) {
            fail(gunzip, violated);
            return;
        }
        while (repeat--) lengths[at++] = value;
    }
    if (gunzip->error) return;
    if (!lengths[256] || !make_code(&gunzip->lengths, lengths, lengths_count) ||
        !make_code(&gunzip->distances, lengths + lengths_count, distances_count)) fail(gunzip, violated);
}

static void begin_block(struct gunzip *gunzip) {
    gunzip->is_last = take_bits(gunzip, 1);
    uint32_t kind = take_bits(gunzip, 2);
    if (gunzip->error) return;
    gunzip->state = CODED;
    if (kind == 0) {
        align(gunzip);
        uint32_t len = take_bits(gunzip, 16), check = take_bits(gunzip, 16);
        if (gunzip->error) return;
        gunzip->state = STORED;
        gunzip->stored_left = len;
        if (len != (~check & 0xffff)) fail(gunzip, "invalid compressed data--format violated");
    } else if (kind == 1) {
        begin_fixed(gunzip);
    } else if (kind == 2) {
        begin_dynamic(gunzip);
    } else {
        fail(gunzip, "invalid compressed data--format violated");
    }
}

static void end_block(struct gunzip *gunzip) {
    gunzip->state = gunzip->is_last ? TRAILER : BLOCK;
}

static void decode_one(struct gunzip *gunzip) {
    int symbol = take_symbol(gunzip, &gunzip->lengths);
    if (symbol < 0) return;
    if (symbol < 256) {
        emit(gunzip, symbol);
        return;
    }
    if (symbol == 256) {
        end_block(gunzip);
        return;
    }
    if (symbol > 285) {
        fail(gunzip, "invalid compressed data--format violated");
        return;
    }
    size_t len = length_base[symbol - 257] + take_bits(gunzip, length_bits[symbol - 257]);
    int code = take_symbol(gunzip, &gunzip->distances);
    if (code < 0) return;
    size_t distance = code < 30 ? distance_base[code] + take_bits(gunzip, distance_bits[code]) : SIZE_MAX;
    if (gunzip->error) return;
    if (distance > gunzip->made - gunzip->member_start) {
        fail(gunzip, "invalid compressed data--format violated");
        return;
    }
    while (len--) emit(gunzip, gunzip->window[(gunzip->made - distance) % WINDOW]);
}

static void skip_text(struct gunzip *gunzip) {
    while (take_bits(gunzip, 8) && !gunzip->error) {}
}

static void begin_member(struct gunzip *gunzip) {
    int first = next_byte(gunzip);
    // Zeros behind the last member are filling.
    while (gunzip->any_member && first == 0) first = next_byte(gunzip);
    if (first == EOF) {
        if (gunzip->any_member) gunzip->state = ENDED;
        else fail(gunzip, "unexpected end of file");
        return;
    }
    int second = next_byte(gunzip);
    if (first != 0x1f || second != 0x8b) {
        fail(gunzip, gunzip->any_member ? "decompression OK, trailing garbage ignored" : "not in gzip format");
        return;
    }
    if (take_bits(gunzip, 8) != 8) {
        fail(gunzip, "unknown method -- not supported");
        return;
    }
    uint32_t flags = take_bits(gunzip, 8);
    for (int i = 0; i < 6; i++) take_bits(gunzip, 8); // time, level, system
    if (flags & 4) {
        for (uint32_t len = take_bits(gunzip, 16); len && !gunzip->error; len--) take_bits(gunzip, 8);
    }
    if (flags & 8) skip_text(gunzip);
    if (flags & 16) skip_text(gunzip);
    if (flags & 2) take_bits(gunzip, 16);
    if (gunzip->error) return;
    gunzip->any_member = true;
    gunzip->crc = 0;
    gunzip->member_start = gunzip->summed = gunzip->made;
    gunzip->state = BLOCK;
}

static void end_member(struct gunzip *gunzip) {
    sum_up(gunzip);
    align(gunzip);
    uint32_t crc = take_bits(gunzip, 16), size;
    crc |= take_bits(gunzip, 16) << 16;
    size = take_bits(gunzip, 16);
    size |= take_bits(gunzip, 16) << 16;
    if (gunzip->error) return;
    if (crc != gunzip->crc) fail(gunzip, "invalid compressed data--crc error");
    else if (size != (uint32_t)(gunzip->made - gunzip->member_start)) fail(gunzip, "invalid compressed data--length error");
    else gunzip->state = MEMBER;
}

size_t gunzip_read(struct gunzip *gunzip, void *to, size_t size, const char **error) {
    // A match is shorter than what is left of the window then.
    if (size > WINDOW / 2 - 258) size = WINDOW / 2 - 258;
    while (gunzip->made - gunzip->taken < size && gunzip->state != ENDED) {
        switch (gunzip->state) {
            case MEMBER: begin_member(gunzip); break;
            case BLOCK: begin_block(gunzip); break;
            case STORED:
                if (gunzip->stored_left) {
                    unsigned char byte = take_bits(gunzip, 8);
                    if (!gunzip->error) emit(gunzip, byte);
                    gunzip->stored_left--;
                } else {
                    end_block(gunzip);
                }
                break;
            case CODED: decode_one(gunzip); break;
            case TRAILER: end_member(gunzip); break;
            default: break;
        }
    }
    if (gunzip->state != ENDED) sum_up(gunzip);
    size_t count = gunzip->made - gunzip->taken < size ? gunzip->made - gunzip->taken : size;
    for (size_t i = 0; i < count; i++) ((unsigned char *)to)[i] = gunzip->window[gunzip->taken++ % WINDOW];
    if (count < size) *error = gunzip->error;
    return count;
}

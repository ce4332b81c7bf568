/* CRC-32 by carry-less multiplication where the processor has it, by tables elsewhere.

A CRC is the remainder of a long polynomial, the message, by a short one. Multiplying folds 64 bytes of the message
into the next 64 without changing the remainder, until 16 bytes are left. Tables process these, and messages too short
to fold, 8 bytes at a time. Bits are reflected throughout: the lowest one of a byte comes first.
Source: V. Gopal and others, Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction, Intel 2009.
*/

#include "crc32.h"

enum { POLYNOMIAL = (int32_t)0xEDB88320, SLICES = 8 };

static uint32_t tables[SLICES][256]; /* tables[n][b]: remainder of byte b followed by n zero bytes */

static uint32_t by_tables(uint32_t crc, const uint8_t *at, size_t size) {
    for (; size >= SLICES; at += SLICES, size -= SLICES) {
        uint32_t behind = tables[3][at[4]] ^ tables[2][at[5]] ^ tables[1][at[6]] ^ tables[0][at[7]];
        crc = tables[7][(crc ^ at[0]) & 0xFF] ^ tables[6][(crc >> 8 ^ at[1]) & 0xFF] ^
              tables[5][(crc >> 16 ^ at[2]) & 0xFF] ^ tables[4][crc >> 24 ^ at[3]] ^ behind;
    }
    while (size--)
        crc = tables[0][(crc ^ *at++) & 0xFF] ^ crc >> 8;
    return crc;
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

enum { LANES = 4, LANE_BYTES = 16, FOLDED_BYTES_MIN = LANES * LANE_BYTES };

static int has_multiplication;

__attribute__((target("pclmul,sse2"))) static __m128i folded(__m128i lane, __m128i powers, __m128i behind) {
    __m128i low = _mm_clmulepi64_si128(lane, powers, 0x00), high = _mm_clmulepi64_si128(lane, powers, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), behind);
}

static __m128i loaded(const uint8_t *at) { return _mm_loadu_si128((const __m128i *)at); }

__attribute__((target("pclmul,sse2"))) static uint32_t by_folding(uint32_t crc, const uint8_t *at, size_t size) {
    /* x^(distance + 32) and x^(distance - 32) modulo the polynomial, reflected; distances in bits: 512 and 128. */
    const __m128i across_lanes = _mm_set_epi64x(0x1C6E41596, 0x154442BD4);
    const __m128i to_next = _mm_set_epi64x(0x0CCAA009E, 0x1751997D0);
    __m128i lanes[LANES];
    for (int lane = 0; lane < LANES; lane++)
        lanes[lane] = loaded(at + lane * LANE_BYTES);
    lanes[0] = _mm_xor_si128(lanes[0], _mm_cvtsi32_si128((int)crc));
    at += FOLDED_BYTES_MIN, size -= FOLDED_BYTES_MIN;
    for (; size >= FOLDED_BYTES_MIN; at += FOLDED_BYTES_MIN, size -= FOLDED_BYTES_MIN)
        for (int lane = 0; lane < LANES; lane++)
            lanes[lane] = folded(lanes[lane], across_lanes, loaded(at + lane * LANE_BYTES));
    __m128i last = lanes[0];
    for (int lane = 1; lane < LANES; lane++)
        last = folded(last, to_next, lanes[lane]);
    for (; size >= LANE_BYTES; at += LANE_BYTES, size -= LANE_BYTES)
        last = folded(last, to_next, loaded(at));
    uint8_t left[LANE_BYTES];
    _mm_storeu_si128((__m128i *)left, last);
    return by_tables(by_tables(0, left, LANE_BYTES), at, size);
}
#endif

void checksum_begin(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? (uint32_t)POLYNOMIAL : 0);
        tables[0][byte] = crc;
    }
    for (int slice = 1; slice < SLICES; slice++)
        for (int byte = 0; byte < 256; byte++) {
            uint32_t before = tables[slice - 1][byte];
            tables[slice][byte] = tables[0][before & 0xFF] ^ before >> 8;
        }
#if defined(__x86_64__) && defined(__GNUC__)
    has_multiplication = __builtin_cpu_supports("pclmul");
#endif
}

uint32_t checksum(const uint8_t *bytes, size_t size) {
#if defined(__x86_64__) && defined(__GNUC__)
    if (has_multiplication && size >= FOLDED_BYTES_MIN)
        return ~by_folding(~0u, bytes, size);
#endif
    return ~by_tables(~0u, bytes, size);
}

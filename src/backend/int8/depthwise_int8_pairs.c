/* depthwise_int8_pairs.c - int8 depthwise convolution with channels last, by AVX2. */
#include "depthwise_int8.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "../simd/ints256.h"

#define PART TARGET static inline __attribute__((always_inline))
#define CHANNELS 16
#define FEW 12
#define PAIR 64 /* bytes of two rows of them, in 16 bits: two vectors */

bool pare_depthwise_int8_can(void)
{
    return __builtin_cpu_supports("avx2");
}

/* 16 channels of a pixel in 16 bits; outside the input, x's zero point. */
PART __m256i pixel(const struct pare_depthwise_int8 *k, const uint8_t *line, int64_t w, int64_t n)
{
    __m128i flip = _mm_set1_epi8((char)k->flip);

    if (!line || w < 0 || w >= k->in[1])
        return ALL16(k->zero);
    return WIDEN(_mm_xor_si128(GET_BYTES(line + w * k->C, n, 0), flip), false);
}

/* Interleave the rows of each pair. */
TARGET static void interleave_row(const struct pare_depthwise_int8 *k, const uint8_t *x,
                                  int64_t row, int64_t c, uint8_t *room)
{
    int64_t places = pare_depthwise_int8_pixels(k), pairs = pare_depthwise_int8_groups(k);

    for (int64_t g = 0; g < pairs; g++) {
        const uint8_t *line[2];

        for (int t = 0; t < 2; t++) {
            int64_t h = row * k->stride[0] - k->pad[0] + (g * 2 + t) * k->dilation[0];
            bool in = g * 2 + t < k->kernel[0] && h >= 0 && h < k->in[0];

            line[t] = in ? x + h * k->in[1] * k->C + c : NULL;
        }
        for (int64_t p = 0; p < places; p++) {
            uint8_t *to = room + (p * pairs + g) * PAIR;
            __m256i a = pixel(k, line[0], p - k->pad[1], k->C - c);
            __m256i b = pixel(k, line[1], p - k->pad[1], k->C - c);

            PUT(to, _mm256_unpacklo_epi16(a, b));
            PUT(to + 32, _mm256_unpackhi_epi16(a, b));
        }
    }
}

struct ending {
    __m256 f[2], b[2], lo, hi;
    __m256i sum[2], zero;
};

/* From sums to 16 bytes. */
PART __m128i requantize(const struct ending *e, const __m256i acc[2], bool is_signed)
{
    __m256i q[2], words;
    __m128i low, high;

    for (int j = 0; j < 2; j++) {
        __m256 v = MUL_FLOATS(ADD_FLOATS(TO_FLOATS(acc[j]), e->b[j]), e->f[j]);

        v = MIN_FLOATS(MAX_FLOATS(v, e->lo), e->hi);
        q[j] = ADD32(TO_INTS(v), e->zero);
    }
    words = _mm256_packs_epi32(q[0], q[1]);
    low = _mm256_castsi256_si128(words);
    high = _mm256_extracti128_si256(words, 1);
    return is_signed ? _mm_packs_epi16(low, high) : _mm_packus_epi16(low, high);
}

PART struct ending load_ending(const struct pare_depthwise_int8 *k, int64_t c)
{
    struct ending e = { .lo = ALL_FLOATS(k->lo),
                        .hi = ALL_FLOATS(k->hi),
                        .zero = ALL32(k->y_zero) };

    for (int j = 0; j < 2; j++) {
        e.f[j] = GET_FLOATS(k->f + c + LANES * j);
        e.b[j] = GET_FLOATS(k->b + c + LANES * j);
        e.sum[j] = GET(k->sum + c + LANES * j);
    }
    return e;
}

/* Windows along the row.  pairs and columns are constants at each inlined call, or 0. */
PART void windows(const struct pare_depthwise_int8 *k, const uint8_t *room, int64_t block,
                  uint8_t *y, const int pairs_, const int columns_)
{
    const int64_t pairs = pairs_ ? pairs_ : pare_depthwise_int8_groups(k);
    const int64_t columns = columns_ ? columns_ : k->kernel[1], c = block * CHANNELS;
    const uint8_t *w = (const uint8_t *)k->w + block * pairs * columns * PAIR;
    const struct ending e = load_ending(k, c);
    const int64_t n = k->C - c < CHANNELS ? k->C - c : CHANNELS;
    __m256i f[FEW]; /* few taps stay in registers */
    const bool few = pairs_ && 2 * pairs_ * columns_ <= FEW;

    for (int64_t i = 0; few && i < 2 * pairs * columns; i++)
        f[i] = GET(w + 32 * i);
    for (int64_t q = 0; q < k->out[1]; q++) {
        __m256i acc[2] = { e.sum[0], e.sum[1] };
        __m128i bytes;
        uint8_t all[CHANNELS];

#pragma GCC unroll 8
        for (int64_t i = 0; i < columns; i++) {
            const uint8_t *x = room + (q * k->stride[1] + i * k->dilation[1]) * pairs * PAIR;

#pragma GCC unroll 3
            for (int64_t g = 0; g < pairs; g++)
                for (int j = 0; j < 2; j++)
                    acc[j] = ADD_PAIRS(acc[j], GET(x + g * PAIR + 32 * j),
                                       few ? f[(g * columns + i) * 2 + j]
                                           : GET(w + (g * columns + i) * PAIR + 32 * j));
        }
        bytes = requantize(&e, acc, k->is_signed);
        _mm_storeu_si128((__m128i *)(void *)(n < CHANNELS ? all : y + q * k->C), bytes);
        if (n < CHANNELS)
            memcpy(y + q * k->C, all, (size_t)n);
    }
}

TARGET void pare_depthwise_int8_row_pairs(const struct pare_depthwise_int8 *k, const uint8_t *x,
                                          int64_t row, int64_t block, uint8_t *room, uint8_t *y)
{
    interleave_row(k, x, row, block * CHANNELS, room);
    y += row * k->out[1] * k->C + block * CHANNELS;
    if (k->kernel[1] == 3 && pare_depthwise_int8_groups(k) == 2)
        windows(k, room, block, y, 2, 3);
    else if (k->kernel[1] == 5 && pare_depthwise_int8_groups(k) == 3)
        windows(k, room, block, y, 3, 5);
    else
        windows(k, room, block, y, 0, 0);
}

#else

bool pare_depthwise_int8_can(void)
{
    return false;
}

void pare_depthwise_int8_row_pairs(const struct pare_depthwise_int8 *k, const uint8_t *x,
                                   int64_t row, int64_t block, uint8_t *room, uint8_t *y)
{
    (void)k, (void)x, (void)row, (void)block, (void)room, (void)y;
}

#endif

/* depthwise_int8.c - int8 depthwise convolution with channels last, by VNNI. */
#include "depthwise_int8.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))
#define PART TARGET static inline __attribute__((always_inline))
#define BYTES 256 /* of four vectors */

bool pare_depthwise_int8_wide(const struct pare_backend *b)
{
    return b->vnni && b->block == 16 && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
}

/* Interleave four rows by channel. */
PART void interleave(const __m512i x[4], uint8_t *to)
{
    __m512i ab = _mm512_unpacklo_epi8(x[0], x[1]), cd = _mm512_unpacklo_epi8(x[2], x[3]);

    _mm512_storeu_si512(to, _mm512_unpacklo_epi16(ab, cd));
    _mm512_storeu_si512(to + 64, _mm512_unpackhi_epi16(ab, cd));
    ab = _mm512_unpackhi_epi8(x[0], x[1]);
    cd = _mm512_unpackhi_epi8(x[2], x[3]);
    _mm512_storeu_si512(to + 128, _mm512_unpacklo_epi16(ab, cd));
    _mm512_storeu_si512(to + 192, _mm512_unpackhi_epi16(ab, cd));
}

/* Interleave all pixels of a row; those outside the input are x's zero point. */
TARGET static void interleave_row(const struct pare_depthwise_int8 *k, const uint8_t *x,
                                  int64_t row, int64_t c, uint8_t *room)
{
    int64_t places = pare_depthwise_int8_pixels(k), fours = pare_depthwise_int8_groups(k);
    __mmask64 live = k->C - c < 64 ? ((__mmask64)1 << (k->C - c)) - 1 : ~(__mmask64)0;
    __m512i zero = _mm512_set1_epi8((char)k->zero), flip = _mm512_set1_epi8((char)k->flip);

    for (int64_t g = 0; g < fours; g++) {
        const uint8_t *line[4];

        for (int t = 0; t < 4; t++) {
            int64_t h = row * k->stride[0] - k->pad[0] + (g * 4 + t) * k->dilation[0];
            bool in = g * 4 + t < k->kernel[0] && h >= 0 && h < k->in[0];

            line[t] = in ? x + h * k->in[1] * k->C + c : NULL;
        }
        for (int64_t p = 0; p < places; p++) {
            int64_t w = p - k->pad[1];
            bool in = w >= 0 && w < k->in[1];
            __m512i v[4];

            for (int t = 0; t < 4; t++)
                v[t] = in && line[t]
                           ? _mm512_xor_si512(_mm512_maskz_loadu_epi8(live, line[t] + w * k->C),
                                              flip)
                           : zero;
            interleave(v, room + (p * fours + g) * BYTES);
        }
    }
}

struct ending {
    __m512 f[4], b[4], lo, hi;
    __m512i sum[4], zero;
};

/* From sums to 64 bytes. */
PART __m512i requantize(const struct ending *e, const __m512i acc[4], bool is_signed)
{
    __m512i q[4], low, high;

    for (int j = 0; j < 4; j++) {
        __m512 v = _mm512_mul_ps(_mm512_add_ps(_mm512_cvtepi32_ps(acc[j]), e->b[j]), e->f[j]);

        v = _mm512_min_ps(_mm512_max_ps(v, e->lo), e->hi);
        q[j] = _mm512_add_epi32(_mm512_cvtps_epi32(v), e->zero);
    }
    low = _mm512_packs_epi32(q[0], q[1]);
    high = _mm512_packs_epi32(q[2], q[3]);
    return is_signed ? _mm512_packs_epi16(low, high) : _mm512_packus_epi16(low, high);
}

/* Windows along the row.  fours and columns are constants at each inlined call, or 0. */
PART void windows(const struct pare_depthwise_int8 *k, const uint8_t *room, int64_t block,
                  uint8_t *y, const int fours_, const int columns_)
{
    const int64_t fours = fours_ ? fours_ : pare_depthwise_int8_groups(k);
    const int64_t columns = columns_ ? columns_ : k->kernel[1], c = block * 64;
    const int8_t *w = (const int8_t *)k->w +
                      block * pare_depthwise_int8_groups(k) * k->kernel[1] * BYTES;
    __mmask64 live = k->C - c < 64 ? ((__mmask64)1 << (k->C - c)) - 1 : ~(__mmask64)0;
    struct ending e = { .lo = _mm512_set1_ps(k->lo),
                        .hi = _mm512_set1_ps(k->hi),
                        .zero = _mm512_set1_epi32(k->y_zero) };

    for (int j = 0; j < 4; j++) {
        e.f[j] = _mm512_loadu_ps(k->f + c + 16 * j);
        e.b[j] = _mm512_loadu_ps(k->b + c + 16 * j);
        e.sum[j] = _mm512_loadu_si512(k->sum + c + 16 * j);
    }
    for (int64_t q = 0; q < k->out[1]; q++) {
        __m512i acc[4];

        for (int j = 0; j < 4; j++)
            acc[j] = e.sum[j];
#pragma GCC unroll 8
        for (int64_t i = 0; i < columns; i++) {
            const uint8_t *x = room + (q * k->stride[1] + i * k->dilation[1]) * fours * BYTES;

#pragma GCC unroll 2
            for (int64_t g = 0; g < fours; g++)
                for (int j = 0; j < 4; j++)
                    acc[j] = _mm512_dpbusd_epi32(acc[j], _mm512_loadu_si512(x + g * BYTES + 64 * j),
                                                 _mm512_loadu_si512(w + (g * columns + i) * BYTES +
                                                                    64 * j));
        }
        _mm512_mask_storeu_epi8(y + q * k->C, live, requantize(&e, acc, k->is_signed));
    }
}

TARGET void pare_depthwise_int8_row(const struct pare_depthwise_int8 *k, const uint8_t *x,
                                    int64_t row, int64_t block, uint8_t *room, uint8_t *y)
{
    interleave_row(k, x, row, block * 64, room);
    y += row * k->out[1] * k->C + block * 64;
    if (k->kernel[1] == 3 && pare_depthwise_int8_groups(k) == 1)
        windows(k, room, block, y, 1, 3);
    else if (k->kernel[1] == 5 && pare_depthwise_int8_groups(k) == 2)
        windows(k, room, block, y, 2, 5);
    else
        windows(k, room, block, y, 0, 0);
}

#else

bool pare_depthwise_int8_wide(const struct pare_backend *b)
{
    (void)b;
    return false;
}

void pare_depthwise_int8_row(const struct pare_depthwise_int8 *k, const uint8_t *x, int64_t row,
                             int64_t block, uint8_t *room, uint8_t *y)
{
    (void)k, (void)x, (void)row, (void)block, (void)room, (void)y;
}

#endif

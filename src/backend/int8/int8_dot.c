/* int8_dot.c - exact int16 products with int32 sums, in plain C and for AVX2. */
#include "int8_dot.h"

#include "../../base/simd.h"

#define ROWS 6 /* of AVX2: 12 sums, 2 vectors of w, a pair of x and a product in 16 registers */

PARE_SIMD void pare_dot_widen(const struct pare_int8 *q, const void *x, int64_t from, int16_t *y,
                              int64_t n)
{
    const uint8_t *u = (const uint8_t *)x + from;
    const int8_t *i8 = (const int8_t *)x + from;
    int16_t zero = (int16_t)q->zero;

    if (q->v->t.dtype == PARE_U8)
        for (int64_t i = 0; i < n; i++)
            y[i] = (int16_t)(u[i] - zero);
    else
        for (int64_t i = 0; i < n; i++)
            y[i] = (int16_t)(i8[i] - zero);
}

/* Columns of a panel from c on, one row. */
PARE_SIMD static void plain_row(const int16_t *restrict x, const int16_t *restrict w, int64_t K,
                                int32_t *restrict y)
{
    int32_t sum[PARE_DOT_COLUMNS] = { 0 };

    for (int64_t k = 0; k < K; k += 2, w += 2 * PARE_DOT_COLUMNS)
        for (int i = 0; i < PARE_DOT_COLUMNS; i++)
            sum[i] += x[k] * w[2 * i] + x[k + 1] * w[2 * i + 1];
    memcpy(y, sum, sizeof(sum));
}

static int64_t width_of(const struct pare_dot *d, int64_t c)
{
    return d->columns - c < PARE_DOT_COLUMNS ? d->columns - c : PARE_DOT_COLUMNS;
}

/* The sums of a row from column c on. */
static void put_row(const struct pare_dot *d, int64_t r, int64_t c, const int32_t *sum, int32_t *y)
{
    if (d->out)
        pare_int8_finish(d->out, sum, d->channel + c, width_of(d, c), d->bytes + r * d->stride + c);
    else
        memcpy(y + r * d->columns + c, sum, (size_t)width_of(d, c) * sizeof(*y));
}

static void plain_panel(const struct pare_dot *d, int64_t c, int32_t *y)
{
    int32_t row[PARE_DOT_COLUMNS];

    for (int64_t r = 0; r < d->rows; r++) {
        plain_row(d->x + r * d->K, d->w + c * d->K, d->K, row);
        put_row(d, r, c, row, y);
    }
}

PARE_SIMD static void plain_taps(const struct pare_dot_taps *d, int64_t c, int64_t n, int32_t *acc)
{
    int zero = d->zero;

    for (int t = 0; t < d->n; t++) {
        const uint8_t *u = d->x[t] + c;
        const int8_t *i8 = (const int8_t *)u;
        const int16_t *w = d->w[t] + c;

        if (d->is_signed)
            for (int64_t i = 0; i < n; i++)
                acc[i] += (i8[i] - zero) * w[i];
        else
            for (int64_t i = 0; i < n; i++)
                acc[i] += (u[i] - zero) * w[i];
    }
}

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("avx2")))

bool pare_dot_fast(void)
{
    return __builtin_cpu_supports("avx2");
}

/* As pare_int8_finish(), for 16 columns of 8-bit results. */
struct ending {
    __m256 f[2], b[2], lo, hi;
    __m256i zero;
    bool is_signed;
};

TARGET static inline __attribute__((always_inline)) struct ending
load_ending(const struct pare_dot *d, int64_t c)
{
    const struct pare_int8_out *o = d->out;
    struct ending e = { .zero = _mm256_set1_epi32(o->q.zero),
                        .is_signed = o->out->t.dtype == PARE_I8 };
    float lo, hi;

    pare_int8_bounds(o, &lo, &hi);
    e.lo = _mm256_set1_ps(lo);
    e.hi = _mm256_set1_ps(hi);
    for (int i = 0; i < 2; i++) {
        e.f[i] = _mm256_loadu_ps(o->f + d->channel + c + 8 * i);
        e.b[i] = _mm256_loadu_ps(o->b + d->channel + c + 8 * i);
    }
    return e;
}

TARGET static inline __attribute__((always_inline)) void
put_bytes(const struct ending *e, const __m256i sum[2], uint8_t *to)
{
    __m256i q[2], words;
    __m128i low, high;

    for (int i = 0; i < 2; i++) {
        __m256 v = _mm256_mul_ps(_mm256_add_ps(_mm256_cvtepi32_ps(sum[i]), e->b[i]), e->f[i]);

        v = _mm256_min_ps(_mm256_max_ps(v, e->lo), e->hi);
        q[i] = _mm256_add_epi32(_mm256_cvtps_epi32(v), e->zero);
    }
    words = _mm256_permute4x64_epi64(_mm256_packs_epi32(q[0], q[1]), 0xd8);
    low = _mm256_castsi256_si128(words);
    high = _mm256_extracti128_si256(words, 1);
    _mm_storeu_si128((__m128i *)(void *)to,
                     e->is_signed ? _mm_packs_epi16(low, high) : _mm_packus_epi16(low, high));
}

/* n rows from `first` on; n is a constant at each inlined call. */
TARGET static inline __attribute__((always_inline)) void
tile(const struct pare_dot *d, int64_t first, int64_t c, int32_t *y, const int n)
{
    const int16_t *x = d->x + first * d->K, *w = d->w + c * d->K;
    __m256i sum[ROWS][2];

#pragma GCC unroll 6
    for (int r = 0; r < n; r++)
        sum[r][0] = sum[r][1] = _mm256_setzero_si256();
    for (int64_t k = 0; k < d->K; k += 2, w += 2 * PARE_DOT_COLUMNS) {
        __m256i a = _mm256_loadu_si256((const __m256i *)w);
        __m256i b = _mm256_loadu_si256((const __m256i *)(w + PARE_DOT_COLUMNS));

#pragma GCC unroll 6
        for (int r = 0; r < n; r++) {
            __m256i pair;
            int32_t two;

            memcpy(&two, x + r * d->K + k, sizeof(two));
            pair = _mm256_set1_epi32(two);
            sum[r][0] = _mm256_add_epi32(sum[r][0], _mm256_madd_epi16(pair, a));
            sum[r][1] = _mm256_add_epi32(sum[r][1], _mm256_madd_epi16(pair, b));
            __asm__("" : "+x"(sum[r][0]), "+x"(sum[r][1])); /* row after row, without spills */
        }
    }
    if (d->out && width_of(d, c) == PARE_DOT_COLUMNS) {
        struct ending e = load_ending(d, c);

#pragma GCC unroll 6
        for (int r = 0; r < n; r++)
            put_bytes(&e, sum[r], d->bytes + (first + r) * d->stride + c);
        return;
    }
#pragma GCC unroll 6
    for (int r = 0; r < n; r++) {
        int32_t part[PARE_DOT_COLUMNS];

        _mm256_storeu_si256((__m256i *)part, sum[r][0]);
        _mm256_storeu_si256((__m256i *)(part + 8), sum[r][1]);
        put_row(d, first + r, c, part, y);
    }
}

TARGET static void fast_panel(const struct pare_dot *d, int64_t c, int32_t *y)
{
    const int64_t tiles = (d->rows + ROWS - 1) / ROWS;

    for (int64_t i = 0; i < tiles; i++) {
        const int64_t r = d->rows * i / tiles;

        switch (d->rows * (i + 1) / tiles - r) {
        case 6: tile(d, r, c, y, 6); break;
        case 5: tile(d, r, c, y, 5); break;
        case 4: tile(d, r, c, y, 4); break;
        case 3: tile(d, r, c, y, 3); break;
        case 2: tile(d, r, c, y, 2); break;
        default: tile(d, r, c, y, 1); break;
        }
    }
}

/* 16 channels of tap t, minus the zero point. */
TARGET static inline __attribute__((always_inline)) __m256i widen16(const struct pare_dot_taps *d,
                                                                    int t, int64_t c, __m256i zero)
{
    __m128i x = _mm_loadu_si128((const __m128i *)(d->x[t] + c));

    return _mm256_sub_epi16(d->is_signed ? _mm256_cvtepi8_epi16(x) : _mm256_cvtepu8_epi16(x), zero);
}

/* Two taps at a time, 16 channels: lanes hold channels 0..3 and 8..11, 4..7 and 12..15. */
TARGET static void fast_taps(const struct pare_dot_taps *d, int64_t c, int32_t *acc)
{
    const __m256i zero = _mm256_set1_epi16((short)d->zero), none = _mm256_setzero_si256();
    __m256i lo = none, hi = none, *to = (__m256i *)acc;

    for (int t = 0; t < d->n; t += 2) {
        bool two = t + 1 < d->n;
        __m256i x0 = widen16(d, t, c, zero), x1 = two ? widen16(d, t + 1, c, zero) : none;
        __m256i w0 = _mm256_loadu_si256((const __m256i *)(d->w[t] + c));
        __m256i w1 = two ? _mm256_loadu_si256((const __m256i *)(d->w[t + 1] + c)) : none;

        lo = _mm256_add_epi32(lo, _mm256_madd_epi16(_mm256_unpacklo_epi16(x0, x1),
                                                    _mm256_unpacklo_epi16(w0, w1)));
        hi = _mm256_add_epi32(hi, _mm256_madd_epi16(_mm256_unpackhi_epi16(x0, x1),
                                                    _mm256_unpackhi_epi16(w0, w1)));
    }
    _mm256_storeu_si256(to, _mm256_add_epi32(_mm256_loadu_si256(to),
                                             _mm256_permute2x128_si256(lo, hi, 0x20)));
    _mm256_storeu_si256(to + 1, _mm256_add_epi32(_mm256_loadu_si256(to + 1),
                                                 _mm256_permute2x128_si256(lo, hi, 0x31)));
}

#else

bool pare_dot_fast(void)
{
    return false;
}

#define fast_panel plain_panel

static void fast_taps(const struct pare_dot_taps *d, int64_t c, int32_t *acc)
{
    plain_taps(d, c, 16, acc);
}

#endif

void pare_dot_block(const struct pare_dot *d, int32_t *y)
{
    const bool fast = pare_dot_fast();

    for (int64_t c = 0; c < d->columns; c += PARE_DOT_COLUMNS)
        if (fast)
            fast_panel(d, c, y);
        else
            plain_panel(d, c, y);
}

void pare_dot_add_taps(const struct pare_dot_taps *d, int64_t c, int64_t n, int32_t *acc)
{
    int64_t i = 0;

    for (; i + 16 <= n && pare_dot_fast(); i += 16)
        fast_taps(d, c + i, acc + i);
    if (i < n)
        plain_taps(d, c + i, n - i, acc + i);
}

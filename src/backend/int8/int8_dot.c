/* int8_dot.c - exact int16 products with int32 sums, in plain C and for AVX2. */
#include "int8_dot.h"

#include "../../base/simd.h"

#define ROWS 2 /* of AVX2: 8 sums, 2 rows, a column and a product in 16 registers */

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

/* Two rows with four columns: six loads for eight products. */
PARE_SIMD static void dot_2x4(const int16_t *restrict x, const int16_t *restrict w, int64_t K,
                              int32_t *restrict y)
{
    const int16_t *x1 = x + K, *w1 = w + K, *w2 = w1 + K, *w3 = w2 + K;
    int32_t a0 = 0, a1 = 0, a2 = 0, a3 = 0, b0 = 0, b1 = 0, b2 = 0, b3 = 0;

    for (int64_t k = 0; k < K; k++) {
        a0 += x[k] * w[k];
        a1 += x[k] * w1[k];
        a2 += x[k] * w2[k];
        a3 += x[k] * w3[k];
        b0 += x1[k] * w[k];
        b1 += x1[k] * w1[k];
        b2 += x1[k] * w2[k];
        b3 += x1[k] * w3[k];
    }
    y[0] = a0;
    y[1] = a1;
    y[2] = a2;
    y[3] = a3;
    y[4] = b0;
    y[5] = b1;
    y[6] = b2;
    y[7] = b3;
}

PARE_SIMD static int32_t dot_1x1(const int16_t *restrict x, const int16_t *restrict w, int64_t K)
{
    int32_t sum = 0;

    for (int64_t k = 0; k < K; k++)
        sum += x[k] * w[k];
    return sum;
}

static void plain_block(const struct pare_dot *d, int64_t r, int64_t c, int32_t *y)
{
    const int16_t *x = d->x + r * d->K, *w = d->w + c * d->K;
    const int64_t rows = d->rows - r < 2 ? 1 : 2, columns = d->columns - c < 4 ? d->columns - c : 4;
    int32_t part[8];

    y += r * d->columns + c;
    if (rows == 2 && columns == 4) {
        dot_2x4(x, w, d->K, part);
        memcpy(y, part, 4 * sizeof(*y));
        memcpy(y + d->columns, part + 4, 4 * sizeof(*y));
        return;
    }
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < columns; k++)
            y[i * d->columns + k] = dot_1x1(x + i * d->K, w + k * d->K, d->K);
}

static void plain_columns(const struct pare_dot *d, int64_t c, int32_t *y)
{
    for (int64_t r = 0; r < d->rows; r += 2)
        plain_block(d, r, c, y);
}

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("avx2")))

bool pare_dot_fast(void)
{
    return __builtin_cpu_supports("avx2");
}

/* n rows with four columns; n is a constant at each inlined call. */
TARGET static inline __attribute__((always_inline)) void
tile(const struct pare_dot *d, int64_t first, int64_t c, int32_t *y, const int n)
{
    const int16_t *x = d->x + first * d->K, *w = d->w + c * d->K;
    __m256i sum[ROWS][4];

    for (int r = 0; r < n; r++)
        for (int i = 0; i < 4; i++)
            sum[r][i] = _mm256_setzero_si256();
    for (int64_t k = 0; k < d->K; k += 16) {
        __m256i a[ROWS];

#pragma GCC unroll 2
        for (int r = 0; r < n; r++)
            a[r] = _mm256_loadu_si256((const __m256i *)(x + r * d->K + k));
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            __m256i b = _mm256_loadu_si256((const __m256i *)(w + i * d->K + k));

            __asm__("" : "+x"(b)); /* load it once for all rows */
#pragma GCC unroll 2
            for (int r = 0; r < n; r++)
                sum[r][i] = _mm256_add_epi32(sum[r][i], _mm256_madd_epi16(a[r], b));
        }
    }
#pragma GCC unroll 2
    for (int r = 0; r < n; r++) {
        __m256i s = _mm256_hadd_epi32(_mm256_hadd_epi32(sum[r][0], sum[r][1]),
                                      _mm256_hadd_epi32(sum[r][2], sum[r][3]));

        _mm_storeu_si128((__m128i *)(y + (first + r) * d->columns + c),
                         _mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1)));
    }
}

TARGET static void fast_columns(const struct pare_dot *d, int64_t c, int32_t *y)
{
    int64_t r = 0;

    for (; r + ROWS <= d->rows; r += ROWS)
        tile(d, r, c, y, ROWS);
    if (r < d->rows)
        tile(d, r, c, y, 1);
}

#else

bool pare_dot_fast(void)
{
    return false;
}

#define fast_columns plain_columns

#endif

void pare_dot_block(const struct pare_dot *d, int32_t *y)
{
    const bool fast = pare_dot_fast();

    for (int64_t c = 0; c < d->columns; c += 4)
        if (fast && c + 4 <= d->columns)
            fast_columns(d, c, y);
        else
            plain_columns(d, c, y);
}

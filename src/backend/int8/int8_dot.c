/* int8_dot.c - exact int16 products with int32 sums, in plain C. */
#include "int8_dot.h"

#include "../../base/simd.h"

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

void pare_dot_block(const int16_t *x, int64_t rows, const int16_t *w, int64_t columns, int64_t K,
                    int32_t *y)
{
    int32_t part[8];

    for (int64_t c = 0; c < columns; c += 4)
        for (int64_t r = 0; r < rows; r += 2) {
            bool whole = r + 2 <= rows && c + 4 <= columns;

            if (whole) {
                dot_2x4(x + r * K, w + c * K, K, part);
                memcpy(y + r * columns + c, part, 4 * sizeof(*y));
                memcpy(y + (r + 1) * columns + c, part + 4, 4 * sizeof(*y));
                continue;
            }
            for (int64_t i = r; i < r + 2 && i < rows; i++)
                for (int64_t k = c; k < c + 4 && k < columns; k++)
                    y[i * columns + k] = dot_1x1(x + i * K, w + k * K, K);
        }
}

/* int8_dot.h - exact int16 products with int32 sums, in plain C and for AVX2. */
#ifndef PARE_BACKEND_INT8_INT8_DOT_H
#define PARE_BACKEND_INT8_INT8_DOT_H

#include "../fuse/int8_operands.h"

#define PARE_DOT_PAD 32        /* lengths are multiples of this, padded with zeros */
#define PARE_DOT_LONGEST 65536 /* largest number of products 255 * 128 whose sum fits in 32 bits */

static inline int64_t pare_dot_length(int64_t n)
{
    return (n + PARE_DOT_PAD - 1) / PARE_DOT_PAD * PARE_DOT_PAD;
}

/* y[i] = x[from + i] - zero. */
void pare_dot_widen(const struct pare_int8 *q, const void *x, int64_t from, int16_t *y, int64_t n);

/* Operands of a product: x (rows, K), w (columns, K), K a multiple of PARE_DOT_PAD. */
struct pare_dot {
    const int16_t *x, *w;
    int64_t rows, columns, K;
};

/* y (rows, columns) = x w'. */
void pare_dot_block(const struct pare_dot *d, int32_t *y);

/* Is this faster than float32 for sums of any length, because the CPU has AVX2? */
bool pare_dot_fast(void);

#endif

/* int8_dot.h - exact int16 products with int32 sums, in plain C. */
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

/* y (rows, columns) = x w', x (rows, K), w (columns, K), K a multiple of PARE_DOT_PAD. */
void pare_dot_block(const int16_t *x, int64_t rows, const int16_t *w, int64_t columns, int64_t K,
                    int32_t *y);

#endif

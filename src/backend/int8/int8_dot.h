/* int8_dot.h - exact int16 products with int32 sums, in plain C and for AVX2.
 *
 * w in panels of 16 columns with two consecutive k interleaved: element (k, c) is at pare_dot_at(),
 * with zeros beyond K and the last column.  One instruction multiplies a pair of x with eight
 * columns; registers hold the sums of six rows.
 */
#ifndef PARE_BACKEND_INT8_INT8_DOT_H
#define PARE_BACKEND_INT8_INT8_DOT_H

#include "../fuse/int8_operands.h"

#define PARE_DOT_PAD 2         /* lengths are multiples of this, padded with zeros */
#define PARE_DOT_COLUMNS 16    /* of a panel */
#define PARE_DOT_LONGEST 65536 /* largest number of products 255 * 128 whose sum fits in 32 bits */

static inline int64_t pare_dot_length(int64_t n)
{
    return (n + PARE_DOT_PAD - 1) / PARE_DOT_PAD * PARE_DOT_PAD;
}

/* Elements of w for this length and number of columns; and the place of one. */
static inline size_t pare_dot_packed(int64_t K, int64_t columns)
{
    return (size_t)((columns + PARE_DOT_COLUMNS - 1) / PARE_DOT_COLUMNS * PARE_DOT_COLUMNS * K);
}

static inline int64_t pare_dot_at(int64_t K, int64_t k, int64_t c)
{
    return c / PARE_DOT_COLUMNS * PARE_DOT_COLUMNS * K +
           (k / 2 * PARE_DOT_COLUMNS + c % PARE_DOT_COLUMNS) * 2 + k % 2;
}

/* y[i] = x[from + i] - zero. */
void pare_dot_widen(const struct pare_int8 *q, const void *x, int64_t from, int16_t *y, int64_t n);

/* Operands of a product: x (rows, K), w (K, columns) in panels, K a multiple of PARE_DOT_PAD. */
struct pare_dot {
    const int16_t *x, *w;
    int64_t rows, columns, K;

    /* Quantized results instead of sums: column 0 is this channel of `out`; `stride` is the bytes
     * from one row of `bytes` to the next.  NULL: sums. */
    const struct pare_int8_out *out;
    int64_t channel, stride;
    uint8_t *bytes;
};

/* y (rows, columns) = x w, or d->bytes. */
void pare_dot_block(const struct pare_dot *d, int32_t *y);

/* Products by channel: taps of a depthwise convolution. */
#define PARE_DOT_TAPS 64
struct pare_dot_taps {
    const uint8_t *x[PARE_DOT_TAPS]; /* by tap: the channels of a pixel, uint8 or int8 */
    const int16_t *w[PARE_DOT_TAPS]; /* and their weights */
    int n;
    int zero;
    bool is_signed;
};

/* acc[i] += sum over taps of (x[c + i] - zero) w[c + i], i < n. */
void pare_dot_add_taps(const struct pare_dot_taps *d, int64_t c, int64_t n, int32_t *acc);

/* Is this faster than float32 for sums of any length, because the CPU has AVX2? */
bool pare_dot_fast(void);

#endif

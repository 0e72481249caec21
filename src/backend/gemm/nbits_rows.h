/* nbits_rows.h - products of float32 rows with packed weights of 4 or 8 bits.
 *
 *     w[n][k] = scale[n][k / group] * (q[n][k] + shift[n][k / group])
 *
 * q are two's complement after an exclusive or with `flip`.  A chunk is 64 bytes: 16 words of 32
 * bits with 8 or 4 fields each.  Rows of x are reordered to match the order in which vectors of
 * words yield their fields: field f of word l of chunk c is at (c * fields + f) * 16 + l.
 */
#ifndef PARE_BACKEND_GEMM_NBITS_ROWS_H
#define PARE_BACKEND_GEMM_NBITS_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pare_nbits {
    int64_t N, K, group, groups;
    int bits;
    uint32_t flip;
    const uint8_t *q; /* rows of row_bytes bytes, perhaps unaligned */
    int64_t row_bytes;
    const float *scale;   /* (N, groups) */
    const int16_t *shift; /* (N, groups), or NULL: all 0 */
};

/* Do group boundaries coincide with words? */
static inline bool pare_nbits_fits(int bits, int64_t group, int64_t groups)
{
    return groups == 1 || group % (32 / bits) == 0;
}

/* Values of a row in whole chunks; at least K, values beyond K are 0. */
static inline int64_t pare_nbits_padded(const struct pare_nbits *w)
{
    int64_t chunk = 512 / w->bits;

    return (w->K + chunk - 1) / chunk * chunk;
}

/* Reorder a row of x for pare_nbits_dot().  With 4 bits, fields are masked but not shifted, so
 * field f of x is divided by 16^f; fields have no sign, so each chunk begins with 16 more floats,
 * -8 times the sum of a word's x.  sums (`groups` floats) is for weights with shifts: the sums of x
 * by group. */
int64_t pare_nbits_ordered(const struct pare_nbits *w); /* floats of a reordered row */
void pare_nbits_order(const struct pare_nbits *w, const float *x, float *to, float *sums);

/* y[r][n] = sum of x[r][k] w[n][k], for n from `from` up to `to`.  Strides in floats: xs of
 * reordered rows of x, `groups` of their sums, N of rows of y. */
struct pare_nbits_job {
    const float *x, *sums;
    int64_t xs;
    int rows;
    float *y;
};
void pare_nbits_dot(const struct pare_nbits *w, const struct pare_nbits_job *j, int64_t from,
                    int64_t to);

/* Dequantize row n of w: K floats. */
void pare_nbits_dequantize(const struct pare_nbits *w, int64_t n, float *to);

#endif

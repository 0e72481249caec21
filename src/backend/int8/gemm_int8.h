/* gemm_int8.h - int8 GEMM with packed constant matrices and requantization, by VNNI.
 *
 *     y (rows, N) = clamp(f (x w + sum + b)),   x (rows, K) uint8, w (K, N) int8,
 *
 * w in panels of 32 columns with four consecutive k interleaved: element (k, c) is at
 *     ((c / 32 * ceil(K / 4) + k / 4) * 32 + c % 32) * 4 + k % 4,
 * with zeros beyond K and N.  The registers hold the sums of two vectors of columns for a dozen
 * rows.  Or, for products whose zero points or scales are known at run time only,
 *     y (rows, N) = scale (x w + sum - shift row_sum') + bias.
 */
#ifndef PARE_BACKEND_INT8_GEMM_INT8_H
#define PARE_BACKEND_INT8_GEMM_INT8_H

#include "../fuse/int8_operands.h"

#define PARE_GEMM_INT8 32 /* columns */

/* Does the CPU have VNNI, and may it be used? */
bool pare_gemm_int8_can(const struct pare_backend *b);

static inline int64_t pare_gemm_int8_fours(int64_t K)
{
    return (K + 3) / 4;
}

static inline int64_t pare_gemm_int8_columns(int64_t N)
{
    return (N + PARE_GEMM_INT8 - 1) / PARE_GEMM_INT8 * PARE_GEMM_INT8;
}

static inline size_t pare_gemm_int8_bytes(int64_t K, int64_t N)
{
    return (size_t)(pare_gemm_int8_fours(K) * 4 * pare_gemm_int8_columns(N));
}

struct pare_gemm_int8 {
    const uint8_t *x;         /* rows are readable up to a multiple of 4 */
    const int8_t *w;          /* packed */
    const int32_t *sum;       /* by column, N of them and zeros up to a whole panel: the
                                 contribution of x's zero point */
    struct pare_int8_out out; /* f and b have room for whole panels, too */
    void *y;
    int64_t rows, K, N, x_row, y_row; /* x_row bytes, y_row elements */
    int64_t from, to;                 /* columns; from is a multiple of 32 */
    const int32_t *shift, *row_sum;   /* by column and by row; NULL: 0 */
    const float *scale, *bias; /* float results; scale NULL: as `out` describes; bias NULL: 0 */
    bool one_scale;            /* else one by column */
    float lo, hi;              /* set by pare_gemm_int8_run(): bounds, within the range of
                                         the type */
};

/* Pack w (K, N) or, `transposed`, (N, K) into pare_gemm_int8_bytes() bytes; sum: for x - zero. */
void pare_gemm_int8_pack(const int8_t *w, bool transposed, int64_t K, int64_t N, int8_t *packed);
void pare_gemm_int8_sums(const int8_t *packed, int64_t K, int64_t N, int zero, int32_t *sum);

void pare_gemm_int8_run(const struct pare_gemm_int8 *given);

#endif

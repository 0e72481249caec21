/* gemm_packed.h - products with constant matrices that are packed by panels of columns.
 *
 * A panel is two blocks of columns wide (the machine's channel block: 8 or 16), the last one
 * perhaps one; it holds (K, width) floats.  The registers hold that many next to a dozen rows.
 */
#ifndef PARE_BACKEND_GEMM_GEMM_PACKED_H
#define PARE_BACKEND_GEMM_GEMM_PACKED_H

#include <stdbool.h>
#include <stdint.h>

#include "../rows/post_ops_apply.h"

/* y (rows, columns) = clamp(x (rows, K) w + bias + start).  Element k of a row is at
 * x[row * x_row + k / run * x_run + k % run]: with run = K an ordinary matrix, with a block of
 * channels as the run a tensor in blocks.  Columns come in blocks that are y_block apart. */
struct pare_packed_gemm {
    const float *x, *w;
    const float *bias;  /* of each column, or NULL */
    const float *start; /* as y, or NULL; may be y */
    bool clamp;         /* between low and high */
    float low, high;
    const struct pare_post_op *post; /* ... and these behind it */
    int n_post;
    const float *sum; /* their other operand, as y, or NULL */
    float *y;
    int64_t rows, blocks; /* blocks of columns */
    int64_t runs, run;    /* K = runs * run + tails * last; tails 0 is 1 */
    int64_t last, tails;
    const int64_t *offset; /* where all these runs begin; NULL: x_run apart */
    int64_t x_row, x_run, y_row, y_block;
    int64_t x_step, w_step; /* not 0: w is no panels but (K, columns), so far from row to row, and
                               elements of x's rows (x_row must be 1) are so far apart */
    int block;              /* 8 or 16 */
};

static inline int64_t pare_packed_gemm_depth(const struct pare_packed_gemm *p)
{
    return p->runs * p->run + (p->tails ? p->tails : 1) * p->last;
}

void pare_packed_gemm_run(const struct pare_packed_gemm *p);

/* Row-major matrices without gaps, (rows, K) times (K, columns): without x, w and y. */
static inline struct pare_packed_gemm pare_packed_gemm_matrix(int64_t rows, int64_t K,
                                                              int64_t columns, int block)
{
    return (struct pare_packed_gemm){
        .rows = rows,
        .blocks = columns / block,
        .runs = 1,
        .run = K,
        .x_row = K,
        .y_row = columns,
        .y_block = block,
        .block = block,
    };
}

/* Where element (k, column) is in the packed form of a matrix with so many blocks of columns. */
static inline int64_t pare_packed_gemm_at(int64_t K, int64_t blocks, int block, int64_t k,
                                          int64_t column)
{
    int64_t b = column / block, first = b / 2 * 2, width = first + 1 < blocks ? 2 : 1;

    return (first * K + k * width + b - first) * block + column % block;
}

#endif

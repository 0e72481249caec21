/* gemm_packed.h - packed GEMM: products with matrices packed in panels of columns.
 *
 * A panel is two blocks of columns wide (the machine's channel block: 8 or 16), the last panel
 * perhaps one block; it holds (K, width) floats.  The registers hold the sums of one panel for a
 * dozen rows.
 */
#ifndef PARE_BACKEND_GEMM_GEMM_PACKED_H
#define PARE_BACKEND_GEMM_GEMM_PACKED_H

#include <stdbool.h>
#include <stdint.h>

#include "../rows/post_ops_apply.h"

/* y (rows, columns) = clamp(x (rows, K) w + bias + start), followed by post-ops.  Element k of a
 * row is at x[row * x_row + k / run * x_run + k % run]: run = K is an ordinary matrix, run = block
 * is a tensor in the blocked layout.  The stride of blocks of columns is y_block. */
struct pare_packed_gemm {
    const float *x, *w;
    const float *bias;  /* by column, or NULL */
    const float *start; /* shaped like y, or NULL; may be y */
    bool clamp;         /* to [low, high] */
    float low, high;
    const struct pare_post_op *post; /* post-ops after the clamp */
    int n_post;
    const float *sum; /* operand of PARE_POST_SUM, shaped like y; or NULL */
    float *y;
    int64_t rows, blocks; /* blocks: of columns */
    int64_t columns;      /* if the last block of y is not full: columns of y, and n_post must be 0;
                             else 0.  w and bias have whole blocks. */
    int64_t runs, run;    /* K = runs * run + tails * last; tails 0 means 1 */
    int64_t last, tails;
    const int64_t *offset; /* offset of each run; NULL: multiples of x_run */
    int64_t x_row, x_run, y_row, y_block;
    int64_t x_step, w_step; /* not 0: x has element stride x_step (x_row must be 1); then w_step not
                               0: w is not packed but (K, columns) with this row stride */
    int block;              /* 8 or 16 */
    bool bf16; /* x and w hold pairs of bf16 (bf16_pairs.h) in the place of floats: K, runs and
                  strides count pairs; sums and y are float32 */
};

static inline int64_t pare_packed_gemm_depth(const struct pare_packed_gemm *p)
{
    return p->runs * p->run + (p->tails ? p->tails : 1) * p->last;
}

void pare_packed_gemm_run(const struct pare_packed_gemm *p);

/* Row-major matrices without gaps, (rows, K) times (K, columns); the caller sets x, w and y.  w has
 * whole blocks of columns. */
static inline struct pare_packed_gemm pare_packed_gemm_matrix(int64_t rows, int64_t K,
                                                              int64_t columns, int block)
{
    return (struct pare_packed_gemm){
        .rows = rows,
        .blocks = (columns + block - 1) / block,
        .columns = columns % block ? columns : 0,
        .runs = 1,
        .run = K,
        .x_row = K,
        .y_row = columns,
        .y_block = block,
        .block = block,
    };
}

/* Offset of element (k, column) in the packed form of a matrix with this many blocks of columns. */
static inline int64_t pare_packed_gemm_at(int64_t K, int64_t blocks, int block, int64_t k,
                                          int64_t column)
{
    int64_t b = column / block, first = b / 2 * 2, width = first + 1 < blocks ? 2 : 1;

    return (first * K + k * width + b - first) * block + column % block;
}

#endif

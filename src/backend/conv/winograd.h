/* winograd.h - convolutions with 3x3 filters and stride 1 by Winograd's F(4x4, 3x3).
 *
 * Lavin, Gray, "Fast algorithms for convolutional neural networks", 2015.  A tile of 4x4 results is
 * computed from 6x6 inputs d by  A' [ (G w G') . (B' d B) ] A.  With the sum over input channels,
 * the elementwise product becomes a matrix product for each of the 36 positions: a quarter of the
 * multiplications.  Gradients have the same form.  Tensors are channel-blocked; channel counts
 * include padding.
 */
#ifndef PARE_BACKEND_CONV_WINOGRAD_H
#define PARE_BACKEND_CONV_WINOGRAD_H

#include "../backend.h"

#include "../rows/post_ops_apply.h"
#include "../gemm/gemm_packed.h"

#define PARE_WINOGRAD 36 /* positions of a tile */

/* Floats from one position's filters to the next.  Not a power of two, which would map all
 * positions to the same few cache sets. */
static inline int64_t pare_winograd_step(int64_t o, int64_t i)
{
    return o * i + 16;
}

/* Input or output of a convolution. */
struct pare_winograd_side {
    int64_t channels, h, w;
};

/* From one side to the other; top and left are the padding of `from`. */
struct pare_winograd {
    int64_t N, top, left;
    int block, threads;
    bool lean; /* filters are transformed in parts, see pare_winograd_lean() */
    bool bf16; /* operands of the products are pairs of bf16 (gemm/bf16_pairs.h) */
    struct pare_winograd_side from, to;
};

/* The tiles of `to`, all images. */
int64_t pare_winograd_tiles(const struct pare_winograd *g);

/* Are filters so large and tiles so few that writing and reading the transformed filters would
 * dominate?  A lean run transforms them in parts that stay in the cache; in return it needs all
 * tiles at once. */
bool pare_winograd_lean(const struct pare_winograd *g);

/* Transform filters w (O, I, 3, 3), row-major or blocked (blocked_filters.h), to u: 36 packed
 * matrices (gemm_packed.h) from i to o channels, zeros beyond O and I, with a stride of
 * pare_winograd_step().  `rotated`: turned by 180 degrees and from o to i channels, as
 * backward_data needs them. */
struct pare_winograd_filters {
    const float *w;
    bool rotated, blocked;
    bool bf16; /* pairs of rows instead of rows; u has room for floats all the same */
    int64_t O, I, o, i;
    int block, threads;
    const float *scale; /* by output channel, or NULL; not for rotated or blocked filters */
};
void pare_winograd_filters(const struct pare_winograd_filters *f, float *u);

/* The transpose for backward_weights: w = or, with `add`, += the gradient of the filters, from that
 * of u (36, o, i). */
void pare_winograd_unfilter(const struct pare_winograd_filters *f, const float *u, bool add,
                            float *w);

/* The same for some rows and blocks of columns of the matrix; `step` is the stride of positions.
 * Parts of filters are packed as separate matrices, parts of gradients are (36, rows, columns). */
struct pare_winograd_part {
    int64_t row, rows, column, blocks, step;
};
void pare_winograd_filter_part(const struct pare_winograd_filters *f,
                               const struct pare_winograd_part *p, float *u);
void pare_winograd_unfilter_part(const struct pare_winograd_filters *f,
                                 const struct pare_winograd_part *p, const float *u, bool add,
                                 float *w);

/* Floats of scratch memory of the next two functions. */
size_t pare_winograd_work(const struct pare_winograd *g);
size_t pare_winograd_weights_work(const struct pare_winograd *g);

struct pare_winograd_run {
    const float *x; /* the input `from` */
    const float *u; /* transformed filters; NULL for lean runs, which transform f */
    int64_t u_step; /* floats from one position of u to the next */
    const struct pare_winograd_filters *f;
    const float *bias;               /* by channel of `to`, padded; or NULL */
    bool add;                        /* add to y instead of assigning */
    const float *sum;                /* operand of PARE_POST_SUM, may be y */
    const struct pare_post_op *post; /* those of pare_post_ops_run() */
    int n_post;
    float *y, *work;
};
void pare_winograd_run(const struct pare_winograd *g, const struct pare_winograd_run *r);

/* backward_weights: gw = or, with `add`, += the gradient of the filters, from the input x and the
 * gradient gy of the result.  u has room for the transformed filters; lean runs do not use it. */
struct pare_winograd_grad {
    const float *x, *gy;
    const struct pare_winograd_filters *f;
    bool add;
    float *gw, *u, *work;
};
void pare_winograd_weights(const struct pare_winograd *g, const struct pare_winograd_grad *r);

#endif

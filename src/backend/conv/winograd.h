/* winograd.h - convolutions with 3x3 filters and stride 1 by Winograd's F(4x4, 3x3).
 *
 * Lavin, Gray, "Fast algorithms for convolutional neural networks", 2015.  A tile of 4x4 results
 * comes from 6x6 inputs d by  A' [ (G w G') . (B' d B) ] A,  where the sum over input channels
 * makes of the product a matrix product for each of the 36 places: a quarter of the work.
 * Gradients have the same form.  Tensors are channel-blocked; channels are counted with padding.
 */
#ifndef PARE_BACKEND_CONV_WINOGRAD_H
#define PARE_BACKEND_CONV_WINOGRAD_H

#include "../backend.h"

#include "../rows/post_ops_apply.h"
#include "../gemm/gemm_packed.h"

#define PARE_WINOGRAD 36 /* places of a tile */

/* Floats from one place's filters to the next's.  No power of two, which would put all places into
 * a few lines of the cache. */
static inline int64_t pare_winograd_step(int64_t o, int64_t i)
{
    return o * i + 16;
}

/* One side of a convolution. */
struct pare_winograd_side {
    int64_t channels, h, w;
};

/* From one side to the other; top and left are the padding of `from`. */
struct pare_winograd {
    int64_t N, top, left;
    int block, threads;
    bool lean; /* the filters are transformed some at a time, see pare_winograd_lean() */
    struct pare_winograd_side from, to;
};

/* The tiles of `to`, all images. */
int64_t pare_winograd_tiles(const struct pare_winograd *g);

/* Whether there are so many filters and so few tiles that transformed filters would go to memory
 * and back for little work.  A lean run has them in parts that stay in the cache, and needs all
 * tiles at once instead. */
bool pare_winograd_lean(const struct pare_winograd *g);

/* Filters w (O, I, 3, 3), row-major or laid (blocked_filters.h), to u: 36 packed matrices (gemm_packed.h) from i
 * to o channels, zeros beyond O and I, each pare_winograd_step() from the last; `turned` by half a turn
 * and from o to i, as the gradient of the input needs them. */
struct pare_winograd_filters {
    const float *w;
    bool turned, laid;
    int64_t O, I, o, i;
    int block, threads;
    const float *scale; /* of each of O, or NULL; not for turned or laid ones */
};
void pare_winograd_filters(const struct pare_winograd_filters *f, float *u);

/* The way back: w = or, `add`, += what the filters' gradient is when that of u (36, o, i) is
 * given. */
void pare_winograd_unfilter(const struct pare_winograd_filters *f, const float *u, bool add,
                            float *w);

/* The same for some rows and blocks of columns of the matrix; `step` is the distance of places.
 * Filters' parts are packed as matrices of their own, gradients' parts are (36, rows, columns). */
struct pare_winograd_part {
    int64_t row, rows, column, blocks, step;
};
void pare_winograd_filter_part(const struct pare_winograd_filters *f,
                               const struct pare_winograd_part *p, float *u);
void pare_winograd_unfilter_part(const struct pare_winograd_filters *f,
                                 const struct pare_winograd_part *p, const float *u, bool add,
                                 float *w);

/* Floats of working memory that the next two need. */
size_t pare_winograd_work(const struct pare_winograd *g);
size_t pare_winograd_weights_work(const struct pare_winograd *g);

struct pare_winograd_run {
    const float *x; /* `from` */
    const float *u; /* transformed filters; for lean runs: */
    const struct pare_winograd_filters *f;
    const float *bias;               /* by channel of `to`, padded; or NULL */
    bool add;                        /* add to y instead of assigning */
    const float *sum;                /* what PARE_POST_SUM adds, perhaps y */
    const struct pare_post_op *post; /* no kind behind PARE_POST_CLIP */
    int n_post;
    float *y, *work;
};
void pare_winograd_run(const struct pare_winograd *g, const struct pare_winograd_run *r);

/* The gradient of the filters, gw = or, `add`, +=, from the input x and the gradient gy of the
 * result.  u has room for the transformed filters; a lean run needs none. */
struct pare_winograd_grad {
    const float *x, *gy;
    const struct pare_winograd_filters *f;
    bool add;
    float *gw, *u, *work;
};
void pare_winograd_weights(const struct pare_winograd *g, const struct pare_winograd_grad *r);

#endif

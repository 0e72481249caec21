/* sparse.h - convolutions and products with sparse weights.
 *
 * W (O, K) is divided into columns of `rows` consecutive outputs: 4x1 or 8x1 blocks, or single
 * weights.  Blocks of zeros are not stored; a stored block is `rows` floats and the offset of its
 * inputs.  Vectors are pixels: a tile of some dozen pixels times a block of outputs stays in
 * registers while all blocks of these outputs are added to it,
 *     y[o + r][pixel] += w[r] x[offset + pixel].
 * So the pixels of the input must be contiguous.  It is copied into planes, the rows of a channel
 * one after the other with padding between them, a band of rows at a time.
 *
 * Blocks that are not stored are not multiplied: 0 times an infinite input counts as 0.
 */
#ifndef PARE_BACKEND_SPARSE_SPARSE_H
#define PARE_BACKEND_SPARSE_SPARSE_H

#include "../backend.h"

/* ---- weights ------------------------------------------------------------------------------- */

#define PARE_SPARSE_KINDS 3
extern const int pare_sparse_rows[PARE_SPARSE_KINDS]; /* 1, 4, 8 */

/* Element (o, k) is at o * row + k * column of float32 data that may be unaligned. */
struct pare_sparse_from {
    const void *data;
    int64_t O, K, row, column;
};

/* Count the nonzero blocks of each kind; false, after sampling a few weights, if less than about a
 * third of them is zero. */
bool pare_sparse_count(const struct pare_sparse_from *f, int64_t blocks[PARE_SPARSE_KINDS]);

struct pare_sparse {
    int rows; /* of a block */
    int64_t O;
    int64_t groups; /* groups of `rows` outputs; those beyond O are empty */
    int64_t *first; /* by group: index of its first block; one more for the end */
    int32_t *at;    /* by block: offset of its inputs */
    float *w;       /* (blocks, rows), with zeros beyond O */
};

/* at: by column of W.  Groups for `outputs` >= O outputs; scale: factor of each row, or NULL. */
struct pare_sparse_make {
    int rows;
    int64_t outputs;
    const int32_t *at;
    const float *scale;
};
int pare_sparse_make(const struct pare_sparse_from *f, const struct pare_sparse_make *m,
                     struct pare_arena *a, struct pare_sparse *s, struct pare_err *err);

/* ---- tiles --------------------------------------------------------------------------------- */

#define PARE_TILE 96 /* the most pixels of a tile, and the stride of its rows */

/* The most vectors of `wide` (8 or 16) pixels for blocks of this many rows. */
int pare_tile_max_vectors(int rows, int wide);

/* y (rows, PARE_TILE) = bias + group g's blocks times the pixels from x on. */
struct pare_tile {
    int wide, vectors;
    const float *x, *bias;
    float *y;
};
void pare_tile_run(const struct pare_sparse *s, int64_t g, const struct pare_tile *t);

/* Transpose: to[j * to_stride + i] = from[i * step + j], for i < n and j < 8. */
void pare_transpose_pixels(const float *from, int64_t step, int64_t n, float *to,
                           int64_t to_stride);

/* to (n, lanes) = from (lanes, n) with rows of PARE_TILE floats; n is a multiple of 8. */
void pare_transpose_tile(const float *from, int64_t n, float *to, int lanes);

/* y of groups [from, to) = bias + W x, for one vector x. */
void pare_sparse_times(const struct pare_sparse *s, int64_t from, int64_t to, const float *x,
                       const float *bias, float *y);

/* ---- convolutions -------------------------------------------------------------------------- */

#define PARE_SPARSE_STRIDE 32 /* the largest */

struct pare_sparse_conv {
    /* Set by the caller.  Products of rows are convolutions with one tap over a row of pixels, in
     * PARE_CHANNELS_LAST. */
    int64_t N, C, O;
    int64_t in[2], out[2], kernel[2], stride[2], dilation[2], pad[2];
    int in_block,
        out_block;     /* in: 1, 8, 16 or PARE_CHANNELS_LAST; out: 8, 16 or PARE_CHANNELS_LAST */
    int lanes;         /* outputs that are stored together: 8 or 16, as out_block */
    int threads, rows; /* of a block of weights */

    /* Set by pare_sparse_shape(). */
    int8_t phase[2][PARE_SPARSE_STRIDE]; /* plane of the inputs with this remainder modulo the
                                            stride; -1: not read */
    int64_t phases[2];
    bool flat;           /* one tap, one pixel: rows are pixels */
    int64_t pitch, more; /* row stride; rows beyond those of the results */
    int64_t band, bands; /* output rows at a time */
    int64_t parts;       /* of the outputs */
    int64_t plane, planes;
    int wide;
    int64_t floats; /* of scratch memory, per thread */
};

/* False if the shape is not supported. */
bool pare_sparse_shape(struct pare_sparse_conv *c, int wide);

/* Choose the rows of a block, unless the backend specifies them; false if dense weights are faster
 * or the shape is not supported.  Includes pare_sparse_shape(). */
bool pare_sparse_choose(const struct pare_match *v, const struct pare_sparse_from *f,
                        struct pare_sparse_conv *c);

/* The rows of a block of a conv_sparse or linear_sparse step. */
int pare_sparse_step_rows(const struct pare_step *s);

/* The input offset of column k of W (O, C * kernel). */
int32_t pare_sparse_offset(const struct pare_sparse_conv *c, int64_t k);

/* Pixels that are computed per image, including those that are discarded. */
int64_t pare_sparse_pixels(const struct pare_sparse_conv *c);

/* Applied to the sums: nothing, Relu, a residual sum, both, or any function of n floats. */
enum pare_end_kind {
    PARE_END_NONE,
    PARE_END_RELU,
    PARE_END_SUM,
    PARE_END_SUM_RELU,
    PARE_END_APPLY
};
struct pare_end {
    enum pare_end_kind kind;
    void (*apply)(const void *user, float *y, const float *sum, int64_t n);
    const void *user;
};

struct pare_sparse_run {
    const struct pare_sparse *w;
    const float *x, *bias; /* bias: for all outputs of w's groups */
    const float *sum;      /* shaped like y, may be y; or NULL */
    float *y, *work;       /* work: `floats` of the shape, per thread */
    struct pare_end end;
};
void pare_sparse_run(const struct pare_sparse_conv *c, const struct pare_sparse_run *r);

#endif

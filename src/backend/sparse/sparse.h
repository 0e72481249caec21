/* sparse.h - convolutions and products with weights that are mostly zero.
 *
 * W (O, K) is cut into columns of `rows` outputs that follow each other: 4x1 or 8x1 blocks, or
 * single weights.  A block that is zero is not there; one that is not is `rows` numbers and the
 * place of the inputs that they meet.  Vectors are pixels: a tile of some dozen pixels times a
 * block of outputs stays in registers while all blocks of these outputs are added to it,
 *     y[o + r][pixel] += w[r] x[place + pixel].
 * So the input must have its pixels side by side.  It is brought into planes, a channel's rows of
 * pixels one behind the other with the padding between them, a band of rows at a time.
 *
 * What is not there is not multiplied: where the input is infinite, 0 times it counts as 0.
 */
#ifndef PARE_BACKEND_SPARSE_SPARSE_H
#define PARE_BACKEND_SPARSE_SPARSE_H

#include "../backend.h"

/* ---- weights ------------------------------------------------------------------------------- */

#define PARE_SPARSE_KINDS 3
extern const int pare_sparse_rows[PARE_SPARSE_KINDS]; /* 1, 4, 8 */

/* Element (o, k) is at o * row + k * column of float32 numbers that need not be aligned. */
struct pare_sparse_from {
    const void *data;
    int64_t O, K, row, column;
};

/* How many blocks of each kind are not zero; false, at the cost of a look at a few of them, when
 * less than about a third of the weights is zero. */
bool pare_sparse_count(const struct pare_sparse_from *f, int64_t blocks[PARE_SPARSE_KINDS]);

struct pare_sparse {
    int rows; /* of a block */
    int64_t O;
    int64_t groups; /* of so many outputs; those beyond O are empty */
    int64_t *first; /* by group: its first block; and where the last ends */
    int32_t *at;    /* by block: the place of its inputs */
    float *w;       /* (blocks, rows), with zeros beyond O */
};

/* `at` by column; groups for `outputs` outputs, O or more; each row times its scale, or NULL. */
struct pare_sparse_make {
    int rows;
    int64_t outputs;
    const int32_t *at;
    const float *scale;
};
int pare_sparse_make(const struct pare_sparse_from *f, const struct pare_sparse_make *m,
                     struct pare_arena *a, struct pare_sparse *s, struct pare_err *err);

/* ---- tiles --------------------------------------------------------------------------------- */

#define PARE_TILE 96 /* the most pixels of a tile, and how far apart its rows are */

/* The most vectors of `wide` (8 or 16) pixels for blocks of so many rows. */
int pare_tile_most(int rows, int wide);

/* y (rows, PARE_TILE) = bias + group g's blocks times the pixels from x on. */
struct pare_tile {
    int wide, vectors;
    const float *x, *bias;
    float *y;
};
void pare_tile_run(const struct pare_sparse *s, int64_t g, const struct pare_tile *t);

/* to (any, n)[j * apart + i] = from (n, 8)[i * step + j], for i < n and j < 8. */
void pare_turn(const float *from, int64_t step, int64_t n, float *to, int64_t apart);

/* to (n, lanes) = from (lanes, n), whose rows are PARE_TILE apart; n is a multiple of 8. */
void pare_transpose_tile(const float *from, int64_t n, float *to, int lanes);

/* y of groups [from, to) = bias + W x, for one vector x. */
void pare_sparse_times(const struct pare_sparse *s, int64_t from, int64_t to, const float *x,
                       const float *bias, float *y);

/* ---- convolutions -------------------------------------------------------------------------- */

#define PARE_SPARSE_STRIDE 32 /* the largest */

struct pare_sparse_conv {
    /* to be filled in; products of rows are convolutions with one tap over a row of pixels, in
     * PARE_CHANNELS_LAST */
    int64_t N, C, O;
    int64_t in[2], out[2], kernel[2], stride[2], dilation[2], pad[2];
    int in_block,
        out_block;     /* in: 1, 8, 16 or PARE_CHANNELS_LAST; out: 8, 16 or PARE_CHANNELS_LAST */
    int lanes;         /* outputs that are finished together: 8 or 16, out_block's */
    int threads, rows; /* of a block of weights */

    /* by pare_sparse_shape() */
    int8_t phase[2][PARE_SPARSE_STRIDE]; /* which of the planes has the inputs at this remainder
                                              by the stride; -1: nobody needs them */
    int64_t phases[2];
    bool flat;           /* one tap on one pixel: rows are pixels */
    int64_t pitch, more; /* from a row to the next; rows beyond those of the results */
    int64_t band, bands; /* rows of results at a time */
    int64_t parts;       /* of the outputs */
    int64_t plane, planes;
    int wide;
    int64_t floats; /* of working memory, for each thread */
};

/* False when it cannot be done so. */
bool pare_sparse_shape(struct pare_sparse_conv *c, int wide);

/* Choose the rows of blocks, or those that the backend is told to use; false when dense weights
 * would be faster or it cannot be done.  Comes with pare_sparse_shape(). */
bool pare_sparse_choose(const struct pare_match *v, const struct pare_sparse_from *f,
                        struct pare_sparse_conv *c);

/* Of a step of conv_sparse or linear_sparse: the rows of its blocks. */
int pare_sparse_step_rows(const struct pare_step *s);

/* The place of column k of W (O, C * kernel). */
int32_t pare_sparse_place(const struct pare_sparse_conv *c, int64_t k);

/* Pixels that are computed for one image, with those that nobody needs. */
int64_t pare_sparse_pixels(const struct pare_sparse_conv *c);

/* What becomes of the sums: nothing, or these in one go, or whatever apply() does to n numbers. */
enum pare_end_kind { PARE_END, PARE_END_RELU, PARE_END_SUM, PARE_END_SUM_RELU, PARE_END_APPLY };
struct pare_end {
    enum pare_end_kind kind;
    void (*apply)(const void *user, float *y, const float *sum, int64_t n);
    const void *user;
};

struct pare_sparse_run {
    const struct pare_sparse *w;
    const float *x, *bias; /* bias: for all outputs of w's groups */
    const float *sum;      /* like y, or y itself; or NULL */
    float *y, *work;       /* work: floats of the shape, for each thread */
    struct pare_end end;
};
void pare_sparse_run(const struct pare_sparse_conv *c, const struct pare_sparse_run *r);

#endif

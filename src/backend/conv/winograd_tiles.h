/* winograd_tiles.h - transforms of the tiles of Winograd's F(4x4, 3x3).
 *
 * The transforms evaluate polynomials at 0, p, -p, q, -q and infinity.  Float32 uses 1 and 2, which
 * need the fewest multiplications.  Operands that are rounded to bf16 use points for which rounding
 * errors are amplified less: 4 times, compared with a direct convolution, instead of 10 times.
 */
#ifndef PARE_BACKEND_CONV_WINOGRAD_TILES_H
#define PARE_BACKEND_CONV_WINOGRAD_TILES_H

#include "winograd.h"

#define PARE_WINOGRAD_FLOAT 1.0f, 2.0f
#define PARE_WINOGRAD_BF16 0.625f, 1.5f

/* The position of a tile, and the offsets of its elements in a plane of blocks: -1 outside. */
struct pare_winograd_tile {
    int64_t image, row, col; /* of the results */
    int64_t at[PARE_WINOGRAD];
};

void pare_winograd_find_tile(const struct pare_winograd *g, int64_t i,
                             struct pare_winograd_tile *t);

/* `size` x `size` elements from (row, col) of a side. */
void pare_winograd_find_elements(const struct pare_winograd_side *s, int64_t row, int64_t col,
                                 int size, struct pare_winograd_tile *t);

/* v[k * step + c] = B' d B, all channels c of `from`, at position k. */
void pare_winograd_in(const struct pare_winograd *g, const struct pare_winograd_tile *t,
                      const float *x, float *v, int64_t step);

/* The same as pairs of bf16 of neighboring channels, v[k * step + c / 2]. */
void pare_winograd_in_pairs(const struct pare_winograd *g, const struct pare_winograd_tile *t,
                            const float *x, float *v, int64_t step);

/* v[k * step + c] = A d A', all channels of `to`. */
void pare_winograd_spread(const struct pare_winograd *g, const struct pare_winograd_tile *t,
                          const float *y, float *v, int64_t step);

/* The tile's results from m[k * step + c], all channels of `to`. */
void pare_winograd_out(const struct pare_winograd *g, const struct pare_winograd_tile *t,
                       const struct pare_winograd_run *r, const float *m, int64_t step);

/* pare_winograd_in() and pare_winograd_out() with vectors of a block, which do not need t->at;
 * false if the machine has none.  Not for bf16. */
bool pare_winograd_vector_in(const struct pare_winograd *g, const struct pare_winograd_tile *t,
                             const float *x, float *v, int64_t step);
bool pare_winograd_vector_out(const struct pare_winograd *g, const struct pare_winograd_tile *t,
                              const struct pare_winograd_run *r, const float *m, int64_t step);

/* ---- with AVX512_BF16 and blocks of sixteen channels (winograd_wide.c) ---------------------- */

/* Can the following functions run? */
bool pare_winograd_wide(bool bf16, int block);

void pare_winograd_wide_in(const struct pare_winograd *g, const struct pare_winograd_tile *t,
                           const float *x, float *v, int64_t step);

/* Without post-ops. */
void pare_winograd_wide_out(const struct pare_winograd *g, const struct pare_winograd_tile *t,
                            const struct pare_winograd_run *r, const float *m, int64_t step);

/* v[k * step + c] = pairs of the transforms of two tiles, those of pare_winograd_in() or, `back`,
 * of pare_winograd_spread(); zeros in the place of the second one if n is 1. */
struct pare_winograd_zip {
    struct pare_winograd_tile tile[2];
    int n;
    bool back;
    const float *from;
};
void pare_winograd_wide_zip(const struct pare_winograd *g, const struct pare_winograd_zip *z,
                            float *v, int64_t step);

/* Rows [k, k_end) and columns [c, c_end) of a part of packed filters. */
struct pare_winograd_range {
    int64_t k, k_end, c, c_end;
};

/* Blocked filters to pairs of rows; the limits of the range are multiples of a block. */
void pare_winograd_wide_filters(const struct pare_winograd_filters *f,
                                const struct pare_winograd_part *p,
                                const struct pare_winograd_range *r, float *u);

#endif

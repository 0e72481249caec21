/* winograd_int8.h - 3x3 convolutions of 8-bit integers by F(4x4, 3x3), exact.
 *
 * With Winograd's matrices B (of whole numbers), A, and G = D G', where G' is whole and
 * 24 D = diag(6, -4, -4, 1, 1, 24),
 *     576 y = A' (sum over c of (G' g G'^T) * (B^T d B)) A'^T,   A' = A^T 24 D,
 * for 6x6 numbers d of the input, 3x3 weights g and 4x4 outputs y; * by element.  |d| <= 255 makes
 * |B^T d B| <= 25500 and |g| <= 128 makes |G' g G'^T| <= 6272: both fit in 16 bits.  All sums are
 * taken modulo 2^32.  9 has an inverse there, which leaves 64 y, and that is y when |y| < 2^25;
 * where it may be larger, y is the sum of some that are not, each over a part of the channels.
 * There are 36 products of 16 bits where the definition has 144 of 8, at half their speed.
 */
#ifndef PARE_BACKEND_INT8_WINOGRAD_INT8_H
#define PARE_BACKEND_INT8_WINOGRAD_INT8_H

#include "../fuse/int8_operands.h"

#define PARE_WINOGRAD_INT8_PANEL 32 /* channels of the output at a time */
#define PARE_WINOGRAD_INT8_REACH (1 << 25)
#define PARE_WINOGRAD_INT8_PARTS 4

struct pare_winograd_int8 {
    int64_t C, O, in[2], out[2], pad[2]; /* heights and widths */
    int64_t tiles[2];                    /* of an image */
    int parts;                           /* of the channels: a power of 2 */
    int zero;                            /* of x */
    bool is_signed;                      /* x is int8 */
    const int16_t *u;                    /* weights: (panels, 36, pairs of C, 32, 2) */
    struct pare_int8_out finish;         /* f and b have room for whole panels */
};

bool pare_winograd_int8_can(const struct pare_backend *b);

static inline int64_t pare_winograd_int8_pairs(int64_t C)
{
    return (C + 1) / 2;
}

static inline int64_t pare_winograd_int8_panels(int64_t O)
{
    return (O + PARE_WINOGRAD_INT8_PANEL - 1) / PARE_WINOGRAD_INT8_PANEL;
}

/* Of u; of v for n tiles; of one panel's sums for them, as elements. */
static inline size_t pare_winograd_int8_u(int64_t C, int64_t O)
{
    return (size_t)(pare_winograd_int8_panels(O) * 36 * pare_winograd_int8_pairs(C) *
                    PARE_WINOGRAD_INT8_PANEL * 2);
}

static inline size_t pare_winograd_int8_v(int64_t C, int64_t n)
{
    return (size_t)(36 * n * pare_winograd_int8_pairs(C) * 2);
}

static inline size_t pare_winograd_int8_m(int64_t n, int parts)
{
    return (size_t)(36 * n * PARE_WINOGRAD_INT8_PANEL * parts);
}

/* The first pair of channels of a part. */
static inline int64_t pare_winograd_int8_cut(const struct pare_winograd_int8 *k, int part)
{
    return pare_winograd_int8_pairs(k->C) * part / k->parts;
}

/* From w (O, C, 3, 3). */
void pare_winograd_int8_weights(const int8_t *w, int64_t C, int64_t O, int16_t *u);

/* Tiles, counted through all images, which lie one behind the other with channels last. */
struct pare_winograd_int8_part {
    int64_t first, n; /* those that v holds */
    int64_t from, to; /* of these: which ones to transform */
    int16_t *v;
    int32_t *m;
};
void pare_winograd_int8_input(const struct pare_winograd_int8 *k,
                              const struct pare_winograd_int8_part *p, const uint8_t *x);

/* All n tiles' outputs of one panel of channels. */
void pare_winograd_int8_output(const struct pare_winograd_int8 *k,
                               const struct pare_winograd_int8_part *p, int64_t panel, uint8_t *y);

#endif

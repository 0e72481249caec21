/* winograd_int8.h - int8 3x3 convolutions by Winograd's F(4x4, 3x3), exact.
 *
 * With Winograd's matrices B (integer), A, and G = D G', where G' is integer and 24 D = diag(6, -4,
 * -4, 1, 1, 24),
 *     576 y = A' (sum over c of (G' g G'^T) * (B^T d B)) A'^T,   A' = A^T 24 D,
 * for 6x6 inputs d, 3x3 weights g and 4x4 outputs y; * is elementwise.  |d| <= 255 implies |B^T d
 * B| <= 25500 and |g| <= 128 implies |G' g G'^T| <= 6272: both fit in 16 bits.  All sums are taken
 * modulo 2^32.  9 has an inverse there, which leaves 64 y, and that yields y if |y| < 2^25; where
 * |y| may be larger, y is the sum of several such results, each over a part of the channels.  There
 * are 36 int16 products where the direct algorithm has 144 int8 products, at half their throughput;
 * with AVX2 both are int16 products.
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
    bool wide;                           /* pare_winograd_int8_wide() */
    const int16_t *u;                    /* weights: (panels, 36, pairs of C, 32, 2) */
    struct pare_int8_out finish;         /* f and b have room for whole panels */
};

/* Is there a version for this CPU?  The one for AVX-512 with VNNI? */
bool pare_winograd_int8_can(const struct pare_backend *b);
bool pare_winograd_int8_wide(const struct pare_backend *b);

static inline int64_t pare_winograd_int8_pairs(int64_t C)
{
    return (C + 1) / 2;
}

static inline int64_t pare_winograd_int8_panels(int64_t O)
{
    return (O + PARE_WINOGRAD_INT8_PANEL - 1) / PARE_WINOGRAD_INT8_PANEL;
}

/* Sizes: of u; of v for n tiles; of one panel's sums for them, in elements. */
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

/* Tiles, numbered through all images, which are contiguous with channels last. */
struct pare_winograd_int8_part {
    int64_t first, n; /* the tiles in v */
    int64_t from, to; /* the tiles to transform */
    int16_t *v;
    int32_t *m;
};
void pare_winograd_int8_input(const struct pare_winograd_int8 *k,
                              const struct pare_winograd_int8_part *p, const uint8_t *x);

/* The outputs of all n tiles for one panel of channels. */
void pare_winograd_int8_output(const struct pare_winograd_int8 *k,
                               const struct pare_winograd_int8_part *p, int64_t panel, uint8_t *y);

#endif

/* depthwise_int8.h - int8 depthwise convolution with channels last, by VNNI or AVX2.
 *
 * VNNI: 64 channels at a time.  For every pixel of a row, four vertical neighbors are interleaved
 * by channel, once for all windows that read them; then one instruction sums four products.
 * Channel 16 l + 4 j + i of the 64 is lane 4 l + i of vector j, which is the order of the byte
 * interleave and pack instructions.
 *
 * AVX2: the same with 16 channels, two neighbors and elements of 16 bits; channel 8 l + 4 j + i is
 * lane 4 l + i of vector j.
 */
#ifndef PARE_BACKEND_INT8_DEPTHWISE_INT8_H
#define PARE_BACKEND_INT8_DEPTHWISE_INT8_H

#include "../fuse/int8_operands.h"

struct pare_depthwise_int8 {
    int64_t C, in[2], out[2], pad[2], stride[2], dilation[2], kernel[2];
    int zero;       /* zero point of x as uint8 */
    uint8_t flip;   /* exclusive or that turns x into uint8 */
    bool is_signed; /* y is int8 */
    bool wide;      /* by VNNI */
    int y_zero;
    float lo, hi;  /* bounds of y minus its zero point */
    const void *w; /* int8 (blocks, groups of four rows, columns, 4, 64), or int16 (blocks, pairs
                           of rows, columns, 2, 16) */
    const int32_t *sum; /* (blocks, 4, 16) or (blocks, 2, 8): the contribution of x's zero point */
    const float *f, *b;
};

/* Does the CPU have VNNI, or AVX2? */
bool pare_depthwise_int8_wide(const struct pare_backend *b);
bool pare_depthwise_int8_can(void);

/* Channels of a block, and vertical neighbors that are interleaved. */
static inline int64_t pare_depthwise_int8_channels(const struct pare_depthwise_int8 *k)
{
    return k->wide ? 64 : 16;
}

static inline int64_t pare_depthwise_int8_deep(const struct pare_depthwise_int8 *k)
{
    return k->wide ? 4 : 2;
}

static inline int64_t pare_depthwise_int8_blocks(const struct pare_depthwise_int8 *k)
{
    int64_t n = pare_depthwise_int8_channels(k);

    return (k->C + n - 1) / n;
}

/* Groups of rows that are interleaved. */
static inline int64_t pare_depthwise_int8_groups(const struct pare_depthwise_int8 *k)
{
    int64_t n = pare_depthwise_int8_deep(k);

    return (k->kernel[0] + n - 1) / n;
}

/* Pixels of a row that windows read, padding included; and bytes of scratch memory. */
static inline int64_t pare_depthwise_int8_pixels(const struct pare_depthwise_int8 *k)
{
    return (k->out[1] - 1) * k->stride[1] + (k->kernel[1] - 1) * k->dilation[1] + 1;
}

static inline size_t pare_depthwise_int8_room(const struct pare_depthwise_int8 *k)
{
    return (size_t)(pare_depthwise_int8_pixels(k) * pare_depthwise_int8_groups(k) *
                    (k->wide ? 4 * 64 : 2 * 16 * 2));
}

/* The place of channel c in the order of the lanes. */
static inline int64_t pare_depthwise_int8_lane(const struct pare_depthwise_int8 *k, int64_t c)
{
    int64_t n = pare_depthwise_int8_channels(k), lanes = k->wide ? 16 : 8;

    return c / n * n + c % lanes / 4 * lanes + c % n / lanes * 4 + c % 4;
}

/* One output row of a block; x and y point to the image. */
void pare_depthwise_int8_row(const struct pare_depthwise_int8 *k, const uint8_t *x, int64_t row,
                             int64_t block, uint8_t *room, uint8_t *y);
void pare_depthwise_int8_row_pairs(const struct pare_depthwise_int8 *k, const uint8_t *x,
                                   int64_t row, int64_t block, uint8_t *room, uint8_t *y);

#endif

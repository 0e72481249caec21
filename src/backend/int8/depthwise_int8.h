/* depthwise_int8.h - int8 depthwise convolution with channels last, by VNNI.
 *
 * 64 channels at a time.  For every pixel of a row, four vertical neighbors are interleaved by
 * channel, once for all windows that read them; then one instruction sums four products.  Channel
 * 16 l + 4 j + i of the 64 is lane 4 l + i of vector j, which is the order of the byte interleave
 * and pack instructions.
 */
#ifndef PARE_BACKEND_INT8_DEPTHWISE_INT8_H
#define PARE_BACKEND_INT8_DEPTHWISE_INT8_H

#include "../fuse/int8_operands.h"

#define PARE_DEPTHWISE_INT8 64 /* channels */

struct pare_depthwise_int8 {
    int64_t C, in[2], out[2], pad[2], stride[2], dilation[2], kernel[2];
    int zero;       /* zero point of x as uint8 */
    uint8_t flip;   /* exclusive or that turns x into uint8 */
    bool is_signed; /* y is int8 */
    int y_zero;
    float lo, hi;       /* bounds of y minus its zero point */
    const int8_t *w;    /* (blocks, groups of four rows, columns, 4, 64) */
    const int32_t *sum; /* (blocks, 4, 16): the contribution of x's zero point */
    const float *f, *b;
};

bool pare_depthwise_int8_can(const struct pare_backend *b);

static inline int64_t pare_depthwise_int8_blocks(int64_t C)
{
    return (C + PARE_DEPTHWISE_INT8 - 1) / PARE_DEPTHWISE_INT8;
}

static inline int64_t pare_depthwise_int8_fours(const struct pare_depthwise_int8 *k)
{
    return (k->kernel[0] + 3) / 4;
}

/* Pixels of a row that windows read, padding included; and bytes of scratch memory. */
static inline int64_t pare_depthwise_int8_pixels(const struct pare_depthwise_int8 *k)
{
    return (k->out[1] - 1) * k->stride[1] + (k->kernel[1] - 1) * k->dilation[1] + 1;
}

static inline size_t pare_depthwise_int8_room(const struct pare_depthwise_int8 *k)
{
    return (size_t)(pare_depthwise_int8_pixels(k) * pare_depthwise_int8_fours(k) * 4 *
                    PARE_DEPTHWISE_INT8);
}

/* The channel, of 64, in this lane of vector j. */
static inline int64_t pare_depthwise_int8_channel(int64_t j, int64_t lane)
{
    return lane / 4 * 16 + 4 * j + lane % 4;
}

/* One output row of 64 channels; x and y point to the image. */
void pare_depthwise_int8_row(const struct pare_depthwise_int8 *k, const uint8_t *x, int64_t row,
                             int64_t block, uint8_t *room, uint8_t *y);

#endif

/* depthwise_int8.h - one filter for each channel, of 8-bit integers with channels last, by VNNI.
 *
 * 64 channels at a time.  For every place of a row, four places below each other are interleaved by
 * channel, once for all windows that meet them; then the sum of four products is one instruction.
 * Channel 16 l + 4 j + i of the 64 is lane 4 l + i of vector j, because so bytes are interleaved
 * and packed again.
 */
#ifndef PARE_BACKEND_INT8_DEPTHWISE_INT8_H
#define PARE_BACKEND_INT8_DEPTHWISE_INT8_H

#include "../fuse/int8_operands.h"

#define PARE_DEPTHWISE_INT8 64 /* channels */

struct pare_depthwise_int8 {
    int64_t C, in[2], out[2], pad[2], stride[2], dilation[2], kernel[2];
    int zero;       /* of x as uint8 */
    uint8_t flip;   /* what makes uint8 of x */
    bool is_signed; /* y is int8 */
    int y_zero;
    float lo, hi;       /* bounds of y less its zero point */
    const int8_t *w;    /* (blocks, fours of rows, columns, 4, 64) */
    const int32_t *sum; /* (blocks, 4, 16): what x's zero point adds */
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

/* Places of a row that windows meet, padding included; and bytes of working memory. */
static inline int64_t pare_depthwise_int8_places(const struct pare_depthwise_int8 *k)
{
    return (k->out[1] - 1) * k->stride[1] + (k->kernel[1] - 1) * k->dilation[1] + 1;
}

static inline size_t pare_depthwise_int8_room(const struct pare_depthwise_int8 *k)
{
    return (size_t)(pare_depthwise_int8_places(k) * pare_depthwise_int8_fours(k) * 4 *
                    PARE_DEPTHWISE_INT8);
}

/* Lane 4 l + i of vector j holds this one of 64 channels. */
static inline int64_t pare_depthwise_int8_channel(int64_t j, int64_t lane)
{
    return lane / 4 * 16 + 4 * j + lane % 4;
}

/* One row of the output of 64 channels: x and y are the image's. */
void pare_depthwise_int8_row(const struct pare_depthwise_int8 *k, const uint8_t *x, int64_t row,
                             int64_t block, uint8_t *room, uint8_t *y);

#endif

/* depthwise.h - depthwise convolutions in the blocked layout, plane by plane.
 *
 * A plane is a block of channels (8 or 16) of one image: (height, width, block).  Each channel has
 * its own filter.
 */
#ifndef PARE_BACKEND_CONV_DEPTHWISE_H
#define PARE_BACKEND_CONV_DEPTHWISE_H

#include "../rows/post_ops_apply.h"

/* Tap (i, k) of output (r, c) reads input (r stride[0] - pad[0] + i dilation[0], ...); elements
 * outside the input are 0. */
struct pare_depthwise {
    int64_t in[2], out[2], kernel[2], stride[2], dilation[2], pad[2];
    int block;
    bool clamp; /* to [low, high] */
    float low, high;
    const struct pare_post_op *post; /* post-ops after the clamp */
    int n_post;
};

/* One plane's memory. */
struct pare_depthwise_plane {
    const float *x, *w; /* w (kernel[0], kernel[1], block) */
    const float *bias;  /* (block) */
    const float *sum;   /* operand of PARE_POST_SUM, shaped like y; or NULL */
    float *y;
};

/* Compute rows [from, to) of the result. */
void pare_depthwise_rows(const struct pare_depthwise *d, const struct pare_depthwise_plane *p,
                         int64_t from, int64_t to);

#endif

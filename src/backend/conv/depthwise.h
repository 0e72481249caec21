/* depthwise.h - depthwise and narrow grouped convolutions in the blocked layout, plane by plane.
 *
 * A plane is a block of channels (8 or 16) of one image: (height, width, block).  Each channel has
 * its own filter.  In a grouped convolution, an output has filters for `width` channels, all in one
 * block of inputs: `lanes` says which.
 */
#ifndef PARE_BACKEND_CONV_DEPTHWISE_H
#define PARE_BACKEND_CONV_DEPTHWISE_H

#include "../rows/post_ops_apply.h"

/* Tap (i, k) of output (r, c) reads input (r stride[0] - pad[0] + i dilation[0], ...); elements
 * outside the input are 0. */
struct pare_depthwise {
    int64_t in[2], out[2], kernel[2], stride[2], dilation[2], pad[2];
    int block;
    int64_t width; /* channels that an output reads */
    bool grouped;  /* they differ from the output's own: planes have `lanes` */
    bool clamp;    /* to [low, high] */
    float low, high;
    const struct pare_post_op *post; /* post-ops after the clamp */
    int n_post;
};

/* One plane's memory. */
struct pare_depthwise_plane {
    const float *x, *w;   /* w (depth, kernel[0], width, kernel[1], block) */
    const int32_t *lanes; /* (width, block): lanes of x that the outputs read; NULL: their own */
    const float *bias;    /* (block) */
    int64_t depth;        /* planes of x that are summed; 1 with two axes */
    int64_t x_step;       /* floats from one to the next */
    int64_t w_step;       /* floats from its filters to the next */
    const float *sum;     /* operand of PARE_POST_SUM, shaped like y; or NULL */
    float *y;
};

/* Compute rows [from, to) of the result. */
void pare_depthwise_rows(const struct pare_depthwise *d, const struct pare_depthwise_plane *p,
                         int64_t from, int64_t to);

#endif

/* im2col.h - what conv_im2col.c and im2col_grad.c share: a convolution of few channels. */
#ifndef PARE_BACKEND_CONV_IM2COL_H
#define PARE_BACKEND_CONV_IM2COL_H

#include "../backend.h"

#include "../../op/nn/window.h"

/* The taps of a window as runs of contiguous floats. */
struct pare_taps {
    int64_t runs, run;
    int64_t size; /* runs * run, a multiple of 8 */
};

struct pare_im2col {
    struct pare_window w, pool; /* over three axes, the first of size 1 */
    bool relu, pooled, pairs;   /* pairs: 2x2 without overlap or padding */
    int64_t N, C, O, K;
    int64_t pixels, results; /* of a plane after the convolution, and after the pool */
    int64_t H, W, lanes;     /* of a padded image; channels, padded */
    int64_t columns;         /* pixels, padded */
    int block;
    bool narrow, want_x, want_w, want_b;
    struct pare_taps taps, for_w; /* of W and X with channels last; what dW is summed from */
    int64_t groups;
    int32_t *from;   /* by result: index of its pixel; -1: none, or Relu stops the gradient */
    int32_t *at;     /* by pixel: offset of its window with channels last */
    int32_t *row;    /* by pixel: offset of its window in what dW is summed from */
    int32_t *tap;    /* by tap, in the order of W: its offset in a padded image */
    int32_t *corner; /* pairs, by result: its first pixel */
    double *gb;      /* (groups, O): the gradient of the bias */
    size_t work[2], shared; /* floats per thread in run() and in backward(); for all threads in
                               backward() */
};

static inline int64_t pare_round_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

/* Copy an image into `to`, whose padding is already zero; returns x if `to` is NULL. */
const float *pare_im2col_pad(const struct pare_im2col *c, const float *x, float *to);

int pare_im2col_grad(struct pare_step *s, struct pare_backend *b, struct pare_err *err);

#endif

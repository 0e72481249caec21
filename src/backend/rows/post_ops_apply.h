/* post_ops_apply.h - what products and convolutions fuse behind themselves, on vectors. */
#ifndef PARE_BACKEND_ROWS_POST_OPS_APPLY_H
#define PARE_BACKEND_ROWS_POST_OPS_APPLY_H

#include <stdbool.h>
#include <stdint.h>

struct pare_lane_post {
    enum pare_lane_kind {
        PARE_LANE_SUM,       /* + the other operand of a residual */
        PARE_LANE_RELU,      /* a: the slope below 0 */
        PARE_LANE_CLIP,      /* a, b: the bounds */
        PARE_LANE_SIGMOID,   /* 1 / (1 + exp(-x)) */
        PARE_LANE_SWISH,     /* x times that of a x */
        PARE_LANE_HARDSWISH, /* x clip(x + 3, 0, 6) / 6 */
        PARE_LANE_GELU,      /* x P(N(0, 1) < x) */
    } kind;
    float a, b;
};

/* Rows of n numbers, a multiple of 8, that begin `step` apart; those to be added to them lie in the
 * same way, or NULL. */
struct pare_lane_area {
    float *y;
    const float *sum;
    int64_t rows, step, n;
};

/* y = the posts of y. */
void pare_lanes(const struct pare_lane_post *post, int n_post, const struct pare_lane_area *a);

#endif

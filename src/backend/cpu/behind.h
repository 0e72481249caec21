/* behind.h - what convolutions fuse behind themselves, on vectors. */
#ifndef PARE_BACKEND_CPU_BEHIND_H
#define PARE_BACKEND_CPU_BEHIND_H

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
    } kind;
    float a, b;
};

/* y = the posts of y, n numbers, a multiple of 8; sum is their other operand, or NULL. */
void pare_lanes(const struct pare_lane_post *post, int n_post, const float *sum, float *y,
                int64_t n);

#endif

/* global_max_pool.c - GlobalMaxPool: the largest value of each channel. */
#include <math.h>

#include "norm.h"
#include "window.h"

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const float *x = pare_f32(&n->in[0]->t);
    float *y = pare_f32(&n->out[0]->t);
    int64_t planes = n->in[0]->t.dim[0] * n->in[0]->t.dim[1], inner;

    (void)c;
    PARE_TRY(pare_norm_inner(&n->in[0]->t, 2, &inner, err));
    for (int64_t i = 0; i < planes; i++, x += inner) {
        float best = -INFINITY;

        for (int64_t k = 0; k < inner && !isnan(best); k++)
            best = x[k] <= best ? best : x[k];      /* NaN stays */
        y[i] = best;
    }
    return 0;
}

const struct pare_op pare_op_global_max_pool = {
    .abi = PARE_ABI,
    .type = "GlobalMaxPool",
    .doc = "The largest value of each channel.",
    .since = 1,
    .in = "T",
    .types = PARE_T_FLOAT,
    .min_out = 1,
    .max_out = 1,
    .infer = pare_infer_global_pool,
    .forward = forward,
    .ties = pare_ties_channels,
};

/* qlinear_reduce_mean.c - QLinearReduceMean (com.microsoft): quantized mean over axes. */
#include "../reduce/reduce_family.h"
#include "qlinear_family.h"

static const struct pare_opt attrs[] = {
    PARE_INTS("axes", offsetof(struct pare_reduce, axes), "axes to reduce (default: all)",
              PARE_NO_MIN, PARE_NO_MAX),
    PARE_INT("keepdims", offsetof(struct pare_reduce, keepdims), "keep reduced axes with size 1", 1,
             PARE_NO_MIN, PARE_NO_MAX),
    PARE_OPT_END
};

static const struct pare_qlinear how = { .real = &pare_op_reduce_mean, .n = 1, .y = 3 };

static int infer(struct pare_node *n, struct pare_err *err)
{
    return pare_qlinear_infer(n, &how, err);
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    return pare_qlinear_forward(n, &how, c, err);
}

const struct pare_op pare_op_qlinear_reduce_mean = {
    .type = "QLinearReduceMean",
    .doc = "Mean of a quantized tensor over axes, quantized.",
    .domain = "com.microsoft",
    .since = 1,
    .in = "TFT?FT?",
    .types = PARE_T_BYTES,
    .min_out = 1,
    .max_out = 1,
    .attrs = attrs,
    .attr_size = sizeof(struct pare_reduce),
    .infer = infer,
    .forward = forward,
    .settings = 0xff,
};

/* qlinear_leaky_relu.c - QLinearLeakyRelu (com.microsoft): quantized x, or alpha x where x < 0. */
#include "qlinear_family.h"

/* The same as LeakyRelu's. */
struct leaky {
    double alpha;
};

static const struct pare_opt attrs[] = { PARE_FLOAT("alpha", offsetof(struct leaky, alpha),
                                                    "slope for negative values", 0.01, PARE_NO_MIN,
                                                    PARE_NO_MAX),
                                         PARE_OPT_END };

static const struct pare_qlinear how = { .real = &pare_op_leaky_relu, .n = 1, .y = 3 };

static int infer(struct pare_node *n, struct pare_err *err)
{
    return pare_qlinear_infer(n, &how, err);
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    return pare_qlinear_forward(n, &how, c, err);
}

const struct pare_op pare_op_qlinear_leaky_relu = {
    .type = "QLinearLeakyRelu",
    .doc = "LeakyRelu of a quantized tensor, quantized.",
    .domain = "com.microsoft",
    .since = 1,
    .in = "TFT?FT?",
    .types = PARE_T_BYTES,
    .min_out = 1,
    .max_out = 1,
    .attrs = attrs,
    .attr_size = sizeof(struct leaky),
    .infer = infer,
    .forward = forward,
    .settings = 0xff,
};

/* qlinear_sigmoid.c - QLinearSigmoid (com.microsoft): quantized 1 / (1 + exp(-x)). */
#include "qlinear_family.h"

static const struct pare_qlinear how = { .real = &pare_op_sigmoid, .n = 1, .y = 3 };

static int infer(struct pare_node *n, struct pare_err *err)
{
    return pare_qlinear_infer(n, &how, err);
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    return pare_qlinear_forward(n, &how, c, err);
}

const struct pare_op pare_op_qlinear_sigmoid = {
    .type = "QLinearSigmoid",
    .doc = "Sigmoid of a quantized tensor, quantized.",
    .domain = "com.microsoft",
    .since = 1,
    .in = "TFT?FT?",
    .types = PARE_T_BYTES,
    .min_out = 1,
    .max_out = 1,
    .infer = infer,
    .forward = forward,
    .settings = 0xff,
};

/* qlinear_mul.c - QLinearMul (com.microsoft): product of quantized tensors, broadcast. */
#include "qlinear_family.h"

static const struct pare_qlinear how = { .real = &pare_op_mul, .n = 2, .y = 6 };

static int infer(struct pare_node *n, struct pare_err *err)
{
    return pare_qlinear_infer(n, &how, err);
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    return pare_qlinear_forward(n, &how, c, err);
}

const struct pare_op pare_op_qlinear_mul = {
    .type = "QLinearMul",
    .doc = "Product of quantized tensors, quantized.",
    .domain = "com.microsoft",
    .since = 1,
    .in = "TFT?TFT?FT?",
    .types = PARE_T_BYTES,
    .min_out = 1,
    .max_out = 1,
    .scales = { .x = 1, .y = 6 },
    .infer = infer,
    .forward = forward,
    .settings = 0xff,
};

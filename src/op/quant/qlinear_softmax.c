/* qlinear_softmax.c - QLinearSoftmax (com.microsoft): quantized softmax along an axis, or before
 * opset 13 of the rows of a matrix. */
#include "../reduce/softmax_family.h"
#include "qlinear_family.h"

/* Softmax's attributes come first. */
struct soft {
    struct pare_softmax softmax;
    int64_t opset;
};

static const struct pare_opt attrs[] = { PARE_INT("axis", offsetof(struct soft, softmax.axis),
                                                  "the axis that sums to 1", -1, -PARE_MAX_RANK,
                                                  PARE_MAX_RANK),
                                         { .name = "opset",
                                           .help = "opset of the Softmax that it replaces",
                                           .type = PARE_OPT_INT,
                                           .offset = offsetof(struct soft, opset),
                                           .min = 1,
                                           .max = 1000,
                                           .required = true },
                                         PARE_OPT_END };

static struct pare_qlinear how(const struct pare_node *n)
{
    const struct soft *a = n->attr;

    return (struct pare_qlinear){ .real = &pare_op_softmax,
                                  .n = 1,
                                  .y = 3,
                                  .version = a->opset < 13 ? 11 : 13 };
}

static int infer(struct pare_node *n, struct pare_err *err)
{
    struct pare_qlinear q = how(n);

    return pare_qlinear_infer(n, &q, err);
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    struct pare_qlinear q = how(n);

    return pare_qlinear_forward(n, &q, c, err);
}

const struct pare_op pare_op_qlinear_softmax = {
    .type = "QLinearSoftmax",
    .doc = "Softmax of a quantized tensor, quantized.",
    .domain = "com.microsoft",
    .since = 1,
    .in = "TFT?FT?",
    .types = PARE_T_BYTES,
    .min_out = 1,
    .max_out = 1,
    .attrs = attrs,
    .attr_size = sizeof(struct soft),
    .infer = infer,
    .forward = forward,
    .settings = 0xff,
};

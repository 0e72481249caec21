/* qlinear_global_average_pool.c - QLinearGlobalAveragePool (com.microsoft): mean of each channel.
 */
#include "qlinear_family.h"

struct last {
    int64_t channels_last;
};

static const struct pare_opt attrs[] = {
    PARE_INT("channels_last", offsetof(struct last, channels_last),
             "channels are the last axis, not the second", 0, 0, 1),
    PARE_OPT_END
};

static const struct pare_qlinear how = { .real = &pare_op_global_average_pool, .n = 1, .y = 3 };

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct last *a = n->attr;

    if (a->channels_last)
        return pare_fail(err, PARE_EUNSUPPORTED, "channels_last is not supported");
    return pare_qlinear_infer(n, &how, err);
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    return pare_qlinear_forward(n, &how, c, err);
}

const struct pare_op pare_op_qlinear_global_average_pool = {
    .type = "QLinearGlobalAveragePool",
    .doc = "Mean of each channel of a quantized tensor, quantized.",
    .domain = "com.microsoft",
    .since = 1,
    .in = "TFT?FT?",
    .types = PARE_T_BYTES,
    .min_out = 1,
    .max_out = 1,
    .attrs = attrs,
    .attr_size = sizeof(struct last),
    .flags = PARE_OP_POOL | PARE_OP_MEAN | PARE_OP_GLOBAL,
    .scales = { .x = 1, .y = 3 },
    .infer = infer,
    .forward = forward,
    .settings = 0xff,
};

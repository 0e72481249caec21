/* hardmax.c - Hardmax: 1 at the first largest element, 0 elsewhere. */
#include "softmax_family.h"

static void lane(const float *x, float *y, int64_t count, int64_t step)
{
    int64_t best = 0;

    for (int64_t i = 1; i < count; i++)
        best = x[i * step] > x[best * step] ? i : best;
    for (int64_t i = 0; i < count; i++)
        y[i * step] = i == best ? 1 : 0;
}

static void lanes(const float *x, float *y, int64_t len, int64_t inner)
{
    for (int64_t i = 0; i < inner; i++)
        lane(x + i, y + i, len, inner);
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    (void)c, (void)err;
    pare_softmax_each(n, lanes);
    return 0;
}

const struct pare_op pare_op_hardmax = {
    .type = "Hardmax",
    .doc = "1 at the first largest element along an axis, 0 elsewhere.",
    .since = 1,
    .in = "T",
    .types = PARE_T_FLOAT,
    .min_out = 1,
    .max_out = 1,
    .attrs = pare_softmax_attrs,
    .attr_size = sizeof(struct pare_softmax),
    .flags = PARE_OP_STEPS,
    .infer = pare_softmax_infer,
    .forward = forward,
    .ties = pare_softmax_ties,
    .row_axis = pare_softmax_row_axis,
};

/* softmax_cross_entropy_loss.c - SoftmaxCrossEntropyLoss: -w[label] log softmax(x)[label],
 * averaged; the logarithms are an output too. */
#include <math.h>

#include "lanes.h"
#include "loss_family.h"

static int infer(struct pare_node *n, struct pare_err *err)
{
    PARE_TRY(pare_loss_infer(n, err));
    if (n->n_out > 1 && n->out[1])
        pare_like(&n->out[1]->t, &n->in[0]->t);
    return 0;
}

/* y = x - log sum exp(x), the largest subtracted first. */
static void log_softmax(const float *x, float *y, int64_t count, int64_t step)
{
    float top = x[0];
    double sum = 0;

    for (int64_t i = 1; i < count; i++)
        top = x[i * step] > top ? x[i * step] : top;
    for (int64_t i = 0; i < count; i++)
        sum += (double)expf(x[i * step] - top);
    sum = log(sum);
    for (int64_t i = 0; i < count; i++)
        y[i * step] = (float)((double)(x[i * step] - top) - sum);
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t;
    struct pare_tensor y = *x;
    struct pare_lanes l = pare_lanes(x, 1, 1);

    if (n->n_out > 1 && n->out[1])
        y = n->out[1]->t;
    else
        PARE_TRY(pare_tensor_alloc(c->scratch, &y, err));
    for (int64_t o = 0; o < l.outer; o++)
        for (int64_t i = 0; i < l.inner; i++) {
            int64_t at = o * l.len * l.inner + i;

            log_softmax(pare_f32(x) + at, pare_f32(&y) + at, l.len, l.inner);
        }
    return pare_loss_forward(n, pare_f32(&y), err);
}

const struct pare_op pare_op_softmax_cross_entropy_loss = {
    .abi = PARE_ABI,
    .type = "SoftmaxCrossEntropyLoss",
    .doc = "Loss of classifiers whose outputs are scores.",
    .since = 12,
    .in = "TIT?",
    .types = PARE_T_FLOAT,
    .min_out = 1,
    .max_out = 2,
    .attrs = pare_loss_attrs,
    .attr_size = sizeof(struct pare_loss),
    .infer = infer,
    .forward = forward,
};

/* softmax_cross_entropy_loss.c - SoftmaxCrossEntropyLoss: -w[label] log softmax(x)[label],
 * averaged.
 *
 * The log-probabilities are an output as well.
 */
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

/* Set y to the log-probabilities. */
static void log_softmax_all(const struct pare_tensor *x, const struct pare_tensor *y)
{
    struct pare_lanes l = pare_lanes(x, 1, 1);

    for (int64_t o = 0; o < l.outer; o++)
        for (int64_t i = 0; i < l.inner; i++) {
            int64_t at = o * l.len * l.inner + i;

            log_softmax(pare_f32_mut(x) + at, pare_f32_mut(y) + at, l.len, l.inner);
        }
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    struct pare_tensor y = n->in[0]->t;

    if (n->n_out > 1 && n->out[1])
        y = n->out[1]->t;
    else
        PARE_TRY(pare_tensor_alloc(c->scratch, &y, err));
    log_softmax_all(&n->in[0]->t, &y);
    return pare_loss_forward(n, pare_f32(&y), err);
}

/* gx += d - exp(y) sum of d, along lanes, where y are the log-probabilities and d their gradient.
 */
static void through_softmax(const struct pare_tensor *y, const float *d, float *gx)
{
    struct pare_lanes l = pare_lanes(y, 1, 1);

    for (int64_t o = 0; o < l.outer; o++)
        for (int64_t i = 0; i < l.inner; i++) {
            int64_t from = o * l.len * l.inner + i;
            double sum = 0;

            for (int64_t k = 0; k < l.len; k++)
                sum += (double)d[from + k * l.inner];
            for (int64_t k = 0; k < l.len; k++) {
                int64_t at = from + k * l.inner;

                gx[at] += d[at] - expf(pare_f32(y)[at]) * (float)sum;
            }
        }
}

static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_value *x = n->in[0], *log_prob = n->n_out > 1 ? n->out[1] : NULL;
    struct pare_tensor y = x->t, d = x->t;
    size_t bytes;

    if (log_prob) {
        y = log_prob->t;
    } else {
        PARE_TRY(pare_tensor_alloc(c->scratch, &y, err));
        log_softmax_all(&x->t, &y);
    }
    PARE_TRY(pare_tensor_alloc(c->scratch, &d, err));
    PARE_TRY(pare_tensor_size(&d, NULL, &bytes, err));
    if (log_prob && log_prob->grad.data)
        memcpy(d.data, log_prob->grad.data, bytes);
    else
        memset(d.data, 0, bytes);
    pare_loss_backward(n, pare_f32(&y), pare_f32_mut(&d));
    if (x->grad.data)
        through_softmax(&y, pare_f32(&d), pare_f32_mut(&x->grad));
    return 0;
}

const struct pare_op pare_op_softmax_cross_entropy_loss = {
    .type = "SoftmaxCrossEntropyLoss",
    .doc = "Cross-entropy loss of the softmax of scores.",
    .since = 12,
    .in = "TIT?",
    .types = PARE_T_FLOAT,
    .min_out = 1,
    .max_out = 2,
    .attrs = pare_loss_attrs,
    .attr_size = sizeof(struct pare_loss),
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .settings = 1u << 2,
};

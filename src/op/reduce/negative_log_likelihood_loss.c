/* negative_log_likelihood_loss.c - NegativeLogLikelihoodLoss: -w[label] x[label], averaged. */
#include "loss_family.h"

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    (void)c;
    return pare_loss_forward(n, pare_f32(&n->in[0]->t), err);
}

static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    (void)c, (void)err;
    pare_loss_backward(n, pare_f32(&n->in[0]->t), pare_f32_mut(&n->in[0]->grad));
    return 0;
}

const struct pare_op pare_op_negative_log_likelihood_loss = {
    .type = "NegativeLogLikelihoodLoss",
    .doc = "Negative log-likelihood loss of log-probabilities.",
    .since = 12,
    .in = "TIT?",
    .types = PARE_T_FLOAT,
    .min_out = 1,
    .max_out = 1,
    .attrs = pare_loss_attrs,
    .attr_size = sizeof(struct pare_loss),
    .infer = pare_loss_infer,
    .forward = forward,
    .backward = backward,
    .settings = 1u << 2,
};

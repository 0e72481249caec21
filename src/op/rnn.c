/* rnn.c - RNN: h = f(x W' + h R' + b), step by step. */
#include "rnn_family.h"

static const struct pare_opt rnn_attrs[] = { PARE_RNN_ATTRS, PARE_OPT_END };

static void step(const struct pare_rnn_row *r)
{
    for (int64_t i = 0; i < r->H; i++)
        r->h[i] = r->x[i] + r->r[i] + r->wb[i] + r->rb[i];
    pare_rnn_activate(r, 0, r->h, r->H);
}

static const char *const acts[] = { "Tanh" };
static const struct pare_rnn_cell cell = { .gates = 1, .n_act = 1, .act = acts, .step = step };

static int infer(struct pare_node *n, struct pare_err *err)
{
    return pare_rnn_infer(n, &cell, err);
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    return pare_rnn_forward(n, &cell, c, err);
}

static double macs(const struct pare_node *n)
{
    return pare_rnn_macs(n, &cell);
}

const struct pare_op pare_op_rnn = {
    .abi = PARE_ABI,
    .type = "RNN",
    .doc = "Simple recurrent layer.",
    .since = 7,
    .in = "TTTT?I?T?",
    .types = PARE_T_FLOAT,
    .max_out = 2,
    .attrs = rnn_attrs,
    .attr_size = sizeof(struct pare_rnn),
    .infer = infer,
    .forward = forward,
    .macs = macs,
};

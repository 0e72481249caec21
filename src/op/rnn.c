/* rnn.c - RNN: h = f(x W' + h R' + b), step by step. */
#include <math.h>

#include "rnn_family.h"

static const struct pare_opt rnn_attrs[] = { PARE_RNN_ATTRS, PARE_OPT_END };

static void step(const struct pare_rnn_row *r)
{
    for (int64_t i = 0; i < r->H; i++)
        r->h[i] = r->x[i] + r->r[i] + r->wb[i] + r->rb[i];
    if (r->pre)
        memcpy(r->pre, r->h, (size_t)r->H * sizeof(float));
    pare_rnn_activate(r->act, r->h, r->H);
}

static void back(const struct pare_rnn_back *r)
{
    size_t bytes = (size_t)r->H * sizeof(float);

    memcpy(r->tmp, r->pre, bytes);
    pare_rnn_activate(r->act, r->tmp, r->H);
    memcpy(r->dx, r->dh, bytes);
    pare_rnn_slope(r->act, r->pre, r->tmp, r->dx, r->H);
    memset(r->dh, 0, bytes);
}

static const char *const acts[] = { "Tanh" };
static const struct pare_rnn_cell cell = { .gates = 1,
                                           .n_act = 1,
                                           .act = acts,
                                           .step = step,
                                           .back = back };

static int infer(struct pare_node *n, struct pare_err *err)
{
    return pare_rnn_infer(n, &cell, err);
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    return pare_rnn_forward(n, &cell, c, err);
}

static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    return pare_rnn_backward(n, &cell, c, err);
}

static size_t save(const struct pare_node *n)
{
    return pare_rnn_save(n, &cell);
}

static double macs(const struct pare_node *n)
{
    return pare_rnn_macs(n, &cell);
}

static void ties(const struct pare_node *n, struct pare_ties *t)
{
    pare_rnn_ties(n, &cell, t);
}

static float made(const struct pare_node *n, const struct pare_needed *s, int k, int axis,
                  int64_t i)
{
    return axis == n->out[k]->t.rank - 1 ? pare_rnn_made(n, &cell, s, i) : NAN;
}

static void needs(const struct pare_node *n, struct pare_needed *s)
{
    pare_rnn_needs(n, &cell, s);
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
    .backward = backward,
    .save = save,
    .macs = macs,
    .ties = ties,
    .shrink = pare_rnn_shrink,
    .made = made,
    .needs = needs,
};

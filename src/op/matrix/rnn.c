/* rnn.c - RNN: h = f(x W' + h R' + b), step by step. */
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
const struct pare_rnn_cell pare_simple_rnn_cell = { .gates = 1,
                                                    .n_act = 1,
                                                    .act = acts,
                                                    .step = step,
                                                    .back = back };

PARE_RNN_BY(pare_simple_rnn_cell)

const struct pare_op pare_op_rnn = {
    .type = "RNN",
    .doc = "Simple recurrent layer.",
    .since = 7,
    .in = "TTTT?I?T?",
    .types = PARE_T_FLOAT,
    .max_out = 2,
    .attrs = rnn_attrs,
    .attr_size = sizeof(struct pare_rnn),
    .torch = "RNN",
    .layer = { .kind = PARE_LAYER_RECURRENT,
               .params = PARE_IN(1) | PARE_IN(2) | PARE_IN(3),
               .weight = 1,
               .bias = 3,
               .second = 2,
               .gates = 1,
               .scale_axis = 1,
               .not_zero = not_zero },
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .save = save,
    .macs = macs,
    .nni_ops = nni_ops,
    .axes = pare_rnn_axes,
    .zero_if_absent = PARE_IN(5),
    .ties = ties,
    .shrink = pare_rnn_shrink,
    .constant_output = constant_output,
    .needed_channels = needed_channels,
    .flags = PARE_OP_FLOAT_ONLY,
};

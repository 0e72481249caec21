/* lstm.c - LSTM: long short-term memory.
 *
 * With the gates in the order i (input), o (output), f (forget), c (new), and peepholes p:
 *     i = f(x Wi' + h Ri' + pi c + b)     f = f(x Wf' + h Rf' + pf c + b), or 1 - i
 *     n = g(x Wc' + h Rc' + b)            c = f c + i n
 *     o = f(x Wo' + h Ro' + po c + b)     h = o h(c)
 */
#include "rnn_family.h"

static const struct pare_opt lstm_attrs[] = {
    PARE_RNN_ATTRS,
    { "input_forget", "the forget gate is one minus the input gate", PARE_OPT_INT,
      offsetof(struct pare_rnn, input_forget), 0, PARE_ANY, NULL, NULL, false },
    PARE_OPT_END
};

static void step(const struct pare_rnn_row *row)
{
    int64_t H = row->H;
    float *i = row->x, *o = i + H, *f = o + H, *n = f + H;
    const float *pi = row->p, *po = row->p ? pi + H : NULL, *pf = row->p ? po + H : NULL;

    for (int64_t k = 0; k < 4 * H; k++)
        row->x[k] += row->r[k] + row->wb[k] + row->rb[k];
    for (int64_t k = 0; row->p && k < H; k++) {
        i[k] += pi[k] * row->c[k];
        f[k] += pf[k] * row->c[k];
    }
    pare_rnn_activate(row, 0, i, H);
    pare_rnn_activate(row, 0, f, H);
    pare_rnn_activate(row, 1, n, H);
    for (int64_t k = 0; k < H; k++) {
        float keep = row->attr->input_forget ? 1 - i[k] : f[k];

        row->c[k] = keep * row->c[k] + i[k] * n[k];
        o[k] += row->p ? po[k] * row->c[k] : 0;
        row->h[k] = row->c[k];
    }
    pare_rnn_activate(row, 0, o, H);
    pare_rnn_activate(row, 2, row->h, H);
    for (int64_t k = 0; k < H; k++)
        row->h[k] *= o[k];
}

static const char *const acts[] = { "Sigmoid", "Tanh", "Tanh" };
static const struct pare_rnn_cell cell = {
    .gates = 4, .n_act = 3, .act = acts, .step = step
};

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

const struct pare_op pare_op_lstm = {
    .abi = PARE_ABI,
    .type = "LSTM",
    .doc = "Long short-term memory layer.",
    .since = 7,
    .in = "TTTT?I?T?T?T?",
    .types = PARE_T_FLOAT,
    .max_out = 3,
    .attrs = lstm_attrs,
    .attr_size = sizeof(struct pare_rnn),
    .infer = infer,
    .forward = forward,
    .macs = macs,
};

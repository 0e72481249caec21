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
    PARE_INT("input_forget", offsetof(struct pare_rnn, input_forget),
             "the forget gate is one minus the input gate", 0, PARE_NO_MIN, PARE_NO_MAX),
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
    if (row->pre) {
        memcpy(row->pre, row->x, (size_t)(4 * H) * sizeof(float));
        memcpy(row->extra, row->c, (size_t)H * sizeof(float));
    }
    pare_rnn_activate(&row->act[0], i, H);
    pare_rnn_activate(&row->act[0], f, H);
    pare_rnn_activate(&row->act[1], n, H);
    for (int64_t k = 0; k < H; k++) {
        float keep = row->attr->input_forget ? 1 - i[k] : f[k];

        row->c[k] = keep * row->c[k] + i[k] * n[k];
        o[k] += row->p ? po[k] * row->c[k] : 0;
        row->h[k] = row->c[k];
    }
    if (row->pre)
        memcpy(row->pre + H, o, (size_t)H * sizeof(float));
    pare_rnn_activate(&row->act[0], o, H);
    pare_rnn_activate(&row->act[2], row->h, H);
    for (int64_t k = 0; k < H; k++)
        row->h[k] *= o[k];
}

/* Recompute the gates, the state c and h(c) from the saved sums, into tmp (6 H). */
static void gates_again(const struct pare_rnn_back *r)
{
    int64_t H = r->H;
    float *i = r->tmp, *f = i + 2 * H, *n = i + 3 * H, *c = i + 4 * H, *hc = i + 5 * H;

    memcpy(r->tmp, r->pre, (size_t)(4 * H) * sizeof(float));
    pare_rnn_activate(&r->act[0], i, 3 * H);
    pare_rnn_activate(&r->act[1], n, H);
    for (int64_t k = 0; k < H; k++)
        c[k] = hc[k] = (r->attr->input_forget ? 1 - i[k] : f[k]) * r->extra[k] + i[k] * n[k];
    pare_rnn_activate(&r->act[2], hc, H);
}

/* Gradients of the peepholes, once dx is known: i and f read the old state (in `extra`), o the new
 * one. */
static void back_peepholes(const struct pare_rnn_back *r)
{
    int64_t H = r->H;
    const float *di = r->dx, *dO = di + H, *df = di + 2 * H, *c = r->tmp + 4 * H;

    for (int64_t k = 0; k < H; k++)
        r->dc[k] += r->p[k] * di[k] + r->p[2 * H + k] * df[k];
    for (int64_t k = 0; r->gp && k < H; k++) {
        r->gp[k] += di[k] * r->extra[k];
        r->gp[H + k] += dO[k] * c[k];
        r->gp[2 * H + k] += df[k] * r->extra[k];
    }
}

static void back(const struct pare_rnn_back *r)
{
    int64_t H = r->H;
    const float *i = r->tmp, *o = i + H, *f = i + 2 * H, *n = i + 3 * H, *c = i + 4 * H;
    const float *hc = i + 5 * H, *old = r->extra;
    float *di = r->dx, *dO = di + H, *df = di + 2 * H, *dn = di + 3 * H;
    bool tied = r->attr->input_forget != 0;

    gates_again(r);
    for (int64_t k = 0; k < H; k++) {
        dO[k] = r->dh[k] * hc[k];
        r->dh[k] *= o[k];
    }
    pare_rnn_slope(&r->act[0], r->pre + H, o, dO, H);
    pare_rnn_slope(&r->act[2], c, hc, r->dh, H);
    for (int64_t k = 0; k < H; k++) {
        float dc = r->dc[k] + r->dh[k] + (r->p ? r->p[H + k] * dO[k] : 0);

        di[k] = dc * (tied ? n[k] - old[k] : n[k]);
        df[k] = tied ? 0 : dc * old[k];
        dn[k] = dc * i[k];
        r->dc[k] = dc * (tied ? 1 - i[k] : f[k]);
        r->dh[k] = 0;
    }
    pare_rnn_slope(&r->act[0], r->pre, i, di, H);
    pare_rnn_slope(&r->act[0], r->pre + 2 * H, f, df, H);
    pare_rnn_slope(&r->act[1], r->pre + 3 * H, n, dn, H);
    if (r->p)
        back_peepholes(r);
}

static const char *const acts[] = { "Sigmoid", "Tanh", "Tanh" };
const struct pare_rnn_cell pare_lstm_cell = { .gates = 4,
                                              .mixes = 4,
                                              .n_act = 3,
                                              .act = acts,
                                              .step = step,
                                              .back = back };

PARE_RNN_BY(pare_lstm_cell)

const struct pare_op pare_op_lstm = {
    .type = "LSTM",
    .doc = "Long short-term memory layer.",
    .since = 7,
    .in = "TTTT?I?T?T?T?",
    .types = PARE_T_FLOAT,
    .max_out = 3,
    .attrs = lstm_attrs,
    .attr_size = sizeof(struct pare_rnn),
    .torch = "LSTM",
    .dynamic_type = "DynamicQuantizeLSTM",
    .layer = { .kind = PARE_LAYER_RECURRENT,
               .params = PARE_IN(1) | PARE_IN(2) | PARE_IN(3) | PARE_IN(7),
               .weight = 1,
               .bias = 3,
               .second = 2,
               .gates = 4,
               .scale_axis = 1,
               .not_zero = not_zero },
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .save = save,
    .macs = macs,
    .nni_ops = nni_ops,
    .axes = pare_rnn_axes,
    .zero_if_absent = PARE_IN(5) | PARE_IN(6),
    .ties = ties,
    .shrink = pare_rnn_shrink,
    .constant_output = constant_output,
    .needed_channels = needed_channels,
    .flags = PARE_OP_FLOAT_ONLY,
};

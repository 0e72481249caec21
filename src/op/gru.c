/* gru.c - GRU: gated recurrent unit.
 *
 * With the gates in the order z (update), r (reset), h (new):
 *     z = f(x Wz' + h Rz' + b)        r = f(x Wr' + h Rr' + b)
 *     n = g(x Wh' + (r h) Rh' + b)    or, linear before reset, g(x Wh' + wb + r (h Rh' + rb))
 *     h = (1 - z) n + z h
 */
#include "matrix.h"
#include "rnn_family.h"

static const struct pare_opt gru_attrs[] = {
    PARE_RNN_ATTRS,
    { "linear_before_reset", "reset after the product with R, not before", PARE_OPT_INT,
      offsetof(struct pare_rnn, linear_before_reset), 0, PARE_ANY, NULL, NULL, false },
    PARE_OPT_END
};

static void step(const struct pare_rnn_row *row)
{
    int64_t H = row->H;
    float *x = row->x, *n = x + 2 * H, *rh = row->r + 2 * H, *reset = x + H;
    struct pare_mm m = {
        .M = 1, .N = H, .K = H, .ai = H, .ak = 1, .bk = 1, .bj = H, .ys = H,
        .a = row->tmp, .b = row->R + 2 * H * H, .y = rh,
    };

    for (int64_t i = 0; i < 2 * H; i++)
        x[i] += row->r[i] + row->wb[i] + row->rb[i];
    pare_rnn_activate(row, 0, x, 2 * H);
    if (!row->attr->linear_before_reset) {
        for (int64_t i = 0; i < H; i++) {
            row->tmp[i] = reset[i] * row->h[i];
            rh[i] = 0;
        }
        pare_mm(PARE_F32, &m);
    }
    for (int64_t i = 0; i < H; i++) {
        float rb = row->rb[2 * H + i];

        n[i] += row->wb[2 * H + i];
        n[i] += row->attr->linear_before_reset ? reset[i] * (rh[i] + rb) : rh[i] + rb;
    }
    pare_rnn_activate(row, 1, n, H);
    for (int64_t i = 0; i < H; i++)
        row->h[i] = (1 - x[i]) * n[i] + x[i] * row->h[i];
}

static const char *const acts[] = { "Sigmoid", "Tanh" };
static const struct pare_rnn_cell cell = { .gates = 3, .n_act = 2, .act = acts, .step = step };

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

const struct pare_op pare_op_gru = {
    .abi = PARE_ABI,
    .type = "GRU",
    .doc = "Gated recurrent layer.",
    .since = 7,
    .in = "TTTT?I?T?",
    .types = PARE_T_FLOAT,
    .max_out = 2,
    .attrs = gru_attrs,
    .attr_size = sizeof(struct pare_rnn),
    .infer = infer,
    .forward = forward,
    .macs = macs,
};

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
    PARE_INT("linear_before_reset", offsetof(struct pare_rnn, linear_before_reset),
             "reset after the product with R, not before", 0, PARE_NO_MIN, PARE_NO_MAX),
    PARE_OPT_END
};

static void step(const struct pare_rnn_row *row)
{
    int64_t H = row->H;
    float *x = row->x, *n = x + 2 * H, *rh = row->r + 2 * H, *reset = x + H;
    struct pare_mm m = {
        .M = 1,
        .N = H,
        .K = H,
        .ai = H,
        .ak = 1,
        .bk = 1,
        .bj = H,
        .ys = H,
        .a = row->tmp,
        .b = row->R + 2 * H * H,
        .y = rh,
    };

    for (int64_t i = 0; i < 2 * H; i++)
        x[i] += row->r[i] + row->wb[i] + row->rb[i];
    if (row->pre)
        memcpy(row->pre, x, (size_t)(2 * H) * sizeof(float));
    pare_rnn_activate(&row->act[0], x, 2 * H);
    if (!row->attr->linear_before_reset) {
        for (int64_t i = 0; i < H; i++) {
            row->tmp[i] = reset[i] * row->h[i];
            rh[i] = 0;
        }
        pare_mm(PARE_F32, &m);
    }
    for (int64_t i = 0; i < H; i++) {
        rh[i] += row->rb[2 * H + i];
        n[i] += row->wb[2 * H + i];
        n[i] += row->attr->linear_before_reset ? reset[i] * rh[i] : rh[i];
    }
    if (row->pre) {
        memcpy(row->pre + 2 * H, n, (size_t)H * sizeof(float));
        memcpy(row->extra, row->attr->linear_before_reset ? rh : row->tmp,
               (size_t)H * sizeof(float));
    }
    pare_rnn_activate(&row->act[1], n, H);
    for (int64_t i = 0; i < H; i++)
        row->h[i] = (1 - x[i]) * n[i] + x[i] * row->h[i];
}

/* Backward pass of the reset gate's product: its gradient, and the gradient of h or of h R'. */
static void back_reset(const struct pare_rnn_back *r)
{
    int64_t H = r->H;
    const float *reset = r->tmp + H, *dn = r->dx + 2 * H;
    float *dreset = r->dx + H, *q = r->tmp + 3 * H;
    struct pare_mm m = {
        /* dn R, the gradient of r h */
        .M = 1,  .N = H,  .K = H,  .ai = H, .ak = 1,
        .bk = H, .bj = 1, .ys = H, .a = dn, .b = r->R + 2 * H * H,
        .y = q,
    };

    if (r->attr->linear_before_reset) {
        for (int64_t i = 0; i < H; i++) {
            dreset[i] = dn[i] * r->extra[i];
            r->dr[2 * H + i] = dn[i] * reset[i];
        }
        return;
    }
    memset(q, 0, (size_t)H * sizeof(float));
    pare_mm(PARE_F32, &m);
    for (int64_t i = 0; i < H; i++) {
        dreset[i] = q[i] * r->h[i];
        r->dh[i] += q[i] * reset[i];
    }
}

static void back(const struct pare_rnn_back *r)
{
    int64_t H = r->H;
    const float *z = r->tmp, *n = z + 2 * H;
    float *dz = r->dx, *dn = dz + 2 * H;

    memcpy(r->tmp, r->pre, (size_t)(3 * H) * sizeof(float));
    pare_rnn_activate(&r->act[0], r->tmp, 2 * H);
    pare_rnn_activate(&r->act[1], r->tmp + 2 * H, H);
    for (int64_t i = 0; i < H; i++) {
        dz[i] = r->dh[i] * (r->h[i] - n[i]);
        dn[i] = r->dh[i] * (1 - z[i]);
        r->dh[i] *= z[i];
    }
    pare_rnn_slope(&r->act[1], r->pre + 2 * H, n, dn, H);
    back_reset(r);
    pare_rnn_slope(&r->act[0], r->pre, z, dz, 2 * H);
    if (r->dr != r->dx)
        memcpy(r->dr, r->dx, (size_t)(2 * H) * sizeof(float));
}

static const char *const acts[] = { "Sigmoid", "Tanh" };
const struct pare_rnn_cell pare_gru_cell = { .gates = 3,
                                             .mixes = 4,
                                             .n_act = 2,
                                             .act = acts,
                                             .step = step,
                                             .back = back,
                                             .resets = true };

PARE_RNN_BY(pare_gru_cell)

const struct pare_op pare_op_gru = {
    .type = "GRU",
    .doc = "Gated recurrent layer.",
    .since = 7,
    .in = "TTTT?I?T?",
    .types = PARE_T_FLOAT,
    .max_out = 2,
    .attrs = gru_attrs,
    .attr_size = sizeof(struct pare_rnn),
    .torch = "GRU",
    .layer = { .kind = PARE_LAYER_RECURRENT,
               .params = PARE_IN(1) | PARE_IN(2) | PARE_IN(3),
               .weight = 1,
               .bias = 3,
               .second = 2,
               .gates = 3,
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

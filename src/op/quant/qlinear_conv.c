/* qlinear_conv.c - QLinearConv: quantized convolution.
 *
 *     y = round((conv(x - x_zero, w - w_zero) + B) * (x_scale * w_scale / y_scale)) + y_zero
 *
 * W's scale and zero point are scalars, or lists with one entry per output channel.
 */
#include "../nn/conv_family.h"
#include "quant_family.h"

enum { X, X_SCALE, X_ZERO, W, W_SCALE, W_ZERO, Y_SCALE, Y_ZERO, B };

#define BYTES (PARE_T(PARE_U8) | PARE_T(PARE_I8))

/* All but W's scale and zero point are scalars. */
static int check_single(const struct pare_node *n, struct pare_err *err)
{
    static const int index[] = { X_SCALE, X_ZERO, Y_SCALE, Y_ZERO };
    static const char *const name[] = { "x_scale", "x_zero_point", "y_scale", "y_zero_point" };

    for (int i = 0; i < 4; i++)
        if (pare_numel(&n->in[index[i]]->t) != 1)
            return pare_fail(err, PARE_ESHAPE, "%s has %lld elements, expected 1", name[i],
                             (long long)pare_numel(&n->in[index[i]]->t));
    return 0;
}

/* Zero points broadcast to X and W; scales broadcast to Y. */
static int views(const struct pare_node *n, struct pare_tensor *xz, struct pare_tensor *wz,
                 struct pare_tensor *of_y, struct pare_err *err)
{
    const struct pare_tensor *y = &n->out[0]->t;

    PARE_TRY(pare_quant_view(xz, &n->in[X_ZERO]->t, &n->in[X]->t, 0, err));
    PARE_TRY(pare_quant_view(wz, &n->in[W_ZERO]->t, &n->in[W]->t, 0, err));
    PARE_TRY(pare_quant_view(&of_y[0], &n->in[X_SCALE]->t, y, 0, err));
    PARE_TRY(pare_quant_view(&of_y[1], &n->in[W_SCALE]->t, y, 1, err));
    PARE_TRY(pare_quant_view(&of_y[2], &n->in[Y_SCALE]->t, y, 0, err));
    return pare_quant_view(&of_y[3], &n->in[Y_ZERO]->t, y, 0, err);
}

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[X]->t, *w = &n->in[W]->t;
    struct pare_tensor xz, wz, of_y[4];
    struct pare_window win;

    PARE_TRY(check_single(n, err));
    PARE_TRY(pare_quant_type(w, "w", BYTES, err));
    PARE_TRY(pare_quant_type(&n->in[Y_ZERO]->t, "y_zero_point", BYTES, err));
    PARE_TRY(pare_conv_geometry(n->attr, x, w, &win, err));
    if (n->n_in > B && n->in[B]) {
        PARE_TRY(pare_quant_type(&n->in[B]->t, "B", PARE_T(PARE_I32), err));
        PARE_TRY(pare_conv_bias(n->in[B], w->dim[0], err));
    }
    PARE_TRY(
        pare_window_shape(&win, &n->out[0]->t, n->in[Y_ZERO]->t.dtype, x->dim[0], w->dim[0], err));
    return views(n, &xz, &wz, of_y, err);
}

/* In unsigned arithmetic: sums wrap around. */
static void add_bias(const struct pare_tensor *acc, const int32_t *bias)
{
    struct pare_lanes l = pare_lanes(acc, 1, 1);
    uint32_t *y = acc->data;

    for (int64_t i = 0; i < l.outer * l.len; i++)
        for (int64_t k = 0; k < l.inner; k++)
            y[i * l.inner + k] += (uint32_t)bias[i % l.len];
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    struct pare_tensor xz, wz, of_y[4], x, w, acc = n->out[0]->t;
    struct pare_window win;

    PARE_TRY(pare_conv_geometry(n->attr, &n->in[X]->t, &n->in[W]->t, &win, err));
    PARE_TRY(views(n, &xz, &wz, of_y, err));
    PARE_TRY(pare_quant_centered(c, &n->in[X]->t, &xz, &x, err));
    PARE_TRY(pare_quant_centered(c, &n->in[W]->t, &wz, &w, err));
    acc.dtype = PARE_I32;
    PARE_TRY(pare_tensor_alloc(c->scratch, &acc, err));
    pare_conv_int(&win, &x, &w, acc.data);
    if (n->n_in > B && n->in[B])
        add_bias(&acc, n->in[B]->t.data);
    return pare_requantize(c, acc.data, &n->out[0]->t, of_y, err);
}

static void ties(const struct pare_node *n, struct pare_ties *t)
{
    pare_conv_ties(n, W, t);
}

static double macs(const struct pare_node *n)
{
    return pare_conv_int_macs(n, W);
}

const struct pare_op pare_op_qlinear_conv = {
    .type = "QLinearConv",
    .doc = "Convolution of quantized tensors, quantized.",
    .since = 10,
    .in = "TFTUFUFAA?",
    .types = BYTES,
    .min_out = 1,
    .max_out = 1,
    .attrs = pare_conv_attrs,
    .attr_size = sizeof(struct pare_window_attr),
    .torch = "Conv#d",
    .scales = { .x = X_SCALE, .w = W_SCALE, .y = Y_SCALE },
    .layer = { .kind = PARE_LAYER_CONV,
               .params = PARE_IN(3) | PARE_IN(8),
               .weight = 3,
               .bias = 8,
               .by_default = true },
    .infer = infer,
    .forward = forward,
    .ties = ties,
    .macs = macs,
    .settings = 0xff,
};

/* conv_integer.c - ConvInteger: convolution of x - x_zero with w - w_zero, in int32. */
#include "../nn/conv_family.h"
#include "quant_family.h"

enum { X, W, X_ZERO, W_ZERO };

static const struct pare_tensor *input(const struct pare_node *n, int i)
{
    return i < n->n_in && n->in[i] ? &n->in[i]->t : NULL;
}

/* The zero points, broadcast: one for X; one, or one per output channel, for W. */
static int views(const struct pare_node *n, struct pare_tensor *xz, struct pare_tensor *wz,
                 struct pare_err *err)
{
    const struct pare_tensor *zero = input(n, X_ZERO);

    if (zero && pare_numel(zero) != 1)
        return pare_fail(err, PARE_ESHAPE, "x_zero_point has %lld elements, expected 1",
                         (long long)pare_numel(zero));
    if (zero)
        PARE_TRY(pare_quant_view(xz, zero, &n->in[X]->t, 0, err));
    if (input(n, W_ZERO))
        PARE_TRY(pare_quant_view(wz, input(n, W_ZERO), &n->in[W]->t, 0, err));
    return 0;
}

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[X]->t, *w = &n->in[W]->t;
    struct pare_tensor xz, wz;
    struct pare_window win;

    PARE_TRY(pare_quant_type(w, "W", PARE_T(PARE_U8) | PARE_T(PARE_I8), err));
    PARE_TRY(pare_conv_window(n, &win, err));
    PARE_TRY(views(n, &xz, &wz, err));
    return pare_window_shape(&win, &n->out[0]->t, PARE_I32, x->dim[0], w->dim[0], err);
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    struct pare_tensor xz, wz, x, w;
    struct pare_window win;

    PARE_TRY(pare_conv_window(n, &win, err));
    PARE_TRY(views(n, &xz, &wz, err));
    PARE_TRY(pare_quant_centered(c, &n->in[X]->t, input(n, X_ZERO) ? &xz : NULL, &x, err));
    PARE_TRY(pare_quant_centered(c, &n->in[W]->t, input(n, W_ZERO) ? &wz : NULL, &w, err));
    pare_conv_int(&win, &x, &w, n->out[0]->t.data);
    return 0;
}

static void ties(const struct pare_node *n, struct pare_ties *t)
{
    pare_conv_ties(n, W, t);
}

static double macs(const struct pare_node *n)
{
    return pare_conv_int_macs(n, W);
}

const struct pare_op pare_op_conv_integer = {
    .type = "ConvInteger",
    .doc = "Convolution of int8 or uint8 tensors, in int32.",
    .since = 10,
    .in = "TUT?U?",
    .types = PARE_T(PARE_U8) | PARE_T(PARE_I8),
    .min_out = 1,
    .max_out = 1,
    .attrs = pare_conv_attrs,
    .attr_size = sizeof(struct pare_window_attr),
    .torch = "Conv#d",
    .scales = { .w_zero = W_ZERO },
    .layer = { .kind = PARE_LAYER_CONV, .params = PARE_IN(1), .weight = 1, .by_default = true },
    .infer = infer,
    .forward = forward,
    .ties = ties,
    .macs = macs,
};

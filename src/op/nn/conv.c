/* conv.c - Conv: cross-correlation over 1 to 3 spatial axes, in groups.
 *
 *     y[n, m, o] = b[m] + sum over c, k of w[m, c, k] * x[n, g * C + c, o * stride - pad + k * dil]
 *
 * for output channel m of group g, with C = channels / group.
 */
#include "conv_family.h"

const struct pare_opt pare_conv_attrs[] = { PARE_WINDOW_AUTO_PAD,
                                            PARE_WINDOW_DILATIONS,
                                            PARE_WINDOW_INT(group, "number of groups of channels",
                                                            1, 1, INT32_MAX),
                                            PARE_WINDOW_KERNEL(false),
                                            PARE_WINDOW_PADS,
                                            PARE_WINDOW_STRIDES,
                                            PARE_OPT_END };

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t, *w = &n->in[1]->t;
    struct pare_window win;

    PARE_TRY(pare_conv_window(n, &win, err));
    PARE_TRY(pare_conv_bias(n->n_in > 2 ? n->in[2] : NULL, w->dim[0], err));
    return pare_window_shape(&win, &n->out[0]->t, x->dtype, x->dim[0], w->dim[0], err);
}

static const struct pare_value *bias(const struct pare_node *n)
{
    return n->n_in > 2 ? n->in[2] : NULL;
}

static int start(const struct pare_node *n, struct pare_conv *v, struct pare_ctx *c,
                 struct pare_err *err)
{
    struct pare_window win;

    PARE_TRY(pare_conv_window(n, &win, err));
    PARE_TRY(pare_conv_start(v, &win, &n->in[0]->t, &n->in[1]->t, c->scratch, err));
    v->threads = c->threads;
    return 0;
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t, *w = &n->in[1]->t, *y = &n->out[0]->t;
    struct pare_conv v;

    PARE_TRY(start(n, &v, c, err));
    pare_conv_fill(y, bias(n));
    pare_conv_gather(&v, pare_f32(x), pare_f32(w), pare_f32_mut(y));
    return 0;
}

static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_value *x = n->in[0], *w = n->in[1], *y = n->out[0];
    struct pare_conv v;

    if (!y->grad.data)
        return 0;
    PARE_TRY(start(n, &v, c, err));
    pare_conv_fill_back(y, bias(n));
    if (x->grad.data)
        pare_conv_scatter(&v, pare_f32(&y->grad), pare_f32(&w->t), pare_f32_mut(&x->grad));
    if (w->grad.data)
        pare_conv_correlate(&v, pare_f32(&x->t), pare_f32(&y->grad), pare_f32_mut(&w->grad));
    return 0;
}

static void ties(const struct pare_node *n, struct pare_ties *t)
{
    pare_conv_ties(n, 1, t);
}

static double macs(const struct pare_node *n)
{
    const struct pare_tensor *w = &n->in[1]->t;
    double per_output = 1;

    for (int i = 1; i < w->rank; i++)
        per_output *= (double)w->dim[i];
    return (double)pare_numel(&n->out[0]->t) * per_output;
}

static void axes(const struct pare_node *n, int *out, int *in)
{
    (void)n;
    *out = 0;
    *in = 1;
}

static bool linear(const struct pare_node *n, struct pare_linear *l)
{
    struct pare_window w;
    struct pare_err err;

    *l = (struct pare_linear){ .x = 0,
                               .w = 1,
                               .bias = 2,
                               .x_axis = 1,
                               .w_in = 1,
                               .w_out = 0,
                               .y_axis = 1,
                               .scale = 1,
                               .outer = 1 };
    if (pare_conv_window(n, &w, &err))
        return false;
    l->groups = w.group;
    for (int i = 0; i < w.nd; i++)
        l->borders |= w.pad_begin[i] || w.pad_end[i];
    return true;
}

/* Each group keeps as many input channels as W has. */
static void shrink(const struct pare_node *n, struct pare_shrunk *s)
{
    const struct pare_window_attr *a = n->attr;
    int64_t each = pare_shrunk_dim(s, n->in[1], 1);

    if (a->group > 1 && each)
        pare_shrunk_int(s, "group", pare_shrunk_dim(s, n->in[0], 1) / each);
}

const struct pare_op pare_op_conv = {
    .type = "Conv",
    .doc = "Convolution over 1 to 3 spatial axes, with groups, strides, padding and dilation.",
    .since = 1,
    .in = "TTT?",
    .types = PARE_T_FLOAT,
    .min_out = 1,
    .max_out = 1,
    .attrs = pare_conv_attrs,
    .attr_size = sizeof(struct pare_window_attr),
    .torch = "Conv#d",
    .qlinear_type = "QLinearConv",
    .integer_type = "ConvInteger",
    .layer = { .kind = PARE_LAYER_CONV,
               .params = PARE_IN(1) | PARE_IN(2),
               .weight = 1,
               .bias = 2,
               .by_default = true },
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .ties = ties,
    .macs = macs,
    .axes = axes,
    .linear = linear,
    .shrink = shrink,
};

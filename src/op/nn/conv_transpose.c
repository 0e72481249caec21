/* conv_transpose.c - ConvTranspose: transposed convolution, the gradient of Conv's input.
 *
 *     y[n, g * M + m, i * stride - pad + k * dil] += w[c, m, k] * x[n, c, i]
 *
 * for input channel c of group g, with M = output channels / group.
 */
#include "conv_family.h"

static const struct pare_opt attrs[] = {
    PARE_WINDOW_AUTO_PAD,
    PARE_WINDOW_DILATIONS,
    PARE_WINDOW_INT(group, "number of groups of channels", 1, 1, INT32_MAX),
    PARE_WINDOW_KERNEL(false),
    PARE_WINDOW_INTS(output_padding, "output elements added at the end of each axis", 0),
    PARE_WINDOW_INTS(output_shape, "size of the output, which determines the padding", 0),
    PARE_WINDOW_PADS,
    PARE_WINDOW_STRIDES,
    PARE_OPT_END
};

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t, *w = &n->in[1]->t;
    struct pare_window win;
    int64_t M;

    PARE_TRY(pare_conv_transpose_window(n, &win, err));
    if (w->dim[1] > INT64_MAX / win.group)
        return pare_fail(err, PARE_ELIMIT, "W has more output channels than are supported");
    M = w->dim[1] * win.group;
    PARE_TRY(pare_conv_bias(n->n_in > 2 ? n->in[2] : NULL, M, err));
    return pare_window_shape(&win, &n->out[0]->t, x->dtype, x->dim[0], M, err);
}

static const struct pare_value *bias(const struct pare_node *n)
{
    return n->n_in > 2 ? n->in[2] : NULL;
}

/* The convolution from Y to X. */
static int start(const struct pare_node *n, struct pare_conv *v, struct pare_ctx *c,
                 struct pare_err *err)
{
    struct pare_window win, back;

    PARE_TRY(pare_conv_transpose_window(n, &win, err));
    back = win;
    memcpy(back.in, win.out, sizeof(back.in));
    memcpy(back.out, win.in, sizeof(back.out));
    PARE_TRY(pare_conv_start(v, &back, &n->out[0]->t, &n->in[1]->t, c->scratch, err));
    v->threads = c->threads;
    return 0;
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t, *w = &n->in[1]->t, *y = &n->out[0]->t;
    struct pare_conv v;

    PARE_TRY(start(n, &v, c, err));
    pare_conv_fill(y, bias(n));
    pare_conv_scatter(&v, pare_f32(x), pare_f32(w), pare_f32_mut(y));
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
        pare_conv_gather(&v, pare_f32(&y->grad), pare_f32(&w->t), pare_f32_mut(&x->grad));
    if (w->grad.data)
        pare_conv_correlate(&v, pare_f32(&y->grad), pare_f32(&x->t), pare_f32_mut(&w->grad));
    return 0;
}

/* w is (C, M / group, ...): input and output channels are exchanged, compared with Conv. */
static void ties(const struct pare_node *n, struct pare_ties *t)
{
    const struct pare_window_attr *a = n->attr;
    const struct pare_value *x = n->in[0], *w = n->in[1], *y = n->out[0];
    int64_t C = x->t.dim[1], M = y->t.dim[1];
    const struct pare_digit in[2] = { { NULL, 0, a->group }, { NULL, 1, C / a->group } };
    const struct pare_digit out[2] = { { NULL, 0, a->group }, { w, 1, M / a->group } };

    pare_tie(t, x, 0, y, 0);
    pare_tie(t, x, 1, w, 0);
    if (n->n_in > 2)
        pare_tie(t, n->in[2], 0, y, 1);
    if (a->group == 1) {
        pare_tie(t, w, 1, y, 1);
        return;
    }
    pare_tie_groups(t, x, 1, in);
    pare_tie_groups(t, y, 1, out);
}

static double macs(const struct pare_node *n)
{
    const struct pare_tensor *w = &n->in[1]->t;
    double per_input = 1;

    for (int i = 1; i < w->rank; i++)
        per_input *= (double)w->dim[i];
    return (double)pare_numel(&n->in[0]->t) * per_input;
}

static void axes(const struct pare_node *n, int *out, int *in)
{
    (void)n;
    *out = 1;
    *in = 0;
}

/* Outputs differ in the taps that contribute, even without padding. */
static bool linear(const struct pare_node *n, struct pare_linear *l)
{
    const struct pare_window_attr *a = n->attr;

    *l = (struct pare_linear){ .x = 0,
                               .w = 1,
                               .bias = 2,
                               .x_axis = 1,
                               .w_in = 0,
                               .w_out = 1,
                               .y_axis = 1,
                               .groups = a->group,
                               .scale = 1,
                               .outer = 1,
                               .borders = true };
    return true;
}

static void shrink(const struct pare_node *n, struct pare_shrunk *s)
{
    const struct pare_window_attr *a = n->attr;
    int64_t each = pare_shrunk_dim(s, n->in[1], 1);

    if (a->group > 1 && each)
        pare_shrunk_int(s, "group", pare_shrunk_dim(s, n->out[0], 1) / each);
}

const struct pare_op pare_op_conv_transpose = {
    .type = "ConvTranspose",
    .doc = "Transposed convolution (the gradient of Conv) over 1 to 3 spatial axes.",
    .since = 1,
    .in = "TTT?",
    .types = PARE_T_FLOAT,
    .min_out = 1,
    .max_out = 1,
    .attrs = attrs,
    .attr_size = sizeof(struct pare_window_attr),
    .torch = "ConvTranspose#d",
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

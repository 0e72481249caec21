/* fused_conv.c - FusedConv (com.microsoft): y = activation(Conv(x, w, b) + z). */
#include "../nn/conv_family.h"
#include "fused_act.h"

enum { X, W, B, Z };

/* Begins with Conv's, so that Conv's functions read it. */
struct fused_conv {
    struct pare_window_attr conv;
    const char *activation;
    struct pare_floats activation_params;
};

static const struct pare_opt attrs[] = {
    PARE_TEXT("activation", offsetof(struct fused_conv, activation), "NAME",
              "the activation, an operator such as Relu", ""),
    PARE_FLOATS("activation_params", offsetof(struct fused_conv, activation_params),
                "the attributes of the activation, in order", PARE_NO_MIN, PARE_NO_MAX),
    PARE_WINDOW_AUTO_PAD,
    PARE_WINDOW_DILATIONS,
    PARE_WINDOW_INT(group, "number of groups of channels", 1, 1, INT32_MAX),
    PARE_WINDOW_KERNEL(false),
    PARE_WINDOW_PADS,
    PARE_WINDOW_STRIDES,
    PARE_OPT_END
};

extern const struct pare_op pare_op_conv;

static struct pare_value *added(const struct pare_node *n)
{
    return n->n_in > Z ? n->in[Z] : NULL;
}

static struct pare_act_spec spec(const struct pare_node *n)
{
    const struct fused_conv *a = n->attr;

    return (struct pare_act_spec){ a->activation, a->activation_params, PARE_ACT_ABSENT,
                                   PARE_ACT_ABSENT, PARE_ACT_ABSENT };
}

static int find_act(const struct pare_node *n, struct pare_inner *act, struct pare_err *err)
{
    struct pare_act_spec s = spec(n);

    return pare_fused_act(&s, act, err);
}

static int infer(struct pare_node *n, struct pare_err *err)
{
    char bz[PARE_SHAPE_TEXT], by[PARE_SHAPE_TEXT];
    struct pare_inner act;

    PARE_TRY(find_act(n, &act, err));
    PARE_TRY(pare_op_conv.infer(n, err));
    if (added(n) && !pare_same_shape(&added(n)->t, &n->out[0]->t))
        return pare_fail(err, PARE_ESHAPE, "Z is %s, which is added to %s; expected the same shape",
                         pare_shape_text(&added(n)->t, bz, sizeof(bz)),
                         pare_shape_text(&n->out[0]->t, by, sizeof(by)));
    return 0;
}

/* Everything but the activation. */
static int sum(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_tensor *y = &n->out[0]->t;

    PARE_TRY(pare_op_conv.forward(n, c, err));
    for (int64_t i = 0; added(n) && i < pare_numel(y); i++)
        pare_f32_mut(y)[i] += pare_f32(&added(n)->t)[i];
    return 0;
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    struct pare_inner act;

    PARE_TRY(find_act(n, &act, err));
    PARE_TRY(sum(n, c, err));
    pare_fused_act_run(&act, &n->out[0]->t);
    return 0;
}

static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    int64_t count = pare_numel(&n->out[0]->t);
    struct pare_value pre, *out[1] = { &pre };
    struct pare_node inner = *n;
    struct pare_inner act;

    if (!n->out[0]->grad.data || !count)
        return 0;
    PARE_TRY(find_act(n, &act, err));
    PARE_TRY(pare_inner_temp(&pre, n->out[0], true, c->scratch, err));
    inner.out = out;
    PARE_TRY(sum(&inner, c, err));
    pare_fused_act_back(&act, pare_f32(&pre.t), pare_f32(&n->out[0]->t), pare_f32(&n->out[0]->grad),
                        pare_f32_mut(&pre.grad), count);
    for (int64_t i = 0; added(n) && added(n)->grad.data && i < count; i++)
        pare_f32_mut(&added(n)->grad)[i] += pare_f32(&pre.grad)[i];
    return pare_op_conv.backward(&inner, c, err);
}

static void ties(const struct pare_node *n, struct pare_ties *t)
{
    pare_conv_ties(n, W, t);
    for (int i = 0; added(n) && i < 2; i++)
        pare_tie(t, added(n), i, n->out[0], i);
}

static double macs(const struct pare_node *n)
{
    return pare_op_conv.macs(n);
}

static void axes(const struct pare_node *n, int *out, int *in)
{
    pare_op_conv.axes(n, out, in);
}

static float after(const struct pare_node *n, float v)
{
    struct pare_act_spec s = spec(n);

    return pare_fused_act_at(&s, v);
}

static bool linear(const struct pare_node *n, struct pare_linear *l)
{
    if (!pare_op_conv.linear(n, l))
        return false;
    l->after = after;
    l->adds = added(n) != NULL;
    return true;
}

static void shrink(const struct pare_node *n, struct pare_shrunk *s)
{
    pare_op_conv.shrink(n, s);
}

const struct pare_op pare_op_fused_conv = {
    .type = "FusedConv",
    .doc = "Convolution, a sum and an activation in one.",
    .domain = "com.microsoft",
    .since = 1,
    .in = "TTT?T?",
    .types = PARE_T_FLOAT,
    .min_out = 1,
    .max_out = 1,
    .attrs = attrs,
    .attr_size = sizeof(struct fused_conv),
    .torch = "Conv#d",
    .layer = { .kind = PARE_LAYER_CONV,
               .params = PARE_IN(W) | PARE_IN(B),
               .weight = W,
               .bias = B,
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

bool pare_fused_conv_parts(const struct pare_node *n, struct pare_fused_parts *p)
{
    struct pare_err err;

    if (n->op != &pare_op_fused_conv || find_act(n, &p->act, &err))
        return false;
    p->first = &pare_op_conv;
    p->n_in = n->n_in > Z ? Z : n->n_in;
    p->added = added(n);
    return true;
}

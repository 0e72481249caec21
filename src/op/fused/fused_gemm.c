/* fused_gemm.c - FusedGemm (com.microsoft): y = activation(alpha a b + beta c). */
#include "../matrix/matrix.h"
#include "fused_act.h"

/* Begins with Gemm's, so that Gemm's functions read it. */
struct fused_gemm {
    struct pare_gemm_raw gemm;
    const char *activation;
    double activation_alpha, activation_beta, activation_gamma;
};

#define AT(field) offsetof(struct fused_gemm, field)
static const struct pare_opt attrs[] = {
    PARE_TEXT("activation", AT(activation), "NAME", "the activation, an operator such as Relu", ""),
    PARE_FLOAT("activation_alpha", AT(activation_alpha), "its attribute alpha", PARE_ACT_ABSENT,
               PARE_NO_MIN, PARE_NO_MAX),
    PARE_FLOAT("activation_beta", AT(activation_beta), "its attribute beta", PARE_ACT_ABSENT,
               PARE_NO_MIN, PARE_NO_MAX),
    PARE_FLOAT("activation_gamma", AT(activation_gamma), "its attribute gamma", PARE_ACT_ABSENT,
               PARE_NO_MIN, PARE_NO_MAX),
    PARE_FLOAT("alpha", AT(gemm.alpha), "factor of the product", 1, PARE_NO_MIN, PARE_NO_MAX),
    PARE_FLOAT("beta", AT(gemm.beta), "factor of C", 1, PARE_NO_MIN, PARE_NO_MAX),
    PARE_INT("transA", AT(gemm.transA), "A is stored transposed", 0, PARE_NO_MIN, PARE_NO_MAX),
    PARE_INT("transB", AT(gemm.transB), "B is stored transposed", 0, PARE_NO_MIN, PARE_NO_MAX),
    PARE_OPT_END
};

extern const struct pare_op pare_op_gemm;

static struct pare_act_spec spec(const struct pare_node *n)
{
    const struct fused_gemm *a = n->attr;

    return (struct pare_act_spec){ .name = a->activation,
                                   .alpha = a->activation_alpha,
                                   .beta = a->activation_beta,
                                   .gamma = a->activation_gamma };
}

static int find_act(const struct pare_node *n, struct pare_inner *act, struct pare_err *err)
{
    struct pare_act_spec s = spec(n);

    return pare_fused_act(&s, act, err);
}

static int infer(struct pare_node *n, struct pare_err *err)
{
    struct pare_inner act;

    PARE_TRY(find_act(n, &act, err));
    return pare_op_gemm.infer(n, err);
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    struct pare_inner act;

    PARE_TRY(find_act(n, &act, err));
    PARE_TRY(pare_op_gemm.forward(n, c, err));
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
    PARE_TRY(pare_op_gemm.forward(&inner, c, err));
    pare_fused_act_back(&act, pare_f32(&pre.t), pare_f32(&n->out[0]->t), pare_f32(&n->out[0]->grad),
                        pare_f32_mut(&pre.grad), count);
    return pare_op_gemm.backward(&inner, c, err);
}

static void ties(const struct pare_node *n, struct pare_ties *t)
{
    pare_op_gemm.ties(n, t);
}

static double macs(const struct pare_node *n)
{
    return pare_op_gemm.macs(n);
}

static void axes(const struct pare_node *n, int *out, int *in)
{
    pare_op_gemm.axes(n, out, in);
}

static float after(const struct pare_node *n, float v)
{
    struct pare_act_spec s = spec(n);

    return pare_fused_act_at(&s, v);
}

static bool linear(const struct pare_node *n, struct pare_linear *l)
{
    if (!pare_op_gemm.linear(n, l))
        return false;
    l->after = after;
    return true;
}

const struct pare_op pare_op_fused_gemm = {
    .type = "FusedGemm",
    .doc = "Fully connected layer with an activation.",
    .domain = "com.microsoft",
    .since = 1,
    .in = "TTT?",
    .types = PARE_T_FLOAT,
    .min_out = 1,
    .max_out = 1,
    .attrs = attrs,
    .attr_size = sizeof(struct fused_gemm),
    .torch = "Linear",
    .layer = { .kind = PARE_LAYER_LINEAR,
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
};

bool pare_fused_gemm_parts(const struct pare_node *n, struct pare_fused_parts *p)
{
    struct pare_err err;

    if (n->op != &pare_op_fused_gemm || find_act(n, &p->act, &err))
        return false;
    p->first = &pare_op_gemm;
    p->n_in = n->n_in;
    p->added = NULL;
    return true;
}

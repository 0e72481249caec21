/* group_normalization.c - GroupNormalization: normalize groups of channels of each sample.
 *
 *     y = (x - mean) / sqrt(var + epsilon) * scale + bias
 *
 * with the moments of each group; scale and bias are per channel from opset 21 on, and were per
 * group before.
 */
#include <math.h>

#include "norm.h"

struct group_norm {
    double epsilon;
    int64_t num_groups, stash_type;
};

#define AT(field) offsetof(struct group_norm, field)
static const struct pare_opt attrs[] = {
    PARE_FLOAT("epsilon", AT(epsilon), "added to the variance", 1e-5, PARE_NO_MIN, PARE_NO_MAX),
    { "num_groups", "number of groups of channels", PARE_OPT_INT, AT(num_groups), 1, 1, INT32_MAX,
      NULL, NULL, true, NULL },
    PARE_INT("stash_type", AT(stash_type), "element type to compute the moments in", 1, 1, 16),
    PARE_OPT_END
};

double pare_group_norm_epsilon(const struct pare_node *n)
{
    const struct group_norm *a = n->attr;

    return a->epsilon;
}

int64_t pare_group_norm_groups(const struct pare_node *n)
{
    const struct group_norm *a = n->attr;

    return a->num_groups;
}

bool pare_group_norm_per_channel(const struct pare_node *n)
{
    return n->version >= 21;
}

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t;
    int64_t G = pare_group_norm_groups(n), inner, count;
    char buf[PARE_SHAPE_TEXT];

    PARE_TRY(pare_norm_inner(x, 1, &inner, err));
    PARE_TRY(pare_norm_inner(x, 2, &inner, err));
    if (x->dim[1] % G)
        return pare_fail(err, PARE_ESHAPE,
                         "X is %s, whose channels are not divisible into %lld groups",
                         pare_shape_text(x, buf, sizeof(buf)), (long long)G);
    count = pare_group_norm_per_channel(n) ? x->dim[1] : G;
    PARE_TRY(pare_norm_param(n, 1, "scale", count, err));
    PARE_TRY(pare_norm_param(n, 2, "bias", count, err));
    return pare_infer_same(n, err);
}

static int forward(struct pare_node *n, struct pare_ctx *ctx, struct pare_err *err)
{
    const float *x = pare_f32(&n->in[0]->t);
    const float *scale = pare_f32(&n->in[1]->t), *bias = pare_f32(&n->in[2]->t);
    float *y = pare_f32_mut(&n->out[0]->t);
    int64_t G = pare_group_norm_groups(n), C = n->in[0]->t.dim[1] / G, inner;
    int64_t count = C ? n->in[0]->t.dim[0] * G : 0;

    (void)ctx;
    PARE_TRY(pare_norm_inner(&n->in[0]->t, 2, &inner, err));
    for (int64_t i = 0; i < count && inner; i++) {
        double mean, var;

        pare_moments(x, C * inner, &mean, &var);
        for (int64_t c = 0; c < C; c++, x += inner, y += inner) {
            int64_t at = pare_group_norm_per_channel(n) ? i % G * C + c : i % G;
            float f = (float)((double)scale[at] / sqrt(var + pare_group_norm_epsilon(n)));

            for (int64_t k = 0; k < inner; k++)
                y[k] = (x[k] - (float)mean) * f + bias[at];
        }
    }
    return 0;
}

static int backward(struct pare_node *n, struct pare_ctx *ctx, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t;
    float *gx = pare_f32_mut(&n->in[0]->grad), *gscale = pare_f32_mut(&n->in[1]->grad);
    float *gbias = pare_f32_mut(&n->in[2]->grad);
    int64_t G = pare_group_norm_groups(n), C = x->dim[1] / G, inner;
    int64_t count = C ? x->dim[0] * G : 0, step = pare_group_norm_per_channel(n);

    (void)ctx;
    PARE_TRY(pare_norm_inner(x, 2, &inner, err));
    for (int64_t i = 0; i < count && inner && n->out[0]->grad.data; i++) {
        struct pare_norm_group g = { .channels = C, .inner = inner, .step = step };
        int64_t at = step ? i % G * C : i % G;

        g.x = pare_f32(x) + i * C * inner;
        g.gy = pare_f32(&n->out[0]->grad) + i * C * inner;
        g.scale = pare_f32(&n->in[1]->t) + at;
        g.gx = gx ? gx + i * C * inner : NULL;
        g.gscale = gscale ? gscale + at : NULL;
        g.gbias = gbias ? gbias + at : NULL;
        g.epsilon = pare_group_norm_epsilon(n);
        pare_norm_group_back(&g);
    }
    return 0;
}

/* A group is removed as a whole; the groups are virtual axis 0 of the node. */
static void ties(const struct pare_node *n, struct pare_ties *t)
{
    int64_t G = pare_group_norm_groups(n), C = n->in[0]->t.dim[1];
    const struct pare_digit digit[2] = { { NULL, 0, G }, { NULL, -1, C / G } };

    pare_tie(t, n->in[0], 0, n->out[0], 0);
    pare_tie(t, n->in[0], 1, n->out[0], 1);
    pare_tie_digits(t, n->in[0], 1, digit, 2);
    for (int i = 1; i <= 2; i++)
        if (pare_group_norm_per_channel(n))
            pare_tie(t, n->in[i], 0, n->out[0], 1);
        else
            pare_tie_digits(t, n->in[i], 0, digit, 1);
}

/* A group of constant channels has constant moments. */
static float constant_output(const struct pare_node *n, const struct pare_needed *s, int k,
                             int axis, int64_t i)
{
    int64_t C = n->in[0]->t.dim[1] / pare_group_norm_groups(n), first = i / (C ? C : 1) * C;
    int64_t at = pare_group_norm_per_channel(n) ? i : i / (C ? C : 1);
    const float *scale = n->in[1]->t.data, *bias = n->in[2]->t.data;
    double mean = 0, var = 0, x;

    (void)k;
    if (axis != 1 || !C || !scale || !bias || n->in[1]->t.dtype != PARE_F32 ||
        !(n->in[1]->flags & n->in[2]->flags & PARE_V_CONST))
        return NAN;
    for (int64_t c = 0; c < C; c++)
        mean += (double)pare_needed_constant(s, n->in[0], 1, first + c) / (double)C;
    for (int64_t c = 0; c < C; c++) {
        x = (double)pare_needed_constant(s, n->in[0], 1, first + c) - mean;
        var += x * x / (double)C;
    }
    x = (double)pare_needed_constant(s, n->in[0], 1, i) - mean;
    return (float)(x * (double)scale[at] / sqrt(var + pare_group_norm_epsilon(n))) + bias[at];
}

static void axes(const struct pare_node *n, int *out, int *in)
{
    (void)n;
    *out = 0;
    *in = -1;
}

/* Whole groups are removed. */
static void shrink(const struct pare_node *n, struct pare_shrunk *s)
{
    int64_t C = n->in[0]->t.dim[1], G = pare_group_norm_groups(n);

    if (C)
        pare_shrunk_int(s, "num_groups", pare_shrunk_dim(s, n->in[0], 1) / (C / G));
}

const struct pare_op pare_op_group_normalization = {
    .type = "GroupNormalization",
    .doc = "Normalize groups of channels of each sample, then scale and shift them.",
    .since = 18,
    .in = "TTT",
    .types = PARE_T_FLOAT,
    .min_out = 1,
    .max_out = 1,
    .attrs = attrs,
    .attr_size = sizeof(struct group_norm),
    .torch = "GroupNorm",
    .layer = { .params = PARE_IN(1) | PARE_IN(2), .weight = 1, .bias = 2, .norm = true },
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .ties = ties,
    .axes = axes,
    .shrink = shrink,
    .constant_output = constant_output,
};

/* clip.c - Clip: y = min(hi, max(lo, x)); NaN stays NaN. */
#include "../math/elementwise.h"

/* The bounds are attributes before opset 11 and inputs since then; both are optional. */
struct clip {
    double min, max;
};

static const struct pare_opt clip_attrs[] = {
    PARE_FLOAT("min", offsetof(struct clip, min), "lower bound, before opset 11", -FLT_MAX,
               -INFINITY, INFINITY),
    PARE_FLOAT("max", offsetof(struct clip, max), "upper bound, before opset 11", FLT_MAX,
               -INFINITY, INFINITY),
    PARE_OPT_END
};

static const struct pare_tensor *bound(const struct pare_node *n, int i)
{
    return n->version >= 11 && i < n->n_in && n->in[i] ? &n->in[i]->t : NULL;
}

static double lo(const struct pare_node *n)
{
    const struct clip *a = n->attr;
    const struct pare_tensor *t = bound(n, 1);

    return t ? pare_get(t, 0) : n->version < 11 ? a->min : -INFINITY;
}

static double hi(const struct pare_node *n)
{
    const struct clip *a = n->attr;
    const struct pare_tensor *t = bound(n, 2);

    return t ? pare_get(t, 0) : n->version < 11 ? a->max : INFINITY;
}

static int infer(struct pare_node *n, struct pare_err *err)
{
    char buf[PARE_SHAPE_TEXT];

    for (int i = 1; i <= 2; i++)
        if (bound(n, i) && pare_numel(bound(n, i)) != 1)
            return pare_fail(err, PARE_ESHAPE, "the bound '%s' is %s, expected a scalar",
                             n->in[i]->name, pare_shape_text(bound(n, i), buf, sizeof(buf)));
    return pare_infer_same(n, err);
}

PARE_SIMD static void map(const struct pare_node *n, const float *x, float *y, int64_t count)
{
    const float low = (float)lo(n), high = (float)hi(n);

#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        float v = x[i] < low ? low : x[i];

        y[i] = v > high ? high : v;
    }
}

PARE_DMAP_WITH(x >= low && x <= high ? g : 0, const float low = (float)lo(n), high = (float)hi(n))

#define WHOLE(dtype, type)                                                          \
    case dtype:                                                                     \
        for (int64_t i = 0; i < count; i++) {                                       \
            type v = ((const type *)x->data)[i];                                    \
                                                                                    \
            v = min && v < *(const type *)min->data ? *(const type *)min->data : v; \
            v = max && v > *(const type *)max->data ? *(const type *)max->data : v; \
            ((type *)y->data)[i] = v;                                               \
        }                                                                           \
        return 0;

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t, *y = &n->out[0]->t;
    const struct pare_tensor *min = bound(n, 1), *max = bound(n, 2);
    const double low = lo(n), high = hi(n);
    int64_t count = pare_numel(x);

    switch ((int)x->dtype) {
        PARE_INT_TYPES(WHOLE)
    case PARE_F64:
        for (int64_t i = 0; i < count; i++) {
            double v = ((const double *)x->data)[i];

            v = v < low ? low : v;
            ((double *)y->data)[i] = v > high ? high : v;
        }
        return 0;
    default: return pare_forward_map(n, c, err);
    }
}

/* A bound gets the gradients of the elements it replaced; the upper one wins if they cross. */
static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const float *x = pare_f32(&n->in[0]->t), *gy = pare_f32(&n->out[0]->grad);
    const float low = (float)lo(n), high = (float)hi(n);
    float *g_low = bound(n, 1) ? pare_f32_mut(&n->in[1]->grad) : NULL;
    float *g_high = bound(n, 2) ? pare_f32_mut(&n->in[2]->grad) : NULL;
    int64_t count = pare_numel(&n->in[0]->t);
    double below = 0, above = 0;

    for (int64_t i = 0; gy && (g_low || g_high) && i < count; i++) {
        float v = x[i] < low ? low : x[i];

        above += v > high ? (double)gy[i] : 0;
        below += x[i] < low && low <= high ? (double)gy[i] : 0;
    }
    if (g_low)
        g_low[0] += (float)below;
    if (g_high)
        g_high[0] += (float)above;
    return pare_backward_map(n, c, err);
}

static bool clamp(const struct pare_node *n, double *low, double *high)
{
    for (int i = 1; i <= 2; i++)
        if (bound(n, i) && (!(n->in[i]->flags & PARE_V_CONST) || !bound(n, i)->data))
            return false;
    *low = lo(n);
    *high = hi(n);
    return true;
}

const struct pare_op pare_op_clip = {
    .type = "Clip",
    .doc = "Clamp values to an interval.",
    .since = 6,
    .in = "TT?T?",
    .types = PARE_T_NUMERIC,
    .min_out = 1,
    .max_out = 1,
    .attrs = clip_attrs,
    .attr_size = sizeof(struct clip),
    .flags = PARE_OP_FUSED_ACT,
    .torch = "ReLU6",
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .ties = pare_ties_elementwise,
    .map = map,
    .clamp = clamp,
    .dmap = dmap,
    .settings = 0x6,
};

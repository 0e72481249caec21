/* simplified_layer_normalization.c - SimplifiedLayerNormalization (ONNX Runtime): RMS norm.
 *
 *     y = x * inv_std * scale,   inv_std = 1 / sqrt(mean of x^2 + epsilon)
 *
 * over the axes from `axis` on.  ONNX Runtime writes it in the standard domain.
 */
#include <math.h>

#include "../nn/norm.h"
#include "../shape/movement.h"

struct rms {
    int64_t axis, stash_type;
    double epsilon;
};

#define AT(field) offsetof(struct rms, field)
static const struct pare_opt attrs[] = {
    PARE_INT("axis", AT(axis), "first axis to normalize", -1, PARE_ANY),
    PARE_FLOAT("epsilon", AT(epsilon), "added to the mean square", 1e-5, PARE_ANY),
    PARE_INT("stash_type", AT(stash_type), "element type of the inverse deviation", 1, 1, 1),
    PARE_OPT_END
};

static int first_axis(const struct pare_node *n)
{
    const struct rms *a = n->attr;

    return (int)(a->axis < 0 ? a->axis + n->in[0]->t.rank : a->axis);
}

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct rms *a = n->attr;
    const struct pare_tensor *x = &n->in[0]->t, *scale = &n->in[1]->t;
    char bx[PARE_SHAPE_TEXT], bs[PARE_SHAPE_TEXT];
    int64_t inner;
    int axis;

    PARE_TRY(pare_axis(a->axis, x->rank, &axis, err));
    PARE_TRY(pare_norm_inner(x, axis, &inner, err));
    if (pare_numel(scale) != inner)
        return pare_fail(err, PARE_ESHAPE,
                         "the scale is %s but the input is %s, normalized from axis %d on",
                         pare_shape_text(scale, bs, sizeof(bs)), pare_shape_text(x, bx, sizeof(bx)),
                         axis);
    pare_like(&n->out[0]->t, x);
    if (n->n_out > 1 && n->out[1]) {
        pare_like(&n->out[1]->t, x);
        n->out[1]->t.dtype = PARE_F32;
        for (int i = axis; i < x->rank; i++)
            n->out[1]->t.dim[i] = 1;
    }
    return 0;
}

static double inverse(const struct pare_node *n, const float *x, int64_t inner)
{
    const struct rms *a = n->attr;

    return 1 / sqrt(pare_row_squares(x, inner, 0) / (double)inner + a->epsilon);
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const float *x = pare_f32(&n->in[0]->t), *scale = pare_f32(&n->in[1]->t);
    float *y = pare_f32(&n->out[0]->t);
    float *stash = n->n_out > 1 && n->out[1] ? pare_f32(&n->out[1]->t) : NULL;
    int64_t inner, rows;

    (void)c;
    PARE_TRY(pare_norm_inner(&n->in[0]->t, first_axis(n), &inner, err));
    rows = pare_span(&n->in[0]->t, 0, first_axis(n));
    if (pare_is_empty(&n->in[0]->t))
        return 0;
    for (int64_t i = 0; i < rows; i++, x += inner, y += inner) {
        double r = inverse(n, x, inner);

        for (int64_t k = 0; k < inner; k++)
            y[k] = x[k] * (float)r * scale[k];
        if (stash)
            stash[i] = (float)r;
    }
    return 0;
}

/* d inv_std / dx = -inv_std^3 x / n; g = dL/d(x inv_std). */
static void back_row(const struct pare_node *n, int64_t row, int64_t inner, double *gscale)
{
    const float *x = pare_f32(&n->in[0]->t) + row * inner, *scale = pare_f32(&n->in[1]->t);
    const float *gy = pare_f32(&n->out[0]->grad);
    float *gx = pare_f32(&n->in[0]->grad);
    double r = inverse(n, x, inner), sum = 0;

    for (int64_t k = 0; gy && k < inner; k++) {
        double g = (double)gy[row * inner + k];

        sum += g * (double)scale[k] * (double)x[k];
        gscale[k] += g * (double)x[k] * r;
    }
    if (n->n_out > 1 && n->out[1] && n->out[1]->grad.data)
        sum += (double)pare_f32(&n->out[1]->grad)[row];
    for (int64_t k = 0; gx && k < inner; k++) {
        double g = gy ? (double)gy[row * inner + k] * (double)scale[k] : 0;

        gx[row * inner + k] += (float)(r * g - r * r * r / (double)inner * (double)x[k] * sum);
    }
}

static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    int64_t inner, rows;
    double *gscale;

    PARE_TRY(pare_norm_inner(&n->in[0]->t, first_axis(n), &inner, err));
    rows = pare_span(&n->in[0]->t, 0, first_axis(n));
    if (pare_is_empty(&n->in[0]->t))
        return 0;
    gscale = pare_alloc(c->scratch, (size_t)inner, sizeof(*gscale));
    if (!gscale)
        return pare_no_memory(err, "for gradients of %lld elements", (long long)inner);
    for (int64_t i = 0; i < rows; i++)
        back_row(n, i, inner, gscale);
    for (int64_t k = 0; n->in[1]->grad.data && k < inner; k++)
        pare_f32(&n->in[1]->grad)[k] += (float)gscale[k];
    return 0;
}

static void axes(const struct pare_node *n, int *out, int *in)
{
    *out = n->in[1]->t.rank - 1;
    *in = -1;
}

/* Normalized axes are frozen. */
static void ties(const struct pare_node *n, struct pare_ties *t)
{
    pare_ties_except(n, ~0u << first_axis(n), t);
}

const struct pare_op pare_op_simplified_layer_normalization = {
    .type = "SimplifiedLayerNormalization",
    .doc = "Divide each sample by its root mean square over the last axes, then scale.",
    .since = 1,
    .in = "TT",
    .types = PARE_T_FLOAT,
    .min_out = 1,
    .max_out = 2,
    .attrs = attrs,
    .attr_size = sizeof(struct rms),
    .torch = "RMSNorm",
    .layer = { .params = PARE_IN(1), .weight = 1 },
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .ties = ties,
    .axes = axes,
};

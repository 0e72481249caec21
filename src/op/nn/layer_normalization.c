/* layer_normalization.c - LayerNormalization: normalize over the axes from `axis` on.
 *
 *     y = (x - mean) * inv_std * scale + B,   inv_std = 1 / sqrt(var + epsilon)
 *
 * scale and B broadcast to the normalized axes; mean and inv_std are further outputs.
 */
#include <math.h>

#include "norm.h"

struct layer_norm {
    int64_t axis, stash_type;
    double epsilon;
};

#define AT(field) offsetof(struct layer_norm, field)
static const struct pare_opt attrs[] = {
    PARE_INT("axis", AT(axis), "first axis to normalize", -1, PARE_NO_MIN, PARE_NO_MAX),
    PARE_FLOAT("epsilon", AT(epsilon), "added to the variance", 1e-5, PARE_NO_MIN, PARE_NO_MAX),
    PARE_INT("stash_type", AT(stash_type), "element type of mean and inverse deviation", 1, 1, 16),
    PARE_OPT_END
};

double pare_layer_norm_epsilon(const struct pare_node *n)
{
    const struct layer_norm *a = n->attr;

    return a->epsilon;
}

int pare_layer_norm_axis(const struct pare_node *n)
{
    const struct layer_norm *a = n->attr;

    return (int)(a->axis < 0 ? a->axis + n->in[0]->t.rank : a->axis);
}

/* The normalized axes of X as a tensor. */
static struct pare_tensor normalized(const struct pare_node *n)
{
    const struct pare_tensor *x = &n->in[0]->t;
    struct pare_tensor t = { .dtype = x->dtype };

    for (int i = pare_layer_norm_axis(n); i < x->rank; i++)
        t.dim[t.rank++] = x->dim[i];
    return t;
}

static int check_param(const struct pare_node *n, int i, const char *name, struct pare_err *err)
{
    struct pare_tensor t = normalized(n), both = t;
    char bt[PARE_SHAPE_TEXT], bp[PARE_SHAPE_TEXT];

    if (i >= n->n_in || !n->in[i])
        return 0;
    if (pare_broadcast(&both, &t, &n->in[i]->t, err) || !pare_same_shape(&both, &t))
        return pare_fail(err, PARE_ESHAPE,
                         "%s is %s, which does not broadcast to the normalized "
                         "axes %s",
                         name, pare_shape_text(&n->in[i]->t, bp, sizeof(bp)),
                         pare_shape_text(&t, bt, sizeof(bt)));
    return 0;
}

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct layer_norm *a = n->attr;
    const struct pare_tensor *x = &n->in[0]->t;
    int64_t inner;
    int axis;

    PARE_TRY(pare_axis(a->axis, x->rank, &axis, err));
    PARE_TRY(pare_norm_inner(x, axis, &inner, err));
    PARE_TRY(check_param(n, 1, "scale", err));
    PARE_TRY(check_param(n, 2, "B", err));
    if (a->stash_type != PARE_F32 && a->stash_type != PARE_F64 && a->stash_type != PARE_F16 &&
        a->stash_type != PARE_BF16)
        return pare_fail(err, PARE_EUNSUPPORTED,
                         "stash_type is %lld, which is not a "
                         "floating-point type",
                         (long long)a->stash_type);
    pare_like(&n->out[0]->t, x);
    for (int k = 1; k < n->n_out; k++)
        if (n->out[k]) {
            pare_like(&n->out[k]->t, x);
            n->out[k]->t.dtype = (enum pare_dtype)a->stash_type;
            for (int i = axis; i < x->rank; i++)
                n->out[k]->t.dim[i] = 1;
        }
    return 0;
}

/* scale or B broadcast to the normalized axes; `absent` everywhere without one.  NULL: no memory.
 */
static const float *spread(const struct pare_node *n, int i, float absent, int64_t inner,
                           struct pare_arena *a)
{
    struct pare_tensor t = normalized(n);
    const struct pare_tensor *in[1] = { i < n->n_in && n->in[i] ? &n->in[i]->t : NULL };
    float *v = pare_alloc_raw(a, (size_t)inner, sizeof(*v));
    struct pare_walk w;

    if (!v)
        return NULL;
    if (in[0])
        pare_walk_start(&w, &t, in, 1);
    for (int64_t k = 0; k < inner; k++) {
        v[k] = in[0] ? pare_f32(in[0])[w.at[0]] : absent;
        if (in[0])
            pare_walk_next(&w);
    }
    return v;
}

static int stash(const struct pare_node *n, int i, int64_t at, double v, struct pare_err *err)
{
    const struct pare_tensor *t = i < n->n_out && n->out[i] ? &n->out[i]->t : NULL;

    if (!t)
        return 0;
    return pare_convert(t->dtype, (char *)t->data + (size_t)at * pare_dtype_size(t->dtype),
                        PARE_F64, &v, 1, err);
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const float *x = pare_f32(&n->in[0]->t), *scale, *bias;
    float *y = pare_f32_mut(&n->out[0]->t);
    bool stashes = (n->n_out > 1 && n->out[1]) || (n->n_out > 2 && n->out[2]);
    int64_t inner, rows = 1;

    PARE_TRY(pare_norm_inner(&n->in[0]->t, pare_layer_norm_axis(n), &inner, err));
    for (int i = 0; i < pare_layer_norm_axis(n); i++)
        rows *= n->in[0]->t.dim[i];
    if (!rows || (!inner && !stashes))
        return 0;
    scale = spread(n, 1, 1, inner, c->scratch);
    bias = spread(n, 2, 0, inner, c->scratch);
    if (!scale || !bias)
        return pare_no_memory(err, "for scale and bias");
    for (int64_t i = 0; i < rows; i++, x += inner, y += inner) {
        double mean, var, inv_std;

        pare_moments(x, inner, &mean, &var);
        inv_std = 1 / sqrt(var + pare_layer_norm_epsilon(n));
        for (int64_t k = 0; k < inner; k++)
            y[k] = (x[k] - (float)mean) * (float)inv_std * scale[k] + bias[k];
        PARE_TRY(stash(n, 1, i, mean, err));
        PARE_TRY(stash(n, 2, i, inv_std, err));
    }
    return 0;
}

/* Sums over all rows for each normalized element, the row's g = gy * scale, and X's gradient. */
struct back {
    const float *scale;
    double *gscale, *gbias;
    float *g;
    int64_t inner;
};

static int back_start(const struct pare_node *n, struct back *b, struct pare_ctx *c,
                      struct pare_err *err)
{
    size_t count = (size_t)b->inner;

    b->scale = spread(n, 1, 1, b->inner, c->scratch);
    b->gscale = pare_alloc(c->scratch, count, sizeof(*b->gscale));
    b->gbias = pare_alloc(c->scratch, count, sizeof(*b->gbias));
    b->g = pare_alloc(c->scratch, count, sizeof(*b->g));
    if (!b->scale || !b->gscale || !b->gbias || !b->g)
        return pare_no_memory(err, "for gradients of %lld elements", (long long)b->inner);
    return 0;
}

static double grad_of(const struct pare_node *n, int i, int64_t at)
{
    return i < n->n_out && n->out[i] && n->out[i]->grad.data
               ? (double)pare_f32(&n->out[i]->grad)[at]
               : 0;
}

/* mean and inv_std are results as well:
 *     dmean/dx = 1 / n,  dinv_std/dx = -inv_std^3 (x - mean) / n */
static void back_row(const struct pare_node *n, struct back *b, int64_t row)
{
    const float *x = pare_f32(&n->in[0]->t) + row * b->inner, *gy = pare_f32(&n->out[0]->grad);
    float *gx = pare_f32_mut(&n->in[0]->grad), f[4];
    double m[2], sum[2] = { 0, 0 }, count = (double)b->inner;

    pare_moments(x, b->inner, &m[0], &m[1]);
    m[1] = 1 / sqrt(m[1] + pare_layer_norm_epsilon(n));
    for (int64_t k = 0; k < b->inner && gy; k++) {
        float g = gy[row * b->inner + k];

        b->g[k] = g * b->scale[k];
        b->gscale[k] += (double)g * ((double)x[k] - m[0]) * m[1];
        b->gbias[k] += (double)g;
    }
    if (!gx)
        return;
    pare_norm_sums(x, b->g, b->inner, m, sum);
    f[0] = (float)m[1];
    f[1] = (float)(-m[1] * m[1] * (sum[1] + grad_of(n, 2, row) * m[1]) / count);
    f[2] = (float)m[0];
    f[3] = (float)((grad_of(n, 1, row) - m[1] * sum[0]) / count);
    pare_norm_add(x, b->g, gx + row * b->inner, b->inner, f);
}

/* Add sums over the normalized axes to the gradient of scale or B, which broadcasts to them. */
static void unspread(const struct pare_node *n, int i, const double *sum, int64_t inner)
{
    struct pare_tensor t = normalized(n);
    const struct pare_tensor *in[1] = { i < n->n_in && n->in[i] ? &n->in[i]->grad : NULL };
    struct pare_walk w;

    if (!in[0] || !in[0]->data)
        return;
    pare_walk_start(&w, &t, in, 1);
    for (int64_t k = 0; k < inner; k++, pare_walk_next(&w))
        pare_f32_mut(in[0])[w.at[0]] += (float)sum[k];
}

static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    int64_t rows = 1;
    struct back b = { 0 };

    PARE_TRY(pare_norm_inner(&n->in[0]->t, pare_layer_norm_axis(n), &b.inner, err));
    for (int i = 0; i < pare_layer_norm_axis(n); i++)
        rows *= n->in[0]->t.dim[i];
    if (!rows || !b.inner)
        return 0;
    PARE_TRY(back_start(n, &b, c, err));
    for (int64_t i = 0; i < rows; i++)
        back_row(n, &b, i);
    unspread(n, 1, b.gscale, b.inner);
    unspread(n, 2, b.gbias, b.inner);
    return 0;
}

static void axes(const struct pare_node *n, int *out, int *in)
{
    *out = n->in[1]->t.rank - 1;
    *in = -1;
}

static void ties(const struct pare_node *n, struct pare_ties *t)
{
    pare_norm_row_ties(n, pare_layer_norm_axis(n), t);
}

const struct pare_op pare_op_layer_normalization = {
    .type = "LayerNormalization",
    .doc = "Normalize each sample over its last axes, then scale and shift.",
    .since = 1, /* ONNX Runtime writes it in files of any opset; the standard has it from 17 on */
    .in = "TTT?",
    .types = PARE_T_FLOAT,
    .min_out = 1,
    .max_out = 3,
    .attrs = attrs,
    .attr_size = sizeof(struct layer_norm),
    .torch = "LayerNorm",
    .layer = { .params = PARE_IN(1) | PARE_IN(2),
               .weight = 1,
               .bias = 2,
               .follows = true,
               .norm = true },
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .ties = ties,
    .shrink = pare_norm_row_shrink,
    .constant_output = pare_norm_row_constant,
    .row_axis = pare_layer_norm_axis,
    .axes = axes,
};

/* rms_family.c - shared by RMSNormalization and SimplifiedLayerNormalization: RMS norm. */
#include "rms_family.h"

#include <math.h>
#include <string.h>

#include "norm.h"
#include "../shape/movement.h"

#define AT(field) offsetof(struct pare_rms, field)
const struct pare_opt pare_rms_attrs[] = {
    PARE_INT("axis", AT(axis), "first axis to normalize", -1, PARE_NO_MIN, PARE_NO_MAX),
    PARE_FLOAT("epsilon", AT(epsilon), "added to the mean square", 1e-5, PARE_NO_MIN, PARE_NO_MAX),
    PARE_INT("stash_type", AT(stash_type), "element type to compute in; float32 or float64", 1, 1,
             16),
    PARE_OPT_END
};

static int first_axis(const struct pare_node *n)
{
    const struct pare_rms *a = n->attr;

    return (int)(a->axis < 0 ? a->axis + n->in[0]->t.rank : a->axis);
}

/* The normalized axes of X. */
static struct pare_tensor normalized(const struct pare_node *n, int axis)
{
    const struct pare_tensor *x = &n->in[0]->t;
    struct pare_tensor t = { .dtype = PARE_F32, .rank = x->rank - axis };

    memcpy(t.dim, x->dim + axis, (size_t)t.rank * sizeof(*t.dim));
    return t;
}

/* Whether the scale broadcasts to the normalized axes. */
static bool fits(const struct pare_node *n, int axis)
{
    const struct pare_tensor *scale = &n->in[1]->t;
    struct pare_tensor t = normalized(n, axis);
    bool same = scale->rank <= t.rank;

    for (int i = 1; same && i <= scale->rank; i++)
        same = scale->dim[scale->rank - i] == 1 || scale->dim[scale->rank - i] == t.dim[t.rank - i];
    return same;
}

/* index[k]: the element of the scale for element k of the normalized axes; NULL: no memory. */
static int64_t *scale_index(const struct pare_node *n, int64_t inner, struct pare_ctx *c)
{
    const struct pare_tensor *scale[1] = { &n->in[1]->t };
    struct pare_tensor t = normalized(n, first_axis(n));
    int64_t *index = pare_alloc_raw(c->scratch, (size_t)inner, sizeof(*index));
    struct pare_walk w;

    if (index && pare_numel(scale[0]) != inner)
        pare_walk_start(&w, &t, scale, 1);
    for (int64_t k = 0; index && k < inner; k++) {
        index[k] = pare_numel(scale[0]) != inner ? w.at[0] : k;
        if (pare_numel(scale[0]) != inner)
            pare_walk_next(&w);
    }
    return index;
}

int pare_rms_infer(struct pare_node *n, struct pare_err *err)
{
    const struct pare_rms *a = n->attr;
    const struct pare_tensor *x = &n->in[0]->t, *scale = &n->in[1]->t;
    char bx[PARE_SHAPE_TEXT], bs[PARE_SHAPE_TEXT];
    int64_t inner;
    int axis;

    PARE_TRY(pare_axis(a->axis, x->rank, &axis, err));
    PARE_TRY(pare_norm_inner(x, axis, &inner, err));
    if (pare_numel(scale) != inner && !fits(n, axis))
        return pare_fail(err, PARE_ESHAPE,
                         "the scale is %s but the input is %s, normalized from axis %d on",
                         pare_shape_text(scale, bs, sizeof(bs)), pare_shape_text(x, bx, sizeof(bx)),
                         axis);
    pare_like(&n->out[0]->t, x);
    if (n->n_out > 1 && n->out[1] && a->stash_type != PARE_F32)
        return pare_fail(err, PARE_EUNSUPPORTED,
                         "stash_type is %lld; an inverse deviation is returned as float32 only",
                         (long long)a->stash_type);
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
    const struct pare_rms *a = n->attr;

    return 1 / sqrt(pare_row_squares(x, inner, 0) / (double)inner + a->epsilon);
}

int pare_rms_forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const float *x = pare_f32(&n->in[0]->t), *scale = pare_f32(&n->in[1]->t);
    float *y = pare_f32_mut(&n->out[0]->t);
    float *stash = n->n_out > 1 && n->out[1] ? pare_f32_mut(&n->out[1]->t) : NULL;
    int64_t inner, rows, *at;

    PARE_TRY(pare_norm_inner(&n->in[0]->t, first_axis(n), &inner, err));
    rows = pare_span(&n->in[0]->t, 0, first_axis(n));
    if (pare_is_empty(&n->in[0]->t))
        return 0;
    at = scale_index(n, inner, c);
    if (!at)
        return pare_no_memory(err, "for the scale");
    for (int64_t i = 0; i < rows; i++, x += inner, y += inner) {
        double r = inverse(n, x, inner);

        for (int64_t k = 0; k < inner; k++)
            y[k] = x[k] * (float)r * scale[at[k]];
        if (stash)
            stash[i] = (float)r;
    }
    return 0;
}

/* d inv_std / dx = -inv_std^3 x / n; g = dL/d(x inv_std). */
static void back_row(const struct pare_node *n, int64_t row, int64_t inner, const int64_t *at,
                     double *gscale)
{
    const float *x = pare_f32(&n->in[0]->t) + row * inner, *scale = pare_f32(&n->in[1]->t);
    const float *gy = pare_f32(&n->out[0]->grad);
    float *gx = pare_f32_mut(&n->in[0]->grad);
    double r = inverse(n, x, inner), sum = 0;

    for (int64_t k = 0; gy && k < inner; k++) {
        double g = (double)gy[row * inner + k];

        sum += g * (double)scale[at[k]] * (double)x[k];
        gscale[at[k]] += g * (double)x[k] * r;
    }
    if (n->n_out > 1 && n->out[1] && n->out[1]->grad.data)
        sum += (double)pare_f32(&n->out[1]->grad)[row];
    for (int64_t k = 0; gx && k < inner; k++) {
        double g = gy ? (double)gy[row * inner + k] * (double)scale[at[k]] : 0;

        gx[row * inner + k] += (float)(r * g - r * r * r / (double)inner * (double)x[k] * sum);
    }
}

int pare_rms_backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    int64_t inner, rows, *at;
    double *gscale;

    PARE_TRY(pare_norm_inner(&n->in[0]->t, first_axis(n), &inner, err));
    rows = pare_span(&n->in[0]->t, 0, first_axis(n));
    if (pare_is_empty(&n->in[0]->t))
        return 0;
    gscale = pare_alloc(c->scratch, (size_t)inner, sizeof(*gscale));
    at = scale_index(n, inner, c);
    if (!gscale || !at)
        return pare_no_memory(err, "for gradients of %lld elements", (long long)inner);
    for (int64_t i = 0; i < rows; i++)
        back_row(n, i, inner, at, gscale);
    for (int64_t k = 0; n->in[1]->grad.data && k < pare_numel(&n->in[1]->t); k++)
        pare_f32_mut(&n->in[1]->grad)[k] += (float)gscale[k];
    return 0;
}

void pare_rms_axes(const struct pare_node *n, int *out, int *in)
{
    *out = n->in[1]->t.rank - 1;
    *in = -1;
}

void pare_rms_ties(const struct pare_node *n, struct pare_ties *t)
{
    pare_norm_row_ties(n, first_axis(n), t);
}

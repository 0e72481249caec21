/* lp_normalization.c - LpNormalization: divide by the 1- or 2-norm along an axis.
 *
 * Where the norm is zero, the result is zero.
 */
#include <math.h>

#include "norm.h"

struct lp_norm {
    int64_t axis, p;
};

static const struct pare_opt attrs[] = {
    PARE_INT("axis", offsetof(struct lp_norm, axis), "axis to normalize", -1, PARE_NO_MIN,
             PARE_NO_MAX),
    PARE_INT("p", offsetof(struct lp_norm, p), "norm: 1 or 2", 2, 1, 2), PARE_OPT_END
};

static int infer(struct pare_node *n, struct pare_err *err)
{
    const struct lp_norm *a = n->attr;
    const struct pare_tensor *x = &n->in[0]->t;
    int64_t inner;
    int axis;

    PARE_TRY(pare_axis(a->axis, x->rank, &axis, err));
    PARE_TRY(pare_norm_inner(x, axis, &inner, err));
    return pare_infer_same(n, err);
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct lp_norm *a = n->attr;
    const struct pare_tensor *x = &n->in[0]->t;
    int64_t outer = 1, inner, D;
    int axis;

    (void)c;
    PARE_TRY(pare_axis(a->axis, x->rank, &axis, err));
    PARE_TRY(pare_norm_inner(x, axis + 1, &inner, err));
    D = x->dim[axis];
    for (int i = 0; i < axis; i++)
        outer *= x->dim[i];
    for (int64_t i = 0; i < outer && D && inner; i++)
        for (int64_t k = 0; k < inner; k++) {
            const float *from = pare_f32(x) + i * D * inner + k;
            float *to = pare_f32_mut(&n->out[0]->t) + i * D * inner + k;
            double norm = 0;

            for (int64_t d = 0; d < D; d++) {
                double v = (double)from[d * inner];

                norm += a->p == 1 ? fabs(v) : v * v;
            }
            norm = a->p == 1 ? norm : sqrt(norm);
            for (int64_t d = 0; d < D; d++)
                to[d * inner] = norm != 0 ? (float)((double)from[d * inner] / norm) : 0;
        }
    return 0;
}

/* One lane: with the norm N,  dL/dx = (gy - dN/dx * sum of gy y) / N,  where dN/dx is y for p = 2
 * and the sign of x for p = 1. */
static void back_lane(const struct pare_node *n, int64_t at, int64_t D, int64_t step)
{
    const struct lp_norm *a = n->attr;
    const float *x = pare_f32(&n->in[0]->t) + at, *y = pare_f32(&n->out[0]->t) + at;
    const float *gy = pare_f32(&n->out[0]->grad) + at;
    float *gx = pare_f32_mut(&n->in[0]->grad) + at;
    double norm = 0, sum = 0;

    for (int64_t d = 0; d < D; d++) {
        double v = (double)x[d * step];

        norm += a->p == 1 ? fabs(v) : v * v;
        sum += (double)gy[d * step] * (double)y[d * step];
    }
    norm = a->p == 1 ? norm : sqrt(norm);
    for (int64_t d = 0; d < D && norm != 0; d++) {
        double v = (double)x[d * step], slope = a->p == 1 ? (v > 0) - (v < 0) : v / norm;

        gx[d * step] += (float)(((double)gy[d * step] - slope * sum) / norm);
    }
}

static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct lp_norm *a = n->attr;
    const struct pare_tensor *x = &n->in[0]->t;
    int64_t outer = 1, inner, D;
    int axis;

    (void)c;
    if (!n->in[0]->grad.data || !n->out[0]->grad.data)
        return 0;
    PARE_TRY(pare_axis(a->axis, x->rank, &axis, err));
    PARE_TRY(pare_norm_inner(x, axis + 1, &inner, err));
    D = x->dim[axis];
    for (int i = 0; i < axis; i++)
        outer *= x->dim[i];
    for (int64_t i = 0; i < outer && D && inner; i++)
        for (int64_t k = 0; k < inner; k++)
            back_lane(n, i * D * inner + k, D, inner);
    return 0;
}

static void ties(const struct pare_node *n, struct pare_ties *t)
{
    const struct lp_norm *a = n->attr;

    pare_ties_except(n, 1u << (a->axis < 0 ? a->axis + n->in[0]->t.rank : a->axis), t);
}

const struct pare_op pare_op_lp_normalization = {
    .type = "LpNormalization",
    .doc = "Divide by the norm along an axis.",
    .since = 1,
    .in = "T",
    .types = PARE_T_FLOAT,
    .min_out = 1,
    .max_out = 1,
    .attrs = attrs,
    .attr_size = sizeof(struct lp_norm),
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .ties = ties,
    .flags = PARE_OP_WIDE,
};

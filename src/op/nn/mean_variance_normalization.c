/* mean_variance_normalization.c - MeanVarianceNormalization: (x - mean) / (deviation + 1e-9).
 *
 * The moments are over `axes`; the constant 1e-9 is that of ONNX's definition.
 */
#include <math.h>

#include "../op.h"

struct mvn {
    struct pare_ints axes;
};

static const struct pare_opt attrs[] = {
    PARE_INTS("axes", offsetof(struct mvn, axes),
              "axes to normalize (default: all but channels of a 4-D tensor)", PARE_NO_MIN,
              PARE_NO_MAX),
    PARE_OPT_END
};

/* The shape of the moments: X's, with 1 along the axes. */
static int moments_shape(const struct pare_node *n, struct pare_tensor *m, struct pare_err *err)
{
    static const int64_t usual[] = { 0, 2, 3 };
    const struct mvn *a = n->attr;
    struct pare_ints axes = a->axes.n ? a->axes : (struct pare_ints){ usual, 3 };

    *m = n->in[0]->t;
    m->dtype = PARE_F64;
    for (int i = 0; i < axes.n; i++) {
        int axis;

        PARE_TRY(pare_axis(axes.v[i], m->rank, &axis, err));
        m->dim[axis] = 1;
    }
    return 0;
}

static int infer(struct pare_node *n, struct pare_err *err)
{
    struct pare_tensor m;

    PARE_TRY(moments_shape(n, &m, err));
    return pare_infer_same(n, err);
}

/* Sum x into m or, with a mean, its squared differences from the mean; then divide by the count. */
static void reduce(const struct pare_tensor *x, const struct pare_tensor *m, const double *mean,
                   double *sum)
{
    int64_t total = pare_numel(x), count = pare_numel(m);
    struct pare_walk w;

    pare_walk_start(&w, x, &m, 1);
    for (int64_t i = 0; i < total; i++, pare_walk_next(&w)) {
        double d = (double)pare_f32(x)[i] - (mean ? mean[w.at[0]] : 0);

        sum[w.at[0]] += mean ? d * d : d;
    }
    for (int64_t i = 0; i < count; i++)
        sum[i] /= (double)total / (double)count;
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t, *in[1];
    float *y = pare_f32_mut(&n->out[0]->t);
    int64_t total = pare_numel(x);
    struct pare_tensor shape, mean, var;
    struct pare_walk w;

    if (!total)
        return 0;
    PARE_TRY(moments_shape(n, &shape, err));
    PARE_TRY(pare_tensor_new(c->scratch, &mean, PARE_F64, shape.rank, shape.dim, err));
    PARE_TRY(pare_tensor_new(c->scratch, &var, PARE_F64, shape.rank, shape.dim, err));
    reduce(x, &mean, NULL, mean.data);
    reduce(x, &var, mean.data, var.data);
    in[0] = &mean;
    pare_walk_start(&w, x, in, 1);
    for (int64_t i = 0; i < total; i++, pare_walk_next(&w))
        y[i] = (float)(((double)pare_f32(x)[i] - ((double *)mean.data)[w.at[0]]) /
                       (sqrt(((double *)var.data)[w.at[0]]) + 1e-9));
    return 0;
}

/* Sums of gy, and of gy times the difference of x from the mean, each divided by the count. */
static void reduce_grad(const struct pare_node *n, const struct pare_tensor *mean, double *g,
                        double *gd)
{
    const struct pare_tensor *x = &n->in[0]->t;
    const float *gy = pare_f32(&n->out[0]->grad);
    int64_t total = pare_numel(x), count = pare_numel(mean);
    struct pare_walk w;

    pare_walk_start(&w, x, &mean, 1);
    for (int64_t i = 0; i < total; i++, pare_walk_next(&w)) {
        g[w.at[0]] += (double)gy[i];
        gd[w.at[0]] += (double)gy[i] * ((double)pare_f32(x)[i] - ((double *)mean->data)[w.at[0]]);
    }
    for (int64_t i = 0; i < count; i++) {
        g[i] /= (double)total / (double)count;
        gd[i] /= (double)total / (double)count;
    }
}

/* With d = x - mean, the deviation s and S = s + 1e-9,
 *     dL/dx = (gy - mean of gy) / S - d * mean of (gy d) / (s S^2);
 * where s is 0 so is every d. */
static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t, *in[1];
    const float *gy = pare_f32(&n->out[0]->grad);
    float *gx = pare_f32_mut(&n->in[0]->grad);
    int64_t total = pare_numel(x);
    struct pare_tensor shape, m[4]; /* mean, variance, mean of gy, mean of gy d */
    struct pare_walk w;

    if (!total || !gx || !gy)
        return 0;
    PARE_TRY(moments_shape(n, &shape, err));
    for (int i = 0; i < 4; i++)
        PARE_TRY(pare_tensor_new(c->scratch, &m[i], PARE_F64, shape.rank, shape.dim, err));
    reduce(x, &m[0], NULL, m[0].data);
    reduce(x, &m[1], m[0].data, m[1].data);
    reduce_grad(n, &m[0], m[2].data, m[3].data);
    in[0] = &m[0];
    pare_walk_start(&w, x, in, 1);
    for (int64_t i = 0; i < total; i++, pare_walk_next(&w)) {
        double d = (double)pare_f32(x)[i] - ((double *)m[0].data)[w.at[0]];
        double s = sqrt(((double *)m[1].data)[w.at[0]]), S = s + 1e-9;
        double g = ((double)gy[i] - ((double *)m[2].data)[w.at[0]]) / S;

        if (s > 0)
            g -= d * ((double *)m[3].data)[w.at[0]] / (s * S * S);
        gx[i] += (float)g;
    }
    return 0;
}

static void ties(const struct pare_node *n, struct pare_ties *t)
{
    struct pare_tensor m;
    struct pare_err err;
    unsigned but = 0;

    if (moments_shape(n, &m, &err))
        return;
    for (int i = 0; i < m.rank; i++)
        but |= (unsigned)(m.dim[i] != n->in[0]->t.dim[i]) << i;
    pare_ties_except(n, but, t);
}

const struct pare_op pare_op_mean_variance_normalization = {
    .type = "MeanVarianceNormalization",
    .doc = "Subtract the mean and divide by the deviation over some axes.",
    .since = 9,
    .in = "T",
    .types = PARE_T_FLOAT,
    .min_out = 1,
    .max_out = 1,
    .attrs = attrs,
    .attr_size = sizeof(struct mvn),
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .ties = ties,
};

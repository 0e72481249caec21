/* batch_normalization.c - BatchNormalization: y = (x - mean) / sqrt(var + epsilon) * scale + B.
 *
 * mean and var are the inputs of that name or, in training, the moments of the batch; then the
 * further outputs are
 *     running_mean = mean_in * momentum + mean * (1 - momentum),  the same for var,
 * and, before opset 14, the mean and variance of the batch.  From opset 14 on training_mode selects
 * training; before, a node with these outputs trains, and before opset 7 a node without is_test.
 *
 * When the whole graph is trained every node trains, and the running moments also replace the
 * inputs that they came from, with the variance of the batch divided by count - 1, not by count.
 * With ctx->sync the moments are those of the batch of all processes.
 */
#include <math.h>
#include <string.h>

#include "../../dist/dist.h"
#include "norm.h"

struct batch_norm {
    double epsilon, momentum;
    int64_t training_mode, spatial, is_test;
    struct pare_ints consumed_inputs;
};

#define AT(field) offsetof(struct batch_norm, field)
static const struct pare_opt attrs[] = {
    PARE_INTS("consumed_inputs", AT(consumed_inputs), "ignored (opset 1)", PARE_NO_MIN,
              PARE_NO_MAX),
    PARE_FLOAT("epsilon", AT(epsilon), "added to the variance", 1e-5, PARE_NO_MIN, PARE_NO_MAX),
    PARE_INT("is_test", AT(is_test), "use the given moments, before opset 7", 0, 0, 1),
    PARE_FLOAT("momentum", AT(momentum), "factor of the old running moments", 0.9, PARE_NO_MIN,
               PARE_NO_MAX),
    PARE_INT("spatial", AT(spatial), "moments are per channel, not per element", 1, 0, 1),
    PARE_INT("training_mode", AT(training_mode), "normalize with the batch's moments", 0, 0, 1),
    PARE_OPT_END
};

double pare_bn_epsilon(const struct pare_node *n)
{
    const struct batch_norm *a = n->attr;

    return a->epsilon;
}

bool pare_bn_trains(const struct pare_node *n)
{
    const struct batch_norm *a = n->attr;

    if (n->version >= 14)
        return a->training_mode != 0;
    if (n->version < 7)
        return !a->is_test;
    for (int i = 1; i < n->n_out; i++)
        if (n->out[i])
            return true;
    return false;
}

bool pare_bn_per_channel(const struct pare_node *n)
{
    const struct batch_norm *a = n->attr;

    return n->version >= 9 || a->spatial;
}

/* X as (N, C, inner), where C is the number of moments. */
struct view {
    int64_t N, C, inner;
    double count; /* elements per channel, in all processes */
};

static int view_input(const struct pare_node *n, struct view *v, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t;

    PARE_TRY(pare_norm_inner(x, 1, &v->inner, err));
    v->N = x->dim[0];
    v->C = x->rank > 1 ? x->dim[1] : 1;
    if (!pare_bn_per_channel(n)) {
        v->C = v->inner;
        v->inner = 1;
    } else if (x->rank > 1) {
        PARE_TRY(pare_norm_inner(x, 2, &v->inner, err));
    }
    v->count = (double)v->N * (double)v->inner;
    return 0;
}

/* One moment per element of (C, D1, ...): opset 7 with spatial = 0. */
static int check_per_element(const struct pare_node *n, int i, const char *name,
                             struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t, *t = &n->in[i]->t;
    char bx[PARE_SHAPE_TEXT], bt[PARE_SHAPE_TEXT];
    bool same = t->rank == x->rank - 1;

    PARE_TRY(pare_norm_float(n, i, name, err));
    for (int k = 0; same && k < t->rank; k++)
        same = t->dim[k] == x->dim[k + 1];
    if (same)
        return 0;
    return pare_fail(err, PARE_ESHAPE,
                     "X is %s but %s is %s, expected the shape of X without the batch",
                     pare_shape_text(x, bx, sizeof(bx)), name, pare_shape_text(t, bt, sizeof(bt)));
}

static int infer(struct pare_node *n, struct pare_err *err)
{
    static const char *const name[] = { "X", "scale", "B", "mean", "var" };
    struct view v;

    PARE_TRY(view_input(n, &v, err));
    for (int i = 1; i < 5; i++)
        PARE_TRY(pare_bn_per_channel(n) ? pare_norm_param(n, i, name[i], v.C, err)
                                        : check_per_element(n, i, name[i], err));
    pare_like(&n->out[0]->t, &n->in[0]->t);
    for (int i = 1; i < n->n_out; i++)
        if (n->out[i])
            pare_like(&n->out[i]->t, &n->in[i % 2 ? 3 : 4]->t);
    return 0;
}

/* Mean and variance of one channel. */
struct moments {
    double mean, var;
};

static struct moments of_batch(const float *x, const struct view *v, int64_t c)
{
    double count = (double)v->N * (double)v->inner;
    struct moments m = { 0, 0 };

    for (int64_t i = 0; i < v->N && v->inner; i++)
        m.mean += pare_row_sum(x + (i * v->C + c) * v->inner, v->inner);
    m.mean /= count;
    for (int64_t i = 0; i < v->N && v->inner; i++)
        m.var += pare_row_squares(x + (i * v->C + c) * v->inner, v->inner, m.mean);
    m.var /= count;
    return m;
}

/* of_batch() of all channels and processes; work and result are in the scratch arena. */
static int of_all(struct pare_ctx *ctx, const float *x, struct view *v, struct pare_moments *m,
                  struct pare_err *err)
{
    *m = (struct pare_moments){ .C = v->C, .count = v->count };
    m->mean = pare_alloc(ctx->scratch, 4 * (size_t)v->C + 1, sizeof(*m->mean));
    if (!m->mean)
        return pare_no_memory(err, "for moments");
    m->var = m->mean + v->C;
    m->work = m->var + v->C;
    for (int64_t c = 0; c < v->C; c++) {
        struct moments one = of_batch(x, v, c);

        m->mean[c] = one.mean;
        m->var[c] = one.var;
    }
    PARE_TRY(pare_dist_moments(ctx->sync, m, err));
    v->count = m->count;
    return 0;
}

static struct moments given(const struct pare_node *n, int64_t c)
{
    return (struct moments){ pare_get(&n->in[3]->t, c), pare_get(&n->in[4]->t, c) };
}

/* The running moments after this batch.  In training, one element does not change the variance, and
 * an empty batch changes nothing. */
static struct moments running_moments(const struct pare_node *n, const struct view *v, bool train,
                                      struct moments run, struct moments batch)
{
    const struct batch_norm *a = n->attr;
    double count = v->count, keep = a->momentum;

    if (train && count < 1)
        return run;
    run.mean = run.mean * keep + batch.mean * (1 - keep);
    if (!train)
        run.var = run.var * keep + batch.var * (1 - keep);
    else if (count > 1)
        run.var = run.var * keep + batch.var * count / (count - 1) * (1 - keep);
    return run;
}

PARE_SIMD static void scale_row(const float *x, float *y, int64_t n, const float *f)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = (x[i] - f[0]) * f[1] + f[2];
}

/* Element c of t, of any float type. */
static int store_moment(const struct pare_tensor *t, int64_t c, double v, struct pare_err *err)
{
    return pare_convert(t->dtype, (char *)t->data + (size_t)c * pare_dtype_size(t->dtype), PARE_F64,
                        &v, 1, err);
}

/* The further outputs of channel c: running mean and variance, then those used for normalization;
 * in training also the inputs. */
static int put_moments(const struct pare_node *n, int64_t c, bool train, const struct moments m[2],
                       struct pare_err *err)
{
    double v[4] = { m[0].mean, m[0].var, m[1].mean, m[1].var };

    for (int i = 1; i < n->n_out; i++)
        if (n->out[i])
            PARE_TRY(store_moment(&n->out[i]->t, c, v[i - 1], err));
    for (int i = 0; i < 2 && train; i++)
        PARE_TRY(store_moment(&n->in[3 + i]->t, c, v[i], err));
    return 0;
}

/* In training, save the batch's moments for backward(). */
static size_t save(const struct pare_node *n)
{
    return (size_t)pare_numel(&n->in[3]->t) * sizeof(struct moments);
}

static int forward(struct pare_node *n, struct pare_ctx *ctx, struct pare_err *err)
{
    const struct batch_norm *a = n->attr;
    const float *x = pare_f32(&n->in[0]->t);
    float *y = pare_f32_mut(&n->out[0]->t);
    bool trains = ctx->train || pare_bn_trains(n), synced = ctx->train && ctx->sync;
    struct pare_moments all;
    struct view v;

    PARE_TRY(view_input(n, &v, err));
    if (synced)
        PARE_TRY(of_all(ctx, x, &v, &all, err));
    for (int64_t c = 0; c < v.C; c++) {
        struct moments m[2] = { given(n, c),
                                given(n, c) }; /* running moments, and moments to use */
        float f[3];

        if (trains) {
            m[1] = synced ? (struct moments){ all.mean[c], all.var[c] } : of_batch(x, &v, c);
            m[0] = running_moments(n, &v, ctx->train, m[0], m[1]);
            if (n->save)
                ((struct moments *)n->save)[c] = m[1];
        }
        f[0] = (float)m[1].mean;
        f[1] = (float)(pare_get(&n->in[1]->t, c) / sqrt(m[1].var + a->epsilon));
        f[2] = (float)pare_get(&n->in[2]->t, c);
        for (int64_t i = 0; i < v.N && v.inner; i++)
            scale_row(x + (i * v.C + c) * v.inner, y + (i * v.C + c) * v.inner, v.inner, f);
        PARE_TRY(put_moments(n, c, ctx->train, m, err));
    }
    return 0;
}

/* Add to element c of in[i]'s gradient, if it has one. */
static void add_grad(const struct pare_node *n, int i, int64_t c, double v)
{
    if (n->in[i]->grad.data)
        pare_f32_mut(&n->in[i]->grad)[c] += (float)v;
}

/* The moments used for channel c: mean and 1 / deviation. */
static void used_moments(const struct pare_node *n, const struct view *v, int64_t c, bool trains,
                         double m[2])
{
    const struct batch_norm *a = n->attr;
    struct moments by = !trains   ? given(n, c)
                        : n->save ? ((struct moments *)n->save)[c]
                                  : of_batch(pare_f32(&n->in[0]->t), v, c);

    m[0] = by.mean;
    m[1] = 1 / sqrt(by.var + a->epsilon);
}

/* sum[0] = sum of gy, sum[1] = sum of gy xhat. */
static void back_sums(const struct pare_node *n, const struct view *v, int64_t c, bool trains,
                      double sum[2])
{
    const float *x = pare_f32(&n->in[0]->t), *gy = pare_f32(&n->out[0]->grad);
    double m[2];

    used_moments(n, v, c, trains, m);
    sum[0] = sum[1] = 0;
    for (int64_t i = 0; i < v->N; i++) {
        int64_t at = (i * v->C + c) * v->inner;

        pare_norm_sums(x + at, gy + at, v->inner, m, sum);
    }
    add_grad(n, 1, c, sum[1]);
    add_grad(n, 2, c, sum[0]);
}

/* One channel.  With xhat = (x - mean) / deviation and g = gy scale / deviation,
 *     fixed moments:   dL/dx = g
 *     batch's moments: dL/dx = g - mean of g - xhat * mean of (g xhat)
 * and dL/dmean = - sum of g, dL/dvar = - sum of g xhat / (2 deviation) where these are inputs.  The
 * running moments, as results, pass no gradient on. */
static void back_channel(const struct pare_node *n, const struct view *v, int64_t c, bool trains,
                         const double sum[2])
{
    const float *x = pare_f32(&n->in[0]->t), *gy = pare_f32(&n->out[0]->grad);
    float *gx = pare_f32_mut(&n->in[0]->grad), f[4] = { 0 };
    double scale = pare_get(&n->in[1]->t, c), m[2];

    used_moments(n, v, c, trains, m);
    f[0] = (float)(scale * m[1]);
    if (trains) {
        f[1] = (float)(-scale * m[1] * m[1] * sum[1] / v->count);
        f[2] = (float)m[0];
        f[3] = (float)(-scale * m[1] * sum[0] / v->count);
    } else {
        add_grad(n, 3, c, -scale * m[1] * sum[0]);
        add_grad(n, 4, c, -scale * m[1] * m[1] * sum[1] / 2);
    }
    for (int64_t i = 0; i < v->N && gx; i++) {
        int64_t at = (i * v->C + c) * v->inner;

        pare_norm_add(x + at, gy + at, gx + at, v->inner, f);
    }
}

/* The last sum is the count. */
static int backward(struct pare_node *n, struct pare_ctx *ctx, struct pare_err *err)
{
    bool trains = ctx->train || pare_bn_trains(n);
    struct view v;
    double *sum;

    PARE_TRY(view_input(n, &v, err));
    if (!v.N || !v.inner || !n->out[0]->grad.data)
        return 0;
    sum = pare_alloc(ctx->scratch, 2 * (size_t)v.C + 1, sizeof(*sum));
    if (!sum)
        return pare_no_memory(err, "for sums");
    for (int64_t c = 0; c < v.C; c++)
        back_sums(n, &v, c, trains, sum + 2 * c);
    sum[2 * v.C] = v.count;
    if (ctx->train && ctx->sync)
        PARE_TRY(pare_dist_merge_batch(ctx->sync, PARE_MERGE_SUM, PARE_F64, sum, 2 * v.C + 1, err));
    v.count = sum[2 * v.C];
    if (ctx->sync && !(pare_dist_part(ctx->sync) > 0)) /* not from the batch: no gradient */
        memset(sum, 0, 2 * (size_t)v.C * sizeof(*sum));
    for (int64_t c = 0; c < v.C; c++)
        back_channel(n, &v, c, trains, sum + 2 * c);
    return 0;
}

static void ties(const struct pare_node *n, struct pare_ties *t)
{
    const struct pare_value *y = n->out[0];
    int channels = y->t.rank > 1;

    for (int i = 0; i < y->t.rank; i++)
        if (i == channels ||
            !pare_bn_trains(n)) /* moments of the batch are sums over the other axes */
            pare_tie(t, n->in[0], i, y, i);
    for (int i = 1; i < n->n_in && channels; i++) /* a tensor of rank 1 has a single channel */
        pare_tie(t, n->in[i], 0, y, channels);
    for (int i = 1; i < n->n_out && channels; i++)
        pare_tie(t, n->out[i], 0, y, channels);
}

static void axes(const struct pare_node *n, int *out, int *in)
{
    (void)n;
    *out = 0;
    *in = -1;
}

static float constant_channel(const struct pare_node *n, int axis, int64_t channel, float x)
{
    const struct batch_norm *a = n->attr;
    double mean, var, scale, bias;

    for (int i = 1; i < 5; i++)
        if (!n->in[i]->t.data || channel >= pare_numel(&n->in[i]->t))
            return NAN;
    if (axis != 1 || pare_bn_trains(n))
        return NAN;
    scale = pare_get(&n->in[1]->t, channel);
    bias = pare_get(&n->in[2]->t, channel);
    mean = pare_get(&n->in[3]->t, channel);
    var = pare_get(&n->in[4]->t, channel);
    return (float)(((double)x - mean) * (scale / sqrt(var + a->epsilon)) + bias);
}

/* A factor and an addition per element. */
static double nni_ops(const struct pare_node *n)
{
    return 2 * (double)pare_numel(&n->in[0]->t);
}

const struct pare_op pare_op_batch_normalization = {
    .type = "BatchNormalization",
    .doc = "Normalize each channel by a mean and a variance, then scale and shift it.",
    .since = 1,
    .in = "TUUAA",
    .types = PARE_T_FLOAT,
    .min_out = 1,
    .max_out = 5,
    .attrs = attrs,
    .attr_size = sizeof(struct batch_norm),
    .torch = "BatchNorm#d",
    .layer = { .params = PARE_IN(1) | PARE_IN(2), .weight = 1, .bias = 2, .norm = true },
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .ties = ties,
    .nni_ops = nni_ops,
    .save = save,
    .settings = 0x18,
    .statistics = 0x18,
    .axes = axes,
    .constant_channel = constant_channel,
};

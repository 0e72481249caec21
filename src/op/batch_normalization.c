/* batch_normalization.c - BatchNormalization: y = (x - mean) / sqrt(var + epsilon) * scale + B.
 *
 * mean and var are the inputs of that name or, in training, the moments of the batch; then the
 * further outputs are
 *     running_mean = mean_in * momentum + mean * (1 - momentum),  the same for var,
 * and, before opset 14, the batch's own mean and variance.  From opset 14 on training_mode says
 * that a node trains; before, it trains when it has these outputs, and before opset 7 unless
 * is_test.
 */
#include <math.h>

#include "norm.h"

struct batch_norm {
    double epsilon, momentum;
    int64_t training_mode, spatial, is_test;
    struct pare_ints consumed_inputs;
};

#define AT(field) offsetof(struct batch_norm, field)
static const struct pare_opt attrs[] = {
    { "consumed_inputs", "ignored; opset 1 had it", PARE_OPT_INTS, AT(consumed_inputs), 0,
      PARE_ANY, NULL, NULL, false },
    { "epsilon", "added to the variance", PARE_OPT_FLOAT, AT(epsilon), 1e-5, PARE_ANY, NULL, NULL,
      false },
    { "is_test", "use the given moments; until opset 6", PARE_OPT_INT, AT(is_test), 0, 0, 1, NULL,
      NULL, false },
    { "momentum", "how much of the running moments is kept", PARE_OPT_FLOAT, AT(momentum), 0.9,
      PARE_ANY, NULL, NULL, false },
    { "spatial", "moments are per channel, not per element", PARE_OPT_INT, AT(spatial), 1, 0, 1,
      NULL, NULL, false },
    { "training_mode", "normalise with the batch's moments", PARE_OPT_INT, AT(training_mode), 0, 0,
      1, NULL, NULL, false },
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

/* X seen as (N, C, inner), where C counts the moments. */
struct view {
    int64_t N, C, inner;
};

static int see(const struct pare_node *n, struct view *v, struct pare_err *err)
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
    return 0;
}

/* A moment for each element of (C, D1, ...): opset 7 with spatial = 0. */
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
    return pare_fail(err, PARE_ESHAPE, "X is %s but %s is %s, expected X's without the batch",
                     pare_shape_text(x, bx, sizeof(bx)), name,
                     pare_shape_text(t, bt, sizeof(bt)));
}

static int infer(struct pare_node *n, struct pare_err *err)
{
    static const char *const name[] = { "X", "scale", "B", "mean", "var" };
    struct view v;

    PARE_TRY(see(n, &v, err));
    for (int i = 1; i < 5; i++)
        PARE_TRY(pare_bn_per_channel(n) ? pare_norm_param(n, i, name[i], v.C, err)
                                        : check_per_element(n, i, name[i], err));
    pare_like(&n->out[0]->t, &n->in[0]->t);
    for (int i = 1; i < n->n_out; i++)
        if (n->out[i])
            pare_like(&n->out[i]->t, &n->in[i % 2 ? 3 : 4]->t);
    return 0;
}

static void moments(const float *x, const struct view *v, int64_t c, double *mean, double *var)
{
    double count = (double)v->N * (double)v->inner, sum = 0, squares = 0;

    for (int64_t i = 0; i < v->N && v->inner; i++)
        for (int64_t k = 0; k < v->inner; k++)
            sum += (double)x[(i * v->C + c) * v->inner + k];
    *mean = sum / count;
    for (int64_t i = 0; i < v->N && v->inner; i++)
        for (int64_t k = 0; k < v->inner; k++) {
            double d = (double)x[(i * v->C + c) * v->inner + k] - *mean;

            squares += d * d;
        }
    *var = squares / count;
}

PARE_SIMD static void scale_row(const float *x, float *y, int64_t n, const float *f)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = (x[i] - f[0]) * f[1] + f[2];
}

/* Element c of output i, whatever float type it has. */
static int put(const struct pare_node *n, int i, int64_t c, double v, struct pare_err *err)
{
    struct pare_tensor *t;

    if (i >= n->n_out || !n->out[i])
        return 0;
    t = &n->out[i]->t;
    return pare_convert(t->dtype, (char *)t->data + (size_t)c * pare_dtype_size(t->dtype),
                        PARE_F64, &v, 1, err);
}

static int forward(struct pare_node *n, struct pare_ctx *ctx, struct pare_err *err)
{
    const struct batch_norm *a = n->attr;
    const float *x = pare_f32(&n->in[0]->t);
    float *y = pare_f32(&n->out[0]->t);
    bool trains = pare_bn_trains(n);
    struct view v;

    (void)ctx;
    PARE_TRY(see(n, &v, err));
    for (int64_t c = 0; c < v.C; c++) {
        double run_mean = pare_get(&n->in[3]->t, c), run_var = pare_get(&n->in[4]->t, c);
        double mean = run_mean, var = run_var;
        float f[3];

        if (trains) {
            moments(x, &v, c, &mean, &var);
            run_mean = run_mean * a->momentum + mean * (1 - a->momentum);
            run_var = run_var * a->momentum + var * (1 - a->momentum);
        }
        f[0] = (float)mean;
        f[1] = (float)(pare_get(&n->in[1]->t, c) / sqrt(var + a->epsilon));
        f[2] = (float)pare_get(&n->in[2]->t, c);
        for (int64_t i = 0; i < v.N && v.inner; i++)
            scale_row(x + (i * v.C + c) * v.inner, y + (i * v.C + c) * v.inner, v.inner, f);
        PARE_TRY(put(n, 1, c, run_mean, err));
        PARE_TRY(put(n, 2, c, run_var, err));
        PARE_TRY(put(n, 3, c, mean, err));
        PARE_TRY(put(n, 4, c, var, err));
    }
    return 0;
}

static void ties(const struct pare_node *n, struct pare_ties *t)
{
    pare_ties_norm(n, 4, t);
}

const struct pare_op pare_op_batch_normalization = {
    .abi = PARE_ABI,
    .type = "BatchNormalization",
    .doc = "Normalises each channel by a mean and a variance, then scales and shifts it.",
    .since = 1,
    .in = "TUUAA",
    .types = PARE_T_FLOAT,
    .min_out = 1,
    .max_out = 5,
    .attrs = attrs,
    .attr_size = sizeof(struct batch_norm),
    .infer = infer,
    .forward = forward,
    .ties = ties,
    .settings = 0x18,
};

/* norm_train.c - training of LayerNormalization over the last axis.
 *
 *     xh = (x - mean) / sqrt(var + eps)     y = gamma xh + beta     g = gamma dy
 *     dx = (g - mean of g - xh * mean of (g xh)) / sqrt(var + eps)
 *     dgamma = sum of dy xh     dbeta = sum of dy     over all rows
 *
 * Rows are summed in groups whose number does not depend on the number of threads.
 */
#include "../backend.h"

#include <math.h>

#include "../../base/simd.h"
#include "../../op/nn/norm.h"

#define GROUPS 16

struct norm {
    int64_t rows, length, groups;
    float eps;
    float *mean, *inv; /* by row */
};

static bool is_row(const struct pare_value *v, int64_t n)
{
    return pare_is_f32(v) && pare_is_fixed(v) && v->t.rank >= 1 && pare_numel(&v->t) == n &&
           v->t.dim[v->t.rank - 1] == n;
}

static bool norm_train_match(const struct pare_match *v, struct pare_node *n, struct pare_step *s)
{
    const struct pare_tensor *x;
    struct norm *c;
    int n_in;

    if (!v->train || !pare_node_is(n, &pare_op_layer_normalization) || !pare_is_f32(n->in[0]) ||
        pare_is_fixed(n->in[0]) || n->in[0]->t.rank < 1 || !pare_numel(&n->in[0]->t) ||
        (n->n_out > 1 && n->out[1]) || (n->n_out > 2 && n->out[2]))
        return false;
    x = &n->in[0]->t;
    n_in = n->n_in > 2 && n->in[2] ? 3 : 2;
    c = pare_alloc(v->backend->arena, 1, sizeof(*c));
    if (!c || pare_layer_norm_axis(n) != x->rank - 1)
        return false;
    c->length = x->dim[x->rank - 1];
    c->rows = pare_numel(x) / c->length;
    c->groups = c->rows < GROUPS ? c->rows : GROUPS;
    c->eps = (float)pare_layer_norm_epsilon(n);
    c->mean = pare_alloc(v->backend->arena, (size_t)c->rows, sizeof(float));
    c->inv = pare_alloc(v->backend->arena, (size_t)c->rows, sizeof(float));
    if (!c->mean || !c->inv || !is_row(n->in[1], c->length) ||
        (n_in > 2 && !is_row(n->in[2], c->length)) || !pare_step_lists(s, v, n_in, 1, 0))
        return false;
    for (int i = 0; i < n_in; i++)
        s->in[i] = n->in[i];
    s->out[0] = n->out[0];
    s->state = c;
    s->unsaved_out = ~0u;
    s->grad_inplace = 1;
    s->work_bytes[1] = (size_t)(2 * c->groups * c->length) * sizeof(float);
    return true;
}

PARE_SIMD static void normalize_row(const struct norm *c, int64_t r, const float *x,
                                    const float *gamma, const float *beta, float *y)
{
    const int64_t n = c->length;
    float sum = 0, square = 0, mean, inv;

    x += r * n;
    y += r * n;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += x[i];
    mean = sum / (float)n;
#pragma omp simd reduction(+ : square)
    for (int64_t i = 0; i < n; i++)
        square += (x[i] - mean) * (x[i] - mean);
    inv = 1 / sqrtf(square / (float)n + c->eps);
    c->mean[r] = mean;
    c->inv[r] = inv;
    for (int64_t i = 0; i < n && beta; i++)
        y[i] = (x[i] - mean) * inv * gamma[i] + beta[i];
    for (int64_t i = 0; i < n && !beta; i++)
        y[i] = (x[i] - mean) * inv * gamma[i];
}

static int norm_train_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct norm *c = s->state;
    const float *x = pare_f32(&s->in_buf[0]->t), *gamma = pare_f32(&s->in_buf[1]->t);
    const float *beta = s->n_in > 2 ? pare_f32(&s->in_buf[2]->t) : NULL;
    float *y = pare_f32_mut(&s->out_buf[0]->t);

    (void)err;
#pragma omp parallel for num_threads(b->threads) if (c->rows * c->length > 8192)
    for (int64_t i = 0; i < c->rows; i++)
        normalize_row(c, i, x, gamma, beta, y);
    return 0;
}

/* One row's contribution to the sums, and its gradient; gx may be gy. */
struct row_pass {
    const float *x, *gamma, *gy;
    float *gx; /* or NULL */
    bool add;
};

PARE_SIMD static void row_backward(const struct norm *c, const struct row_pass *w, int64_t r,
                                   float *ggamma, float *gbeta)
{
    const int64_t n = c->length;
    const float *x = w->x + r * n, *gy = w->gy + r * n, *gamma = w->gamma;
    const float mean = c->mean[r], inv = c->inv[r];
    float *gx = w->gx ? w->gx + r * n : NULL, sum = 0, along = 0, shift, slope;

#pragma omp simd reduction(+ : sum, along)
    for (int64_t i = 0; i < n; i++) {
        float xh = (x[i] - mean) * inv, g = gy[i] * gamma[i];

        ggamma[i] += gy[i] * xh;
        gbeta[i] += gy[i];
        sum += g;
        along += g * xh;
    }
    shift = sum / (float)n;
    slope = along / (float)n;
    if (gx && w->add)
        for (int64_t i = 0; i < n; i++)
            gx[i] += (gy[i] * gamma[i] - shift - (x[i] - mean) * inv * slope) * inv;
    else if (gx)
        for (int64_t i = 0; i < n; i++)
            gx[i] = (gy[i] * gamma[i] - shift - (x[i] - mean) * inv * slope) * inv;
}

/* Add up the sums (groups, 2, length) in the order of the groups. */
static void sum_groups(const struct norm *c, const float *sums, bool first, float *to)
{
    for (int64_t i = 0; i < c->length; i++) {
        float sum = first ? 0 : to[i];

        for (int64_t g = 0; g < c->groups; g++)
            sum += sums[2 * g * c->length + i];
        to[i] = sum;
    }
}

static int norm_train_backward(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct norm *c = s->state;
    struct pare_buf *gx = s->in_buf[0]->grad, *gw = s->in_buf[1]->grad;
    struct pare_buf *gb = s->n_in > 2 ? s->in_buf[2]->grad : NULL;
    float *sums = pare_f32_mut(&s->work[1]->t);
    struct row_pass w = {
        .x = pare_f32(&s->in_buf[0]->t),
        .gamma = pare_f32(&s->in_buf[1]->t),
        .gy = pare_f32(&s->out_buf[0]->grad->t),
        .gx = gx ? pare_f32_mut(&gx->t) : NULL,
        .add = gx && !s->grad_assign[0],
    };

    (void)err;
#pragma omp parallel for num_threads(b->threads) if (c->rows * c->length > 8192)
    for (int64_t g = 0; g < c->groups; g++) {
        float *own = sums + 2 * g * c->length;

        memset(own, 0, (size_t)(2 * c->length) * sizeof(*own));
        for (int64_t r = c->rows * g / c->groups; r < c->rows * (g + 1) / c->groups; r++)
            row_backward(c, &w, r, own, own + c->length);
    }
    if (gw)
        sum_groups(c, sums, s->grad_assign[1], pare_f32_mut(&gw->t));
    if (gb)
        sum_groups(c, sums + c->length, s->grad_assign[2], pare_f32_mut(&gb->t));
    return 0;
}

const struct pare_kernel pare_kernel_norm_train = {
    .name = "norm_train",
    .doc = "Training of LayerNormalization over the last axis.",
    .match = norm_train_match,
    .run = norm_train_run,
    .backward = norm_train_backward,
};

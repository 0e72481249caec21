/* bn_train.c - BatchNormalization over the batch, with its gradient, in either layout.
 *
 *     xh = (x - mean) / sqrt(var + eps)        y = gamma xh + beta
 *     dbeta = sum dy     dgamma = sum dy xh
 *     dx = gamma / sqrt(var + eps) * (dy - dbeta / n - xh dgamma / n)
 *
 * Sums run in float over one image's plane and in double over the batch.  The running statistics
 * are PyTorch's: the variance they keep is the unbiased one.
 */
#include "../backend.h"

#include <math.h>

#include "../../base/simd.h"
#include "../../op/norm.h"

#define LANES 16

struct bn {
    int64_t N, C, space; /* images, channels, positions of a plane */
    int block;
    double eps, momentum;
    float *mean, *inv; /* of this batch, (C) */
};

static bool match(const struct pare_view *v, struct pare_node *n, struct pare_step *s)
{
    struct bn *c;

    if (!v->train || strcmp(n->type, "BatchNormalization") || n->op->domain ||
        !pare_bn_per_channel(n) || !pare_is_f32(n->in[0]) || n->in[0]->t.rank < 3 ||
        !pare_numel(&n->in[0]->t) || (n->n_out > 1 && n->out[1]))
        return false;
    for (int i = 1; i < 5; i++)
        if (!pare_is_f32(n->in[i]) || !pare_is_fixed(n->in[i]))
            return false;
    c = pare_alloc(v->backend->arena, 1, sizeof(*c));
    if (!c || !pare_step_lists(s, v, 5, 1, 0))
        return false;
    c->block = pare_block_of(v, n->in[0]);
    c->N = n->in[0]->t.dim[0];
    c->C = n->in[0]->t.dim[1];
    c->space = pare_numel(&n->in[0]->t) / (c->N * c->C);
    c->eps = pare_bn_epsilon(n);
    c->momentum = pare_attr(n, "momentum");
    c->mean = pare_alloc(v->backend->arena, (size_t)c->C + LANES, sizeof(float));
    c->inv = pare_alloc(v->backend->arena, (size_t)c->C + LANES, sizeof(float));
    if (!c->mean || !c->inv)
        return false;
    for (int i = 0; i < 5; i++)
        s->in[i] = n->in[i];
    s->in_block[0] = s->out_block[0] = c->block;
    s->out[0] = n->out[0];
    s->state = c;
    return true;
}

/* A block of b channels of one image is `space` vectors of b lanes; row-major, b is 1 and a plane
 * is one channel.  Each loop is written once for any b and compiled for the b's that exist. */
#define FOR_BLOCK(b, call)    \
    switch (b) {              \
    case 16: call(16); break; \
    case 8: call(8); break;   \
    default: break;           \
    }

/* Sum of x, or of its squared distance from `about`, by lane. */
PARE_SIMD static void sums(const float *x, int64_t space, int b, const float *about, bool square,
                           float *sum)
{
    float one = 0, m = about[0];

    for (int k = 0; k < b; k++)
        sum[k] = 0;
#define SQUARES(B)                      \
    for (int64_t i = 0; i < space; i++) \
        for (int k = 0; k < B; k++)     \
    sum[k] += (x[i * B + k] - about[k]) * (x[i * B + k] - about[k])
#define SUMS(B)                         \
    for (int64_t i = 0; i < space; i++) \
        for (int k = 0; k < B; k++)     \
    sum[k] += x[i * B + k]
    if (b > 1) {
        if (square)
            FOR_BLOCK(b, SQUARES)
        else
            FOR_BLOCK(b, SUMS)
        return;
    }
    if (square) {
#pragma omp simd reduction(+ : one)
        for (int64_t i = 0; i < space; i++)
            one += (x[i] - m) * (x[i] - m);
    } else {
#pragma omp simd reduction(+ : one)
        for (int64_t i = 0; i < space; i++)
            one += x[i];
    }
    sum[0] = one;
}

PARE_SIMD static void apply(const float *x, float *y, int64_t space, int b, const float *scale,
                            const float *shift)
{
    float s = scale[0], t = shift[0];

#define APPLY(B)                        \
    for (int64_t i = 0; i < space; i++) \
        for (int k = 0; k < B; k++)     \
    y[i * B + k] = x[i * B + k] * scale[k] + shift[k]
    FOR_BLOCK(b, APPLY)
    for (int64_t i = 0; b == 1 && i < space; i++)
        y[i] = x[i] * s + t;
}

/* sum dy and sum dy (x - about), by lane. */
PARE_SIMD static void products(const float *x, const float *gy, int64_t space, int b,
                               const float *about, float *sum, float *dot)
{
    float s = 0, q = 0, m = about[0];

    for (int k = 0; k < b; k++)
        sum[k] = dot[k] = 0;
#define PRODUCTS(B)                                              \
    for (int64_t i = 0; i < space; i++)                          \
        for (int k = 0; k < B; k++) {                            \
            sum[k] += gy[i * B + k];                             \
            dot[k] += gy[i * B + k] * (x[i * B + k] - about[k]); \
        }
    if (b > 1) {
        FOR_BLOCK(b, PRODUCTS)
        return;
    }
#pragma omp simd reduction(+ : s, q)
    for (int64_t i = 0; i < space; i++) {
        s += gy[i];
        q += gy[i] * (x[i] - m);
    }
    sum[0] = s;
    dot[0] = q;
}

/* gx (+)= p gy + q x + r, by lane. */
PARE_SIMD static void combine(const float *x, const float *gy, float *gx, int64_t space, int b,
                              const float (*pqr)[LANES], bool first)
{
    float p = pqr[0][0], q = pqr[1][0], r = pqr[2][0];

    if (first)
        memset(gx, 0, (size_t)(space * b) * sizeof(*gx));
#define COMBINE(B)                      \
    for (int64_t i = 0; i < space; i++) \
        for (int k = 0; k < B; k++)     \
    gx[i * B + k] += pqr[0][k] * gy[i * B + k] + pqr[1][k] * x[i * B + k] + pqr[2][k]
    FOR_BLOCK(b, COMBINE)
    for (int64_t i = 0; b == 1 && i < space; i++)
        gx[i] += p * gy[i] + q * x[i] + r;
}

/* Mean and variance of the channels first..first+used-1, in two passes. */
static void moments(const struct bn *c, const float *x, int64_t block, int used, double *mean,
                    double *var)
{
    int64_t blocks = (c->C + c->block - 1) / c->block, size = c->space * c->block;
    float about[LANES] = { 0 }, sum[LANES];
    double n = (double)(c->N * c->space);

    for (int k = 0; k < used; k++)
        mean[k] = var[k] = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t i = 0; i < c->N; i++) {
            sums(x + (i * blocks + block) * size, c->space, c->block, about, pass, sum);
            for (int k = 0; k < used; k++)
                *(pass ? &var[k] : &mean[k]) += (double)sum[k];
        }
        for (int k = 0; k < used; k++) {
            *(pass ? &var[k] : &mean[k]) /= n;
            about[k] = (float)mean[k];
        }
    }
}

static void run_block(const struct bn *c, struct pare_step *s, int64_t block)
{
    int64_t blocks = (c->C + c->block - 1) / c->block, size = c->space * c->block;
    int64_t first = block * c->block, n = c->N * c->space;
    int used = (int)(c->C - first < c->block ? c->C - first : c->block);
    const float *x = pare_f32(&s->in_buf[0]->t), *gamma = pare_f32(&s->in[1]->t);
    const float *beta = pare_f32(&s->in[2]->t);
    float *run_mean = pare_f32(&s->in[3]->t), *run_var = pare_f32(&s->in[4]->t);
    float scale[LANES] = { 0 }, shift[LANES] = { 0 };
    double mean[LANES], var[LANES];

    moments(c, x, block, used, mean, var);
    for (int k = 0; k < used; k++) {
        int64_t ch = first + k;
        double unbiased = n > 1 ? var[k] * (double)n / (double)(n - 1) : var[k];

        c->mean[ch] = (float)mean[k];
        c->inv[ch] = (float)(1 / sqrt(var[k] + c->eps));
        scale[k] = gamma[ch] * c->inv[ch];
        shift[k] = beta[ch] - scale[k] * c->mean[ch];
        run_mean[ch] = (float)(c->momentum * (double)run_mean[ch] + (1 - c->momentum) * mean[k]);
        run_var[ch] = (float)(c->momentum * (double)run_var[ch] + (1 - c->momentum) * unbiased);
    }
    for (int64_t i = 0; i < c->N; i++)
        apply(x + (i * blocks + block) * size,
              pare_f32(&s->out_buf[0]->t) + (i * blocks + block) * size, c->space, c->block, scale,
              shift);
}

static int run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct bn *c = s->state;
    int64_t blocks = (c->C + c->block - 1) / c->block;

    (void)err;
#pragma omp parallel for num_threads(b->threads)
    for (int64_t i = 0; i < blocks; i++)
        run_block(c, s, i);
    return 0;
}

static void back_block(const struct bn *c, struct pare_step *s, int64_t block)
{
    int64_t blocks = (c->C + c->block - 1) / c->block, size = c->space * c->block;
    int64_t first = block * c->block;
    int used = (int)(c->C - first < c->block ? c->C - first : c->block);
    const float *x = pare_f32(&s->in_buf[0]->t), *gy = pare_f32(&s->out_buf[0]->grad->t);
    struct pare_buf *gx = s->in_buf[0]->grad, *gg = s->in_buf[1]->grad, *gb = s->in_buf[2]->grad;
    float about[LANES] = { 0 }, sum[LANES], dot[LANES], pqr[3][LANES] = { { 0 } };
    double total[LANES] = { 0 }, dots[LANES] = { 0 }, n = (double)(c->N * c->space);

    for (int k = 0; k < used; k++)
        about[k] = c->mean[first + k];
    for (int64_t i = 0; i < c->N; i++) {
        int64_t at = (i * blocks + block) * size;

        products(x + at, gy + at, c->space, c->block, about, sum, dot);
        for (int k = 0; k < used; k++) {
            total[k] += (double)sum[k];
            dots[k] += (double)dot[k];
        }
    }
    for (int k = 0; k < used; k++) {
        double inv = (double)c->inv[first + k], g = (double)pare_f32(&s->in[1]->t)[first + k];

        if (gb)
            pare_f32(&gb->t)[first + k] += (float)total[k];
        if (gg)
            pare_f32(&gg->t)[first + k] += (float)(dots[k] * inv);
        pqr[0][k] = (float)(g * inv);
        pqr[1][k] = (float)(-g * inv * inv * inv * dots[k] / n);
        pqr[2][k] = (float)(-g * inv * total[k] / n -
                            (double)pqr[1][k] * (double)c->mean[first + k]);
    }
    for (int64_t i = 0; gx && i < c->N; i++) {
        int64_t at = (i * blocks + block) * size;

        combine(x + at, gy + at, pare_f32(&gx->t) + at, c->space, c->block,
                (const float(*)[LANES])pqr, s->first[0]);
    }
}

static int back(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct bn *c = s->state;
    int64_t blocks = (c->C + c->block - 1) / c->block;

    (void)err;
#pragma omp parallel for num_threads(b->threads)
    for (int64_t i = 0; i < blocks; i++)
        back_block(c, s, i);
    return 0;
}

const struct pare_kernel pare_kernel_bn_train = {
    .name = "bn_train",
    .doc = "BatchNormalization over the batch, with its gradient.",
    .match = match,
    .run = run,
    .back = back,
};

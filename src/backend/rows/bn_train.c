/* bn_train.c - training of BatchNormalization, residual Add and activation in one pass, in any
 * layout.
 *
 *     xh = (x - mean) / sqrt(var + eps)        y = act(gamma xh + beta [+ z])
 *     g = dy where act passes it               dz = g
 *     dbeta = sum g      dgamma = sum g xh
 *     dx = gamma / sqrt(var + eps) * (g - dbeta / n - xh dgamma / n)
 *
 * The activation clamps to [low, high].  Where it passes the gradient is recomputed from x or, with
 * a residual Add, from y.  Running statistics follow PyTorch: the variance is the unbiased one.
 *
 * If the batch is divided among processes and statistics cover all of it (b->sync), moments and
 * sums are reduced over all parts; dbeta and dgamma remain those of this part.
 */
#include "bn_loops.h"

#include <math.h>
#include <string.h>

#include "../../dist/dist.h"
#include "../../op/nn/norm.h"

#define Z 5 /* input z */

struct bn {
    int64_t N, C, space;  /* images, channels, pixels of a plane */
    int64_t blocks, size; /* blocks of channels; floats of one block in one image */
    int block;
    double eps, momentum;
    bool add, act;
    float low, high, above; /* the activation passes the gradient where above < y <= high */
    float *mean, *inv;      /* of this batch, (C) */
    double n;               /* elements per channel in the batch */
    double *sums;           /* (2, C), and scratch memory for 2 C + 1: moments, then sums */
};

/* ---- match ------------------------------------------------------------------------------- */

/* The bounds of a Relu, or of a Clip with constant bounds. */
static bool bounds(const struct pare_node *n, struct bn *c)
{
    bool relu = pare_node_is(n, &pare_op_relu);
    double low, high;

    if (!n->op->clamp || (c->add && !relu) || !n->op->clamp(n, &low, &high))
        return false;
    c->low = (float)low;
    c->high = (float)high;
    c->above = relu ? 0 : nextafterf(c->low, -INFINITY);
    return low <= 0 && high >= 0; /* else padding lanes would not remain zero */
}

/* The other operand of an Add of x that can be fused; else NULL. */
static struct pare_value *addend(const struct pare_match *v, const struct pare_node *n,
                                 const struct pare_value *x)
{
    struct pare_value *z;

    if (!pare_node_is(n, &pare_op_add) || n->version < 7)
        return NULL;
    z = n->in[n->in[0] == x];
    return z != x && !pare_is_fixed(z) && pare_is_computed(v, z) && pare_is_f32(z) &&
                   pare_same_shape(&z->t, &x->t)
               ? z
               : NULL;
}

/* Match the nodes after the BatchNormalization; *z is the other operand of the Add. */
static int match_post_ops(const struct pare_match *v, struct pare_node *n, struct bn *c,
                          struct pare_node **fused, struct pare_value **z)
{
    struct pare_value *y = n->out[0];
    struct pare_node *next = pare_only_consumer(v, y);
    int count = 0;

    *z = next && next->op ? addend(v, next, y) : NULL;
    if (*z) {
        c->add = true;
        fused[count++] = next;
        y = next->out[0];
        next = pare_only_consumer(v, y);
    }
    if (next && next->op && bounds(next, c)) {
        c->act = true;
        fused[count++] = next;
    }
    return count;
}

static bool bn_train_usable(const struct pare_match *v, const struct pare_node *n)
{
    if (!v->train || !pare_node_is(n, &pare_op_batch_normalization) || !pare_bn_per_channel(n) ||
        !pare_is_f32(n->in[0]) || n->in[0]->t.rank < 3 || !pare_numel(&n->in[0]->t) ||
        (n->n_out > 1 && n->out[1]))
        return false;
    for (int i = 1; i < 5; i++)
        if (!pare_is_f32(n->in[i]) || !pare_is_fixed(n->in[i]))
            return false;
    return true;
}

static struct bn *describe(const struct pare_match *v, const struct pare_node *n)
{
    struct bn *c = pare_alloc(v->backend->arena, 1, sizeof(*c));

    if (!c)
        return NULL;
    c->block = pare_block_of(v, n->in[0]);
    c->N = n->in[0]->t.dim[0];
    c->C = n->in[0]->t.dim[1];
    c->space = pare_numel(&n->in[0]->t) / (c->N * c->C);
    c->blocks = (c->C + c->block - 1) / c->block;
    c->size = c->space * c->block;
    c->eps = pare_bn_epsilon(n);
    c->momentum = pare_attr(n, "momentum");
    c->mean = pare_alloc(v->backend->arena, (size_t)c->C, sizeof(float));
    c->inv = pare_alloc(v->backend->arena, (size_t)c->C, sizeof(float));
    c->n = (double)(c->N * c->space);
    c->sums = pare_alloc(v->backend->arena, 4 * (size_t)c->C + 1, sizeof(double));
    return c->mean && c->inv && c->sums ? c : NULL;
}

static bool bn_train_match(const struct pare_match *v, struct pare_node *n, struct pare_step *s)
{
    struct pare_node *fused[2] = { NULL, NULL };
    struct pare_value *z;
    struct bn *c;
    int count;

    if (!bn_train_usable(v, n))
        return false;
    c = describe(v, n);
    count = c ? match_post_ops(v, n, c, fused, &z) : 0;
    if (!c || !pare_step_lists(s, v, z ? Z + 1 : Z, 1, count))
        return false;
    for (int i = 0; i < 5; i++)
        s->in[i] = n->in[i];
    s->out[0] = n->out[0];
    s->in_block[0] = s->out_block[0] = c->block;
    if (z) {
        s->in[Z] = z;
        s->in_block[Z] = c->block;
    }
    for (int i = 0; i < count; i++) {
        s->fused[i] = fused[i];
        s->out[0] = fused[i]->out[0];
    }
    s->state = c;
    s->unsaved_in = z ? 1u << Z : 0;
    s->unsaved_out = c->add && c->act ? 0 : 1;
    s->inplace = z ? Z + 1 : 0;
    s->grad_inplace = z ? Z + 1 : 1;
    return true;
}

/* ---- forward ------------------------------------------------------------------------------- */

/* The channels of one block. */
struct part {
    const struct bn *c;
    int64_t first, at; /* first channel; offset of the block in the first image */
    int used;          /* channels that exist */
};

static struct part part_of(const struct bn *c, int64_t block)
{
    struct part p = { c, block * c->block, block * c->size, c->block };

    if (c->C - p.first < c->block)
        p.used = (int)(c->C - p.first);
    return p;
}

static int64_t image_at(const struct part *p, int64_t i)
{
    return p->at + i * p->c->blocks * p->c->size;
}

/* Distribute channels to the lanes of a vector, repeated if there are fewer channels than lanes. */
static void to_lanes(const struct part *p, const float *v, float *lane)
{
    for (int k = 0; k < PARE_LANES; k++)
        lane[k] = k % p->c->block < p->used ? v[k % p->c->block] : 0;
}

/* Sum lanes into channels. */
static void from_lanes(const struct part *p, const float *lane, double *v)
{
    for (int k = 0; k < PARE_LANES; k++)
        if (k % p->c->block < p->used)
            v[k % p->c->block] += (double)lane[k];
}

/* Mean and variance of the batch, about the mean of the first image: close enough to the mean that
 * E (x - a)^2 - (E x - a)^2 loses no significant digits. */
static void moments(const struct part *p, const float *x, double *mean, double *var)
{
    const struct bn *c = p->c;
    double n = (double)(c->N * c->space), sum[PARE_LANES] = { 0 }, square[PARE_LANES] = { 0 };
    float start[PARE_LANES], about[PARE_LANES] = { 0 }, s[PARE_LANES], q[PARE_LANES];

    pare_bn_sums(x + p->at, c->size, about, s, q);
    from_lanes(p, s, sum);
    for (int k = 0; k < p->used; k++) {
        start[k] = (float)(sum[k] / (double)c->space);
        sum[k] = 0;
    }
    to_lanes(p, start, about);
    for (int64_t i = 0; i < c->N; i++) {
        pare_bn_sums(x + image_at(p, i), c->size, about, s, q);
        from_lanes(p, s, sum);
        from_lanes(p, q, square);
    }
    for (int k = 0; k < p->used; k++) {
        double off = sum[k] / n, v = square[k] / n - off * off;

        mean[k] = (double)start[k] + off;
        var[k] = v < 0 ? 0 : v; /* NaN is kept */
    }
}

/* y = scale x + shift. */
static void affine(const struct part *p, const struct pare_step *s, float *scale, float *shift)
{
    const struct bn *c = p->c;
    const float *gamma = pare_f32(&s->in[1]->t) + p->first;
    const float *beta = pare_f32(&s->in[2]->t) + p->first;
    float a[PARE_LANES], b[PARE_LANES];

    for (int k = 0; k < p->used; k++) {
        a[k] = gamma[k] * c->inv[p->first + k];
        b[k] = beta[k] - a[k] * c->mean[p->first + k];
    }
    to_lanes(p, a, scale);
    to_lanes(p, b, shift);
}

/* From moments to mean and 1 / sqrt(var + eps), and update the running statistics. */
static void update_statistics(const struct part *p, const struct pare_step *s, const double *mean,
                              const double *var)
{
    const struct bn *c = p->c;
    float *run_mean = pare_f32_mut(&s->in[3]->t) + p->first,
          *run_var = pare_f32_mut(&s->in[4]->t) + p->first;

    for (int k = 0; k < p->used; k++) {
        double unbiased = c->n > 1 ? var[k] * c->n / (c->n - 1) : var[k];

        c->mean[p->first + k] = (float)mean[k];
        c->inv[p->first + k] = (float)(1 / sqrt(var[k] + c->eps));
        run_mean[k] = (float)(c->momentum * (double)run_mean[k] + (1 - c->momentum) * mean[k]);
        run_var[k] = (float)(c->momentum * (double)run_var[k] + (1 - c->momentum) * unbiased);
    }
}

static void apply_block(const struct part *p, struct pare_step *s)
{
    const struct bn *c = p->c;
    const float *x = pare_f32(&s->in_buf[0]->t), *z = c->add ? pare_f32(&s->in_buf[Z]->t) : NULL;
    struct pare_bn_apply how = { .low = c->low, .high = c->high, .act = c->act };
    float *y = pare_f32_mut(&s->out_buf[0]->t);

    affine(p, s, how.scale, how.shift);
    for (int64_t i = 0; i < c->N; i++)
        pare_bn_apply(&how, x + image_at(p, i), z ? z + image_at(p, i) : NULL, y + image_at(p, i),
                      c->size);
}

static int run_synced(struct bn *c, struct pare_step *s, struct pare_backend *b,
                      struct pare_err *err)
{
    double *mean = c->sums, *var = c->sums + c->C;
    struct pare_moments m = { mean, var, var + c->C, c->C, (double)(c->N * c->space) };

#pragma omp parallel for num_threads(b->threads)
    for (int64_t i = 0; i < c->blocks; i++) {
        struct part p = part_of(c, i);

        moments(&p, pare_f32(&s->in_buf[0]->t), mean + p.first, var + p.first);
    }
    PARE_TRY(pare_dist_moments(b->sync, &m, err));
    c->n = m.count;
#pragma omp parallel for num_threads(b->threads)
    for (int64_t i = 0; i < c->blocks; i++) {
        struct part p = part_of(c, i);

        update_statistics(&p, s, mean + p.first, var + p.first);
        apply_block(&p, s);
    }
    return 0;
}

static int bn_train_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    struct bn *c = s->state;

    if (b->sync)
        return run_synced(c, s, b, err);
    c->n = (double)(c->N * c->space);
#pragma omp parallel for num_threads(b->threads)
    for (int64_t i = 0; i < c->blocks; i++) {
        struct part p = part_of(c, i);
        double mean[PARE_LANES], var[PARE_LANES];

        moments(&p, pare_f32(&s->in_buf[0]->t), mean, var);
        update_statistics(&p, s, mean, var);
        apply_block(&p, s);
    }
    return 0;
}

/* ---- backward ------------------------------------------------------------------------------ */

/* x + BN(x): z's gradient shares memory with x's.  Then z's is assigned and x's is added. */
static bool shares_grad(const struct pare_step *s)
{
    const struct bn *c = s->state;
    const struct pare_buf *gx = s->in_buf[0]->grad, *gz = c->add ? s->in_buf[Z]->grad : NULL;

    return gx && gz && gx->t.data == gz->t.data;
}

/* Is z's gradient equal to g? */
static bool assigns_z_grad(const struct pare_step *s)
{
    const struct bn *c = s->state;

    return c->add && s->in_buf[Z]->grad &&
           (s->grad_assign[Z] || (shares_grad(s) && s->grad_assign[0]));
}

/* Sums of g and g (x - mean), and z's gradient. */
static void backward_sums(const struct part *p, struct pare_step *s, struct pare_bn_back *how,
                          double *total, double *dots)
{
    const struct bn *c = p->c;
    const struct pare_buf *gz = c->add ? s->in_buf[Z]->grad : NULL;
    float sum[PARE_LANES], dot[PARE_LANES];

    how->gz_first = assigns_z_grad(s);
    for (int64_t i = 0; i < c->N; i++) {
        int64_t at = image_at(p, i);
        struct pare_bn_at a = {
            .x = pare_f32(&s->in_buf[0]->t) + at,
            .y = c->add && c->act ? pare_f32(&s->out_buf[0]->t) + at : NULL,
            .gy = pare_f32(&s->out_buf[0]->grad->t) + at,
            .gz = gz ? pare_f32_mut(&gz->t) + at : NULL,
        };

        pare_bn_back_sums(how, &a, c->size, sum, dot);
        from_lanes(p, sum, total);
        from_lanes(p, dot, dots);
    }
}

/* x's gradient; g is read from z's gradient if that equals g. */
static void backward_apply(const struct part *p, struct pare_step *s, struct pare_bn_back *how)
{
    const struct bn *c = p->c;
    struct pare_buf *gx = s->in_buf[0]->grad, *gz = c->add ? s->in_buf[Z]->grad : NULL;
    bool ready = assigns_z_grad(s);

    how->act = c->act && !ready;
    how->gx_first = s->grad_assign[0] && !shares_grad(s);
    for (int64_t i = 0; gx && i < c->N; i++) {
        int64_t at = image_at(p, i);
        struct pare_bn_at a = {
            .x = pare_f32(&s->in_buf[0]->t) + at,
            .y = c->add && c->act ? pare_f32(&s->out_buf[0]->t) + at : NULL,
            .gy = pare_f32(ready ? &gz->t : &s->out_buf[0]->grad->t) + at,
            .gx = pare_f32_mut(&gx->t) + at,
        };

        pare_bn_back_apply(how, &a, c->size);
    }
}

static void store_grad(float *grad, double v, bool first)
{
    *grad = first ? (float)v : *grad + (float)v;
}

static struct pare_bn_back backward_params(const struct part *p, const struct pare_step *s)
{
    const struct bn *c = p->c;
    struct pare_bn_back how = { .above = c->above, .high = c->high, .act = c->act };

    affine(p, s, how.scale, how.shift);
    to_lanes(p, c->mean + p->first, how.mean);
    return how;
}

/* dgamma, then dbeta: the first assigns if both are the same parameter. */
static void store_sums(const struct part *p, struct pare_step *s, const double *total,
                       const double *dots)
{
    struct pare_buf *gg = s->in_buf[1]->grad, *gb = s->in_buf[2]->grad;

    for (int k = 0; k < p->used; k++) {
        double inv = (double)p->c->inv[p->first + k];

        if (gg)
            store_grad(pare_f32_mut(&gg->t) + p->first + k, dots[k] * inv, s->grad_assign[1]);
        if (gb)
            store_grad(pare_f32_mut(&gb->t) + p->first + k, total[k], s->grad_assign[2]);
    }
}

static void backward_block(const struct part *p, struct pare_step *s, struct pare_bn_back *how,
                           const double *total, const double *dots)
{
    const struct bn *c = p->c;
    float pqr[3][PARE_LANES];

    for (int k = 0; k < p->used; k++) {
        double inv = (double)c->inv[p->first + k], g = (double)pare_f32(&s->in[1]->t)[p->first + k];

        pqr[0][k] = (float)(g * inv);
        pqr[1][k] = (float)(-g * inv * inv * inv * dots[k] / c->n);
        pqr[2][k] = (float)(-g * inv * total[k] / c->n -
                            (double)pqr[1][k] * (double)c->mean[p->first + k]);
    }
    to_lanes(p, pqr[0], how->p);
    to_lanes(p, pqr[1], how->q);
    to_lanes(p, pqr[2], how->r);
    backward_apply(p, s, how);
}

static int backward_synced(const struct bn *c, struct pare_step *s, struct pare_backend *b,
                           struct pare_err *err)
{
    double *total = c->sums, *dots = c->sums + c->C;

    memset(c->sums, 0, 2 * (size_t)c->C * sizeof(*c->sums));
#pragma omp parallel for num_threads(b->threads)
    for (int64_t i = 0; i < c->blocks; i++) {
        struct part p = part_of(c, i);
        struct pare_bn_back how = backward_params(&p, s);

        backward_sums(&p, s, &how, total + p.first, dots + p.first);
        store_sums(&p, s, total + p.first, dots + p.first);
    }
    PARE_TRY(pare_dist_merge_batch(b->sync, PARE_MERGE_SUM, PARE_F64, c->sums, 2 * c->C, err));
    if (!(pare_dist_part(b->sync) > 0)) /* this process has none of the batch: no gradient */
        memset(c->sums, 0, 2 * (size_t)c->C * sizeof(*c->sums));
#pragma omp parallel for num_threads(b->threads)
    for (int64_t i = 0; i < c->blocks; i++) {
        struct part p = part_of(c, i);
        struct pare_bn_back how = backward_params(&p, s);

        backward_block(&p, s, &how, total + p.first, dots + p.first);
    }
    return 0;
}

static int bn_train_backward(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct bn *c = s->state;

    if (b->sync)
        return backward_synced(c, s, b, err);
#pragma omp parallel for num_threads(b->threads)
    for (int64_t i = 0; i < c->blocks; i++) {
        struct part p = part_of(c, i);
        struct pare_bn_back how = backward_params(&p, s);
        double total[PARE_LANES] = { 0 }, dots[PARE_LANES] = { 0 };

        backward_sums(&p, s, &how, total, dots);
        store_sums(&p, s, total, dots);
        backward_block(&p, s, &how, total, dots);
    }
    return 0;
}

const struct pare_kernel pare_kernel_bn_train = {
    .name = "bn_train",
    .doc = "Training of BatchNormalization with fused residual sum and activation.",
    .match = bn_train_match,
    .run = bn_train_run,
    .backward = bn_train_backward,
};

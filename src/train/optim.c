/* optim.c - the registry of optimizers, and parameter updates by one of them.
 *
 * All parameters are divided into chunks of at most CHUNK elements that threads share, so a hundred
 * small biases cost one parallel loop, not a hundred.  Sums over gradients are kept by chunk and
 * added in order, so that the number of threads does not change a bit of the result.
 */
#include "optim.h"

#include <math.h>
#include <string.h>

#include "lookup.h"
#include "../base/arena.h"
#include "../base/options.h"
#include "../base/simd.h"
#include "../tensor/tensor.h"

#define CHUNK 16384
#define BLOCK 1024 /* elements of a masked parameter */

#define OPTIMIZER(name) extern const struct pare_optimizer pare_optimizer_##name;
#include "optimizers.def"
#undef OPTIMIZER

const struct pare_optimizer *const pare_optimizers[] = {
#define OPTIMIZER(name) &pare_optimizer_##name,
#include "optimizers.def"
#undef OPTIMIZER
    NULL
};

int pare_find_optimizer(const char *name, const struct pare_optimizer **type, struct pare_err *err)
{
    const char *names[PARE_LOOKUP_MAX];
    int n = 0, i;

    for (; pare_optimizers[n] && n < PARE_LOOKUP_MAX; n++)
        names[n] = pare_optimizers[n]->name;
    PARE_TRY(pare_lookup("optimizer", name, names, n, &i, err));
    *type = pare_optimizers[i];
    return 0;
}

struct pare_optim_chunk {
    int param;
    int64_t start, n;
    double square; /* sum of the squares of the clamped gradients */
};

/* ---- building ------------------------------------------------------------------ */

/* The configuration of a group: the given one, or a copy with another weight decay. */
static int group_conf(struct pare_arena *a, const struct pare_optim_opts *o, int g,
                      const void **conf, struct pare_err *err)
{
    const struct pare_opt *decay = pare_opt_find(o->type->opts, "weight_decay");
    char *copy;

    *conf = o->conf;
    if (!(o->group[g].lr_factor >= 0))
        return pare_fail(err, PARE_ECONFIG,
                         "group %d has a learning-rate factor of %g, must be at "
                         "least 0",
                         g, o->group[g].lr_factor);
    if (o->group[g].weight_decay < 0)
        return 0;
    if (!decay || decay->type != PARE_OPT_FLOAT)
        return pare_fail(err, PARE_ECONFIG,
                         "group %d has a weight decay, which %s does not support", g,
                         o->type->name);
    copy = pare_alloc(a, o->type->conf_size, 1);
    if (!copy)
        return pare_no_memory(err, "for an optimizer");
    memcpy(copy, o->conf, o->type->conf_size);
    memcpy(copy + decay->offset, &o->group[g].weight_decay, sizeof(double));
    *conf = copy;
    return 0;
}

static int check_param(const struct pare_optim_opts *o, const struct pare_optim_param *p,
                       struct pare_err *err)
{
    char a[PARE_SHAPE_TEXT], b[PARE_SHAPE_TEXT];

    if (p->group < 0 || p->group >= o->n_groups)
        return pare_fail(err, PARE_ECONFIG, "parameter '%s' is in group %d, there are %d", p->name,
                         p->group, o->n_groups);
    if (!p->grad.data)
        return 0;
    if (p->value.dtype != PARE_F32 || p->grad.dtype != PARE_F32)
        return pare_fail(err, PARE_ESHAPE,
                         "parameter '%s' is %s with a gradient in %s, both must "
                         "be float32",
                         p->name, pare_dtype_name(p->value.dtype), pare_dtype_name(p->grad.dtype));
    if (!pare_same_shape(&p->value, &p->grad))
        return pare_fail(err, PARE_ESHAPE,
                         "parameter '%s' is %s and its gradient %s, they must agree", p->name,
                         pare_shape_text(&p->value, a, sizeof(a)),
                         pare_shape_text(&p->grad, b, sizeof(b)));
    return 0;
}

static int make_slots(struct pare_arena *a, struct pare_optim *op, int i, struct pare_err *err)
{
    const struct pare_optimizer *type = op->o.type;
    const struct pare_optim_param *p = &op->o.param[i];

    for (int k = 0; k < type->n_slots; k++) {
        if (!p->grad.data || (type->uses && !type->uses(op->o.conf, k)))
            continue;
        op->slot[i][k] = pare_alloc(a, (size_t)pare_numel(&p->value), sizeof(float));
        if (!op->slot[i][k])
            return pare_no_memory(err, "for the optimizer's state of '%s'", p->name);
    }
    return 0;
}

static int make_chunks(struct pare_arena *a, struct pare_optim *op, struct pare_err *err)
{
    const struct pare_optim_param *p = op->o.param;
    int64_t count = 0;

    for (int i = 0; i < op->o.n_params; i++)
        if (p[i].grad.data)
            count += (pare_numel(&p[i].value) + CHUNK - 1) / CHUNK;
    if (count > INT32_MAX)
        return pare_fail(err, PARE_ELIMIT, "too many parameters");
    op->chunk = pare_alloc(a, (size_t)count, sizeof(*op->chunk));
    if (!op->chunk)
        return pare_no_memory(err, "for an optimizer");
    for (int i = 0; i < op->o.n_params; i++) {
        int64_t n = p[i].grad.data ? pare_numel(&p[i].value) : 0;

        for (int64_t at = 0; at < n; at += CHUNK)
            op->chunk[op->n_chunks++] = (struct pare_optim_chunk){ i, at,
                                                                   n - at < CHUNK ? n - at : CHUNK,
                                                                   0 };
    }
    return 0;
}

/* Copy the lists, so that the caller's may be freed. */
static int copy_opts(struct pare_arena *a, const struct pare_optim_opts *o, struct pare_optim *op,
                     struct pare_err *err)
{
    static const struct pare_optim_group usual = { 1, -1 };
    const struct pare_optim_group *from = o->group ? o->group : &usual;
    size_t n_groups = o->group ? (size_t)o->n_groups : 1, n_params = (size_t)o->n_params;
    struct pare_optim_group *group = pare_alloc(a, n_groups, sizeof(*group));
    struct pare_optim_param *param = pare_alloc(a, n_params, sizeof(*param));

    op->conf = pare_alloc(a, n_groups, sizeof(*op->conf));
    op->slot = pare_alloc(a, n_params, sizeof(*op->slot));
    if (!group || !param || !op->conf || !op->slot)
        return pare_no_memory(err, "for an optimizer");
    memcpy(group, from, n_groups * sizeof(*group));
    if (n_params)
        memcpy(param, o->param, n_params * sizeof(*param));
    op->o = *o;
    op->o.group = group;
    op->o.n_groups = (int)n_groups;
    op->o.param = param;
    op->o.threads = o->threads > 0 ? o->threads : 1;
    return 0;
}

int pare_optim_new(struct pare_arena *a, const struct pare_optim_opts *o, struct pare_optim **optim,
                   struct pare_err *err)
{
    struct pare_optim *op = pare_alloc(a, 1, sizeof(*op));

    if (!op)
        return pare_no_memory(err, "for an optimizer");
    if (o->type->check)
        PARE_TRY(o->type->check(o->conf, err));
    PARE_TRY(copy_opts(a, o, op, err));
    for (int g = 0; g < op->o.n_groups; g++)
        PARE_TRY(group_conf(a, &op->o, g, &op->conf[g], err));
    for (int i = 0; i < o->n_params; i++) {
        PARE_TRY(check_param(&op->o, &op->o.param[i], err));
        PARE_TRY(make_slots(a, op, i, err));
    }
    PARE_TRY(make_chunks(a, op, err));
    *optim = op;
    return 0;
}

int pare_optim_state(const struct pare_optim *o, struct pare_arena *a, struct pare_named **list,
                     int *n, struct pare_err *err)
{
    const struct pare_optimizer *type = o->o.type;
    struct pare_named *l = pare_alloc(a, (size_t)o->o.n_params * (size_t)type->n_slots, sizeof(*l));

    *n = 0;
    *list = l;
    for (int i = 0; l && i < o->o.n_params; i++)
        for (int k = 0; l && k < type->n_slots; k++) {
            if (!o->slot[i][k])
                continue;
            l[*n].name = pare_sprintf(a, "%s.%s", o->o.param[i].name, type->slot_name[k]);
            l[*n].t = o->o.param[i].value;
            l[*n].t.data = o->slot[i][k];
            l = l[(*n)++].name ? l : NULL;
        }
    return l ? 0 : pare_no_memory(err, "for the optimizer's state");
}

/* ---- updating ------------------------------------------------------------------ */

static float clip_of(const struct pare_optim *o)
{
    return o->o.clip_value > 0 ? (float)o->o.clip_value : INFINITY;
}

PARE_SIMD static double squares(const float *g, float clip, int64_t n)
{
    double sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        double v = (double)pare_clipped(g[i], clip, 1);

        sum += v * v;
    }
    return sum;
}

PARE_SIMD static double squares_masked(const float *g, const uint8_t *mask, float clip, int64_t n)
{
    double sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        double v = mask[i] ? (double)pare_clipped(g[i], clip, 1) : 0;

        sum += v * v;
    }
    return sum;
}

static double chunk_squares(const struct pare_optim *o, const struct pare_optim_chunk *c,
                            float clip)
{
    const struct pare_optim_param *p = &o->o.param[c->param];
    const float *g = pare_f32(&p->grad) + c->start;

    return p->mask ? squares_masked(g, p->mask + c->start, clip, c->n) : squares(g, clip, c->n);
}

double pare_optim_norm(const struct pare_optim *o)
{
    struct pare_optim_chunk *chunk = o->chunk;
    float clip = clip_of(o);
    double sum = 0;

#pragma omp parallel for num_threads(o->o.threads) schedule(static, 1) if (o->n_chunks > 1)
    for (int i = 0; i < o->n_chunks; i++)
        chunk[i].square = chunk_squares(o, &chunk[i], clip);
    for (int i = 0; i < o->n_chunks; i++)
        sum += chunk[i].square;
    return sqrt(sum);
}

/* PyTorch's: max_norm / (norm + 1e-6), at most 1. */
static int norm_scale(struct pare_optim *o, float *scale, struct pare_err *err)
{
    int i = 0;

    *scale = 1;
    o->norm = 0;
    if (!(o->o.clip_norm > 0))
        return 0;
    o->norm = pare_optim_norm(o);
    if (isfinite(o->norm)) {
        if (o->norm + 1e-6 > o->o.clip_norm)
            *scale = (float)(o->o.clip_norm / (o->norm + 1e-6));
        return 0;
    }
    while (i < o->n_chunks - 1 && isfinite(o->chunk[i].square))
        i++;
    return pare_fail(err, PARE_ELIMIT, "the gradient of '%s' is not finite",
                     o->o.param[o->chunk[i].param].name);
}

PARE_SIMD static void masked(const float *x, const uint8_t *mask, float *y, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = mask[i] ? x[i] : 0;
}

/* In blocks that stay in the cache between masking the gradient, the update and masking the result,
 * so that each element passes through memory once. */
static void update_masked(const struct pare_optimizer *type, const void *conf,
                          const struct pare_update *u, const uint8_t *mask, float *out)
{
    float grad[BLOCK];

    for (int64_t at = 0; at < u->n; at += BLOCK) {
        struct pare_update b = *u;

        b.n = u->n - at < BLOCK ? u->n - at : BLOCK;
        masked(u->grad + at, mask + at, grad, b.n);
        b.grad = grad;
        b.w = u->w + at;
        for (int k = 0; k < type->n_slots; k++)
            b.slot[k] = u->slot[k] ? u->slot[k] + at : NULL;
        type->update(conf, &b);
        masked(b.w, mask + at, out + at, b.n);
    }
}

void pare_optim_idle(struct pare_optim *o, int param, bool idle)
{
    ((struct pare_optim_param *)&o->o.param[param])->idle = idle; /* as in pare_optim_mask */
}

void pare_optim_mask(struct pare_optim *o, int param, const struct pare_tensor *value,
                     const uint8_t *mask, float *out)
{
    /* The list is a copy, see copy_opts. */
    struct pare_optim_param *p = (struct pare_optim_param *)&o->o.param[param];

    p->value = *value;
    p->mask = mask;
    p->out = out;
}

void pare_optim_refresh(const struct pare_optim *o)
{
    for (int i = 0; i < o->o.n_params; i++) {
        const struct pare_optim_param *p = &o->o.param[i];

        if (p->mask)
            masked(pare_f32(&p->value), p->mask, p->out, pare_numel(&p->value));
    }
}

void pare_optim_reset(struct pare_optim *o)
{
    for (int i = 0; i < o->o.n_params; i++)
        for (int k = 0; k < o->o.type->n_slots; k++)
            if (o->slot[i][k])
                memset(o->slot[i][k], 0, (size_t)pare_numel(&o->o.param[i].value) * sizeof(float));
    o->born = o->step;
}

int pare_optim_step(struct pare_optim *o, double lr, struct pare_err *err)
{
    float clip = clip_of(o), scale;

    if (o->step < 0 || o->step == INT64_MAX)
        return pare_fail(err, PARE_EFORMAT, "the number of updates is %lld, which is out of range",
                         (long long)o->step);
    PARE_TRY(norm_scale(o, &scale, err));
    o->step++;
#pragma omp parallel for num_threads(o->o.threads) schedule(static, 1) if (o->n_chunks > 1)
    for (int i = 0; i < o->n_chunks; i++) {
        const struct pare_optim_chunk *c = &o->chunk[i];
        const struct pare_optim_param *p = &o->o.param[c->param];
        struct pare_update u = { .lr = lr * o->o.group[p->group].lr_factor,
                                 .step = o->step - o->born,
                                 .clip = clip,
                                 .scale = scale,
                                 .w = pare_f32_mut(&p->value) + c->start,
                                 .grad = pare_f32(&p->grad) + c->start,
                                 .n = c->n };

        if (p->idle)
            continue;
        for (int k = 0; k < o->o.type->n_slots; k++)
            u.slot[k] = o->slot[c->param][k] ? o->slot[c->param][k] + c->start : NULL;
        if (p->mask)
            update_masked(o->o.type, o->conf[p->group], &u, p->mask + c->start, p->out + c->start);
        else
            o->o.type->update(o->conf[p->group], &u);
    }
    return 0;
}

/* prune_admm.c - ADMM pruner: pull weights toward the nearest sparse weights during training, then
 * prune.  Zhang et al., "A systematic DNN weight pruning framework using ADMM", 2018.
 *
 *     loss += rho / 2 |W - Z + U|^2,  its gradient is rho (W - Z + U)
 *     after each round of training: Z = nearest sparse tensor to W + U, U = U + W - Z
 *
 * Initially Z = W, U = 0.  The penalty is the paper's, with the squared norm; NNI's second version
 * uses the norm itself, whose relative gradient fades as the distance grows.  The nearest sparse
 * tensor keeps the units with the largest sums of magnitudes and is 0 elsewhere.
 */
#include <stddef.h>
#include <string.h>

#include <pare/plugin.h>

#include "unit_walk.h"

struct keys {
    double rho;
};

struct opts {
    int64_t iterations, training_epochs;
};

struct state {
    int64_t first; /* first epoch + 1; 0: no epoch has begun */
    int64_t round; /* completed rounds */
};

/* clang-format off */
static const struct pare_opt keys[] = {
    PARE_FLOAT("rho", offsetof(struct keys, rho),
               "strength of the pull toward sparse weights", 1e-4, 0, 1e6),
    PARE_OPT_END
};

static const struct pare_opt opts[] = {
    PARE_INT("iterations", offsetof(struct opts, iterations),
             "number of training rounds", 30, 1, 1e6),
    PARE_INT("training_epochs", offsetof(struct opts, training_epochs),
             "epochs in each round", 5, 1, 1e6),
    PARE_OPT_END
};
/* clang-format on */

static bool done(struct pare_compression *r)
{
    const struct opts *o = pare_compression_conf(r);
    const struct state *s = pare_compression_state(r);

    return s->round >= o->iterations;
}

/* The layer's state buffers Z and U. */
static int buffers(struct pare_layer *l, float **z, float **u, struct pare_err *err)
{
    const struct pare_tensor *w = pare_layer_weight(l);
    struct pare_tensor *a = pare_layer_buffer(l, "z", PARE_F32, w->rank, w->dim, err);
    struct pare_tensor *b = a ? pare_layer_buffer(l, "u", PARE_F32, w->rank, w->dim, err) : NULL;

    *z = a ? pare_f32_mut(a) : NULL;
    *u = b ? pare_f32_mut(b) : NULL;
    return b ? 0 : err->code;
}

static int start(struct pare_compression *r, struct pare_err *err)
{
    for (int i = 0; i < pare_compression_layers(r); i++) {
        struct pare_layer *l = pare_compression_layer(r, i);
        const struct pare_tensor *w = pare_layer_weight(l);
        float *z, *u;

        PARE_TRY(buffers(l, &z, &u, err));
        memcpy(z, w->data, (size_t)pare_numel(w) * sizeof(*z));
    }
    return 0;
}

static int project(struct pare_compression *r, struct pare_layer *l, struct pare_err *err)
{
    const struct pare_units *units = pare_layer_units(l);
    struct pare_arena *a = pare_compression_scratch(r);
    struct pare_tensor v = *pare_layer_weight(l);
    int64_t n = pare_numel(&v), gone = (int64_t)((double)units->n * pare_layer_sparsity(l));
    float *sum = pare_alloc(a, (size_t)units->n, sizeof(*sum)), *w = pare_f32_mut(&v), *z, *u;
    uint8_t *keep = pare_alloc(a, (size_t)units->n, 1);
    struct pare_unit_walk k;

    v.data = pare_alloc_raw(a, (size_t)n, sizeof(float));
    if (!sum || !keep || !v.data)
        return pare_no_memory(err, "to project layer '%s'", pare_layer_name(l));
    PARE_TRY(buffers(l, &z, &u, err));
    for (int64_t i = 0; i < n; i++)
        pare_f32_mut(&v)[i] = w[i] + u[i];
    pare_units_sum(units, &v, 1, sum);
    PARE_TRY(pare_keep_largest(r, sum, units->n, gone, keep, err));
    for (pare_unit_walk_begin(&k, units); k.len; pare_unit_walk_next(&k))
        for (int64_t i = 0; i < k.len; i++)
            z[k.at + i] = keep[k.unit + i * k.step] ? pare_f32(&v)[k.at + i] : 0;
    for (int64_t i = 0; i < n; i++)
        u[i] = pare_f32(&v)[i] - z[i];
    return 0;
}

static int on_epoch(struct pare_compression *r, int64_t epoch, struct pare_err *err)
{
    const struct opts *o = pare_compression_conf(r);
    struct state *s = pare_compression_state(r);
    int64_t since;

    if (!s->first)
        s->first = epoch + 1;
    since = epoch + 1 - s->first;
    if (since % o->training_epochs || since / o->training_epochs <= s->round || done(r))
        return 0;
    for (int i = 0; i < pare_compression_layers(r); i++) {
        struct pare_mark m = pare_mark(pare_compression_scratch(r));

        PARE_TRY(project(r, pare_compression_layer(r, i), err));
        pare_reset(pare_compression_scratch(r), m);
    }
    s->round++;
    return done(r) ? pare_compression_update_masks(r, err) : 0;
}

static int loss(struct pare_compression *r, double *loss, struct pare_err *err)
{
    for (int i = 0; i < pare_compression_layers(r) && !done(r); i++) {
        struct pare_layer *l = pare_compression_layer(r, i);
        const struct pare_tensor *w = pare_layer_weight(l);
        const struct keys *k = pare_layer_conf(l);
        double square = 0;
        float *z, *u;

        PARE_TRY(buffers(l, &z, &u, err));
        for (int64_t j = 0; j < pare_numel(w); j++) {
            double d = (double)(pare_f32(w)[j] - z[j] + u[j]);

            square += d * d;
        }
        *loss += k->rho / 2 * square;
    }
    return 0;
}

static int before_step(struct pare_compression *r, struct pare_err *err)
{
    for (int i = 0; i < pare_compression_layers(r) && !done(r); i++) {
        struct pare_layer *l = pare_compression_layer(r, i);
        const struct pare_tensor *w = pare_layer_weight(l), *g = pare_layer_grad(l);
        const struct keys *k = pare_layer_conf(l);
        float *z, *u, rho = (float)k->rho;

        PARE_TRY(buffers(l, &z, &u, err));
        for (int64_t j = 0; g && j < pare_numel(w); j++)
            pare_f32_mut(g)[j] += rho * (pare_f32(w)[j] - z[j] + u[j]);
    }
    return 0;
}

static int score(struct pare_compression *r, struct pare_layer *l, float *score,
                 struct pare_err *err)
{
    (void)err;
    if (!done(r))
        return PARE_NOT_YET;
    pare_units_sum(pare_layer_units(l), pare_layer_weight(l), 1, score);
    return 0;
}

static int length(struct pare_compression *r, int64_t *epochs, int64_t *steps, struct pare_err *err)
{
    const struct opts *o = pare_compression_conf(r);

    (void)err;
    *epochs = o->iterations * o->training_epochs;
    *steps = 0;
    return 0;
}

const struct pare_algorithm pare_pruner_admm = {
    .abi = PARE_ABI,
    .size = sizeof(struct pare_algorithm),
    .name = "admm",
    .doc = "Pull weights toward the nearest sparse weights during training, then prune.",
    .keys = keys,
    .conf_size = sizeof(struct keys),
    .opts = opts,
    .opts_size = sizeof(struct opts),
    .state_size = sizeof(struct state),
    .flags = PARE_ONE_SHOT | PARE_NEEDS_DATA | PARE_NEEDS_STEPS,
    .start = start,
    .on_epoch = on_epoch,
    .loss = loss,
    .before_step = before_step,
    .length = length,
    .pruner =
        &(const struct pare_pruner){
            .size = sizeof(struct pare_pruner),
            .granularity = "element",
            .score = score,
        },
};

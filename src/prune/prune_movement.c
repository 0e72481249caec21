/* prune_movement.c - movement pruner: keep the weights that training moves away from 0.  Sanh, Wolf
 * and Rush, "Movement pruning: adaptive sparsity by fine-tuning", 2020.
 *
 * Every unit has a score S, learned with a separate Adam optimizer.  The gradient passes straight
 * through the mask M(S):
 *
 *     dL/dS = sum over the unit of dL/d(W M) * W
 *
 * Masks are recomputed after every step, for a fraction c(t) of the target sparsity that grows from
 * 0 at warm_up_step to 1 at cool_down_beginning_step, along the cubic curve.  Removed units can
 * return.
 *
 *     hard: keep the units with the largest S, as many as the sparsity specifies;
 *     soft: the sparsity is a threshold: keep units with sigmoid(S) > threshold c(t); the loss has
 *           the additional term regular_scale c(t) * mean over layers of mean sigmoid(S).
 */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include <pare/plugin.h>

#include "sparsity_schedule.h"
#include "unit_walk.h"

struct opts {
    int64_t warm_up_step, cool_down_beginning_step, training_epochs, training_steps;
    const char *movement_mode;
    double regular_scale, score_lr;
};

struct state {
    int64_t first_step, first_epoch; /* first_epoch: first epoch + 1; 0: no epoch has begun */
    bool done;
};

#define OPT(field) offsetof(struct opts, field)

/* clang-format off */
static const struct pare_opt opts[] = {
    PARE_INT("warm_up_step", OPT(warm_up_step),
             "training steps before the first unit is removed", 0, 0, 1e9),
    PARE_INT("cool_down_beginning_step", OPT(cool_down_beginning_step),
             "training step at which the sparsity is reached", 1000, 1, 1e9),
    PARE_INT("training_epochs", OPT(training_epochs),
             "epochs during which scores are learned (0: use training_steps)", 0, 0, 1e9),
    PARE_INT("training_steps", OPT(training_steps),
             "training steps during which scores are learned (0: cool_down_beginning_step)",
             0, 0, 1e9),
    PARE_CHOICE("movement_mode", OPT(movement_mode),
                "hard: sparsity is exact; soft: sparsity is a threshold", "hard", "hard|soft"),
    PARE_FLOAT("regular_scale", OPT(regular_scale),
               "weight of the scores in the loss, for movement_mode soft", 1, 0, 1e6),
    PARE_FLOAT("score_lr", OPT(score_lr), "learning rate of the scores", 1e-2, 0, 1e6),
    PARE_OPT_END
};
/* clang-format on */

static float sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

static bool is_soft(const struct pare_compression *r)
{
    const struct opts *o = pare_compression_conf(r);

    return !strcmp(o->movement_mode, "soft");
}

static int64_t steps_since_start(struct pare_compression *r)
{
    const struct state *s = pare_compression_state(r);

    return pare_compression_steps(r) - s->first_step;
}

static double reached_fraction(struct pare_compression *r)
{
    const struct opts *o = pare_compression_conf(r);

    return pare_sparsity_window(steps_since_start(r), o->warm_up_step, o->cool_down_beginning_step);
}

/* Number of steps during which scores are learned; 0: training_epochs decides. */
static int64_t last_step(const struct pare_compression *r)
{
    const struct opts *o = pare_compression_conf(r);

    if (o->training_steps)
        return o->training_steps;
    return o->training_epochs ? 0 : o->cool_down_beginning_step;
}

static struct pare_tensor *scores(struct pare_layer *l, struct pare_err *err)
{
    return pare_layer_buffer(l, "score", PARE_F32, 1, &pare_layer_units(l)->n, err);
}

static int start(struct pare_compression *r, struct pare_err *err)
{
    const struct opts *o = pare_compression_conf(r);
    struct state *s = pare_compression_state(r);

    if (o->cool_down_beginning_step <= o->warm_up_step)
        return pare_fail(err, PARE_ECONFIG,
                         "cool_down_beginning_step is %lld, expected more than warm_up_step (%lld)",
                         (long long)o->cool_down_beginning_step, (long long)o->warm_up_step);
    if (last_step(r) && last_step(r) < o->cool_down_beginning_step)
        return pare_fail(
            err, PARE_ECONFIG,
            "training_steps is %lld, expected at least cool_down_beginning_step (%lld)",
            (long long)last_step(r), (long long)o->cool_down_beginning_step);
    s->first_step = pare_compression_steps(r);
    for (int i = 0; i < pare_compression_layers(r); i++)
        pare_layer_aim(pare_compression_layer(r, i), 0);
    return 0;
}

static int on_epoch(struct pare_compression *r, int64_t epoch, struct pare_err *err)
{
    const struct opts *o = pare_compression_conf(r);
    struct state *s = pare_compression_state(r);

    (void)err;
    if (!s->first_epoch)
        s->first_epoch = epoch + 1;
    if (!last_step(r) && epoch + 1 - s->first_epoch >= o->training_epochs)
        s->done = true;
    return 0;
}

static int loss(struct pare_compression *r, double *loss, struct pare_err *err)
{
    const struct opts *o = pare_compression_conf(r);
    const struct state *s = pare_compression_state(r);

    for (int i = 0; i < pare_compression_layers(r) && is_soft(r) && !s->done; i++) {
        const struct pare_tensor *t = scores(pare_compression_layer(r, i), err);
        double sum = 0;

        if (!t)
            return err->code;
        for (int64_t k = 0; k < t->dim[0]; k++)
            sum += (double)sigmoid(pare_f32(t)[k]);
        *loss += o->regular_scale * reached_fraction(r) * sum / (double)t->dim[0] /
                 pare_compression_layers(r);
    }
    return 0;
}

static int learn_scores(struct pare_compression *r, struct pare_layer *l, struct pare_err *err)
{
    const struct opts *o = pare_compression_conf(r);
    const struct pare_tensor *t = scores(l, err), *g = pare_layer_grad(l);
    float *grad, pull;

    if (!t || !g)
        return t ? 0 : err->code;
    grad = pare_alloc(pare_compression_scratch(r), (size_t)t->dim[0], sizeof(*grad));
    if (!grad)
        return pare_no_memory(err, "for the scores of layer '%s'", pare_layer_name(l));
    pare_units_dot(pare_layer_units(l), pare_f32(g), pare_f32(pare_layer_weight(l)), grad);
    pull = (float)(o->regular_scale * reached_fraction(r) / pare_compression_layers(r) /
                   (double)t->dim[0]);
    for (int64_t k = 0; k < t->dim[0] && is_soft(r); k++) {
        float y = sigmoid(pare_f32(t)[k]);

        grad[k] += pull * y * (1 - y);
    }
    return pare_layer_adam(l, "score", grad, o->score_lr, err);
}

static int before_step(struct pare_compression *r, struct pare_err *err)
{
    struct state *s = pare_compression_state(r);

    if (last_step(r) && steps_since_start(r) >= last_step(r))
        s->done = true;
    for (int i = 0; i < pare_compression_layers(r) && !s->done; i++)
        PARE_TRY(learn_scores(r, pare_compression_layer(r, i), err));
    return 0;
}

/* The sparsity at which ranking removes exactly the units below the threshold; at least one unit is
 * kept. */
static int threshold_sparsity(struct pare_layer *l, double border, double *sparsity,
                              struct pare_err *err)
{
    const struct pare_tensor *t = scores(l, err);
    int64_t below = 0, n = pare_layer_units(l)->n;

    if (!t)
        return err->code;
    for (int64_t k = 0; k < n; k++)
        below += (double)sigmoid(pare_f32(t)[k]) <= border;
    below = below < n ? below : n - 1;
    *sparsity = below > 0 ? ((double)below + 0.5) / (double)n : 0;
    return 0;
}

static int on_step(struct pare_compression *r, int64_t step, struct pare_err *err)
{
    const struct state *s = pare_compression_state(r);
    double c = reached_fraction(r);

    (void)step;
    for (int i = 0; i < pare_compression_layers(r) && !s->done; i++) {
        struct pare_layer *l = pare_compression_layer(r, i);
        double sparsity = c * pare_layer_config_sparsity(l);

        if (is_soft(r))
            PARE_TRY(threshold_sparsity(l, sparsity, &sparsity, err));
        pare_layer_aim(l, sparsity);
    }
    return 0;
}

static int score(struct pare_compression *r, struct pare_layer *l, float *score,
                 struct pare_err *err)
{
    const struct state *s = pare_compression_state(r);
    const struct pare_tensor *t = scores(l, err);

    if (!t)
        return err->code;
    if (s->done)
        return PARE_NOT_YET;
    memcpy(score, t->data, (size_t)t->dim[0] * sizeof(*score));
    return 0;
}

static int length(struct pare_compression *r, int64_t *epochs, int64_t *steps, struct pare_err *err)
{
    const struct opts *o = pare_compression_conf(r);

    (void)err;
    *steps = last_step(r);
    *epochs = *steps ? 0 : o->training_epochs;
    return 0;
}

const struct pare_algorithm pare_pruner_movement = {
    .abi = PARE_ABI,
    .size = sizeof(struct pare_algorithm),
    .name = "movement",
    .doc = "Keep the weights that training moves away from 0.",
    .opts = opts,
    .opts_size = sizeof(struct opts),
    .state_size = sizeof(struct state),
    .flags = PARE_REGROW | PARE_NEEDS_DATA | PARE_NEEDS_STEPS,
    .start = start,
    .on_epoch = on_epoch,
    .loss = loss,
    .before_step = before_step,
    .on_step = on_step,
    .length = length,
    .pruner =
        &(const struct pare_pruner){
            .size = sizeof(struct pare_pruner),
            .granularity = "element",
            .score = score,
        },
};

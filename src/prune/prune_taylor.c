/* prune_taylor.c - Taylor pruner: remove the channels whose removal changes the loss least, by
 * first-order expansion.  Molchanov et al., "Importance estimation for neural network pruning",
 * 2019.
 *
 *     score = sum over steps of sum over the channel of (w * dL/dw)^2
 *
 * Gradients and weights are those before the optimizer's step.
 */
#include <stddef.h>
#include <string.h>

#include <pare/plugin.h>

#include "unit_walk.h"

struct opts {
    int64_t training_steps, statistics_batch_num;
};

/* steps: training steps observed; full: the training step + 1 at which scores were first returned,
 * 0: not yet. */
struct state {
    int64_t steps, full;
};

/* clang-format off */
static const struct pare_opt opts[] = {
    PARE_INT("training_steps", offsetof(struct opts, training_steps),
             "training steps to observe before the masks are computed", 20, 1, 1e9),
    PARE_INT("statistics_batch_num", offsetof(struct opts, statistics_batch_num),
             "older name of training_steps (0: use training_steps)", 0, 0, 1e9),
    PARE_OPT_END
};
/* clang-format on */

static int64_t steps_to_observe(const struct pare_compression *r)
{
    const struct opts *o = pare_compression_conf(r);

    return o->statistics_batch_num ? o->statistics_batch_num : o->training_steps;
}

static struct pare_tensor *buffer(struct pare_layer *l, struct pare_err *err)
{
    return pare_layer_buffer(l, "taylor", PARE_F32, 1, &pare_layer_units(l)->n, err);
}

static int before_step(struct pare_compression *r, struct pare_err *err)
{
    struct state *s = pare_compression_state(r);

    if (s->steps == steps_to_observe(r))
        return 0;
    for (int i = 0; i < pare_compression_layers(r); i++) {
        struct pare_layer *l = pare_compression_layer(r, i);
        const struct pare_tensor *g = pare_layer_grad(l);
        struct pare_tensor *b = buffer(l, err);

        if (!b)
            return err->code;
        if (g)
            pare_units_dot_square(pare_layer_units(l), pare_f32(pare_layer_weight(l)), pare_f32(g),
                                  pare_f32_mut(b));
    }
    s->steps++;
    return 0;
}

/* Restart the statistics: later queries use fresh ones. */
static int restart_statistics(struct pare_compression *r, struct pare_err *err)
{
    struct state *s = pare_compression_state(r);

    s->steps = s->full = 0;
    for (int i = 0; i < pare_compression_layers(r); i++) {
        struct pare_tensor *b = buffer(pare_compression_layer(r, i), err);

        if (!b)
            return err->code;
        memset(b->data, 0, (size_t)pare_numel(b) * sizeof(float));
    }
    return PARE_NOT_YET;
}

static int score(struct pare_compression *r, struct pare_layer *l, float *score,
                 struct pare_err *err)
{
    struct state *s = pare_compression_state(r);
    const struct pare_tensor *b = buffer(l, err);
    int64_t now = pare_compression_steps(r) + 1;

    if (!b)
        return err->code;
    if (s->steps < steps_to_observe(r))
        return PARE_NOT_YET;
    if (s->full && s->full != now)
        return restart_statistics(r, err);
    s->full = now;
    memcpy(score, b->data, (size_t)pare_numel(b) * sizeof(*score));
    return 0;
}

static int length(struct pare_compression *r, int64_t *epochs, int64_t *steps, struct pare_err *err)
{
    (void)err;
    *epochs = 0;
    *steps = steps_to_observe(r);
    return 0;
}

const struct pare_algorithm pare_pruner_taylor = {
    .abi = PARE_ABI,
    .size = sizeof(struct pare_algorithm),
    .name = "taylor",
    .doc = "Remove the channels that affect the loss least, by first-order Taylor expansion.",
    .opts = opts,
    .opts_size = sizeof(struct opts),
    .state_size = sizeof(struct state),
    .flags = PARE_ONE_SHOT | PARE_NEEDS_DATA | PARE_NEEDS_STEPS,
    .types = "Conv1d|Conv2d|Conv3d|ConvTranspose1d|ConvTranspose2d|ConvTranspose3d|Linear|"
             "recurrent",
    .before_step = before_step,
    .length = length,
    .pruner =
        &(const struct pare_pruner){
            .size = sizeof(struct pare_pruner),
            .granularity = "out_channel",
            .score = score,
        },
};

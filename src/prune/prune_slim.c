/* prune_slim.c - network slimming pruner: remove the channels with the smallest batch normalization
 * scales, after training with an L1 penalty on the scales.  Liu et al., "Learning efficient
 * convolutional networks through network slimming", 2017.
 *
 *     loss += scale * sum |gamma|,  d loss / d gamma += scale * sign(gamma)
 *     score = |gamma|
 */
#include <math.h>
#include <stddef.h>

#include <pare/plugin.h>

struct opts {
    int64_t training_epochs;
    double scale;
};

struct state {
    int64_t first; /* first epoch + 1; 0: no epoch has begun */
    bool done;
};

/* clang-format off */
static const struct pare_opt opts[] = {
    PARE_INT("training_epochs", offsetof(struct opts, training_epochs),
             "epochs of training with the L1 penalty (0: prune by the current scales)", 10, 0, 1e9),
    PARE_FLOAT("scale", offsetof(struct opts, scale),
               "weight of the sum of |gamma| in the loss", 1e-4, 0, 1e6),
    PARE_OPT_END
};
/* clang-format on */

static int start(struct pare_compression *r, struct pare_err *err)
{
    const struct opts *o = pare_compression_conf(r);
    struct state *s = pare_compression_state(r);

    (void)err;
    s->done = o->training_epochs == 0;
    return 0;
}

static int on_epoch(struct pare_compression *r, int64_t epoch, struct pare_err *err)
{
    const struct opts *o = pare_compression_conf(r);
    struct state *s = pare_compression_state(r);

    if (!s->first)
        s->first = epoch + 1;
    if (s->done || epoch + 1 - s->first < o->training_epochs)
        return 0;
    s->done = true;
    return pare_compression_update_masks(r, err);
}

static int loss(struct pare_compression *r, double *loss, struct pare_err *err)
{
    const struct opts *o = pare_compression_conf(r);
    const struct state *s = pare_compression_state(r);
    double sum = 0;

    (void)err;
    for (int i = 0; i < pare_compression_layers(r) && !s->done; i++) {
        const struct pare_tensor *w = pare_layer_weight(pare_compression_layer(r, i));

        for (int64_t k = 0; k < pare_numel(w); k++)
            sum += (double)fabsf(pare_f32(w)[k]);
    }
    *loss += o->scale * sum;
    return 0;
}

static int before_step(struct pare_compression *r, struct pare_err *err)
{
    const struct opts *o = pare_compression_conf(r);
    const struct state *s = pare_compression_state(r);
    float scale = (float)o->scale;

    (void)err;
    for (int i = 0; i < pare_compression_layers(r) && !s->done; i++) {
        const struct pare_layer *l = pare_compression_layer(r, i);
        const struct pare_tensor *w = pare_layer_weight(l), *g = pare_layer_grad(l);

        for (int64_t k = 0; g && k < pare_numel(w); k++) {
            float gamma = pare_f32(w)[k];

            pare_f32_mut(g)[k] += gamma > 0 ? scale : gamma < 0 ? -scale : 0;
        }
    }
    return 0;
}

static int score(struct pare_compression *r, struct pare_layer *l, float *score,
                 struct pare_err *err)
{
    const struct state *s = pare_compression_state(r);

    (void)err;
    if (!s->done)
        return PARE_NOT_YET;
    pare_units_sum(pare_layer_units(l), pare_layer_weight(l), 1, score);
    return 0;
}

static int length(struct pare_compression *r, int64_t *epochs, int64_t *steps, struct pare_err *err)
{
    const struct opts *o = pare_compression_conf(r);

    (void)err;
    *epochs = o->training_epochs;
    *steps = 0;
    return 0;
}

const struct pare_algorithm pare_pruner_slim = {
    .abi = PARE_ABI,
    .size = sizeof(struct pare_algorithm),
    .name = "slim",
    .doc = "Train batch normalization scales toward 0, then remove the smallest.",
    .opts = opts,
    .opts_size = sizeof(struct opts),
    .state_size = sizeof(struct state),
    .flags = PARE_ONE_SHOT,
    .types = "BatchNorm1d|BatchNorm2d|BatchNorm3d",
    .start = start,
    .on_epoch = on_epoch,
    .loss = loss,
    .before_step = before_step,
    .length = length,
    .pruner =
        &(const struct pare_pruner){
            .size = sizeof(struct pare_pruner),
            .granularity = "out_channel",
            .mode = "global",
            .score = score,
        },
};

/* prune_l2.c - L2 pruner: remove the channels with the smallest L2 norm.
 *
 *     score = sqrt(sum w^2)
 */
#include <math.h>

#include <pare/plugin.h>

static int score(struct pare_compression *r, struct pare_layer *l, float *s, struct pare_err *err)
{
    const struct pare_units *u = pare_layer_units(l);

    (void)r;
    (void)err;
    pare_units_sum(u, pare_layer_weight(l), 2, s);
    for (int64_t i = 0; i < u->n; i++)
        s[i] = sqrtf(s[i]);
    return 0;
}

const struct pare_algorithm pare_pruner_l2 = {
    .abi = PARE_ABI,
    .size = sizeof(struct pare_algorithm),
    .name = "l2",
    .doc = "Remove the channels with the smallest L2 norm.",
    .flags = PARE_ONE_SHOT,
    .types = "Conv1d|Conv2d|Conv3d|ConvTranspose1d|ConvTranspose2d|ConvTranspose3d|Linear|"
             "recurrent",
    .pruner =
        &(const struct pare_pruner){
            .size = sizeof(struct pare_pruner),
            .granularity = "out_channel",
            .score = score,
        },
};

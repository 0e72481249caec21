/* prune_l1.c - L1 pruner: remove the channels with the smallest L1 norm.  Li et al., "Pruning
 * filters for efficient convnets", 2017.
 *
 *     score = sum |w|
 */
#include <pare/plugin.h>

static int score(struct pare_compression *r, struct pare_layer *l, float *s, struct pare_err *err)
{
    (void)r;
    (void)err;
    pare_units_sum(pare_layer_units(l), pare_layer_weight(l), 1, s);
    return 0;
}

const struct pare_algorithm pare_pruner_l1 = {
    .abi = PARE_ABI,
    .size = sizeof(struct pare_algorithm),
    .name = "l1",
    .doc = "Remove the channels with the smallest L1 norm.",
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

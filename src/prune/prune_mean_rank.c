/* prune_mean_rank.c - mean activation pruner: remove the channels with the smallest mean
 * activation. Molchanov et al., "Pruning convolutional neural networks for resource efficient
 * inference", 2017.
 *
 *     score = mean of act(output), per channel
 */
#include <pare/plugin.h>

#include "activation_stats.h"

static double mean(double sum, double zeros, double count)
{
    (void)zeros;
    return count > 0 ? sum / count : 0;
}

static int score(struct pare_compression *r, struct pare_layer *l, float *s, struct pare_err *err)
{
    return pare_activation_stats_score(r, l, mean, s, err);
}

const struct pare_algorithm pare_pruner_mean_rank = {
    .abi = PARE_ABI,
    .size = sizeof(struct pare_algorithm),
    .name = "mean_rank",
    .doc = "Remove the channels with the smallest mean activation.",
    .opts = pare_activation_stats_opts,
    .opts_size = sizeof(struct pare_activation_stats_opts),
    .layer_size = sizeof(struct pare_activation_stats_layer),
    .state_size = sizeof(struct pare_activation_stats_run),
    .flags = PARE_ONE_SHOT | PARE_NEEDS_DATA,
    .types = "Conv1d|Conv2d|Conv3d|ConvTranspose1d|ConvTranspose2d|ConvTranspose3d|Linear|"
             "recurrent",
    .start = pare_activation_stats_start,
    .before_step = pare_activation_stats_before_step,
    .stop = pare_activation_stats_stop,
    .pruner =
        &(const struct pare_pruner){
            .size = sizeof(struct pare_pruner),
            .granularity = "out_channel",
            .score = score,
        },
};

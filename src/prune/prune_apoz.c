/* prune_apoz.c - APoZ pruner: remove the channels with the highest average percentage of zeros.  Hu
 * et al., "Network trimming: a data-driven neuron pruning approach towards efficient deep
 * architectures", 2016.
 *
 *     score = 1 - (number of zeros in act(output)) / (number of elements), per channel
 */
#include <pare/plugin.h>

#include "activation_stats.h"

static double nonzero_fraction(double sum, double zeros, double count)
{
    (void)sum;
    return count > 0 ? 1 - zeros / count : 0;
}

static int score(struct pare_compression *r, struct pare_layer *l, float *s, struct pare_err *err)
{
    return pare_activation_stats_score(r, l, nonzero_fraction, s, err);
}

const struct pare_algorithm pare_pruner_apoz = {
    .abi = PARE_ABI,
    .size = sizeof(struct pare_algorithm),
    .name = "apoz",
    .doc = "Remove the channels whose activations are most often 0.",
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

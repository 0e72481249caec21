/* prune_apoz.c - remove the channels that are most often 0: Hu et al., "Network trimming: a
 * data-driven neuron pruning approach towards efficient deep architectures", 2016.
 *
 *     score = 1 - zeros of act(output) / all of it, per channel
 */
#include <pare/plugin.h>

#include "activity.h"

static double active(double sum, double zeros, double count)
{
    (void)sum;
    return count > 0 ? 1 - zeros / count : 0;
}

static int score(struct pare_run *r, struct pare_layer *l, float *s, struct pare_err *err)
{
    return pare_activity_score(r, l, active, s, err);
}

const struct pare_pruner pare_pruner_apoz = {
    .abi = PARE_ABI,
    .name = "apoz",
    .doc = "Remove the channels whose outputs are most often 0.",
    .opts = pare_activity_opts,
    .opts_size = sizeof(struct pare_activity_opts),
    .layer_size = sizeof(struct pare_activity_layer),
    .run_size = sizeof(struct pare_activity_run),
    .flags = PARE_ONE_SHOT | PARE_NEEDS_DATA,
    .types = "Conv1d|Conv2d|Conv3d|ConvTranspose1d|ConvTranspose2d|ConvTranspose3d|Linear",
    .granularity = "out_channel",
    .start = pare_activity_start,
    .before_step = pare_activity_before_step,
    .stop = pare_activity_stop,
    .score = score,
};

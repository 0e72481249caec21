/* prune_linear.c - linear gradual pruning: sparsity grows at a constant rate.
 *
 *     sparsity(t) = target * t,  t from 0 to 1
 */
#include <pare/plugin.h>

#include "gradual.h"

static int on_epoch(struct pare_compression *r, int64_t epoch, struct pare_err *err)
{
    return pare_gradual_on_epoch(r, epoch, pare_sparsity_linear, err);
}

static int on_step(struct pare_compression *r, int64_t step, struct pare_err *err)
{
    (void)step;
    return pare_gradual_on_step(r, pare_sparsity_linear, err);
}

const struct pare_algorithm pare_pruner_linear = {
    .abi = PARE_ABI,
    .size = sizeof(struct pare_algorithm),
    .name = "linear",
    .doc = "Increase sparsity to its target at a constant rate during training.",
    .keys = pare_gradual_keys,
    .conf_size = sizeof(struct pare_gradual_keys),
    .opts = pare_gradual_opts,
    .opts_size = sizeof(struct pare_gradual_opts),
    .state_size = sizeof(struct pare_gradual_run),
    .flags = PARE_USES_BASE | PARE_NEEDS_DATA | PARE_NEEDS_STEPS,
    .start = pare_gradual_start,
    .on_epoch = on_epoch,
    .on_step = on_step,
    .length = pare_gradual_length,
    .pruner =
        &(const struct pare_pruner){
            .size = sizeof(struct pare_pruner),
        },
};

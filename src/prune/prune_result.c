/* prune_result.c - what pruning did to a layer: target and actual sparsity, parameters left. */
#include "dependency_groups.h"
#include "prune_state.h"

#include "../tensor/tensor.h"

void pare_layer_pruned(const struct pare_layer *l, struct pare_pruned_layer *p)
{
    int64_t weights = pare_numel(&l->w), zeros = pare_mask_zeros(&l->mask);
    int64_t biases = l->bias ? pare_numel(&l->b) : 0;
    int64_t size = pare_units_size(&l->prune->units), channels = -1;

    if (pare_layer_by_channels(l) && size)
        channels = l->prune->units.n;
    *p = (struct pare_pruned_layer){
        .target = l->prune->config_sparsity,
        .sparsity = weights ? (double)zeros / (double)weights : 0,
        .params = weights + biases,
        .params_left = weights + biases - zeros - (l->bias ? pare_mask_zeros(&l->bias_mask) : 0),
        .channels = channels,
        .channels_left = channels < 0 ? -1 : channels - zeros / size,
    };
}

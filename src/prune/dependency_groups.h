/* dependency_groups.h - which units of which layers go together, for dependency-aware pruning.
 *
 * Channels that one addition, depthwise convolution, grouped convolution or reshape ties together
 * can only be taken out of a model together (graph/removal_units.h).  Ranked by themselves, layers would
 * each lose others.
 */
#ifndef PARE_PRUNE_DEPENDENCY_GROUPS_H
#define PARE_PRUNE_DEPENDENCY_GROUPS_H

#include "prune_state.h"
#include "rank.h"

/* Units of several layers that go together, and such bundles that are in the same layers: these are
 * ranked among themselves. */
struct pare_unit_groups {
    int n_layers;  /* a layer is there more than once when it has a channel in each group */
    int *layer;    /* n_layers indices in the run, rising */
    int64_t *unit; /* (n, n_layers) */
    int64_t n;
};

struct pare_dependency_groups {
    struct pare_unit_groups *list;
    int n;
};

/* Of all layers of the run whose units are output channels.  Made once, from compression->graph. */
int pare_compression_groups(struct pare_compression *r, const struct pare_dependency_groups **d,
                            struct pare_err *err);

/* Are its units its output channels? */
bool pare_layer_by_channels(const struct pare_layer *l);

#endif

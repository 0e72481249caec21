/* dependency_groups.h - dependency groups: units of coupled layers that must be removed together.
 *
 * Channels that an addition, depthwise convolution, grouped convolution or reshape couples can only
 * be removed together (graph/removal_units.h).  If each layer were ranked separately, the layers
 * would remove different channels.
 */
#ifndef PARE_PRUNE_DEPENDENCY_GROUPS_H
#define PARE_PRUNE_DEPENDENCY_GROUPS_H

#include "rank.h"
#include "prune_state.h"

/* The dependency groups that have members in the same layers.  They are ranked against each
 * other. */
struct pare_unit_groups {
    int n_layers;  /* members per group; a layer with several channels per group is listed once for
                    * each */
    int *layer;    /* n_layers indices of layers, ascending */
    int64_t *unit; /* (n, n_layers): the member units of each group */
    int64_t n;
};

struct pare_dependency_groups {
    struct pare_unit_groups *list;
    int n;
};

/* The groups of all layers whose units are output channels.  Computed once, for
 * all sizes of free dimensions, as speedup does. */
int pare_compression_groups(struct pare_compression *r, const struct pare_dependency_groups **d,
                            struct pare_err *err);

/* all->g is the graph to find groups in, for all sizes of free dimensions, in arena a; its
 * constants and the graphs for other sizes are in r->scratch.  A normalization is one node in it,
 * however the file spells it. */
struct pare_all_sizes;
int pare_graph_to_group(struct pare_compression *r, struct pare_arena *a,
                        struct pare_all_sizes *all, struct pare_err *err);

/* The removal units of that graph, in r->scratch.  Constants that several nodes happen to share are
 * made separate, so that they couple nothing, except `weight`, which may be masked. */
struct pare_removal_units;
int pare_graph_units(struct pare_compression *r, struct pare_graph *g,
                     const struct pare_value *const *weight, int n,
                     struct pare_removal_units **units, struct pare_err *err);

/* The weights of all layers in that graph, in r->scratch; NULL: another graph has the weight. */
int pare_layer_weights(struct pare_compression *r, const struct pare_graph *g,
                       const struct pare_value ***weight, struct pare_err *err);

/* Are the layer's units its output channels?  Those of a recurrent layer are its states. */
bool pare_layer_by_channels(const struct pare_layer *l);

/* Does it have a second weight whose units are the same channels?  Both are always ranked
 * together. */
bool pare_layer_is_joined(const struct pare_layer *l);

#endif

/* followers.h - followers: layers and tables whose channels are masked with those of other layers.
 *
 * Channels of a residual stream (graph/removal_units.h) can only be removed if nothing writes to
 * them: neither the layers that a config_list chooses, nor a layer normalization, an embedding or
 * a table that is added, for example of positions.  With mode=dependency_aware the latter follow:
 * they have no score, and lose a channel when the layers that they are coupled with lose it.
 */
#ifndef PARE_PRUNE_FOLLOWERS_H
#define PARE_PRUNE_FOLLOWERS_H

#include "prune_state.h"

/* Wrap the followers of the layers that are wrapped, and find the dependency groups of all. */
int pare_followers_add(struct pare_compression *c, const struct pare_config *config,
                       struct pare_err *err);

#endif

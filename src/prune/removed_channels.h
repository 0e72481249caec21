/* removed_channels.h - what belongs to a removed channel: normalizations and constants after it.
 *
 * A filter without weights outputs 0, but a normalization after it makes that a constant: shift -
 * mean * scale / deviation.  So the mask of a channel covers the scale and shift of every
 * normalization whose input it is, and constants that are added to it: then it is 0 everywhere, and
 * speedup has nothing to preserve.  These are wrapped layers as well, at the end of the list
 * (compression->n_hidden): training, checkpoints and mask files treat them like others, but
 * algorithms and tables do not see them.
 *
 * Which channels are 0 is found by a forward pass over the graph, whenever masks change.  Scale and
 * shift of a normalization that is used several times are masked where all of its inputs are 0.
 */
#ifndef PARE_PRUNE_REMOVED_CHANNELS_H
#define PARE_PRUNE_REMOVED_CHANNELS_H

#include "prune_state.h"

/* Wrap what follows the channels of the layers that are wrapped.  g: a graph with shapes whose
 * nodes and values live as long as the compression; its constants are not read later. */
int pare_removed_channels_add(struct pare_compression *c, const struct pare_config *config,
                              struct pare_graph *g, struct pare_err *err);

/* Masks of these from the masks of the others.  Does nothing if none was added. */
int pare_removed_channels_mask(struct pare_compression *c, struct pare_err *err);

/* The number of output channels of a layer's weight; its output axis may have them several times,
 * once for each gate. */
int64_t pare_layer_outputs(const struct pare_layer *l);

/* any[o] = 1 if the mask keeps a weight of output o. */
void pare_layer_kept_outputs(const struct pare_layer *l, uint8_t *any);

#endif

/* removal_units.h - removal units: indices of axes that must be removed together.
 *
 * Keep sets (keep_sets.h) tell what must be kept if an index is kept; removal units are the
 * converse.  A unit is the least that can be removed: in a residual block channel i of all
 * convolutions whose outputs are added, in a grouped convolution channel i of every group, in a
 * group normalization a whole group, in a layer normalization channel i of input, scale and output.
 */
#ifndef PARE_GRAPH_REMOVAL_UNITS_H
#define PARE_GRAPH_REMOVAL_UNITS_H

#include "keep_sets.h"

struct pare_removal_units;

/* `k` must be new: no index has been marked in its keep sets. */
int pare_removal_units_new(struct pare_arena *a, struct pare_keep_sets *k,
                           struct pare_removal_units **units, struct pare_err *err);

/* The removal unit of index i of an axis, below pare_removal_units_count(); -1: the shape is
 * unknown. */
int64_t pare_removal_unit(const struct pare_removal_units *t, const struct pare_value *v, int axis,
                          int64_t i);
int64_t pare_removal_units_count(const struct pare_removal_units *t);

/* Whether the unit can be removed: none of its axes is frozen. */
bool pare_removal_unit_open(const struct pare_removal_units *t, int64_t unit);

#endif

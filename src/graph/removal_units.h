/* removal_units.h - what must go together: indices of axes, joined by all that operators say.
 *
 * Keep sets (keep_sets.h) say what must stay when something stays; atoms are the other way round.  An
 * atom is the least that can be removed: of a residual block channel i of all convolutions that
 * are added up, of a grouped convolution channel i of every group, of a group normalisation a
 * whole group.
 */
#ifndef PARE_GRAPH_REMOVAL_UNITS_H
#define PARE_GRAPH_REMOVAL_UNITS_H

#include "keep_sets.h"

struct pare_removal_units;

/* `k` must be new: nothing has been put into its keep sets. */
int pare_removal_units_new(struct pare_arena *a, struct pare_keep_sets *k,
                           struct pare_removal_units **atoms, struct pare_err *err);

/* The atom of index i of an axis, a number below pare_removal_units_count; -1 when the value's shape is not
 * known. */
int64_t pare_removal_unit(const struct pare_removal_units *t, const struct pare_value *v, int axis,
                          int64_t i);
int64_t pare_removal_units_count(const struct pare_removal_units *t);

/* May the atom be removed at all?  Not when one of its axes is frozen. */
bool pare_removal_unit_open(const struct pare_removal_units *t, int64_t atom);

#endif

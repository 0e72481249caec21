/* atoms.h - what must go together: indices of axes, joined by all that operators say.
 *
 * Keep sets (kept.h) say what must stay when something stays; atoms are the other way round.  An
 * atom is the least that can be removed: of a residual block channel i of all convolutions that
 * are added up, of a grouped convolution channel i of every group, of a group normalisation a
 * whole group.
 */
#ifndef PARE_GRAPH_ATOMS_H
#define PARE_GRAPH_ATOMS_H

#include "kept.h"

struct pare_atoms;

/* `k` must be new: nothing has been put into its keep sets. */
int pare_atoms_new(struct pare_arena *a, struct pare_kept *k, struct pare_atoms **atoms,
                   struct pare_err *err);

/* The atom of index i of an axis, a number below pare_atoms_count; -1 when the value's shape is not
 * known. */
int64_t pare_atom(const struct pare_atoms *t, const struct pare_value *v, int axis, int64_t i);
int64_t pare_atoms_count(const struct pare_atoms *t);

/* May the atom be removed at all?  Not when one of its axes is frozen. */
bool pare_atom_open(const struct pare_atoms *t, int64_t atom);

#endif

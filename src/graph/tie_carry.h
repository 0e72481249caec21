/* tie_carry.h - along axis relations: which channels of an input make a channel of an output. */
#ifndef PARE_GRAPH_TIE_CARRY_H
#define PARE_GRAPH_TIE_CARRY_H

#include "ties.h"

/* A channel: an index of an axis. */
struct pare_channel {
    int axis;
    int64_t i;
};

/* Each of the `n` channels of the input contains all that the relation moves from the input to
 * index `to` of the output's axis.  n 0: the relation does not tell.  Called several times for an
 * index that consists of several channels. */
typedef void pare_carry_fn(void *user, int64_t to, const struct pare_channel *from, int n);

/* Call fn for each index of `axis` of y, an output of the relation's node, that gets elements of x,
 * an input of it. */
void pare_tie_carry(const struct pare_tied *t, const struct pare_value *x,
                    const struct pare_value *y, int axis, pare_carry_fn *fn, void *user);

#endif

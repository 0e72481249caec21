/* lanes.h - a tensor as lanes along one axis. */
#ifndef PARE_OP_REDUCE_LANES_H
#define PARE_OP_REDUCE_LANES_H

#include "../op.h"

/* Element k of the lane (o, i) is at (o * len + k) * inner + i, for o < outer, i < inner. */
struct pare_lanes {
    int64_t outer, len, inner;
};

/* Axes first to last, inclusive, are the lane; first > last is a lane of one element.  An empty
 * tensor has no lanes, independent of its other dimensions. */
static inline struct pare_lanes pare_lanes(const struct pare_tensor *t, int first, int last)
{
    struct pare_lanes l = { 1, 1, 1 };

    for (int i = 0; i < t->rank; i++)
        if (!t->dim[i])
            return (struct pare_lanes){ 0, 0, 0 };
    for (int i = 0; i < t->rank; i++)
        *(i < first ? &l.outer : i <= last ? &l.len : &l.inner) *= t->dim[i];
    return l;
}

#endif

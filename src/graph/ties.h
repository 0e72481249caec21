/* ties.h - which axes of which values are the same channels. */
#ifndef PARE_GRAPH_TIES_H
#define PARE_GRAPH_TIES_H

#include <pare/plugin.h>

/* Every statement the operators of a graph made; whoever needs groups joins them. */
struct pare_ties {
    struct pare_arena *arena;
    struct pare_tied {
        const struct pare_value *a, *b;
        int ax, bx;
    } * tie;
    int n, cap;
    bool failed; /* out of memory: the list is not complete */
};

#endif

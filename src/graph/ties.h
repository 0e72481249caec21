/* ties.h - the axis relations ("ties", see op/channels.h) of a graph's operators, as a list. */
#ifndef PARE_GRAPH_TIES_H
#define PARE_GRAPH_TIES_H

#include "../op/operator.h"

enum pare_tie_kind {
    PARE_TIE_SAME,
    PARE_TIE_PART,
    PARE_TIE_PICK,
    PARE_TIE_DIGITS,
    PARE_TIE_GROUPS,
    PARE_TIE_SUM,
    PARE_TIE_RESTORED,
    PARE_TIE_TOGETHER,
    PARE_TIE_FREEZE,
};

/* One relation; see op/channels.h. */
struct pare_tied {
    enum pare_tie_kind kind;
    const struct pare_node *node; /* the node that declares it */
    const struct pare_value *a, *b;
    int ax, bx;
    int64_t from;                   /* PART */
    const int64_t *index;           /* PICK: one per index of b's axis */
    const struct pare_digit *digit; /* DIGITS, GROUPS */
    int n_digits;
    const char *why; /* FREEZE */
    bool summed;     /* SAME: pare_tie_summed() */
};

struct pare_ties {
    struct pare_arena *arena;
    const struct pare_node *node; /* the node whose ties() is being called */
    struct pare_tied *tie;
    int n, cap;
    bool failed; /* out of memory: the list is incomplete */
};

#endif

/* removed_search.h - state of the pass that finds removed channels (removed_channels.c): what it
 * needs to know about each node, and the layers that it masks. */
#ifndef PARE_PRUNE_REMOVED_SEARCH_H
#define PARE_PRUNE_REMOVED_SEARCH_H

#include "../graph/keep_sets.h"
#include "prune_state.h"

enum pare_removed_kind {
    PARE_REMOVED_OTHER,   /* zeros do not make zeros */
    PARE_REMOVED_NORM,    /* a normalization with scale and shift */
    PARE_REMOVED_SUM,     /* a sum over channels */
    PARE_REMOVED_PAIR,    /* elementwise, two operands */
    PARE_REMOVED_MAP,     /* elementwise, f(0) = 0 */
    PARE_REMOVED_MOVED,   /* moves channels */
    PARE_REMOVED_PRODUCT, /* a product of two computed operands */
};

/* By node. */
struct pare_removed_step {
    enum pare_removed_kind kind;
    int layer;              /* NORM, SUM: index of the wrapped layer; -1: none */
    int hidden;             /* NORM, PAIR: index of what is masked with the input; -1: none */
    int axis;               /* NORM, PAIR: axis of the output with the channels */
    int masked[2];          /* PAIR, MOVED: 1 + index of the layer that masks an operand, negative:
                             * its bias; 0: none */
    int table;              /* PAIR: the operand that is masked */
    bool both, absorbs[2];  /* PAIR: 0 and 0 make 0; 0 and anything make 0 */
    bool alone;             /* SUM: no other node reads the weight */
    unsigned axes;          /* MOVED, PRODUCT: bit a: zeros along axis a stay zeros */
    struct pare_linear sum; /* SUM */
};

/* A normalization or constant that is masked where its inputs are 0. */
struct pare_hidden {
    struct pare_layer_info info;
    int layer;     /* index of the wrapped layer; -1: it is not wrapped */
    int uses;      /* nodes */
    int64_t n;     /* channels */
    uint8_t *gone; /* by channel */
};

/* compression->prune->removed */
struct pare_removed {
    struct pare_compression *c;
    struct pare_graph *g;
    const struct pare_ties *ties;
    int *first_tie; /* by node: its ties are first_tie[id] .. first_tie[id + 1] - 1 */
    struct pare_removed_step *step; /* by node id */
    struct pare_hidden *hidden;
    int n_hidden;
    uint8_t ***zero; /* by value and axis: one byte per index, 1: all elements are 0; NULL: none */
    bool all;        /* what if all layers lost all channels? */
    bool shared;     /* a hidden layer is used by several nodes */
    bool changed;    /* the pass has found a channel that is not 0 */
};

/* Fill hidden->gone, and flags of all values. */
int pare_removed_find(struct pare_removed *r, struct pare_err *err);

#endif

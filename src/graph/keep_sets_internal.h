/* keep_sets_internal.h - structures of keep sets; private to keep_sets*.c. */
#ifndef PARE_GRAPH_KEEP_SETS_INTERNAL_H
#define PARE_GRAPH_KEEP_SETS_INTERNAL_H

#include "keep_sets.h"

#define PARE_MOST_DIGITS (2 * PARE_MAX_RANK)

struct pare_keep_axis {
    int64_t size;
    int parent;                   /* parent in the union-find forest; a root is its own parent */
    const char *why;              /* NULL: not frozen */
    const struct pare_node *node; /* the node that froze it; NULL: the model itself */
    int mentioned_by;             /* number + 1 of the last node with a relation of this axis */
    int number, next;             /* of a virtual axis: its number, the node's next one or -1 */
};

struct pare_keep_relation {
    struct pare_tied tie;
    int n;    /* number of sets it relates */
    int *set; /* a and b, or the whole and its digits; -1: a frozen digit */
    int64_t visits;
    bool queued;
};

struct pare_keep_sets {
    struct pare_arena *arena;
    const struct pare_graph *g;
    struct pare_ties ties;
    int n_values, n_nodes;       /* when relations were collected; more may be added later */
    int *first;                  /* by value: its first axis; -1: its shape is unknown */
    int *own;                    /* by node: its first virtual axis, or -1 */
    struct pare_keep_axis *axis; /* of values, then virtual axes of nodes */
    int n_axes, cap_axes;

    /* By root. */
    uint8_t **keep;
    int64_t *ones;
    int *number, n_sets;
    int *user_at; /* relations of root r are user[user_at[r] .. user_at[r + 1]) */
    int *user;

    struct pare_keep_relation *rel;
    int n_rel, cap_rel;
    int *queue, head, waiting;
    bool fresh; /* no index has been marked yet: a full set is frozen */
};

/* Whether it is a value of this graph with a known shape. */
bool pare_keep_sets_has(const struct pare_keep_sets *k, const struct pare_value *v);

/* The number of an axis; -1: there is no such axis. */
int pare_keep_sets_find(const struct pare_keep_sets *k, const struct pare_value *v, int axis);

/* The root of an axis's set. */
int pare_keep_sets_root(const struct pare_keep_sets *k, int axis);

/* ---- free dimensions: keep_sets_free.c ---- */

#define PARE_WHY_FREE "its size follows a free dimension of the inputs"

/* Whether the relations of the node, k->ties.tie[from] and later, are the same at other sizes,
 * which are those in *there.  k->g->other[1] is not NULL. */
int pare_ties_compare(struct pare_keep_sets *k, const struct pare_node *n, int from,
                      struct pare_ties *there, bool *same, struct pare_err *err);

/* Freeze the axes whose size follows a free dimension only. */
int pare_keep_sets_freeze_free(struct pare_keep_sets *k, struct pare_err *err);

/* Uses of the sizes that a Shape node reads: the axes of its input, as bits, whose sizes are used
 * in computations, and the first node that uses one. */
struct pare_size_use {
    unsigned axes;
    const struct pare_node *who[PARE_MAX_RANK];
};
int pare_size_uses(struct pare_arena *a, const struct pare_graph *g, const struct pare_node *shape,
                   struct pare_size_use *use, struct pare_err *err);

#endif

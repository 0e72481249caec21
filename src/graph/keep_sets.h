/* keep_sets.h - keep sets: which indices of which axes remain, given the axis relations.
 *
 * Every axis of every value of a graph (shapes inferred, initializers included) has a keep set, one
 * byte per index.  The caller marks needed indices with 1; pare_keep_sets_solve() adds ones until
 * the axis relations of all operators (op/channels.h) hold, and never removes one.
 *
 * Axes with the same channels share one keep set: they are a coupled set, which has a number.
 */
#ifndef PARE_GRAPH_KEEP_SETS_H
#define PARE_GRAPH_KEEP_SETS_H

#include "graph.h"
#include "ties.h"

struct pare_keep_sets;

/* Collect the axis relations of all nodes.  All keep sets are empty except those of frozen axes, of
 * axes with one index, and of axes that these imply.  The graph must outlive it. */
int pare_keep_sets_new(struct pare_arena *a, const struct pare_graph *g,
                       struct pare_keep_sets **out, struct pare_err *err);

/* The keep set of an axis: v->t.dim[axis] bytes, to read and to write; NULL: the shape is unknown.
 */
uint8_t *pare_keep_axis(struct pare_keep_sets *k, const struct pare_value *v, int axis);

/* The keep set of a virtual axis of a node, for example the groups of a convolution; NULL: the node
 * has no such axis. */
uint8_t *pare_keep_sets_own(struct pare_keep_sets *k, const struct pare_node *n, int number,
                            int64_t *size);

/* Grow the sets until all relations hold.  Can be called again after more indices were marked. */
int pare_keep_sets_solve(struct pare_keep_sets *k, struct pare_err *err);

int64_t pare_keep_sets_count(const struct pare_keep_sets *k, const struct pare_value *v, int axis);

/* Why an axis is frozen, by itself, through its coupled set or through relations: a few words, and
 * the node that requires it (NULL: the model itself).  NULL: the axis is not frozen. */
const char *pare_keep_sets_why(const struct pare_keep_sets *k, const struct pare_value *v, int axis,
                               const struct pare_node **node);

/* The number of the coupled set of an axis, from 0; -1: the shape is unknown.  For dependency-aware
 * pruning and reports. */
int pare_keep_sets_set(const struct pare_keep_sets *k, const struct pare_value *v, int axis);
int pare_keep_sets_sets(const struct pare_keep_sets *k); /* number of coupled sets */

/* The relations of all nodes whose shapes are known. */
const struct pare_ties *pare_keep_sets_ties(const struct pare_keep_sets *k);

/* Whether the relations of the node were collected; not if it has no ties() or unknown shapes. */
bool pare_keep_sets_asked(const struct pare_keep_sets *k, const struct pare_node *n);

/* In a clone: give each consumer of a shared list (a bias, a scale) a copy of its own, so that it
 * couples no channels, except lists in `but`.  To shrink the model, write the copies separately as
 * well; copies have the name of the original. */
int pare_graph_unshare(struct pare_graph *g, const struct pare_value *const *but, int n_but,
                       struct pare_err *err);

#endif

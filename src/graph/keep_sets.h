/* keep_sets.h - which indices of which axes stay: keep sets, and the relations between them.
 *
 * Every axis of every value of a graph (shapes inferred, initializers included) has a keep set, one
 * byte for each index.  Whoever wants to shrink puts a 1 wherever something is needed; solve() adds
 * ones until all that operators say about their axes holds, and never takes one away.
 *
 * Axes that operators call the same share one keep set: they are a coupled set, and have a number.
 */
#ifndef PARE_GRAPH_KEEP_SETS_H
#define PARE_GRAPH_KEEP_SETS_H

#include "graph.h"
#include "ties.h"

struct pare_keep_sets;

/* Asks every node for its ties.  All keep sets are empty, but for frozen axes, axes with one index,
 * and what those bring with them.  The graph must outlive it. */
int pare_keep_sets_new(struct pare_arena *a, const struct pare_graph *g,
                       struct pare_keep_sets **out, struct pare_err *err);

/* The keep set of an axis: v->t.dim[axis] bytes, to read and to write; NULL when the value's
 * shape is not known. */
uint8_t *pare_keep_axis(struct pare_keep_sets *k, const struct pare_value *v, int axis);

/* ... of a node's own axis, such as the groups of a convolution; NULL when it has none of the
 * number. */
uint8_t *pare_keep_sets_own(struct pare_keep_sets *k, const struct pare_node *n, int number,
                            int64_t *size);

/* Grow until all relations hold.  May be called again after more was put in. */
int pare_keep_sets_solve(struct pare_keep_sets *k, struct pare_err *err);

int64_t pare_keep_sets_count(const struct pare_keep_sets *k, const struct pare_value *v, int axis);

/* Why an axis is frozen, itself, one of its coupled set, or by what others bring with them: a
 * few words, and the node that says so (NULL: the model itself).  NULL when it is not frozen. */
const char *pare_keep_sets_why(const struct pare_keep_sets *k, const struct pare_value *v, int axis,
                               const struct pare_node **node);

/* The number of the coupled set that an axis belongs to, from 0; -1 when the value's shape is not
 * known.  For dependency-aware pruning and reports. */
int pare_keep_sets_set(const struct pare_keep_sets *k, const struct pare_value *v, int axis);
int pare_keep_sets_sets(const struct pare_keep_sets *k); /* how many there are */

/* All that was said, by nodes of the graph whose shapes are known. */
const struct pare_ties *pare_keep_sets_ties(const struct pare_keep_sets *k);

/* Was the node asked?  Not when it has no rule, or its shapes are not known. */
bool pare_keep_sets_asked(const struct pare_keep_sets *k, const struct pare_node *n);

/* In a clone: a list (a bias, a scale) that several nodes read becomes one for each of them, so
 * that it couples nothing, but for those in `but`.  Whoever shrinks the model must write them
 * apart, too; copies have the name of what they are copied from. */
int pare_graph_unshare(struct pare_graph *g, const struct pare_value *const *but, int n_but,
                       struct pare_err *err);

#endif

/* new_nodes.h - nodes and constants that rewrites add to a plan's graph.
 *
 * New nodes are appended; the caller sorts the graph.
 */
#ifndef PARE_PLAN_REWRITE_NEW_NODES_H
#define PARE_PLAN_REWRITE_NEW_NODES_H

#include "../../base/options.h"
#include "../../graph/graph.h"

/* A name like `name` that no value of the graph has; NULL: out of memory. */
const char *pare_new_name(const struct pare_graph *g, const char *name);

/* A constant with a copy of the tensor's data; NULL on error. */
struct pare_value *pare_new_constant(struct pare_graph *g, const struct pare_tensor *t,
                                     struct pare_err *err);

/* Constants: a scalar, or a list of one element if rank is 1.  NULL on error. */
struct pare_value *pare_new_number(struct pare_graph *g, int rank, int64_t i, struct pare_err *err);
struct pare_value *pare_new_true(struct pare_graph *g, int rank, struct pare_err *err);

/* A node with n_in inputs, which the caller sets, one output, y or a new value, and an attribute;
 * set NULL: none.  NULL on error. */
struct pare_node *pare_new_node(struct pare_graph *g, const struct pare_op *op, int n_in,
                                const struct pare_setting *set, struct pare_value *y,
                                struct pare_err *err);

/* y = x */
int pare_new_copy(struct pare_graph *g, struct pare_value *x, struct pare_value *y,
                  struct pare_err *err);

/* y = x[0] ... x[n - 1], concatenated along an axis, or stacked along a new one. */
struct pare_join {
    struct pare_value **x;
    int n;
    int64_t axis;
    bool new_axis;
    struct pare_value *y;
};
int pare_new_join(struct pare_graph *g, const struct pare_join *j, struct pare_err *err);

/* resolve_sequences.c: replace nodes that read sequences whose elements are values of the graph. */
int pare_resolve_sequences(struct pare_graph *g, bool *changed, struct pare_err *err);

#endif

/* axis_order.h - nodes that compute the same with their axes in another order. */
#ifndef PARE_GRAPH_REWRITE_AXIS_ORDER_H
#define PARE_GRAPH_REWRITE_AXIS_ORDER_H

#include "rewrite.h"

/* Can the axes of the node's results, and of its inputs of the same rank that are not constants, be
 * permuted together?  Then the node works on values whose order of axes is another one: elementwise
 * operators, Concat, Split, Reduce, Pad, Slice, Resize and others. */
bool pare_any_axis_order(struct pare_rewriter *r, const struct pare_node *n);

/* Is input k one of those whose axes are permuted? */
bool pare_has_axis_order(const struct pare_node *n, int k);

/* Would a runtime accept the node with this order? */
bool pare_accepts_order(const struct pare_node *n, const int *perm);

/* Change attributes and constant operands of the node for values whose axis perm[i] is axis i of
 * its values until now. */
int pare_set_axis_order(struct pare_rewriter *r, struct pare_node *n, const int *perm,
                        struct pare_err *err);

/* Can the node, which has known shapes, read input 0 in this order instead, with the same result?
 * A Reduce that drops axes can, if the others stay in order.  Change its attributes so. */
bool pare_absorbs_order(const struct pare_node *n, const int *perm);
int pare_absorb_order(struct pare_rewriter *r, struct pare_node *n, const int *perm,
                      struct pare_err *err);

#endif

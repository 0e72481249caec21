/* passing_node.h - temporary nodes that pass their input on, to see a value or its gradient. */
#ifndef PARE_GRAPH_PASSING_NODE_H
#define PARE_GRAPH_PASSING_NODE_H

#include "graph.h"

/* Let all consumers of `from` read through a node with the operator `op`, which has one input and
 * one output, and these attributes.  The node and its value are called from's name, ":" and
 * `ending`; the name may exist from an earlier node that was removed.  The caller calls
 * pare_graph_order() after the last one. */
int pare_passing_node_insert(struct pare_graph *g, const struct pare_op *op, void *attr,
                             struct pare_value *from, const char *ending, struct pare_err *err);

/* Remove all nodes with this operator. */
void pare_passing_nodes_remove(struct pare_graph *g, const struct pare_op *op);

#endif

/* batch_independence.h - check that the items of a batch are independent, so it can be split. */
#ifndef PARE_GRAPH_BATCH_INDEPENDENCE_H
#define PARE_GRAPH_BATCH_INDEPENDENCE_H

#include "graph.h"

/* The items of a batch are the indices of axis 0 of all inputs and outputs.  They are independent
 * if no result depends on another item or on the number of items: then a batch can run in parts.
 * `whole` and `part` are clones of one graph, inferred for two batch sizes, the smaller one for
 * part.  The axis relations of the operators (ties) decide; an operator without relations makes the
 * items dependent.  Fails only when out of memory. */
int pare_batch_independent(const struct pare_graph *whole, const struct pare_graph *part,
                           bool *apart, struct pare_err *err);

#endif

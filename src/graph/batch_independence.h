/* batch_independence.h - can the items of a batch be run by themselves? */
#ifndef PARE_GRAPH_BATCH_INDEPENDENCE_H
#define PARE_GRAPH_BATCH_INDEPENDENCE_H

#include "graph.h"

/* The items of a batch are the indices of axis 0 of all inputs and outputs.  They are apart when no
 * result depends on another item than its own, nor on how many there are: then a batch can be run
 * in parts.  `whole` and `part` are clones of one graph, inferred for batches of different sizes,
 * part's the smaller one.  What operators say about their axes (ties) decides, and whoever says
 * nothing keeps them together.  Fails only when there is no memory. */
int pare_batch_independent(const struct pare_graph *whole, const struct pare_graph *part,
                           bool *apart, struct pare_err *err);

#endif

/* output_logits.h - logits of a model whose output is Softmax, LogSoftmax or Sigmoid. */
#ifndef PARE_GRAPH_OUTPUT_LOGITS_H
#define PARE_GRAPH_OUTPUT_LOGITS_H

#include "graph.h"

/* The input of the operator that makes output 0, if it has one of these flags (PARE_OP_SOFTMAX,
 * PARE_OP_SIGMOID); quantization of the output is looked through.  Softmax must be over axis 1, the
 * classes.  NULL: none.  *node may be NULL; it is set to the operator's node. */
struct pare_value *pare_graph_logits(const struct pare_graph *g, unsigned flags,
                                     const struct pare_node **node);

#endif

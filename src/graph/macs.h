/* macs.h - parameters and multiply-accumulates, as NNI's counter reports them.
 *
 * Counted for one item.  Plain: convolutions, linear and recurrent layers, without their biases.
 * Full: biases as well, and normalizations, LeakyReLU, poolings that average and resizing.
 * Parameters are those of what is counted, a weight that is used twice once; so without `full`
 * those of normalizations are missing, which `pare inspect` counts.
 */
#ifndef PARE_GRAPH_MACS_H
#define PARE_GRAPH_MACS_H

#include "layer.h"

struct pare_counted {
    const struct pare_layer_info *layer;
    double flops; /* multiply-accumulates; -1: shapes are not known */
    int64_t params;
};

struct pare_count {
    struct pare_counted *row;
    int n, unknown; /* unknown: how many rows have no flops */
    double flops;
    int64_t params;
};

/* Of a graph whose shapes are inferred for `batch` items. */
int pare_count(struct pare_arena *a, const struct pare_graph *g, int64_t batch, bool full,
               struct pare_count *c, struct pare_err *err);

#endif

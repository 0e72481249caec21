/* macs.h - parameters and multiply-accumulates, as NNI's counter reports them.
 *
 * Counted for one item.  Plain: convolutions, linear and recurrent layers, without their biases.
 * Full: also biases, normalizations, LeakyReLU, average pooling and resizing.  Parameters are those
 * of the counted layers, a shared weight once; so without `full` the parameters of normalizations
 * are missing, which `pare inspect` counts.
 */
#ifndef PARE_GRAPH_MACS_H
#define PARE_GRAPH_MACS_H

#include "layer.h"

struct pare_counted {
    const struct pare_layer_info *layer;
    double flops; /* multiply-accumulates; -1: shapes are unknown */
    int64_t params;
};

struct pare_count {
    struct pare_counted *row;
    int n, unknown; /* unknown: number of rows without flops */
    double flops;
    int64_t params;
};

/* Count a graph whose shapes are inferred for `batch` items. */
int pare_count(struct pare_arena *a, const struct pare_graph *g, int64_t batch, bool full,
               struct pare_count *c, struct pare_err *err);

#endif

/* probe.h - probes: temporary nodes that see a value of the graph, and forward passes of the
 * float model for comparison. */
#ifndef PARE_QUANT_PROBE_H
#define PARE_QUANT_PROBE_H

#include "quant_state.h"

/* A probe; the caller keeps it until the probes are removed. */
struct pare_probe {
    const char *name; /* part of the node's name */
    /* Sees a float32 tensor; y has a copy of its elements, which it may change. */
    int (*see)(void *user, const struct pare_tensor *x, float *y, struct pare_err *err);
    void *user;
};

/* Let all consumers of `from` read through the probe.  The caller calls pare_graph_order() after
 * the last one. */
int pare_probe_insert(struct pare_graph *g, struct pare_probe *p, struct pare_value *from,
                      struct pare_err *err);

/* Remove all probes from the graph. */
void pare_probes_remove(struct pare_graph *g);

/* `batches` forward passes of the float model: all quantization points disabled, weights and biases
 * as they were before quantization and correction.  Afterward the points are as before, and the
 * weights quantized again. */
int pare_float_pass(struct pare_compression *r, int64_t batches, struct pare_err *err);

/* Disable all quantization points, and restore them; `was` has an element for each layer. */
void pare_quant_disable(struct pare_compression *r, bool (*was)[PARE_QUANT_SITES]);
void pare_quant_enable(struct pare_compression *r, bool (*was)[PARE_QUANT_SITES]);

#endif

/* int8_regions.h - which outputs preset int8 quantizes: data flow between quantized layers. */
#ifndef PARE_QUANT_INT8_REGIONS_H
#define PARE_QUANT_INT8_REGIONS_H

#include "../graph/layer.h"

/* The layers of a graph with inferred shapes, as pare_layers_all() lists them. */
struct pare_int8_scan {
    const struct pare_graph *g;
    const struct pare_layer_info *layer;
    int n;
    bool *inner;   /* per value: computed inside a written-out pattern, stays float */
    bool *chosen;  /* per layer: its weight and input are quantized */
    bool *rounded; /* per layer: its output is quantized; set by pare_int8_regions() */
};

int pare_int8_regions(struct pare_int8_scan *s, struct pare_arena *a, struct pare_err *err);

#endif

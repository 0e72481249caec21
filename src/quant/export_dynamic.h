/* export_dynamic.h - export layers with dynamic activation quantization: MatMulInteger,
 * ConvInteger, DynamicQuantizeLSTM. */
#ifndef PARE_QUANT_EXPORT_DYNAMIC_H
#define PARE_QUANT_EXPORT_DYNAMIC_H

#include "../onnx/edit.h"
#include "qscale.h"

/* Values that are quantized in one graph, the main graph or a body. */
struct pare_dynamic_inputs {
    const struct pare_edit *at;
    struct pare_map quantized; /* name of a float value to the names of its quantized one */
    struct pare_dynamic_inputs *next;
};

/* One export.  Layers of a graph that read the same value share its DynamicQuantizeLinear. */
struct pare_dynamic {
    struct pare_edit *e;
    struct pare_arena *a; /* lives as long as the edit and its model */
    struct pare_dynamic_inputs *inputs;
    int n; /* layers exported */
};

/* Replace the layer's node by integer operators.  *done is false, and nothing changes, if the
 * layer has to stay float with dequantized weights. */
int pare_dynamic_export(struct pare_dynamic *d, const struct pare_layer *l,
                        const struct pare_qscale *g, const struct pare_tensor *q, bool *done,
                        struct pare_err *err);

/* The same for both weights of a recurrent layer: l, and r, which follows it. */
int pare_dynamic_export_recurrent(struct pare_dynamic *d, const struct pare_layer *l,
                                  const struct pare_layer *r, bool *done, struct pare_err *err);

#endif

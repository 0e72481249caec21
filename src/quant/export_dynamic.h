/* export_dynamic.h - export layers with dynamic activation quantization: MatMulInteger and
 * ConvInteger. */
#ifndef PARE_QUANT_EXPORT_DYNAMIC_H
#define PARE_QUANT_EXPORT_DYNAMIC_H

#include "../onnx/edit.h"
#include "qscale.h"

/* One export.  Layers that read the same value share its DynamicQuantizeLinear. */
struct pare_dynamic {
    struct pare_edit *e;
    struct pare_arena *a;   /* lives as long as the edit and its model */
    struct pare_map inputs; /* name of a float value to its quantized one */
    int n;                  /* layers exported */
};

/* Replace the layer's node by integer operators.  *done is false, and nothing changes, if the
 * layer has to stay float with dequantized weights. */
int pare_dynamic_export(struct pare_dynamic *d, const struct pare_layer *l,
                        const struct pare_qscale *g, const struct pare_tensor *q, bool *done,
                        struct pare_err *err);

#endif

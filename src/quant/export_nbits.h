/* export_nbits.h - linear layers as MatMulNBits. */
#ifndef PARE_QUANT_EXPORT_NBITS_H
#define PARE_QUANT_EXPORT_NBITS_H

#include "../onnx/edit.h"
#include "qscale.h"

/* Put a MatMulNBits (and an Add, of a Gemm's C) in the place of the layer's Gemm or MatMul, where
 * that says the same; q are the integers of its weight.  *done: it was. */
int pare_nbits_export(struct pare_edit *e, struct pare_arena *a, const struct pare_layer *l,
                      const struct pare_qscale *g, const struct pare_tensor *q, bool *done,
                      struct pare_err *err);

#endif

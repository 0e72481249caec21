/* export_nbits.h - export linear layers as MatMulNBits. */
#ifndef PARE_QUANT_EXPORT_NBITS_H
#define PARE_QUANT_EXPORT_NBITS_H

#include "../onnx/edit.h"
#include "qscale.h"

/* Replaces the layer's Gemm or MatMul by MatMulNBits (and an Add, for a Gemm's C) if that is
 * equivalent; q holds the integers of its weight.  *done: it was replaced. */
int pare_nbits_export(struct pare_edit *e, struct pare_arena *a, const struct pare_layer *l,
                      const struct pare_qscale *g, const struct pare_tensor *q, bool *done,
                      struct pare_err *err);

#endif

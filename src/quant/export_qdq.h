/* export_qdq.h - export a quantized model with QuantizeLinear and DequantizeLinear nodes. */
#ifndef PARE_QUANT_EXPORT_QDQ_H
#define PARE_QUANT_EXPORT_QDQ_H

#include "quant_state.h"

/* Writes weights as integers before a DequantizeLinear, a QuantizeLinear and DequantizeLinear pair
 * at each quantization point, and int32 biases where input and weight are quantized.  With
 * qoperator, writes QLinearConv and QLinearMatMul where they are equivalent. */
int pare_qdq_save(struct pare_compression *r, const char *path, const struct pare_export *form,
                  struct pare_err *err);

/* The same as a model in memory. */
int pare_qdq_model(struct pare_compression *c, const struct pare_export *form,
                   struct pare_model **model, struct pare_err *err);

#endif

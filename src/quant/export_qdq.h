/* export_qdq.h - a quantized model as a file of integers. */
#ifndef PARE_QUANT_EXPORT_QDQ_H
#define PARE_QUANT_EXPORT_QDQ_H

#include "quant_state.h"

/* Weights as integers before a DequantizeLinear, QuantizeLinear and DequantizeLinear at quantized
 * places, biases as int32 where input and weight are integers.  With qoperator, QLinearConv and
 * QLinearMatMul where these fit. */
int pare_qdq_save(struct pare_compression *r, const char *path, const struct pare_export *form,
                  struct pare_err *err);

#endif

/* equalize.h - channels of neighbouring layers are scaled so that both reach equally far. */
#ifndef PARE_QUANT_EQUALIZE_H
#define PARE_QUANT_EQUALIZE_H

#include "../onnx/model.h"

/* In place: the model computes the same, but for the rounding of floats.  *pairs is how many pairs
 * of layers there were. */
int pare_model_equalize(struct pare_model *m, int *pairs, struct pare_err *err);

#endif

/* equalize.h - cross-layer equalization: rescale channels so that consecutive layers have equal
 * weight ranges. */
#ifndef PARE_QUANT_EQUALIZE_H
#define PARE_QUANT_EQUALIZE_H

#include "../onnx/model.h"

/* Rescales in place: the model computes the same function up to float rounding.  *pairs is the
 * number of layer pairs. */
int pare_model_equalize(struct pare_model *m, int *pairs, struct pare_err *err);

#endif

/* bias_correct.h - empirical bias correction: cancel the mean output error of quantized weights. */
#ifndef PARE_QUANT_BIAS_CORRECT_H
#define PARE_QUANT_BIAS_CORRECT_H

#include "quant_state.h"

/* Corrects the biases in the model, with three passes over `batches` batches of the compression's
 * data.  Undoes an earlier correction first. */
int pare_bias_correct(struct pare_compression *r, int64_t batches, struct pare_err *err);

/* Restores the biases from before any correction; rounded: those that belong to the rounded weights
 * where weight_rounding.h has changed them. */
void pare_bias_restore(struct pare_compression *r, bool rounded);

/* Does no other node read the layer's bias? */
bool pare_bias_is_own(const struct pare_layer *l);

#endif

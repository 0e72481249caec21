/* bias_correct.h - what rounding weights does to the mean of a layer's output, its bias undoes. */
#ifndef PARE_QUANT_BIAS_CORRECT_H
#define PARE_QUANT_BIAS_CORRECT_H

#include "quant_state.h"

/* Looks at `batches` batches of the run's data twice; the model then has the corrected biases.
 * Biases of an earlier correction are put back first. */
int pare_bias_correct(struct pare_compression *r, int64_t batches, struct pare_err *err);

/* The biases are again as they were before. */
void pare_bias_restore(struct pare_compression *r);

#endif

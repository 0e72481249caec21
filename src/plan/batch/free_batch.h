/* free_batch.h - a model with a fixed batch of 1, changed so that it accepts any batch. */
#ifndef PARE_PLAN_BATCH_FREE_BATCH_H
#define PARE_PLAN_BATCH_FREE_BATCH_H

#include "../../onnx/model.h"

/* Free the batch dimension: inputs and outputs declare it as "N", and Reshape nodes whose constant
 * shape contains it compute it.  The result is run with two items and compared with m, run item by
 * item; a model that mixes items, or still contains the batch, is an error. */
int pare_model_free_batch(const struct pare_model *m, struct pare_model **freed,
                          struct pare_err *err);

#endif

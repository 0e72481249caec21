/* free_batch.h - a model with a fixed batch of 1, changed so that it accepts any batch. */
#ifndef PARE_PLAN_BATCH_FREE_BATCH_H
#define PARE_PLAN_BATCH_FREE_BATCH_H

#include "../../graph/free_dims.h"
#include "../../onnx/edit.h"

/* Let the model accept any batch in memory, if it declares a batch of 1: constants that contain the
 * batch are rewritten (batch_constants.c), the result is run with two items and compared with the
 * model, run item by item.  A model that mixes items, or still contains the batch, is an error and
 * stays as it is.  Saving writes the declared batch of 1, and the file as it was read if nothing
 * else changes the model. */
int pare_model_free_batch(struct pare_model *m, struct pare_err *err);

/* The same where a batch other than 1 would be of use: a model that cannot be changed stays as it
 * is, and m->one_batch says why. */
int pare_model_try_batch(struct pare_model *m, struct pare_err *err);

/* The same to run a data set faster: only if all inputs have a batch of 1, since items may differ
 * in the others. */
int pare_model_try_batch_of_all(struct pare_model *m, struct pare_err *err);

/* Declare the batch as the free dimension "N": the model to save. */
int pare_model_declare_batch(const struct pare_model *m, struct pare_model **declared,
                             struct pare_err *err);

/* Rewrite the constants; *count: how many. */
int pare_batch_constants(const struct pare_model *m, struct pare_edit *e, int64_t *count,
                         struct pare_err *err);

#endif

/* data_inputs.h - inputs of a model from a data set. */
#ifndef PARE_CLI_JOB_DATA_INPUTS_H
#define PARE_CLI_JOB_DATA_INPUTS_H

#include "../../data/data.h"
#include "input.h"

/* pare_data_open_for() with a progress line. */
int pare_cli_data_open(struct pare_cli *c, const struct pare_data_request *r,
                       const struct pare_data_opts *opts, bool quiet, struct pare_data **data,
                       struct pare_err *err);

/* The first batch of a data set, with the options in c->given, as inputs of a model; batch 0: one
 * item.  Call it before pare_inputs_shape(), like pare_inputs_read(). */
int pare_inputs_from_data(struct pare_cli *c, const struct pare_model *m, const char *data,
                          int64_t batch, struct pare_inputs *in, struct pare_err *err);

/* Shapes "name=1,3,32,32" of the set's first item, for inputs of the model with free dimensions
 * other than the batch. */
int pare_data_item_shapes(struct pare_arena *a, const struct pare_model *m,
                          const struct pare_data *d, struct pare_strs *shape, struct pare_err *err);

#endif

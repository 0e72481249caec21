/* verify_inputs.h - inputs from a data set for verifying a smaller model. */
#ifndef PARE_CLI_JOB_VERIFY_INPUTS_H
#define PARE_CLI_JOB_VERIFY_INPUTS_H

#include <pare/compress.h>

#include "../../data/data.h"

struct pare_verify_inputs {
    struct pare_data *data;     /* the caller opens and frees it */
    struct pare_arena *arena;   /* for the list of items */
    struct pare_loader *loader; /* free it even if opening failed */
    int64_t items;              /* number of items that are used */
    int n_in;                   /* inputs of the model */
    int64_t *batch;             /* by run: the batch to load */
    struct pare_tensor *more;   /* of other shapes: (n_more, n_in) */
    int n_more;
};

/* Make `o` verify with up to `items` items, in batches of the size of in[0].  Free dimensions
 * of the model's inputs `in` become those of the first batch; of items of other shapes, two are
 * used that differ. */
int pare_verify_inputs_open(struct pare_verify_inputs *f, const struct pare_model *m,
                            struct pare_tensor *in, int64_t items, struct pare_speedup_opts *o,
                            struct pare_err *err);

#endif

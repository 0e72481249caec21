/* batch_runner.h - run a model on the batches of a loader: plans for full batches, for the last one
 * and for items of other shapes; padding for models whose batch size is fixed. */
#ifndef PARE_TRAIN_BATCH_RUNNER_H
#define PARE_TRAIN_BATCH_RUNNER_H

#include "../data/data.h"
#include "../onnx/model.h"
#include "../plan/shape_plans.h"

struct pare_batch_runner {
    /* Set by the caller: as in struct pare_plan_opts and struct pare_plan_build. */
    int threads;
    bool tune;
    const char *choices, *cache;
    enum pare_precision precision;
    unsigned logits;

    double seconds; /* spent running the model */

    /* private */
    const struct pare_model *m;
    struct pare_arena *arena;
    struct pare_shape_plans plans;
    int64_t fixed;          /* the only batch size that the model accepts; 0: any */
    struct pare_tensor *in; /* inputs; zero-padded if the model's batch size is fixed */
};

/* Prepare for a model, and set the inputs and the batch size of its loader.  `arena` must outlive
 * the runner. */
int pare_batch_runner_init(struct pare_batch_runner *r, const struct pare_model *m,
                           struct pare_loader_opts *lo, struct pare_arena *arena,
                           struct pare_err *err);

/* Run the model on a batch.  out[0..*n) has PARE_DATA_OUTPUTS elements and is valid until the
 * next call; rows of padding are left out of outputs whose first dimension is the batch. */
int pare_batch_runner_run(struct pare_batch_runner *r, const struct pare_batch *b,
                          struct pare_tensor *out, int *n, struct pare_err *err);

void pare_batch_runner_free(struct pare_batch_runner *r);

#endif

/* recalibrate.h - re-estimate running statistics of batch normalizations after weights changed.
 *
 * The mean and variance of each normalization become the average of those of N batches, in training
 * mode: the cumulative average of momentum 1/i at batch i.  Weights do not change.
 */
#ifndef PARE_TRAIN_RECALIBRATE_H
#define PARE_TRAIN_RECALIBRATE_H

#include "trainer.h"

struct pare_recalibrate_opts {
    int64_t batches;            /* at most; 0: none */
    int64_t batch;              /* items of a batch; 0: the data set's */
    uint64_t seed;              /* of shuffling and augmentation, as in training */
    pare_progress_fn *progress; /* called for each batch; or NULL */
    void *user;
};

/* The number of running statistics that the trainer's model has; 0: nothing to re-estimate. */
int pare_recalibrate_count(const struct pare_trainer *t);

/* *done: batches that were averaged.  A normalization that no batch reached keeps its statistics.
 * With several processes the batches of all are averaged. */
int pare_recalibrate(struct pare_trainer *t, const struct pare_data *data,
                     const struct pare_recalibrate_opts *o, int64_t *done, struct pare_err *err);

#endif

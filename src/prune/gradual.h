/* gradual.h - gradual pruning for agp and linear: raise sparsity while a base pruner computes the
 * masks.
 *
 * Three ways to specify the schedule, all of them NNI's:
 *   - options total_iteration and epochs_per_iteration: iterations 0..N of that many epochs, the
 *     first of them with nothing removed;
 *   - options interval_steps and total_times: one increase every interval_steps training steps;
 *   - entry keys final_sparsity, initial_sparsity, start_epoch, end_epoch, frequency: by epoch
 *     number.
 */
#ifndef PARE_PRUNE_GRADUAL_H
#define PARE_PRUNE_GRADUAL_H

#include <pare/plugin.h>

#include "sparsity_schedule.h"

struct pare_gradual_keys {
    double initial_sparsity, final_sparsity;
    int64_t start_epoch, end_epoch, frequency;
};
extern const struct pare_opt pare_gradual_keys[];

struct pare_gradual_opts {
    int64_t total_iteration, epochs_per_iteration;
    int64_t interval_steps, total_times;
};
extern const struct pare_opt pare_gradual_opts[];

struct pare_gradual_run {
    int64_t first_epoch; /* first epoch + 1; 0: no epoch has begun */
    int64_t first_step;
};

int pare_gradual_start(struct pare_compression *r, struct pare_err *err);
int pare_gradual_on_epoch(struct pare_compression *r, int64_t epoch, pare_curve *curve,
                          struct pare_err *err);
int pare_gradual_on_step(struct pare_compression *r, pare_curve *curve, struct pare_err *err);
int pare_gradual_length(struct pare_compression *r, int64_t *epochs, int64_t *steps,
                        struct pare_err *err);

#endif

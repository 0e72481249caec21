/* range_trials.h - choose the range of each quantized tensor among those of several observers, by
 * the error that each makes at the model's outputs. */
#ifndef PARE_QUANT_RANGE_TRIALS_H
#define PARE_QUANT_RANGE_TRIALS_H

#include "quant_state.h"

#define PARE_OBSERVERS 4 /* that compete */

/* A tensor and its ranges. */
struct pare_range_trial {
    int place; /* layer index * PARE_QUANT_SITES + site: the first point with this tensor */
    float lo[PARE_OBSERVERS], hi[PARE_OBSERVERS];
    int best; /* the chosen observer */
};

/* Sets the scales of all points that share the tensor. */
typedef int pare_set_range_fn(struct pare_compression *r, int place, float lo, float hi,
                              struct pare_err *err);

/* Chooses t[].best for n tensors, by passes over this number of items, and sets their ranges.  The
 * model's weights are float. */
int pare_choose_ranges(struct pare_compression *r, struct pare_range_trial *t, int n, int64_t items,
                       pare_set_range_fn *set, struct pare_err *err);

#endif

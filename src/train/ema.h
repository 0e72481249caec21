/* ema.h - exponential moving average of parameters and running statistics during training.
 *
 * After each step average = d average + (1 - d) value, with d = min(decay, (1 + n) / (10 + n))
 * after n steps, so that the first steps count less, as in TensorFlow's
 * ExponentialMovingAverage.
 */
#ifndef PARE_TRAIN_EMA_H
#define PARE_TRAIN_EMA_H

#include "checkpoint.h"
#include "trainer.h"

struct pare_ema {
    struct pare_trainer *t;
    double decay;
    struct pare_tensor *average; /* by parameter, then by running statistic */
    int n;
};

/* Averages start at the parameters as they are.  Memory is from the arena. */
int pare_ema_new(struct pare_trainer *t, double decay, struct pare_arena *a, struct pare_ema **ema,
                 struct pare_err *err);

/* After a step, with parameters in row-major layout.  NULL: nothing. */
void pare_ema_update(struct pare_ema *e);

/* Exchange averages and parameters, for validation and for the result.  NULL: nothing. */
void pare_ema_swap(struct pare_ema *e);

/* Averages in a checkpoint, of kind "ema".  NULL: nothing. */
int pare_ema_save(const struct pare_ema *e, struct pare_checkpoint *k, struct pare_err *err);
int pare_ema_load(const struct pare_ema *e, const struct pare_checkpoint *k, struct pare_err *err);

#endif

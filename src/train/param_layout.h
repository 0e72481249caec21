/* param_layout.h - keep filters in the kernels' blocked layout between the points where hooks or
 * files read them.
 *
 * Files, hooks and plugins see parameters, gradients, masks and the optimizer's state row-major.
 * Between these points, the filters of convolutions may be in blocks
 * (backend/conv/blocked_filters.h), so that kernels need not convert them in each step.  The
 * conversion permutes the elements in place.
 *
 *     pare_trainer_block_params(t, true);        from the next forward pass on
 *     any number of steps
 *     pare_trainer_block_params(t, false);       all is row-major again
 */
#ifndef PARE_TRAIN_PARAM_LAYOUT_H
#define PARE_TRAIN_PARAM_LAYOUT_H

#include "trainer.h"

/* Do no hooks read parameters, gradients or masks between steps? */
bool pare_params_may_block(const struct pare_trainer *t);

/* For the trainer, once the plans exist: convert to blocks; convert back. */
int pare_params_to_blocked(struct pare_trainer *t, struct pare_err *err);
void pare_params_to_row_major(struct pare_trainer *t);

#endif

/* param_layout.h - parameters in the layout that kernels read, while nobody looks at them.
 *
 * Everybody but kernels has parameters, gradients, masks and the optimizer's state row-major:
 * files, hooks, plugins.  From one look to the next the filters of convolutions may be in blocks
 * (backend/conv/blocked_filters.h), so that no kernel has to bring them there in each step.  It is the same
 * memory; its elements change places.
 *
 *     pare_trainer_block_params(t, true);        from the next forward on
 *     any number of steps
 *     pare_trainer_block_params(t, false);       all is row-major again
 */
#ifndef PARE_TRAIN_PARAM_LAYOUT_H
#define PARE_TRAIN_PARAM_LAYOUT_H

#include "trainer.h"

/* Does nobody look at parameters, gradients or masks between steps? */
bool pare_params_may_block(const struct pare_trainer *t);

/* For the trainer: the plans are there, their parameters are to be in blocks; all back. */
int pare_params_to_blocked(struct pare_trainer *t, struct pare_err *err);
void pare_params_to_row_major(struct pare_trainer *t);

#endif

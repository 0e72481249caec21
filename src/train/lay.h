/* lay.h - parameters in the layout that kernels read, while nobody looks at them.
 *
 * Everybody but kernels has parameters, gradients, masks and the optimizer's state row-major:
 * files, hooks, plugins.  From one look to the next the filters of convolutions may be in blocks
 * (backend/filters.h), so that no kernel has to bring them there in each step.  It is the same
 * memory; its elements change places.
 *
 *     pare_trainer_lay(t, true);        from the next forward on
 *     any number of steps
 *     pare_trainer_lay(t, false);       all is row-major again
 */
#ifndef PARE_TRAIN_LAY_H
#define PARE_TRAIN_LAY_H

#include "trainer.h"

/* Does nobody look at parameters, gradients or masks between steps? */
bool pare_lay_may(const struct pare_trainer *t);

/* For the trainer: the plans are there, their parameters are to be in blocks; all back. */
int pare_lay_in(struct pare_trainer *t, struct pare_err *err);
void pare_lay_out(struct pare_trainer *t);

#endif

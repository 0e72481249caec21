/* optim_adam.h - the update that Adam and AdamW share. */
#ifndef PARE_TRAIN_OPTIM_ADAM_H
#define PARE_TRAIN_OPTIM_ADAM_H

#include "optim.h"

struct pare_adam {
    double beta1, beta2, eps, weight_decay;
};

/* One pass; `l2` times the weight is added to the gradient, and the weight is first multiplied by
 * `keep`. */
void pare_adam_update(const struct pare_adam *c, const struct pare_update *u, double l2,
                      double keep);

#endif

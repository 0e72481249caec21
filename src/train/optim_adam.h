/* optim_adam.h - what Adam and AdamW share. */
#ifndef PARE_TRAIN_OPTIM_ADAM_H
#define PARE_TRAIN_OPTIM_ADAM_H

#include "optim.h"

struct pare_adam {
    double beta1, beta2, eps, weight_decay;
};

/* One pass; `l2` is added to the gradient times the weight, the weight is first multiplied by
 * `keep`. */
void pare_adam_update(const struct pare_adam *c, const struct pare_update *u, double l2,
                      double keep);

#endif

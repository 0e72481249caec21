/* hold_zeros.h - weights that are 0 stay 0 in training, so that a pruned model stays pruned. */
#ifndef PARE_COMPRESS_HOLD_ZEROS_H
#define PARE_COMPRESS_HOLD_ZEROS_H

#include "../train/trainer.h"

/* Mask the weights of the trainer's model that are 0.  Of a channel without weights whose bias is
 * 0, the bias stays 0, too, and so does the scale of a normalization, which is its weight.  Other
 * biases may start at 0.  A parameter that is not trained stays as it is. */
int pare_hold_zeros(struct pare_trainer *t, struct pare_err *err);

#endif

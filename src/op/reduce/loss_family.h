/* loss_family.h - what NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss share.
 *
 * Input 0 is (N, C, ...) with a number for each class, input 1 is (N, ...) with the right classes,
 * input 2 (C) weighs the classes.
 */
#ifndef PARE_OP_REDUCE_LOSS_FAMILY_H
#define PARE_OP_REDUCE_LOSS_FAMILY_H

#include "../op.h"

struct pare_loss {
    int64_t ignore_index;
    const char *reduction;
};
extern const struct pare_opt pare_loss_attrs[];

/* Check the inputs and set output 0. */
int pare_loss_infer(struct pare_node *n, struct pare_err *err);

/* Output 0 from the logarithms of the classes' probabilities, in input 0's shape. */
int pare_loss_forward(const struct pare_node *n, const float *log_prob, struct pare_err *err);

/* Add output 0's gradient to `grad`, that of those logarithms (NULL: not wanted), and to that of
 * the weights. */
void pare_loss_backward(const struct pare_node *n, const float *log_prob, float *grad);

#endif

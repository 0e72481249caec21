/* loss_family.h - shared by NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss.
 *
 * Input 0 is (N, C, ...) with a number per class, input 1 is (N, ...) with the labels, input 2 (C)
 * has weights of the classes.
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

/* Output 0 from the log-probabilities of the classes, in input 0's shape. */
int pare_loss_forward(const struct pare_node *n, const float *log_prob, struct pare_err *err);

/* Add output 0's gradient to `grad`, the gradient of the log-probabilities (NULL: not required),
 * and to the gradient of the weights. */
void pare_loss_backward(const struct pare_node *n, const float *log_prob, float *grad);

#endif

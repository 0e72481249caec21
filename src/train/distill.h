/* distill.h - knowledge distillation: loss terms that pull a student toward its teacher.
 *
 * These add to a loss that has been computed already:
 *
 *     hard->run(conf, out, target, grad, &loss, err);             // grad = ..., loss = ...
 *     pare_distill_soft(&soft, out, teacher_out, grad, &loss, err);
 *     pare_distill_layer(&layer, act, teacher_act, act_grad, &loss, err);
 *
 * grad may be NULL everywhere: compute only the loss.
 */
#ifndef PARE_TRAIN_DISTILL_H
#define PARE_TRAIN_DISTILL_H

#include <pare/plugin.h>

/* Soft labels: Hinton, Vinyals, Dean, "Distilling the knowledge in a neural network", 2015.
 *
 *     soft = f / N * sum over all rows of KL( softmax(teacher / T) || softmax(student / T) )
 *
 * with f = T^2 when t_squared (then the gradient's size does not depend on T), else f = 1.
 * Logits are (N, C) or (N, C, d1, ...), the classes on axis 1; N is the batch. */
struct pare_distill_soft {
    double alpha;       /* weight of the loss so far, default 1 */
    double beta;        /* weight of the soft labels, default 1 */
    double temperature; /* T, default 4 */
    bool t_squared;     /* default true */
};
extern const struct pare_opt pare_distill_soft_opts[];

/* *loss = alpha *loss + beta soft; grad = alpha grad + beta d soft / d student.  With beta 0 the
 * teacher's output is not read. */
int pare_distill_soft(const struct pare_distill_soft *conf, const struct pare_tensor *student,
                      const struct pare_tensor *teacher, float *grad, double *loss,
                      struct pare_err *err);

/* Layers: the same shape on both sides.
 *   mse: the mean over all elements of (student - teacher)^2
 *   kl:  T^2 / N * sum of KL over the last axis, T = 2; N is dimension 0 */
struct pare_distill_layer {
    double lambda;      /* weight of this term, default 1 */
    const char *method; /* "mse" or "kl" */
    double temperature; /* of kl, default 2 */
};
extern const struct pare_opt pare_distill_layer_opts[];

/* *loss += lambda term; grad += lambda d term / d student. */
int pare_distill_layer(const struct pare_distill_layer *conf, const struct pare_tensor *student,
                       const struct pare_tensor *teacher, float *grad, double *loss,
                       struct pare_err *err);

#endif

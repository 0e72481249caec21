/* scaled_mat_mul.h - int8 matrix products with a float32 result, of com.microsoft. */
#ifndef PARE_OP_QUANT_SCALED_MAT_MUL_H
#define PARE_OP_QUANT_SCALED_MAT_MUL_H

#include "../matrix/matrix.h"
#include "quant_family.h"

/* Indices of inputs; -1 or beyond the inputs: absent.  B's scale and zero point are scalars or
 * lists for its columns, the bias is such a list. */
struct pare_scaled_mat_mul {
    int b, b_scale, b_zero, bias;
};

/* Check B's inputs and set the shape of the result; a is input 0. */
int pare_scaled_mat_mul_infer(struct pare_node *n, const struct pare_scaled_mat_mul *s,
                              struct pare_err *err);

/* y = (a - zero) (b - b_zero) scale b_scale + bias; `a` has bytes. */
int pare_scaled_mat_mul_run(struct pare_node *n, const struct pare_scaled_mat_mul *s,
                            struct pare_ctx *c, const struct pare_tensor *a,
                            const struct pare_tensor *zero, float scale, struct pare_err *err);

/* The columns of B, of its lists and of the result are the same. */
void pare_scaled_mat_mul_ties(const struct pare_node *n, const struct pare_scaled_mat_mul *s,
                              struct pare_ties *t);

#endif

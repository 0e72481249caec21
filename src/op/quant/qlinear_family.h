/* qlinear_family.h - quantized operators of com.microsoft, shared code.
 *
 * Each is DequantizeLinear of its operands, a float operator, and QuantizeLinear.  An operand is
 * three inputs: integers, scale, zero point; the result's scale and zero point are two more.
 * Scales are scalars.
 */
#ifndef PARE_OP_QUANT_QLINEAR_FAMILY_H
#define PARE_OP_QUANT_QLINEAR_FAMILY_H

#include "quant_family.h"

#define PARE_T_BYTES (PARE_T(PARE_U8) | PARE_T(PARE_I8))

struct pare_qlinear {
    const struct pare_op *real; /* the float operator, whose attributes the node has */
    int first, n;               /* operand i is input first + 3 i; n: number of operands, 0: all */
    int y;                      /* index of the result's scale */
    int version;                /* opset of the float operator; 0: 13 */
};

/* Up to two operands; the result has the type of the first. */
int pare_qlinear_infer(struct pare_node *n, const struct pare_qlinear *q, struct pare_err *err);
int pare_qlinear_forward(struct pare_node *n, const struct pare_qlinear *q, struct pare_ctx *c,
                         struct pare_err *err);

/* Fail unless input k is absent, or has one element and (`type` not PARE_NONE) that type. */
int pare_qlinear_single(const struct pare_node *n, int k, enum pare_dtype type,
                        struct pare_err *err);

extern const struct pare_op pare_op_add, pare_op_mul, pare_op_average_pool,
    pare_op_global_average_pool, pare_op_concat, pare_op_sigmoid, pare_op_leaky_relu,
    pare_op_softmax, pare_op_reduce_mean;

#endif

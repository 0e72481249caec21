/* mat_mul_integer_to_float.c - MatMulIntegerToFloat (com.microsoft): (A - a_zero) (B - b_zero)
 * a_scale b_scale + bias. */
#include "scaled_mat_mul.h"

enum { A, B, A_SCALE, B_SCALE, A_ZERO, B_ZERO, BIAS };

static const struct pare_scaled_mat_mul how = { B, B_SCALE, B_ZERO, BIAS };

static const struct pare_tensor *input(const struct pare_node *n, int i)
{
    return i < n->n_in && n->in[i] ? &n->in[i]->t : NULL;
}

static int infer(struct pare_node *n, struct pare_err *err)
{
    if (pare_numel(input(n, A_SCALE)) != 1 ||
        (input(n, A_ZERO) && pare_numel(input(n, A_ZERO)) != 1))
        return pare_fail(err, PARE_EUNSUPPORTED,
                         "the scale of A has %lld elements, only one is supported",
                         (long long)pare_numel(input(n, A_SCALE)));
    return pare_scaled_mat_mul_infer(n, &how, err);
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    return pare_scaled_mat_mul_run(n, &how, c, input(n, A), input(n, A_ZERO),
                                   pare_f32(input(n, A_SCALE))[0], err);
}

static void ties(const struct pare_node *n, struct pare_ties *t)
{
    pare_matmul_ties(n, B, t);
    pare_scaled_mat_mul_ties(n, &how, t);
}

static double macs(const struct pare_node *n)
{
    return pare_matmul_macs(&n->in[A]->t, &n->in[B]->t);
}

const struct pare_op pare_op_mat_mul_integer_to_float = {
    .type = "MatMulIntegerToFloat",
    .doc = "Matrix product of int8 or uint8 matrices, scaled to float.",
    .domain = "com.microsoft",
    .since = 1,
    .in = "TUFFT?U?F?",
    .types = PARE_T(PARE_U8) | PARE_T(PARE_I8),
    .min_out = 1,
    .max_out = 1,
    .torch = "Linear",
    .scales = { .w = B_SCALE, .w_zero = B_ZERO },
    .layer = { .kind = PARE_LAYER_LINEAR,
               .params = PARE_IN(B),
               .weight = B,
               .scale_axis = 1,
               .by_default = true },
    .infer = infer,
    .forward = forward,
    .ties = ties,
    .macs = macs,
    .settings = PARE_IN(A_SCALE) | PARE_IN(B_SCALE) | PARE_IN(A_ZERO) | PARE_IN(B_ZERO),
};

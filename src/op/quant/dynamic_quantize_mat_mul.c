/* dynamic_quantize_mat_mul.c - DynamicQuantizeMatMul (com.microsoft): A, quantized by its range,
 * times an int8 or uint8 B. */
#include "../inner_node.h"
#include "scaled_mat_mul.h"

enum { A, B, B_SCALE, B_ZERO, BIAS };

static const struct pare_scaled_mat_mul how = { B, B_SCALE, B_ZERO, BIAS };

extern const struct pare_op pare_op_dynamic_quantize_linear;

static int infer(struct pare_node *n, struct pare_err *err)
{
    return pare_scaled_mat_mul_infer(n, &how, err);
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    struct pare_value v[3] = { { .name = "" }, { .name = "" }, { .name = "" } };
    struct pare_inner quantize;

    PARE_TRY(pare_inner_init(&quantize, &pare_op_dynamic_quantize_linear, 11, err));
    pare_inner_in(&quantize, n->in[A]);
    for (int i = 0; i < 3; i++)
        pare_inner_out(&quantize, &v[i]);
    PARE_TRY(quantize.node.op->infer(&quantize.node, err));
    for (int i = 0; i < 3; i++)
        PARE_TRY(pare_tensor_alloc(c->scratch, &v[i].t, err));
    PARE_TRY(quantize.node.op->forward(&quantize.node, c, err));
    return pare_scaled_mat_mul_run(n, &how, c, &v[0].t, &v[2].t, pare_f32(&v[1].t)[0], err);
}

/* The range of A depends on all of its elements: only B's columns can be removed. */
static void ties(const struct pare_node *n, struct pare_ties *t)
{
    pare_scaled_mat_mul_ties(n, &how, t);
}

static double macs(const struct pare_node *n)
{
    return pare_matmul_macs(&n->in[A]->t, &n->in[B]->t);
}

const struct pare_op pare_op_dynamic_quantize_mat_mul = {
    .type = "DynamicQuantizeMatMul",
    .doc = "Matrix product with an int8 matrix; the left one is quantized by its range.",
    .domain = "com.microsoft",
    .since = 1,
    .in = "FUFU?F?",
    .min_out = 1,
    .max_out = 1,
    .torch = "Linear",
    .scales = { .w = B_SCALE, .dynamic = true },
    .layer = { .kind = PARE_LAYER_LINEAR,
               .params = PARE_IN(B),
               .weight = B,
               .scale_axis = 1,
               .by_default = true },
    .infer = infer,
    .forward = forward,
    .ties = ties,
    .macs = macs,
    .settings = PARE_IN(B_SCALE) | PARE_IN(B_ZERO),
};

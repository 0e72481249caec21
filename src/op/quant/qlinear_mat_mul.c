/* qlinear_mat_mul.c - QLinearMatMul: product of quantized matrices, quantized.
 *
 * Scales and zero points are scalars, or lists for A's rows, B's columns and Y's rows.
 */
#include "../matrix/matrix.h"
#include "quant_family.h"

enum { A, A_SCALE, A_ZERO, B, B_SCALE, B_ZERO, Y_SCALE, Y_ZERO };

#define BYTES (PARE_T(PARE_U8) | PARE_T(PARE_I8))
#define REALS (PARE_T_FLOAT | PARE_T(PARE_F16) | PARE_T(PARE_BF16))

/* Zero points of A and B broadcast to them; scales broadcast to Y. */
static int views(const struct pare_node *n, struct pare_tensor *az, struct pare_tensor *bz,
                 struct pare_tensor *of_y, struct pare_err *err)
{
    const struct pare_tensor *a = &n->in[A]->t, *b = &n->in[B]->t, *y = &n->out[0]->t;
    int row = y->rank - 2;

    PARE_TRY(pare_quant_view(az, &n->in[A_ZERO]->t, a, a->rank - 2, err));
    PARE_TRY(pare_quant_view(bz, &n->in[B_ZERO]->t, b, -1, err));
    PARE_TRY(pare_quant_view(&of_y[0], &n->in[A_SCALE]->t, y, row, err));
    PARE_TRY(pare_quant_view(&of_y[1], &n->in[B_SCALE]->t, y, -1, err));
    PARE_TRY(pare_quant_view(&of_y[2], &n->in[Y_SCALE]->t, y, row, err));
    return pare_quant_view(&of_y[3], &n->in[Y_ZERO]->t, y, row, err);
}

static int infer(struct pare_node *n, struct pare_err *err)
{
    struct pare_tensor az, bz, of_y[4];

    PARE_TRY(pare_quant_type(&n->in[B]->t, "B", BYTES, err));
    PARE_TRY(pare_quant_type(&n->in[Y_ZERO]->t, "y_zero_point", BYTES, err));
    PARE_TRY(pare_quant_type(&n->in[A_SCALE]->t, "a_scale", REALS, err));
    PARE_TRY(pare_quant_type(&n->in[B_SCALE]->t, "b_scale", REALS, err));
    PARE_TRY(pare_quant_type(&n->in[Y_SCALE]->t, "y_scale", REALS, err));
    n->out[0]->t.dtype = n->in[Y_ZERO]->t.dtype;
    PARE_TRY(pare_matmul_shape(&n->out[0]->t, &n->in[A]->t, &n->in[B]->t, err));
    return views(n, &az, &bz, of_y, err);
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    struct pare_tensor az, bz, of_y[4], a, b, acc = n->out[0]->t;

    PARE_TRY(views(n, &az, &bz, of_y, err));
    PARE_TRY(pare_quant_centered(c, &n->in[A]->t, &az, &a, err));
    PARE_TRY(pare_quant_centered(c, &n->in[B]->t, &bz, &b, err));
    acc.dtype = PARE_I32;
    PARE_TRY(pare_tensor_alloc(c->scratch, &acc, err));
    pare_matmul_run(&a, &b, &acc);
    return pare_requantize(c, acc.data, &n->out[0]->t, of_y, err);
}

static void ties(const struct pare_node *n, struct pare_ties *t)
{
    pare_matmul_ties(n, B, t);
    for (int i = B_SCALE; i <= B_ZERO; i++)
        if (n->in[B]->t.rank == 2 && n->in[i]->t.rank == 1 && pare_numel(&n->in[i]->t) > 1)
            pare_tie(t, n->in[i], 0, n->in[B], 1);
}

static double macs(const struct pare_node *n)
{
    return pare_matmul_macs(&n->in[A]->t, &n->in[B]->t);
}

const struct pare_op pare_op_qlinear_mat_mul = {
    .type = "QLinearMatMul",
    .doc = "Product of quantized matrices, quantized.",
    .since = 10,
    .in = "TATUAUAA",
    .types = BYTES,
    .min_out = 1,
    .max_out = 1,
    .torch = "Linear",
    .scales = { .x = A_SCALE, .w = B_SCALE, .y = Y_SCALE },
    .layer = { .kind = PARE_LAYER_LINEAR,
               .params = PARE_IN(3),
               .weight = 3,
               .scale_axis = 1,
               .by_default = true },
    .infer = infer,
    .forward = forward,
    .ties = ties,
    .macs = macs,
    .settings = 0xff,
};

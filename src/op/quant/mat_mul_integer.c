/* mat_mul_integer.c - MatMulInteger: (A - a_zero) (B - b_zero) in int32. */
#include "../matrix/matrix.h"
#include "quant_family.h"

enum { A, B, A_ZERO, B_ZERO };

static const struct pare_tensor *input(const struct pare_node *n, int i)
{
    return i < n->n_in && n->in[i] ? &n->in[i]->t : NULL;
}

/* The zero points, broadcast to A's rows and to B's columns. */
static int views(const struct pare_node *n, struct pare_tensor *az, struct pare_tensor *bz,
                 struct pare_err *err)
{
    const struct pare_tensor *a = &n->in[A]->t, *b = &n->in[B]->t;

    if (input(n, A_ZERO))
        PARE_TRY(pare_quant_view(az, input(n, A_ZERO), a, a->rank - 2, err));
    if (input(n, B_ZERO))
        PARE_TRY(pare_quant_view(bz, input(n, B_ZERO), b, -1, err));
    return 0;
}

static int infer(struct pare_node *n, struct pare_err *err)
{
    struct pare_tensor az, bz;

    PARE_TRY(pare_quant_type(&n->in[B]->t, "B", PARE_T(PARE_U8) | PARE_T(PARE_I8), err));
    n->out[0]->t.dtype = PARE_I32;
    PARE_TRY(pare_matmul_shape(&n->out[0]->t, &n->in[A]->t, &n->in[B]->t, err));
    return views(n, &az, &bz, err);
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    struct pare_tensor az, bz, a, b;

    PARE_TRY(views(n, &az, &bz, err));
    PARE_TRY(pare_quant_centered(c, &n->in[A]->t, input(n, A_ZERO) ? &az : NULL, &a, err));
    PARE_TRY(pare_quant_centered(c, &n->in[B]->t, input(n, B_ZERO) ? &bz : NULL, &b, err));
    pare_matmul_run(&a, &b, &n->out[0]->t);
    return 0;
}

static void ties(const struct pare_node *n, struct pare_ties *t)
{
    pare_matmul_ties(n, B, t);
}

static double macs(const struct pare_node *n)
{
    return pare_matmul_macs(&n->in[A]->t, &n->in[B]->t);
}

const struct pare_op pare_op_mat_mul_integer = {
    .type = "MatMulInteger",
    .doc = "Matrix product of int8 or uint8 matrices, in int32.",
    .since = 10,
    .in = "TUT?U?",
    .types = PARE_T(PARE_U8) | PARE_T(PARE_I8),
    .min_out = 1,
    .max_out = 1,
    .torch = "Linear",
    .scales = { .w_zero = B_ZERO },
    .layer = { .kind = PARE_LAYER_LINEAR, .params = PARE_IN(1), .weight = 1, .by_default = true },
    .infer = infer,
    .forward = forward,
    .ties = ties,
    .macs = macs,
};

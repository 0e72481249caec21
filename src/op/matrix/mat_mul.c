/* mat_mul.c - MatMul: the matrix product as numpy's matmul defines it. */
#include "matrix.h"

static int infer(struct pare_node *n, struct pare_err *err)
{
    n->out[0]->t.dtype = n->in[0]->t.dtype;
    return pare_matmul_shape(&n->out[0]->t, &n->in[0]->t, &n->in[1]->t, err);
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    (void)c, (void)err;
    pare_matmul_run(&n->in[0]->t, &n->in[1]->t, &n->out[0]->t);
    return 0;
}

static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    (void)c, (void)err;
    pare_matmul_backward(n);
    return 0;
}

static void ties(const struct pare_node *n, struct pare_ties *t)
{
    pare_matmul_ties(n, 1, t);
}

/* One operand may keep channels that the other one lacks. */
static void shrink(const struct pare_node *n, struct pare_shrunk *s)
{
    const struct pare_value *a = n->in[0], *b = n->in[1];
    int ax = a->t.rank - 1, bx = b->t.rank > 1 ? b->t.rank - 2 : 0;
    int64_t na = pare_shrunk_dim(s, a, ax), nb = pare_shrunk_dim(s, b, bx);

    if (na > nb)
        pare_shrunk_select(s, 0, ax, b, bx);
    else if (nb > na)
        pare_shrunk_select(s, 1, bx, a, ax);
}

static double macs(const struct pare_node *n)
{
    return pare_matmul_macs(&n->in[0]->t, &n->in[1]->t);
}

static void axes(const struct pare_node *n, int *out, int *in)
{
    int rank = n->in[1]->t.rank;

    *out = rank > 1 ? rank - 1 : -1;
    *in = rank > 1 ? rank - 2 : 0;
}

/* The constant operand is the weight: a matrix, possibly with leading axes of size 1. */
static bool linear(const struct pare_node *n, struct pare_linear *l)
{
    bool left = n->in[0]->flags & PARE_V_CONST && !(n->in[1]->flags & PARE_V_CONST);
    const struct pare_tensor *w = &n->in[!left]->t, *x = &n->in[left]->t;

    *l = (struct pare_linear){ .x = left,
                               .w = !left,
                               .bias = -1,
                               .groups = 1,
                               .scale = 1,
                               .outer = 1 };
    if (w->rank < 2 || x->rank < 2 || pare_numel(w) != w->dim[w->rank - 1] * w->dim[w->rank - 2])
        return false;
    l->x_axis = x->rank - (left ? 2 : 1);
    l->w_in = w->rank - (left ? 1 : 2);
    l->w_out = w->rank - (left ? 2 : 1);
    l->y_axis = n->out[0]->t.rank - (left ? 2 : 1);
    return true;
}

const struct pare_op pare_op_mat_mul = {
    .type = "MatMul",
    .doc = "Matrix product, with leading axes broadcast.",
    .since = 1,
    .in = "TT",
    .types = PARE_T_MATRIX,
    .min_out = 1,
    .max_out = 1,
    .flags = PARE_OP_PRODUCT,
    .torch = "Linear",
    .qlinear_type = "QLinearMatMul",
    .integer_type = "MatMulInteger",
    .layer = { .kind = PARE_LAYER_LINEAR,
               .params = PARE_IN(1),
               .weight = 1,
               .bias_add = true,
               .by_default = true },
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .ties = ties,
    .shrink = shrink,
    .macs = macs,
    .axes = axes,
    .linear = linear,
};

/* fused_mat_mul.c - FusedMatMul (com.microsoft): y = alpha a b, where a and b may be transposed.
 *
 * transBatch moves the first axis after all batch axes: (d0, d1, ..., columns) is multiplied as
 * (d1, ..., d0, columns).  trans then exchanges the last two axes.
 */
#include "../inner_node.h"
#include "../matrix/matrix.h"
#include "../shape/movement.h"

enum { A, B };

struct fused_mat_mul {
    double alpha;
    int64_t trans[2], batch[2];
};

#define AT(field) offsetof(struct fused_mat_mul, field)
static const struct pare_opt attrs[] = {
    PARE_FLOAT("alpha", AT(alpha), "factor of the product", 1, PARE_NO_MIN, PARE_NO_MAX),
    PARE_INT("transA", AT(trans[A]), "exchange the last two axes of A", 0, PARE_NO_MIN,
             PARE_NO_MAX),
    PARE_INT("transB", AT(trans[B]), "exchange the last two axes of B", 0, PARE_NO_MIN,
             PARE_NO_MAX),
    PARE_INT("transBatchA", AT(batch[A]), "the first axis of A follows its batch axes", 0,
             PARE_NO_MIN, PARE_NO_MAX),
    PARE_INT("transBatchB", AT(batch[B]), "the first axis of B follows its batch axes", 0,
             PARE_NO_MIN, PARE_NO_MAX),
    PARE_OPT_END
};

extern const struct pare_op pare_op_mat_mul;

/* Axis i of the matrices that are multiplied is axis perm[i] of the input; true: not all are the
 * same. */
static bool order(const struct pare_node *n, int k, int *perm)
{
    const struct fused_mat_mul *a = n->attr;
    int rank = n->in[k]->t.rank;
    bool moved = a->batch[k] && rank > 2, swapped = a->trans[k] && rank > 1;

    for (int i = 0; i < rank; i++)
        perm[i] = !moved || i == rank - 1 ? i : i == rank - 2 ? 0 : i + 1;
    if (swapped) {
        int last = perm[rank - 1];

        perm[rank - 1] = perm[rank - 2];
        perm[rank - 2] = last;
    }
    return moved || swapped;
}

/* The shape of input k as it is multiplied. */
static struct pare_tensor ordered(const struct pare_node *n, int k)
{
    struct pare_tensor t = n->in[k]->t;
    int perm[PARE_MAX_RANK];

    order(n, k, perm);
    for (int i = 0; i < t.rank; i++)
        t.dim[i] = n->in[k]->t.dim[perm[i]];
    return t;
}

static int infer(struct pare_node *n, struct pare_err *err)
{
    struct pare_tensor a = ordered(n, A), b = ordered(n, B);

    n->out[0]->t.dtype = n->in[0]->t.dtype;
    return pare_matmul_shape(&n->out[0]->t, &a, &b, err);
}

/* The moves from input k to the ordered matrices. */
static struct pare_move moves(const struct pare_node *n, int k)
{
    struct pare_tensor t = ordered(n, k);
    int64_t from[PARE_MAX_RANK], to[PARE_MAX_RANK];
    struct pare_move m = { .rank = 0 };
    int perm[PARE_MAX_RANK];

    order(n, k, perm);
    pare_strides(&n->in[k]->t, from);
    pare_strides(&t, to);
    for (int i = 0; i < t.rank; i++)
        pare_move_axis(&m, t.dim[i], from[perm[i]], to[i]);
    return m;
}

/* A copy of input k in the order in which it is multiplied, or the input itself. */
static int copy(const struct pare_node *n, int k, bool grad, struct pare_arena *a,
                struct pare_value *v, struct pare_err *err)
{
    struct pare_value shape = { .name = "", .t = ordered(n, k) };
    struct pare_move m = moves(n, k);
    int perm[PARE_MAX_RANK];

    *v = *n->in[k];
    if (!order(n, k, perm))
        return 0;
    PARE_TRY(pare_inner_temp(v, &shape, grad, a, err));
    if (pare_numel(&v->t))
        pare_move(v->t.data, n->in[k]->t.data, sizeof(float), &m);
    return 0;
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct fused_mat_mul *attr = n->attr;
    const struct pare_tensor *y = &n->out[0]->t;
    struct pare_value a, b;

    PARE_TRY(copy(n, A, false, c->scratch, &a, err));
    PARE_TRY(copy(n, B, false, c->scratch, &b, err));
    pare_matmul_run(&a.t, &b.t, y);
    for (int64_t i = 0; attr->alpha != 1 && i < pare_numel(y); i++)
        pare_f32_mut(y)[i] *= (float)attr->alpha;
    return 0;
}

static int backward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct fused_mat_mul *attr = n->attr;
    int64_t count = pare_numel(&n->out[0]->t);
    struct pare_value y, v[2];
    struct pare_inner inner;

    if (!n->out[0]->grad.data || !count)
        return 0;
    PARE_TRY(pare_inner_init(&inner, &pare_op_mat_mul, 13, err));
    PARE_TRY(pare_inner_temp(&y, n->out[0], true, c->scratch, err));
    for (int64_t i = 0; i < count; i++)
        pare_f32_mut(&y.grad)[i] = (float)attr->alpha * pare_f32(&n->out[0]->grad)[i];
    for (int k = 0; k < 2; k++) {
        PARE_TRY(copy(n, k, n->in[k]->grad.data != NULL, c->scratch, &v[k], err));
        pare_inner_in(&inner, &v[k]);
    }
    pare_inner_out(&inner, &y);
    PARE_TRY(pare_op_mat_mul.backward(&inner.node, c, err));
    for (int k = 0; k < 2; k++) {
        struct pare_flow f = { .gx = pare_f32_mut(&n->in[k]->grad), .gy = pare_f32(&v[k].grad) };
        struct pare_move m = moves(n, k);

        if (f.gx && f.gx != f.gy)
            pare_flow_box(&f, 0, 0, &m);
    }
    return 0;
}

static void ties(const struct pare_node *n, struct pare_ties *t)
{
    const struct pare_value *y = n->out[0];
    int perm[2][PARE_MAX_RANK], rank[2] = { n->in[A]->t.rank, n->in[B]->t.rank };
    int rows = rank[A] > 1, cols = rank[B] > 1, batch = y->t.rank - rows - cols;

    for (int k = 0; k < 2; k++) {
        struct pare_tensor s = ordered(n, k);

        order(n, k, perm[k]);
        for (int i = 0; i < rank[k] - 2; i++)
            if (s.dim[i] == y->t.dim[batch - (rank[k] - 2) + i])
                pare_tie(t, n->in[k], perm[k][i], y, batch - (rank[k] - 2) + i);
    }
    pare_tie(t, n->in[A], perm[A][rank[A] - 1], n->in[B], perm[B][rank[B] - 1 - cols]);
    if (rows)
        pare_tie(t, n->in[A], perm[A][rank[A] - 2], y, batch);
    if (cols)
        pare_tie(t, n->in[B], perm[B][rank[B] - 1], y, batch + rows);
}

static double macs(const struct pare_node *n)
{
    struct pare_tensor a = ordered(n, A), b = ordered(n, B);

    return pare_matmul_macs(&a, &b);
}

static void axes(const struct pare_node *n, int *out, int *in)
{
    int rank = n->in[B]->t.rank, perm[PARE_MAX_RANK];

    order(n, B, perm);
    *out = rank > 1 ? perm[rank - 1] : -1;
    *in = rank > 1 ? perm[rank - 2] : 0;
}

static bool linear(const struct pare_node *n, struct pare_linear *l)
{
    const struct fused_mat_mul *attr = n->attr;
    int perm[2][PARE_MAX_RANK], ra = n->in[A]->t.rank, rb = n->in[B]->t.rank;

    if (rb != 2 || ra < 2)
        return false;
    order(n, A, perm[A]);
    order(n, B, perm[B]);
    *l = (struct pare_linear){ .x = A,
                               .w = B,
                               .bias = -1,
                               .x_axis = perm[A][ra - 1],
                               .w_in = perm[B][0],
                               .w_out = perm[B][1],
                               .y_axis = n->out[0]->t.rank - 1,
                               .groups = 1,
                               .scale = (float)attr->alpha,
                               .outer = 1 };
    return true;
}

const struct pare_op pare_op_fused_mat_mul = {
    .type = "FusedMatMul",
    .doc = "Matrix product with a factor, of operands that may be transposed.",
    .domain = "com.microsoft",
    .since = 1,
    .in = "TT",
    .types = PARE_T_FLOAT,
    .min_out = 1,
    .max_out = 1,
    .attrs = attrs,
    .attr_size = sizeof(struct fused_mat_mul),
    .flags = PARE_OP_PRODUCT,
    .torch = "Linear",
    .layer = { .kind = PARE_LAYER_LINEAR,
               .params = PARE_IN(1),
               .weight = 1,
               .bias_add = true,
               .by_default = true },
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .ties = ties,
    .macs = macs,
    .axes = axes,
    .linear = linear,
};

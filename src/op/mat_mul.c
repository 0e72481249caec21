/* mat_mul.c - MatMul: the matrix product as numpy's matmul defines it. */
#include "matrix.h"

static int infer(struct pare_node *n, struct pare_err *err)
{
    n->out[0]->t.dtype = n->in[0]->t.dtype;
    return pare_matmul_shape(&n->out[0]->t, &n->in[0]->t, &n->in[1]->t, err);
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct pare_tensor *a = &n->in[0]->t, *b = &n->in[1]->t, *y = &n->out[0]->t;
    struct pare_matmul p;
    size_t size = pare_dtype_size(y->dtype), bytes;

    (void)c;
    PARE_TRY(pare_tensor_size(y, NULL, &bytes, err));
    if (!bytes)
        return 0;
    p = pare_matmul_plan(a, b);
    memset(y->data, 0, bytes);
    for (int64_t i = 0; i < p.batch; i++, pare_walk_next(&p.walk)) {
        struct pare_mm m = {
            .M = p.M, .N = p.N, .K = p.K, .ai = p.K, .ak = 1, .bk = p.N, .bj = 1, .ys = p.N,
            .a = (char *)a->data + (size_t)p.walk.at[0] * size,
            .b = (char *)b->data + (size_t)p.walk.at[1] * size,
            .y = (char *)y->data + (size_t)(i * p.M * p.N) * size,
        };

        pare_mm(y->dtype, &m);
    }
    return 0;
}

static void ties(const struct pare_node *n, struct pare_ties *t)
{
    pare_matmul_ties(n, 1, t);
}

static double macs(const struct pare_node *n)
{
    return pare_matmul_macs(&n->in[0]->t, &n->in[1]->t);
}

const struct pare_op pare_op_mat_mul = {
    .abi = PARE_ABI,
    .type = "MatMul",
    .doc = "Matrix product, with leading axes broadcast.",
    .since = 1,
    .in = "TT",
    .types = PARE_T_MATRIX,
    .min_out = 1,
    .max_out = 1,
    .infer = infer,
    .forward = forward,
    .ties = ties,
    .macs = macs,
};

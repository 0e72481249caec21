/* matmul_gemm.c - MatMul of two computed tensors: one GEMM per matrix of the batch.
 *
 * A Transpose that only exchanges rows and columns of the second operand, as of the keys that a
 * decoder keeps, is part of the product.
 * Several products run in parallel, each on one thread; a single one uses all threads itself.
 */
#include <stdatomic.h>

#include "../backend.h"

#include "../../op/matrix/matrix.h"
#include "../../op/shape/movement.h"
#include "../../base/team.h"

struct matmul {
    struct pare_matmul m;
    bool tb;        /* the matrices of the second operand are (N, K) */
    int64_t *a, *b; /* offsets of each product's matrices */
};

static bool is_product(const struct pare_node *n)
{
    return pare_node_is(n, &pare_op_mat_mul) && pare_is_f32(n->in[0]) && pare_is_f32(n->in[1]) &&
           n->in[0]->t.rank >= 2 && n->in[1]->t.rank >= 2 && pare_numel(&n->out[0]->t) &&
           pare_numel(&n->in[0]->t);
}

/* Does n exchange the last two axes? */
static bool is_exchange(const struct pare_node *n)
{
    int perm[PARE_MAX_RANK], rank;

    if (!pare_node_is(n, &pare_op_transpose) || !pare_is_f32(n->in[0]))
        return false;
    rank = n->in[0]->t.rank;
    pare_transpose_perm(n, perm);
    for (int i = 0; i < rank - 2; i++)
        if (perm[i] != i)
            return false;
    return rank >= 2 && perm[rank - 1] == rank - 2;
}

/* The product that alone reads n's result, as its second operand; or NULL. */
static struct pare_node *product_after(const struct pare_match *v, const struct pare_node *n)
{
    struct pare_node *next = is_exchange(n) ? pare_only_consumer(v, n->out[0]) : NULL;

    return next && is_product(next) && next->in[1] == n->out[0] && next->in[0] != n->out[0] &&
                   pare_is_computed(v, next->in[0])
               ? next
               : NULL;
}

static bool matmul_gemm_match(const struct pare_match *v, struct pare_node *n, struct pare_step *s)
{
    struct pare_node *product = is_product(n) ? n : product_after(v, n);
    struct matmul *c;

    if (!product)
        return false;
    c = pare_alloc(v->backend->arena, 1, sizeof(*c));
    if (!c || !pare_step_lists(s, v, 2, 1, product != n))
        return false;
    c->tb = product != n;
    c->m = pare_matmul_plan(&product->in[0]->t, &product->in[1]->t);
    c->a = pare_alloc(v->backend->arena, (size_t)c->m.batch, sizeof(*c->a));
    c->b = pare_alloc(v->backend->arena, (size_t)c->m.batch, sizeof(*c->b));
    if (!c->a || !c->b)
        return false;
    for (int64_t i = 0; i < c->m.batch; i++, pare_walk_next(&c->m.walk)) {
        c->a[i] = c->m.walk.at[0];
        c->b[i] = c->m.walk.at[1];
    }
    s->state = c;
    s->in[0] = product->in[0];
    s->in[1] = c->tb ? n->in[0] : n->in[1];
    s->out[0] = product->out[0];
    if (c->tb)
        s->fused[0] = product;
    return true;
}

struct job {
    struct pare_step *s;
    atomic_bool failed;
};

static void multiply(void *arg, int64_t from, int64_t to, int thread)
{
    struct job *j = arg;
    const struct matmul *c = j->s->state;
    const float *x = pare_f32(&j->s->in_buf[0]->t), *w = pare_f32(&j->s->in_buf[1]->t);
    float *y = pare_f32_mut(&j->s->out_buf[0]->t);
    int64_t M = c->m.M, N = c->m.N, K = c->m.K;

    (void)thread;
    for (int64_t i = from; i < to; i++)
        if (pare_sgemm(&(struct pare_sgemm){ .M = M,
                                             .N = N,
                                             .K = K,
                                             .a = x + c->a[i],
                                             .lda = K,
                                             .b = w + c->b[i],
                                             .tb = c->tb,
                                             .ldb = c->tb ? K : N,
                                             .c = y + i * M * N,
                                             .ldc = N }))
            atomic_store(&j->failed, true);
}

static int matmul_gemm_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    struct job j = { .s = s };

    pare_parallel(b->threads, ((const struct matmul *)s->state)->m.batch, multiply, &j);
    return atomic_load(&j.failed) ? pare_no_memory(err, "for a matrix product") : 0;
}

const struct pare_kernel pare_kernel_matmul_gemm = {
    .name = "matmul_gemm",
    .doc = "MatMul of computed tensors, by GEMM.",
    .match = matmul_gemm_match,
    .run = matmul_gemm_run,
};

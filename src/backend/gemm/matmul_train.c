/* matmul_train.c - training of batched MatMul by GEMM.
 *
 *     Y (M, N) = A (M, K) B (K, N)      dA = dY B'      dB = A' dY      per matrix of the batch
 *
 * If there are at least as many products as threads, each product runs on one thread.
 */
#include "../backend.h"

#include "../../op/op.h"

struct matmul {
    int64_t stack, M, N, K;
};

static bool matmul_train_match(const struct pare_match *v, struct pare_node *n, struct pare_step *s)
{
    const struct pare_tensor *a, *b;
    struct matmul *m;
    int r;

    if (!v->train || !pare_node_is(n, &pare_op_mat_mul) || !pare_is_f32(n->in[0]) ||
        !pare_is_f32(n->in[1]) || !pare_numel(&n->out[0]->t) || !pare_numel(&n->in[0]->t))
        return false;
    a = &n->in[0]->t;
    b = &n->in[1]->t;
    r = a->rank;
    if (r < 3 || b->rank != r)
        return false;
    for (int i = 0; i < r - 2; i++)
        if (a->dim[i] != b->dim[i])
            return false;
    m = pare_alloc(v->backend->arena, 1, sizeof(*m));
    if (!m || !pare_step_lists(s, v, 2, 1, 0))
        return false;
    m->M = a->dim[r - 2];
    m->K = a->dim[r - 1];
    m->N = b->dim[r - 1];
    m->stack = pare_numel(a) / (m->M * m->K);
    s->in[0] = n->in[0];
    s->in[1] = n->in[1];
    s->out[0] = n->out[0];
    s->state = m;
    s->unsaved_out = 1;
    return true;
}

/* p for each matrix of the batch; the matrices have no gaps. */
static int multiply(struct pare_sgemm p, int64_t stack, const struct pare_backend *b,
                    struct pare_err *err)
{
    int failed = 0;

    p.lda = p.ta ? p.M : p.K;
    p.ldb = p.tb ? p.K : p.N;
    p.ldc = p.N;
#pragma omp parallel for num_threads(b->threads) reduction(| : failed) if (stack >= b->threads)
    for (int64_t i = 0; i < stack; i++) {
        struct pare_sgemm own = p;

        own.a += i * p.M * p.K;
        own.b += i * p.K * p.N;
        own.c += i * p.M * p.N;
        failed |= pare_sgemm(&own);
    }
    return failed ? pare_no_memory(err, "for a matrix product") : 0;
}

static int matmul_train_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct matmul *m = s->state;
    struct pare_sgemm p = { .M = m->M,
                            .N = m->N,
                            .K = m->K,
                            .a = pare_f32(&s->in_buf[0]->t),
                            .b = pare_f32(&s->in_buf[1]->t),
                            .c = pare_f32_mut(&s->out_buf[0]->t) };

    return multiply(p, m->stack, b, err);
}

static int matmul_train_backward(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct matmul *m = s->state;
    const float *gy = pare_f32(&s->out_buf[0]->grad->t), *x = pare_f32(&s->in_buf[0]->t);
    const float *z = pare_f32(&s->in_buf[1]->t);
    const struct pare_buf *gx = s->in_buf[0]->grad, *gz = s->in_buf[1]->grad;

    if (gx) {
        struct pare_sgemm p = { .tb = true, .M = m->M, .N = m->K, .K = m->N, .a = gy, .b = z };

        p.add = !s->grad_assign[0];
        p.c = pare_f32_mut(&gx->t);
        PARE_TRY(multiply(p, m->stack, b, err));
    }
    if (gz) {
        struct pare_sgemm p = { .ta = true, .M = m->K, .N = m->N, .K = m->M, .a = x, .b = gy };

        p.add = !s->grad_assign[1];
        p.c = pare_f32_mut(&gz->t);
        PARE_TRY(multiply(p, m->stack, b, err));
    }
    return 0;
}

const struct pare_kernel pare_kernel_matmul_train = {
    .name = "matmul_train",
    .doc = "Training of batched MatMul by GEMM.",
    .match = matmul_train_match,
    .run = matmul_train_run,
    .backward = matmul_train_backward,
};

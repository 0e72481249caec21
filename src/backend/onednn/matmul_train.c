/* matmul_train.c - training of batched MatMul by oneDNN's GEMM.
 *
 *     Y (M, N) = A (M, K) B (K, N)      dA = dY B'      dB = A' dY      per matrix of the batch
 *
 * If there are at least as many products as threads, each product runs on one thread.
 */
#include "onednn.h"

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

/* C (rows, cols) = or += op(A) op(B), row-major, for each matrix of the batch. */
struct product {
    char ta, tb;
    int64_t rows, cols, inner;
    const float *a, *b;
    float *c;
    float beta;
};

static int multiply(const struct product *p, int64_t stack, const struct pare_backend *b,
                    struct pare_err *err)
{
    int64_t lda = p->ta == 'N' ? p->inner : p->rows, ldb = p->tb == 'N' ? p->cols : p->inner;
    int failed = 0;

#pragma omp parallel for num_threads(b->threads) reduction(| : failed) if (stack >= b->threads)
    for (int64_t i = 0; i < stack; i++)
        failed |= dnnl_sgemm(p->ta, p->tb, p->rows, p->cols, p->inner, 1,
                             p->a + i * p->rows * p->inner, lda, p->b + i * p->inner * p->cols, ldb,
                             p->beta, p->c + i * p->rows * p->cols, p->cols) != dnnl_success;
    return failed ? pare_fail(err, PARE_EUNSUPPORTED, "oneDNN: matrix product failed") : 0;
}

static int matmul_train_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct matmul *m = s->state;
    struct product p = { 'N',
                         'N',
                         m->M,
                         m->N,
                         m->K,
                         pare_f32(&s->in_buf[0]->t),
                         pare_f32(&s->in_buf[1]->t),
                         pare_f32_mut(&s->out_buf[0]->t),
                         0 };

    return multiply(&p, m->stack, b, err);
}

static int matmul_train_backward(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct matmul *m = s->state;
    const float *gy = pare_f32(&s->out_buf[0]->grad->t), *x = pare_f32(&s->in_buf[0]->t);
    const float *z = pare_f32(&s->in_buf[1]->t);
    const struct pare_buf *gx = s->in_buf[0]->grad, *gz = s->in_buf[1]->grad;

    if (gx) {
        struct product p = {
            'N', 'T', m->M, m->K, m->N, gy, z, pare_f32_mut(&gx->t), s->grad_assign[0] ? 0.0f : 1.0f
        };

        PARE_TRY(multiply(&p, m->stack, b, err));
    }
    if (gz) {
        struct product p = {
            'T', 'N', m->K, m->N, m->M, x, gy, pare_f32_mut(&gz->t), s->grad_assign[1] ? 0.0f : 1.0f
        };

        PARE_TRY(multiply(&p, m->stack, b, err));
    }
    return 0;
}

const struct pare_kernel pare_kernel_matmul_train = {
    .name = "matmul_train",
    .doc = "Training of batched MatMul by oneDNN's GEMM.",
    .match = matmul_train_match,
    .run = matmul_train_run,
    .backward = matmul_train_backward,
};

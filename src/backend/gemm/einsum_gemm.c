/* einsum_gemm.c - Einsum of two tensors as products of matrices: one GEMM for each index of the
 * labels that both and the result have.
 */
#include "../backend.h"

#include "../../op/matrix/matrix.h"

struct einsum {
    struct pare_einsum_product e;
    int64_t batch, *offset; /* (batch, 3): where A, B and C begin */
};

static bool list_offsets(const struct pare_match *v, struct einsum *c)
{
    int64_t index[PARE_MAX_RANK] = { 0 };

    c->batch = 1;
    for (int i = 0; i < c->e.n_loops; i++)
        c->batch *= c->e.size[i];
    c->offset = pare_alloc(v->backend->arena, (size_t)(3 * c->batch), sizeof(*c->offset));
    if (!c->offset)
        return false;
    for (int64_t b = 0; b < c->batch; b++) {
        for (int k = 0; k < 3; k++)
            for (int i = 0; i < c->e.n_loops; i++)
                c->offset[3 * b + k] += index[i] * c->e.stride[k][i];
        for (int i = 0; i < c->e.n_loops; i++) {
            if (++index[i] < c->e.size[i])
                break;
            index[i] = 0;
        }
    }
    return true;
}

static bool einsum_gemm_match(const struct pare_match *v, struct pare_node *n, struct pare_step *s)
{
    struct einsum *c;

    if (!pare_node_is(n, &pare_op_einsum) || n->n_in != 2 || !pare_is_f32(n->in[0]) ||
        !pare_is_f32(n->in[1]) || !pare_numel(&n->in[0]->t) || !pare_numel(&n->in[1]->t))
        return false;
    c = pare_alloc(v->backend->arena, 1, sizeof(*c));
    if (!c || !pare_einsum_product(n, &c->e) || !list_offsets(v, c) ||
        !pare_step_lists(s, v, 2, 1, 0))
        return false;
    s->state = c;
    s->in[0] = n->in[0];
    s->in[1] = n->in[1];
    s->out[0] = n->out[0];
    return true;
}

static int einsum_gemm_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct einsum *c = s->state;
    const struct pare_einsum_product *e = &c->e;
    const float *in[2] = { pare_f32(&s->in_buf[0]->t), pare_f32(&s->in_buf[1]->t) };
    float *y = pare_f32_mut(&s->out_buf[0]->t);
    int failed = 0;

#pragma omp parallel for num_threads(b->threads) if (c->batch > 1) reduction(| : failed)
    for (int64_t i = 0; i < c->batch; i++) {
        const int64_t *at = c->offset + 3 * i;

        failed |= pare_sgemm(&(struct pare_sgemm){ .ta = e->ta,
                                                   .tb = e->tb,
                                                   .M = e->M,
                                                   .N = e->N,
                                                   .K = e->K,
                                                   .a = in[e->swap] + at[e->swap],
                                                   .lda = e->lda,
                                                   .b = in[!e->swap] + at[!e->swap],
                                                   .ldb = e->ldb,
                                                   .c = y + at[2],
                                                   .ldc = e->ldc });
    }
    return failed ? pare_no_memory(err, "for a matrix product") : 0;
}

const struct pare_kernel pare_kernel_einsum_gemm = {
    .name = "einsum_gemm",
    .doc = "Einsum of two tensors, by GEMM.",
    .match = einsum_gemm_match,
    .run = einsum_gemm_run,
};

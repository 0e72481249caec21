/* linear_train.c - Gemm and MatMul with a 2-D weight, and their gradients, by oneDNN's GEMM.
 *
 *     Y (M, N) = X (M, K) W + b      dX = dY W'      dW = X' dY      db = sum of dY's rows
 */
#include "onednn.h"

#include "../../base/simd.h"
#include "../../op/matrix.h"

struct linear {
    int64_t M, N, K;
    bool tb; /* W is (N, K) */
};

static bool match(const struct pare_view *v, struct pare_node *n, struct pare_step *s)
{
    bool gemm = !strcmp(n->type, "Gemm");
    const struct pare_tensor *x, *w;
    struct linear *l;
    int n_in;

    if (!v->train || (!gemm && strcmp(n->type, "MatMul")) || n->op->domain ||
        !pare_is_f32(n->in[0]) || !pare_is_f32(n->in[1]))
        return false;
    x = &n->in[0]->t;
    w = &n->in[1]->t;
    n_in = n->n_in > 2 && n->in[2] ? 3 : 2;
    if (w->rank != 2 || x->rank < 2 || !pare_numel(&n->out[0]->t) || !pare_numel(x))
        return false;
    if (gemm) {
        struct pare_gemm_attrs a = pare_gemm_get(n);

        if (a.alpha != 1 || a.ta ||
            (n_in == 3 && (a.beta != 1 || pare_numel(&n->in[2]->t) != n->out[0]->t.dim[1])))
            return false;
    }
    l = pare_alloc(v->backend->arena, 1, sizeof(*l));
    if (!l || !pare_step_lists(s, v, n_in, 1, 0))
        return false;
    l->tb = gemm && pare_gemm_get(n).tb;
    l->K = x->dim[x->rank - 1];
    l->N = w->dim[l->tb ? 0 : 1];
    l->M = pare_numel(x) / l->K;
    for (int i = 0; i < n_in; i++)
        s->in[i] = n->in[i];
    s->out[0] = n->out[0];
    s->state = l;
    s->drop_out = ~0u;
    return true;
}

static int run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct linear *l = s->state;
    float *y = pare_f32(&s->out_buf[0]->t);

    (void)b;
    for (int64_t i = 0; i < l->M && s->n_in > 2; i++)
        memcpy(y + i * l->N, s->in_buf[2]->t.data, (size_t)l->N * sizeof(*y));
    return pare_dnnl(err,
                     dnnl_sgemm('N', l->tb ? 'T' : 'N', l->M, l->N, l->K, 1,
                                pare_f32(&s->in_buf[0]->t), l->K, pare_f32(&s->in_buf[1]->t),
                                l->tb ? l->K : l->N, s->n_in > 2 ? 1 : 0, y, l->N),
                     "product");
}

PARE_SIMD static void add_rows(const float *gy, int64_t M, int64_t N, float *gb)
{
    for (int64_t i = 0; i < M; i++)
        for (int64_t j = 0; j < N; j++)
            gb[j] += gy[i * N + j];
}

static int back(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct linear *l = s->state;
    const float *gy = pare_f32(&s->out_buf[0]->grad->t), *x = pare_f32(&s->in_buf[0]->t);
    const float *w = pare_f32(&s->in_buf[1]->t);
    struct pare_buf *gx = s->in_buf[0]->grad, *gw = s->in_buf[1]->grad;
    struct pare_buf *gb = s->n_in > 2 ? s->in_buf[2]->grad : NULL;

    (void)b;
    if (gx)
        PARE_TRY(
            pare_dnnl(err,
                      dnnl_sgemm('N', l->tb ? 'N' : 'T', l->M, l->K, l->N, 1, gy, l->N, w,
                                 l->tb ? l->K : l->N, s->first[0] ? 0 : 1, pare_f32(&gx->t), l->K),
                      "product"));
    if (gw && l->tb) /* (N, K) = dY' X */
        PARE_TRY(pare_dnnl(err,
                           dnnl_sgemm('T', 'N', l->N, l->K, l->M, 1, gy, l->N, x, l->K,
                                      s->first[1] ? 0 : 1, pare_f32(&gw->t), l->K),
                           "product"));
    if (gw && !l->tb) /* (K, N) = X' dY */
        PARE_TRY(pare_dnnl(err,
                           dnnl_sgemm('T', 'N', l->K, l->N, l->M, 1, x, l->K, gy, l->N,
                                      s->first[1] ? 0 : 1, pare_f32(&gw->t), l->N),
                           "product"));
    if (gb && s->first[2])
        memset(gb->t.data, 0, gb->bytes);
    if (gb)
        add_rows(gy, l->M, l->N, pare_f32(&gb->t));
    return 0;
}

const struct pare_kernel pare_kernel_linear_train = {
    .name = "linear_train",
    .doc = "Gemm and MatMul with their gradients, by oneDNN's GEMM.",
    .match = match,
    .run = run,
    .back = back,
};

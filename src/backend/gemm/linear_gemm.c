/* linear_gemm.c - Gemm and MatMul with constant weights, bias and post-ops by GEMM.
 *
 * For what linear_packed.c leaves: few rows, and columns that are not a multiple of the block.  In
 * builds with oneDNN, linear_onednn.c gets these nodes.
 */
#include "../fuse/linear_fuse.h"
#include "../fuse/post_ops.h"
#include "../../base/team.h"

#define SOME 16384 /* results for which several threads apply bias and post-ops */

struct linear {
    struct pare_linear_fuse fuse;
    struct pare_post post;
    const float *w, *bias;
};

static bool linear_gemm_match(const struct pare_match *v, struct pare_node *n, struct pare_step *s)
{
    struct linear *l = pare_alloc(v->backend->arena, 1, sizeof(*l));
    struct pare_value *out;
    int first;

    if (!l || !pare_linear_fuse_read(v, n, &l->fuse))
        return false;
    out = pare_post_follow(v, l->fuse.out, false, &l->post);
    first = l->fuse.add != NULL;
    if (!pare_step_lists(s, v, 1, 1, first + l->post.n_nodes))
        return false;
    s->state = l;
    s->in[0] = n->in[0];
    s->out[0] = out;
    if (l->fuse.add)
        s->fused[0] = l->fuse.add;
    for (int i = 0; i < l->post.n_nodes; i++)
        s->fused[first + i] = l->post.node[i];
    return true;
}

static int linear_gemm_init(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    struct linear *l = s->state;

    l->w = pare_const_f32(b, l->fuse.w, err);
    if (!l->w)
        return err->code;
    if (!l->fuse.b)
        return 0;
    l->bias = pare_const_f32(b, l->fuse.b, err);
    return l->bias ? 0 : err->code;
}

static void finish_rows(void *arg, int64_t from, int64_t to, int thread)
{
    struct pare_step *s = arg;
    const struct linear *l = s->state;
    const int64_t N = l->fuse.N;
    float *y = pare_f32_mut(&s->out_buf[0]->t);

    (void)thread;
    for (int64_t m = from; m < to; m++) {
        for (int64_t n = 0; n < N && l->bias; n++)
            y[m * N + n] += l->bias[n];
        pare_post_apply(&l->post, y + m * N, NULL, N);
    }
}

static int linear_gemm_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct linear *l = s->state;
    const int64_t M = l->fuse.M, N = l->fuse.N, K = l->fuse.K;

    if (pare_sgemm(&(struct pare_sgemm){ .tb = l->fuse.tb,
                                         .M = M,
                                         .N = N,
                                         .K = K,
                                         .a = pare_f32(&s->in_buf[0]->t),
                                         .lda = K,
                                         .b = l->w,
                                         .ldb = l->fuse.tb ? K : N,
                                         .c = pare_f32_mut(&s->out_buf[0]->t),
                                         .ldc = N }))
        return pare_no_memory(err, "for a matrix product");
    pare_parallel(M * N > SOME ? b->threads : 1, M, finish_rows, s);
    return 0;
}

const struct pare_kernel pare_kernel_linear_gemm = {
    .name = "linear_gemm",
    .doc = "Gemm and MatMul with constant weights of any size, by GEMM.",
    .candidate = true,
    .match = linear_gemm_match,
    .init = linear_gemm_init,
    .run = linear_gemm_run,
};

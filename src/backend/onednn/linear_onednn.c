/* linear_onednn.c - Gemm and MatMul with constant weights, bias and post-ops by oneDNN.
 *
 * One row is bound by reading W, which therefore keeps the model's layout; for more rows W is
 * packed for the inner product primitive.
 */
#include "onednn_post.h"

#include "../fuse/linear_fuse.h"

struct linear {
    struct pare_linear_fuse fuse;
    struct pare_post post;
    dnnl_primitive_desc_t pd;
    dnnl_primitive_t prim;
    dnnl_memory_t src, weights, bias, dst, scratch;
    const float *plain, *row; /* one row: W and b */
};

static bool describe(const struct pare_match *v, struct linear *l)
{
    dnnl_dims_t dx = { l->fuse.M, l->fuse.K }, dw = { l->fuse.N, l->fuse.K }, db = { l->fuse.N },
                dy = { l->fuse.M, l->fuse.N };
    dnnl_memory_desc_t x, w, b, y;
    dnnl_inner_product_desc_t d;
    dnnl_primitive_attr_t attr = NULL;
    bool ok;

    dnnl_memory_desc_init_by_tag(&x, 2, dx, dnnl_f32, dnnl_ab);
    dnnl_memory_desc_init_by_tag(&w, 2, dw, dnnl_f32, dnnl_format_tag_any);
    dnnl_memory_desc_init_by_tag(&b, 1, db, dnnl_f32, dnnl_a);
    dnnl_memory_desc_init_by_tag(&y, 2, dy, dnnl_f32, dnnl_ab);
    ok = dnnl_inner_product_forward_desc_init(&d, dnnl_forward_inference, &x, &w,
                                              l->fuse.b ? &b : NULL, &y) == dnnl_success &&
         pare_post_attr(&l->post, &attr) &&
         dnnl_primitive_desc_create(&l->pd, &d, attr, v->backend->onednn->engine, NULL) ==
             dnnl_success;
    if (attr)
        dnnl_primitive_attr_destroy(attr);
    return ok;
}

static bool linear_onednn_match(const struct pare_match *v, struct pare_node *n,
                                struct pare_step *s)
{
    struct linear *l = pare_alloc(v->backend->scratch, 1, sizeof(*l)), *keep;
    struct pare_value *out;
    int first;

    if (!l || !pare_linear_fuse_read(v, n, &l->fuse))
        return false;
    out = l->fuse.out;
    first = l->fuse.add != NULL;
    if (l->fuse.M > 1) {
        out = pare_post_follow(v, out, false, &l->post);
        if (!describe(v, l))
            return false;
    }
    keep = pare_alloc(v->backend->arena, 1, sizeof(*keep));
    if (!keep || !pare_step_lists(s, v, 1, 1, first + l->post.n_nodes)) {
        if (l->pd)
            dnnl_primitive_desc_destroy(l->pd);
        return false;
    }
    *keep = *l;
    s->state = keep;
    s->openmp = l->fuse.M > 1;
    s->work_bytes[0] = l->pd ? pare_dnnl_scratch_bytes(l->pd) : 0;
    s->in[0] = n->in[0];
    s->out[0] = out;
    if (l->fuse.add)
        s->fused[0] = l->fuse.add;
    for (int i = 0; i < l->post.n_nodes; i++)
        s->fused[first + i] = l->post.node[i];
    return true;
}

static int init_weights(const struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    struct linear *l = s->state;
    dnnl_dims_t dw = { l->fuse.N, l->fuse.K };
    dnnl_memory_desc_t have;
    struct pare_pack k = { .have = &have };

    if (s->share_from)
        return pare_dnnl_share(b, ((const struct linear *)s->share_from->state)->weights,
                               &l->weights, err);
    dnnl_memory_desc_init_by_tag(&have, 2, dw, dnnl_f32, l->fuse.tb ? dnnl_ab : dnnl_ba);
    k.want = dnnl_primitive_desc_query_md(l->pd, dnnl_query_weights_md, 0);
    k.data = l->plain;
    return pare_dnnl_pack(b, &k, &l->weights, err);
}

static int linear_onednn_init(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    struct linear *l = s->state;

    if (l->fuse.b) {
        l->row = pare_const_f32(b, l->fuse.b, err);
        if (!l->row)
            return err->code;
    }
    l->plain = pare_const_raw(l->fuse.w);
    if (l->fuse.M == 1)
        return 0;
    PARE_TRY(init_weights(s, b, err));
    PARE_TRY(pare_dnnl_scratch(b, l->pd, s, &l->scratch, err));
    PARE_TRY(pare_dnnl_ends(b, l->pd, s, &l->src, &l->dst, err));
    if (l->fuse.b)
        PARE_TRY(pare_dnnl_bias(b, l->pd, l->row, &l->bias, err));
    return pare_dnnl(err, dnnl_primitive_create(&l->prim, l->pd), "inner product");
}

static int linear_onednn_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    struct linear *l = s->state;
    dnnl_exec_arg_t args[5] = {
        { DNNL_ARG_SRC, l->src },
        { DNNL_ARG_WEIGHTS, l->weights },
        { DNNL_ARG_DST, l->dst },
    };
    int n = 3;
    float *y = pare_f32_mut(&s->out_buf[0]->t);

    if (l->bias)
        args[n++] = (dnnl_exec_arg_t){ DNNL_ARG_BIAS, l->bias };
    if (l->scratch)
        args[n++] = (dnnl_exec_arg_t){ DNNL_ARG_SCRATCHPAD, l->scratch };
    if (l->fuse.M > 1)
        return pare_dnnl(err, dnnl_primitive_execute(l->prim, b->onednn->stream, n, args),
                         "inner product");
    if (l->fuse.b)
        memcpy(y, l->row, (size_t)l->fuse.N * sizeof(*y));
    if (pare_sgemm(&(struct pare_sgemm){ .tb = l->fuse.tb,
                                         .add = l->fuse.b != NULL,
                                         .M = 1,
                                         .N = l->fuse.N,
                                         .K = l->fuse.K,
                                         .a = pare_f32(&s->in_buf[0]->t),
                                         .lda = l->fuse.K,
                                         .b = l->plain,
                                         .ldb = l->fuse.tb ? l->fuse.K : l->fuse.N,
                                         .c = y,
                                         .ldc = l->fuse.N }))
        return pare_no_memory(err, "for a matrix product");
    return 0;
}

static void destroy(struct pare_step *s)
{
    struct linear *l = s->state;
    dnnl_memory_t mem[] = { l->src, l->weights, l->bias, l->dst, l->scratch };

    pare_dnnl_destroy(mem, 5, l->prim, l->pd);
}

const struct pare_kernel pare_kernel_linear_onednn = {
    .name = "linear_onednn",
    .doc = "Gemm and MatMul with constant weights, by oneDNN.",
    .candidate = true,
    .match = linear_onednn_match,
    .init = linear_onednn_init,
    .run = linear_onednn_run,
    .destroy = destroy,
};

/* linear_onednn.c - Gemm and MatMul with constant weights, bias and activations fused.
 *
 *     Y (M, N) = X (M, K) W + b, all axes of X but the last taken together as M.
 *
 * One row is bound by reading W, which therefore stays as it is in the model; more rows get W
 * packed for the inner product.
 */
#include "post.h"

#include "../../op/matrix.h"

struct linear {
    int64_t M, N, K;
    bool tb; /* W is (N, K) */
    struct pare_value *w, *b;
    struct pare_post post;
    dnnl_primitive_desc_t pd;
    dnnl_primitive_t prim;
    dnnl_memory_t src, weights, bias, dst;
    const float *plain, *row; /* one row: W and b */
};

/* A constant of N numbers along the last axis. */
static bool is_row(const struct pare_value *v, int64_t N)
{
    const struct pare_tensor *t = &v->t;

    return pare_is_const(v) && pare_is_f32(v) && t->rank >= 1 && t->dim[t->rank - 1] == N &&
           pare_numel(t) == N;
}

static bool read_gemm(const struct pare_node *n, struct linear *l)
{
    struct pare_gemm_attrs a = pare_gemm_get(n);

    l->tb = a.tb;
    l->b = n->n_in > 2 ? n->in[2] : NULL;
    return a.alpha == 1 && !a.ta && (!l->b || (a.beta == 1 && is_row(l->b, n->out[0]->t.dim[1])));
}

static bool read_node(const struct pare_node *n, struct linear *l)
{
    const struct pare_tensor *x, *w;

    if (n->op->domain || n->n_in < 2 || !pare_is_f32(n->in[0]) || !pare_is_f32(n->in[1]) ||
        !pare_is_const(n->in[1]) || pare_is_const(n->in[0]))
        return false;
    x = &n->in[0]->t;
    w = &n->in[1]->t;
    if (w->rank != 2 || x->rank < 2 || !pare_numel(&n->out[0]->t))
        return false;
    if (!strcmp(n->type, "Gemm") ? !read_gemm(n, l) : strcmp(n->type, "MatMul") != 0)
        return false;
    l->w = n->in[1];
    l->K = x->dim[x->rank - 1];
    l->N = w->dim[l->tb ? 0 : 1];
    l->M = l->K ? pare_numel(x) / l->K : 0;
    return l->M > 0;
}

static bool describe(const struct pare_view *v, struct linear *l)
{
    dnnl_dims_t dx = { l->M, l->K }, dw = { l->N, l->K }, db = { l->N }, dy = { l->M, l->N };
    dnnl_memory_desc_t x, w, b, y;
    dnnl_inner_product_desc_t d;
    dnnl_primitive_attr_t attr = NULL;
    bool ok;

    dnnl_memory_desc_init_by_tag(&x, 2, dx, dnnl_f32, dnnl_ab);
    dnnl_memory_desc_init_by_tag(&w, 2, dw, dnnl_f32, dnnl_format_tag_any);
    dnnl_memory_desc_init_by_tag(&b, 1, db, dnnl_f32, dnnl_a);
    dnnl_memory_desc_init_by_tag(&y, 2, dy, dnnl_f32, dnnl_ab);
    ok = dnnl_inner_product_forward_desc_init(&d, dnnl_forward_inference, &x, &w, l->b ? &b : NULL,
                                              &y) == dnnl_success &&
         pare_post_attr(&l->post, &attr) &&
         dnnl_primitive_desc_create(&l->pd, &d, attr, v->backend->onednn->engine, NULL) ==
             dnnl_success;
    if (attr)
        dnnl_primitive_attr_destroy(attr);
    return ok;
}

static bool match(const struct pare_view *v, struct pare_node *n, struct pare_step *s)
{
    struct linear *l = pare_alloc(v->backend->scratch, 1, sizeof(*l)), *keep;
    struct pare_value *out = n->out[0];
    struct pare_node *add = NULL;

    if (!l || !read_node(n, l))
        return false;
    if (!l->b) {
        add = pare_only_use(v, out);
        if (add && !strcmp(add->type, "Add") && add->in[0] != add->in[1] &&
            is_row(add->in[add->in[0] == out], l->N) && pare_same_shape(&add->out[0]->t, &out->t)) {
            l->b = add->in[add->in[0] == out];
            out = add->out[0];
        } else {
            add = NULL;
        }
    }
    if (l->M > 1) {
        out = pare_post_follow(v, out, false, &l->post);
        if (!describe(v, l))
            return false;
    }
    keep = pare_alloc(v->backend->arena, 1, sizeof(*keep));
    if (!keep || !pare_step_lists(s, v, 1, 1, (add != NULL) + l->post.n_nodes)) {
        if (l->pd)
            dnnl_primitive_desc_destroy(l->pd);
        return false;
    }
    *keep = *l;
    s->state = keep;
    s->in[0] = n->in[0];
    s->out[0] = out;
    if (add)
        s->fused[0] = add;
    for (int i = 0; i < l->post.n_nodes; i++)
        s->fused[(add != NULL) + i] = l->post.node[i];
    return true;
}

static int init(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    struct linear *l = s->state;
    dnnl_engine_t e = b->onednn->engine;
    dnnl_dims_t dw = { l->N, l->K };
    dnnl_memory_desc_t have;
    struct pare_pack k = { .have = &have };

    if (l->b) {
        l->row = pare_const_f32(b, l->b, err);
        if (!l->row)
            return err->code;
    }
    l->plain = pare_const_raw(l->w);
    if (l->M == 1)
        return 0;
    dnnl_memory_desc_init_by_tag(&have, 2, dw, dnnl_f32, l->tb ? dnnl_ab : dnnl_ba);
    k.want = dnnl_primitive_desc_query_md(l->pd, dnnl_query_weights_md, 0);
    k.data = l->plain;
    PARE_TRY(pare_dnnl_pack(b, &k, &l->weights, err));
    PARE_TRY(pare_dnnl(err,
                       dnnl_memory_create(&l->src,
                                          dnnl_primitive_desc_query_md(l->pd, dnnl_query_src_md, 0),
                                          e, s->in_buf[0]->t.data),
                       "input"));
    PARE_TRY(pare_dnnl(err,
                       dnnl_memory_create(&l->dst,
                                          dnnl_primitive_desc_query_md(l->pd, dnnl_query_dst_md, 0),
                                          e, s->out_buf[0]->t.data),
                       "output"));
    if (l->b)
        PARE_TRY(pare_dnnl(
            err,
            dnnl_memory_create(&l->bias,
                               dnnl_primitive_desc_query_md(l->pd, dnnl_query_weights_md, 1), e,
                               (void *)(uintptr_t)l->row),
            "bias"));
    return pare_dnnl(err, dnnl_primitive_create(&l->prim, l->pd), "inner product");
}

static int run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    struct linear *l = s->state;
    dnnl_exec_arg_t args[] = {
        { DNNL_ARG_SRC, l->src },
        { DNNL_ARG_WEIGHTS, l->weights },
        { DNNL_ARG_DST, l->dst },
        { DNNL_ARG_BIAS, l->bias },
    };
    float *y = pare_f32(&s->out_buf[0]->t);

    if (l->M > 1)
        return pare_dnnl(err,
                         dnnl_primitive_execute(l->prim, b->onednn->stream, l->b ? 4 : 3, args),
                         "inner product");
    if (l->b)
        memcpy(y, l->row, (size_t)l->N * sizeof(*y));
    return pare_dnnl(err,
                     dnnl_sgemm('N', l->tb ? 'T' : 'N', 1, l->N, l->K, 1,
                                pare_f32(&s->in_buf[0]->t), l->K, l->plain, l->tb ? l->K : l->N,
                                l->b ? 1 : 0, y, l->N),
                     "product");
}

static void quit(struct pare_step *s)
{
    struct linear *l = s->state;
    dnnl_memory_t mem[] = { l->src, l->weights, l->bias, l->dst };

    for (int i = 0; i < 4; i++)
        if (mem[i])
            dnnl_memory_destroy(mem[i]);
    if (l->prim)
        dnnl_primitive_destroy(l->prim);
    if (l->pd)
        dnnl_primitive_desc_destroy(l->pd);
}

const struct pare_kernel pare_kernel_linear_onednn = {
    .name = "linear_onednn",
    .doc = "Gemm and MatMul with constant weights, by oneDNN.",
    .match = match,
    .init = init,
    .run = run,
    .quit = quit,
};

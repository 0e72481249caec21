/* linear_packed.c - Gemm and MatMul with constant weights by packed GEMM, with the elementwise
 * chain after them.
 *
 * Each thread computes some rows, and the rest of the chain while they are in its cache.
 */
#include "../rows/chain_ops.h"
#include "gemm_packed_matrix.h"

#include "../fuse/linear_fuse.h"

#include "../../op/op.h"

#define LEAST_ROWS 4

struct linear {
    struct pare_linear_fuse fuse;
    struct pare_chain links; /* n_links 0: no chain */
    bool simple;             /* the chain is at most an Add of `sum` (or NULL) and `post` */
    struct pare_value *sum;
    struct pare_post_op post;
    int n_post;
    bool bf16; /* operands of the product are pairs of bf16 */
    float *packed, *bias;
    const float *added; /* the data of `sum` */
};

static bool is_gelu(const struct pare_node *n)
{
    return pare_node_is(n, &pare_op_gelu) && !strcmp(pare_attr_text(n, "approximate"), "none");
}

/* The number of links that the GEMM applies itself. */
static int read_simple(struct linear *l)
{
    const struct pare_chain *c = &l->links;
    const struct pare_value *x = l->fuse.out;
    const struct pare_node *n = c->link[0].node;
    int at = 0;

    if (pare_node_is(n, &pare_op_add) && n->in[0] != n->in[1]) {
        l->sum = n->in[n->in[0] == x];
        if (!pare_same_shape(&l->sum->t, &x->t))
            return 0;
        x = n->out[0];
        n = c->n_links > ++at ? c->link[at].node : NULL;
    }
    l->post = (struct pare_post_op){ .kind = PARE_POST_GELU };
    if (is_gelu(n)) {
        at++;
        l->n_post = 1;
    } else if (pare_node_is(n, &pare_op_relu)) {
        at++;
        l->post.kind = PARE_POST_RELU;
        l->n_post = 1;
    }
    return at;
}

static bool linear_packed_fill_step(const struct pare_match *v, struct pare_node *n,
                                    struct linear *l, struct pare_step *s)
{
    int first = l->fuse.add != NULL, at = 1;

    if (!pare_step_lists(s, v, 1 + l->links.n_ops, 1, first + l->links.n_links))
        return false;
    s->in[0] = n->in[0];
    for (int i = 0; i < l->links.n_ops; i++)
        if (l->links.op[i].value && l->links.op[i].value != l->fuse.out)
            s->in[at++] = l->links.op[i].value;
    s->n_in = at;
    if (l->fuse.add)
        s->fused[0] = l->fuse.add;
    for (int i = 0; i < l->links.n_links; i++)
        s->fused[first + i] = l->links.link[i].node;
    s->out[0] = l->links.n_links ? pare_chain_out(&l->links) : l->fuse.out;
    s->state = l;
    if (l->bf16)
        s->work_bytes[0] = (size_t)(l->fuse.M * pare_bf16_half(l->fuse.K)) * sizeof(float);
    return true;
}

static bool linear_packed_match(const struct pare_match *v, struct pare_node *n,
                                struct pare_step *s)
{
    struct pare_linear_fuse fuse;
    struct linear *l;

    if (v->backend->block < 8 || !pare_linear_fuse_read(v, n, &fuse) ||
        fuse.N < v->backend->block ||
        fuse.M < (v->ignore_cost || v->backend->bf16 ? 1 : LEAST_ROWS))
        return false;
    l = pare_alloc(v->backend->arena, 1, sizeof(*l));
    if (!l)
        return false;
    l->fuse = fuse;
    l->bf16 = v->backend->bf16;
    if (!pare_chain_after(v, fuse.out, &l->links))
        l->links.n_links = l->links.n_ops = 0;
    l->simple = l->links.n_links && fuse.N % v->backend->block == 0 &&
                read_simple(l) == l->links.n_links;
    return linear_packed_fill_step(v, n, l, s);
}

static int pack_weights(struct linear *l, struct pare_backend *b, struct pare_err *err)
{
    const struct pare_linear_fuse *h = &l->fuse;
    const struct pare_packed_gemm_weights w = { pare_const_raw(h->w), h->K, h->N, h->tb };
    const int64_t columns = pare_packed_gemm_columns(h->N, b->block);
    const size_t size = (size_t)((l->bf16 ? pare_bf16_half(h->K) : h->K) * columns);
    float *scratch = l->bf16 ? pare_alloc_raw(b->scratch, size, sizeof(*scratch)) : NULL;

    l->packed = pare_alloc_raw(b->arena, size, sizeof(float));
    l->bias = pare_alloc(b->arena, (size_t)columns, sizeof(float));
    if (!l->packed || !l->bias || (l->bf16 && !scratch))
        return pare_no_memory(err, "for the weights");
    if (l->bf16)
        pare_packed_gemm_pack_bf16(b, &w, scratch, l->packed);
    else
        pare_packed_gemm_pack(b, &w, l->packed);
    if (h->b)
        memcpy(l->bias, pare_const_raw(h->b), (size_t)h->N * sizeof(float));
    return 0;
}

static int linear_packed_init(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    struct linear *l = s->state;

    if (s->share_from) {
        l->packed = ((const struct linear *)s->share_from->state)->packed;
        l->bias = ((const struct linear *)s->share_from->state)->bias;
    } else {
        PARE_TRY(pack_weights(l, b, err));
    }
    if (!l->links.n_links)
        return 0;
    for (int k = 1; k < s->n_in; k++)
        if (s->in[k] == l->sum)
            l->added = pare_f32(&s->in_buf[k]->t);
    return pare_chain_init(&l->links, b, s->in_buf + 1, l->fuse.out, pare_f32(&s->out_buf[0]->t),
                           err);
}

struct rest {
    const struct pare_chain *links;
    float *y;
};

static void run_links(const void *arg, int64_t from, int64_t to)
{
    const struct rest *r = arg;

    pare_chain_run(r->links, from, to, r->y);
}

static int linear_packed_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct linear *l = s->state;
    const struct pare_linear_fuse *h = &l->fuse;
    struct rest rest = { &l->links, pare_f32_mut(&s->out_buf[0]->t) };
    const int64_t K = l->bf16 ? pare_bf16_half(h->K) : h->K;
    struct pare_packed_gemm p = pare_packed_gemm_matrix(h->M, K, h->N, b->block);

    (void)err;
    p.x = pare_f32(&s->in_buf[0]->t);
    p.bf16 = l->bf16;
    if (l->bf16) {
        float *pairs = pare_f32_mut(&s->work[0]->t);

        pare_packed_gemm_round(b, p.x, h->M, h->K, pairs);
        p.x = pairs;
    }
    p.w = l->packed;
    p.bias = l->bias;
    p.y = rest.y;
    if (l->simple) {
        p.start = l->added;
        p.post = &l->post;
        p.n_post = l->n_post;
    }
    pare_packed_gemm_multiply(b, &p, l->links.n_links && !l->simple ? run_links : NULL, &rest);
    return 0;
}

const struct pare_kernel pare_kernel_linear_packed = {
    .name = "linear_packed",
    .doc =
        "Gemm and MatMul with constant weights by packed GEMM, with fused elementwise operators.",
    .candidate = true,
    .match = linear_packed_match,
    .init = linear_packed_init,
    .run = linear_packed_run,
};

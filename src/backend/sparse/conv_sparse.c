/* conv_sparse.c - Conv with sparse weights, by blocks of nonzero weights.
 *
 * Blocks are 4x1 or 8x1 (consecutive output channels at one input channel and tap) or single
 * weights, whichever is estimated to be fastest; the kernel is used if that is faster than a dense
 * convolution.  BatchNormalization, residual sum and activations are fused as in conv_onednn.c.
 */
#include "../fuse/conv_fuse.h"

struct conv {
    struct pare_sparse_conv shape; /* first member, see pare_sparse_step_rows() */
    struct pare_conv_fuse fuse;
    struct pare_sparse w;
    float *bias; /* padded with zeros */
};

static struct pare_sparse_from weights_of(const struct pare_node *n)
{
    const struct pare_tensor *w = &n->in[1]->t;
    int64_t O = w->dim[0], K = pare_numel(w) / O;

    return (struct pare_sparse_from){ pare_const_raw(n->in[1]), O, K, K, 1 };
}

/* A window over one axis becomes one over two, the first of size 1. */
static void read_shape(const struct pare_match *v, const struct pare_node *n,
                       const struct pare_window *w, struct pare_sparse_conv *c)
{
    int block = v->backend->block;

    *c = (struct pare_sparse_conv){
        .N = n->in[0]->t.dim[0],
        .C = n->in[0]->t.dim[1],
        .O = n->out[0]->t.dim[1],
        .in_block = pare_block_of(v, n->in[0]) == 1 ? 1 : block,
        .out_block = block,
        .lanes = block,
        .threads = v->backend->threads,
    };
    for (int i = 0; i < 2; i++) {
        int k = i - (2 - w->nd);

        c->in[i] = k < 0 ? 1 : w->in[k];
        c->out[i] = k < 0 ? 1 : w->out[k];
        c->kernel[i] = k < 0 ? 1 : w->kernel[k];
        c->stride[i] = k < 0 ? 1 : w->stride[k];
        c->dilation[i] = k < 0 ? 1 : w->dilation[k];
        c->pad[i] = k < 0 ? 0 : w->pad_begin[k];
    }
}

static bool conv_sparse_match(const struct pare_match *v, struct pare_node *n, struct pare_step *s)
{
    struct pare_sparse_from f;
    struct conv *c, *keep;

    if (v->train || v->backend->sparse_rows < 0 || v->backend->block < 8 ||
        !pare_node_is(n, &pare_op_conv))
        return false;
    c = pare_alloc(v->backend->scratch, 1, sizeof(*c));
    if (!c || !pare_conv_fuse(v, n, &c->fuse) || c->fuse.win.group != 1 || c->fuse.win.nd > 2 ||
        !pare_const_raw(n->in[1]))
        return false;
    f = weights_of(n);
    read_shape(v, n, &c->fuse.win, &c->shape);
    if (!pare_sparse_choose(v, &f, &c->shape))
        return false;
    keep = pare_alloc(v->backend->arena, 1, sizeof(*keep));
    if (!keep || !pare_conv_fuse_step(v, n, &c->fuse, c->shape.in_block, c->shape.out_block, s))
        return false;
    *keep = *c;
    s->state = keep;
    s->work_bytes[0] = (size_t)(c->shape.floats * c->shape.threads) * sizeof(float);
    return true;
}

static int conv_sparse_init(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    struct conv *c = s->state;
    struct pare_sparse_from f = weights_of(s->node);
    int64_t lanes = c->shape.lanes, padded = (f.O + lanes - 1) / lanes * lanes;
    float *scale = pare_alloc(b->scratch, (size_t)f.O, sizeof(*scale));
    int32_t *at = pare_alloc(b->scratch, (size_t)f.K, sizeof(*at));
    struct pare_sparse_make m = { c->shape.rows, padded, at, scale };

    if (s->share_from) {
        c->w = ((const struct conv *)s->share_from->state)->w;
        c->bias = ((const struct conv *)s->share_from->state)->bias;
        return 0;
    }
    c->bias = pare_alloc(b->arena, (size_t)padded, sizeof(*c->bias));
    if (!scale || !at || !c->bias)
        return pare_no_memory(err, "for the weights");
    PARE_TRY(pare_conv_fuse_fold(b, s->node, &c->fuse, scale, c->bias, err));
    for (int64_t k = 0; k < f.K; k++)
        at[k] = pare_sparse_offset(&c->shape, k);
    return pare_sparse_make(&f, &m, b->arena, &c->w, err);
}

static int conv_sparse_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct conv *c = s->state;
    struct pare_sparse_run r = {
        .w = &c->w,
        .x = pare_f32(&s->in_buf[0]->t),
        .bias = c->bias,
        .sum = s->n_in > 1 ? pare_f32(&s->in_buf[1]->t) : NULL,
        .y = pare_f32_mut(&s->out_buf[0]->t),
        .work = pare_f32_mut(&s->work[0]->t),
        .end = pare_post_end(&c->fuse.post),
    };

    (void)b;
    (void)err;
    pare_sparse_run(&c->shape, &r);
    return 0;
}

const struct pare_kernel pare_kernel_conv_sparse = {
    .name = "conv_sparse",
    .openmp = true,
    .doc = "Convolution with block-sparse (4x1, 8x1) or unstructured sparse weights.",
    .candidate = true,
    .sparsity_dependent = true,
    .match = conv_sparse_match,
    .init = conv_sparse_init,
    .run = conv_sparse_run,
};

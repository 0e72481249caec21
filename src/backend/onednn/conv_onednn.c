/* conv_onednn.c - Conv, BatchNormalization, residual Add and activations as one oneDNN
 * primitive. */
#include "conv_desc.h"
#include "onednn_post.h"
#include "../fuse/conv_fuse.h"

struct conv {
    struct pare_conv_fuse fuse;
    dnnl_primitive_desc_t pd;
    dnnl_primitive_t prim;
    dnnl_memory_t src, dst, weights, bias, scratch;
};

/* ---- descriptors ------------------------------------------------------------------ */

/* A primitive for these layouts of X and Y; block 0 leaves the choice to oneDNN. */
static bool describe(const struct pare_match *v, const struct pare_node *n, struct conv *c,
                     int in_block, int out_block)
{
    const struct pare_tensor *x = &n->in[0]->t, *y = &n->out[0]->t;
    struct pare_tensor w = pare_conv_weight(&n->in[1]->t, c->fuse.win.group);
    dnnl_memory_desc_t src, dst, wei, bias;
    struct pare_conv_sides g;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_convolution_desc_t d;
    bool ok;

    pare_dnnl_any(&src, x);
    pare_dnnl_any(&dst, y);
    pare_dnnl_any(&wei, &w);
    pare_dnnl_any(&bias, &(struct pare_tensor){ .rank = 1, .dim = { y->dim[1] } });
    if ((in_block && !pare_dnnl_md(&src, x, in_block)) ||
        (out_block && !pare_dnnl_md(&dst, y, out_block)))
        return false;
    pare_conv_sides(&c->fuse.win, &g);
    ok = dnnl_dilated_convolution_forward_desc_init(&d, dnnl_forward_inference,
                                                    dnnl_convolution_direct, &src, &wei, &bias,
                                                    &dst, g.stride, g.dilate, g.begin,
                                                    g.end) == dnnl_success &&
         pare_post_attr(&c->fuse.post, &attr) &&
         dnnl_primitive_desc_create(&c->pd, &d, attr, v->backend->onednn->engine, NULL) ==
             dnnl_success;
    if (attr)
        dnnl_primitive_attr_destroy(attr);
    return ok;
}

static int block_of(const struct conv *c, dnnl_query_t what, const struct pare_tensor *t)
{
    return pare_dnnl_block(dnnl_primitive_desc_query_md(c->pd, what, 0), t);
}

/* Let oneDNN choose the layouts; if it chooses one that plans do not support, specify ours. */
static bool layouts(const struct pare_match *v, struct pare_node *n, struct conv *c, int *in,
                    int *out)
{
    int b = v->backend->block;
    const int tries[][2] = { { 0, 0 }, { 1, b }, { b, b }, { 8, 8 }, { 1, 8 }, { 1, 1 } };

    for (size_t i = 0; i < sizeof(tries) / sizeof(*tries); i++) {
        if (!describe(v, n, c, tries[i][0], tries[i][1]))
            continue;
        *in = block_of(c, dnnl_query_src_md, &n->in[0]->t);
        *out = block_of(c, dnnl_query_dst_md, &n->out[0]->t);
        if (*in && *out && !pare_dnnl_is_reference(c->pd))
            return true;
        dnnl_primitive_desc_destroy(c->pd);
        c->pd = NULL;
    }
    return false;
}

static bool conv_onednn_match(const struct pare_match *v, struct pare_node *n, struct pare_step *s)
{
    struct conv *c = pare_alloc(v->backend->arena, 1, sizeof(*c));
    int in_block, out_block;

    if (!c || !pare_conv_fuse(v, n, &c->fuse))
        return false;
    /* Its fast primitives add a residual before activations, not after them. */
    if (!layouts(v, n, c, &in_block, &out_block)) {
        if (!c->fuse.post.sum)
            return false;
        pare_conv_fuse_cut(n, &c->fuse, pare_conv_fuse_before_sum(&c->fuse));
        if (!layouts(v, n, c, &in_block, &out_block))
            return false;
    }
    if (!pare_conv_fuse_step(v, n, &c->fuse, in_block, out_block, s)) {
        dnnl_primitive_desc_destroy(c->pd);
        return false;
    }
    s->state = c;
    s->work_bytes[0] = pare_dnnl_scratch_bytes(c->pd);
    return true;
}

/* ---- weights ---------------------------------------------------------------------- */

static int pack(struct pare_backend *b, struct conv *c, struct pare_value *w, const float *scale,
                struct pare_err *err)
{
    dnnl_memory_desc_t md;
    struct pare_pack k = {
        .have = &md,
        .want = dnnl_primitive_desc_query_md(c->pd, dnnl_query_weights_md, 0),
        .data = pare_const_raw(w),
        .scale = scale,
        .n_scales = w->t.dim[0],
        .mask = c->fuse.win.group == 1 ? 1 : 3,
    };

    PARE_TRY(pare_conv_weight_md(&w->t, c->fuse.win.group, &md, err));
    return pare_dnnl_pack(b, &k, &c->weights, err);
}

static int init_weights(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    struct conv *c = s->state;
    struct pare_value *w = s->node->in[1];
    int64_t O = w->t.dim[0];
    float *bias = pare_alloc(b->arena, (size_t)O, sizeof(*bias));
    float *scale = pare_alloc(b->scratch, (size_t)O, sizeof(*scale));

    if (!bias || !scale)
        return pare_no_memory(err, "for the weights");
    PARE_TRY(pare_conv_fuse_fold(b, s->node, &c->fuse, scale, bias, err));
    PARE_TRY(pack(b, c, w, c->fuse.bn ? scale : NULL, err));
    return pare_dnnl_bias(b, c->pd, bias, &c->bias, err);
}

/* ---- run -------------------------------------------------------------------------- */

static int share_weights(const struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct conv *like = s->share_from->state;
    struct conv *c = s->state;

    PARE_TRY(pare_dnnl_share(b, like->weights, &c->weights, err));
    return pare_dnnl_share(b, like->bias, &c->bias, err);
}

static int conv_onednn_init(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    struct conv *c = s->state;

    PARE_TRY(s->share_from ? share_weights(s, b, err) : init_weights(s, b, err));
    PARE_TRY(pare_dnnl_scratch(b, c->pd, s, &c->scratch, err));
    PARE_TRY(pare_dnnl_ends(b, c->pd, s, &c->src, &c->dst, err));
    return pare_dnnl(err, dnnl_primitive_create(&c->prim, c->pd), "convolution");
}

static int conv_onednn_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    struct conv *c = s->state;
    dnnl_exec_arg_t args[] = {
        { DNNL_ARG_SRC, c->src }, { DNNL_ARG_WEIGHTS, c->weights },    { DNNL_ARG_BIAS, c->bias },
        { DNNL_ARG_DST, c->dst }, { DNNL_ARG_SCRATCHPAD, c->scratch },
    };

    if (s->n_in > 1 && s->in_buf[1]->t.data != s->out_buf[0]->t.data)
        memcpy(s->out_buf[0]->t.data, s->in_buf[1]->t.data, s->out_buf[0]->bytes);
    return pare_dnnl(err,
                     dnnl_primitive_execute(c->prim, b->onednn->stream, c->scratch ? 5 : 4, args),
                     "convolution");
}

static void destroy(struct pare_step *s)
{
    struct conv *c = s->state;
    dnnl_memory_t mem[] = { c->src, c->dst, c->weights, c->bias, c->scratch };

    pare_dnnl_destroy(mem, 5, c->prim, c->pd);
}

const struct pare_kernel pare_kernel_conv_onednn = {
    .name = "conv_onednn",
    .doc = "Convolution with fused normalization, residual sum and activations, by oneDNN.",
    .candidate = true,
    .match = conv_onednn_match,
    .init = conv_onednn_init,
    .run = conv_onednn_run,
    .destroy = destroy,
};

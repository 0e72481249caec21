/* conv_onednn.c - Conv, BatchNormalization, residual Add and activations as one oneDNN
 * primitive. */
#include "conv_desc.h"
#include "conv_parts.h"
#include "onednn_post.h"
#include "../fuse/conv_fuse.h"

struct conv {
    struct pare_conv_fuse fuse;
    struct pare_conv_parts parts;
};

/* ---- descriptors ------------------------------------------------------------------ */

static bool depthwise(const struct conv *c, const struct pare_node *n)
{
    return c->fuse.win.group > 1 && c->fuse.win.group == n->in[0]->t.dim[1] &&
           c->fuse.win.group == n->out[0]->t.dim[1];
}

static int64_t groups_of(const struct conv *c, const struct pare_node *n,
                         const struct pare_conv_part *t)
{
    return depthwise(c, n) ? t->channels : c->fuse.win.group;
}

/* A primitive of part t for these layouts of X and Y; block 0 leaves the choice to oneDNN. */
static bool describe(const struct pare_match *v, const struct pare_node *n, const struct conv *c,
                     const int block[2], struct pare_conv_part *t)
{
    struct pare_tensor w = n->in[1]->t, xs = n->in[0]->t, ys = n->out[0]->t, *x = &xs, *y = &ys;
    dnnl_memory_desc_t src, dst, wei, bias;
    struct pare_conv_sides g;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_convolution_desc_t d;
    bool ok;

    x->dim[0] = y->dim[0] = t->images;
    w.dim[0] = y->dim[1] = t->channels;
    if (depthwise(c, n))
        x->dim[1] = t->channels;
    w = pare_conv_weight(&w, groups_of(c, n, t));
    pare_dnnl_any(&src, x);
    pare_dnnl_any(&dst, y);
    pare_dnnl_any(&wei, &w);
    pare_dnnl_any(&bias, &(struct pare_tensor){ .rank = 1, .dim = { y->dim[1] } });
    if ((block[0] && !pare_dnnl_md(&src, x, block[0])) ||
        (block[1] && !pare_dnnl_md(&dst, y, block[1])))
        return false;
    pare_conv_sides(&c->fuse.win, &g);
    ok = dnnl_dilated_convolution_forward_desc_init(&d, dnnl_forward_inference,
                                                    dnnl_convolution_direct, &src, &wei, &bias,
                                                    &dst, g.stride, g.dilate, g.begin,
                                                    g.end) == dnnl_success &&
         pare_post_attr(&c->fuse.post, &attr) &&
         dnnl_primitive_desc_create(&t->pd, &d, attr, v->backend->onednn->engine, NULL) ==
             dnnl_success;
    if (attr)
        dnnl_primitive_attr_destroy(attr);
    return ok;
}

static int block_of(const struct pare_conv_part *t, dnnl_query_t what, const struct pare_tensor *x)
{
    return pare_dnnl_block(dnnl_primitive_desc_query_md(t->pd, what, 0), x);
}

/* Let oneDNN choose the layouts; if it chooses one that plans do not support, specify ours. */
static bool layouts(const struct pare_match *v, struct pare_node *n, const struct conv *c,
                    struct pare_conv_part *t, int block[2])
{
    int b = v->backend->block;
    const int tries[][2] = { { 0, 0 }, { 1, b }, { b, b }, { 8, 8 }, { 1, 8 }, { 1, 1 } };

    for (size_t i = 0; i < sizeof(tries) / sizeof(*tries); i++) {
        if (!describe(v, n, c, tries[i], t))
            continue;
        block[0] = block_of(t, dnnl_query_src_md, &n->in[0]->t);
        block[1] = block_of(t, dnnl_query_dst_md, &n->out[0]->t);
        if (block[0] && block[1] && !pare_dnnl_is_reference(t->pd))
            return true;
        dnnl_primitive_desc_destroy(t->pd);
        t->pd = NULL;
    }
    return false;
}

/* Images, or blocks of channels, which are contiguous in the result of one image. */
static bool cut(const struct pare_match *v, struct pare_node *n, struct conv *c, const int block[2])
{
    const bool channels = (c->fuse.win.group == 1 && block[1] > 1) ||
                          (depthwise(c, n) && block[1] > 1 && block[0] == block[1]);
    int threads;
    bool ok = true;

    if (!pare_conv_parts(&c->parts, v->backend, &n->out[0]->t,
                         channels ? PARE_CUT_CHANNELS : PARE_CUT_NOT, block[1]))
        return false;
    threads = pare_conv_parts_begin(&c->parts);
    for (int k = 0; k < c->parts.n && ok && c->parts.n > 1; k++)
        ok = describe(v, n, c, block, &c->parts.part[k]) &&
             !pare_dnnl_is_reference(c->parts.part[k].pd);
    pare_conv_parts_end(threads);
    return ok && c->parts.n > 1;
}

/* A tuned plan has fast kernels for these filters, so that one layer that oneDNN cannot cut does
 * not make the whole plan use OpenMP's threads. */
static bool has_other_kernel(const struct pare_window *w)
{
    return w->nd == 2 && w->group == 1 && w->kernel[0] == w->kernel[1] && w->dilation[0] == 1 &&
           w->dilation[1] == 1 &&
           (w->kernel[0] == 1 || (w->kernel[0] == 3 && w->stride[0] == 1 && w->stride[1] == 1));
}

static bool conv_onednn_match(const struct pare_match *v, struct pare_node *n, struct pare_step *s)
{
    struct conv *c = pare_alloc(v->backend->arena, 1, sizeof(*c));
    struct pare_conv_part *whole = pare_alloc(v->backend->arena, 1, sizeof(*whole));
    int block[2];

    if (!c || !whole || !pare_conv_fuse(v, n, &c->fuse))
        return false;
    whole->images = n->out[0]->t.dim[0];
    whole->channels = n->out[0]->t.dim[1];
    /* Its fast primitives add a residual before activations, not after them. */
    if (!layouts(v, n, c, whole, block)) {
        if (!c->fuse.post.sum)
            return false;
        pare_conv_fuse_cut(n, &c->fuse, pare_conv_fuse_before_sum(&c->fuse));
        if (!layouts(v, n, c, whole, block))
            return false;
    }
    if (cut(v, n, c, block)) {
        dnnl_primitive_desc_destroy(whole->pd);
    } else {
        pare_conv_parts_destroy(&c->parts);
        c->parts = (struct pare_conv_parts){ 1, whole };
    }
    if (c->parts.n < v->backend->threads && v->ignore_cost && !v->train &&
        has_other_kernel(&c->fuse.win)) {
        pare_conv_parts_destroy(&c->parts);
        return false;
    }
    if (!pare_conv_fuse_step(v, n, &c->fuse, block[0], block[1], s)) {
        pare_conv_parts_destroy(&c->parts);
        return false;
    }
    s->state = c;
    s->openmp = c->parts.n == 1;
    s->work_bytes[0] = pare_conv_parts_bytes(&c->parts);
    return true;
}

/* ---- weights ---------------------------------------------------------------------- */

static int pack(struct pare_backend *b, const struct pare_step *s, struct pare_conv_part *t,
                const float *scale, struct pare_err *err)
{
    const struct conv *c = s->state;
    const struct pare_value *value = s->node->in[1];
    struct pare_tensor w = value->t;
    const size_t each = (size_t)(pare_numel(&w) / w.dim[0]) * sizeof(float);
    dnnl_memory_desc_t md;
    struct pare_pack k = {
        .have = &md,
        .want = dnnl_primitive_desc_query_md(t->pd, dnnl_query_weights_md, 0),
        .data = (const char *)pare_const_raw(value) + (size_t)t->channel * each,
        .scale = scale ? scale + t->channel : NULL,
        .n_scales = t->channels,
        .mask = c->fuse.win.group == 1 ? 1 : 3,
    };

    w.dim[0] = t->channels;
    PARE_TRY(pare_conv_weight_md(&w, groups_of(c, s->node, t), &md, err));
    return pare_dnnl_pack(b, &k, &t->weights, err);
}

/* Parts of the images use the same weights. */
static int share_weights(const struct pare_conv_part *like, struct pare_conv_part *t,
                         struct pare_backend *b, struct pare_err *err)
{
    PARE_TRY(pare_dnnl_share(b, like->weights, &t->weights, err));
    return pare_dnnl_share(b, like->bias, &t->bias, err);
}

static bool same_weights(const struct pare_conv_part *a, const struct pare_conv_part *b)
{
    return dnnl_memory_desc_equal(dnnl_primitive_desc_query_md(a->pd, dnnl_query_weights_md, 0),
                                  dnnl_primitive_desc_query_md(b->pd, dnnl_query_weights_md, 0));
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
    for (int i = 0; i < c->parts.n; i++) {
        struct pare_conv_part *t = &c->parts.part[i];

        if (i && t->channels == O && same_weights(&c->parts.part[0], t)) {
            PARE_TRY(share_weights(&c->parts.part[0], t, b, err));
            continue;
        }
        PARE_TRY(pack(b, s, t, c->fuse.bn ? scale : NULL, err));
        PARE_TRY(pare_dnnl_bias(b, t->pd, bias + t->channel, &t->bias, err));
    }
    return 0;
}

/* ---- run -------------------------------------------------------------------------- */

static int conv_onednn_init(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct conv *like = s->share_from ? s->share_from->state : NULL;
    struct conv *c = s->state;
    size_t size[2], at[2];
    int64_t padded;

    if (!like)
        PARE_TRY(init_weights(s, b, err));
    padded = (s->in[0]->t.dim[1] + s->in_block[0] - 1) / s->in_block[0] * s->in_block[0];
    size[0] = s->in_buf[0]->bytes / (size_t)s->in[0]->t.dim[0];
    size[1] = s->out_buf[0]->bytes / (size_t)s->out[0]->t.dim[0];
    for (int k = 0; k < c->parts.n; k++) {
        struct pare_conv_part *t = &c->parts.part[k];
        const int64_t plane = pare_numel(&s->out[0]->t) / s->out[0]->t.dim[0] / s->out[0]->t.dim[1];

        if (like)
            PARE_TRY(share_weights(&like->parts.part[k], t, b, err));
        at[0] = (size_t)t->image * size[0];
        if (depthwise(c, s->node))
            at[0] += (size_t)t->channel * (size[0] / (size_t)padded);
        at[1] = (size_t)t->image * size[1] + (size_t)(t->channel * plane) * sizeof(float);
        PARE_TRY(pare_conv_part_init(&c->parts, k, s, b, at, err));
    }
    return 0;
}

static int conv_onednn_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct conv *c = s->state;

    if (s->n_in > 1 && s->in_buf[1]->t.data != s->out_buf[0]->t.data)
        memcpy(s->out_buf[0]->t.data, s->in_buf[1]->t.data, s->out_buf[0]->bytes);
    return pare_conv_parts_run(&c->parts, b, err);
}

static void destroy(struct pare_step *s)
{
    pare_conv_parts_destroy(&((struct conv *)s->state)->parts);
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

/* conv_int8.c - int8 Conv as one oneDNN primitive (int8_conv_match.h).
 *
 * Sums are exact (int8_operands.h); tensors have their channels last.
 */
#include "conv_desc.h"
#include "onednn_post.h"

#include <math.h>

#include "../fuse/int8_conv_match.h"

struct conv_int8 {
    struct pare_int8_conv c;
    struct pare_post post; /* bounds, or the post-ops of a float result */
    dnnl_primitive_desc_t pd;
    dnnl_primitive_t prim;
    dnnl_memory_t src, dst, weights, b, scratch;
};

/* ---- descriptors --------------------------------------------------------------------- */

/* Relu or Clip, unless the type's range implies it.  oneDNN adds the zero point before rounding,
 * which costs fraction bits and rounds halves differently: round before. */
static void add_bounds(struct conv_int8 *s)
{
    const struct pare_int8_conv *c = &s->c;
    const struct pare_int8 *q = &c->end.q;
    float lo = c->end.lo / q->scale, hi = c->end.hi / q->scale;

    if (lo > (float)(q->lo - q->zero) || hi < (float)(q->hi - q->zero)) {
        struct pare_post_op *op = &s->post.op[s->post.n++];

        *op = (struct pare_post_op){ .kind = PARE_POST_RELU };
        if (lo < 0 || lo > 0 || hi < (float)(q->hi - q->zero))
            *op = (struct pare_post_op){ .kind = PARE_POST_CLIP,
                                         .alpha = fmaxf(lo, -1e6f),
                                         .beta = fminf(hi, 1e6f) };
    }
    if (q->zero)
        s->post.op[s->post.n++] = (struct pare_post_op){ .kind = PARE_POST_ROUND };
}

static bool attributes(const struct pare_match *v, const struct conv_int8 *s,
                       dnnl_primitive_attr_t *attr)
{
    const struct pare_int8_conv *c = &s->c;
    int64_t O = c->w.channels;
    bool one = !c->w.scale || pare_numel(&c->w.scale->t) == 1;
    float *f = pare_alloc(v->backend->scratch, (size_t)O, sizeof(*f));
    int32_t zero = c->x.zero, y_zero = pare_int8_conv_quantized(c) ? c->end.q.zero : 0;

    if (!f || !pare_post_attr(&s->post, attr))
        return false;
    for (int64_t o = 0; o < O; o++)
        f[o] = pare_int8_conv_factor(c, o);
    return dnnl_primitive_attr_set_output_scales(*attr, one ? 1 : O, one ? 0 : 2, f) ==
               dnnl_success &&
           (!zero || dnnl_primitive_attr_set_zero_points(*attr, DNNL_ARG_SRC, 1, 0, &zero) ==
                         dnnl_success) &&
           (!y_zero || dnnl_primitive_attr_set_zero_points(*attr, DNNL_ARG_DST, 1, 0, &y_zero) ==
                           dnnl_success);
}

static bool describe(const struct pare_match *v, struct conv_int8 *s)
{
    const struct pare_int8_conv *c = &s->c;
    struct pare_tensor w = pare_conv_weight(&c->w.v->t, c->win.group);
    dnnl_dims_t dims = { 0 }, channels = { c->w.channels };
    dnnl_memory_desc_t src, dst, wei, bias;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_convolution_desc_t d;
    struct pare_conv_sides g;
    bool ok;

    if (w.rank > 6 || !pare_dnnl_md(&src, &c->shape, PARE_CHANNELS_LAST) ||
        !pare_dnnl_md(&dst, &c->out->t, PARE_CHANNELS_LAST))
        return false;
    for (int i = 0; i < w.rank; i++)
        dims[i] = w.dim[i];
    dnnl_memory_desc_init_by_tag(&wei, w.rank, dims, dnnl_s8, dnnl_format_tag_any);
    dnnl_memory_desc_init_by_tag(&bias, 1, channels, dnnl_f32, dnnl_a);
    pare_conv_sides(&c->win, &g);
    ok = dnnl_dilated_convolution_forward_desc_init(&d, dnnl_forward_inference,
                                                    dnnl_convolution_direct, &src, &wei,
                                                    c->bias ? &bias : NULL, &dst, g.stride,
                                                    g.dilate, g.begin, g.end) == dnnl_success &&
         attributes(v, s, &attr) &&
         dnnl_primitive_desc_create(&s->pd, &d, attr, v->backend->onednn->engine, NULL) ==
             dnnl_success;
    if (attr)
        dnnl_primitive_attr_destroy(attr);
    if (ok && pare_dnnl_is_reference(s->pd)) {
        dnnl_primitive_desc_destroy(s->pd);
        ok = false;
    }
    return ok;
}

/* Sums pass through float32, which holds 24 bits: enough for a float or quantized result, but a sum
 * that is itself the result must fit. */
static bool conv_int8_match(const struct pare_match *v, struct pare_node *n, struct pare_step *s)
{
    struct conv_int8 *k = pare_alloc(v->backend->scratch, 1, sizeof(*k)), *keep;
    int n_fused;

    if (!k || !pare_int8_conv(v, n, &k->c) || !pare_int8_exact(v->backend, &k->c.x, &k->c.w) ||
        (k->c.out->t.dtype == PARE_I32 && !pare_int8_conv_below(&k->c, 1 << 24)))
        return false;
    if (pare_int8_conv_quantized(&k->c))
        add_bounds(k);
    else if (k->c.out->t.dtype == PARE_F32)
        k->c.out = pare_post_follow(v, k->c.out, false, &k->post);
    if (!describe(v, k))
        return false;
    n_fused = k->c.end.n + k->post.n_nodes;
    keep = pare_alloc(v->backend->arena, 1, sizeof(*keep));
    if (!keep || !pare_step_lists(s, v, 1, 1, n_fused)) {
        dnnl_primitive_desc_destroy(k->pd);
        return false;
    }
    *keep = *k;
    s->state = keep;
    s->in[0] = k->c.x.v;
    s->out[0] = k->c.out;
    s->in_block[0] = k->c.layout;
    s->out_block[0] = PARE_CHANNELS_LAST;
    s->work_bytes[0] = pare_dnnl_scratch_bytes(k->pd);
    for (int i = 0; i < n_fused; i++)
        s->fused[i] = k->c.end.n ? k->c.end.node[i] : k->post.node[i];
    return true;
}

/* ---- run ----------------------------------------------------------------------------- */

static int init_bias(struct conv_int8 *c, struct pare_backend *b, struct pare_err *err)
{
    float *bias = pare_alloc(b->arena, (size_t)c->c.w.channels, sizeof(*bias));

    if (!bias)
        return pare_no_memory(err, "for the bias");
    for (int64_t o = 0; o < c->c.w.channels; o++)
        bias[o] = (float)pare_int8_conv_bias(&c->c, o);
    return pare_dnnl_bias(b, c->pd, bias, &c->b, err);
}

static int init_weights(struct conv_int8 *c, struct pare_backend *b, struct pare_err *err)
{
    struct pare_tensor w = c->c.w.v->t;
    dnnl_memory_desc_t md;
    struct pare_pack k = {
        .have = &md,
        .want = dnnl_primitive_desc_query_md(c->pd, dnnl_query_weights_md, 0),
        .data = pare_int8_centered(&c->c.w, b->scratch),
    };

    if (!k.data)
        return pare_no_memory(err, "for the weights");
    w.dtype = PARE_I8;
    PARE_TRY(pare_conv_weight_md(&w, c->c.win.group, &md, err));
    return pare_dnnl_pack(b, &k, &c->weights, err);
}

static int init_constants(const struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct conv_int8 *like = s->share_from ? s->share_from->state : NULL;
    struct conv_int8 *c = s->state;

    PARE_TRY(like ? pare_dnnl_share(b, like->weights, &c->weights, err) : init_weights(c, b, err));
    if (!c->c.bias)
        return 0;
    return like ? pare_dnnl_share(b, like->b, &c->b, err) : init_bias(c, b, err);
}

static int conv_int8_init(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    struct conv_int8 *c = s->state;

    PARE_TRY(init_constants(s, b, err));
    PARE_TRY(pare_dnnl_scratch(b, c->pd, s, &c->scratch, err));
    PARE_TRY(pare_dnnl_ends(b, c->pd, s, &c->src, &c->dst, err));
    return pare_dnnl(err, dnnl_primitive_create(&c->prim, c->pd), "convolution");
}

static int conv_int8_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    struct conv_int8 *c = s->state;
    dnnl_exec_arg_t args[5] = {
        { DNNL_ARG_SRC, c->src },
        { DNNL_ARG_WEIGHTS, c->weights },
        { DNNL_ARG_DST, c->dst },
    };
    int n = 3;

    if (c->b)
        args[n++] = (dnnl_exec_arg_t){ DNNL_ARG_BIAS, c->b };
    if (c->scratch)
        args[n++] = (dnnl_exec_arg_t){ DNNL_ARG_SCRATCHPAD, c->scratch };
    return pare_dnnl(err, dnnl_primitive_execute(c->prim, b->onednn->stream, n, args),
                     "convolution");
}

static void destroy(struct pare_step *s)
{
    struct conv_int8 *c = s->state;
    dnnl_memory_t mem[] = { c->src, c->dst, c->weights, c->b, c->scratch };

    pare_dnnl_destroy(mem, 5, c->prim, c->pd);
}

const struct pare_kernel pare_kernel_conv_int8 = {
    .name = "conv_int8",
    .doc = "Int8 convolution with fused requantization, by oneDNN.",
    .reads_int8 = true,
    .match = conv_int8_match,
    .init = conv_int8_init,
    .run = conv_int8_run,
    .destroy = destroy,
};

/* conv_int8.c - convolutions of 8-bit integers as one primitive.
 *
 *     y = round(f (conv(x - x_zero, w) + b)) + y_zero,   f = x_scale w_scale / y_scale by channel,
 *
 * with Relu or Clip before the rounding: DequantizeLinear, Conv, Relu, QuantizeLinear in one, or
 * QLinearConv.  Without a QuantizeLinear behind it the result is real, and of ConvInteger it is the
 * sum itself.  Sums are exact (q8.h); tensors have their channels last.
 */
#include "conv_desc.h"
#include "post.h"

#include <math.h>

#include "../q8.h"

struct conv8 {
    struct pare_window win;
    struct pare_q8 x;
    struct pare_q8_weight w;
    struct pare_value *bias; /* real, or int32 in units of x_scale w_scale; or NULL */
    struct pare_q8_end end;
    struct pare_value *out; /* of whose type the result is */
    struct pare_post post;  /* behind a real result */
    dnnl_primitive_desc_t pd;
    dnnl_primitive_t prim;
    dnnl_memory_t src, dst, weights, b;
};

static bool quantized(const struct conv8 *c)
{
    return c->out->t.dtype == PARE_U8 || c->out->t.dtype == PARE_I8;
}

/* ---- reading nodes ------------------------------------------------------------------ */

static bool read_conv(const struct pare_view *v, struct pare_node *n, struct conv8 *c)
{
    struct pare_err err;

    if (!pare_q8_source(v, n->in[0], &c->x) || c->x.viewed || !pare_q8_weight(n->in[1], 0, &c->w) ||
        pare_conv_window(n, &c->win, &err))
        return false;
    c->bias = n->n_in > 2 ? n->in[2] : NULL;
    if (pare_q8_end(v, n->out[0], &c->end)) {
        c->out = c->end.q.v;
    } else {
        c->end.n = 0;
        c->out = pare_post_follow(v, n->out[0], false, &c->post);
    }
    return !c->bias || pare_is_f32(c->bias);
}

static bool read_qlinear(struct pare_node *n, struct conv8 *c)
{
    enum { X, X_SCALE, X_ZERO, W, W_SCALE, W_ZERO, Y_SCALE, Y_ZERO, B };
    struct pare_err err;

    c->bias = n->n_in > B ? n->in[B] : NULL;
    c->out = n->out[0];
    c->end = (struct pare_q8_end){ .lo = -INFINITY, .hi = INFINITY };
    return pare_q8_read(&c->x, n->in[X], n->in[X_SCALE], n->in[X_ZERO]) &&
           pare_q8_read(&c->end.q, n->out[0], n->in[Y_SCALE], n->in[Y_ZERO]) &&
           pare_q8_weight_read(&c->w, n->in[W], n->in[W_SCALE], n->in[W_ZERO], 0) &&
           !pare_conv_geometry(n->attr, &n->in[X]->t, &n->in[W]->t, &c->win, &err);
}

/* oneDNN's sums pass through float32 on the way to the result, which holds 24 bits. */
static bool read_integer(struct pare_node *n, struct conv8 *c)
{
    enum { X, W, X_ZERO, W_ZERO };
    const struct pare_value *zero = n->n_in > X_ZERO ? n->in[X_ZERO] : NULL;
    struct pare_err err;

    c->out = n->out[0];
    c->x = (struct pare_q8){ .v = n->in[X], .scale = 1 };
    if (zero && (!pare_is_const(zero) || !zero->t.data || pare_numel(&zero->t) != 1))
        return false;
    c->x.zero = zero ? (int)pare_get_int(&zero->t, 0) : 0;
    if (!pare_q8_weight_read(&c->w, n->in[W], NULL, n->n_in > W_ZERO ? n->in[W_ZERO] : NULL, 0) ||
        pare_conv_window(n, &c->win, &err))
        return false;
    return 255.0 * c->w.reach * (double)(pare_numel(&c->w.v->t) / c->w.channels) < 1 << 24;
}

static bool read_node(const struct pare_view *v, struct pare_node *n, struct conv8 *c)
{
    if (n->op->domain)
        return false;
    if (!strcmp(n->type, "Conv"))
        return read_conv(v, n, c);
    if (!strcmp(n->type, "QLinearConv"))
        return read_qlinear(n, c);
    return !strcmp(n->type, "ConvInteger") && read_integer(n, c);
}

/* A channel's bias in units of the sum. */
static double bias_at(const struct conv8 *c, int64_t o)
{
    double b = c->bias ? pare_get(&c->bias->t, o) : 0;

    return c->bias && c->bias->t.dtype == PARE_F32
               ? b / ((double)c->x.scale * (double)pare_q8_scale(&c->w, o))
               : b;
}

static bool good_bias(const struct conv8 *c)
{
    if (!c->bias)
        return true;
    if (!pare_is_const(c->bias) || !c->bias->t.data)
        return false;
    for (int64_t o = 0; o < c->w.channels; o++)
        if (!(fabs(bias_at(c, o)) < 1e15))
            return false;
    return true;
}

/* ---- descriptors --------------------------------------------------------------------- */

/* Relu or Clip, unless the type's range does it. */
static void add_bounds(struct conv8 *c)
{
    const struct pare_q8 *q = &c->end.q;
    struct pare_post_op *op = &c->post.op[0];
    float lo = c->end.lo / q->scale, hi = c->end.hi / q->scale;

    if (!quantized(c) || (lo <= (float)(q->lo - q->zero) && hi >= (float)(q->hi - q->zero)))
        return;
    c->post.n = 1;
    *op = (struct pare_post_op){ .alg = dnnl_eltwise_relu };
    if (lo < 0 || lo > 0 || hi < (float)(q->hi - q->zero))
        *op = (struct pare_post_op){ .alg = dnnl_eltwise_clip,
                                     .alpha = fmaxf(lo, -1e6f),
                                     .beta = fminf(hi, 1e6f) };
}

static bool attributes(const struct pare_view *v, struct conv8 *c, dnnl_primitive_attr_t *attr)
{
    int64_t O = c->w.channels;
    bool one = !c->w.scale || pare_numel(&c->w.scale->t) == 1;
    float *f = pare_alloc(v->backend->scratch, (size_t)O, sizeof(*f));
    int32_t zero = c->x.zero, y_zero = quantized(c) ? c->end.q.zero : 0;

    if (!f || !pare_post_attr(&c->post, attr))
        return false;
    for (int64_t o = 0; o < O; o++) {
        f[o] = c->x.scale * pare_q8_scale(&c->w, o) / (quantized(c) ? c->end.q.scale : 1);
        if (!isfinite(f[o]))
            return false;
    }
    return dnnl_primitive_attr_set_output_scales(*attr, one ? 1 : O, one ? 0 : 2, f) ==
               dnnl_success &&
           (!zero || dnnl_primitive_attr_set_zero_points(*attr, DNNL_ARG_SRC, 1, 0, &zero) ==
                         dnnl_success) &&
           (!y_zero || dnnl_primitive_attr_set_zero_points(*attr, DNNL_ARG_DST, 1, 0, &y_zero) ==
                           dnnl_success);
}

static bool describe(const struct pare_view *v, struct conv8 *c)
{
    struct pare_tensor w = pare_conv_weight(&c->w.v->t, c->win.group);
    dnnl_dims_t dims = { 0 }, channels = { c->w.channels };
    dnnl_memory_desc_t src, dst, wei, bias;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_convolution_desc_t d;
    struct pare_conv_sides g;
    bool ok;

    if (w.rank > 6 || !pare_dnnl_md(&src, &c->x.v->t, PARE_LAST) ||
        !pare_dnnl_md(&dst, &c->out->t, PARE_LAST))
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
         attributes(v, c, &attr) &&
         dnnl_primitive_desc_create(&c->pd, &d, attr, v->backend->onednn->engine, NULL) ==
             dnnl_success;
    if (attr)
        dnnl_primitive_attr_destroy(attr);
    if (ok && pare_dnnl_slow(c->pd)) {
        dnnl_primitive_desc_destroy(c->pd);
        ok = false;
    }
    return ok;
}

static bool match(const struct pare_view *v, struct pare_node *n, struct pare_step *s)
{
    struct conv8 *c = pare_alloc(v->backend->scratch, 1, sizeof(*c)), *keep;
    int n_fused;

    if (!c || !read_node(v, n, c) || !pare_numel(&n->out[0]->t) || !pare_numel(&c->x.v->t) ||
        !pare_q8_exact(v->backend, &c->x, &c->w) || !good_bias(c))
        return false;
    add_bounds(c);
    if (!describe(v, c))
        return false;
    n_fused = c->end.n + c->post.n_nodes;
    keep = pare_alloc(v->backend->arena, 1, sizeof(*keep));
    if (!keep || !pare_step_lists(s, v, 1, 1, n_fused)) {
        dnnl_primitive_desc_destroy(c->pd);
        return false;
    }
    *keep = *c;
    s->state = keep;
    s->in[0] = c->x.v;
    s->out[0] = c->out;
    s->in_block[0] = s->out_block[0] = PARE_LAST;
    for (int i = 0; i < n_fused; i++)
        s->fused[i] = c->end.n ? c->end.node[i] : c->post.node[i];
    return true;
}

/* ---- running ------------------------------------------------------------------------- */

static int init_bias(struct conv8 *c, struct pare_backend *b, struct pare_err *err)
{
    float *bias = pare_alloc(b->arena, (size_t)c->w.channels, sizeof(*bias));

    if (!bias)
        return pare_fail(err, PARE_ENOMEM, "no memory for the bias");
    for (int64_t o = 0; o < c->w.channels; o++)
        bias[o] = (float)bias_at(c, o);
    return pare_dnnl(
        err,
        dnnl_memory_create(&c->b, dnnl_primitive_desc_query_md(c->pd, dnnl_query_weights_md, 1),
                           b->onednn->engine, bias),
        "bias");
}

static int init_weights(struct conv8 *c, struct pare_backend *b, struct pare_err *err)
{
    struct pare_tensor w = c->w.v->t;
    dnnl_memory_desc_t md;
    struct pare_pack k = {
        .have = &md,
        .want = dnnl_primitive_desc_query_md(c->pd, dnnl_query_weights_md, 0),
        .data = pare_q8_centred(&c->w, b->scratch),
    };

    if (!k.data)
        return pare_fail(err, PARE_ENOMEM, "no memory for the weights");
    w.dtype = PARE_I8;
    PARE_TRY(pare_conv_weight_md(&w, c->win.group, &md, err));
    return pare_dnnl_pack(b, &k, &c->weights, err);
}

static int init(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    struct conv8 *c = s->state;
    dnnl_engine_t e = b->onednn->engine;

    PARE_TRY(init_weights(c, b, err));
    if (c->bias)
        PARE_TRY(init_bias(c, b, err));
    PARE_TRY(pare_dnnl(err,
                       dnnl_memory_create(&c->src,
                                          dnnl_primitive_desc_query_md(c->pd, dnnl_query_src_md, 0),
                                          e, s->in_buf[0]->t.data),
                       "input"));
    PARE_TRY(pare_dnnl(err,
                       dnnl_memory_create(&c->dst,
                                          dnnl_primitive_desc_query_md(c->pd, dnnl_query_dst_md, 0),
                                          e, s->out_buf[0]->t.data),
                       "output"));
    return pare_dnnl(err, dnnl_primitive_create(&c->prim, c->pd), "convolution");
}

static int run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    struct conv8 *c = s->state;
    dnnl_exec_arg_t args[] = {
        { DNNL_ARG_SRC, c->src },
        { DNNL_ARG_WEIGHTS, c->weights },
        { DNNL_ARG_DST, c->dst },
        { DNNL_ARG_BIAS, c->b },
    };

    return pare_dnnl(err, dnnl_primitive_execute(c->prim, b->onednn->stream, c->bias ? 4 : 3, args),
                     "convolution");
}

static void quit(struct pare_step *s)
{
    struct conv8 *c = s->state;
    dnnl_memory_t mem[] = { c->src, c->dst, c->weights, c->b };

    for (int i = 0; i < 4; i++)
        if (mem[i])
            dnnl_memory_destroy(mem[i]);
    if (c->prim)
        dnnl_primitive_destroy(c->prim);
    if (c->pd)
        dnnl_primitive_desc_destroy(c->pd);
}

const struct pare_kernel pare_kernel_conv_int8 = {
    .name = "conv_int8",
    .doc = "Convolution of 8-bit integers with requantization fused, by oneDNN.",
    .integers = true,
    .match = match,
    .init = init,
    .run = run,
    .quit = quit,
};

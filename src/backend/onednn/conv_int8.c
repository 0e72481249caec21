/* conv_int8.c - int8 Conv as one oneDNN primitive (int8_conv_match.h).
 *
 * Sums are exact (int8_operands.h); tensors have their channels last.
 */
#include "conv_desc.h"
#include "conv_parts.h"
#include "onednn_post.h"

#include <math.h>

#include "../fuse/int8_conv_match.h"

struct conv_int8 {
    struct pare_int8_conv c;
    struct pare_post post; /* bounds, or the post-ops of a float result */
    struct pare_conv_parts parts;
};

/* The rows of the input that the rows [row, row + rows) of the result read. */
struct rows {
    int64_t first, n, above, below; /* above, below: padding */
};

/* The shapes of input and result; of 1x1 filters as single columns, which have more rows to cut. */
static void shapes_of(const struct pare_int8_conv *c, struct pare_tensor *x, struct pare_tensor *y)
{
    const struct pare_window *w = &c->win;
    bool single = true;

    *x = c->shape;
    *y = c->out->t;
    for (int i = 0; i < w->nd; i++)
        single &= w->kernel[i] == 1 && w->stride[i] == 1 && w->in[i] == w->out[i];
    for (int i = 3; i < x->rank && single; i++) {
        x->dim[2] *= x->dim[i];
        y->dim[2] *= y->dim[i];
        x->dim[i] = y->dim[i] = 1;
    }
}

static struct rows input_rows(const struct pare_int8_conv *c, const struct pare_conv_part *t,
                              int64_t size)
{
    const struct pare_window *w = &c->win;
    const int64_t from = t->row * w->stride[0] - w->pad_begin[0];
    const int64_t to = (t->row + t->rows - 1) * w->stride[0] - w->pad_begin[0] +
                       (w->kernel[0] - 1) * w->dilation[0] + 1;
    struct rows r = { .first = from > 0 ? from : 0, .above = from < 0 ? -from : 0 };

    r.n = (to < size ? to : size) - r.first;
    r.below = to - r.first - r.n;
    return r;
}

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

static bool describe(const struct pare_match *v, const struct conv_int8 *s,
                     struct pare_conv_part *t)
{
    const struct pare_int8_conv *c = &s->c;
    struct pare_tensor w = pare_conv_weight(&c->w.v->t, c->win.group), x, y;
    dnnl_dims_t dims = { 0 }, channels = { c->w.channels };
    dnnl_memory_desc_t src, dst, wei, bias;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_convolution_desc_t d;
    struct pare_conv_sides g;
    bool ok;

    struct rows r;

    bool cut;

    shapes_of(c, &x, &y);
    cut = t->rows < y.dim[2];
    x.dim[0] = y.dim[0] = t->images;
    if (cut) {
        r = input_rows(c, t, x.dim[2]);
        x.dim[2] = r.n;
        y.dim[2] = t->rows;
    }
    if (w.rank > 6 || (cut && r.n < 1) || !pare_dnnl_md(&src, &x, PARE_CHANNELS_LAST) ||
        !pare_dnnl_md(&dst, &y, PARE_CHANNELS_LAST))
        return false;
    for (int i = 0; i < w.rank; i++)
        dims[i] = w.dim[i];
    dnnl_memory_desc_init_by_tag(&wei, w.rank, dims, dnnl_s8, dnnl_format_tag_any);
    dnnl_memory_desc_init_by_tag(&bias, 1, channels, dnnl_f32, dnnl_a);
    pare_conv_sides(&c->win, &g);
    if (cut) {
        g.begin[0] = r.above;
        g.end[0] = r.below;
    }
    ok = dnnl_dilated_convolution_forward_desc_init(&d, dnnl_forward_inference,
                                                    dnnl_convolution_direct, &src, &wei,
                                                    c->bias ? &bias : NULL, &dst, g.stride,
                                                    g.dilate, g.begin, g.end) == dnnl_success &&
         attributes(v, s, &attr) &&
         dnnl_primitive_desc_create(&t->pd, &d, attr, v->backend->onednn->engine, NULL) ==
             dnnl_success;
    if (attr)
        dnnl_primitive_attr_destroy(attr);
    return ok && !pare_dnnl_is_reference(t->pd);
}

/* Images or rows, which are contiguous if channels are last; all parts must use the same packed
 * weights. */
static bool cut_rows(const struct pare_match *v, struct conv_int8 *s)
{
    struct pare_conv_parts *p = &s->parts;
    struct pare_tensor x, y;
    bool ok = true;
    int threads;

    shapes_of(&s->c, &x, &y);
    if (!pare_conv_parts(p, v->backend, &y, y.rank > 2 ? PARE_CUT_ROWS : PARE_CUT_NOT, 1) ||
        p->n == 1)
        return false;
    threads = pare_conv_parts_begin(p);
    for (int k = 0; k < p->n && ok; k++) {
        ok = describe(v, s, &p->part[k]);
        if (ok && k)
            ok = dnnl_memory_desc_equal(dnnl_primitive_desc_query_md(p->part[0].pd,
                                                                     dnnl_query_weights_md, 0),
                                        dnnl_primitive_desc_query_md(p->part[k].pd,
                                                                     dnnl_query_weights_md, 0));
    }
    pare_conv_parts_end(threads);
    return ok;
}

static bool make_parts(const struct pare_match *v, struct conv_int8 *s)
{
    struct pare_tensor x, y;

    if (cut_rows(v, s))
        return true;
    pare_conv_parts_destroy(&s->parts);
    s->parts = (struct pare_conv_parts){ 1,
                                         pare_alloc(v->backend->arena, 1, sizeof(*s->parts.part)) };
    if (!s->parts.part)
        return false;
    shapes_of(&s->c, &x, &y);
    s->parts.part[0].images = y.dim[0];
    s->parts.part[0].rows = y.dim[2];
    if (describe(v, s, &s->parts.part[0]))
        return true;
    pare_conv_parts_destroy(&s->parts);
    return false;
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
    if (!make_parts(v, k))
        return false;
    n_fused = k->c.end.n + k->post.n_nodes;
    keep = pare_alloc(v->backend->arena, 1, sizeof(*keep));
    if (!keep || !pare_step_lists(s, v, 1, 1, n_fused)) {
        pare_conv_parts_destroy(&k->parts);
        return false;
    }
    *keep = *k;
    s->state = keep;
    s->in[0] = k->c.x.v;
    s->out[0] = k->c.out;
    s->in_block[0] = k->c.layout;
    s->out_block[0] = PARE_CHANNELS_LAST;
    s->openmp = k->parts.n == 1;
    s->work_bytes[0] = pare_conv_parts_bytes(&k->parts);
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
    return pare_dnnl_bias(b, c->parts.part[0].pd, bias, &c->parts.part[0].bias, err);
}

static int init_weights(struct conv_int8 *c, struct pare_backend *b, struct pare_err *err)
{
    struct pare_tensor w = c->c.w.v->t;
    dnnl_memory_desc_t md;
    struct pare_pack k = {
        .have = &md,
        .want = dnnl_primitive_desc_query_md(c->parts.part[0].pd, dnnl_query_weights_md, 0),
        .data = pare_int8_centered(&c->c.w, b->scratch),
    };

    if (!k.data)
        return pare_no_memory(err, "for the weights");
    w.dtype = PARE_I8;
    PARE_TRY(pare_conv_weight_md(&w, c->c.win.group, &md, err));
    return pare_dnnl_pack(b, &k, &c->parts.part[0].weights, err);
}

static int init_constants(const struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    struct conv_int8 *c = s->state;
    const struct conv_int8 *like = s->share_from ? s->share_from->state : c;

    if (like == c) {
        PARE_TRY(init_weights(c, b, err));
        if (c->c.bias)
            PARE_TRY(init_bias(c, b, err));
    }
    for (int k = like == c; k < c->parts.n; k++) {
        struct pare_conv_part *t = &c->parts.part[k];

        PARE_TRY(pare_dnnl_share(b, like->parts.part[0].weights, &t->weights, err));
        if (c->c.bias)
            PARE_TRY(pare_dnnl_share(b, like->parts.part[0].bias, &t->bias, err));
    }
    return 0;
}

static int conv_int8_init(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    struct conv_int8 *c = s->state;

    struct pare_tensor x, y;

    shapes_of(&c->c, &x, &y);
    PARE_TRY(init_constants(s, b, err));
    for (int k = 0; k < c->parts.n; k++) {
        const struct pare_conv_part *t = &c->parts.part[k];
        const size_t image[2] = { s->in_buf[0]->bytes / (size_t)x.dim[0],
                                  s->out_buf[0]->bytes / (size_t)y.dim[0] };
        size_t at[2] = { (size_t)t->image * image[0], (size_t)t->image * image[1] };

        if (t->row) {
            at[0] += (size_t)input_rows(&c->c, t, x.dim[2]).first * (image[0] / (size_t)x.dim[2]);
            at[1] += (size_t)t->row * (image[1] / (size_t)y.dim[2]);
        }
        PARE_TRY(pare_conv_part_init(&c->parts, k, s, b, at, err));
    }
    return 0;
}

static int conv_int8_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    return pare_conv_parts_run(&((const struct conv_int8 *)s->state)->parts, b, err);
}

static void destroy(struct pare_step *s)
{
    pare_conv_parts_destroy(&((struct conv_int8 *)s->state)->parts);
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

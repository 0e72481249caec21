/* conv_train.c - training of Conv by oneDNN: forward, backward_data, backward_weights.
 *
 * Parameters are row-major or blocked (step.blocked_filters).  If a primitive needs another layout,
 * they are reordered once per step and pass, and so is their gradient.  Where oneDNN cannot add to
 * a gradient, it writes to scratch memory, and the result is added from there.  With bf16, X, W and
 * the gradient of Y are rounded to scratch memory first; results are float32.
 */
#include "conv_desc.h"

#include "../gemm/bf16_pairs.h"

#include "../../base/simd.h"

/* A primitive with its arguments. */
struct prim {
    dnnl_primitive_desc_t pd;
    dnnl_primitive_t prim;
    dnnl_exec_arg_t arg[4];
    int n;
};

struct conv {
    struct pare_window win;
    struct prim fwd, data, weights;      /* forward; backward_data; backward_weights */
    struct prim pack, pack_back, unpack; /* reorder W; W for backward_data; the gradient of W */
    dnnl_memory_t mem[16];               /* all of them, for destroy() */
    int n_mem;
    dnnl_memory_t w; /* W in its own layout */
    size_t
        side; /* bytes of conv_train_backward()'s scratch memory: packed W or its gradient; then X's
                        gradient */
    float *gx; /* X's gradient if it has to be added */
    float *gb; /* gradient of the bias */
    bool forward, want_x, want_w;
    bool bf16;
    uint16_t *x16[2], *gy16; /* X of run() and of backward(), and Y's gradient, in bf16 */
};

/* ---- descriptors --------------------------------------------------------------------- */

struct sides {
    dnnl_memory_desc_t x, y, w, b;
    struct pare_conv_sides g;
    bool bias, bf16;
};

/* The same in bf16, if the operands are. */
static dnnl_memory_desc_t operand(const struct sides *s, const dnnl_memory_desc_t *md)
{
    dnnl_memory_desc_t m = *md;

    m.data_type = s->bf16 ? dnnl_bf16 : dnnl_f32;
    return m;
}

static bool make_pd(struct prim *p, const void *desc, const struct pare_match *v,
                    dnnl_primitive_desc_t hint)
{
    return dnnl_primitive_desc_create(&p->pd, desc, NULL, v->backend->onednn->engine, hint) ==
           dnnl_success;
}

static void destroy_pd(struct prim *p)
{
    if (p->pd)
        dnnl_primitive_desc_destroy(p->pd);
    p->pd = NULL;
}

static void destroy_all(struct conv *c)
{
    destroy_pd(&c->fwd);
    destroy_pd(&c->data);
    destroy_pd(&c->weights);
}

static bool describe_back(const struct pare_match *v, struct conv *c, struct sides *s)
{
    const dnnl_memory_desc_t x = operand(s, &s->x), w = operand(s, &s->w), gy = operand(s, &s->y);
    dnnl_convolution_desc_t d;

    if (c->want_x &&
        (dnnl_dilated_convolution_backward_data_desc_init(&d, dnnl_convolution_direct, &s->x, &w,
                                                          &gy, s->g.stride, s->g.dilate, s->g.begin,
                                                          s->g.end) != dnnl_success ||
         !make_pd(&c->data, &d, v, c->fwd.pd) || pare_dnnl_is_reference(c->data.pd)))
        return false;
    return !c->want_w ||
           (dnnl_dilated_convolution_backward_weights_desc_init(
                &d, dnnl_convolution_direct, &x, &s->w, s->bias ? &s->b : NULL, &gy, s->g.stride,
                s->g.dilate, s->g.begin, s->g.end) == dnnl_success &&
            make_pd(&c->weights, &d, v, c->fwd.pd) && !pare_dnnl_is_reference(c->weights.pd));
}

/* Descriptors of all passes for these layouts of X and Y; 0 leaves the choice to oneDNN.  Backward
 * descriptors take the forward one as a hint. */
static bool describe(const struct pare_match *v, const struct pare_node *n, struct conv *c, int *in,
                     int *out)
{
    const struct pare_tensor *x = &n->in[0]->t, *y = &n->out[0]->t;
    struct pare_tensor w = pare_conv_weight(&n->in[1]->t, c->win.group);
    dnnl_memory_desc_t from, weights;
    dnnl_convolution_desc_t d;
    struct sides s;

    s.bias = n->n_in > 2 && n->in[2];
    s.bf16 = c->bf16;
    pare_dnnl_any(&s.x, x);
    pare_dnnl_any(&s.y, y);
    pare_dnnl_any(&s.w, &w);
    pare_dnnl_any(&s.b, &(struct pare_tensor){ .rank = 1, .dim = { y->dim[1] } });
    pare_conv_sides(&c->win, &s.g);
    if ((*in && !pare_dnnl_md(&s.x, x, *in)) || (*out && !pare_dnnl_md(&s.y, y, *out)))
        return false;
    from = operand(&s, &s.x);
    weights = operand(&s, &s.w);
    if (dnnl_dilated_convolution_forward_desc_init(&d, dnnl_forward_training,
                                                   dnnl_convolution_direct, &from, &weights,
                                                   s.bias ? &s.b : NULL, &s.y, s.g.stride,
                                                   s.g.dilate, s.g.begin,
                                                   s.g.end) != dnnl_success ||
        !make_pd(&c->fwd, &d, v, NULL) || (c->forward && pare_dnnl_is_reference(c->fwd.pd)))
        return false;
    s.x = *dnnl_primitive_desc_query_md(c->fwd.pd, dnnl_query_src_md, 0);
    s.x.data_type = dnnl_f32;
    s.y = *dnnl_primitive_desc_query_md(c->fwd.pd, dnnl_query_dst_md, 0);
    *in = pare_dnnl_block(&s.x, x);
    *out = pare_dnnl_block(&s.y, y);
    return *in && *out && describe_back(v, c, &s);
}

/* The first layouts that oneDNN supports; those of s->layout_from if that is set. */
static bool layouts(const struct pare_match *v, const struct pare_step *s, struct conv *c, int *in,
                    int *out)
{
    const struct pare_step *o = s->layout_from;
    int b = v->backend->block;
    const int tries[][2] = { { 0, 0 }, { 1, b }, { b, b }, { 8, 8 }, { 1, 8 }, { 1, 1 } };

    for (size_t i = 0; i < (o ? 1 : sizeof(tries) / sizeof(*tries)); i++) {
        *in = o ? o->in_block[0] : tries[i][0];
        *out = o ? o->out_block[0] : tries[i][1];
        if (describe(v, s->node, c, in, out))
            return true;
        destroy_all(c);
    }
    return false;
}

static const dnnl_memory_desc_t *md_of(const struct prim *p, dnnl_query_t what, int i)
{
    return dnnl_primitive_desc_query_md(p->pd, what, i);
}

static size_t size_of(const struct prim *p, dnnl_query_t what, int i)
{
    return (dnnl_memory_desc_get_size(md_of(p, what, i)) + 63) & ~(size_t)63;
}

/* The bytes of a float32 argument in bf16. */
static size_t half_size(const struct prim *p, dnnl_query_t what)
{
    return (size_of(p, what, 0) / 2 + 63) & ~(size_t)63;
}

/* W is packed again in each pass, so that a layer needs memory for it only while it runs. */
static void work_sizes(struct pare_step *s, struct conv *c)
{
    size_t w = c->want_x ? size_of(&c->data, dnnl_query_weights_md, 0) : 0;
    size_t gw = c->want_w ? size_of(&c->weights, dnnl_query_diff_weights_md, 0) : 0;

    c->side = w > gw ? w : gw;
    if (c->forward)
        s->work_bytes[0] = size_of(&c->fwd, dnnl_query_weights_md, 0);
    if (c->forward && c->bf16)
        s->work_bytes[0] += size_of(&c->fwd, dnnl_query_src_md, 0);
    if (c->bf16 && (c->want_x || c->want_w))
        c->side += half_size(&c->fwd, dnnl_query_dst_md) +
                   (c->want_w ? size_of(&c->weights, dnnl_query_src_md, 0) : 0);
    s->work_bytes[1] = c->side;
    if (c->want_x)
        s->accumulate_bytes = size_of(&c->data, dnnl_query_diff_src_md, 0);
}

static bool conv_train_match(const struct pare_match *v, struct pare_node *n, struct pare_step *s)
{
    struct pare_err err;
    struct conv *c;
    int in, out, n_in;

    if (!v->train || !pare_node_is(n, &pare_op_conv) || !pare_is_f32(n->in[0]) ||
        !pare_is_fixed(n->in[1]) || !pare_is_f32(n->in[1]) || !pare_numel(&n->out[0]->t) ||
        !pare_numel(&n->in[0]->t) || (n->n_in > 2 && n->in[2] && !pare_is_fixed(n->in[2])))
        return false;
    c = pare_alloc(v->backend->arena, 1, sizeof(*c));
    if (!c || pare_conv_window(n, &c->win, &err))
        return false;
    n_in = n->n_in > 2 && n->in[2] ? 3 : 2;
    c->bf16 = v->backend->bf16 && v->backend->has_bf16 && c->win.group == 1;
    c->forward = s->passes & PARE_PASS_FORWARD;
    c->want_x = v->requires_grad[n->in[0]->id] && s->passes & PARE_PASS_BACKWARD_DATA;
    c->want_w = (v->requires_grad[n->in[1]->id] || (n_in > 2 && v->requires_grad[n->in[2]->id])) &&
                s->passes & PARE_PASS_BACKWARD_WEIGHTS;
    if (!pare_step_lists(s, v, n_in, 1, 0) || !layouts(v, s, c, &in, &out))
        return false;
    for (int i = 0; i < n_in; i++)
        s->in[i] = n->in[i];
    s->out[0] = n->out[0];
    s->in_block[0] = in;
    s->out_block[0] = out;
    if (!pare_step_layouts_match(s)) {
        destroy_all(c);
        return false;
    }
    s->state = c;
    s->pass_independent = true;
    s->fast_passes = PARE_ALL_PASSES;
    s->unsaved_in = c->want_w ? 0 : ~0u;
    s->unsaved_out = ~0u;
    work_sizes(s, c);
    return true;
}

/* ---- primitives ------------------------------------------------------------------------ */

static int memory(struct conv *c, struct pare_backend *b, const dnnl_memory_desc_t *md, void *data,
                  dnnl_memory_t *m, struct pare_err *err)
{
    PARE_TRY(pare_dnnl(err, dnnl_memory_create(m, md, b->onednn->engine, data), "memory"));
    c->mem[c->n_mem++] = *m;
    return 0;
}

static void argument(struct prim *p, int id, dnnl_memory_t m)
{
    p->arg[p->n++] = (dnnl_exec_arg_t){ id, m };
}

static int create_primitive(struct prim *p, struct pare_err *err)
{
    return pare_dnnl(err, dnnl_primitive_create(&p->prim, p->pd), "convolution");
}

/* Reorder, with `add` adding to the destination. */
static int reorder(struct prim *p, struct pare_backend *b, dnnl_memory_t from, dnnl_memory_t to,
                   bool add, struct pare_err *err)
{
    const dnnl_memory_desc_t *f, *t;
    dnnl_engine_t e = b->onednn->engine;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_post_ops_t ops = NULL;
    int rc;

    dnnl_memory_get_memory_desc(from, &f);
    dnnl_memory_get_memory_desc(to, &t);
    rc = pare_dnnl(err, dnnl_primitive_attr_create(&attr), "weights");
    if (!rc && add) {
        rc = pare_dnnl(err, dnnl_post_ops_create(&ops), "weights");
        if (!rc)
            rc = pare_dnnl(err, dnnl_post_ops_append_sum(ops, 1), "weights");
        if (!rc)
            rc = pare_dnnl(err, dnnl_primitive_attr_set_post_ops(attr, ops), "weights");
    }
    if (!rc)
        rc = pare_dnnl(err, dnnl_reorder_primitive_desc_create(&p->pd, f, e, t, e, attr),
                       "weights");
    if (ops)
        dnnl_post_ops_destroy(ops);
    if (attr)
        dnnl_primitive_attr_destroy(attr);
    if (rc)
        return rc;
    argument(p, DNNL_ARG_FROM, from);
    argument(p, DNNL_ARG_TO, to);
    return create_primitive(p, err);
}

static bool is_layout(dnnl_memory_t m, const dnnl_memory_desc_t *md)
{
    const dnnl_memory_desc_t *own;

    return dnnl_memory_get_memory_desc(m, &own) == dnnl_success && dnnl_memory_desc_equal(own, md);
}

/* W for a primitive: as stored, or packed in scratch memory. */
static int set_weights(struct pare_step *s, struct pare_backend *b, const struct prim *p,
                       struct prim *pack, dnnl_memory_t *w, struct pare_err *err)
{
    struct conv *c = s->state;
    const dnnl_memory_desc_t *md = md_of(p, dnnl_query_weights_md, 0);

    if (is_layout(c->w, md)) {
        *w = c->w;
        return 0;
    }
    PARE_TRY(memory(c, b, md, s->work[p == &c->data]->t.data, w, err));
    return reorder(pack, b, c->w, *w, false, err);
}

static int init_forward(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    struct conv *c = s->state;
    dnnl_memory_t x, w, y, bias;

    if (c->bf16)
        c->x16[0] = (uint16_t *)((unsigned char *)s->work[0]->t.data +
                                 size_of(&c->fwd, dnnl_query_weights_md, 0));
    PARE_TRY(memory(c, b, md_of(&c->fwd, dnnl_query_src_md, 0),
                    c->bf16 ? (void *)c->x16[0] : s->in_buf[0]->t.data, &x, err));
    PARE_TRY(memory(c, b, md_of(&c->fwd, dnnl_query_dst_md, 0), s->out_buf[0]->t.data, &y, err));
    PARE_TRY(set_weights(s, b, &c->fwd, &c->pack, &w, err));
    argument(&c->fwd, DNNL_ARG_SRC, x);
    argument(&c->fwd, DNNL_ARG_WEIGHTS, w);
    argument(&c->fwd, DNNL_ARG_DST, y);
    if (s->n_in > 2) {
        PARE_TRY(
            memory(c, b, md_of(&c->fwd, dnnl_query_weights_md, 1), s->in[2]->t.data, &bias, err));
        argument(&c->fwd, DNNL_ARG_BIAS, bias);
    }
    return create_primitive(&c->fwd, err);
}

static int init_data(struct pare_step *s, struct pare_backend *b, dnnl_memory_t gy,
                     struct pare_err *err)
{
    struct conv *c = s->state;
    dnnl_memory_t gx, w;

    if (!s->grad_assign[0])
        c->gx = (float *)((unsigned char *)s->work[1]->t.data + c->side);
    PARE_TRY(memory(c, b, md_of(&c->data, dnnl_query_diff_src_md, 0),
                    c->gx ? (void *)c->gx : s->in_buf[0]->grad->t.data, &gx, err));
    PARE_TRY(set_weights(s, b, &c->data, &c->pack_back, &w, err));
    argument(&c->data, DNNL_ARG_DIFF_DST, gy);
    argument(&c->data, DNNL_ARG_WEIGHTS, w);
    argument(&c->data, DNNL_ARG_DIFF_SRC, gx);
    return create_primitive(&c->data, err);
}

/* The destination of W's gradient: its buffer, or scratch memory that is then reordered. */
static int set_weights_grad(struct pare_step *s, struct pare_backend *b,
                            const dnnl_memory_desc_t *own, dnnl_memory_t *gw, struct pare_err *err)
{
    struct conv *c = s->state;
    const dnnl_memory_desc_t *md = md_of(&c->weights, dnnl_query_diff_weights_md, 0);
    dnnl_memory_t to = NULL;

    if (s->in_buf[1]->grad)
        PARE_TRY(memory(c, b, own, s->in_buf[1]->grad->t.data, &to, err));
    if (to && s->grad_assign[1] && is_layout(to, md)) {
        *gw = to;
        return 0;
    }
    PARE_TRY(memory(c, b, md, s->work[1]->t.data, gw, err));
    return to ? reorder(&c->unpack, b, *gw, to, !s->grad_assign[1], err) : 0;
}

static int init_weights(struct pare_step *s, struct pare_backend *b, dnnl_memory_t gy,
                        const dnnl_memory_desc_t *own, struct pare_err *err)
{
    struct conv *c = s->state;
    dnnl_memory_t x, gw, gb;

    PARE_TRY(memory(c, b, md_of(&c->weights, dnnl_query_src_md, 0),
                    c->bf16 ? (void *)c->x16[1] : s->in_buf[0]->t.data, &x, err));
    PARE_TRY(set_weights_grad(s, b, own, &gw, err));
    argument(&c->weights, DNNL_ARG_SRC, x);
    argument(&c->weights, DNNL_ARG_DIFF_DST, gy);
    argument(&c->weights, DNNL_ARG_DIFF_WEIGHTS, gw);
    if (s->n_in > 2) {
        c->gb = pare_alloc(b->arena, (size_t)s->in[2]->t.dim[0], sizeof(*c->gb));
        if (!c->gb)
            return pare_no_memory(err, "for a gradient");
        PARE_TRY(memory(c, b, md_of(&c->weights, dnnl_query_diff_weights_md, 1), c->gb, &gb, err));
        argument(&c->weights, DNNL_ARG_DIFF_BIAS, gb);
    }
    return create_primitive(&c->weights, err);
}

/* The rounded operands of backward() are the last ones in its scratch memory. */
static void place_operands(const struct pare_step *s, struct conv *c)
{
    unsigned char *end = s->work[1] ? (unsigned char *)s->work[1]->t.data + c->side : NULL;

    if (!c->bf16)
        return;
    if (c->want_w) {
        end -= size_of(&c->weights, dnnl_query_src_md, 0);
        c->x16[1] = (uint16_t *)end;
    }
    c->gy16 = (uint16_t *)(end - half_size(&c->fwd, dnnl_query_dst_md));
}

static int conv_train_init(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    struct conv *c = s->state;
    dnnl_memory_desc_t md;
    dnnl_memory_t gy;

    if (s->blocked_filters)
        PARE_TRY(pare_conv_blocked_md(&s->in[1]->t, b->block, &md, err));
    else
        PARE_TRY(pare_conv_weight_md(&s->in[1]->t, c->win.group, &md, err));
    PARE_TRY(memory(c, b, &md, s->in[1]->t.data, &c->w, err));
    if (c->forward)
        PARE_TRY(init_forward(s, b, err));
    if (!c->want_x && !c->want_w)
        return 0;
    place_operands(s, c);
    PARE_TRY(memory(c, b, md_of(c->want_x ? &c->data : &c->weights, dnnl_query_diff_dst_md, 0),
                    c->bf16 ? (void *)c->gy16 : s->out_buf[0]->grad->t.data, &gy, err));
    if (c->want_x)
        PARE_TRY(init_data(s, b, gy, err));
    return c->want_w ? init_weights(s, b, gy, &md, err) : 0;
}

/* ---- run ------------------------------------------------------------------------------- */

static int execute(const struct prim *p, struct pare_backend *b, struct pare_err *err)
{
    return pare_dnnl(err, dnnl_primitive_execute(p->prim, b->onednn->stream, p->n, p->arg),
                     "convolution");
}

/* All elements of a buffer, padding lanes included. */
static void round_buffer(const struct pare_backend *b, const struct pare_buf *from, uint16_t *to)
{
    const int64_t n = (int64_t)(from->bytes / sizeof(float)), part = 1 << 14;

#pragma omp parallel for num_threads(b->threads) schedule(static)
    for (int64_t i = 0; i < n; i += part)
        pare_bf16_pairs(pare_f32(&from->t) + i, n - i < part ? n - i : part, (float *)(to + i));
}

static int conv_train_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    struct conv *c = s->state;

    if (c->bf16)
        round_buffer(b, s->in_buf[0], c->x16[0]);
    if (c->pack.prim)
        PARE_TRY(execute(&c->pack, b, err));
    return execute(&c->fwd, b, err);
}

PARE_SIMD static void add(float *y, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] += x[i];
}

static void add_bias(struct pare_step *s, const float *gb)
{
    float *to = pare_f32_mut(&s->in_buf[2]->grad->t);

    if (s->grad_assign[2])
        memcpy(to, gb, s->in_buf[2]->bytes);
    else
        add(to, gb, s->in[2]->t.dim[0]);
}

static int conv_train_backward(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    struct conv *c = s->state;

    if (c->bf16 && (c->want_x || c->want_w))
        round_buffer(b, s->out_buf[0]->grad, c->gy16);
    if (c->want_w) {
        if (c->bf16)
            round_buffer(b, s->in_buf[0], c->x16[1]);
        PARE_TRY(execute(&c->weights, b, err));
        if (c->unpack.prim)
            PARE_TRY(execute(&c->unpack, b, err));
        if (c->gb && s->in_buf[2]->grad)
            add_bias(s, c->gb);
    }
    if (c->want_x) {
        if (c->pack_back.prim)
            PARE_TRY(execute(&c->pack_back, b, err));
        PARE_TRY(execute(&c->data, b, err));
        if (c->gx)
            add(pare_f32_mut(&s->in_buf[0]->grad->t), c->gx,
                (int64_t)(s->in_buf[0]->bytes / sizeof(float)));
    }
    return 0;
}

static void destroy(struct pare_step *s)
{
    struct conv *c = s->state;
    struct prim *all[] = { &c->fwd, &c->data, &c->weights, &c->pack, &c->pack_back, &c->unpack };

    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        if (all[i]->prim)
            dnnl_primitive_destroy(all[i]->prim);
        destroy_pd(all[i]);
    }
    for (int i = 0; i < c->n_mem; i++)
        dnnl_memory_destroy(c->mem[i]);
}

const struct pare_kernel pare_kernel_conv_train = {
    .name = "conv_train",
    .doc = "Training of convolutions by oneDNN.",
    .candidate = true,
    .blocked_filters = true,
    .match = conv_train_match,
    .init = conv_train_init,
    .run = conv_train_run,
    .backward = conv_train_backward,
    .destroy = destroy,
};

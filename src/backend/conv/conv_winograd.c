/* conv_winograd.c - Conv with constant 3x3 filters by Winograd's F(4x4, 3x3).
 *
 * BatchNormalization is folded; residual sum and activations are post-ops.  The filters are
 * transformed once, to four times their size.
 */
#include "../fuse/conv_fuse.h"
#include "winograd.h"

struct conv {
    struct pare_conv_fuse fuse;
    struct pare_winograd geo;
    struct pare_post_op post[PARE_MAX_POST];
    float *u, *bias;
};

static int64_t padded(int64_t channels, int block)
{
    return (channels + block - 1) / block * block;
}

/* Compare the cycles of this and of the direct kernel, in units of one vector multiplication:
 * products; transforms of one vector of a tile; filters that do not fit in a cache, which all
 * threads read.  The direct kernel does not pad the three channels of an image. */
static bool conv_winograd_pays(const struct pare_winograd *g, int64_t channels)
{
    int64_t in = g->from.channels, out = g->to.channels, tiles = pare_winograd_tiles(g);
    int64_t products = tiles * PARE_WINOGRAD * in * out / g->block;
    int64_t transforms = tiles * (in + out) / g->block * 200;
    int64_t filters = PARE_WINOGRAD * in * out * (int64_t)sizeof(float) / 4 * g->threads;
    int64_t direct = g->N * g->to.h * g->to.w * 9 * (channels < g->block ? channels : in) * out /
                     g->block;

    return (products > filters ? products : filters) + transforms < direct;
}

static bool conv_winograd_usable(const struct pare_match *v, const struct pare_node *n,
                                 struct conv *c)
{
    const struct pare_window *w = &c->fuse.win;

    if (v->train || v->backend->compact || n->in[0]->t.rank != 4 || w->group != 1 ||
        v->backend->block < 8)
        return false;
    for (int i = 0; i < 2; i++)
        if (w->kernel[i] != 3 || w->stride[i] != 1 || w->dilation[i] != 1 || w->pad_begin[i] < 0 ||
            w->pad_begin[i] > 2)
            return false;
    return pare_conv_fuse_vector_ops(&c->fuse, n->out[0]->t.dim[1] % v->backend->block != 0,
                                     c->post) >= 0;
}

static bool conv_winograd_match(const struct pare_match *v, struct pare_node *n,
                                struct pare_step *s)
{
    const struct pare_tensor *x, *y;
    int block = v->backend->block;
    struct conv *c;

    if (!pare_node_is(n, &pare_op_conv))
        return false;
    x = &n->in[0]->t;
    y = &n->out[0]->t;
    c = pare_alloc(v->backend->arena, 1, sizeof(*c));
    if (!c || !pare_conv_fuse(v, n, &c->fuse) || !conv_winograd_usable(v, n, c))
        return false;
    c->geo = (struct pare_winograd){
        .N = x->dim[0],
        .top = c->fuse.win.pad_begin[0],
        .left = c->fuse.win.pad_begin[1],
        .block = block,
        .threads = v->backend->threads,
        .bf16 = v->backend->bf16,
        .from = { padded(x->dim[1], block), x->dim[2], x->dim[3] },
        .to = { padded(y->dim[1], block), y->dim[2], y->dim[3] },
    };
    if ((!v->ignore_cost && !conv_winograd_pays(&c->geo, x->dim[1])) ||
        !pare_conv_fuse_step(v, n, &c->fuse, block, block, s))
        return false;
    s->state = c;
    s->work_bytes[0] = pare_winograd_work(&c->geo) * sizeof(float);
    return true;
}

/* Floats from one position of the filters to the next. */
static int64_t u_step(const struct conv *c)
{
    const int64_t from = c->geo.from.channels;

    return pare_winograd_step(c->geo.to.channels, c->geo.bf16 ? from / 2 : from);
}

static int conv_winograd_init(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    struct conv *c = s->state;
    const struct pare_tensor *w = &s->node->in[1]->t;
    int64_t from = c->geo.from.channels, to = c->geo.to.channels;
    size_t size = (size_t)(PARE_WINOGRAD * pare_winograd_step(to, from));
    float *scale = pare_alloc(b->scratch, (size_t)to, sizeof(*scale));
    float *u, *weights = pare_alloc_raw(b->scratch, (size_t)pare_numel(w), sizeof(*weights));
    struct pare_winograd_filters f = {
        .w = weights,
        .O = w->dim[0],
        .I = w->dim[1],
        .o = to,
        .i = from,
        .block = c->geo.block,
        .threads = c->geo.threads,
        .bf16 = c->geo.bf16,
        .scale = scale,
    };

    if (s->share_from) {
        c->u = ((const struct conv *)s->share_from->state)->u;
        c->bias = ((const struct conv *)s->share_from->state)->bias;
        return 0;
    }
    u = pare_alloc_raw(c->geo.bf16 ? b->scratch : b->arena, size, sizeof(float));
    c->u = c->geo.bf16 ? pare_alloc_raw(b->arena, (size_t)(PARE_WINOGRAD * u_step(c)), sizeof(*u))
                       : u;
    c->bias = pare_alloc(b->arena, (size_t)to, sizeof(*c->bias));
    if (!scale || !weights || !u || !c->u || !c->bias)
        return pare_no_memory(err, "for the weights");
    memcpy(weights, pare_const_raw(s->node->in[1]), (size_t)pare_numel(w) * sizeof(*weights));
    PARE_TRY(pare_conv_fuse_fold(b, s->node, &c->fuse, scale, c->bias, err));
    pare_winograd_filters(&f, u);
    for (int k = 0; k < PARE_WINOGRAD && u != c->u; k++)
        memcpy(c->u + k * u_step(c), u + k * pare_winograd_step(to, from),
               (size_t)u_step(c) * sizeof(*u));
    return 0;
}

static int conv_winograd_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    struct conv *c = s->state;
    struct pare_winograd_run r = {
        .x = pare_f32(&s->in_buf[0]->t),
        .u = c->u,
        .u_step = u_step(c),
        .bias = c->bias,
        .sum = s->n_in > 1 ? pare_f32(&s->in_buf[1]->t) : NULL,
        .post = c->post,
        .n_post = c->fuse.post.n,
        .y = pare_f32_mut(&s->out_buf[0]->t),
        .work = pare_f32_mut(&s->work[0]->t),
    };

    (void)b;
    (void)err;
    pare_winograd_run(&c->geo, &r);
    return 0;
}

const struct pare_kernel pare_kernel_conv_winograd = {
    .name = "conv_winograd",
    .doc = "Convolution with constant 3x3 filters by Winograd's F(4x4, 3x3), with post-ops.",
    .candidate = true,
    .match = conv_winograd_match,
    .init = conv_winograd_init,
    .run = conv_winograd_run,
};

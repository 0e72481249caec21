/* conv_depthwise.c - depthwise Conv with constant filters in the blocked layout, with post-ops. */
#include "../fuse/conv_fuse.h"

#include "depthwise.h"

struct conv {
    struct pare_conv_fuse fuse;
    struct pare_post_op post[PARE_MAX_POST];
    struct pare_depthwise depth;
    int64_t blocks; /* blocks of channels */
    float *w, *bias;
};

static bool conv_depthwise_usable(const struct pare_match *v, const struct pare_node *n,
                                  const struct conv *c)
{
    const struct pare_window *w = &c->fuse.win;

    return !v->train && n->in[0]->t.rank == 4 && v->backend->block >= 8 && w->group > 1 &&
           w->group == n->in[0]->t.dim[1] && w->group == n->in[1]->t.dim[0];
}

static bool conv_depthwise_match(const struct pare_match *v, struct pare_node *n,
                                 struct pare_step *s)
{
    int block = v->backend->block;
    struct conv *c;
    int64_t out;

    if (!pare_node_is(n, &pare_op_conv))
        return false;
    c = pare_alloc(v->backend->arena, 1, sizeof(*c));
    if (!c || !pare_conv_fuse(v, n, &c->fuse) || !conv_depthwise_usable(v, n, c))
        return false;
    out = n->in[1]->t.dim[0];
    c->depth.block = block;
    c->depth.post = c->post;
    c->depth.n_post = pare_conv_fuse_vector_ops(&c->fuse, out % block != 0, c->post);
    c->depth.clamp = pare_post_bounds(c->post, &c->depth.n_post, &c->depth.low, &c->depth.high);
    if (c->depth.n_post < 0 || !pare_conv_fuse_step(v, n, &c->fuse, block, block, s))
        return false;
    s->inplace = 0; /* y is written before the operand of the sum is read */
    for (int i = 0; i < 2; i++) {
        c->depth.in[i] = c->fuse.win.in[i];
        c->depth.out[i] = c->fuse.win.out[i];
        c->depth.kernel[i] = c->fuse.win.kernel[i];
        c->depth.stride[i] = c->fuse.win.stride[i];
        c->depth.dilation[i] = c->fuse.win.dilation[i];
        c->depth.pad[i] = c->fuse.win.pad_begin[i];
    }
    c->blocks = (out + block - 1) / block;
    s->state = c;
    return true;
}

static int conv_depthwise_init(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    struct conv *c = s->state;
    int64_t O = s->node->in[1]->t.dim[0], padded = c->blocks * b->block;
    int64_t taps = c->depth.kernel[0] * c->depth.kernel[1];
    float *scale = pare_alloc(b->scratch, (size_t)padded, sizeof(*scale));
    const unsigned char *from = pare_const_raw(s->node->in[1]);

    if (s->share_from) {
        c->w = ((const struct conv *)s->share_from->state)->w;
        c->bias = ((const struct conv *)s->share_from->state)->bias;
        return 0;
    }
    c->w = pare_alloc(b->arena, (size_t)(padded * taps), sizeof(float));
    c->bias = pare_alloc(b->arena, (size_t)padded, sizeof(float));
    if (!scale || !c->w || !c->bias)
        return pare_no_memory(err, "for the weights");
    PARE_TRY(pare_conv_fuse_fold(b, s->node, &c->fuse, scale, c->bias, err));
    for (int64_t o = 0; o < O; o++)
        for (int64_t t = 0; t < taps; t++) {
            float f;

            memcpy(&f, from + (size_t)(o * taps + t) * sizeof(f), sizeof(f));
            c->w[(o / b->block * taps + t) * b->block + o % b->block] = f * scale[o];
        }
    return 0;
}

/* Planes in parallel, or parts of planes if there are too few for the threads. */
static int conv_depthwise_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct conv *c = s->state;
    const struct pare_depthwise *d = &c->depth;
    const int64_t taps = d->kernel[0] * d->kernel[1], block = d->block, rows = d->out[0];
    const int64_t from = d->in[0] * d->in[1] * block, to = rows * d->out[1] * block;
    const int64_t planes = s->in_buf[0]->t.dim[0] * c->blocks;
    const int64_t parts = planes % b->threads && planes < 8 * b->threads && b->threads <= rows
                              ? b->threads
                              : 1;
    const float *x = pare_f32(&s->in_buf[0]->t);
    const float *sum = s->n_in > 1 ? pare_f32(&s->in_buf[1]->t) : NULL;
    float *y = pare_f32_mut(&s->out_buf[0]->t);

    (void)err;
#pragma omp parallel for num_threads(b->threads) schedule(static)
    for (int64_t i = 0; i < planes * parts; i++) {
        int64_t at = i / parts, part = i % parts, k = at % c->blocks;
        struct pare_depthwise_plane p = {
            .x = x + at * from,
            .w = c->w + k * taps * block,
            .bias = c->bias + k * block,
            .sum = sum ? sum + at * to : NULL,
            .y = y + at * to,
        };

        pare_depthwise_rows(d, &p, rows * part / parts, rows * (part + 1) / parts);
    }
    return 0;
}

const struct pare_kernel pare_kernel_conv_depthwise = {
    .name = "conv_depthwise",
    .doc = "Depthwise convolution with constant filters, with post-ops.",
    .candidate = true,
    .match = conv_depthwise_match,
    .init = conv_depthwise_init,
    .run = conv_depthwise_run,
};

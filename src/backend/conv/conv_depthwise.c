/* conv_depthwise.c - depthwise and narrow grouped Conv with constant filters in the blocked layout,
 * of one to three axes, with post-ops.
 *
 * A group of a few channels lies within a block: a permutation of an input block's lanes gives
 * every output lane its k-th input.
 */
#include "../fuse/conv_fuse.h"

#include "depthwise.h"
#include "../../base/team.h"

#define FAST_WIDTH 4 /* channels per group up to which this kernel is expected to be the fastest */

struct conv {
    struct pare_conv_fuse fuse;
    struct pare_window w; /* over three axes */
    struct pare_post_op post[PARE_MAX_POST];
    struct pare_depthwise depth;
    int64_t blocks;    /* blocks of output channels */
    int64_t in_blocks; /* blocks of input channels */
    int64_t outputs;   /* outputs per group */
    float *filters, *bias;
    int32_t *lanes; /* by block of outputs: see struct pare_depthwise_plane */
};

/* The block of inputs that a block of outputs reads. */
static int64_t input_block(const struct conv *c, int64_t k)
{
    return k * c->depth.block / c->outputs * c->depth.width / c->depth.block;
}

/* Does every block of outputs read a single block of inputs? */
static bool groups_fit(const struct conv *c, int64_t channels)
{
    const int64_t b = c->depth.block;

    for (int64_t k = 0; k < c->blocks; k++) {
        int64_t end = (k + 1) * b < channels ? (k + 1) * b : channels;

        if (((end - 1) / c->outputs * c->depth.width + c->depth.width - 1) / b != input_block(c, k))
            return false;
    }
    return true;
}

static bool conv_depthwise_usable(const struct pare_match *v, const struct pare_node *n,
                                  struct conv *c)
{
    const int64_t group = c->fuse.win.group, block = v->backend->block;
    const int64_t channels = n->in[1]->t.dim[0];

    if (v->train || n->in[0]->t.rank > 5 || block < 8 || group < 2)
        return false;
    c->depth.block = (int)block;
    c->depth.width = n->in[1]->t.dim[1];
    c->outputs = channels / group;
    c->depth.grouped = c->depth.width > 1 || c->outputs > 1;
    c->blocks = (channels + block - 1) / block;
    c->in_blocks = (n->in[0]->t.dim[1] + block - 1) / block;
    return c->depth.width <= (v->ignore_cost ? 2 * FAST_WIDTH : FAST_WIDTH) &&
           groups_fit(c, channels);
}

static bool conv_depthwise_match(const struct pare_match *v, struct pare_node *n,
                                 struct pare_step *s)
{
    int block = v->backend->block;
    struct conv *c;

    if (!pare_node_is(n, &pare_op_conv))
        return false;
    c = pare_alloc(v->backend->arena, 1, sizeof(*c));
    if (!c || !pare_conv_fuse(v, n, &c->fuse) || !conv_depthwise_usable(v, n, c))
        return false;
    c->depth.post = c->post;
    c->depth.n_post = pare_conv_fuse_vector_ops(&c->fuse, n->in[1]->t.dim[0] % block != 0, c->post);
    c->depth.clamp = pare_post_bounds(c->post, &c->depth.n_post, &c->depth.low, &c->depth.high);
    if (c->depth.n_post < 0 || !pare_conv_fuse_step(v, n, &c->fuse, block, block, s))
        return false;
    s->inplace = 0; /* y is written before the operand of the sum is read */
    c->w = c->fuse.win;
    pare_window_3d(&c->w);
    for (int i = 0; i < 2; i++) {
        c->depth.in[i] = c->w.in[i + 1];
        c->depth.out[i] = c->w.out[i + 1];
        c->depth.kernel[i] = c->w.kernel[i + 1];
        c->depth.stride[i] = c->w.stride[i + 1];
        c->depth.dilation[i] = c->w.dilation[i + 1];
        c->depth.pad[i] = c->w.pad_begin[i + 1];
    }
    s->state = c;
    return true;
}

/* Filters (O, width, taps) as (blocks, depth, height, width, line of taps, block). */
static void pack_filters(struct conv *c, const struct pare_node *n, const float *scale)
{
    const unsigned char *from = pare_const_raw(n->in[1]);
    const int64_t line = c->depth.kernel[1], rows = c->w.kernel[0] * c->depth.kernel[0];
    const int64_t width = c->depth.width, b = c->depth.block;

    for (int64_t o = 0; o < n->in[1]->t.dim[0]; o++)
        for (int64_t j = 0; j < width; j++)
            for (int64_t t = 0; t < rows * line; t++) {
                int64_t at = ((o / b * rows + t / line) * width + j) * line + t % line;
                float f;

                memcpy(&f, from + (size_t)((o * width + j) * rows * line + t) * sizeof(f),
                       sizeof(f));
                c->filters[at * b + o % b] = f * scale[o];
            }
}

/* The lanes beyond the channels read lane 0, with filters of 0. */
static void list_lanes(struct conv *c, int64_t channels)
{
    const int64_t b = c->depth.block, width = c->depth.width;

    for (int64_t o = 0; o < channels; o++)
        for (int64_t j = 0; j < width; j++)
            c->lanes[(o / b * width + j) * b + o % b] = (int32_t)((o / c->outputs * width + j) % b);
}

static int conv_depthwise_init(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    struct conv *c = s->state;
    int64_t padded = c->blocks * b->block;
    int64_t taps = c->w.kernel[0] * c->w.kernel[1] * c->w.kernel[2];
    float *scale = pare_alloc(b->scratch, (size_t)padded, sizeof(*scale));

    if (s->share_from) {
        const struct conv *from = s->share_from->state;

        c->filters = from->filters;
        c->bias = from->bias;
        c->lanes = from->lanes;
        return 0;
    }
    c->filters = pare_alloc(b->arena, (size_t)(padded * c->depth.width * taps), sizeof(float));
    c->bias = pare_alloc(b->arena, (size_t)padded, sizeof(float));
    c->lanes = pare_alloc(b->arena, (size_t)(padded * c->depth.width), sizeof(*c->lanes));
    if (!scale || !c->filters || !c->bias || !c->lanes)
        return pare_no_memory(err, "for the weights");
    PARE_TRY(pare_conv_fuse_fold(b, s->node, &c->fuse, scale, c->bias, err));
    pack_filters(c, s->node, scale);
    list_lanes(c, s->node->in[1]->t.dim[0]);
    return 0;
}

/* The memory of a plane of outputs; `at` counts images, blocks of channels and planes. */
static struct pare_depthwise_plane find_plane(const struct pare_step *s, int64_t at)
{
    const struct conv *c = s->state;
    const struct pare_depthwise *d = &c->depth;
    const int64_t from = d->in[0] * d->in[1] * d->block, to = d->out[0] * d->out[1] * d->block;
    const int64_t step = d->kernel[0] * d->width * d->kernel[1] * d->block;
    const int64_t k = at / c->w.out[0] % c->blocks, image = at / c->w.out[0] / c->blocks;
    const int64_t first = at % c->w.out[0] * c->w.stride[0] - c->w.pad_begin[0];
    int64_t lo = 0, hi = c->w.kernel[0];

    while (lo < hi && first + lo * c->w.dilation[0] < 0)
        lo++;
    while (hi > lo && first + (hi - 1) * c->w.dilation[0] >= c->w.in[0])
        hi--;
    return (struct pare_depthwise_plane){
        .x = pare_f32(&s->in_buf[0]->t) + ((image * c->in_blocks + input_block(c, k)) * c->w.in[0] +
                                           (hi > lo ? first + lo * c->w.dilation[0] : 0)) *
                                              from,
        .w = c->filters + (k * c->w.kernel[0] + lo) * step,
        .lanes = c->lanes + k * d->width * d->block,
        .bias = c->bias + k * d->block,
        .depth = hi - lo,
        .x_step = c->w.dilation[0] * from,
        .w_step = step,
        .sum = s->n_in > 1 ? pare_f32(&s->in_buf[1]->t) + at * to : NULL,
        .y = pare_f32_mut(&s->out_buf[0]->t) + at * to,
    };
}

struct job {
    struct pare_step *s;
    int64_t parts; /* of a plane */
};

static void run_parts(void *arg, int64_t from, int64_t to, int thread)
{
    const struct job *j = arg;
    const struct conv *c = j->s->state;
    const int64_t rows = c->depth.out[0];

    (void)thread;
    for (int64_t i = from; i < to; i++) {
        int64_t part = i % j->parts;
        struct pare_depthwise_plane p = find_plane(j->s, i / j->parts);

        pare_depthwise_rows(&c->depth, &p, rows * part / j->parts, rows * (part + 1) / j->parts);
    }
}

/* Planes in parallel, or parts of planes if there are too few for the threads. */
static int conv_depthwise_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct conv *c = s->state;
    const int64_t rows = c->depth.out[0];
    const int64_t planes = s->in_buf[0]->t.dim[0] * c->blocks * c->w.out[0];
    const int64_t parts = planes % b->threads && planes < 8 * b->threads && b->threads <= rows
                              ? b->threads
                              : 1;

    struct job j = { s, parts };

    (void)err;
    pare_parallel(b->threads, planes * parts, run_parts, &j);
    return 0;
}

const struct pare_kernel pare_kernel_conv_depthwise = {
    .name = "conv_depthwise",
    .doc = "Depthwise and narrow grouped convolution with constant filters, with post-ops.",
    .candidate = true,
    .match = conv_depthwise_match,
    .init = conv_depthwise_init,
    .run = conv_depthwise_run,
};

/* conv_lines_bf16.c - Conv with constant filters of any size and stride, rounded to bf16, a line at
 * a time by packed GEMM, with post-ops.
 *
 * The input is rounded into a frame of zeros.  Its pixels have all lanes of a block of channels, or
 * all channels if they are fewer, so that a row of the filter reads neighboring pairs.  The pixels
 * of an output line are the rows of a product (gemm_packed.h) whose columns are output channels.
 */
#include "../fuse/conv_fuse.h"

#include "../gemm/bf16_pairs.h"
#include "../gemm/gemm_packed.h"

#define CACHE_BYTES (384 << 10)

struct conv {
    struct pare_conv_fuse fuse;
    struct pare_post_op post[PARE_MAX_POST];
    int n_post;
    bool clamp;
    float low, high;
    int64_t N, C, planes, out_blocks;
    bool planar;       /* fewer channels than a block, row-major */
    int64_t lanes;     /* of a pixel, even: a block, or all channels if they are fewer */
    int64_t size[2];   /* of the frame */
    int64_t runs, run; /* pairs */
    int64_t *offset;
    float *w, *bias;
};

static bool conv_lines_bf16_usable(const struct pare_match *v, const struct pare_node *n,
                                   const struct conv *c)
{
    const struct pare_window *w = &c->fuse.win;

    if (v->train || !v->backend->bf16 || n->in[0]->t.rank != 4 || w->group != 1 ||
        v->backend->block < 8)
        return false;
    return w->pad_begin[0] >= 0 && w->pad_end[0] >= 0 && w->pad_begin[1] >= 0 && w->pad_end[1] >= 0;
}

static void set_sizes(struct conv *c, int block)
{
    const struct pare_window *w = &c->fuse.win;

    for (int i = 0; i < 2; i++) {
        int64_t reach = (w->out[i] - 1) * w->stride[i] + (w->kernel[i] - 1) * w->dilation[i] + 1;

        c->size[i] = w->pad_begin[i] + w->in[i];
        c->size[i] = reach > c->size[i] ? reach : c->size[i];
    }
    c->planar = c->C < block;
    c->lanes = c->planar ? (c->C + 1) / 2 * 2 : block;
    c->planes = (c->C + c->lanes - 1) / c->lanes;
    c->run = c->lanes / 2 * (w->dilation[1] == 1 ? w->kernel[1] : 1);
    c->runs = c->planes * w->kernel[0] * (w->dilation[1] == 1 ? 1 : w->kernel[1]);
}

/* Pairs of the frame of one image. */
static int64_t frame_pairs(const struct conv *c)
{
    return c->planes * c->size[0] * c->size[1] * c->lanes / 2;
}

static bool conv_lines_bf16_match(const struct pare_match *v, struct pare_node *n,
                                  struct pare_step *s)
{
    int block = v->backend->block;
    struct conv *c;
    int64_t out;

    if (!v->backend->bf16 || !pare_node_is(n, &pare_op_conv))
        return false;
    c = pare_alloc(v->backend->arena, 1, sizeof(*c));
    if (!c || !pare_conv_fuse(v, n, &c->fuse) || !conv_lines_bf16_usable(v, n, c))
        return false;
    out = n->in[1]->t.dim[0];
    c->N = n->in[0]->t.dim[0];
    c->C = n->in[0]->t.dim[1];
    c->out_blocks = (out + block - 1) / block;
    set_sizes(c, block);
    c->n_post = pare_conv_fuse_vector_ops(&c->fuse, out % block != 0, c->post);
    if (c->n_post < 0 || !pare_conv_fuse_step(v, n, &c->fuse, c->planar ? 1 : block, block, s))
        return false;
    c->clamp = pare_post_bounds(c->post, &c->n_post, &c->low, &c->high);
    s->inplace = 0;
    s->work_bytes[0] = (size_t)(c->N * frame_pairs(c)) * sizeof(float);
    s->state = c;
    return true;
}

/* Offset of run i in pairs. */
static int64_t run_offset(const struct conv *c, int64_t i)
{
    const struct pare_window *w = &c->fuse.win;
    const int64_t across = w->dilation[1] == 1 ? 1 : w->kernel[1];
    const int64_t column = i % across, row = i / across % w->kernel[0];
    const int64_t plane = i / across / w->kernel[0];

    return ((plane * c->size[0] + row * w->dilation[0]) * c->size[1] + column * w->dilation[1]) *
           c->lanes / 2;
}

/* The index, in a filter, of element e of run i; -1: padding. */
static int64_t filter_index(const struct conv *c, int64_t i, int64_t e)
{
    const struct pare_window *w = &c->fuse.win;
    const int64_t across = w->dilation[1] == 1 ? 1 : w->kernel[1];
    const int64_t column = i % across + e / c->lanes, row = i / across % w->kernel[0];
    const int64_t channel = i / across / w->kernel[0] * c->lanes + e % c->lanes;

    return channel < c->C ? (channel * w->kernel[0] + row) * w->kernel[1] + column : -1;
}

static void pack_filter(const struct conv *c, const unsigned char *from, int64_t o, float scale,
                        int block)
{
    const int64_t depth = c->runs * c->run;
    float *to = c->w + pare_packed_gemm_at(depth, c->out_blocks, block, 0, o);
    const int64_t step = pare_packed_gemm_at(depth, c->out_blocks, block, 1, o) - (to - c->w);

    for (int64_t k = 0; k < depth; k++) {
        float f[2] = { 0 };

        for (int h = 0; h < 2; h++) {
            int64_t at = filter_index(c, k / c->run, k % c->run * 2 + h);

            if (at >= 0)
                memcpy(&f[h], from + (size_t)at * sizeof(*f), sizeof(*f));
            f[h] *= scale;
        }
        pare_bf16_pairs(f, 2, to + k * step);
    }
}

static int conv_lines_bf16_init(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    struct conv *c = s->state;
    const struct pare_tensor *w = &s->node->in[1]->t;
    const int64_t O = w->dim[0], padded = c->out_blocks * b->block, each = pare_numel(w) / O;
    float *scale = pare_alloc(b->scratch, (size_t)padded, sizeof(*scale));
    const unsigned char *from = pare_const_raw(s->node->in[1]);

    if (s->share_from) {
        c->w = ((const struct conv *)s->share_from->state)->w;
        c->bias = ((const struct conv *)s->share_from->state)->bias;
        c->offset = ((const struct conv *)s->share_from->state)->offset;
        return 0;
    }
    c->w = pare_alloc(b->arena, (size_t)(padded * c->runs * c->run), sizeof(float));
    c->bias = pare_alloc(b->arena, (size_t)padded, sizeof(float));
    c->offset = pare_alloc(b->arena, (size_t)c->runs, sizeof(*c->offset));
    if (!scale || !c->w || !c->bias || !c->offset)
        return pare_no_memory(err, "for the weights");
    PARE_TRY(pare_conv_fuse_fold(b, s->node, &c->fuse, scale, c->bias, err));
    for (int64_t i = 0; i < c->runs; i++)
        c->offset[i] = run_offset(c, i);
#pragma omp parallel for num_threads(b->threads)
    for (int64_t o = 0; o < O; o++)
        pack_filter(c, from + (size_t)(o * each) * sizeof(float), o, scale[o], b->block);
    return 0;
}

/* A line of all channels, if they are fewer than a block: from planes to pixels. */
static void round_few(const struct conv *c, const float *x, float *to)
{
    const struct pare_window *w = &c->fuse.win;
    const int64_t plane = w->in[0] * w->in[1], half = c->lanes / 2;

    for (int64_t p = 0; p < half; p++)
        for (int64_t i = 0; i < w->in[1]; i += 64) {
            const int64_t n = w->in[1] - i < 64 ? w->in[1] - i : 64;
            const float *at = x + 2 * p * plane + i;
            float pairs[64];

            pare_bf16_zip(at, 2 * p + 1 < c->C ? at + plane : NULL, n, pairs);
            for (int64_t k = 0; k < n; k++)
                memcpy(to + (i + k) * half + p, &pairs[k], sizeof(*pairs));
        }
}

/* Line r of plane p of an image, into the frame. */
static void round_line(const struct conv *c, const float *x, int64_t p, int64_t r, float *to)
{
    const struct pare_window *w = &c->fuse.win;
    const int64_t half = c->lanes / 2, line = c->size[1] * half, left = w->pad_begin[1] * half;
    const int64_t inside = w->in[1] * half, h = r - w->pad_begin[0];

    if (h < 0 || h >= w->in[0]) {
        memset(to, 0, (size_t)line * sizeof(*to));
        return;
    }
    memset(to, 0, (size_t)left * sizeof(*to));
    if (c->planar)
        round_few(c, x + h * w->in[1], to + left);
    else
        pare_bf16_pairs(x + (p * w->in[0] + h) * 2 * inside, 2 * inside, to + left);
    memset(to + left + inside, 0, (size_t)(line - left - inside) * sizeof(*to));
}

/* An output line, blocks of channels [first, end). */
static void run_line(const struct conv *c, const struct pare_step *s, int block,
                     const int64_t at[4])
{
    const struct pare_window *w = &c->fuse.win;
    const int64_t image = at[0], row = at[1], first = at[2], end = at[3];
    const int64_t plane = w->out[0] * w->out[1] * block;
    const int64_t y = (image * c->out_blocks + first) * plane + row * w->out[1] * block;
    struct pare_packed_gemm p = {
        .x = pare_f32(&s->work[0]->t) + image * frame_pairs(c) +
             row * w->stride[0] * c->size[1] * c->lanes / 2,
        .w = c->w + first * block * c->runs * c->run,
        .y = pare_f32_mut(&s->out_buf[0]->t) + y,
        .bias = c->bias + first * block,
        .clamp = c->clamp,
        .low = c->low,
        .high = c->high,
        .post = c->post,
        .n_post = c->n_post,
        .sum = c->fuse.post.sum ? pare_f32(&s->in_buf[1]->t) + y : NULL,
        .rows = w->out[1],
        .blocks = end - first,
        .runs = c->runs,
        .run = c->run,
        .offset = c->offset,
        .x_row = w->stride[1] * c->lanes / 2,
        .y_row = block,
        .y_block = plane,
        .block = block,
        .bf16 = true,
    };

    pare_packed_gemm_run(&p);
}

/* As many weights at a time as stay in the cache over all lines of an image. */
static int conv_lines_bf16_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct conv *c = s->state;
    const struct pare_window *w = &c->fuse.win;
    const int64_t bytes = 2 * b->block * c->runs * c->run * (int64_t)sizeof(float);
    const int64_t some = 2 * (CACHE_BYTES / bytes ? CACHE_BYTES / bytes : 1), lines = w->out[0];
    const int64_t parts = (c->out_blocks + some - 1) / some;
    const int64_t image = pare_block_numel(&s->in[0]->t, s->in_block[0]) / c->N;
    float *frame = pare_f32_mut(&s->work[0]->t);

    (void)err;
#pragma omp parallel for num_threads(b->threads) schedule(static)
    for (int64_t i = 0; i < c->N * c->planes * c->size[0]; i++)
        round_line(c, pare_f32(&s->in_buf[0]->t) + i / c->size[0] / c->planes * image,
                   i / c->size[0] % c->planes, i % c->size[0],
                   frame + i * c->size[1] * c->lanes / 2);
#pragma omp parallel for num_threads(b->threads) schedule(static)
    for (int64_t i = 0; i < c->N * parts * lines; i++) {
        int64_t first = i / lines % parts * some, end = first + some;
        int64_t at[4] = { i / lines / parts, i % lines, first,
                          end < c->out_blocks ? end : c->out_blocks };

        run_line(c, s, b->block, at);
    }
    return 0;
}

const struct pare_kernel pare_kernel_conv_lines_bf16 = {
    .name = "conv_lines_bf16",
    .openmp = true,
    .doc = "Precision bf16: convolution with constant filters by packed GEMM, line by line.",
    .candidate = true,
    .match = conv_lines_bf16_match,
    .init = conv_lines_bf16_init,
    .run = conv_lines_bf16_run,
};

/* conv_taps.c - Conv with constant filters over few channels by packed GEMM, a line at a time, with
 * post-ops.
 *
 * The pixels of an output line are the rows of a product whose columns are the output channels; the
 * elements of a row are the input channels at each tap, in runs (gemm_packed.h).  Only existing
 * channels are multiplied, whereas other kernels also multiply the padding of blocks: this kernel
 * is for few channels.  If the filter reaches beyond the input, the input is copied into a frame of
 * zeros first.
 */
#include "../fuse/conv_fuse.h"

#include "../gemm/gemm_packed.h"
#include "../../base/team.h"

#define CACHE_BYTES (384 << 10)
#define FEW 64 /* channels: with more, padding matters little */

struct conv {
    struct pare_conv_fuse fuse;
    struct pare_post_op post[PARE_MAX_POST];
    int n_post;
    bool clamp;
    float low, high;
    int64_t N, C, K, planes, out_blocks;
    int64_t lane;    /* floats per pixel of a plane: a block, or 1 if row-major */
    int64_t size[2]; /* of the frame, or of the input */
    bool frame;      /* the input is copied into a frame */
    int64_t runs, run, tails, last;
    int64_t *offset;
    float *w, *bias;
};

static bool conv_taps_usable(const struct pare_match *v, const struct pare_node *n,
                             const struct conv *c)
{
    const struct pare_window *w = &c->fuse.win;
    bool point = true;

    if (v->train || n->in[0]->t.rank != 4 || w->group != 1 || v->backend->block < 8)
        return false;
    for (int i = 0; i < 2; i++) {
        if (w->pad_begin[i] < 0 || w->pad_end[i] < 0)
            return false;
        point &= w->kernel[i] == 1 && w->stride[i] == 1;
    }
    return !point && n->in[0]->t.dim[1] < FEW;
}

/* Is about half of a block empty? */
static bool conv_taps_pays(const struct conv *c, int block)
{
    return c->lane > 1 && c->C % block && c->C % block <= block / 2 && c->C < 3 * block;
}

static void set_runs(struct conv *c, int block)
{
    const struct pare_window *w = &c->fuse.win;

    for (int i = 0; i < 2; i++) {
        int64_t reach = (w->out[i] - 1) * w->stride[i] + (w->kernel[i] - 1) * w->dilation[i] + 1;

        c->size[i] = w->pad_begin[i] + w->in[i];
        c->size[i] = reach > c->size[i] ? reach : c->size[i];
        c->frame |= c->size[i] != w->in[i];
    }
    c->K = c->C * w->kernel[0] * w->kernel[1];
    if (c->lane == 1) { /* a row of the filter is a run if it has no gaps */
        c->run = w->dilation[1] == 1 ? w->kernel[1] : 1;
        c->runs = c->K / c->run;
        c->planes = c->C;
    } else {
        c->run = block;
        c->runs = c->C / block * w->kernel[0] * w->kernel[1];
        c->last = c->C % block;
        c->tails = c->last ? w->kernel[0] * w->kernel[1] : 0;
        c->planes = (c->C + block - 1) / block;
    }
}

static bool conv_taps_match(const struct pare_match *v, struct pare_node *n, struct pare_step *s)
{
    int block = v->backend->block, in_block;
    struct conv *c;
    int64_t out;

    if (!pare_node_is(n, &pare_op_conv))
        return false;
    c = pare_alloc(v->backend->arena, 1, sizeof(*c));
    if (!c || !pare_conv_fuse(v, n, &c->fuse) || !conv_taps_usable(v, n, c))
        return false;
    out = n->in[1]->t.dim[0];
    c->N = n->in[0]->t.dim[0];
    c->C = n->in[0]->t.dim[1];
    in_block = c->C < block && pare_layout_of(v, n->in[0]) == 1 ? 1 : block;
    c->lane = in_block;
    c->out_blocks = (out + block - 1) / block;
    set_runs(c, block);
    c->n_post = pare_conv_fuse_vector_ops(&c->fuse, out % block != 0, c->post);
    if ((!v->ignore_cost && !conv_taps_pays(c, block)) || c->n_post < 0 ||
        !pare_conv_fuse_step(v, n, &c->fuse, in_block, block, s))
        return false;
    c->clamp = pare_post_bounds(c->post, &c->n_post, &c->low, &c->high);
    s->inplace = 0;
    if (c->frame)
        s->work_bytes[0] = (size_t)(c->N * c->planes * c->size[0] * c->size[1] * c->lane) *
                           sizeof(float);
    s->state = c;
    return true;
}

/* Offset of run i, and the index of its first element in a filter (C, taps). */
static int64_t run_offset(const struct conv *c, int64_t i, int64_t *first)
{
    const struct pare_window *w = &c->fuse.win;
    int64_t taps = w->kernel[0] * w->kernel[1], row, column, plane;

    if (c->lane == 1) {
        int64_t at = i * c->run % taps;

        plane = i * c->run / taps;
        row = at / w->kernel[1];
        column = at % w->kernel[1];
        *first = i * c->run;
    } else {
        plane = i / taps;
        row = i % taps / w->kernel[1];
        column = i % w->kernel[1];
        *first = plane * c->lane * taps + i % taps;
    }
    return ((plane * c->size[0] + row * w->dilation[0]) * c->size[1] + column * w->dilation[1]) *
           c->lane;
}

static int conv_taps_init(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    struct conv *c = s->state;
    const struct pare_window *w = &c->fuse.win;
    int64_t O = s->node->in[1]->t.dim[0], padded = c->out_blocks * b->block;
    int64_t each = c->lane == 1 ? 1 : w->kernel[0] * w->kernel[1], k = 0;
    float *scale = pare_alloc(b->scratch, (size_t)padded, sizeof(*scale));
    const unsigned char *from = pare_const_raw(s->node->in[1]);

    if (s->share_from) {
        c->w = ((const struct conv *)s->share_from->state)->w;
        c->bias = ((const struct conv *)s->share_from->state)->bias;
        c->offset = ((const struct conv *)s->share_from->state)->offset;
        return 0;
    }
    c->w = pare_alloc(b->arena, (size_t)(padded * c->K), sizeof(float));
    c->bias = pare_alloc(b->arena, (size_t)padded, sizeof(float));
    c->offset = pare_alloc(b->arena, (size_t)(c->runs + c->tails), sizeof(*c->offset));
    if (!scale || !c->w || !c->bias || !c->offset)
        return pare_no_memory(err, "for the weights");
    PARE_TRY(pare_conv_fuse_fold(b, s->node, &c->fuse, scale, c->bias, err));
    for (int64_t i = 0; i < c->runs + c->tails; i++) {
        int64_t first = 0, count = i < c->runs ? c->run : c->last;

        c->offset[i] = run_offset(c, i, &first);
        for (int64_t e = 0; e < count; e++, k++)
            for (int64_t o = 0; o < O; o++) {
                float f;

                memcpy(&f, from + (size_t)(o * c->K + first + e * each) * sizeof(f), sizeof(f));
                c->w[pare_packed_gemm_at(c->K, c->out_blocks, b->block, k, o)] = f * scale[o];
            }
    }
    return 0;
}

/* Copy the input into a frame of zeros. */
static void copy_plane(const struct conv *c, const float *x, float *to)
{
    const struct pare_window *w = &c->fuse.win;
    const int64_t line = c->size[1] * c->lane, left = w->pad_begin[1] * c->lane;
    const int64_t inside = w->in[1] * c->lane;

    for (int64_t r = 0; r < c->size[0]; r++, to += line) {
        int64_t h = r - w->pad_begin[0];

        if (h < 0 || h >= w->in[0]) {
            memset(to, 0, (size_t)line * sizeof(*to));
            continue;
        }
        memset(to, 0, (size_t)left * sizeof(*to));
        memcpy(to + left, x + h * inside, (size_t)inside * sizeof(*to));
        memset(to + left + inside, 0, (size_t)(line - left - inside) * sizeof(*to));
    }
}

/* An output line, blocks of channels [first, end). */
static void run_line(const struct conv *c, const struct pare_step *s, int block, const float *x,
                     const int64_t at[4])
{
    const struct pare_window *w = &c->fuse.win;
    const int64_t image = at[0], row = at[1], first = at[2], end = at[3];
    const int64_t plane = w->out[0] * w->out[1] * block;
    const int64_t y = (image * c->out_blocks + first) * plane + row * w->out[1] * block;
    const float *sum = c->fuse.post.sum ? pare_f32(&s->in_buf[1]->t) + y : NULL;
    struct pare_packed_gemm p = {
        .x = x + (image * c->planes * c->size[0] + row * w->stride[0]) * c->size[1] * c->lane,
        .w = c->w + first * block * c->K,
        .y = pare_f32_mut(&s->out_buf[0]->t) + y,
        .bias = c->bias + first * block,
        .clamp = c->clamp,
        .low = c->low,
        .high = c->high,
        .post = c->post,
        .n_post = c->n_post,
        .sum = sum,
        .rows = w->out[1],
        .blocks = end - first,
        .runs = c->runs,
        .run = c->run,
        .last = c->last,
        .tails = c->tails,
        .offset = c->offset,
        .x_row = w->stride[1] * c->lane,
        .y_row = block,
        .y_block = plane,
        .block = block,
    };

    pare_packed_gemm_run(&p);
}

struct job {
    struct pare_step *s;
    int block;
    const float *x;      /* the input, or its frame */
    float *frame;        /* NULL: none */
    int64_t parts, some; /* parts of `some` blocks of channels */
};

static void copy_planes(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct job *j = arg;
    const struct conv *c = j->s->state;
    const struct pare_window *w = &c->fuse.win;
    const int64_t from = w->in[0] * w->in[1] * c->lane, to = c->size[0] * c->size[1] * c->lane;

    (void)thread;
    for (int64_t i = begin; i < end; i++)
        copy_plane(c, j->x + i * from, j->frame + i * to);
}

static void run_lines(void *arg, int64_t from, int64_t to, int thread)
{
    const struct job *j = arg;
    const struct conv *c = j->s->state;
    const int64_t lines = c->fuse.win.out[0];

    (void)thread;
    for (int64_t i = from; i < to; i++) {
        int64_t first = i / lines % j->parts * j->some, end = first + j->some;
        int64_t at[4] = { i / lines / j->parts, i % lines, first,
                          end < c->out_blocks ? end : c->out_blocks };

        run_line(c, j->s, j->block, j->x, at);
    }
}

/* As many weights at a time as stay in the cache over all lines of an image. */
static int conv_taps_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct conv *c = s->state;
    const int64_t bytes = 2 * b->block * c->K * (int64_t)sizeof(float);
    const int64_t some = 2 * (CACHE_BYTES / bytes ? CACHE_BYTES / bytes : 1);
    struct job j = {
        .s = s,
        .block = b->block,
        .x = pare_f32(&s->in_buf[0]->t),
        .frame = c->frame ? pare_f32_mut(&s->work[0]->t) : NULL,
        .parts = (c->out_blocks + some - 1) / some,
        .some = some,
    };

    (void)err;
    if (j.frame) {
        pare_parallel(b->threads, c->N * c->planes, copy_planes, &j);
        j.x = j.frame;
    }
    pare_parallel(b->threads, c->N * j.parts * c->fuse.win.out[0], run_lines, &j);
    return 0;
}

const struct pare_kernel pare_kernel_conv_taps = {
    .name = "conv_taps",
    .doc = "Convolution with constant filters over few channels by packed GEMM, line by line.",
    .candidate = true,
    .match = conv_taps_match,
    .init = conv_taps_init,
    .run = conv_taps_run,
};

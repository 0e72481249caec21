/* conv_1x1_packed.c - Conv with constant 1x1 filters in the blocked layout by packed GEMM.
 *
 * With post-ops (conv_fuse.h) and a prologue (conv_prologue.h).
 */
#include "../fuse/conv_prologue.h"
#include "../fuse/conv_fuse.h"

#include "../gemm/bf16_pairs.h"
#include "../gemm/gemm_packed.h"
#include "../../base/team.h"

#define GROUP 96 /* pixels at a time */
#define CACHE_BYTES (384 << 10)

struct conv {
    struct pare_node *node; /* the Conv itself */
    struct pare_conv_prologue prologue;
    bool has_prologue;
    struct pare_conv_fuse fuse;
    struct pare_post_op post[PARE_MAX_POST];
    int n_post;
    bool sum, clamp; /* applied by the GEMM itself */
    float low, high;
    int64_t N, pixels, in, in_blocks, out_blocks;
    bool bf16;     /* the operands of the product are pairs of bf16 */
    int64_t depth; /* rows of the packed filters: input channels, or pairs of them */
    float *w, *bias;
};

static bool conv_1x1_packed_usable(const struct pare_match *v, const struct pare_node *n,
                                   const struct conv *c)
{
    const struct pare_window *w = &c->fuse.win;

    if (v->train || n->in[0]->t.rank < 3 || n->in[0]->t.rank > 5 || w->group != 1 ||
        v->backend->block < 8)
        return false;
    for (int i = 0; i < w->nd; i++)
        if (w->kernel[i] != 1 || w->stride[i] != 1 || w->pad_begin[i] || w->pad_end[i] ||
            w->in[i] != w->out[i])
            return false;
    return true;
}

/* The GEMM itself can add the residual first and clamp last. */
static void split_post_ops(struct conv *c)
{
    c->sum = c->n_post > 0 && c->post[0].kind == PARE_POST_SUM;
    if (c->sum)
        memmove(c->post, c->post + 1, (size_t)--c->n_post * sizeof(*c->post));
    c->clamp = pare_post_bounds(c->post, &c->n_post, &c->low, &c->high);
}

/* Fill in the step's lists, including the prologue. */
static bool conv_1x1_packed_fill_step(const struct pare_match *v, const struct conv *c,
                                      struct pare_step *s)
{
    const struct pare_conv_prologue *f = &c->prologue;
    struct pare_step own = { 0 };
    int at = 0;

    if (!pare_conv_fuse_step(v, c->node, &c->fuse, f->block, f->block, &own))
        return false;
    if (!c->has_prologue) {
        *s = own;
        s->node = c->node;
    } else {
        if (!pare_step_lists(s, v, own.n_in + (f->gate != NULL), 1, own.n_fused + 2))
            return false;
        for (int k = 0; k < own.n_in; k++) {
            s->in[k] = k ? own.in[k] : f->x;
            s->in_block[k] = own.in_block[k];
        }
        if (f->gate) {
            s->in[own.n_in] = f->gate;
            s->in_block[own.n_in] = f->gate_block;
        }
        s->out[0] = own.out[0];
        s->out_block[0] = own.out_block[0];
        if (f->node[1])
            s->fused[at++] = f->node[1];
        s->fused[at++] = c->node;
        for (int k = 0; k < own.n_fused; k++)
            s->fused[at++] = own.fused[k];
        s->n_fused = at;
        s->inplace = own.inplace;
    }
    if (!c->sum)
        s->inplace = 0; /* the GEMM writes y before the operand of the sum is read */
    return true;
}

/* Filters with many zeros are left to conv_sparse, which does not fuse the prologue. */
static bool is_sparse(const struct pare_match *v, struct pare_node *conv)
{
    struct pare_step probe = { .node = conv };

    return pare_kernel_conv_sparse.match(v, conv, &probe);
}

/* Scratch memory of a thread: the input after the prologue, and as pairs of bf16. */
static size_t own_floats(const struct conv *c, int block)
{
    const int64_t size = GROUP * c->in_blocks * block;

    return (size_t)((c->has_prologue ? size : 0) + (c->bf16 ? size / 2 : 0));
}

static bool conv_1x1_packed_match(const struct pare_match *v, struct pare_node *n,
                                  struct pare_step *s)
{
    int block = v->backend->block;
    const struct pare_tensor *x;
    struct conv *c;
    int64_t out;

    if (v->train || block < 8)
        return false;
    c = pare_alloc(v->backend->arena, 1, sizeof(*c));
    if (!c)
        return false;
    c->has_prologue = pare_conv_prologue(v, n, &c->prologue);
    c->node = c->has_prologue ? c->prologue.conv : n;
    if (!pare_node_is(c->node, &pare_op_conv) || !pare_conv_fuse(v, c->node, &c->fuse) ||
        !conv_1x1_packed_usable(v, c->node, c) || (c->has_prologue && is_sparse(v, c->node)))
        return false;
    x = &c->node->in[0]->t;
    out = c->node->in[1]->t.dim[0];
    c->n_post = pare_conv_fuse_vector_ops(&c->fuse, out % block != 0, c->post);
    if (c->n_post < 0)
        return false;
    c->N = x->dim[0];
    c->in = x->dim[1];
    c->pixels = pare_numel(x) / (c->N * c->in);
    c->in_blocks = (c->in + block - 1) / block;
    c->out_blocks = (out + block - 1) / block;
    c->bf16 = v->backend->bf16;
    c->depth = c->bf16 ? c->in_blocks * block / 2 : c->in;
    split_post_ops(c);
    if (!conv_1x1_packed_fill_step(v, c, s))
        return false;
    s->work_bytes[0] = (size_t)v->backend->threads * own_floats(c, block) * sizeof(float);
    s->state = c;
    return true;
}

static int conv_1x1_packed_init(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    struct conv *c = s->state;
    const struct pare_tensor *w = &c->node->in[1]->t;
    int64_t O = w->dim[0], padded = c->out_blocks * b->block;
    float *scale = pare_alloc(b->scratch, (size_t)padded, sizeof(*scale));
    const unsigned char *from = pare_const_raw(c->node->in[1]);

    if (s->share_from) {
        const struct conv *other = s->share_from->state;

        c->w = other->w;
        c->bias = other->bias;
        c->prologue.scale = other->prologue.scale;
        c->prologue.shift = other->prologue.shift;
        return 0;
    }
    c->w = pare_alloc(b->arena, (size_t)(padded * c->depth), sizeof(float));
    c->bias = pare_alloc(b->arena, (size_t)padded, sizeof(float));
    if (!scale || !c->w || !c->bias)
        return pare_no_memory(err, "for the weights");
    PARE_TRY(pare_conv_fuse_fold(b, c->node, &c->fuse, scale, c->bias, err));
    if (c->has_prologue)
        PARE_TRY(pare_conv_prologue_init(&c->prologue, b, err));
    for (int64_t o = 0; o < O; o++) {
        const unsigned char *filter = from + (size_t)(o * c->in) * sizeof(float);
        float *to = c->w + pare_packed_gemm_at(c->depth, c->out_blocks, b->block, 0, o);
        int64_t step = pare_packed_gemm_at(c->depth, c->out_blocks, b->block, 1, o) - (to - c->w);

        for (int64_t i = 0; i < c->in; i += c->bf16 ? 2 : 1) {
            float f[2] = { 0 };

            memcpy(f, filter + (size_t)i * sizeof(*f), (i + 1 < c->in ? 2 : 1) * sizeof(*f));
            f[0] *= scale[o];
            f[1] *= scale[o];
            if (c->bf16)
                pare_bf16_pairs(f, 2, to + i / 2 * step);
            else
                to[i * step] = f[0];
        }
    }
    return 0;
}

/* Pixels [from, to) of an image and blocks of channels [first, end) of the result. */
struct part {
    int64_t image, from, to, first, end;
    int thread; /* whose scratch memory it uses */
};

/* Apply the prologue to the part's input, in the thread's scratch memory. */
static const float *apply_prologue(const struct conv *c, struct pare_step *s, int block,
                                   const struct part *r, const float *x)
{
    const struct pare_conv_prologue *f = &c->prologue;
    const int64_t plane = c->pixels * block, count = (r->to - r->from) * block;
    float *to = pare_f32_mut(&s->work[0]->t) + (size_t)r->thread * own_floats(c, block);
    const float *gate = NULL;

    if (f->gate) {
        int64_t each = f->gate_block > 1 ? c->in_blocks * block : c->in;

        gate = pare_f32(&s->in_buf[s->n_in - 1]->t);
        gate += f->gate->t.dim[0] > 1 ? r->image * each : 0;
    }
    for (int64_t i = 0; i < c->in_blocks; i++)
        pare_conv_prologue_run(f, gate, i, x + i * plane, to + i * count, count);
    return to;
}

/* The part's input as pairs of bf16, in the thread's scratch memory. */
static const float *round_input(const struct conv *c, struct pare_step *s, int block, int thread,
                                const struct pare_packed_gemm *p)
{
    const int64_t count = p->rows * block;
    float *to = pare_f32_mut(&s->work[0]->t) + (size_t)thread * own_floats(c, block) +
                (c->has_prologue ? GROUP * c->in_blocks * (int64_t)block : 0);

    for (int64_t i = 0; i < c->in_blocks; i++)
        pare_bf16_pairs(p->x + i * p->x_run, count, to + i * count / 2);
    return to;
}

static void run_part(const struct conv *c, struct pare_step *s, int block, const struct part *r)
{
    const int64_t plane = c->pixels * block;
    const int64_t at = (r->image * c->out_blocks + r->first) * plane + r->from * block;
    const float *sum = c->fuse.post.sum ? pare_f32(&s->in_buf[1]->t) + at : NULL;
    struct pare_packed_gemm p = {
        .x = pare_f32(&s->in_buf[0]->t) + r->image * c->in_blocks * plane + r->from * block,
        .w = c->w + r->first * block * c->depth,
        .y = pare_f32_mut(&s->out_buf[0]->t) + at,
        .bias = c->bias + r->first * block,
        .start = c->sum ? sum : NULL,
        .clamp = c->clamp,
        .low = c->low,
        .high = c->high,
        .post = c->post,
        .n_post = c->n_post,
        .sum = sum,
        .rows = r->to - r->from,
        .blocks = r->end - r->first,
        .runs = c->in / block,
        .run = block,
        .last = c->in % block,
        .x_row = block,
        .x_run = plane,
        .y_row = block,
        .y_block = plane,
        .block = block,
    };

    if (c->has_prologue) {
        p.x = apply_prologue(c, s, block, r, p.x);
        p.x_run = p.rows * block;
    }
    if (c->bf16) {
        p.x = round_input(c, s, block, r->thread, &p);
        p.bf16 = true;
        p.runs = c->in_blocks;
        p.last = 0;
        p.run = p.x_row = block / 2;
        p.x_run = p.rows * block / 2;
    }
    pare_packed_gemm_run(&p);
}

struct job {
    struct pare_step *s;
    int block;
    int64_t groups, parts, some; /* groups of pixels; parts of `some` blocks of channels */
};

static void run_parts(void *arg, int64_t from, int64_t to, int thread)
{
    const struct job *j = arg;
    const struct conv *c = j->s->state;

    for (int64_t i = from; i < to; i++) {
        int64_t g = i % j->groups, part = i / j->groups % j->parts, first = part * j->some;
        struct part r = {
            .image = i / j->groups / j->parts,
            .from = c->pixels * g / j->groups,
            .to = c->pixels * (g + 1) / j->groups,
            .first = first,
            .end = first + j->some < c->out_blocks ? first + j->some : c->out_blocks,
            .thread = thread,
        };

        run_part(c, j->s, j->block, &r);
    }
}

/* As in linear_packed.c: few weights stay in the cache while pixels pass by; many weights are
 * divided among the threads. */
static int conv_1x1_packed_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct conv *c = s->state;
    const int64_t bytes = 2 * b->block * c->depth * (int64_t)sizeof(float),
                  pairs = CACHE_BYTES / bytes;
    const int64_t some = 2 * (pairs ? pairs : 1), parts = (c->out_blocks + some - 1) / some;
    int64_t groups = (c->pixels + GROUP - 1) / GROUP;
    struct job j = { s, b->block, 0, parts, some };

    (void)err;
    if (c->N * parts % b->threads) /* the same amount for each thread */
        groups = (groups + b->threads - 1) / b->threads * b->threads;
    j.groups = groups < c->pixels ? groups : c->pixels;
    pare_parallel(b->threads, c->N * j.groups * parts, run_parts, &j);
    return 0;
}

const struct pare_kernel pare_kernel_conv_1x1_packed = {
    .name = "conv_1x1_packed",
    .doc = "Convolution with constant 1x1 filters by packed GEMM, with post-ops.",
    .candidate = true,
    .match = conv_1x1_packed_match,
    .init = conv_1x1_packed_init,
    .run = conv_1x1_packed_run,
};

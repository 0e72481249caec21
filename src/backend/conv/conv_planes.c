/* conv_planes.c - Conv of stride 1 with constant filters and few output channels, in row-major
 * layout, with post-ops.
 *
 * A vector holds neighboring pixels of a line; each filter element is multiplied with all of its
 * lanes.  Blocked layouts put output channels into the lanes instead, most of which are empty where
 * a layer has few channels, as after pruning.  If the filter reaches beyond the input, the input is
 * copied into a frame of zeros first.
 */
#include "../fuse/conv_fuse.h"

#include <string.h>

#include "../../base/team.h"

#define VECTORS 3
#define ROWS 8 /* lines at a time */
#define FEW 16 /* input channels: with more, the lanes of other layouts are full */

/* A vector of pixels: its offset in a plane of the frame, and of the output. */
struct spot {
    int32_t from, to;
};

/* Some spots of some output channels. */
struct tile {
    const float *x, *w, *bias;
    float *y;
    int64_t C, plane, y_plane, taps, outs, channels;
    const int64_t *tap; /* offsets in the frame */
    bool clamp;
    float low, high;
};

#if defined(__x86_64__)
#include <immintrin.h>

#define OUTS 8
#include "../simd/vec512.h"
#include "conv_planes_loops.h"
#include "../simd/vec_end.h"

#define OUTS 4
#include "../simd/vec256.h"
#include "conv_planes_loops.h"
#include "../simd/vec_end.h"
#endif

#define OUTS 2
#include "../simd/vec_plain.h"
#include "conv_planes_loops.h"
#include "../simd/vec_end.h"

struct conv {
    struct pare_conv_fuse fuse;
    struct pare_post_op post[PARE_MAX_POST];
    int n_post;
    bool clamp;
    float low, high;
    int64_t N, C, O, taps;
    int64_t outs, groups; /* output channels at a time */
    int64_t size[2];      /* of the frame, or of the input */
    bool frame;           /* the input is copied into a frame */
    int64_t line;         /* spots of a line */
    struct spot *spot;
    int64_t *tap;
    float *w, *bias;
};

/* ---- match ----------------------------------------------------------------------------------- */

static bool conv_planes_usable(const struct pare_match *v, const struct pare_node *n,
                               const struct conv *c)
{
    const struct pare_window *w = &c->fuse.win;

    if (v->train || n->in[0]->t.rank != 4 || w->group != 1 || v->backend->block < 8 ||
        w->out[1] < v->backend->block || w->out[1] % 8)
        return false;
    for (int i = 0; i < 2; i++)
        if (w->pad_begin[i] < 0 || w->pad_end[i] < 0 || w->stride[i] != 1)
            return false;
    return true;
}

/* Is half of a block empty, and no vector of pixels computed twice? */
static bool conv_planes_pays(const struct conv *c, int block)
{
    return c->O <= block / 2 && c->C <= FEW && c->fuse.win.out[1] % block == 0;
}

static void set_frame(struct conv *c)
{
    const struct pare_window *w = &c->fuse.win;

    for (int i = 0; i < 2; i++) {
        c->size[i] = w->out[i] + (w->kernel[i] - 1) * w->dilation[i];
        c->frame |= c->size[i] != w->in[i] || w->pad_begin[i];
    }
}

/* Spots of a line and of an image; the last one of a line may overlap the one before. */
static bool set_spots(struct conv *c, int block, struct pare_arena *a)
{
    const struct pare_window *w = &c->fuse.win;
    int64_t width = w->out[1];

    c->line = (width + block - 1) / block;
    if (c->size[0] * c->size[1] > INT32_MAX)
        return false;
    c->spot = pare_alloc(a, (size_t)(c->line * w->out[0]), sizeof(*c->spot));
    c->tap = pare_alloc(a, (size_t)c->taps, sizeof(*c->tap));
    if (!c->spot || !c->tap)
        return false;
    for (int64_t i = 0; i < c->line * w->out[0]; i++) {
        int64_t row = i / c->line, at = i % c->line * block;

        at = at + block > width ? width - block : at;
        c->spot[i] = (struct spot){ (int32_t)(row * c->size[1] + at), (int32_t)(row * width + at) };
    }
    for (int64_t i = 0; i < c->taps; i++)
        c->tap[i] = i / w->kernel[1] * w->dilation[0] * c->size[1] +
                    i % w->kernel[1] * w->dilation[1];
    return true;
}

static bool conv_planes_match(const struct pare_match *v, struct pare_node *n, struct pare_step *s)
{
    int block = v->backend->block;
    struct conv *c;

    if (!pare_node_is(n, &pare_op_conv))
        return false;
    c = pare_alloc(v->backend->arena, 1, sizeof(*c));
    if (!c || !pare_conv_fuse(v, n, &c->fuse) || !conv_planes_usable(v, n, c))
        return false;
    c->N = n->in[0]->t.dim[0];
    c->C = n->in[0]->t.dim[1];
    c->O = n->in[1]->t.dim[0];
    c->taps = c->fuse.win.kernel[0] * c->fuse.win.kernel[1];
    c->outs = block == 16 ? 8 : 4;
    c->groups = (c->O + c->outs - 1) / c->outs;
    set_frame(c);
    c->n_post = pare_conv_fuse_vector_ops(&c->fuse, false, c->post);
    if ((!v->ignore_cost && !conv_planes_pays(c, block)) || c->n_post < 0 ||
        !pare_conv_fuse_step(v, n, &c->fuse, 1, 1, s) || !set_spots(c, block, v->backend->arena))
        return false;
    c->clamp = pare_post_bounds(c->post, &c->n_post, &c->low, &c->high);
    s->inplace = 0;
    if (c->frame)
        s->work_bytes[0] = (size_t)(c->N * c->C * c->size[0] * c->size[1]) * sizeof(float);
    s->state = c;
    return true;
}

/* Filters as (group of output channels, input channel, tap, output channel). */
static int conv_planes_init(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    struct conv *c = s->state;
    const int64_t K = c->C * c->taps, O = c->groups * c->outs;
    float *scale = pare_alloc(b->scratch, (size_t)O, sizeof(*scale));
    const unsigned char *from = pare_const_raw(s->node->in[1]);

    if (s->share_from) {
        c->w = ((const struct conv *)s->share_from->state)->w;
        c->bias = ((const struct conv *)s->share_from->state)->bias;
        return 0;
    }
    c->w = pare_alloc(b->arena, (size_t)(O * K), sizeof(float));
    c->bias = pare_alloc(b->arena, (size_t)O, sizeof(float));
    if (!scale || !c->w || !c->bias)
        return pare_no_memory(err, "for the weights");
    PARE_TRY(pare_conv_fuse_fold(b, s->node, &c->fuse, scale, c->bias, err));
    for (int64_t o = 0; o < c->O; o++)
        for (int64_t k = 0; k < K; k++) {
            float f;

            memcpy(&f, from + (size_t)(o * K + k) * sizeof(f), sizeof(f));
            c->w[(o / c->outs * K + k) * c->outs + o % c->outs] = f * scale[o];
        }
    return 0;
}

/* ---- run ------------------------------------------------------------------------------------- */

/* Copy a plane into a frame of zeros. */
static void copy_plane(const struct conv *c, const float *x, float *to)
{
    const struct pare_window *w = &c->fuse.win;
    const int64_t left = w->pad_begin[1];
    const int64_t inside = w->in[1] < c->size[1] - left ? w->in[1] : c->size[1] - left;

    for (int64_t r = 0; r < c->size[0]; r++, to += c->size[1]) {
        int64_t h = r - w->pad_begin[0];

        if (h < 0 || h >= w->in[0] || inside <= 0) {
            memset(to, 0, (size_t)c->size[1] * sizeof(*to));
            continue;
        }
        memset(to, 0, (size_t)left * sizeof(*to));
        memcpy(to + left, x + h * w->in[1], (size_t)inside * sizeof(*to));
        memset(to + left + inside, 0, (size_t)(c->size[1] - left - inside) * sizeof(*to));
    }
}

static void run_spots(const struct pare_backend *b, const struct tile *t, const struct spot *at,
                      int64_t n)
{
#if defined(__x86_64__)
    if (b->block == 16) {
        spots_avx512(t, at, n);
        return;
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        spots_avx2(t, at, n);
        return;
    }
#endif
    (void)b;
    spots_plain(t, at, n);
}

struct job {
    struct pare_step *s;
    const struct pare_backend *b;
    const float *x; /* the input, or its frame */
    float *frame;   /* NULL: none */
    int64_t strips; /* of ROWS lines */
};

static void copy_planes(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct job *j = arg;
    const struct conv *c = j->s->state;
    const struct pare_window *w = &c->fuse.win;

    (void)thread;
    for (int64_t i = begin; i < end; i++)
        copy_plane(c, j->x + i * w->in[0] * w->in[1], j->frame + i * c->size[0] * c->size[1]);
}

/* Item i: a strip of an image and a group of output channels. */
static void run_strips(void *arg, int64_t from, int64_t to, int thread)
{
    const struct job *j = arg;
    const struct conv *c = j->s->state;
    const int64_t *out = c->fuse.win.out, plane = c->size[0] * c->size[1], pixels = out[0] * out[1];

    (void)thread;
    for (int64_t i = from; i < to; i++) {
        int64_t group = i % c->groups, strip = i / c->groups % j->strips;
        int64_t image = i / c->groups / j->strips, first = strip * ROWS;
        int64_t rows = out[0] - first < ROWS ? out[0] - first : ROWS, o = group * c->outs;
        int64_t channels = c->O - o < c->outs ? c->O - o : c->outs;
        int64_t y = (image * c->O + o) * pixels, start = y + first * out[1];
        struct tile t = {
            .x = j->x + image * c->C * plane,
            .w = c->w + o * c->C * c->taps,
            .bias = c->bias + o,
            .y = pare_f32_mut(&j->s->out_buf[0]->t) + y,
            .C = c->C,
            .plane = plane,
            .y_plane = pixels,
            .taps = c->taps,
            .outs = c->outs,
            .channels = channels,
            .tap = c->tap,
            .clamp = c->clamp,
            .low = c->low,
            .high = c->high,
        };
        struct pare_post_area a = {
            .y = pare_f32_mut(&j->s->out_buf[0]->t) + start,
            .sum = c->fuse.post.sum ? pare_f32(&j->s->in_buf[1]->t) + start : NULL,
            .rows = channels,
            .step = pixels,
            .n = rows * out[1],
        };

        run_spots(j->b, &t, c->spot + first * c->line, rows * c->line);
        if (c->n_post)
            pare_post_ops_run(c->post, c->n_post, &a);
    }
}

static int conv_planes_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct conv *c = s->state;
    struct job j = {
        .s = s,
        .b = b,
        .x = pare_f32(&s->in_buf[0]->t),
        .frame = c->frame ? pare_f32_mut(&s->work[0]->t) : NULL,
        .strips = (c->fuse.win.out[0] + ROWS - 1) / ROWS,
    };

    (void)err;
    if (j.frame) {
        pare_parallel(b->threads, c->N * c->C, copy_planes, &j);
        j.x = j.frame;
    }
    pare_parallel(b->threads, c->N * j.strips * c->groups, run_strips, &j);
    return 0;
}

const struct pare_kernel pare_kernel_conv_planes = {
    .name = "conv_planes",
    .doc = "Convolution of stride 1 with few output channels, a vector of pixels at a time.",
    .candidate = true,
    .match = conv_planes_match,
    .init = conv_planes_init,
    .run = conv_planes_run,
};

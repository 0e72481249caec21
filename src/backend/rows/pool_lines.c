/* pool_lines.c - MaxPool, AveragePool and global pools, row-major, or in the blocked layout with
 * large or three-dimensional windows.
 *
 * A pool is separable: the input lines that a line of outputs reads are combined first, element by
 * element, then the taps along the line.  Both are loops over contiguous memory, and a window of
 * k x k taps takes 2 k operations, with maxima fewer.  The combined line is in a frame of elements
 * that do not change the result.  NaN is larger than anything.
 */
#include "../backend.h"

#include <math.h>

#include "../../base/simd.h"
#include "../../op/reduce/reduce_family.h"
#include "../fuse/padded_mean.h"
#include "../../base/team.h"

#define MOST_LINE (1 << 20) /* floats of a framed line */
#define SPREAD_STRIDE 8 /* up to this stride all positions of a line are combined, then picked */
#define DOUBLED_TAPS 8  /* from this on, maxima of 2, 4, 8... taps are combined */

struct pool {
    struct pare_window w; /* over three axes */
    bool max, count_pad, global;
    int64_t planes, in_size, out_size; /* sizes in floats, of a plane */
    int64_t frame;                     /* floats of a framed line */
    int block;                         /* floats per position */
    float *scale[3];                   /* means: by axis and output, 1 / counted taps */
};

/* ---- match -------------------------------------------------------------------------- */

static bool read_window(const struct pare_match *v, struct pare_node *n, struct pool *p,
                        struct pare_node **pool)
{
    struct pare_err err;

    *pool = NULL;
    if (!(n->op->flags & PARE_OP_POOL)) {
        *pool = pare_padded_mean(v, n, &p->w);
        p->count_pad = true;
        return *pool != NULL;
    }
    p->max = !(n->op->flags & PARE_OP_MEAN);
    if (pare_pool_window(n, &p->w, &err) || (p->max && !pare_window_meets(&p->w)))
        return false;
    p->count_pad = !p->max && pare_pool_counts_pad(n);
    pare_window_3d(&p->w);
    return true;
}

/* The taps [lo, hi) of output o along an axis that are inside the input. */
static void find_taps(const struct pare_window *w, int axis, int64_t o, int64_t *lo, int64_t *hi)
{
    int64_t d = w->dilation[axis], start = o * w->stride[axis] - w->pad_begin[axis];

    *lo = start < 0 ? (-start + d - 1) / d : 0;
    *hi = w->in[axis] > start ? (w->in[axis] - start + d - 1) / d : 0;
    *hi = *hi < w->kernel[axis] ? *hi : w->kernel[axis];
    *hi = *hi > *lo ? *hi : *lo;
}

/* With count_include_pad, padding counts up to the declared pads, not the part that ceil_mode
 * adds. */
static int64_t count_taps(const struct pool *p, int axis, int64_t o)
{
    const struct pare_window *w = &p->w;
    int64_t start = o * w->stride[axis] - w->pad_begin[axis], lo, hi, taps;

    find_taps(w, axis, o, &lo, &hi);
    if (!p->count_pad)
        return hi - lo;
    taps = (w->in[axis] + w->pad_end[axis] - start + w->dilation[axis] - 1) / w->dilation[axis];
    return taps < w->kernel[axis] ? taps : w->kernel[axis];
}

static bool fill_scales(struct pool *p, struct pare_arena *a)
{
    for (int i = 0; i < 3 && !p->max; i++) {
        p->scale[i] = pare_alloc_raw(a, (size_t)p->w.out[i], sizeof(float));
        if (!p->scale[i])
            return false;
        for (int64_t o = 0; o < p->w.out[i]; o++) {
            int64_t taps = count_taps(p, i, o);

            p->scale[i][o] = taps > 0 ? 1 / (float)taps : 0;
        }
    }
    return true;
}

static bool set_frame(struct pool *p)
{
    const struct pare_window *w = &p->w;
    int64_t last = (w->out[2] - 1) * w->stride[2] + (w->kernel[2] - 1) * w->dilation[2] + 1;
    int64_t width = w->in[2] + w->pad_begin[2];

    p->frame = (width > last ? width : last) * p->block + 8;
    return w->pad_begin[0] >= 0 && w->pad_begin[1] >= 0 && w->pad_begin[2] >= 0 &&
           p->frame <= MOST_LINE;
}

static bool is_global(const struct pare_node *n, struct pool *p)
{
    if (!pare_is_spatial_mean(n) && !(n->op->flags & PARE_OP_POOL && n->op->flags & PARE_OP_GLOBAL))
        return false;
    p->max = !(n->op->flags & PARE_OP_MEAN);
    p->global = true;
    p->block = p->max ? p->block : 1; /* pool_blocked has the other means */
    return true;
}

static bool pool_lines_match(const struct pare_match *v, struct pare_node *n, struct pare_step *s)
{
    const struct pare_tensor *x = n->n_in && n->in[0] ? &n->in[0]->t : NULL;
    struct pare_node *pool = NULL;
    struct pare_value *out;
    struct pool *p;

    if (!x || n->op->domain || !pare_is_f32(n->in[0]) || x->rank < 3 || !pare_numel(x) ||
        !n->n_out || !n->out[0] || !pare_numel(&n->out[0]->t) || (n->n_out > 1 && n->out[1]))
        return false;
    p = pare_alloc(v->backend->arena, 1, sizeof(*p));
    if (!p)
        return false;
    p->block = pare_block_of(v, n->in[0]);
    if (!is_global(n, p) && (x->rank > 5 || !read_window(v, n, p, &pool) || !set_frame(p) ||
                             !fill_scales(p, v->backend->arena)))
        return false;
    out = pool ? pool->out[0] : n->out[0];
    if (!pare_step_lists(s, v, 1, 1, pool != NULL))
        return false;
    if (pool)
        s->fused[0] = pool;
    p->planes = x->dim[0] * ((x->dim[1] + p->block - 1) / p->block);
    p->in_size = pare_block_numel(x, p->block) / p->planes;
    p->out_size = p->global ? p->block : pare_block_numel(&out->t, p->block) / p->planes;
    s->work_bytes[0] = (size_t)(2 * p->frame * v->backend->threads) * sizeof(float);
    s->state = p;
    s->in[0] = n->in[0];
    s->in_block[0] = p->block;
    s->out[0] = out;
    s->out_block[0] = p->block;
    return true;
}

/* ---- run ---------------------------------------------------------------------------- */

#define MORE(a, b) \
    ((((b) > (a)) | ((b) != (b))) ? (b) : (a)) /* NOLINT(misc-redundant-expression) */
#define KEEP_MORE8(a, b)                                                \
    do {                                                                \
        pare_v8 b8 = (b);                                               \
        pare_m8 more = (b8 > (a)) | PARE_NAN8(b8);                      \
                                                                        \
        (a) = (pare_v8)((more & (pare_m8)b8) | (~more & (pare_m8)(a))); \
    } while (0)

/* Several lines or taps of one sequence of outputs: `outer` times `inner` addresses. */
struct sources {
    const float *x;
    int64_t outer, outer_stride, inner, inner_stride;
};

/* y[i] = combination over all sources of x[i]; n outputs, and none if there are no sources. */
PARE_SIMD static void combine_max(const struct sources *s, float *y, int64_t n)
{
    for (int64_t i = 0, at = 0; i < n && n >= 8; i += 8) {
        pare_v8 most = PARE_V8(s->x + (at = i + 8 <= n ? i : n - 8));

        for (int64_t d = 0; d < s->outer; d++)
            for (int64_t h = 0; h < s->inner; h++)
                KEEP_MORE8(most, PARE_V8(s->x + d * s->outer_stride + h * s->inner_stride + at));
        PARE_PUT8(y + at, most);
    }
    for (int64_t i = 0; i < n && n < 8; i++) {
        float most = s->x[i];

        for (int64_t d = 0; d < s->outer; d++)
            for (int64_t h = 0; h < s->inner; h++) {
                float a = s->x[d * s->outer_stride + h * s->inner_stride + i];

                most = MORE(most, a);
            }
        y[i] = most;
    }
}

PARE_SIMD static void combine_sum(const struct sources *s, float *y, int64_t n)
{
    for (int64_t i = 0; i < n && n >= 8; i += 8) {
        const int64_t at = i + 8 <= n ? i : n - 8;
        pare_v8 sum = { 0 };

        for (int64_t d = 0; d < s->outer; d++)
            for (int64_t h = 0; h < s->inner; h++)
                sum += PARE_V8(s->x + d * s->outer_stride + h * s->inner_stride + at);
        PARE_PUT8(y + at, sum);
    }
    for (int64_t i = 0; i < n && n < 8; i++) {
        float sum = 0;

        for (int64_t d = 0; d < s->outer; d++)
            for (int64_t h = 0; h < s->inner; h++)
                sum += s->x[d * s->outer_stride + h * s->inner_stride + i];
        y[i] = sum;
    }
}

/* x[i] = the larger of x[i] and x[i + shift], in ascending order. */
PARE_SIMD static void double_taps(float *x, int64_t shift, int64_t n)
{
    int64_t i = 0;

    for (; i + 8 <= n; i += 8) {
        pare_v8 a = PARE_V8(x + i);

        KEEP_MORE8(a, PARE_V8(x + i + shift));
        PARE_PUT8(x + i, a);
    }
    for (; i < n; i++)
        x[i] = MORE(x[i], x[i + shift]);
}

PARE_SIMD static void pick_scaled(const float *x, int64_t stride, const float *scale, float by,
                                  float *y, int64_t n)
{
    if (scale)
        for (int64_t i = 0; i < n; i++)
            y[i] = x[i * stride] * (scale[i] * by);
    else if (stride == 2)
        for (int64_t i = 0; i < n; i++)
            y[i] = x[2 * i];
    else
        for (int64_t i = 0; i < n; i++)
            y[i] = x[i * stride];
}

static void combine(const struct pool *p, const struct sources *s, float *y, int64_t n)
{
    if (p->max)
        combine_max(s, y, n);
    else
        combine_sum(s, y, n);
}

/* The taps along the line: the result is in y. */
static void run_taps(const struct pool *p, float *line, float *tmp, float by, float *y)
{
    const struct pare_window *w = &p->w;
    const int64_t b = p->block, shift = w->dilation[2] * b, stride = w->stride[2];
    const int64_t all = ((w->out[2] - 1) * stride + 1) * b;
    int64_t k = w->kernel[2], span = 1;

    for (; p->max && k >= DOUBLED_TAPS && 2 * span <= k; span *= 2)
        double_taps(line, span * shift, all + (k - 2 * span) * shift);
    if (span > 1) {
        struct sources two = { line, 1, 0, 2, (k - span) * shift };

        if (b == 1 && stride == 1) {
            combine_max(&two, y, all);
            return;
        }
        double_taps(line, (k - span) * shift, all);
        k = 1;
    }
    if (b == 1 && (stride <= SPREAD_STRIDE || k == 1)) {
        struct sources taps = { line, 1, 0, k, shift };

        if (k > 1)
            combine(p, &taps, stride == 1 && p->max ? y : tmp, all);
        if (k == 1 || stride > 1 || !p->max)
            pick_scaled(k > 1 ? tmp : line, stride, p->scale[2], by, y, w->out[2]);
        return;
    }
    for (int64_t q = 0; q < w->out[2]; q++) {
        struct sources taps = { line + q * stride * b, 1, 0, k, shift };

        combine(p, &taps, y + q * b, b);
        for (int64_t i = 0; i < b && p->scale[2]; i++)
            y[q * b + i] *= p->scale[2][q] * by;
    }
}

static void set_all(float *x, int64_t n, float value)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = value;
}

/* One line of outputs. */
static void run_line(const struct pool *p, int64_t at, const float *x, float *y, float *line)
{
    const struct pare_window *w = &p->w;
    const int64_t h = at % w->out[1], d = at / w->out[1] % w->out[0];
    const int64_t b = p->block, width = w->in[2] * b, before = w->pad_begin[2] * b;
    const float by = p->max ? 1 : p->scale[0][d] * p->scale[1][h];
    int64_t lo[2], hi[2];
    struct sources rows;

    find_taps(w, 0, d, &lo[0], &hi[0]);
    find_taps(w, 1, h, &lo[1], &hi[1]);
    rows = (struct sources){
        .outer = hi[0] - lo[0],
        .outer_stride = w->dilation[0] * w->in[1] * width,
        .inner = hi[1] - lo[1],
        .inner_stride = w->dilation[1] * width,
    };
    rows.x = x + ((d * w->stride[0] - w->pad_begin[0] + lo[0] * w->dilation[0]) * w->in[1] +
                  h * w->stride[1] - w->pad_begin[1] + lo[1] * w->dilation[1]) *
                     width;
    set_all(line, before, p->max ? -INFINITY : 0);
    set_all(line + before + width, p->frame - before - width, p->max ? -INFINITY : 0);
    if (rows.outer && rows.inner)
        combine(p, &rows, line + before, width);
    else
        set_all(line + before, width, 0);
    run_taps(p, line, line + p->frame, by, y);
}

/* The sum or the maximum of a plane, by lane of a block. */
PARE_SIMD static void run_plane(const struct pool *p, const float *x, float *y)
{
    const int64_t n = p->in_size, step = p->block == 16 ? 16 : 8;
    pare_v8 acc[2] = { { 0 }, { 0 } };
    float a[16];
    int64_t i = 0;

    if (n >= 16)
        acc[0] = acc[1] = p->max ? PARE_V8(x) : acc[0];
    if (n >= 16 && p->max && p->block == 16)
        acc[1] = PARE_V8(x + 8);
    for (; i + 16 <= n && p->max; i += 16) {
        KEEP_MORE8(acc[0], PARE_V8(x + i));
        KEEP_MORE8(acc[1], PARE_V8(x + i + 8));
    }
    for (; i + 16 <= n; i += 16) {
        acc[0] += PARE_V8(x + i);
        acc[1] += PARE_V8(x + i + 8);
    }
    PARE_PUT8(a, acc[0]);
    PARE_PUT8(a + 8, acc[1]);
    if (n < 16) /* less than two vectors: continue from the first elements */
        for (int64_t k = 0; k < 16; k++)
            a[k] = p->max ? x[k % (p->block == 1 ? n : step)] : 0;
    for (; i < n; i++)
        a[i % step] = p->max ? MORE(a[i % step], x[i]) : a[i % step] + x[i];
    for (int64_t k = p->block; k < 16; k++)
        a[k % p->block] = p->max ? MORE(a[k % p->block], a[k]) : a[k % p->block] + a[k];
    for (int64_t k = 0; k < p->block; k++)
        y[k] = p->max ? a[k] : a[k] / (float)n;
}

static void run_lines(void *arg, int64_t from, int64_t to, int thread)
{
    struct pare_step *s = arg;
    const struct pool *p = s->state;
    const float *x = pare_f32(&s->in_buf[0]->t);
    float *y = pare_f32_mut(&s->out_buf[0]->t);

    for (int64_t i = from; i < to; i++) {
        if (p->global)
            run_plane(p, x + i * p->in_size, y + i * p->block);
        else
            run_line(p, i, x + i / (p->w.out[0] * p->w.out[1]) * p->in_size,
                     y + i * p->w.out[2] * p->block,
                     pare_f32_mut(&s->work[0]->t) + 2 * p->frame * thread);
    }
}

static int pool_lines_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct pool *p = s->state;

    (void)err;
    pare_parallel(p->planes * p->in_size > 16384 ? b->threads : 1,
                  p->global ? p->planes : p->planes * p->w.out[0] * p->w.out[1], run_lines, s);
    return 0;
}

const struct pare_kernel pare_kernel_pool_lines = {
    .name = "pool_lines",
    .doc = "Pools of any size, line by line, and global pools.",
    .match = pool_lines_match,
    .run = pool_lines_run,
};

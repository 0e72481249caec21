/* pool_blocked.c - small MaxPool and AveragePool and global means in the blocked layout.
 *
 * The b channels of a block are contiguous, so every tap of a window is one vector operation.
 * Padding lanes remain zero, since the maximum starts from the first tap.  NaN is larger than
 * anything.
 */
#include "../backend.h"

#include <math.h>

#include "../../base/simd.h"
#include "../../op/reduce/reduce_family.h"
#include "../fuse/padded_mean.h"
#include "../../base/team.h"

#define LANES 16

struct pool {
    struct pare_window w; /* over three axes */
    bool max, count_pad, global;
    int64_t planes, in_size, out_size;
    int block;
};

static bool read_window(const struct pare_node *n, struct pool *p)
{
    struct pare_err err;

    if (!(n->op->flags & PARE_OP_POOL) || n->op->flags & PARE_OP_GLOBAL)
        return false;
    p->max = !(n->op->flags & PARE_OP_MEAN);
    if (pare_pool_window(n, &p->w, &err) || (p->max && !pare_window_meets(&p->w)))
        return false;
    p->count_pad = !p->max && pare_pool_counts_pad(n);
    pare_window_3d(&p->w);
    return pare_small_pool(&p->w);
}

static bool pool_blocked_match(const struct pare_match *v, struct pare_node *n, struct pare_step *s)
{
    const struct pare_tensor *x = n->n_in && n->in[0] ? &n->in[0]->t : NULL;
    struct pare_node *pool = NULL;
    struct pare_value *out;
    struct pool *p;
    int block;

    if (!x || n->op->domain || !pare_is_f32(n->in[0]) || x->rank < 3 || !pare_numel(x) ||
        !n->n_out || !n->out[0] || !pare_numel(&n->out[0]->t) || (n->n_out > 1 && n->out[1]))
        return false;
    block = pare_block_of(v, n->in[0]);
    p = block > 1 ? pare_alloc(v->backend->arena, 1, sizeof(*p)) : NULL;
    if (!p)
        return false;
    p->global = pare_is_spatial_mean(n);
    if (!p->global && !read_window(n, p)) {
        pool = pare_padded_mean(v, n, &p->w);
        if (!pool || !pare_small_pool(&p->w))
            return false;
        p->count_pad = true;
    }
    out = pool ? pool->out[0] : n->out[0];
    if (p->global && out->t.rank == 2 && x->dim[1] % block)
        return false; /* (N, C) cannot be blocked, and row-major lanes are not contiguous */
    if (!pare_step_lists(s, v, 1, 1, pool != NULL))
        return false;
    if (pool)
        s->fused[0] = pool;
    p->block = block;
    p->planes = x->dim[0] * ((x->dim[1] + block - 1) / block);
    p->in_size = pare_block_numel(x, block) / p->planes;
    p->out_size = p->global ? block : pare_block_numel(&out->t, block) / p->planes;
    s->state = p;
    s->in[0] = n->in[0];
    s->in_block[0] = block;
    s->out[0] = out;
    s->out_block[0] = out->t.rank == 2 ? 1 : block;
    return true;
}

/* Sum of `count` vectors of b lanes. */
PARE_SIMD static void sum_lanes(const float *x, int64_t count, int b, float *acc)
{
    float a[LANES] = { 0 };

    if (b == 16) {
        for (int64_t i = 0; i < count; i++)
            for (int k = 0; k < 16; k++)
                a[k] += x[i * 16 + k];
    } else {
        for (int64_t i = 0; i < count; i++)
            for (int k = 0; k < 8; k++)
                a[k] += x[i * 8 + k];
    }
    for (int k = 0; k < b; k++)
        acc[k] = a[k];
}

/* One output: taps [lo, hi) of the window that starts at `start`. */
struct taps {
    int64_t lo[3], hi[3], start[3];
};

#define TAPS(B, INIT, COMBINE)                                                         \
    for (int k = 0; k < B; k++)                                                        \
        acc[k] = INIT;                                                                 \
    for (int64_t d = t->lo[0]; d < t->hi[0]; d++)                                      \
        for (int64_t h = t->lo[1]; h < t->hi[1]; h++)                                  \
            for (int64_t q = t->lo[2]; q < t->hi[2]; q++) {                            \
                const float *v = x + (((t->start[0] + d * w->dilation[0]) * w->in[1] + \
                                       t->start[1] + h * w->dilation[1]) *             \
                                          w->in[2] +                                   \
                                      t->start[2] + q * w->dilation[2]) *              \
                                         B;                                            \
                for (int k = 0; k < B; k++)                                            \
                    acc[k] = COMBINE;                                                  \
            }

static inline int64_t first_tap(const struct pare_window *w, const struct taps *t)
{
    return ((t->start[0] + t->lo[0] * w->dilation[0]) * w->in[1] + t->start[1] +
            t->lo[1] * w->dilation[1]) *
               w->in[2] +
           t->start[2] + t->lo[2] * w->dilation[2];
}

PARE_SIMD static void max_taps(const struct pare_window *w, const struct taps *t, int b,
                               const float *x, float *y)
{
    const float *first = x + first_tap(w, t) * b;
    float acc[LANES];

    if (b == 16) {
        TAPS(16, first[k], ((v[k] > acc[k]) | (isnan(v[k]) != 0)) ? v[k] : acc[k])
        for (int k = 0; k < 16; k++)
            y[k] = acc[k];
    } else {
        TAPS(8, first[k], ((v[k] > acc[k]) | (isnan(v[k]) != 0)) ? v[k] : acc[k])
        for (int k = 0; k < 8; k++)
            y[k] = acc[k];
    }
}

PARE_SIMD static void sum_taps(const struct pare_window *w, const struct taps *t, int b,
                               const float *x, float scale, float *y)
{
    float acc[LANES];

    if (b == 16) {
        TAPS(16, 0, acc[k] + v[k])
        for (int k = 0; k < 16; k++)
            y[k] = acc[k] * scale;
    } else {
        TAPS(8, 0, acc[k] + v[k])
        for (int k = 0; k < 8; k++)
            y[k] = acc[k] * scale;
    }
}

static void set_taps(const struct pare_window *w, int axis, int64_t o, struct taps *t)
{
    int64_t d = w->dilation[axis], start = o * w->stride[axis] - w->pad_begin[axis];
    int64_t lo = start < 0 ? (-start + d - 1) / d : 0;
    int64_t hi = (w->in[axis] - start + d - 1) / d;

    t->start[axis] = start;
    t->lo[axis] = lo;
    t->hi[axis] = hi < w->kernel[axis] ? hi : w->kernel[axis];
    if (t->hi[axis] < t->lo[axis])
        t->hi[axis] = t->lo[axis];
}

/* With count_include_pad, padding counts up to the declared pads, not the part that ceil_mode
 * adds. */
static double divisor(const struct pool *p, const struct taps *t)
{
    const struct pare_window *w = &p->w;
    double n = 1;

    for (int i = 0; i < 3; i++) {
        int64_t end = w->in[i] + w->pad_end[i];
        int64_t taps = (end - t->start[i] + w->dilation[i] - 1) / w->dilation[i];

        taps = taps < w->kernel[i] ? taps : w->kernel[i];
        n *= (double)(p->count_pad ? taps : t->hi[i] - t->lo[i]);
    }
    return n;
}

/* The outputs [from, to) of a row, whose windows are inside the input: rows lo to hi of them. */
PARE_SIMD static void inside_row(const struct pool *p, const struct taps *t, int64_t from,
                                 int64_t to, const float *x, float *y)
{
    const struct pare_window *w = &p->w;
    const int64_t b = p->block, line = w->in[2] * b, right = w->kernel[2];
    const float scale = p->max ? 1 : (float)(1 / divisor(p, t));

    for (int64_t q = from; q < to; q++)
        for (int64_t k = 0; k < b; k += 8) {
            const float *v = x + (t->start[1] + t->lo[1]) * line + k +
                             (q * w->stride[2] - w->pad_begin[2]) * b;
            pare_v8 sum = PARE_V8(v), most = sum;

            for (int64_t h = t->lo[1]; h < t->hi[1]; h++, v += line)
                for (int64_t i = h == t->lo[1]; i < right; i++) {
                    pare_v8 a = PARE_V8(v + i * b);
                    pare_m8 more = (a > most) | PARE_NAN8(a);

                    if (p->max)
                        most = (pare_v8)((more & (pare_m8)a) | (~more & (pare_m8)most));
                    else
                        sum += a;
                }
            if (p->max)
                PARE_PUT8(y + q * b + k, most);
            else
                PARE_PUT8(y + q * b + k, sum * scale);
        }
}

/* The outputs [from, to) of a row whose windows are inside the input in their whole width. */
static void find_inside(const struct pool *p, int64_t *from, int64_t *to)
{
    const struct pare_window *w = &p->w;
    int64_t room = w->in[2] + w->pad_begin[2] - w->kernel[2], most = room / w->stride[2] + 1;

    *from = (w->pad_begin[2] + w->stride[2] - 1) / w->stride[2];
    *to = room < 0 || w->dilation[1] != 1 || w->dilation[2] != 1 || w->in[0] != 1 ? 0 : most;
    if (*to > w->out[2])
        *to = w->out[2];
    if (w->pad_begin[2] < 0 || *to < *from || w->kernel[0] != 1)
        *from = *to = 0;
}

static void one_output(const struct pool *p, struct taps *t, int64_t q, const float *x, float *y)
{
    const struct pare_window *w = &p->w;
    bool empty;

    set_taps(w, 2, q, t);
    empty = t->lo[0] == t->hi[0] || t->lo[1] == t->hi[1] || t->lo[2] == t->hi[2];
    if (p->max && !empty)
        max_taps(w, t, p->block, x, y + q * p->block);
    else
        sum_taps(w, t, p->block, x, empty ? 0 : (float)(1 / divisor(p, t)), y + q * p->block);
}

static void run_plane(const struct pool *p, const float *x, float *y)
{
    const struct pare_window *w = &p->w;
    int64_t from, to;
    struct taps t;

    find_inside(p, &from, &to);
    for (int64_t d = 0; d < w->out[0]; d++) {
        set_taps(w, 0, d, &t);
        for (int64_t h = 0; h < w->out[1]; h++, y += w->out[2] * p->block) {
            bool some;

            set_taps(w, 1, h, &t);
            some = from < to && t.lo[1] < t.hi[1] && t.lo[0] < t.hi[0];
            for (int64_t q = 0; q < (some ? from : w->out[2]); q++)
                one_output(p, &t, q, x, y);
            if (some) {
                set_taps(w, 2, from, &t);
                inside_row(p, &t, from, to, x, y);
            }
            for (int64_t q = to; some && q < w->out[2]; q++)
                one_output(p, &t, q, x, y);
        }
    }
}

static void run_planes(void *arg, int64_t from, int64_t to, int thread)
{
    struct pare_step *s = arg;
    const struct pool *p = s->state;
    const float *x = pare_f32(&s->in_buf[0]->t);
    float *y = pare_f32_mut(&s->out_buf[0]->t);

    (void)thread;
    for (int64_t i = from; i < to; i++) {
        if (p->global) {
            float *out = y + i * p->out_size;
            int64_t count = p->in_size / p->block;

            sum_lanes(x + i * p->in_size, count, p->block, out);
            for (int k = 0; k < p->block; k++)
                out[k] /= (float)count;
        } else {
            run_plane(p, x + i * p->in_size, y + i * p->out_size);
        }
    }
}

static int pool_blocked_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct pool *p = s->state;

    (void)err;
    pare_parallel(p->planes * p->in_size > 16384 ? b->threads : 1, p->planes, run_planes, s);
    return 0;
}

const struct pare_kernel pare_kernel_pool_blocked = {
    .name = "pool_blocked",
    .doc = "Pools and global means in the blocked layout.",
    .match = pool_blocked_match,
    .run = pool_blocked_run,
};

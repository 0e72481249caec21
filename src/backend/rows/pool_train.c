/* pool_train.c - training of MaxPool, AveragePool and GlobalAveragePool in the blocked layout.
 *
 * MaxPool saves the index of each maximum in its plane, by lane; the first of equals, as the
 * reference operator does.
 */
#include "../backend.h"

#include <math.h>

#include "../../base/simd.h"
#include "../../op/nn/window.h"

#define LANES 16

struct pool {
    struct pare_window w; /* over three axes */
    bool max, global, count_pad;
    int64_t planes, in_space, out_space;
    int block;
    int32_t *from; /* by output and lane: index in the input plane */
};

/* The layout in which it runs; row-major inputs with few channels are reordered, since the
 * reference operator is far slower than that.  0: none. */
static int choose_layout(const struct pare_match *v, const struct pare_node *n)
{
    int block = pare_block_of(v, n->in[0]);

    return block > 1 ? block : n->in[0]->t.dim[1] > 3 ? 8 : 0;
}

static bool pool_train_match(const struct pare_match *v, struct pare_node *n, struct pare_step *s)
{
    const unsigned flags = n->op->flags;
    bool mean = flags & PARE_OP_MEAN, global = flags & PARE_OP_GLOBAL, max = !mean;
    const struct pare_tensor *x, *y;
    struct pare_err err;
    struct pool *p;
    int block;

    if (!v->train || !(flags & PARE_OP_POOL) || (max && global) || !pare_is_f32(n->in[0]) ||
        n->in[0]->t.rank < 3 || (n->n_out > 1 && n->out[1]))
        return false;
    x = &n->in[0]->t;
    y = &n->out[0]->t;
    p = pare_alloc(v->backend->arena, 1, sizeof(*p));
    block = choose_layout(v, n);
    if (!p || !block || !pare_numel(y) || !pare_numel(x) ||
        (!global && pare_pool_window(n, &p->w, &err)) || (max && !pare_window_meets(&p->w)) ||
        !pare_step_lists(s, v, 1, 1, 0))
        return false;
    p->block = block;
    p->max = max;
    p->global = global;
    p->count_pad = mean && !global && pare_pool_counts_pad(n);
    p->planes = x->dim[0] * ((x->dim[1] + p->block - 1) / p->block);
    p->in_space = pare_numel(x) / (x->dim[0] * x->dim[1]);
    p->out_space = pare_numel(y) / (y->dim[0] * y->dim[1]);
    if (!global)
        pare_window_3d(&p->w);
    if (p->in_space > INT32_MAX)
        return false;
    if (max) {
        p->from = pare_alloc(v->backend->arena, (size_t)(p->planes * p->out_space * p->block),
                             sizeof(*p->from));
        if (!p->from)
            return false;
    }
    s->state = p;
    s->in[0] = n->in[0];
    s->out[0] = n->out[0];
    s->in_block[0] = s->out_block[0] = p->block;
    s->unsaved_in = s->unsaved_out = ~0u;
    return true;
}

/* Taps [lo, hi) of output o along an axis that are not padding. */
static void valid_taps(const struct pare_window *w, int axis, int64_t o, int64_t *lo, int64_t *hi)
{
    int64_t d = w->dilation[axis], start = o * w->stride[axis] - w->pad_begin[axis];

    *lo = start < 0 ? (-start + d - 1) / d : 0;
    *hi = w->in[axis] > start ? (w->in[axis] - start + d - 1) / d : 0;
    *hi = *hi < w->kernel[axis] ? *hi : w->kernel[axis];
    *hi = *hi < *lo ? *lo : *hi;
}

/* One window: its start and the taps inside the input. */
struct window {
    int64_t lo[3], hi[3], o[3];
};

static int64_t position(const struct pare_window *w, const struct window *t, int64_t d, int64_t h,
                        int64_t q)
{
    return ((t->o[0] * w->stride[0] - w->pad_begin[0] + d * w->dilation[0]) * w->in[1] +
            t->o[1] * w->stride[1] - w->pad_begin[1] + h * w->dilation[1]) *
               w->in[2] +
           t->o[2] * w->stride[2] - w->pad_begin[2] + q * w->dilation[2];
}

/* Lanes take v where it is larger or the first NaN. */
PARE_SIMD static void take_larger(const float *v, int32_t at, int b, float *best, int32_t *from)
{
    for (int k = 0; k < b; k++) {
        bool more = (v[k] > best[k]) | ((isnan(v[k]) != 0) & (isnan(best[k]) == 0));

        best[k] = more ? v[k] : best[k];
        from[k] = more ? at : from[k];
    }
}

static void max_window(const struct pool *p, const struct window *t, const float *x, float *y,
                       int32_t *from)
{
    int32_t first = (int32_t)position(&p->w, t, t->lo[0], t->lo[1], t->lo[2]);

    for (int k = 0; k < p->block; k++)
        from[k] = first;
    memcpy(y, x + (int64_t)first * p->block, (size_t)p->block * sizeof(*y));
    for (int64_t d = t->lo[0]; d < t->hi[0]; d++)
        for (int64_t h = t->lo[1]; h < t->hi[1]; h++)
            for (int64_t q = t->lo[2]; q < t->hi[2]; q++) {
                int64_t at = position(&p->w, t, d, h, q);

                take_larger(x + at * p->block, (int32_t)at, p->block, y, from);
            }
}

/* With count_include_pad, padding counts up to the declared pads. */
static float window_weight(const struct pool *p, const struct window *t)
{
    double n = 1;

    for (int i = 0; i < 3; i++) {
        int64_t start = t->o[i] * p->w.stride[i] - p->w.pad_begin[i];
        int64_t all = (p->w.in[i] + p->w.pad_end[i] - start + p->w.dilation[i] - 1) /
                      p->w.dilation[i];

        all = all < p->w.kernel[i] ? all : p->w.kernel[i];
        n *= (double)(p->count_pad ? all : t->hi[i] - t->lo[i]);
    }
    return n > 0 ? (float)(1 / n) : 0;
}

/* y += w x or, in the backward pass, x += w y. */
static void mean_window(const struct pool *p, const struct window *t, float *x, float *y, bool back)
{
    float w = window_weight(p, t);

    for (int64_t d = t->lo[0]; d < t->hi[0]; d++)
        for (int64_t h = t->lo[1]; h < t->hi[1]; h++)
            for (int64_t q = t->lo[2]; q < t->hi[2]; q++) {
                float *v = x + position(&p->w, t, d, h, q) * p->block;

                for (int k = 0; k < p->block; k++)
                    *(back ? &v[k] : &y[k]) += w * (back ? y[k] : v[k]);
            }
}

static void each_window(const struct pool *p, float *x, float *y, int32_t *from, bool back)
{
    struct window t;
    int64_t i = 0;

    for (t.o[0] = 0; t.o[0] < p->w.out[0]; t.o[0]++) {
        valid_taps(&p->w, 0, t.o[0], &t.lo[0], &t.hi[0]);
        for (t.o[1] = 0; t.o[1] < p->w.out[1]; t.o[1]++) {
            valid_taps(&p->w, 1, t.o[1], &t.lo[1], &t.hi[1]);
            for (t.o[2] = 0; t.o[2] < p->w.out[2]; t.o[2]++, i += p->block) {
                valid_taps(&p->w, 2, t.o[2], &t.lo[2], &t.hi[2]);
                if (p->max)
                    max_window(p, &t, x, y + i, from + i);
                else
                    mean_window(p, &t, x, y + i, back);
            }
        }
    }
}

PARE_SIMD static void spread_mean(float *x, const float *y, int64_t space, int b, float w)
{
    for (int64_t i = 0; i < space; i++)
        for (int k = 0; k < b; k++)
            x[i * b + k] += w * y[k];
}

static void sum_plane(const float *x, float *y, int64_t space, int b)
{
    for (int k = 0; k < b; k++)
        y[k] = 0;
    for (int64_t i = 0; i < space; i++)
        for (int k = 0; k < b; k++)
            y[k] += x[i * b + k];
    for (int k = 0; k < b; k++)
        y[k] /= (float)space;
}

static int pool_train_run(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct pool *p = s->state;
    float *x = pare_f32_mut(&s->in_buf[0]->t), *y = pare_f32_mut(&s->out_buf[0]->t);

    (void)err;
#pragma omp parallel for num_threads(b->threads)
    for (int64_t i = 0; i < p->planes; i++) {
        float *in = x + i * p->in_space * p->block, *out = y + i * p->out_space * p->block;

        if (p->global) {
            sum_plane(in, out, p->in_space, p->block);
            continue;
        }
        if (!p->max)
            memset(out, 0, (size_t)(p->out_space * p->block) * sizeof(*out));
        each_window(p, in, out, p->max ? p->from + i * p->out_space * p->block : NULL, false);
    }
    return 0;
}

static int pool_train_backward(struct pare_step *s, struct pare_backend *b, struct pare_err *err)
{
    const struct pool *p = s->state;
    float *gx = pare_f32_mut(&s->in_buf[0]->grad->t), *gy = pare_f32_mut(&s->out_buf[0]->grad->t);

    (void)err;
#pragma omp parallel for num_threads(b->threads)
    for (int64_t i = 0; i < p->planes; i++) {
        float *in = gx + i * p->in_space * p->block, *out = gy + i * p->out_space * p->block;
        const int32_t *from = p->max ? p->from + i * p->out_space * p->block : NULL;

        if (s->grad_assign[0])
            memset(in, 0, (size_t)(p->in_space * p->block) * sizeof(*in));
        if (p->global)
            spread_mean(in, out, p->in_space, p->block, 1 / (float)p->in_space);
        else if (!p->max)
            each_window(p, in, out, NULL, true);
        for (int64_t k = 0; p->max && k < p->out_space * p->block; k++)
            in[(int64_t)from[k] * p->block + k % p->block] += out[k];
    }
    return 0;
}

const struct pare_kernel pare_kernel_pool_train = {
    .name = "pool_train",
    .doc = "Training of pools in the blocked layout.",
    .match = pool_train_match,
    .run = pool_train_run,
    .backward = pool_train_backward,
};

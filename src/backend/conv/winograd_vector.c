/* winograd_vector.c - transforms of Winograd's tiles, a block of channels at a time.
 *
 * A tile at an edge is copied, with zeros around it, so that the loops know whole tiles only.
 */
#include "winograd_tiles.h"

#include <math.h>
#include <string.h>

#define MOST_BLOCK 16

/* Where 4x4 results go, with a stride of `line`; v < 0 becomes slope v, then [low, high]. */
struct target {
    float *y;
    const float *bias, *added; /* or NULL; added has the shape of y */
    int64_t line;
    float slope, low, high;
};

typedef void input_loop(const float *d, int64_t line, float *v, int64_t step);
typedef void output_loop(const float *m, int64_t step, const struct target *t);

#if defined(__x86_64__)
#include <immintrin.h>

#include "../simd/vec512.h"
#include "winograd_vector_loops.h"
#include "../simd/vec_end.h"

#include "../simd/vec256.h"
#include "winograd_vector_loops.h"
#include "../simd/vec_end.h"

static bool pick(const struct pare_winograd *g, input_loop **in, output_loop **out)
{
    if (g->block == 16 && __builtin_cpu_supports("avx512f")) {
        *in = input_avx512;
        *out = output_avx512;
        return true;
    }
    *in = input_avx2;
    *out = output_avx2;
    return g->block == 8 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#else
static bool pick(const struct pare_winograd *g, input_loop **in, output_loop **out)
{
    (void)g;
    *in = NULL;
    *out = NULL;
    return false;
}
#endif

/* A square of n x n pixels from (row, col) of a side: which of them exist. */
struct square {
    int64_t row, col, n, top, bottom, left, right;
};

static int64_t within(int64_t v, int64_t most)
{
    return v < 0 ? 0 : v > most ? most : v;
}

static struct square square_at(const struct pare_winograd_side *s, int64_t row, int64_t col,
                               int64_t n)
{
    return (struct square){
        row, col, n, within(-row, n), within(s->h - row, n), within(-col, n), within(s->w - col, n),
    };
}

static bool is_whole(const struct square *q)
{
    return !q->top && !q->left && q->bottom == q->n && q->right == q->n;
}

/* Copy the existing pixels of a plane to a square without gaps, or back. */
static void copy_in(const struct square *q, const float *plane, int64_t w, int64_t block, float *to)
{
    for (int64_t i = q->top; i < q->bottom && q->left < q->right; i++)
        memcpy(to + (i * q->n + q->left) * block,
               plane + ((q->row + i) * w + q->col + q->left) * block,
               (size_t)((q->right - q->left) * block) * sizeof(*to));
}

static void copy_out(const struct square *q, const float *from, int64_t w, int64_t block,
                     float *plane)
{
    for (int64_t i = q->top; i < q->bottom && q->left < q->right; i++)
        memcpy(plane + ((q->row + i) * w + q->col + q->left) * block,
               from + (i * q->n + q->left) * block,
               (size_t)((q->right - q->left) * block) * sizeof(*plane));
}

bool pare_winograd_vector_in(const struct pare_winograd *g, const struct pare_winograd_tile *t,
                             const float *x, float *v, int64_t step)
{
    const struct pare_winograd_side *s = &g->from;
    const struct square q = square_at(s, t->row - g->top, t->col - g->left, 6);
    const int64_t block = g->block, plane = s->h * s->w * block, line = s->w * block;
    float edge[PARE_WINOGRAD * MOST_BLOCK] = { 0 };
    input_loop *in;
    output_loop *out;

    if (!pick(g, &in, &out))
        return false;
    x += t->image * s->channels / block * plane;
    for (int64_t c = 0; c < s->channels; c += block, x += plane) {
        if (is_whole(&q)) {
            in(x + q.row * line + q.col * block, line, v + c, step);
            continue;
        }
        copy_in(&q, x, s->w, block, edge);
        in(edge, 6 * block, v + c, step);
    }
    return true;
}

/* The output of a tile, with room for copies of it and of what is added. */
struct copied {
    float result[16 * MOST_BLOCK], added[16 * MOST_BLOCK];
    struct target to;
    const float *m, *other; /* other: what is added, or NULL */
    int64_t step;
    output_loop *out;
    bool known; /* the loop applies all post-ops */
};

/* What the loops add and how they activate; false if they do not know the post-ops. */
static bool read_post_ops(const struct pare_winograd_run *r, struct target *t, const float **added)
{
    const bool sum = r->n_post > 0 && r->post[0].kind == PARE_POST_SUM;
    const struct pare_post_op *p = r->n_post > sum ? &r->post[sum] : NULL;

    t->low = -INFINITY;
    t->high = INFINITY;
    *added = sum ? r->sum : r->add ? r->y : NULL;
    if (r->n_post > sum + 1 || (p && p->kind != PARE_POST_RELU && p->kind != PARE_POST_CLIP)) {
        *added = r->sum; /* perhaps after an activation */
        return false;
    }
    if (p && p->kind == PARE_POST_CLIP) {
        t->low = p->alpha;
        t->high = p->beta;
    } else if (p) {
        t->slope = p->alpha;
        t->low = p->alpha == 0 ? 0 : -INFINITY;
    }
    return true;
}

/* A block of channels of a tile, computed in a copy: at an edge, or with other post-ops. */
static void out_by_copy(const struct pare_winograd *g, const struct pare_winograd_run *r,
                        const struct square *q, int64_t first, struct copied *c)
{
    const int64_t block = g->block;
    const struct pare_post_area all = { c->result, c->added, 1, 0, 16 * block };

    c->to.y = c->result;
    c->to.line = 4 * block;
    if (c->other)
        copy_in(q, c->other + first, g->to.w, block, c->added);
    c->to.added = c->other && c->known ? c->added : NULL;
    c->out(c->m, c->step, &c->to);
    if (!c->known)
        pare_post_ops_run(r->post, r->n_post, &all);
    copy_out(q, c->result, g->to.w, block, r->y + first);
}

bool pare_winograd_vector_out(const struct pare_winograd *g, const struct pare_winograd_tile *t,
                              const struct pare_winograd_run *r, const float *m, int64_t step)
{
    const struct pare_winograd_side *s = &g->to;
    const struct square q = square_at(s, t->row, t->col, 4);
    const int64_t block = g->block, plane = s->h * s->w * block, line = s->w * block;
    struct copied c = { .step = step };
    input_loop *in;

    if (!pick(g, &in, &c.out) || (r->add && r->n_post))
        return false;
    c.known = read_post_ops(r, &c.to, &c.other);
    for (int64_t k = 0; k < s->channels; k += block) {
        const int64_t first = (t->image * s->channels + k) / block * plane;
        const int64_t at = first + q.row * line + q.col * block;

        c.m = m + k;
        c.to.bias = r->bias ? r->bias + k : NULL;
        if (!c.known || !is_whole(&q)) {
            out_by_copy(g, r, &q, first, &c);
            continue;
        }
        c.to.y = r->y + at;
        c.to.line = line;
        c.to.added = c.other ? c.other + at : NULL;
        c.out(c.m, step, &c.to);
    }
    return true;
}

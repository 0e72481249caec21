/* reduce_family.c - shared by the Reduce operators: axes, shapes, and one pass over the input.
 *
 * Neighboring axes of the same kind are merged, which leaves alternating groups of kept and reduced
 * axes.  The innermost group is folded a row at a time, into one accumulator if it is reduced, into
 * a row of accumulators if it is kept; the other groups are an odometer for the offset in the
 * output.
 */
#include "reduce_family.h"

#include <math.h>

enum { CHUNK = 512 }; /* elements to convert at a time */

const struct pare_opt pare_reduce_attrs[] = {
    PARE_INTS("axes", offsetof(struct pare_reduce, axes),
              "axes to reduce; empty: all (an input in later opsets)", PARE_NO_MIN, PARE_NO_MAX),
    PARE_INT("keepdims", offsetof(struct pare_reduce, keepdims),
             "keep reduced axes, with one element", 1, PARE_NO_MIN, PARE_NO_MAX),
    PARE_INT("noop_with_empty_axes", offsetof(struct pare_reduce, noop_with_empty_axes),
             "empty axes mean none, not all", 0, PARE_NO_MIN, PARE_NO_MAX),
    PARE_OPT_END
};

int pare_reduce_axes(const struct pare_node *n, unsigned *gone, struct pare_err *err)
{
    const struct pare_reduce *a = n->attr;
    int64_t list[PARE_MAX_RANK];
    const int64_t *axes = a->axes.v;
    int rank = n->in[0]->t.rank, count = a->axes.n, axis;

    if (n->n_in > 1 && n->in[1]) {
        PARE_TRY(pare_need(n, 1, err));
        PARE_TRY(pare_int_list(&n->in[1]->t, list, PARE_MAX_RANK, &count, err));
        axes = list;
    }
    *gone = count || a->noop_with_empty_axes ? 0 : (1u << rank) - 1;
    for (int i = 0; i < count; i++) {
        PARE_TRY(pare_axis(axes[i], rank, &axis, err));
        *gone |= 1u << axis;
    }
    return 0;
}

int pare_reduce_row_axis(const struct pare_node *n)
{
    struct pare_err err;
    unsigned gone;
    int axis = 0;

    if (pare_reduce_axes(n, &gone, &err) || !gone)
        return -1;
    while (!(gone >> axis & 1))
        axis++;
    return axis;
}

bool pare_is_spatial_mean(const struct pare_node *n)
{
    unsigned gone, space = (1u << n->in[0]->t.rank) - 4;
    struct pare_err err;

    if (!(n->op->flags & PARE_OP_MEAN) || n->op->flags & PARE_OP_POOL)
        return n->op->flags & PARE_OP_MEAN && n->op->flags & PARE_OP_GLOBAL;
    return !pare_reduce_axes(n, &gone, &err) && gone == space;
}

int pare_reduce_infer(struct pare_node *n, struct pare_err *err)
{
    const struct pare_reduce *a = n->attr;
    const struct pare_tensor *x = &n->in[0]->t;
    int64_t dim[PARE_MAX_RANK];
    unsigned gone;
    int rank = 0;

    PARE_TRY(pare_reduce_axes(n, &gone, err));
    for (int i = 0; i < x->rank; i++) {
        if (!(gone >> i & 1))
            dim[rank++] = x->dim[i];
        else if (a->keepdims)
            dim[rank++] = 1;
    }
    return pare_shape_set(&n->out[0]->t, x->dtype, rank, dim, err);
}

/* The groups of axes, outermost first. */
struct groups {
    int n;
    int64_t len[PARE_MAX_RANK + 1], step[PARE_MAX_RANK + 1]; /* step: stride in the output */
    int64_t total, count; /* elements of the input; elements of the input per output */
};

static struct groups group(const struct pare_tensor *x, unsigned gone)
{
    int64_t len[PARE_MAX_RANK + 1] = { 1 }, step = 1;
    bool kept[PARE_MAX_RANK + 1] = { true };
    struct groups g = { .n = 1, .total = 1, .count = 1 };

    for (int i = 0; i < x->rank; i++)
        if (!x->dim[i])
            return (struct groups){ 0 };
    for (int i = 0; i < x->rank; i++) {
        bool keep = !(gone >> i & 1);

        g.total *= x->dim[i];
        g.count *= keep ? 1 : x->dim[i];
        if (x->dim[i] == 1)
            continue;
        if (len[g.n - 1] == 1)
            kept[g.n - 1] = keep;
        if (kept[g.n - 1] != keep) {
            kept[g.n] = keep;
            len[g.n++] = 1;
        }
        len[g.n - 1] *= x->dim[i];
    }
    for (int i = g.n - 1; i >= 0; i--) {
        g.len[i] = len[i];
        g.step[i] = kept[i] ? step : 0;
        step *= kept[i] ? len[i] : 1;
    }
    return g;
}

/* The offset of the next row in the output. */
static int64_t next_row(const struct groups *g, int64_t *idx, int64_t at)
{
    for (int i = g->n - 2; i >= 0; i--) {
        at += g->step[i];
        if (++idx[i] < g->len[i])
            return at;
        at -= g->step[i] * g->len[i];
        idx[i] = 0;
    }
    return at;
}

static int load(const struct pare_tensor *x, int64_t at, int64_t n, enum pare_dtype to, void *buf,
                struct pare_err *err)
{
    const char *src = (const char *)x->data + (size_t)at * pare_dtype_size(x->dtype);

    if (x->dtype == PARE_F32 && to == PARE_F64) {
        for (int64_t i = 0; i < n; i++)
            ((double *)buf)[i] = (double)pare_f32(x)[at + i];
        return 0;
    }
    return pare_convert(to, buf, x->dtype, src, n, err);
}

/* uint64 has its top bit flipped when order matters, so that it compares as int64. */
static void flip(const struct pare_tensor *t, int64_t *v, int64_t n)
{
    for (int64_t i = 0; t->dtype == PARE_U64 && i < n; i++)
        v[i] = (int64_t)((uint64_t)v[i] ^ (uint64_t)1 << 63);
}

PARE_FOLD(fold_max, double, PARE_FOLD_SELF, PARE_FOLD_MAX)

/* Fold all of x into acc; with top, subtract top[] of its output first. */
static int pass(const struct pare_tensor *x, const struct groups *g,
                void (*fold)(double *, const double *, int64_t, int64_t), double *acc,
                const double *top, struct pare_err *err)
{
    int64_t idx[PARE_MAX_RANK + 1] = { 0 }, at = 0, last = g->n - 1;
    double buf[CHUNK];

    for (int64_t row = 0; row < g->total; row += g->len[last], at = next_row(g, idx, at))
        for (int64_t i = 0; i < g->len[last]; i += CHUNK) {
            int64_t step = g->step[last], to = at + i * step;
            int64_t n = g->len[last] - i < CHUNK ? g->len[last] - i : CHUNK;

            PARE_TRY(load(x, row + i, n, PARE_F64, buf, err));
            for (int64_t k = 0; top && k < n; k++)
                buf[k] -= top[to + k * step];
            fold(acc + to, buf, n, step);
        }
    return 0;
}

static int reduce_float(const struct pare_tensor *x, const struct pare_tensor *y,
                        const struct groups *g, const struct pare_reduction *r, struct pare_ctx *c,
                        struct pare_err *err)
{
    int64_t n = pare_numel(y);
    double *acc = pare_alloc_raw(c->scratch, (size_t)n, sizeof(*acc));
    double *top = r->centered ? pare_alloc_raw(c->scratch, (size_t)n, sizeof(*top)) : NULL;

    if (!acc || (r->centered && !top))
        return pare_no_memory(err, "for %lld sums", (long long)n);
    for (int64_t i = 0; i < n; i++)
        acc[i] = r->start;
    if (top) {
        for (int64_t i = 0; i < n; i++)
            top[i] = -INFINITY;
        PARE_TRY(pass(x, g, fold_max, top, NULL, err));
        for (int64_t i = 0; i < n; i++)
            top[i] = isfinite(top[i]) ? top[i] : 0;
    }
    PARE_TRY(pass(x, g, r->fold, acc, top, err));
    for (int64_t i = 0; i < n; i++)
        acc[i] = (r->finish ? r->finish(acc[i], g->count) : acc[i]) + (top ? top[i] : 0);
    return pare_convert(y->dtype, y->data, PARE_F64, acc, n, err);
}

/* The lowest and highest value of a type in int64, with uint64 flipped. */
static void bounds(enum pare_dtype d, int64_t *lo, int64_t *hi)
{
    int bits = (int)pare_dtype_size(d) * 8;
    bool is_signed = d == PARE_I8 || d == PARE_I16 || d == PARE_I32;

    *lo = INT64_MIN;
    *hi = INT64_MAX;
    if (d == PARE_BOOL) {
        *lo = 0;
        *hi = 1;
    } else if (bits < 64) {
        *hi = (INT64_C(1) << (is_signed ? bits - 1 : bits)) - 1;
        *lo = is_signed ? -*hi - 1 : 0;
    }
}

static int reduce_int(const struct pare_tensor *x, const struct pare_tensor *y,
                      const struct groups *g, const struct pare_reduction *r, struct pare_ctx *c,
                      struct pare_err *err)
{
    int64_t n = pare_numel(y), idx[PARE_MAX_RANK + 1] = { 0 }, at = 0, last = g->n - 1, lo, hi;
    int64_t *acc = pare_alloc_raw(c->scratch, (size_t)n, sizeof(*acc)), buf[CHUNK];

    if (!acc)
        return pare_no_memory(err, "for %lld sums", (long long)n);
    for (int64_t i = 0; i < n; i++)
        acc[i] = r->start_int;
    for (int64_t row = 0; row < g->total; row += g->len[last], at = next_row(g, idx, at))
        for (int64_t i = 0; i < g->len[last]; i += CHUNK) {
            int64_t m = g->len[last] - i < CHUNK ? g->len[last] - i : CHUNK;

            PARE_TRY(load(x, row + i, m, PARE_I64, buf, err));
            if (r->ordered)
                flip(x, buf, m);
            r->fold_int(acc + at + i * g->step[last], buf, m, g->step[last]);
        }
    bounds(y->dtype, &lo, &hi);
    for (int64_t i = 0; i < n; i++) {
        acc[i] = r->finish_int ? r->finish_int(acc[i], g->count) : acc[i];
        if (r->ordered)
            acc[i] = acc[i] < lo ? lo : acc[i] > hi ? hi : acc[i];
    }
    if (r->ordered)
        flip(x, acc, n);
    return pare_convert(y->dtype, y->data, PARE_I64, acc, n, err);
}

int pare_reduce_forward(const struct pare_node *n, struct pare_ctx *c,
                        const struct pare_reduction *r, struct pare_err *err)
{
    const struct pare_tensor *x = &n->in[0]->t, *y = &n->out[0]->t;
    struct groups g;
    unsigned gone;

    if (!pare_numel(y))
        return 0;
    PARE_TRY(pare_reduce_axes(n, &gone, err));
    g = group(x, gone);
    if (x->dtype == PARE_F32 || x->dtype == PARE_F64 || !r->fold_int)
        return reduce_float(x, y, &g, r, c, err);
    return reduce_int(x, y, &g, r, c, err);
}

static void each_row(const struct groups *g, const struct pare_reduce_row *all,
                     void (*f)(const struct pare_reduce_row *))
{
    int64_t idx[PARE_MAX_RANK + 1] = { 0 }, at = 0, last = g->n - 1;

    for (int64_t row = 0; row < g->total; row += g->len[last], at = next_row(g, idx, at)) {
        struct pare_reduce_row r = {
            .x = all->x + row,
            .gx = all->gx + row,
            .y = all->y + at,
            .gy = all->gy + at,
            .n = g->len[last],
            .step = g->step[last],
            .count = g->count,
        };

        for (int i = 0; i < 2 && all->aux[i]; i++)
            r.aux[i] = all->aux[i] + at;
        f(&r);
    }
}

int pare_reduce_backward(const struct pare_node *n, struct pare_ctx *c,
                         const struct pare_reduce_slope *s, struct pare_err *err)
{
    const struct pare_value *x = n->in[0], *y = n->out[0];
    struct pare_reduce_row all = {
        .x = pare_f32(&x->t),
        .gx = pare_f32_mut(&x->grad),
        .y = pare_f32(&y->t),
        .gy = pare_f32(&y->grad),
    };
    int64_t count = pare_numel(&y->t);
    struct groups g;
    unsigned gone;

    if (!all.gx || !all.gy || !pare_numel(&x->t))
        return 0;
    PARE_TRY(pare_reduce_axes(n, &gone, err));
    g = group(&x->t, gone);
    for (int i = 0; s->gather && i < 2; i++) {
        all.aux[i] = pare_alloc_raw(c->scratch, (size_t)count, sizeof(double));
        if (!all.aux[i])
            return pare_no_memory(err, "for %lld sums", (long long)count);
        for (int64_t k = 0; k < count; k++)
            all.aux[i][k] = s->start[i];
    }
    if (s->gather)
        each_row(&g, &all, s->gather);
    each_row(&g, &all, s->spread);
    return 0;
}

static void tie_axes(const struct pare_node *n, bool adds, struct pare_ties *t)
{
    const struct pare_reduce *a = n->attr;
    struct pare_err err;
    unsigned gone;
    int to = 0;

    if (pare_reduce_axes(n, &gone, &err))
        return;
    for (int i = 0; i < n->in[0]->t.rank; i++) {
        if (!(gone >> i & 1))
            pare_tie(t, n->in[0], i, n->out[0], to);
        else if (adds)
            pare_tie_sum(t, n->in[0], i);
        to += !(gone >> i & 1) || a->keepdims;
    }
}

void pare_reduce_ties(const struct pare_node *n, struct pare_ties *t)
{
    tie_axes(n, false, t);
}

void pare_reduce_ties_sum(const struct pare_node *n, struct pare_ties *t)
{
    tie_axes(n, true, t);
}

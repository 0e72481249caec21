/* memory.c - place all buffers in one block of memory by their lifetimes.
 *
 * Each buffer in turn gets the lowest offset where it does not overlap a buffer that is alive at
 * the same time.  The order decides how well they fit: several orders are tried, each a few times
 * with the buffers that reached the top moved to the front, and the best one is improved by moving
 * single buffers.  Plans with more than MANY buffers use first fit in the order of time instead.
 * Views and in-place results use the memory of their source.
 */
#include "plan.h"

#include <stdlib.h>

#include "../base/rng.h"

#define ALIGN 64
#define TRIES 8       /* tries of each order */
#define MOVES 200     /* single buffers moved in the best order */
#define WORK 20000000 /* limit of moves times buffers squared */
#define MANY 4000     /* buffers; above this, first fit in the order of time */
#define GAPS 1000     /* gaps that first fit looks at */

static struct pare_buf *root_of(struct pare_buf *b)
{
    for (; b->root != b; b = b->root)
        b->root = b->root->root; /* keeps chains of views short */
    return b;
}

static void touch(struct pare_buf *b, int step)
{
    struct pare_buf *r = root_of(b);

    if (r->born < 0 || step < r->born)
        r->born = step;
    if (step > r->dies)
        r->dies = step;
}

static bool is_output(const struct pare_buf *b)
{
    return b->block == 1 && !b->is_grad && b->value->flags & PARE_V_OUTPUT;
}

static bool has_back(const struct pare_step *s)
{
    for (int k = 0; k < s->n_in; k++)
        if (s->in_buf[k]->grad)
            return true;
    return false;
}

/* Does backward() read the contents of input or output k? */
static bool reads(unsigned dropped, int k)
{
    return k > 31 || !(dropped >> k & 1);
}

/* For each root, the last step that reads its memory. */
static void note_uses(struct pare_plan *p)
{
    for (int i = 0; i < p->n_bufs; i++)
        p->all[i]->last = -1;
    for (int i = 0; i < p->n_steps; i++) {
        const struct pare_step *s = p->step[i];
        bool back = p->train && has_back(s);
        int later = 2 * p->n_steps - i;

        for (int k = 0; k < s->n_in; k++) {
            struct pare_buf *r = root_of(s->in_buf[k]);
            int use = back && reads(s->unsaved_in, k) ? later : i;

            r->last = use > r->last ? use : r->last;
        }
        for (int k = 0; k < s->n_out && back; k++) {
            struct pare_buf *r = root_of(s->out_buf[k]);

            if (reads(s->unsaved_out, k) && later > r->last)
                r->last = later;
        }
    }
    for (int i = 0; i < p->n_bufs; i++)
        if (is_output(p->all[i]) && root_of(p->all[i])->last < p->n_steps)
            root_of(p->all[i])->last = p->n_steps;
}

static bool is_view(const struct pare_step *s)
{
    return s->node->op->flags & (PARE_OP_VIEW | PARE_OP_OBSERVES) && !s->n_fused;
}

/* Does another input of the step share the memory that the result would overwrite? */
static bool read_twice(const struct pare_step *s)
{
    int same = 0;

    for (int k = 0; k < s->n_in; k++)
        same += root_of(s->in_buf[k]) == root_of(s->in_buf[s->inplace - 1]);
    return same > 1 && !is_view(s);
}

/* Let results share the memory of an input: a view always, since no step overwrites it while its
 * source is still read; an in-place step if nothing that shares the memory is read later. */
static void share(struct pare_plan *p, bool views)
{
    if (!views)
        note_uses(p);
    for (int i = 0; i < p->n_steps; i++) {
        struct pare_step *s = p->step[i];
        struct pare_buf *in, *out;

        if (!s->inplace || views != is_view(s))
            continue;
        in = s->in_buf[s->inplace - 1];
        out = s->out_buf[0];
        if (in->fixed || in->bytes != out->bytes || read_twice(s))
            continue;
        if (views || root_of(in)->last <= i) {
            struct pare_buf *r = root_of(in);

            r->last = root_of(out)->last > r->last ? root_of(out)->last : r->last;
            out->root = in;
        }
        if (views && out->grad && in->grad)
            out->grad->root = in->grad;
    }
}

/* Let the gradient of an input share the memory of the gradient of the result, if the step is the
 * first to write it: after the step's backward(), no step reads the gradient of the result. */
static void share_grads(struct pare_plan *p)
{
    for (int i = p->n_steps - 1; i >= 0; i--) {
        struct pare_step *s = p->step[i];
        int k = s->grad_inplace - 1;
        struct pare_buf *in, *out;

        if (k < 0 || !s->grad_assign[k] || !s->in_buf[k]->grad || !s->out_buf[0]->grad)
            continue;
        in = root_of(s->in_buf[k]->grad);
        out = root_of(s->out_buf[0]->grad);
        if (!in->fixed && !out->fixed && in != out && in->bytes == out->bytes)
            in->root = out;
    }
}

/* ---- placement ------------------------------------------------------------------ */

static int by_size(const void *a, const void *b)
{
    const struct pare_buf *x = *(struct pare_buf *const *)a, *y = *(struct pare_buf *const *)b;

    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x->born - y->born;
}

static int by_age(const void *a, const void *b)
{
    const struct pare_buf *x = *(struct pare_buf *const *)a, *y = *(struct pare_buf *const *)b;
    int d = (y->dies - y->born) - (x->dies - x->born);

    return d ? d : by_size(a, b);
}

/* By size times lifetime. */
static int by_area(const void *a, const void *b)
{
    const struct pare_buf *x = *(struct pare_buf *const *)a, *y = *(struct pare_buf *const *)b;
    double p = (double)x->bytes * (x->dies - x->born + 1);
    double q = (double)y->bytes * (y->dies - y->born + 1);

    return p < q ? 1 : p > q ? -1 : by_size(a, b);
}

static int by_birth(const void *a, const void *b)
{
    const struct pare_buf *x = *(struct pare_buf *const *)a, *y = *(struct pare_buf *const *)b;

    return x->born != y->born ? x->born - y->born : by_size(a, b);
}

static int by_offset(const void *a, const void *b)
{
    const struct pare_buf *x = *(struct pare_buf *const *)a, *y = *(struct pare_buf *const *)b;

    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static size_t rounded(size_t n)
{
    return (n + ALIGN - 1) & ~(size_t)(ALIGN - 1);
}

/* The lowest gap between placed buffers (sorted by offset) that are alive with b. */
static size_t find_gap(struct pare_buf *const *placed, int n, const struct pare_buf *b)
{
    size_t at = 0;

    for (int i = 0; i < n; i++) {
        const struct pare_buf *o = placed[i];

        if (o->dies < b->born || o->born > b->dies)
            continue;
        if (o->offset >= at + rounded(b->bytes))
            break;
        if (o->offset + rounded(o->bytes) > at)
            at = o->offset + rounded(o->bytes);
    }
    return at;
}

static void insert(struct pare_buf **placed, int n, struct pare_buf *b)
{
    int i = n;

    for (; i > 0 && by_offset(&placed[i - 1], &b) > 0; i--)
        placed[i] = placed[i - 1];
    placed[i] = b;
}

/* Place the buffers in this order; returns the bytes needed. */
static size_t place(struct pare_buf *const *order, struct pare_buf **placed, int n)
{
    size_t top = 0;

    for (int i = 0; i < n; i++) {
        size_t end;

        order[i]->offset = find_gap(placed, i, order[i]);
        insert(placed, i, order[i]);
        end = order[i]->offset + rounded(order[i]->bytes);
        top = end > top ? end : top;
    }
    return top;
}

/* A search for a good order. */
struct search {
    struct pare_buf **order, **best, **spare; /* to try, the best so far, working memory */
    int n;
    size_t least, bound; /* bytes of the best order; a lower bound of all */
};

static void copy(const struct search *s, struct pare_buf **to, struct pare_buf *const *from)
{
    if (s->n)
        memcpy(to, from, (size_t)s->n * sizeof(*to));
}

/* Place in s->order and keep the order if it is as good as the best; returns the bytes needed. */
static size_t try_order(struct search *s)
{
    size_t top = place(s->order, s->spare, s->n);

    if (top <= s->least) {
        s->least = top;
        copy(s, s->best, s->order);
    }
    return top;
}

/* Move the buffers that reach the top to the front of s->order; false: they are there. */
static bool promote(struct search *s, size_t top)
{
    int first = 0, last = s->n;
    bool moved = false;

    for (int i = s->n - 1; i >= 0; i--)
        if (s->order[i]->offset + rounded(s->order[i]->bytes) != top)
            s->spare[--last] = s->order[i];
    for (int i = 0; i < s->n; i++)
        if (s->order[i]->offset + rounded(s->order[i]->bytes) == top) {
            moved |= i != first;
            s->spare[first++] = s->order[i];
        }
    copy(s, s->order, s->spare);
    return moved;
}

/* s->order = the best order with one buffer moved. */
static void move_one(struct search *s, struct pare_rng *r)
{
    int from = (int)pare_rng_below(r, (uint64_t)s->n), to = (int)pare_rng_below(r, (uint64_t)s->n);
    struct pare_buf *b;

    copy(s, s->order, s->best);
    b = s->order[from];
    memmove(s->order + from, s->order + from + 1, (size_t)(s->n - 1 - from) * sizeof(*s->order));
    memmove(s->order + to + 1, s->order + to, (size_t)(s->n - 1 - to) * sizeof(*s->order));
    s->order[to] = b;
}

/* Assign offsets to all roots; returns the bytes needed. */
static size_t place_best(struct pare_buf *const *roots, struct search *s)
{
    static int (*const orders[])(const void *, const void *) = { by_size, by_area, by_age,
                                                                 by_birth };
    struct pare_rng r;

    s->least = SIZE_MAX;
    for (size_t k = 0; k < sizeof(orders) / sizeof(*orders); k++) {
        bool more = true;

        copy(s, s->order, roots);
        qsort(s->order, (size_t)s->n, sizeof(*s->order), orders[k]);
        for (int tries = 0; tries < TRIES && more && s->least > s->bound; tries++)
            more = promote(s, try_order(s));
    }
    pare_rng_init(&r, 1);
    for (int i = 0; i < MOVES && (int64_t)i * s->n * s->n < WORK && s->least > s->bound; i++) {
        move_one(s, &r);
        try_order(s);
    }
    return place(s->best, s->spare, s->n);
}

/* ---- first fit, for very many buffers -------------------------------------------- */

/* Free memory between buffers that are alive. */
struct gap {
    size_t at, bytes;
};

struct gaps {
    struct gap *list; /* sorted by offset */
    int n;
    size_t top;
};

/* The first of GAPS gaps that is large enough, else new memory on top. */
static size_t take_gap(struct gaps *g, size_t bytes)
{
    for (int i = 0; i < g->n && i < GAPS; i++) {
        size_t at = g->list[i].at;

        if (g->list[i].bytes < bytes)
            continue;
        g->list[i].at += bytes;
        g->list[i].bytes -= bytes;
        if (!g->list[i].bytes) {
            g->n--;
            memmove(g->list + i, g->list + i + 1, (size_t)(g->n - i) * sizeof(*g->list));
        }
        return at;
    }
    g->top += bytes;
    return g->top - bytes;
}

/* Insert a gap and merge it with its neighbors. */
static void give_gap(struct gaps *g, size_t at, size_t bytes)
{
    int lo = 0, hi = g->n;

    while (lo < hi) {
        int mid = (lo + hi) / 2;

        if (g->list[mid].at < at)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo < g->n && at + bytes == g->list[lo].at) {
        g->list[lo].at = at;
        g->list[lo].bytes += bytes;
    } else {
        memmove(g->list + lo + 1, g->list + lo, (size_t)(g->n - lo) * sizeof(*g->list));
        g->list[lo] = (struct gap){ at, bytes };
        g->n++;
    }
    if (lo > 0 && g->list[lo - 1].at + g->list[lo - 1].bytes == g->list[lo].at) {
        g->list[lo - 1].bytes += g->list[lo].bytes;
        g->n--;
        memmove(g->list + lo, g->list + lo + 1, (size_t)(g->n - lo) * sizeof(*g->list));
    }
}

static int by_death(const void *a, const void *b)
{
    const struct pare_buf *x = *(struct pare_buf *const *)a, *y = *(struct pare_buf *const *)b;

    return x->dies != y->dies ? x->dies - y->dies : by_birth(a, b);
}

/* First fit in the order of time. */
static size_t place_many(struct pare_buf *const *roots, struct search *s, struct gap *list)
{
    struct gaps g = { .list = list };
    int gone = 0;

    copy(s, s->order, roots);
    copy(s, s->spare, roots);
    qsort(s->order, (size_t)s->n, sizeof(*s->order), by_birth);
    qsort(s->spare, (size_t)s->n, sizeof(*s->spare), by_death);
    for (int i = 0; i < s->n; i++) {
        for (; s->spare[gone]->dies < s->order[i]->born; gone++)
            give_gap(&g, s->spare[gone]->offset, rounded(s->spare[gone]->bytes));
        s->order[i]->offset = take_gap(&g, rounded(s->order[i]->bytes));
    }
    return g.top;
}

/* The most bytes alive at any one step, a lower bound of all placements.  Fails when the sum of all
 * buffers overflows. */
static int most_alive(const struct pare_plan *p, struct pare_buf *const *roots, int n, size_t *most,
                      struct pare_err *err)
{
    size_t steps = (size_t)(p->train ? 2 : 1) * (size_t)p->n_steps + 2, all = 0, sum = 0;
    size_t *comes = pare_alloc(p->scratch, steps, sizeof(*comes));
    size_t *goes = pare_alloc(p->scratch, steps, sizeof(*goes));

    if (!comes || !goes)
        return pare_no_memory(err, "for the plan");
    for (int i = 0; i < n; i++) {
        if (__builtin_add_overflow(all, rounded(roots[i]->bytes), &all))
            return pare_fail(err, PARE_ELIMIT, "the results take more bytes than can be counted");
        comes[roots[i]->born] += rounded(roots[i]->bytes);
        goes[roots[i]->dies + 1] += rounded(roots[i]->bytes);
    }
    *most = 0;
    for (size_t k = 0; k < steps; k++) {
        sum = sum - goes[k] + comes[k];
        *most = sum > *most ? sum : *most;
    }
    return 0;
}

/* Time runs forward through the steps, then (training) through the loss at n_steps and backward
 * through the steps, whose backward() reads gradients and the inputs and results that it has not
 * dropped. */
static void step_lifetimes(struct pare_plan *p, int i)
{
    struct pare_step *s = p->step[i];
    int back = 2 * p->n_steps - i;

    for (int k = 0; k < s->n_in; k++)
        touch(s->in_buf[k], i);
    for (int k = 0; k < s->n_out; k++)
        touch(s->out_buf[k], i);
    if (s->work[0])
        touch(s->work[0], i);
    if (!has_back(s))
        return;
    if (s->work[1])
        touch(s->work[1], back);
    for (int k = 0; k < s->n_in; k++) {
        if (reads(s->unsaved_in, k))
            touch(s->in_buf[k], back);
        if (s->in_buf[k]->grad)
            touch(s->in_buf[k]->grad, back);
    }
    for (int k = 0; k < s->n_out; k++) {
        if (reads(s->unsaved_out, k))
            touch(s->out_buf[k], back);
        if (s->out_buf[k]->grad)
            touch(s->out_buf[k]->grad, back);
    }
}

static void lifetimes(struct pare_plan *p)
{
    for (int i = 0; i < p->graph->n_in; i++)
        for (struct pare_buf *b = p->buf[p->graph->in[i]->id]; b; b = b->next)
            if (b->block == 1)
                touch(b, 0);
    for (int i = 0; i < p->n_bufs; i++)
        if (is_output(p->all[i])) {
            touch(p->all[i], p->n_steps);
            if (p->all[i]->grad)
                touch(p->all[i]->grad, p->n_steps);
        }
    for (int i = 0; i < p->n_steps; i++)
        step_lifetimes(p, i);
}

/* Working memory that a step uses only during run() (dir 0) or backward() (dir 1). */
static int add_work(struct pare_plan *p, struct pare_step *s, int dir, struct pare_err *err)
{
    size_t bytes = s->work_bytes[dir];
    struct pare_buf *b, **all;

    if (dir && s->in_buf[0]->grad && !s->grad_assign[0])
        bytes += s->accumulate_bytes;
    if (!bytes)
        return 0;
    b = pare_alloc(p->arena, 1, sizeof(*b));
    all = pare_grow(p->arena, p->all, p->n_bufs, &p->cap_bufs, sizeof(*all));
    if (!b || !all)
        return pare_no_memory(err, "for the plan");
    *b = (struct pare_buf){ .value = s->out[0], .root = b, .born = -1, .bytes = bytes };
    p->all = all;
    p->all[p->n_bufs++] = b;
    s->work[dir] = b;
    return 0;
}

static int prepare(struct pare_plan *p, struct pare_err *err)
{
    share(p, true);
    if (p->train)
        PARE_TRY(pare_plan_first_writers(p, err));
    share(p, false);
    if (p->train)
        share_grads(p);
    for (int i = 0; i < p->n_steps; i++)
        for (int dir = 0; dir < (p->train ? 2 : 1); dir++)
            PARE_TRY(add_work(p, p->step[i], dir, err));
    lifetimes(p);
    return 0;
}

/* The buffers that have memory of their own. */
static int list_roots(const struct pare_plan *p, struct pare_buf **roots)
{
    int n = 0;

    for (int i = 0; i < p->n_bufs; i++)
        if (root_of(p->all[i]) == p->all[i] && !p->all[i]->fixed && p->all[i]->born >= 0 &&
            p->all[i]->value->t.dtype != PARE_NONE)
            roots[n++] = p->all[i];
    return n;
}

int pare_plan_place(struct pare_plan *p, struct pare_err *err)
{
    struct pare_buf **roots;
    struct search s = { 0 };
    struct gap *gaps;
    size_t count;

    PARE_TRY(prepare(p, err));
    count = (size_t)p->n_bufs;
    roots = pare_alloc(p->scratch, count, sizeof(*roots));
    s.order = pare_alloc(p->scratch, count, sizeof(*s.order));
    s.best = pare_alloc(p->scratch, count, sizeof(*s.best));
    s.spare = pare_alloc(p->scratch, count, sizeof(*s.spare));
    if (!roots || !s.order || !s.best || !s.spare)
        return pare_no_memory(err, "for the plan");
    s.n = list_roots(p, roots);
    PARE_TRY(most_alive(p, roots, s.n, &s.bound, err));
    p->needed_bytes = s.bound;
    gaps = s.n > MANY ? pare_alloc(p->scratch, count + 1, sizeof(*gaps)) : NULL;
    if (s.n > MANY && !gaps)
        return pare_no_memory(err, "for the plan");
    p->memory_bytes = gaps ? place_many(roots, &s, gaps) : place_best(roots, &s);
    p->memory = pare_alloc_raw(p->arena, p->memory_bytes, 1);
    if (!p->memory)
        return pare_no_memory(err, "for activations (%zu bytes)", p->memory_bytes);
    for (int i = 0; i < p->n_bufs; i++) {
        struct pare_buf *b = p->all[i], *r = root_of(b);

        if (!b->fixed && b->value->t.dtype != PARE_NONE && r->born >= 0)
            b->t.data = p->memory + r->offset;
    }
    return 0;
}

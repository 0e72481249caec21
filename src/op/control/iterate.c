/* iterate.c - repeated runs of a body: states, collected results, memory.
 *
 * The results of all runs are in one arena.  When it has grown, the states are copied to a new one,
 * so that a loop needs memory in proportion to its states, and copies each a few times only.
 */
#include "iterate.h"

#define LEAST ((size_t)16 << 20) /* bytes of results that are not worth a copy */

struct pare_piece {
    struct pare_tensor t;
    struct pare_piece *next;
};

/* A new arena that may take what the node's results may take: folding has a limit. */
static struct pare_arena *new_arena(const struct pare_iterate *it)
{
    struct pare_arena *a = pare_arena_new(1 << 16);

    if (a)
        pare_arena_limit(a, it->limit);
    return a;
}

/* An allocation that failed because of the limit counts as one of the node's results. */
static void free_arena(const struct pare_iterate *it, struct pare_arena *a)
{
    if (a && it->limit && pare_arena_limit(a, 0) <= PARE_ITERATE_EXHAUSTED)
        pare_arena_limit(it->c->results, PARE_ITERATE_EXHAUSTED);
    pare_arena_free(a);
}

int pare_iterate_start(struct pare_iterate *it, struct pare_err *err)
{
    it->limit = pare_arena_limit(it->c->results, 0);
    pare_arena_limit(it->c->results, it->limit);
    it->arena = new_arena(it);
    it->kept = new_arena(it);
    it->most = LEAST;
    if (it->kept) {
        it->in = pare_alloc(it->kept, (size_t)it->n_in, sizeof(*it->in));
        it->out = pare_alloc(it->kept, (size_t)it->n_out, sizeof(*it->out));
        it->first = pare_alloc(it->kept, (size_t)it->n_scan, sizeof(struct pare_piece *));
        it->last = pare_alloc(it->kept, (size_t)it->n_scan, sizeof(struct pare_piece *));
    }
    if (!it->arena || !it->kept || !it->in || !it->out || !it->first || !it->last)
        return pare_no_memory(err, "for iterations");
    return 0;
}

void pare_iterate_end(struct pare_iterate *it)
{
    free_arena(it, it->arena);
    free_arena(it, it->kept);
}

static int collect(struct pare_iterate *it, int k, const struct pare_tensor *t,
                   struct pare_err *err)
{
    struct pare_piece *p = pare_alloc(it->kept, 1, sizeof(*p));
    char was[PARE_SHAPE_TEXT], is[PARE_SHAPE_TEXT];

    if (!p)
        return pare_no_memory(err, "for iterations");
    if (!pare_is_tensor(t))
        return pare_fail(err, PARE_ESHAPE, "result %d of the body is %s, only tensors are stacked",
                         k, pare_dtype_name(t->dtype));
    if (it->first[k] &&
        (it->first[k]->t.dtype != t->dtype || !pare_same_shape(&it->first[k]->t, t)))
        return pare_fail(err, PARE_ESHAPE,
                         "result %d of the body is %s %s in iteration %lld and %s %s in the first; "
                         "only equal ones can be stacked",
                         k, pare_dtype_name(t->dtype), pare_shape_text(t, is, sizeof(is)),
                         (long long)it->runs, pare_dtype_name(it->first[k]->t.dtype),
                         pare_shape_text(&it->first[k]->t, was, sizeof(was)));
    PARE_TRY(pare_value_copy(it->kept, t, &p->t, err));
    if (it->last[k])
        it->last[k]->next = p;
    else
        it->first[k] = p;
    it->last[k] = p;
    return 0;
}

int pare_iterate_trim(struct pare_iterate *it, struct pare_err *err)
{
    struct pare_arena *a;
    int rc;

    if (pare_arena_bytes(it->arena) <= it->most)
        return 0;
    a = new_arena(it);
    rc = a ? 0 : pare_no_memory(err, "for iterations");
    for (int k = 0; k < it->n_state && !rc; k++)
        rc = pare_value_copy(a, &it->in[it->state_in + k], &it->in[it->state_in + k], err);
    if (rc) {
        free_arena(it, a);
        return rc;
    }
    pare_arena_free(it->arena);
    it->arena = a;
    it->most = 4 * pare_arena_bytes(a) > LEAST ? 4 * pare_arena_bytes(a) : LEAST;
    return 0;
}

int pare_iterate_run(struct pare_iterate *it, struct pare_err *err)
{
    struct pare_ctx c = *it->c;
    int rc;

    c.results = it->arena;
    rc = it->c->call(&c, it->body, it->in, it->n_in, it->out, it->n_out, err);
    it->c->calls_left = c.calls_left;
    PARE_TRY(rc);
    for (int k = 0; k < it->n_scan; k++)
        PARE_TRY(collect(it, k, &it->out[it->scan_out + k], err));
    for (int k = 0; k < it->n_state; k++)
        it->in[it->state_in + k] = it->out[it->state_out + k];
    it->runs++;
    return 0;
}

/* The shape of one collected result; without a run it is the declared one. */
static int piece_type(const struct pare_iterate *it, int k, struct pare_tensor *t,
                      struct pare_err *err)
{
    if (it->first[k]) {
        *t = it->first[k]->t;
        return 0;
    }
    it->c->declared(it->body, false, it->scan_out + k, t);
    if (t->dtype == PARE_NONE)
        return pare_fail(err, PARE_ESHAPE,
                         "the body runs 0 times, and the type of its result %d is not declared", k);
    t->rank = t->rank < 0 ? 0 : t->rank;
    for (int i = 0; i < t->rank; i++)
        t->dim[i] = t->dim[i] < 0 ? 0 : t->dim[i];
    return 0;
}

int pare_iterate_stack(struct pare_iterate *it, int k, const struct pare_stack *s,
                       struct pare_tensor *y, struct pare_err *err)
{
    struct pare_tensor t, e;
    int64_t outer = 1, at = s->reverse ? it->runs - 1 : 0;
    size_t inner;
    int axis;

    PARE_TRY(piece_type(it, k, &e, err));
    if (e.rank >= PARE_MAX_RANK)
        return pare_fail(err, PARE_ELIMIT, "the result has %d dimensions, at most %d are handled",
                         e.rank + 1, PARE_MAX_RANK);
    PARE_TRY(pare_axis(s->axis, e.rank + 1, &axis, err));
    t = e;
    t.rank = e.rank + 1;
    for (int i = axis + 1; i < t.rank; i++)
        t.dim[i] = e.dim[i - 1];
    t.dim[axis] = s->size;
    PARE_TRY(pare_tensor_new(it->c->results, y, t.dtype, t.rank, t.dim, err));
    if (!pare_numel(y))
        return 0;
    for (int i = 0; i < axis; i++)
        outer *= e.dim[i];
    inner = (size_t)(pare_numel(&e) / outer) * pare_dtype_size(e.dtype);
    for (const struct pare_piece *p = it->first[k]; p; p = p->next, at += s->reverse ? -1 : 1)
        for (int64_t o = 0; o < outer; o++)
            memcpy((char *)y->data + (size_t)(o * s->size + at) * inner,
                   (const char *)p->t.data + (size_t)o * inner, inner);
    return 0;
}

int pare_slice_copy(struct pare_arena *a, const struct pare_tensor *x, int axis, int64_t i,
                    struct pare_tensor *y, struct pare_err *err)
{
    int64_t outer = 1;
    struct pare_tensor t;
    size_t inner;

    pare_slice_type(x, axis, &t);
    PARE_TRY(pare_tensor_alloc(a, &t, err));
    *y = t;
    if (!pare_numel(&t))
        return 0;
    for (int k = 0; k < axis; k++)
        outer *= x->dim[k];
    inner = (size_t)(pare_numel(&t) / outer) * pare_dtype_size(x->dtype);
    for (int64_t o = 0; o < outer; o++)
        memcpy((char *)t.data + (size_t)o * inner,
               (const char *)x->data + (size_t)(o * x->dim[axis] + i) * inner, inner);
    return 0;
}

void pare_slice_type(const struct pare_tensor *x, int64_t axis, struct pare_tensor *y)
{
    int at = (int)(axis < 0 ? axis + x->rank : axis);

    if (x->dtype == PARE_NONE || at < 0 || at >= x->rank) {
        *y = (struct pare_tensor){ .dtype = PARE_NONE, .rank = -1 };
        return;
    }
    *y = *x;
    y->data = NULL;
    y->rank--;
    for (int i = at; i < y->rank; i++)
        y->dim[i] = x->dim[i + 1];
}

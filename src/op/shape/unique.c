/* unique.c - Unique: the distinct elements, or slices along an axis, and their indices.
 *
 * A stable sort of slice numbers makes equal slices adjacent, each group led by its first.
 */
#include "movement.h"

struct unique {
    int64_t axis, sorted;
};

#define NO_AXIS (-0x1p63) /* INT64_MIN: all elements, flattened */

static const struct pare_opt unique_attrs[] = {
    PARE_INT("axis", offsetof(struct unique, axis), "axis of the slices (default: single elements)",
             NO_AXIS, PARE_NO_MIN, PARE_NO_MAX),
    PARE_INT("sorted", offsetof(struct unique, sorted),
             "1: ascending order, 0: order of first occurrence", 1, 0, 1),
    PARE_OPT_END
};

/* The input as (outer, len, inner); slice s is all (o, s, i). */
struct slices {
    const struct pare_tensor *x;
    int axis;
    int64_t outer, len, inner;
};

static int compare_text(const struct pare_str *a, const struct pare_str *b)
{
    size_t least = a->len < b->len ? a->len : b->len;
    int order = least ? memcmp(a->s, b->s, least) : 0;

    return order ? order : (a->len > b->len) - (a->len < b->len);
}

static int compare_elements(const struct pare_tensor *x, int64_t i, int64_t j)
{
    double a, b;

    if (x->dtype == PARE_STR)
        return compare_text((const struct pare_str *)x->data + i,
                            (const struct pare_str *)x->data + j);
    if (x->dtype == PARE_I64)
        return (pare_i64(x)[i] > pare_i64(x)[j]) - (pare_i64(x)[i] < pare_i64(x)[j]);
    if (x->dtype == PARE_U64) {
        const uint64_t *u = x->data;

        return (u[i] > u[j]) - (u[i] < u[j]);
    }
    a = pare_get(x, i);
    b = pare_get(x, j);
    if (a != a || b != b)
        return (a != a) - (b != b); /* NaNs are equal and come last */
    return (a > b) - (a < b);
}

static int compare(const struct slices *s, int64_t a, int64_t b)
{
    int order = 0;

    for (int64_t o = 0; o < s->outer && !order; o++)
        for (int64_t i = 0; i < s->inner && !order; i++)
            order = compare_elements(s->x, (o * s->len + a) * s->inner + i,
                                     (o * s->len + b) * s->inner + i);
    return order;
}

/* Merge sort of v[0..n), bottom up. */
static void sort(const struct slices *s, int64_t *v, int64_t *spare, int64_t n)
{
    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t at = 0; at < n; at += 2 * width) {
            int64_t mid = at + width < n ? at + width : n;
            int64_t end = at + 2 * width < n ? at + 2 * width : n, i = at, j = mid;

            for (int64_t k = at; k < end; k++)
                spare[k] = j == end || (i < mid && compare(s, v[i], v[j]) <= 0) ? v[i++] : v[j++];
        }
        memcpy(v, spare, (size_t)n * sizeof(*v));
    }
}

struct groups {
    int64_t n;
    int64_t *first, *count; /* of each group: the first slice, number of slices */
    int64_t *of;            /* of each slice: its group; NULL: 0 */
};

/* Groups in the order of first occurrence; the first slice of a group is its smallest number. */
static void by_appearance(struct groups *g, int64_t len, int64_t *number, int64_t *spare)
{
    int64_t next = 0;

    for (int64_t i = 0; i < g->n; i++)
        number[i] = -1;
    for (int64_t s = 0; s < len; s++) {
        if (number[g->of[s]] < 0)
            number[g->of[s]] = next++;
        g->of[s] = number[g->of[s]];
    }
    for (int64_t i = 0; i < g->n; i++)
        spare[number[i]] = g->first[i];
    memcpy(g->first, spare, (size_t)g->n * sizeof(*spare));
    for (int64_t i = 0; i < g->n; i++)
        spare[number[i]] = g->count[i];
    memcpy(g->count, spare, (size_t)g->n * sizeof(*spare));
}

/* Slices without elements are equal, as in numpy: one group. */
static int group_hollow(int64_t len, struct pare_arena *a, struct groups *g, struct pare_err *err)
{
    *g = (struct groups){ .n = len > 0,
                          .first = pare_alloc(a, 1, sizeof(*g->first)),
                          .count = pare_alloc(a, 1, sizeof(*g->count)) };
    if (!g->first || !g->count)
        return pare_no_memory(err, "for a group of slices");
    *g->count = len;
    return 0;
}

static int group(const struct slices *s, bool sorted, struct pare_arena *a, struct groups *g,
                 struct pare_err *err)
{
    size_t len = (size_t)s->len;
    int64_t *order = pare_alloc(a, len, sizeof(*order));
    int64_t *spare = pare_alloc(a, len, sizeof(*spare));

    g->n = 0;
    g->first = pare_alloc(a, len, sizeof(*g->first));
    g->count = pare_alloc(a, len, sizeof(*g->count));
    g->of = pare_alloc(a, len, sizeof(*g->of));
    if (!order || !spare || !g->first || !g->count || !g->of)
        return pare_no_memory(err, "to sort %zu slices", len);
    for (int64_t i = 0; i < s->len; i++)
        order[i] = i;
    sort(s, order, spare, s->len);
    for (int64_t i = 0; i < s->len; i++) {
        if (!i || compare(s, order[i - 1], order[i]))
            g->first[g->n++] = order[i];
        g->count[g->n - 1]++;
        g->of[order[i]] = g->n - 1;
    }
    if (!sorted && s->len)
        by_appearance(g, s->len, order, spare);
    return 0;
}

/* Output i as a list of int64; NULL: zeros. */
static int put_list(struct pare_node *n, int i, const int64_t *v, int64_t count, struct pare_ctx *c,
                    struct pare_err *err)
{
    if (i >= n->n_out || !n->out[i])
        return 0;
    PARE_TRY(pare_tensor_new(c->results, &n->out[i]->t, PARE_I64, 1, &count, err));
    if (count && v)
        memcpy(n->out[i]->t.data, v, (size_t)count * sizeof(*v));
    return 0;
}

static int put_slices(struct pare_node *n, const struct slices *s, const struct groups *g,
                      struct pare_ctx *c, struct pare_err *err)
{
    struct pare_tensor *y = &n->out[0]->t;
    size_t run = (size_t)s->inner * pare_dtype_size(s->x->dtype);
    const char *src = s->x->data;
    char *dst;

    pare_like(y, s->x);
    if (s->axis < 0)
        y->rank = 1;
    y->dim[s->axis < 0 ? 0 : s->axis] = g->n;
    PARE_TRY(pare_tensor_alloc(c->results, y, err));
    dst = y->data;
    for (int64_t o = 0; run && g->n && o < s->outer; o++, src += (size_t)s->len * run)
        for (int64_t i = 0; i < g->n; i++, dst += run)
            pare_copy_one(dst, src + (size_t)g->first[i] * run, run);
    return 0;
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    const struct unique *a = n->attr;
    const struct pare_tensor *x = &n->in[0]->t;
    struct slices s = { x, -1, 1, pare_numel(x), 1 };
    struct groups g;

    if (a->axis != INT64_MIN) {
        PARE_TRY(pare_axis(a->axis, x->rank, &s.axis, err));
        s.outer = pare_span(x, 0, s.axis);
        s.len = x->dim[s.axis];
        s.inner = pare_span(x, s.axis + 1, x->rank);
    }
    if (s.outer && s.inner)
        PARE_TRY(group(&s, a->sorted, c->scratch, &g, err));
    else
        PARE_TRY(group_hollow(s.len, c->scratch, &g, err));
    PARE_TRY(put_slices(n, &s, &g, c, err));
    PARE_TRY(put_list(n, 1, g.first, g.n, c, err));
    PARE_TRY(put_list(n, 2, g.of, s.len, c, err));
    return put_list(n, 3, g.count, g.n, c, err);
}

const struct pare_op pare_op_unique = {
    .type = "Unique",
    .doc = "The distinct elements, or slices, and their indices.",
    .since = 11,
    .in = "A",
    .min_out = 1,
    .max_out = 4,
    .attrs = unique_attrs,
    .attr_size = sizeof(struct unique),
    .flags = PARE_OP_ALLOCS | PARE_OP_STEPS,
    .forward = forward,
};

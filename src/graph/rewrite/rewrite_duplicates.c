/* rewrite_duplicates.c - compute once what several nodes compute from the same inputs (common
 * subexpressions). */
#include <stdint.h>
#include <string.h>

#include "../../base/arena.h"
#include "../../op/op.h"
#include "../../tensor/tensor.h"
#include "rewrite.h"

#define SMALL_BYTES 256 /* constants up to this size are compared by their elements */

/* A hash table with linear probing of nodes, or of constants. */
struct table {
    void **slot;
    size_t mask;
};

static int open_table(struct pare_rewriter *r, size_t n, struct table *t, struct pare_err *err)
{
    size_t size = 64;

    while (size < 2 * n)
        size *= 2;
    t->slot = pare_alloc(r->scratch, size, sizeof(void *));
    t->mask = size - 1;
    return t->slot ? 0 : pare_no_memory(err, "to rewrite the graph");
}

static uint64_t mix(uint64_t h, const void *data, size_t n)
{
    return (h ^ pare_hash(data, n)) * 0x9e3779b97f4a7c15u;
}

/* ---- constants ------------------------------------------------------------------------------- */

static size_t small_size(const struct pare_value *v)
{
    struct pare_err err;
    size_t bytes;

    if (!v || !(v->flags & PARE_V_CONST) || !v->t.data || v->t.dtype == PARE_STR ||
        pare_tensor_size(&v->t, NULL, &bytes, &err) || bytes > SMALL_BYTES)
        return 0;
    return bytes;
}

static bool same_constant(const struct pare_value *a, const struct pare_value *b)
{
    return a->t.dtype == b->t.dtype && pare_same_shape(&a->t, &b->t) &&
           !memcmp(a->t.data, b->t.data, small_size(a));
}

/* The first constant that is equal to v; v itself if it is large or not a constant. */
static const struct pare_value *first_equal(const struct table *t, const struct pare_value *v)
{
    size_t n = small_size(v);
    uint64_t h;

    if (!n)
        return v;
    h = mix((uint64_t)v->t.rank + 16 * (uint64_t)v->t.dtype, v->t.data, n);
    for (size_t i = h >> 20 & t->mask;; i = (i + 1) & t->mask) {
        if (!t->slot[i])
            t->slot[i] = (void *)(uintptr_t)v;
        if (t->slot[i] == v || same_constant(t->slot[i], v))
            return t->slot[i];
    }
}

/* ---- attributes ------------------------------------------------------------------------------ */

static bool same_list(const void *a, int na, const void *b, int nb, size_t size)
{
    return na == nb && (!na || !memcmp(a, b, (size_t)na * size));
}

static bool same_texts(const struct pare_strs *a, const struct pare_strs *b)
{
    for (int i = 0; i < a->n && a->n == b->n; i++)
        if (strcmp(a->v[i], b->v[i]) != 0)
            return false;
    return a->n == b->n;
}

/* Compare one attribute; tensors and graphs are the same only if they are one. */
static bool same_attr(const struct pare_opt *o, const void *a, const void *b)
{
    const struct pare_ints *i = a, *j = b;
    const struct pare_floats *f = a, *g = b;
    const char *const *s = a, *const *t = b;

    switch (o->type) {
    case PARE_OPT_BOOL: return *(const bool *)a == *(const bool *)b;
    case PARE_OPT_INT: return *(const int64_t *)a == *(const int64_t *)b;
    case PARE_OPT_FLOAT: return !memcmp(a, b, sizeof(double));
    case PARE_OPT_STR: return *s == *t || (*s && *t && !strcmp(*s, *t));
    case PARE_OPT_INTS: return same_list(i->v, i->n, j->v, j->n, sizeof(*i->v));
    case PARE_OPT_FLOATS: return same_list(f->v, f->n, g->v, g->n, sizeof(*f->v));
    case PARE_OPT_STRS: return same_texts(a, b);
    case PARE_OPT_TENSOR:
    case PARE_OPT_GRAPH: return !memcmp(a, b, sizeof(void *));
    }
    return false;
}

static bool same_attrs(const struct pare_node *a, const struct pare_node *b)
{
    for (const struct pare_opt *o = a->op->attrs; o && o->name && a->attr != b->attr; o++)
        if (!same_attr(o, (const char *)a->attr + o->offset, (const char *)b->attr + o->offset))
            return false;
    return true;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

struct search {
    struct pare_rewriter *r;
    struct table nodes, constants;
};

static const struct pare_value *input(const struct search *s, const struct pare_node *n, int k)
{
    const struct pare_value *v = n->in[k];

    while (v && v->id < s->r->cap && s->r->g->value[v->id] == v && s->r->alias[v->id])
        v = s->r->alias[v->id];
    return v ? first_equal(&s->constants, v) : NULL;
}

static bool same_node(const struct search *s, const struct pare_node *a, const struct pare_node *b)
{
    if (a->op != b->op || a->version != b->version || a->n_in != b->n_in || a->n_out != b->n_out ||
        !same_attrs(a, b))
        return false;
    for (int k = 0; k < a->n_in; k++)
        if (input(s, a, k) != input(s, b, k))
            return false;
    for (int k = 0; k < a->n_out; k++)
        if (!a->out[k] != !b->out[k])
            return false;
    return true;
}

/* Nodes that draw random numbers, learn, run bodies or handle lists are never duplicates. */
static bool is_pure(const struct pare_node *n)
{
    if (!n->op || n->replaced || n->n_cap || !n->n_in || !n->n_out ||
        n->op->flags & (PARE_OP_RANDOM | PARE_OP_LEARNS | PARE_OP_OBSERVES | PARE_OP_LAZY) ||
        pare_node_body(n, 0, NULL))
        return false;
    for (int k = 0; k < n->n_out; k++)
        if (n->out[k] && (n->out[k]->flags & PARE_V_CONST || n->out[k]->t.dtype == PARE_NONE))
            return false;
    return true;
}

/* Let the consumers of n read the results of `first`, which are the same. */
static bool share(struct pare_rewriter *r, const struct pare_node *n, const struct pare_node *first)
{
    for (int k = 0; k < n->n_out; k++)
        if (n->out[k] && r->pinned[n->out[k]->id] && (n->n_out > 1 || r->pinned[first->out[k]->id]))
            return false;
    for (int k = 0; k < n->n_out; k++)
        if (n->out[k])
            pare_rewrite_replace(r, n->out[k], first->out[k]);
    return true;
}

static uint64_t hash_node(const struct search *s, const struct pare_node *n)
{
    uint64_t h = (uint64_t)n->n_in;

    h = mix(h, &n->op, sizeof(n->op));
    for (int k = 0; k < n->n_in; k++) {
        const struct pare_value *v = input(s, n, k);

        h = mix(h, &v, sizeof(v)) + (uint64_t)k;
    }
    return h;
}

static void look_up(const struct search *s, struct pare_node *n)
{
    for (size_t i = hash_node(s, n) >> 20 & s->nodes.mask;; i = (i + 1) & s->nodes.mask) {
        struct pare_node *other = s->nodes.slot[i];

        if (!other) {
            s->nodes.slot[i] = n;
            return;
        }
        if (!other->replaced && same_node(s, other, n) && share(s->r, n, other))
            return;
    }
}

static int find_duplicates(struct pare_rewriter *r, struct pare_err *err)
{
    struct search s = { .r = r };

    PARE_TRY(open_table(r, (size_t)r->g->n_nodes, &s.nodes, err));
    PARE_TRY(open_table(r, (size_t)r->g->n_values, &s.constants, err));
    for (int i = 0; i < r->g->n_nodes; i++)
        if (is_pure(r->g->node[i]))
            look_up(&s, r->g->node[i]);
    return 0;
}

const struct pare_rewrite pare_rewrite_duplicates = {
    .name = "duplicates",
    .doc = "compute once what several nodes compute from the same inputs",
    .any_shape = true,
    .late = true,
    .graph = find_duplicates,
};

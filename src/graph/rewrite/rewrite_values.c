/* rewrite_values.c - values, constants and nodes that rewrites read and add. */
#include <string.h>

#include "../../base/arena.h"
#include "../../op/op.h"
#include "../../tensor/tensor.h"
#include "rewrite.h"

static void *no_memory(struct pare_err *err)
{
    pare_no_memory(err, "to rewrite the graph");
    return NULL;
}

/* ---- reading --------------------------------------------------------------------------------- */

bool pare_rewrite_const(const struct pare_value *v)
{
    return v && v->flags & PARE_V_CONST && v->t.rank >= 0 && pare_is_tensor(&v->t) &&
           (v->t.data || v->raw || v->maker);
}

int pare_rewrite_load(struct pare_rewriter *r, struct pare_value *v, struct pare_err *err)
{
    return pare_value_load(r->g->arena, v, err);
}

bool pare_rewrite_scalar(struct pare_rewriter *r, struct pare_value *v, double *x)
{
    struct pare_err err;

    if (!pare_rewrite_const(v) || v->t.dtype != PARE_F32 || pare_numel(&v->t) != 1 ||
        pare_rewrite_load(r, v, &err))
        return false;
    *x = (double)pare_f32(&v->t)[0];
    return true;
}

int pare_rewrite_ints(struct pare_rewriter *r, struct pare_value *v, int64_t *list, int most)
{
    struct pare_err err;
    int n;

    if (!pare_rewrite_const(v) || (v->t.dtype != PARE_I64 && v->t.dtype != PARE_I32) ||
        v->t.rank > 1 || pare_rewrite_load(r, v, &err) ||
        pare_int_list(&v->t, list, most, &n, &err))
        return -1;
    return n;
}

struct pare_node *pare_rewrite_maker(const struct pare_value *v, const struct pare_op *op)
{
    struct pare_node *n = v && !(v->flags & PARE_V_CONST) ? v->maker : NULL;

    return pare_node_is(n, op) && !n->replaced ? n : NULL;
}

bool pare_rewrite_same_shape(const struct pare_rewriter *r, const struct pare_value *a,
                             const struct pare_value *b)
{
    if (a->t.rank < 0 || !pare_same_shape(&a->t, &b->t) || r->opts->unknown_sizes)
        return false;
    for (int i = 0; r->files && i < PARE_OTHER_SIZES; i++) {
        const struct pare_value *x = pare_value_at(r->g, a, i), *y = pare_value_at(r->g, b, i);

        if (r->g->other[i] && (!x || !y || !pare_same_shape(&x->t, &y->t)))
            return false;
    }
    return true;
}

bool pare_rewrite_same_size(const struct pare_rewriter *r, const struct pare_value *a, int i,
                            const struct pare_value *b, int k)
{
    if (a->t.dim[i] != b->t.dim[k] || r->opts->unknown_sizes)
        return false;
    for (int o = 0; r->files && o < PARE_OTHER_SIZES; o++) {
        const struct pare_value *x = pare_value_at(r->g, a, o), *y = pare_value_at(r->g, b, o);

        if (r->g->other[o] &&
            (!x || !y || x->t.rank <= i || y->t.rank <= k || x->t.dim[i] != y->t.dim[k]))
            return false;
    }
    return true;
}

/* ---- new values ------------------------------------------------------------------------------ */

/* An array of `cap` elements that begins with the `had` ones of `from`; NULL: no memory. */
static void *longer(const struct pare_rewriter *r, const void *from, size_t had, size_t cap,
                    size_t size)
{
    void *to = pare_alloc(r->scratch, cap, size);

    if (to && had)
        memcpy(to, from, had * size);
    return to;
}

int pare_rewrite_grow(struct pare_rewriter *r, struct pare_err *err)
{
    const size_t had = (size_t)r->cap, cap = (size_t)r->g->n_values * 2 + 64;

    if (r->g->n_values <= r->cap)
        return 0;
    r->uses = longer(r, r->uses, had, cap, sizeof(*r->uses));
    r->pinned = longer(r, r->pinned, had, cap, sizeof(*r->pinned));
    r->reader = longer(r, r->reader, had, cap, sizeof(struct pare_node *));
    r->alias = longer(r, r->alias, had, cap, sizeof(struct pare_value *));
    r->free_axes = longer(r, r->free_axes, had, cap, sizeof(*r->free_axes));
    if (!r->uses || !r->pinned || !r->reader || !r->alias || !r->free_axes)
        return pare_no_memory(err, "to rewrite the graph");
    r->cap = (int)cap;
    return 0;
}

static struct pare_value *name_value(struct pare_rewriter *r, const char *base,
                                     struct pare_err *err)
{
    const char *name = pare_sprintf(r->g->arena, "%s.%d", base, r->g->n_values);
    struct pare_value *v;

    while (name && pare_graph_find(r->g, name))
        name = pare_sprintf(r->g->arena, "%s+", name);
    v = name ? pare_graph_value(r->g, name, err) : no_memory(err);
    return !v || pare_rewrite_grow(r, err) ? NULL : v;
}

static void permute(struct pare_tensor *t, const struct pare_tensor *like, const int *perm)
{
    *t = *like;
    t->data = NULL;
    for (int i = 0; perm && i < like->rank; i++)
        t->dim[i] = like->dim[perm[i]];
}

/* The same value in the graphs for other sizes of free dimensions. */
static int add_elsewhere(const struct pare_rewriter *r, const struct pare_value *v,
                         const struct pare_value *like, const int *perm, struct pare_err *err)
{
    for (int i = 0; r->files && i < PARE_OTHER_SIZES; i++) {
        struct pare_graph *o = (struct pare_graph *)r->g->other[i];
        const struct pare_value *from = o && like ? pare_value_at(r->g, like, i) : NULL;
        struct pare_value *to = o ? pare_graph_value(o, v->name, err) : NULL;

        if (!o)
            continue;
        if (!to)
            return err->code;
        permute(&to->t, from ? &from->t : &v->t, from ? perm : NULL);
        if (from && from->t.rank != v->t.rank)
            to->t = (struct pare_tensor){ .dtype = PARE_NONE, .rank = -1 };
    }
    return 0;
}

struct pare_value *pare_rewrite_value(struct pare_rewriter *r, const struct pare_value *like,
                                      const int *perm, struct pare_err *err)
{
    struct pare_value *v = name_value(r, like->name, err);
    unsigned axes = 0;

    if (!v)
        return NULL;
    permute(&v->t, &like->t, perm);
    if (add_elsewhere(r, v, like, perm, err))
        return NULL;
    for (int i = 0; i < like->t.rank; i++)
        axes |= (r->free_axes[like->id] >> (perm ? perm[i] : i) & 1) << i;
    r->free_axes[v->id] = axes;
    return v;
}

struct pare_value *pare_rewrite_constant(struct pare_rewriter *r, const char *base,
                                         const struct pare_tensor *t, struct pare_err *err)
{
    struct pare_value *v = name_value(r, base, err);

    if (!v)
        return NULL;
    v->t = *t;
    v->t.data = NULL;
    v->flags = PARE_V_CONST;
    if (add_elsewhere(r, v, NULL, NULL, err) || pare_tensor_alloc(r->g->arena, &v->t, err))
        return NULL;
    return v;
}

struct pare_value *pare_rewrite_int_list(struct pare_rewriter *r, const char *base,
                                         const int64_t *list, int n, struct pare_err *err)
{
    struct pare_tensor t = { .dtype = PARE_I64, .rank = 1, .dim = { n } };
    struct pare_value *v = pare_rewrite_constant(r, base, &t, err);

    if (v && n)
        memcpy(v->t.data, list, (size_t)n * sizeof(*list));
    return v;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

int pare_rewrite_arity(struct pare_rewriter *r, struct pare_node *n, int n_in, struct pare_err *err)
{
    struct pare_value **list = pare_alloc(r->g->arena, (size_t)n_in + 1, sizeof(*list));

    if (!list)
        return pare_no_memory(err, "to rewrite the graph");
    for (int k = n_in; k < n->n_in; k++)
        pare_rewrite_input(r, n, k, NULL);
    for (int k = 0; k < n_in && k < n->n_in; k++)
        list[k] = n->in[k];
    n->in = list;
    n->n_in = n_in;
    return 0;
}

void *pare_rewrite_attrs(struct pare_rewriter *r, struct pare_node *n, struct pare_err *err)
{
    void *attr = pare_alloc(r->g->arena, 1, n->op->attr_size + 1);

    if (!attr)
        return no_memory(err);
    if (n->attr)
        memcpy(attr, n->attr, n->op->attr_size);
    n->attr = attr;
    r->changes++;
    return attr;
}

static int set_attrs(struct pare_rewriter *r, struct pare_node *n, const struct pare_setting *set,
                     int n_set, struct pare_err *err)
{
    void *attr = pare_alloc(r->g->arena, 1, n->op->attr_size + 1);

    if (!attr)
        return pare_no_memory(err, "to rewrite the graph");
    n->attr = attr;
    r->changes++;
    return n->op->attrs ? pare_opts_apply(n->op->attrs, set, n_set, attr, r->g->arena, err) : 0;
}

int pare_rewrite_become(struct pare_rewriter *r, struct pare_node *n, const struct pare_op *op,
                        const struct pare_setting *set, struct pare_err *err)
{
    n->op = op;
    n->type = op->type;
    n->domain = op->domain ? op->domain : "";
    return set_attrs(r, n, set, set != NULL, err);
}

struct pare_ints pare_rewrite_list(struct pare_rewriter *r, const int64_t *v, int n)
{
    int64_t *list = pare_alloc(r->g->arena, (size_t)n + 1, sizeof(*list));

    if (list && n)
        memcpy(list, v, (size_t)n * sizeof(*v));
    return (struct pare_ints){ list, n };
}

struct pare_node *pare_rewrite_add(struct pare_rewriter *r, const struct pare_op *op,
                                   const struct pare_node *near, int n_in, struct pare_value *y,
                                   const struct pare_setting *set, struct pare_err *err)
{
    struct pare_node *n = pare_graph_add(r->g, n_in, 1, err);

    if (!n)
        return NULL;
    n->op = op;
    n->type = op->type;
    n->domain = op->domain ? op->domain : "";
    n->name = near->name;
    n->version = r->version;
    n->out[0] = y;
    y->maker = n;
    r->added = true;
    return set_attrs(r, n, set, set != NULL, err) ? NULL : n;
}

int pare_rewrite_transpose(struct pare_rewriter *r, const struct pare_node *near,
                           struct pare_value *x, const int *perm, struct pare_value *y,
                           struct pare_err *err)
{
    int64_t list[PARE_MAX_RANK];
    struct pare_setting set = { .name = "perm", .type = PARE_OPT_INTS };
    struct pare_node *n;

    for (int i = 0; i < x->t.rank; i++)
        list[i] = perm[i];
    set.ints = pare_rewrite_list(r, list, x->t.rank);
    if (!set.ints.v)
        return pare_no_memory(err, "to rewrite the graph");
    n = pare_rewrite_add(r, &pare_op_transpose, near, 1, y, &set, err);
    if (!n)
        return err->code;
    pare_rewrite_input(r, n, 0, x);
    return 0;
}

/* ---- computed nodes -------------------------------------------------------------------------- */

bool pare_rewrite_folds(const struct pare_rewriter *r, const struct pare_value *v)
{
    if (!pare_rewrite_const(v) || (v->maker && v->maker->op && v->maker->op->flags & PARE_OP_LAZY))
        return false;
    return !r->files || r->uses[v->id] <= 1;
}

/* Compute the node's result, a constant. */
static struct pare_value *compute(struct pare_rewriter *r, struct pare_node *n,
                                  struct pare_err *err)
{
    struct pare_arena *scratch = pare_arena_new(1 << 12);
    struct pare_ctx c = { .scratch = scratch, .results = r->g->arena, .threads = 1 };
    struct pare_value shape = { .name = n->in[0]->name }, *v = NULL;

    n->out[0] = &shape;
    if (!scratch) {
        no_memory(err);
    } else if (!pare_node_infer(n, err)) {
        v = pare_rewrite_constant(r, shape.name, &shape.t, err);
        n->out[0] = v;
        if (v && pare_node_forward(n, &c, err))
            v = NULL;
    }
    pare_arena_free(scratch);
    return v;
}

/* Infer the shape of the node's result in a graph of other sizes. */
static int infer_elsewhere(const struct pare_rewriter *r, const struct pare_node *n, int i,
                           struct pare_err *err)
{
    struct pare_graph *o = (struct pare_graph *)r->g->other[i];
    struct pare_value *y = pare_graph_value(o, n->out[0]->name, err), *in[2] = { NULL, NULL };
    struct pare_node at = *n;
    struct pare_err why;

    if (!y)
        return err->code;
    y->t = (struct pare_tensor){ .dtype = PARE_NONE, .rank = -1 };
    for (int k = 0; k < n->n_in; k++) {
        const bool fixed = n->in[k]->flags & PARE_V_CONST;

        in[k] = fixed ? n->in[k] : (struct pare_value *)(uintptr_t)pare_value_at(r->g, n->in[k], i);
        if (!in[k] || in[k]->t.dtype == PARE_NONE)
            return 0;
    }
    at.in = in;
    at.out = &y;
    if (pare_node_infer(&at, &why))
        y->t = (struct pare_tensor){ .dtype = PARE_NONE, .rank = -1 };
    return 0;
}

static int add_node(struct pare_rewriter *r, const struct pare_rewrite_new *new, int n_in,
                    struct pare_value *v, struct pare_err *err)
{
    struct pare_node *n = pare_rewrite_add(r, new->op, new->near, n_in, v, NULL, err);

    if (!n)
        return err->code;
    PARE_TRY(set_attrs(r, n, new->set, new->n_set, err));
    for (int k = 0; k < n_in; k++)
        pare_rewrite_input(r, n, k, new->in[k]);
    PARE_TRY(pare_node_infer(n, err));
    for (int i = 0; r->files && i < PARE_OTHER_SIZES; i++)
        if (r->g->other[i])
            PARE_TRY(infer_elsewhere(r, n, i, err));
    r->free_axes[v->id] = pare_rewrite_free_axes(r, v);
    return 0;
}

struct pare_value *pare_rewrite_emit(struct pare_rewriter *r, const struct pare_rewrite_new *new,
                                     struct pare_err *err)
{
    const int n_in = new->in[1] ? 2 : 1;
    bool known = pare_rewrite_folds(r, new->in[0]);
    struct pare_value *v, *in[2] = { new->in[0], new->in[1] };

    if (n_in > 1)
        known &= pare_rewrite_const(new->in[1]);
    if (known) {
        struct pare_node n = { .op = new->op,
                               .type = new->op->type,
                               .name = new->near->name,
                               .version = r->version,
                               .in = in,
                               .n_in = n_in,
                               .out = &v,
                               .n_out = 1 };

        for (int k = 0; k < n_in; k++)
            if (pare_rewrite_load(r, in[k], err))
                return NULL;
        return set_attrs(r, &n, new->set, new->n_set, err) ? NULL : compute(r, &n, err);
    }
    v = name_value(r, new->near->n_out &&new->near->out[0] ? new->near->out[0]->name : "value",
                   err);
    return !v || add_node(r, new, n_in, v, err) ? NULL : v;
}

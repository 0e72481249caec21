/* batch_constants.c - rewrite constants that contain a fixed batch of 1: Reshape, Expand, states.
 *
 * The graph is inferred node by node with a batch of 1 and with a batch of 2.  The axis whose size
 * doubles has the items.  A Reshape with a constant shape gets 0 or -1 in the place of the batch.
 * Where a node needs the batch in an input that does not depend on the model's inputs (a class
 * token for Concat, the initial state of an LSTM, made by Expand, ConstantOfShape or Tile of a
 * constant or stored as a constant), an Expand to the size of the batch precedes it.
 */
#include <string.h>

#include "../../base/arena.h"
#include "../../base/options.h"
#include "../../op/op.h"
#include "../../tensor/tensor.h"
#include "free_batch.h"

struct walk {
    const struct pare_model *m;
    struct pare_edit *e;
    struct pare_arena *a;
    struct pare_graph *one, *two; /* inferred with a batch of 1, of 2 */
    const char *size;             /* the name of the batch size as a tensor (1); NULL: not made */
    bool sizes_free;              /* inputs have other free dimensions, too */
    int64_t count;
};

/* The axis that is twice as long with two items; -1: none or several. */
static int item_axis(const struct pare_tensor *one, const struct pare_tensor *two)
{
    int axis = -1;

    if (one->dtype == PARE_NONE || two->dtype == PARE_NONE || one->rank != two->rank)
        return -1;
    for (int i = 0; i < one->rank; i++)
        if (one->dim[i] != two->dim[i]) {
            if (axis >= 0 || two->dim[i] != 2 * one->dim[i])
                return -1;
            axis = i;
        }
    return axis;
}

static int infer_one(struct pare_graph *g, int i, struct pare_err *err)
{
    struct pare_graph part = *g;

    part.node = g->node + i;
    part.n_nodes = 1;
    return pare_graph_infer(&part, false, err);
}

/* ---- Reshape --------------------------------------------------------------------------------- */

/* The constant shape of a Reshape, equal with both batches; NULL: none. */
static const struct pare_tensor *fixed_shape(const struct walk *w, int i)
{
    const struct pare_node *n = w->one->node[i], *t = w->two->node[i];
    const struct pare_value *s = n->n_in > 1 ? n->in[1] : NULL, *s2 = s ? t->in[1] : NULL;

    if (!pare_node_is(n, &pare_op_reshape) || !s || !(s->flags & PARE_V_CONST) || !s->t.data ||
        s->t.dtype != PARE_I64 || !s2 || !s2->t.data || !pare_same_shape(&s->t, &s2->t) ||
        !pare_model_has_node(w->m, n) || pare_numel(&s->t) > PARE_MAX_RANK)
        return NULL;
    return memcmp(s->t.data, s2->t.data, (size_t)pare_numel(&s->t) * sizeof(int64_t)) ? NULL
                                                                                      : &s->t;
}

/* The axis of y with the items if x has them on axis a: as many elements precede it. */
static int place_of(const struct pare_tensor *x, int a, const struct pare_tensor *y)
{
    int64_t before = 1, sum = 1;

    for (int i = 0; i < a; i++)
        before *= x->dim[i];
    for (int i = 0; i < y->rank; i++) {
        if (sum == before)
            return i;
        sum *= y->dim[i];
    }
    return -1;
}

static bool has_allowzero(const struct pare_node *n)
{
    const struct pare_opt *o = pare_opt_find(n->op->attrs, "allowzero");

    return o && *(const int64_t *)(const void *)((const char *)n->attr + o->offset) != 0;
}

/* Replace the batch at axis j of the shape. */
static bool free_shape(const struct walk *w, const struct pare_node *n, int a, int j, int64_t *to,
                       int64_t len)
{
    const struct pare_tensor *x = &n->in[0]->t, *y = &n->out[0]->t;
    bool copies = j == a && x->dim[a] == y->dim[j] && !has_allowzero(n);
    int open = -1;

    for (int i = 0; i < len; i++)
        open = to[i] == -1 ? i : open;
    if (open >= 0 && !copies) {
        if (w->sizes_free)
            return false;
        to[open] = y->dim[open];
    }
    to[j] = copies ? 0 : -1;
    return true;
}

static int free_reshape(struct walk *w, int i, struct pare_err *err)
{
    const struct pare_tensor *shape = fixed_shape(w, i);
    struct pare_node *n = w->one->node[i], *two = w->two->node[i];
    int a = shape ? item_axis(&n->in[0]->t, &two->in[0]->t) : -1;
    int j = a < 0 ? -1 : place_of(&n->in[0]->t, a, &n->out[0]->t);
    struct pare_tensor to;
    struct pare_value *v;
    const char *name;

    if (j < 0 || pare_i64(shape)[j] == -1 ||
        (pare_i64(shape)[j] == 0 && j == a && !has_allowzero(n)))
        return 0;
    to = *shape;
    PARE_TRY(pare_tensor_alloc(pare_edit_arena(w->e), &to, err));
    memcpy(to.data, shape->data, (size_t)pare_numel(shape) * sizeof(int64_t));
    if (!free_shape(w, n, a, j, to.data, pare_numel(shape)))
        return 0;
    PARE_TRY(pare_edit_add_constant(w->e, "free_batch.shape", &to, &name, err));
    v = pare_alloc(w->a, 1, sizeof(*v));
    if (!v)
        return pare_no_memory(err, "to free the batch");
    *v = *two->in[1];
    v->t = to;
    two->in[1] = v;
    w->count++;
    return pare_edit_set_input(w->e, n, 1, name, err);
}

/* ---- values without items -------------------------------------------------------------------- */

static int add_ints(struct walk *w, const int64_t *v, int n, const char **name,
                    struct pare_err *err)
{
    struct pare_tensor t = { .dtype = PARE_I64, .rank = 1, .dim = { n } };

    PARE_TRY(pare_tensor_alloc(pare_edit_arena(w->e), &t, err));
    memcpy(t.data, v, (size_t)n * sizeof(*v));
    return pare_edit_add_constant(w->e, "free_batch.sizes", &t, name, err);
}

/* Insert type(a, b, c), c and b may be NULL; *out is the result. */
static int insert(struct walk *w, const char *type, int axis, const char *const in[3],
                  const char **out, struct pare_err *err)
{
    struct pare_edit_node n = { .type = type, .axis = axis, .in = { in[0], in[1], in[2] } };

    n.out = *out = pare_edit_name(w->e, "free_batch.", type);
    n.name = *out;
    return *out ? pare_edit_insert(w->e, &n, err) : pare_no_memory(err, "to free the batch");
}

/* The batch size: element 0 of the shape of the first input with a batch. */
static int batch_size(struct walk *w, struct pare_err *err)
{
    const char *shape, *zero;
    int i = 0;

    if (w->size)
        return 0;
    while (i < w->one->n_in && item_axis(&w->one->in[i]->t, &w->two->in[i]->t) != 0)
        i++;
    PARE_TRY(add_ints(w, (int64_t[]){ 0 }, 1, &zero, err));
    PARE_TRY(
        insert(w, "Shape", -1, (const char *[]){ w->one->in[i]->name, NULL, NULL }, &shape, err));
    return insert(w, "Gather", 0, (const char *[]){ shape, zero, NULL }, &w->size, err);
}

/* Expand(value, shape with the batch on this axis); Expand keeps sizes where the shape has 1. */
static int expand(struct walk *w, int i, int k, int axis, struct pare_err *err)
{
    int64_t ones[PARE_MAX_RANK];
    struct pare_node *n = w->one->node[i], *two = w->two->node[i];
    const char *part[3] = { NULL }, *shape, *out;
    int rank = n->in[k]->t.rank, parts = 0;
    struct pare_value *v = pare_alloc(w->a, 1, sizeof(*v));

    if (!v)
        return pare_no_memory(err, "to free the batch");
    for (int d = 0; d < PARE_MAX_RANK; d++)
        ones[d] = 1;
    PARE_TRY(batch_size(w, err));
    if (axis)
        PARE_TRY(add_ints(w, ones, axis, &part[parts++], err));
    part[parts++] = w->size;
    if (axis + 1 < rank)
        PARE_TRY(add_ints(w, ones, rank - axis - 1, &part[parts++], err));
    PARE_TRY(insert(w, "Concat", 0, part, &shape, err));
    PARE_TRY(insert(w, "Expand", -1, (const char *[]){ n->in[k]->name, shape, NULL }, &out, err));
    *v = *two->in[k];
    v->flags &= ~(unsigned)PARE_V_CONST;
    v->t.data = NULL;
    v->raw = NULL;
    v->maker = NULL;
    v->t.dim[axis] = 2;
    two->in[k] = v;
    w->count++;
    return pare_edit_set_input(w->e, n, k, out, err);
}

/* A node does not accept two items: give the batch to inputs that have none but need it. */
static int expand_inputs(struct walk *w, int i, bool *any, struct pare_err *err)
{
    const struct pare_node *n = w->one->node[i], *two = w->two->node[i];
    int axis = -1, rank = 0;

    *any = false;
    for (int k = 0; k < n->n_in && axis < 0 && pare_model_has_node(w->m, n); k++)
        if (n->in[k]) {
            axis = item_axis(&n->in[k]->t, &two->in[k]->t);
            rank = n->in[k]->t.rank;
        }
    for (int k = 0; k < n->n_in && axis >= 0 && pare_edit_version(w->e) >= 8; k++) {
        const struct pare_tensor *t = n->in[k] ? &n->in[k]->t : NULL;

        if (!t || t->dtype == PARE_NONE || t->rank != rank || t->dim[axis] != 1 ||
            !pare_same_shape(t, &two->in[k]->t))
            continue;
        PARE_TRY(expand(w, i, k, axis, err));
        *any = true;
    }
    return 0;
}

/* ---- the graph ------------------------------------------------------------------------------- */

static int clone(struct walk *w, int64_t batch, struct pare_graph **g, struct pare_err *err)
{
    *g = pare_graph_clone(w->a, w->m->graph, err);
    if (!*g)
        return err->code;
    for (int i = 0; i < w->m->n_in; i++) {
        struct pare_tensor *t = &(*g)->in[i]->t;

        if (t->rank > 0 && t->dim[0] == 1)
            t->dim[0] = batch;
        for (int k = 1; k < t->rank; k++)
            w->sizes_free |= t->dim[k] < 0;
    }
    return 0;
}

/* Sizes that the nodes accept, for the other free dimensions. */
static int bind(struct walk *w, struct pare_err *err)
{
    struct pare_graph *g;

    PARE_TRY(clone(w, 1, &w->one, err));
    PARE_TRY(clone(w, 2, &w->two, err));
    PARE_TRY(pare_graph_infer_free(w->a, w->m->graph, w->m->in, NULL, &g, err));
    for (int i = 0; i < g->n_in; i++)
        for (int k = 0; k < g->in[i]->t.rank; k++) {
            if (w->one->in[i]->t.dim[k] < 0)
                w->one->in[i]->t.dim[k] = g->in[i]->t.dim[k];
            if (w->two->in[i]->t.dim[k] < 0)
                w->two->in[i]->t.dim[k] = g->in[i]->t.dim[k];
        }
    return 0;
}

static int rewrite(struct walk *w, struct pare_err *err)
{
    PARE_TRY(bind(w, err));
    for (int i = 0; i < w->one->n_nodes; i++) {
        bool any = false;
        int rc;

        PARE_TRY(infer_one(w->one, i, err));
        PARE_TRY(free_reshape(w, i, err));
        rc = infer_one(w->two, i, err);
        if (rc && rc != PARE_ENOMEM) {
            struct pare_err why = *err;

            PARE_TRY(expand_inputs(w, i, &any, err));
            if (!any)
                *err = why;
            rc = any ? infer_one(w->two, i, err) : rc;
        }
        if (rc)
            return rc;
    }
    return 0;
}

int pare_batch_constants(const struct pare_model *m, struct pare_edit *e, int64_t *count,
                         struct pare_err *err)
{
    struct walk w = { .m = m, .e = e, .a = pare_arena_new(1 << 16) };
    int rc = w.a ? rewrite(&w, err) : pare_no_memory(err, "to free the batch");

    *count = w.count;
    pare_arena_free(w.a);
    return rc;
}

/* varying_constants.c - which folded constants follow free dimensions of the inputs.
 *
 * Folding computes them for one size only.  The size that Shape reads follows a free dimension if
 * it differs between the sizes that the graph was inferred for.  Operators that move elements move
 * the property with them; the results of all other operators have it if any operand has it, even if
 * they are equal for these sizes, as Min(T, 1024) is below 1024.
 */
#include <string.h>

#include "../base/arena.h"
#include "../tensor/tensor.h"
#include "free_dims.h"

#define MOST_ELEMENTS 4096 /* of larger constants all elements count as one */

static bool is_in(const struct pare_varying *v, const struct pare_value *c)
{
    return c && c->id < v->n && v->g->value[c->id]->maker == c->maker;
}

bool pare_varies(const struct pare_varying *v, const struct pare_value *c)
{
    return is_in(v, c) && (v->all[c->id] || v->element[c->id]);
}

bool pare_varies_at(const struct pare_varying *v, const struct pare_value *c, int64_t i)
{
    return is_in(v, c) && (v->all[c->id] || (v->element[c->id] && v->element[c->id][i]));
}

/* The list of elements of a constant, created on first use; NULL: no memory. */
static uint8_t *elements_of(struct pare_varying *v, struct pare_arena *a,
                            const struct pare_value *c)
{
    if (!v->element[c->id])
        v->element[c->id] = pare_alloc(a, (size_t)pare_numel(&c->t) + 1, 1);
    return v->element[c->id];
}

/* Whether the constant has the same shape at all sizes, so that its elements can be compared. */
static bool has_one_shape(const struct pare_varying *v, const struct pare_value *c)
{
    for (int i = 0; i < PARE_OTHER_SIZES; i++) {
        const struct pare_value *o = pare_value_at(v->g, c, i);

        if (o && !pare_same_shape(&o->t, &c->t))
            return false;
    }
    return pare_numel(&c->t) <= MOST_ELEMENTS;
}

/* All results of the node vary. */
static int set_all(struct pare_varying *v, struct pare_arena *a, const struct pare_node *n,
                   struct pare_err *err)
{
    for (int k = 0; k < n->n_out; k++) {
        const struct pare_value *y = n->out[k];

        if (y && !has_one_shape(v, y))
            v->all[y->id] = true;
        else if (y && !elements_of(v, a, y))
            return pare_no_memory(err, "to infer shapes");
        else if (y)
            memset(v->element[y->id], 1, (size_t)pare_numel(&y->t) + 1);
    }
    return 0;
}

/* Sizes that a node reads: compare them with those at other sizes. */
static int compare_sizes(struct pare_varying *v, struct pare_arena *a, const struct pare_node *n,
                         struct pare_err *err)
{
    const struct pare_value *y = n->out[0];

    for (int i = 0; i < PARE_OTHER_SIZES; i++) {
        const struct pare_value *o = pare_value_at(v->g, y, i);

        if (!o)
            continue;
        if (!o->t.data || !y->t.data || !pare_same_shape(&o->t, &y->t) ||
            pare_numel(&y->t) > MOST_ELEMENTS)
            return set_all(v, a, n, err);
        for (int64_t k = 0; k < pare_numel(&y->t); k++)
            if (pare_get(&y->t, k) != pare_get(&o->t, k)) {
                if (!elements_of(v, a, y))
                    return pare_no_memory(err, "to infer shapes");
                v->element[y->id][k] = 1;
            }
    }
    return 0;
}

/* A tensor of the constant's shape and type whose elements are 1 where they vary. */
static int mark_elements(const struct pare_varying *v, struct pare_arena *a,
                         const struct pare_value *c, struct pare_value *to, struct pare_err *err)
{
    *to = *c;
    to->raw = NULL;
    PARE_TRY(pare_tensor_alloc(a, &to->t, err));
    for (int64_t i = 0; i < pare_numel(&c->t); i++) {
        int64_t one = pare_varies_at(v, c, i);
        size_t size = pare_dtype_size(c->t.dtype);

        PARE_TRY(pare_convert(c->t.dtype, (char *)to->t.data + (size_t)i * size, PARE_I64, &one, 1,
                              err));
    }
    return 0;
}

/* Run the node on marks instead of elements: it moves the marks. */
static int run_on_marks(struct pare_varying *v, struct pare_arena *a, const struct pare_node *n,
                        struct pare_node *shadow, struct pare_err *err)
{
    struct pare_arena *scratch = pare_arena_new(1 << 12);
    struct pare_ctx c = { .scratch = scratch, .results = a, .threads = 1, .call = pare_graph_call };
    int rc = scratch ? pare_node_eval(shadow, &c, err) : pare_no_memory(err, "to infer shapes");

    pare_arena_free(scratch);
    for (int k = 0; k < n->n_out && !rc; k++)
        for (int64_t i = 0; n->out[k] && i < pare_numel(&n->out[k]->t); i++)
            if (pare_get(&shadow->out[k]->t, i) != 0) {
                if (!elements_of(v, a, n->out[k]))
                    return pare_no_memory(err, "to infer shapes");
                v->element[n->out[k]->id][i] = 1;
            }
    return rc;
}

static int move_marks(struct pare_varying *v, struct pare_arena *a, const struct pare_node *n,
                      struct pare_err *err)
{
    struct pare_value *copy = pare_alloc(a, (size_t)(n->n_in + n->n_out) + 1, sizeof(*copy));
    struct pare_value **list = pare_alloc(a, (size_t)(n->n_in + n->n_out) + 1, sizeof(*list));
    struct pare_node shadow = *n;

    if (!copy || !list)
        return pare_no_memory(err, "to infer shapes");
    shadow.in = list;
    shadow.out = list + n->n_in;
    for (int k = 0; k < n->n_in; k++) {
        bool data = !k || n->op->flags & PARE_OP_JOINS;

        list[k] = n->in[k];
        if (!list[k] || !data)
            continue;
        list[k] = &copy[k];
        PARE_TRY(mark_elements(v, a, n->in[k], &copy[k], err));
    }
    for (int k = 0; k < n->n_out; k++)
        if (n->out[k]) {
            copy[n->n_in + k] = *n->out[k];
            copy[n->n_in + k].t.data = NULL;
            shadow.out[k] = &copy[n->n_in + k];
        }
    return run_on_marks(v, a, n, &shadow, err);
}

/* Whether marks can be moved: only the moved inputs vary, element by element. */
static bool can_move(const struct pare_varying *v, const struct pare_node *n)
{
    if (!(n->op->flags & PARE_OP_COPIES))
        return false;
    for (int k = 0; k < n->n_in; k++) {
        bool data = !k || n->op->flags & PARE_OP_JOINS;

        if (n->in[k] && pare_varies(v, n->in[k]) && (!data || v->all[n->in[k]->id]))
            return false;
        if (n->in[k] && data && pare_numel(&n->in[k]->t) > MOST_ELEMENTS)
            return false;
    }
    return true;
}

static int visit(struct pare_varying *v, struct pare_arena *a, const struct pare_node *n,
                 struct pare_err *err)
{
    bool any = false, folded = n->op && n->n_out;

    for (int k = 0; k < n->n_out && folded; k++)
        folded = !n->out[k] || n->out[k]->flags & PARE_V_CONST;
    if (!folded)
        return 0;
    if (n->op->flags & PARE_OP_SHAPES)
        return n->out[0] ? compare_sizes(v, a, n, err) : 0;
    for (int k = 0; k < n->n_in + n->n_cap && !any; k++)
        any = pare_varies(v, k < n->n_in ? n->in[k] : n->cap[k - n->n_in]);
    if (any && can_move(v, n))
        return move_marks(v, a, n, err);
    return any ? set_all(v, a, n, err) : 0;
}

int pare_varying_find(struct pare_arena *a, const struct pare_graph *g, struct pare_varying *v,
                      struct pare_err *err)
{
    *v = (struct pare_varying){ .g = g, .n = g->n_values };
    v->element = pare_alloc(a, (size_t)g->n_values + 1, sizeof(*v->element));
    v->all = pare_alloc(a, (size_t)g->n_values + 1, sizeof(*v->all));
    if (!v->element || !v->all)
        return pare_no_memory(err, "to infer shapes");
    for (int i = 0; i < g->n_nodes && (g->other[0] || g->other[1]); i++)
        PARE_TRY(visit(v, a, g->node[i], err));
    return 0;
}

/* ---- the graph to analyze -------------------------------------------------------------------- */

static bool is_float(enum pare_dtype t)
{
    return t == PARE_F32 || t == PARE_F16 || t == PARE_BF16 || t == PARE_F64;
}

int pare_graph_all_sizes_in(const struct pare_size_arenas *a, const struct pare_graph *from,
                            const struct pare_io *io, const struct pare_tensor *given,
                            struct pare_all_sizes *out, struct pare_err *err)
{
    const struct pare_graph *g;

    PARE_TRY(pare_graph_infer_sizes(a, from, io, given, &out->first, err));
    g = pare_graph_to_analyze(out->first);
    out->g = pare_graph_clone(a->clone, g, err);
    if (!out->g)
        return err->code;
    memcpy(out->g->other, g->other, sizeof(g->other));
    PARE_TRY(pare_varying_find(a->clone, out->g, &out->varying, err));
    for (int i = 0; i < out->g->n_values; i++) {
        struct pare_value *v = out->g->value[i];

        if (is_float(v->t.dtype) && pare_varies(&out->varying, v))
            v->flags &= ~(unsigned)PARE_V_CONST;
    }
    return 0;
}

int pare_graph_all_sizes(struct pare_arena *a, const struct pare_graph *from,
                         const struct pare_io *io, const struct pare_tensor *given,
                         struct pare_all_sizes *out, struct pare_err *err)
{
    const struct pare_size_arenas same = { a, a, a, a };

    return pare_graph_all_sizes_in(&same, from, io, given, out, err);
}

void pare_all_sizes_forget(struct pare_all_sizes *all)
{
    for (int i = 0; i < all->g->n_values; i++) {
        struct pare_value *v = all->g->value[i];

        if (v->maker || v->raw) /* folded, or a copy of bytes that are not aligned */
            v->t.data = NULL;
    }
    memset(all->g->other, 0, sizeof(all->g->other));
    all->first = NULL;
}

/* resolve_sequences.c - read elements of sequences directly, where the graph shows which they are.
 *
 * Scripts collect results in a list: SequenceEmpty, SequenceInsert in each iteration, and
 * ConcatFromSequence or SequenceAt at the end.  Sequences have no gradient; once the loop is
 * unrolled, Concat and copies of the elements do the same.
 */
#include <string.h>

#include "../../base/arena.h"
#include "../../op/op.h"
#include "../../tensor/tensor.h"
#include "new_nodes.h"

extern const struct pare_op pare_op_concat_from_sequence;
extern const struct pare_op pare_op_sequence_at;
extern const struct pare_op pare_op_sequence_construct;
extern const struct pare_op pare_op_sequence_empty;
extern const struct pare_op pare_op_sequence_insert;

struct elements {
    struct pare_value **v;
    int n;
};

/* The position that input i of the node selects among n elements; it is constant. */
static bool position(const struct pare_node *n, int i, int count, int *at)
{
    const struct pare_value *v = i < n->n_in ? n->in[i] : NULL;
    int64_t p;

    if (!v || !(v->flags & PARE_V_CONST) || !v->t.data || pare_numel(&v->t) != 1)
        return false;
    p = pare_get_int(&v->t, 0);
    p = p < 0 ? p + count : p;
    *at = (int)p;
    return p >= 0 && p <= count;
}

/* The node that makes the sequence, without nodes that pass it on. */
static const struct pare_node *maker_of(const struct pare_value *v)
{
    while (v->maker && v->maker->op && v->maker->op->flags & PARE_OP_PASSES)
        v = v->maker->in[0];
    return v->maker;
}

static bool insert(struct elements *e, const struct pare_node *n)
{
    int at = e->n;

    if (n->n_in > 2 && n->in[2] && !position(n, 2, e->n, &at))
        return false;
    memmove(e->v + at + 1, e->v + at, (size_t)(e->n - at) * sizeof(*e->v));
    e->v[at] = n->in[1];
    e->n++;
    return true;
}

/* List the elements of the sequence v; *known: whether the graph shows them. */
static int list_elements(struct pare_arena *a, const struct pare_value *v, struct elements *e,
                         bool *known, struct pare_err *err)
{
    const struct pare_node *n = maker_of(v), **inserts;
    int depth = 0, first = 0;

    for (; pare_node_is(n, &pare_op_sequence_insert); n = maker_of(n->in[0]))
        depth++;
    *known = pare_node_is(n, &pare_op_sequence_construct);
    if (*known)
        first = n->n_in;
    else if (!(*known = pare_node_is(n, &pare_op_sequence_empty)))
        return 0;
    *e = (struct elements){ .v = pare_alloc(a, (size_t)(first + depth) + 1, sizeof(*e->v)),
                            .n = first };
    inserts = pare_alloc(a, (size_t)depth + 1, sizeof(*inserts));
    if (!e->v || !inserts)
        return pare_no_memory(err, "for the plan");
    for (int i = 0; i < first; i++)
        e->v[i] = n->in[i];
    n = maker_of(v);
    for (int i = depth; i-- > 0; n = maker_of(n->in[0]))
        inserts[i] = n;
    for (int i = 0; i < depth && *known; i++)
        *known = insert(e, inserts[i]);
    return 0;
}

/* Write the result of n from the elements, by new nodes; *done: whether it was possible. */
static int resolve(struct pare_graph *g, const struct pare_node *n, bool *done,
                   struct pare_err *err)
{
    bool joins = pare_node_is(n, &pare_op_concat_from_sequence);
    struct elements e;
    int at;

    *done = false;
    if (!joins && !pare_node_is(n, &pare_op_sequence_at))
        return 0;
    PARE_TRY(list_elements(g->arena, n->in[0], &e, done, err));
    if (!*done || !e.n || (!joins && (!position(n, 1, e.n, &at) || at == e.n))) {
        *done = false;
        return 0;
    }
    return joins ? pare_new_join(g,
                                 &(struct pare_join){ .x = e.v,
                                                      .n = e.n,
                                                      .axis = (int64_t)pare_attr(n, "axis"),
                                                      .new_axis = pare_attr(n, "new_axis") != 0,
                                                      .y = n->out[0] },
                                 err)
                 : pare_new_copy(g, e.v[at], n->out[0], err);
}

int pare_resolve_sequences(struct pare_graph *g, bool *changed, struct pare_err *err)
{
    int kept = 0, was = g->n_nodes;

    for (int i = 0; i < was; i++) {
        bool done;

        PARE_TRY(resolve(g, g->node[i], &done, err));
        if (done)
            g->node[i] = NULL;
        *changed |= done;
    }
    for (int i = 0; i < g->n_nodes; i++)
        if (g->node[i]) {
            g->node[i]->id = kept;
            g->node[kept++] = g->node[i];
        }
    g->n_nodes = kept;
    return 0;
}

/* keep_sets_free.c - axis relations of graphs whose inputs have free dimensions.
 *
 * Relations are found for one set of sizes.  They count only if the node has the same relations for
 * other sizes: two axes may have one size by coincidence.  An axis whose size follows a free
 * dimension keeps all of its indices, except where it also counts channels: the axis (batch x
 * heads) of an attention layer loses heads.
 */
#include <string.h>

#include "../base/arena.h"
#include "free_dims.h"
#include "keep_sets_internal.h"

/* ---- relations at other sizes ---------------------------------------------------------------- */

/* The node in the graph of other sizes, with the inputs that it has here: `inputs` has room for
 * them.  A constant that replaced an input has the same shape for all sizes. */
static bool node_at(const struct pare_graph *g, const struct pare_node *n, struct pare_node *at,
                    struct pare_value **inputs)
{
    if (n->id >= g->other[1]->n_nodes)
        return false;
    *at = *n; /* it may have replaced the node that is there (graph/pattern/) */
    at->n_out = g->other[1]->node[n->id]->n_out;
    at->out = g->other[1]->node[n->id]->out;
    at->in = inputs;
    for (int i = 0; i < n->n_in; i++) {
        inputs[i] = n->in[i] ? (struct pare_value *)pare_value_at(g, n->in[i], 1) : NULL;
        if (n->in[i] && !inputs[i])
            inputs[i] = n->in[i];
        if (inputs[i] && inputs[i]->t.dtype == PARE_NONE)
            return false;
    }
    for (int i = 0; i < at->n_out; i++)
        if (at->out[i] && at->out[i]->t.dtype == PARE_NONE)
            return false;
    return true;
}

/* Whether `there`, of the graph of other sizes, is the value `here`. */
static bool same_value(const struct pare_graph *g, const struct pare_value *here,
                       const struct pare_value *there)
{
    const struct pare_value *o = here ? pare_value_at(g, here, 1) : NULL;

    return !here || !there ? !here && !there : there == (o ? o : here);
}

static bool both_fixed(const struct pare_graph *g, const struct pare_tied *t)
{
    return !pare_axis_is_free(g, t->a, t->ax) && !pare_axis_is_free(g, t->b, t->bx);
}

static bool same_digits(const struct pare_graph *g, const struct pare_tied *t,
                        const struct pare_tied *u)
{
    if (t->n_digits != u->n_digits)
        return false;
    for (int i = 0; i < t->n_digits; i++) {
        const struct pare_digit *d = &t->digit[i], *e = &u->digit[i];

        if (!same_value(g, d->v, e->v) || d->axis != e->axis)
            return false;
        if (d->v && d->size != e->size && !pare_axis_is_free(g, d->v, d->axis))
            return false;
    }
    return true;
}

static bool same_relation(const struct pare_graph *g, const struct pare_tied *t,
                          const struct pare_tied *u)
{
    if (t->kind != u->kind || !same_value(g, t->a, u->a) || !same_value(g, t->b, u->b) ||
        t->ax != u->ax || t->bx != u->bx)
        return false;
    switch (t->kind) {
    case PARE_TIE_PART: return !both_fixed(g, t) || t->from == u->from;
    case PARE_TIE_PICK:
        return !both_fixed(g, t) ||
               !memcmp(t->index, u->index, (size_t)t->b->t.dim[t->bx] * sizeof(*t->index));
    case PARE_TIE_DIGITS:
    case PARE_TIE_GROUPS: return same_digits(g, t, u);
    case PARE_TIE_SAME:
    case PARE_TIE_SUM:
    case PARE_TIE_RESTORED:
    case PARE_TIE_TOGETHER:
    case PARE_TIE_FREEZE: return true;
    }
    return false;
}

int pare_ties_compare(struct pare_keep_sets *k, const struct pare_node *n, int from,
                      struct pare_ties *there, bool *same, struct pare_err *err)
{
    struct pare_value **inputs = pare_alloc(k->arena, (size_t)n->n_in + 1, sizeof(*inputs));
    struct pare_node at;

    *same = true;
    *there = (struct pare_ties){ .arena = k->arena, .node = n };
    if (!inputs)
        return pare_no_memory(err, "for the keep sets");
    if (!node_at(k->g, n, &at, inputs)) {
        *same = false;
        return 0;
    }
    n->op->ties(&at, there);
    if (there->failed)
        return pare_no_memory(err, "for the keep sets");
    *same = there->n == k->ties.n - from;
    for (int i = 0; i < there->n && *same; i++)
        *same = same_relation(k->g, &k->ties.tie[from + i], &there->tie[i]);
    return 0;
}

/* ---- free axes ------------------------------------------------------------------------------- */

/* Whether a digit of the relation counts channels. */
static bool has_fixed_digit(const struct pare_graph *g, const struct pare_tied *t)
{
    for (int i = 0; i < t->n_digits; i++)
        if (t->digit[i].size > 1 &&
            (t->digit[i].v ? !pare_axis_is_free(g, t->digit[i].v, t->digit[i].axis)
                           : t->digit[i].axis >= 0))
            return true;
    return false;
}

/* A part of free size, as the first rows of a table of positions: which indices of the whole it has
 * differs from size to size. */
static void freeze_whole(struct pare_keep_sets *k, const struct pare_tied *t)
{
    int a = pare_keep_sets_find(k, t->a, t->ax);

    if ((t->kind != PARE_TIE_PART && t->kind != PARE_TIE_PICK) || k->axis[a].why ||
        pare_axis_is_free(k->g, t->a, t->ax) || !pare_axis_is_free(k->g, t->b, t->bx))
        return;
    k->axis[a].why = "a part of it has a free size";
    k->axis[a].node = t->node;
}

int pare_keep_sets_freeze_free(struct pare_keep_sets *k, struct pare_err *err)
{
    uint8_t *mixed = pare_alloc(k->arena, (size_t)k->n_axes + 1, 1);

    if (!mixed)
        return pare_no_memory(err, "for the keep sets");
    for (int i = 0; i < k->n_rel; i++) {
        const struct pare_tied *t = &k->rel[i].tie;

        freeze_whole(k, t);
        if (t->n_digits && has_fixed_digit(k->g, t))
            mixed[pare_keep_sets_root(k, pare_keep_sets_find(k, t->a, t->ax))] = 1;
    }
    for (int i = 0; i < k->n_values; i++) {
        const struct pare_value *v = k->g->value[i];

        for (int x = 0; k->first[i] >= 0 && x < v->t.rank; x++) {
            struct pare_keep_axis *axis = &k->axis[k->first[i] + x];

            if (axis->why || mixed[pare_keep_sets_root(k, k->first[i] + x)] ||
                !pare_axis_is_free(k->g, v, x))
                continue;
            axis->why = PARE_WHY_FREE;
        }
    }
    return 0;
}

/* verify_points.c - where two models are compared: outputs, and values before discontinuous nodes.
 *
 * ArgMax, Floor or a comparison turn a rounding error into another result.  So the values that
 * enter such a node are compared, and of what follows it the share of equal elements.  Random
 * numbers of the same shape are the same in both models; of another shape they differ, and what
 * follows them is not compared.
 */
#include <string.h>

#include "../base/arena.h"
#include "../tensor/tensor.h"
#include "speedup.h"

static bool is_real(const struct pare_value *v)
{
    return v && (v->t.dtype == PARE_F32 || v->t.dtype == PARE_F64 || v->t.dtype == PARE_F16 ||
                 v->t.dtype == PARE_BF16);
}

/* Does the node make steps of real numbers? */
static bool makes_steps(const struct pare_node *n)
{
    bool real = false;

    if (!n->op || !(n->op->flags & PARE_OP_STEPS))
        return false;
    for (int k = 0; k < n->n_in; k++)
        real |= is_real(n->in[k]) && !(n->in[k]->flags & PARE_V_CONST);
    return real && !(n->op->flags & PARE_OP_COPIES && is_real(n->out[0]));
}

/* Random numbers are drawn from the node's name, so both models draw the same ones, unless the
 * smaller one draws fewer.  Values whose shapes depend on data do not shrink. */
static bool draws_fewer(const struct pare_node *n, const struct pare_graph *small)
{
    for (int k = 0; n->op && n->op->flags & PARE_OP_RANDOM && k < n->n_out; k++) {
        const struct pare_value *v = n->out[k], *w;

        w = v ? pare_map_get(&small->names, v->name) : NULL;
        if (w && !pare_same_shape(&v->t, &w->t))
            return true;
    }
    return false;
}

static enum pare_point kind_of(const struct pare_node *n, const struct pare_graph *small,
                               const uint8_t *kind, int n_values)
{
    enum pare_point most = PARE_POINT_SMOOTH;

    for (int k = 0; k < n->n_in + n->n_cap; k++) {
        const struct pare_value *v = k < n->n_in ? n->in[k] : n->cap[k - n->n_in];

        if (v && v->id < n_values && kind[v->id] > most &&
            !(n->op && n->op->flags & PARE_OP_SHAPES))
            most = (enum pare_point)kind[v->id];
    }
    if (draws_fewer(n, small))
        return PARE_POINT_RANDOM;
    return most == PARE_POINT_SMOOTH && makes_steps(n) ? PARE_POINT_STEPS : most;
}

/* The value in the other model, if both can be compared. */
static bool is_comparable(const struct pare_graph *g, const struct pare_value *v)
{
    const struct pare_value *w = pare_map_get(&g->names, v->name);

    return w && !(w->flags & (PARE_V_CONST | PARE_V_INPUT)) && v->t.dtype == w->t.dtype &&
           v->t.rank >= 0 && pare_same_shape(&v->t, &w->t);
}

/* List the smooth values that enter the node. */
static void add_points(struct pare_points *p, const struct pare_graph *g,
                       const struct pare_graph *small, const struct pare_node *n, uint8_t *listed)
{
    for (int k = 0; k < n->n_in; k++) {
        const struct pare_value *v = n->in[k];

        if (!is_real(v) || v->id >= g->n_values || p->kind[v->id] != PARE_POINT_SMOOTH ||
            listed[v->id] || v->flags & (PARE_V_CONST | PARE_V_INPUT | PARE_V_OUTPUT) ||
            !is_comparable(small, v))
            continue;
        listed[v->id] = 1;
        p->name[p->names.n++] = v->name;
        if (!p->first)
            p->first = n->type;
    }
}

int pare_points_find(struct pare_arena *a, const struct pare_graph *g,
                     const struct pare_graph *small, struct pare_points *p, struct pare_err *err)
{
    uint8_t *listed = pare_alloc(a, (size_t)g->n_values + 1, 1);

    memset(p, 0, sizeof(*p));
    p->kind = pare_alloc(a, (size_t)g->n_values + 1, 1);
    p->name = pare_alloc(a, (size_t)g->n_values + 1, sizeof(*p->name));
    if (!listed || !p->kind || !p->name)
        return pare_no_memory(err, "to verify");
    p->names.v = p->name;
    for (int i = 0; i < g->n_nodes; i++) {
        const struct pare_node *n = g->node[i];
        enum pare_point kind = kind_of(n, small, p->kind, g->n_values);

        if (kind != PARE_POINT_SMOOTH)
            add_points(p, g, small, n, listed);
        for (int k = 0; k < n->n_out; k++)
            if (n->out[k] && !(n->out[k]->flags & PARE_V_CONST))
                p->kind[n->out[k]->id] = (uint8_t)kind;
    }
    return 0;
}

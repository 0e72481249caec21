/* unshare.c - give each consumer of a shared constant a copy.
 *
 * Exporters write equal constants once: all biases that are zero, all scales that are one.  The
 * channels of their consumers are independent.  PyTorch inserts an Identity between the constant
 * and all consumers but the first.
 */
#include "../base/arena.h"
#include "keep_sets.h"

static bool passes(const struct pare_node *n)
{
    return n->op && n->op->flags & PARE_OP_PASSES;
}

/* The source of a chain of Identity nodes. */
static struct pare_value *origin(struct pare_value *v)
{
    while (v && v->maker && v->maker->n_in == 1 && v->maker->in[0] && passes(v->maker))
        v = v->maker->in[0];
    return v;
}

/* One axis has all the elements, so a copy is cheap. */
static bool is_vector(const struct pare_tensor *t)
{
    int64_t most = 0;

    for (int i = 0; i < t->rank; i++)
        most = t->dim[i] > most ? t->dim[i] : most;
    return t->rank > 0 && pare_numel(t) == most;
}

static bool may_split(const struct pare_graph *g, const struct pare_value *v)
{
    return v && v->id < g->n_values && g->value[v->id] == v && v->flags & PARE_V_CONST &&
           !(v->flags & PARE_V_OUTPUT) && !v->maker && is_vector(&v->t);
}

static struct pare_value *copy_of(struct pare_graph *g, const struct pare_value *v)
{
    struct pare_value *copy = pare_alloc(g->arena, 1, sizeof(*copy)), **list;

    list = pare_grow(g->arena, g->value, g->n_values, &g->cap_values, sizeof(*list));
    if (!copy || !list)
        return NULL;
    g->value = list;
    *copy = *v;
    copy->id = g->n_values;
    g->value[g->n_values++] = copy;
    return copy;
}

int pare_graph_unshare(struct pare_graph *g, const struct pare_value *const *but, int n_but,
                       struct pare_err *err)
{
    int n_values = g->n_values;
    enum { FREE, TAKEN, WHOLE } *state = pare_alloc(g->arena, (size_t)n_values, sizeof(*state));

    if (!state)
        return pare_no_memory(err, "to copy constants");
    for (int i = 0; i < n_but; i++)
        if (may_split(g, but[i]))
            state[but[i]->id] = WHOLE;
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->node[i]->n_in; k++) {
            struct pare_value *v = origin(g->node[i]->in[k]);

            if (!may_split(g, v) || v->id >= n_values || state[v->id] == WHOLE ||
                passes(g->node[i]))
                continue;
            g->node[i]->in[k] = state[v->id] == TAKEN ? copy_of(g, v) : v;
            if (!g->node[i]->in[k])
                return pare_no_memory(err, "to copy constants");
            state[v->id] = TAKEN;
        }
    return 0;
}

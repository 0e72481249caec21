/* unshare.c - a constant for each of its users.
 *
 * Exporters write equal constants once: all biases that are zero, all scales that are one.
 * Channels of their users have nothing to do with each other. / */
#include "../base/arena.h"
#include "kept.h"

static bool may_split(const struct pare_graph *g, const struct pare_value *v)
{
    return v && v->id < g->n_values && g->value[v->id] == v && v->flags & PARE_V_CONST &&
           !(v->flags & PARE_V_OUTPUT) && !v->maker && v->t.rank == 1;
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
        return pare_fail(err, PARE_ENOMEM, "no memory to copy constants");
    for (int i = 0; i < n_but; i++)
        if (may_split(g, but[i]))
            state[but[i]->id] = WHOLE;
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->node[i]->n_in; k++) {
            struct pare_value *v = g->node[i]->in[k];

            if (!may_split(g, v) || v->id >= n_values || state[v->id] == WHOLE)
                continue;
            if (state[v->id] == TAKEN)
                g->node[i]->in[k] = copy_of(g, v);
            if (!g->node[i]->in[k])
                return pare_fail(err, PARE_ENOMEM, "no memory to copy constants");
            state[v->id] = TAKEN;
        }
    return 0;
}

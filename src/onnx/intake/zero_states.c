/* zero_states.c - intake: initial states of recurrent layers that are 0 are left out.
 *
 * PyTorch fills a tensor with zeros for the initial states of all layers of an LSTM or GRU, of a
 * size that it computes from the input, and gives each layer a slice.  Without initial states a
 * recurrent layer starts at 0 as well, and its states depend on those of no other layer.  An input
 * is 0 if only elements of zero constants are copied into it.  Nodes and constants that nothing
 * else uses are removed.
 */
#include <string.h>

#include "../../tensor/tensor.h"
#include "intake.h"

#define DEPTH 32 /* nodes that are followed to a constant */

struct zeros {
    struct pare_intake_graph *g;
    const struct pare_graph *graph;
    int *uses;      /* per value: consumers, outputs and captures */
    bool *released; /* per value: a use of it was removed */
};

static bool is_own(const struct zeros *z, const struct pare_value *v)
{
    return v->id < z->graph->n_values && z->graph->value[v->id] == v;
}

static bool all_zero(const struct pare_value *v)
{
    const char *p = v->raw ? v->raw : v->t.data;
    size_t n = (size_t)pare_numel(&v->t) * pare_dtype_size(v->t.dtype);

    return p && n && !*p && !memcmp(p, p + 1, n - 1);
}

static bool is_zero(const struct pare_value *v, int depth)
{
    const struct pare_node *n = v ? v->maker : NULL;

    if (!v || depth > DEPTH)
        return false;
    if (!n)
        return v->flags & PARE_V_CONST && !(v->flags & PARE_V_INPUT) && all_zero(v);
    if (!n->op)
        return false;
    if (n->op->zeros)
        return n->op->zeros(n);
    if (!(n->op->flags & PARE_OP_COPIES) || !n->n_in)
        return false;
    for (int i = 0; i < (n->op->flags & PARE_OP_JOINS ? n->n_in : 1); i++)
        if (!is_zero(n->in[i], depth + 1))
            return false;
    return true;
}

static int count_uses(struct zeros *z, struct pare_err *err)
{
    const struct pare_graph *g = z->graph;

    z->uses = pare_alloc(z->g->m->arena, (size_t)g->n_values + 1, sizeof(*z->uses));
    z->released = pare_alloc(z->g->m->arena, (size_t)g->n_values + 1, sizeof(*z->released));
    if (!z->uses || !z->released)
        return pare_no_memory(err, "for the graph");
    for (int i = 0; i < g->n_nodes; i++) {
        const struct pare_node *n = g->node[i];

        for (int k = 0; k < n->n_in; k++)
            if (n->in[k])
                z->uses[n->in[k]->id]++;
        for (int k = 0; k < n->n_cap; k++)
            z->uses[n->cap[k]->id]++;
    }
    for (int i = 0; i < g->n_out; i++)
        z->uses[g->out[i]->id]++;
    return 0;
}

static void release(struct zeros *z, const struct pare_value *v)
{
    if (v && is_own(z, v)) {
        z->uses[v->id]--;
        z->released[v->id] = true;
    }
}

/* Whether a released value was the last use of the node. */
static bool is_unused(const struct zeros *z, const struct pare_node *n)
{
    bool released = false;

    for (int k = 0; k < n->n_out; k++) {
        if (n->out[k] && z->uses[n->out[k]->id])
            return false;
        released |= n->out[k] && z->released[n->out[k]->id];
    }
    return released;
}

/* Remove nodes and constants that nothing uses any more.  Producers come first in the list of
 * nodes. */
static int drop_unused(struct zeros *z, struct pare_err *err)
{
    const struct pare_graph *g = z->graph;
    struct pare_map dead = { 0 };

    for (int i = g->n_nodes - 1; i >= 0; i--) {
        const struct pare_node *n = g->node[i];
        int at = pare_intake_index(z->g, n);

        if (at < 0 || !is_unused(z, n))
            continue;
        z->g->p->node[at] = NULL;
        for (int k = 0; k < n->n_in; k++)
            release(z, n->in[k]);
        for (int k = 0; k < n->n_cap; k++)
            release(z, n->cap[k]);
    }
    for (int i = 0; i < g->n_values; i++)
        if (z->released[i] && !z->uses[i] && g->value[i]->flags & PARE_V_CONST)
            PARE_TRY(pare_map_set(&dead, z->g->m->arena, g->value[i]->name, z, err));
    return pare_intake_patch(z->g, &dead, err);
}

/* Leave out the inputs of the node that are 0. */
static int leave_out(struct zeros *z, struct pare_node *n, struct pare_err *err)
{
    static char none[] = "";
    int at = pare_intake_index(z->g, n);
    Onnx__NodeProto *own = NULL;

    for (int k = 0; k < n->n_in && k < 32 && at >= 0; k++) {
        if (!(n->op->zero_if_absent & PARE_IN(k)) || !is_zero(n->in[k], 0))
            continue;
        if (!own)
            PARE_TRY(pare_intake_own_node(z->g, (size_t)at, &own, err));
        own->input[k] = none;
        release(z, n->in[k]);
        n->in[k] = NULL;
        ++*z->g->count;
    }
    while (own && own->n_input && !*own->input[own->n_input - 1])
        n->n_in = (int)--own->n_input;
    return 0;
}

static int zero_states(struct pare_intake_graph *g, struct pare_err *err)
{
    struct zeros z = { .g = g, .graph = g->m->graph };
    bool any = false;

    for (int i = 0; i < z.graph->n_nodes; i++)
        any |= z.graph->node[i]->op && z.graph->node[i]->op->zero_if_absent;
    if (!any)
        return 0;
    PARE_TRY(count_uses(&z, err));
    for (int i = 0; i < z.graph->n_nodes; i++)
        if (z.graph->node[i]->op && z.graph->node[i]->op->zero_if_absent)
            PARE_TRY(leave_out(&z, z.graph->node[i], err));
    return g->changed ? drop_unused(&z, err) : 0;
}

const struct pare_intake_step pare_intake_step_zero_states = {
    .name = "zero_states",
    .what = "initial states of recurrent layers left out that are 0",
    .built = zero_states,
};

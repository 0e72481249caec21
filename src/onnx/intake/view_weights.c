/* view_weights.c - intake: Reshape, Squeeze, Unsqueeze or Identity of a weight become its shape.
 *
 * The initializer gets the shape that its only consumer makes of it, and keeps its bytes, and its
 * name unless a body of If, Loop or Scan reads the result: then it gets the name of the result.
 * An initializer with further consumers is not changed: layers that share it remain tied.
 */
#include <string.h>

#include "../../op/op.h"
#include "../../tensor/tensor.h"
#include "intake.h"
#include "name_set.h"

struct views {
    struct pare_intake_graph *g;
    int *uses;                    /* per value: consumers, outputs and captures */
    bool *captured;               /* per value: bodies of If, Loop or Scan refer to its name */
    struct pare_name_set renamed; /* output of a removed node to its initializer */
    struct pare_map names;        /* initializer to its new name, which bodies read */
    struct pare_name_set shape;   /* initializer to its new shape: const struct pare_tensor * */
    struct pare_map dead;         /* constants that no node uses any more */
};

static bool is_weight(const struct pare_graph *g, const struct pare_value *v)
{
    enum pare_dtype d = v ? v->t.dtype : PARE_NONE;

    return v && v->flags & PARE_V_CONST && !v->maker && g->value[v->id] == v && v->t.rank >= 1 &&
           (d == PARE_F32 || d == PARE_F16 || d == PARE_BF16 || d == PARE_F64);
}

/* A view of a weight, or of a view of one, of the main graph's protobuf. */
static bool is_view(const struct views *s, const struct pare_node *n)
{
    const struct pare_graph *g = s->g->m->graph;

    if (!n->op || !(n->op->flags & PARE_OP_VIEW) || n->n_out != 1 || !n->out[0] || !n->n_in ||
        !n->in[0] || s->uses[n->in[0]->id] != 1 || n->out[0]->flags & PARE_V_OUTPUT ||
        pare_intake_index(s->g, n) < 0)
        return false;
    for (int i = 1; i < n->n_in; i++)
        if (n->in[i] && (!(n->in[i]->flags & PARE_V_CONST) || !n->in[i]->t.data))
            return false;
    return is_weight(g, n->in[0]) || pare_name_get(&s->renamed, n->in[0]->name);
}

static int count_uses(struct views *s, struct pare_err *err)
{
    const struct pare_graph *g = s->g->m->graph;
    size_t n = (size_t)g->n_values + 1;

    s->uses = pare_alloc(s->g->m->arena, n, sizeof(*s->uses));
    s->captured = pare_alloc(s->g->m->arena, n, sizeof(*s->captured));
    if (!s->uses || !s->captured)
        return pare_no_memory(err, "for the graph");
    for (int i = 0; i < g->n_nodes; i++) {
        const struct pare_node *node = g->node[i];

        for (int k = 0; k < node->n_in; k++)
            if (node->in[k])
                s->uses[node->in[k]->id]++;
        for (int k = 0; k < node->n_cap; k++) {
            s->uses[node->cap[k]->id] += 2;
            s->captured[node->cap[k]->id] = true;
        }
    }
    for (int i = 0; i < g->n_out; i++)
        s->uses[g->out[i]->id]++;
    return 0;
}

/* The shape or the axes that only this node reads are not needed any more. */
static int drop_settings(struct views *s, const struct pare_node *n, struct pare_err *err)
{
    for (int i = 1; i < n->n_in; i++) {
        const struct pare_value *v = n->in[i];

        if (v && !--s->uses[v->id] && (!v->maker || !v->maker->n_in))
            PARE_TRY(pare_map_set(&s->dead, s->g->m->arena, v->name, s, err));
    }
    return 0;
}

static int take_view(struct views *s, struct pare_node *n, struct pare_err *err)
{
    struct pare_value *out = n->out[0];
    const char *name = pare_name_get(&s->renamed, n->in[0]->name);
    struct pare_err ignored;

    name = name ? name : n->in[0]->name;
    if (pare_node_infer(n, &ignored) || out->t.rank < 1)
        return 0;
    PARE_TRY(
        s->captured[out->id]
            ? pare_map_set(&s->names, s->g->m->arena, name, (void *)(uintptr_t)out->name, err)
            : pare_name_set(&s->renamed, s->g->m->arena, out->name, (void *)(uintptr_t)name, err));
    PARE_TRY(pare_name_set(&s->shape, s->g->m->arena, name, &out->t, err));
    PARE_TRY(pare_intake_change(s->g, err));
    s->g->p->node[pare_intake_index(s->g, n)] = NULL;
    ++*s->g->count;
    return drop_settings(s, n, err);
}

static int reshape(struct views *s, size_t i, struct pare_err *err)
{
    const Onnx__TensorProto *t = s->g->p->initializer[i];
    const struct pare_tensor *to = pare_name_get(&s->shape, t->name ? t->name : "");
    Onnx__TensorProto *copy;

    if (!to)
        return 0;
    copy = pare_alloc(s->g->m->arena, 1, sizeof(*copy));
    if (!copy)
        return pare_no_memory(err, "for the graph");
    *copy = *t;
    copy->dims = pare_alloc(s->g->m->arena, PARE_MAX_RANK, sizeof(*copy->dims));
    if (!copy->dims)
        return pare_no_memory(err, "for the graph");
    memcpy(copy->dims, to->dim, (size_t)to->rank * sizeof(*to->dim));
    copy->n_dims = (size_t)to->rank;
    if (pare_map_get(&s->names, t->name))
        copy->name = pare_map_get(&s->names, t->name);
    s->g->p->initializer[i] = copy;
    return 0;
}

static int rewire(struct views *s, size_t i, struct pare_err *err)
{
    Onnx__NodeProto *n = s->g->p->node[i];

    for (size_t k = 0; n && k < n->n_input; k++) {
        char *to = n->input[k] ? pare_name_get(&s->renamed, n->input[k]) : NULL;

        if (!to)
            continue;
        PARE_TRY(pare_intake_own_node(s->g, i, &n, err));
        n->input[k] = to;
    }
    return 0;
}

/* Change m->graph as g->p was: consumers of a removed node read its weight, which has the shape of
 * the result. */
static int patch(struct views *s, struct pare_err *err)
{
    struct pare_graph *graph = s->g->m->graph;
    struct pare_value **to = pare_alloc(s->g->m->arena, (size_t)graph->n_values + 1, sizeof(*to));

    if (!to)
        return pare_no_memory(err, "for the graph");
    for (int i = 0; i < graph->n_nodes; i++) {
        struct pare_node *n = graph->node[i];
        int at = pare_intake_index(s->g, n);

        for (int k = 0; k < n->n_in; k++)
            if (n->in[k] && to[n->in[k]->id])
                n->in[k] = to[n->in[k]->id];
        if (at < 0 || s->g->p->node[at])
            continue;
        to[n->out[0]->id] = n->in[0];
        n->in[0]->t.rank = n->out[0]->t.rank;
        memcpy(n->in[0]->t.dim, n->out[0]->t.dim, sizeof(n->in[0]->t.dim));
    }
    return pare_intake_patch(s->g, &s->dead, err);
}

static int view_weights(struct pare_intake_graph *g, struct pare_err *err)
{
    size_t inputs = g->p->n_input;
    struct views s = { .g = g };
    bool any = false;

    for (int i = 0; i < g->m->graph->n_nodes && !any; i++) {
        const struct pare_node *n = g->m->graph->node[i];

        any = n->op && n->op->flags & PARE_OP_VIEW && n->n_in && is_weight(g->m->graph, n->in[0]);
    }
    if (!any)
        return 0;
    PARE_TRY(count_uses(&s, err));
    for (int i = 0; i < g->m->graph->n_nodes; i++)
        if (is_view(&s, g->m->graph->node[i]))
            PARE_TRY(take_view(&s, g->m->graph->node[i], err));
    if (!g->changed)
        return 0;
    for (size_t i = 0; i < g->p->n_initializer; i++)
        PARE_TRY(reshape(&s, i, err));
    for (size_t i = 0; i < g->p->n_node; i++)
        PARE_TRY(rewire(&s, i, err));
    PARE_TRY(pare_intake_drop_inputs(g, &s.shape.map, err));
    if (!s.names.n && g->p->n_input == inputs)
        return patch(&s, err);
    return pare_intake_drop_dead(g, &s.dead, err);
}

const struct pare_intake_step pare_intake_step_view_weights = {
    .name = "view_weights",
    .what = "Reshape, Squeeze, Unsqueeze and Identity nodes of weights removed",
    .built = view_weights,
};

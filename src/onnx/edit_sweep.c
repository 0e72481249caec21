/* edit_sweep.c - remove nodes and initializers that no output of the graph depends on. */
#include <string.h>

#include "edit_internal.h"

#define MAX_DEPTH 100 /* of nested subgraphs */

static const char *str(const char *s)
{
    return s ? s : "";
}

static int mark(struct pare_edit *e, struct pare_map *needed, const char *name,
                struct pare_err *err)
{
    return pare_map_set(needed, e->a, str(name), e, err);
}

/* The node's inputs, and every name that its subgraphs use, whatever scope it refers to. */
static int mark_inputs(struct pare_edit *e, const Onnx__NodeProto *n, struct pare_map *needed,
                       int depth, struct pare_err *err);

static int mark_graph(struct pare_edit *e, const Onnx__GraphProto *g, struct pare_map *needed,
                      int depth, struct pare_err *err)
{
    for (size_t i = 0; i < g->n_output; i++)
        PARE_TRY(mark(e, needed, g->output[i]->name, err));
    for (size_t i = 0; i < g->n_node; i++)
        PARE_TRY(mark_inputs(e, g->node[i], needed, depth, err));
    return 0;
}

static int mark_inputs(struct pare_edit *e, const Onnx__NodeProto *n, struct pare_map *needed,
                       int depth, struct pare_err *err)
{
    for (size_t k = 0; k < n->n_input; k++)
        PARE_TRY(mark(e, needed, n->input[k], err));
    for (size_t k = 0; k < n->n_attribute && depth < MAX_DEPTH; k++) {
        const Onnx__AttributeProto *at = n->attribute[k];

        if (at->g)
            PARE_TRY(mark_graph(e, at->g, needed, depth + 1, err));
        for (size_t j = 0; j < at->n_graphs; j++)
            PARE_TRY(mark_graph(e, at->graphs[j], needed, depth + 1, err));
    }
    return 0;
}

static bool makes_needed(const Onnx__NodeProto *n, const struct pare_map *needed)
{
    for (size_t k = 0; k < n->n_output; k++)
        if (*str(n->output[k]) && pare_map_get(needed, n->output[k]))
            return true;
    return false;
}

/* Nodes may be in any order, so repeat until nothing is new; one pass is enough for most files. */
static int find_needed(struct pare_edit *e, struct pare_map *needed, bool *live,
                       struct pare_err *err)
{
    bool more = true;

    for (size_t i = 0; i < e->graph.n_output; i++)
        PARE_TRY(mark(e, needed, e->graph.output[i]->name, err));
    while (more) {
        more = false;
        for (int i = e->n; i-- > 0;) {
            const Onnx__NodeProto *p = e->slot[i].p;

            if (!p || live[i] || !makes_needed(p, needed))
                continue;
            live[i] = more = true;
            PARE_TRY(mark_inputs(e, p, needed, 0, err));
        }
    }
    return 0;
}

int pare_edit_sweep(struct pare_edit *e, struct pare_err *err)
{
    bool *live = pare_alloc(e->a, (size_t)e->n + 1, sizeof(*live));
    struct pare_map needed = { 0 };
    Onnx__GraphProto *g = &e->graph;
    size_t kept = 0;

    if (!live)
        return pare_edit_no_memory(err);
    PARE_TRY(find_needed(e, &needed, live, err));
    for (int i = 0; i < e->n; i++)
        if (!live[i])
            e->slot[i].p = NULL;
    for (size_t i = 0; i < g->n_initializer; i++)
        if (pare_map_get(&needed, str(g->initializer[i]->name)))
            g->initializer[kept++] = g->initializer[i];
        else
            pare_edit_drop_graph_input(e, str(g->initializer[i]->name));
    g->n_initializer = kept;
    kept = 0;
    for (size_t i = 0; i < g->n_value_info; i++) {
        const char *name = str(g->value_info[i]->name);

        if (pare_map_get(&needed, name) && !pare_map_get(&e->stale, name))
            g->value_info[kept++] = g->value_info[i];
    }
    g->n_value_info = kept;
    return 0;
}

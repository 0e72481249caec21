/* body_graphs.c - graphs of the bodies of If, Loop and Scan, to find dependency groups in. */
#include "../base/arena.h"
#include "../graph/pattern/pattern.h"
#include "body_model.h"

/* Has a node of the graph, or of a body in it, weights? */
static bool has_layers(const struct pare_graph *g)
{
    const struct pare_graph *body;

    for (int i = 0; i < g->n_nodes; i++) {
        const struct pare_node *n = g->node[i];

        if (n->op && n->op->layer.params)
            return true;
        for (int b = 0; (body = pare_node_body(n, b, NULL)) != NULL; b++)
            if (has_layers(body))
                return true;
    }
    return false;
}

/* A body that cannot be analyzed is left out; out of memory is an error. */
static int analyze(struct pare_arena *a, const struct pare_body_model *body, struct pare_graph **g,
                   struct pare_err *err)
{
    struct pare_all_sizes all;
    const struct pare_io *io;
    struct pare_err why = { 0 };
    int rc;

    *g = NULL;
    pare_model_inputs(body->model, &io);
    rc = pare_graph_all_sizes(a, body->model->graph, io, body->given, &all, &why);
    if (!rc)
        rc = pare_graph_canonical_axes(all.g, &why);
    if (rc == PARE_ENOMEM)
        *err = why;
    if (!rc)
        *g = all.g;
    return rc == PARE_ENOMEM ? rc : 0;
}

static int add_body(struct pare_arena *a, const struct pare_model *m, const struct pare_graph *g,
                    const struct pare_node *n, int b, struct pare_body_graph **t,
                    struct pare_err *err)
{
    struct pare_body_model body;
    struct pare_err why = { 0 };
    int rc = pare_body_model_new(a, m, g, n, b, &body, &why);

    *t = NULL;
    if (rc == PARE_ENOMEM)
        *err = why;
    if (rc || !body.model)
        return rc == PARE_ENOMEM ? rc : 0;
    *t = pare_alloc(a, 1, sizeof(**t));
    if (!*t) {
        pare_model_free(body.model);
        return pare_no_memory(err, "for the graph of a body");
    }
    (*t)->model = body.model;
    return analyze(a, &body, &(*t)->g, err);
}

/* path: of the graph g, "" for the main graph. */
static int add_bodies(struct pare_arena *a, const struct pare_model *m, const struct pare_graph *g,
                      const char *path, struct pare_body_graph ***end, struct pare_err *err)
{
    const struct pare_graph *inner;
    const char *label;

    for (int i = 0; i < g->n_nodes; i++)
        for (int b = 0; (inner = pare_node_body(g->node[i], b, &label)) != NULL; b++) {
            struct pare_body_graph *t = NULL;
            int rc = has_layers(inner) ? add_body(a, m, g, g->node[i], b, &t, err) : 0;

            if (!t)
                PARE_TRY(rc);
            if (!t)
                continue;
            **end = t;
            *end = &t->next;
            PARE_TRY(rc);
            t->path = pare_sprintf(a, "%s%s%s/%s", path, *path ? "/" : "", g->node[i]->name, label);
            if (!t->path)
                return pare_no_memory(err, "for the graph of a body");
            if (t->g)
                PARE_TRY(add_bodies(a, t->model, t->g, t->path, end, err));
        }
    return 0;
}

/* Leave out those without a graph. */
static void drop_unknown(struct pare_body_graph **list)
{
    while (*list)
        if ((*list)->g) {
            list = &(*list)->next;
        } else {
            pare_model_free((*list)->model);
            *list = (*list)->next;
        }
}

int pare_body_graphs_new(struct pare_arena *a, const struct pare_model *m,
                         const struct pare_graph *g, struct pare_body_graph **list,
                         struct pare_err *err)
{
    struct pare_body_graph **end = list;
    int rc;

    *list = NULL;
    rc = add_bodies(a, m, g, "", &end, err);
    if (rc) {
        pare_body_graphs_free(*list);
        *list = NULL;
        return rc;
    }
    drop_unknown(list);
    return 0;
}

void pare_body_graphs_free(struct pare_body_graph *list)
{
    for (; list; list = list->next)
        pare_model_free(list->model);
}

/* bodies.c - bodies (subgraphs) of If, Loop, Scan and SequenceMap: find and run them.
 *
 * A body belongs to its node: a clone of a graph has clones of the bodies, which refer to the
 * clone's values.  So a captured value needs no lookup, and a constant of a body is loaded once.
 */
#include "graph.h"

#include <string.h>

#include "../base/arena.h"
#include "../base/limits.h"
#include "../tensor/tensor.h"

static const char *label_of(const char *attr)
{
    return !strcmp(attr, "then_branch") ? "then" : !strcmp(attr, "else_branch") ? "else" : attr;
}

struct pare_graph *pare_node_body(const struct pare_node *n, int i, const char **label)
{
    const struct pare_opt *o = n->op && n->attr ? n->op->attrs : NULL;

    for (; o && o->name; o++) {
        struct pare_graph *body;

        if (o->type != PARE_OPT_GRAPH)
            continue;
        memcpy(&body, (const char *)n->attr + o->offset, sizeof(body));
        if (!body || i--)
            continue;
        if (label)
            *label = label_of(o->name);
        return body;
    }
    return NULL;
}

static bool is_own(const struct pare_graph *g, const struct pare_value *v)
{
    return v->id < g->n_values && g->value[v->id] == v;
}

/* The results of the previous call are gone. */
static void start_over(const struct pare_graph *g)
{
    for (int i = 0; i < g->n_values; i++)
        if (!(g->value[i]->flags & PARE_V_CONST))
            g->value[i]->t.data = NULL;
}

static int take_result(struct pare_ctx *c, const struct pare_graph *g, struct pare_value *v,
                       struct pare_tensor *out, struct pare_err *err)
{
    PARE_TRY(pare_value_load(g->arena, v, err));
    if (!v->t.data)
        return pare_fail(err, PARE_EFORMAT, "no node produces the output '%s' of a body", v->name);
    *out = v->t;
    if (is_own(g, v))
        return 0;
    return pare_value_copy(c->results, &v->t, out, err); /* its memory may be used again */
}

int pare_graph_call(struct pare_ctx *c, const struct pare_graph *body, const struct pare_tensor *in,
                    int n_in, struct pare_tensor *out, int n_out, struct pare_err *err)
{
    struct pare_graph *g = (struct pare_graph *)(uintptr_t)body;

    if (g->n_in != n_in || g->n_out < n_out)
        return pare_fail(err, PARE_EFORMAT,
                         "its body has %d inputs and %d outputs, expected %d and at least %d",
                         g->n_in, g->n_out, n_in, n_out);
    if (c->calls_left <= 0)
        return pare_fail(err, PARE_ELIMIT, "bodies run more than %d times", PARE_MAX_ITERATIONS);
    c->calls_left--;
    start_over(g);
    for (int i = 0; i < n_in; i++)
        g->in[i]->t = in[i];
    PARE_TRY(pare_graph_eval(g, c, err));
    for (int i = 0; i < n_out; i++)
        PARE_TRY(take_result(c, g, g->out[i], &out[i], err));
    return 0;
}

void pare_graph_declared(const struct pare_graph *body, bool input, int i, struct pare_tensor *t)
{
    const struct pare_tensor *type = input ? body->in_type : body->out_type;

    *t = (struct pare_tensor){ .dtype = PARE_NONE, .rank = -1 };
    if (type && i < (input ? body->n_in : body->n_out))
        *t = type[i];
}

void pare_graph_replace(struct pare_graph *g, const struct pare_value *from, struct pare_value *to)
{
    struct pare_graph *inner;

    for (int i = 0; i < g->n_nodes; i++) {
        struct pare_node *n = g->node[i];

        for (int k = 0; k < n->n_in; k++)
            n->in[k] = n->in[k] == from ? to : n->in[k];
        for (int k = 0; k < n->n_cap; k++)
            n->cap[k] = n->cap[k] == from ? to : n->cap[k];
        for (int b = 0; (inner = pare_node_body(n, b, NULL)) != NULL; b++)
            pare_graph_replace(inner, from, to);
    }
    for (int i = 0; i < g->n_out; i++)
        g->out[i] = g->out[i] == from ? to : g->out[i];
}

void pare_bodies_unload(const struct pare_node *n)
{
    const struct pare_graph *g;

    for (int b = 0; (g = pare_node_body(n, b, NULL)) != NULL; b++) {
        for (int i = 0; i < g->n_values; i++)
            if (g->value[i]->raw)
                g->value[i]->t.data = NULL;
        for (int i = 0; i < g->n_nodes; i++)
            pare_bodies_unload(g->node[i]);
    }
}

/* passing_node.c - temporary nodes that pass their input on. */
#include "passing_node.h"

#include "../base/arena.h"

int pare_passing_node_insert(struct pare_graph *g, const struct pare_op *op, void *attr,
                             struct pare_value *from, const char *ending, struct pare_err *err)
{
    const char *name = pare_sprintf(g->arena, "%s:%s", from->name, ending);
    struct pare_value *to = name ? pare_graph_value(g, name, err) : NULL;
    struct pare_node *n = to ? pare_graph_add(g, 1, 1, err) : NULL;

    if (!n)
        return pare_no_memory(err, "for a node after '%s'", from->name);
    n->op = op;
    n->name = name;
    n->type = op->type;
    n->domain = op->domain;
    n->version = 1;
    n->attr = attr;
    n->in[0] = from;
    n->out[0] = to;
    to->maker = n;
    pare_graph_redirect(g, from, to);
    return 0;
}

void pare_passing_nodes_remove(struct pare_graph *g, const struct pare_op *op)
{
    int kept = 0;

    for (int i = g->n_nodes - 1; i >= 0; i--)
        if (g->node[i]->op == op)
            pare_graph_redirect(g, g->node[i]->out[0], g->node[i]->in[0]);
    for (int i = 0; i < g->n_nodes; i++)
        if (g->node[i]->op != op) {
            g->node[kept] = g->node[i];
            g->node[kept]->id = kept;
            kept++;
        }
    g->n_nodes = kept;
}

/* split_fused.c - separate FusedConv and FusedGemm into Conv or Gemm, Add and an activation.
 *
 * Kernels match the separate nodes and fuse them in their own way.
 */
#include "../plan.h"

#include <string.h>

#include "../../op/fused/fused_act.h"

extern const struct pare_op pare_op_add;

/* Let n produce a new value, and append a node that reads it and produces the value that n did;
 * returns that node. */
static struct pare_node *append(struct pare_graph *g, struct pare_node *n, const struct pare_op *op,
                                int n_in, struct pare_err *err)
{
    char *name = pare_sprintf(g->arena, "%s before %s", n->out[0]->name, op->type);
    struct pare_value *y = n->out[0], *v = name ? pare_graph_value(g, name, err) : NULL;
    struct pare_node *next = v ? pare_graph_add(g, n_in, 1, err) : NULL;

    if (!next) {
        if (!name)
            pare_no_memory(err, "for the plan");
        return NULL;
    }
    next->op = op;
    next->name = n->name;
    next->type = op->type;
    next->version = 13;
    next->in[0] = v;
    next->out[0] = y;
    v->t = y->t;
    v->t.data = NULL;
    v->maker = n;
    y->maker = next;
    n->out[0] = v;
    pare_graph_move(g, next, n->id + 1);
    return next;
}

static int split(struct pare_graph *g, struct pare_node *n, const struct pare_fused_parts *p,
                 struct pare_err *err)
{
    struct pare_node *last = n, *add;
    void *attr;

    n->op = p->first;
    n->type = p->first->type;
    n->domain = "";
    n->version = 13;
    n->n_in = p->n_in;
    if (p->added) {
        add = last = append(g, n, &pare_op_add, 2, err);
        if (!add)
            return err->code;
        add->in[1] = p->added;
    }
    if (!p->act.node.op)
        return 0;
    attr = pare_alloc(g->arena, 1, sizeof(p->act.attr));
    if (!attr)
        return pare_no_memory(err, "for the plan");
    memcpy(attr, p->act.attr, sizeof(p->act.attr));
    last = append(g, last, p->act.node.op, 1, err);
    if (!last)
        return err->code;
    last->attr = attr;
    last->version = p->act.node.version;
    return 0;
}

int pare_plan_split_fused(struct pare_plan *p, struct pare_err *err)
{
    struct pare_fused_parts parts;

    for (int i = 0; i < p->graph->n_nodes; i++) {
        struct pare_node *n = p->graph->node[i];

        if (n->op && (pare_fused_conv_parts(n, &parts) || pare_fused_gemm_parts(n, &parts)))
            PARE_TRY(split(p->graph, n, &parts, err));
    }
    return 0;
}

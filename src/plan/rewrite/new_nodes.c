/* new_nodes.c - nodes and constants that rewrites add to a plan's graph. */
#include "new_nodes.h"

#include "../../base/arena.h"
#include "../../op/op.h"
#include "../../tensor/tensor.h"

extern const struct pare_op pare_op_unsqueeze;
extern const struct pare_op pare_op_concat;
extern const struct pare_op pare_op_identity;

#define OPSET 11 /* of the new nodes: Unsqueeze has its axes as an attribute */

const char *pare_new_name(const struct pare_graph *g, const char *name)
{
    const char *fresh = name;

    for (int i = g->n_values; fresh && pare_map_get(&g->names, fresh); i++)
        fresh = pare_sprintf(g->arena, "%s.%d", name, i);
    return fresh;
}

static struct pare_value *new_value(struct pare_graph *g, const char *name, struct pare_err *err)
{
    const char *fresh = pare_new_name(g, name);

    if (fresh)
        return pare_graph_value(g, fresh, err);
    pare_no_memory(err, "for the plan");
    return NULL;
}

static struct pare_value *constant(struct pare_graph *g, const struct pare_tensor *t,
                                   struct pare_err *err)
{
    struct pare_value *v = new_value(g, "run", err);

    if (!v || pare_value_copy(g->arena, t, &v->t, err))
        return NULL;
    v->flags = PARE_V_CONST;
    return v;
}

struct pare_value *pare_new_constant(struct pare_graph *g, const struct pare_tensor *t,
                                     struct pare_err *err)
{
    return constant(g, t, err);
}

struct pare_value *pare_new_number(struct pare_graph *g, int rank, int64_t i, struct pare_err *err)
{
    return constant(
        g, &(struct pare_tensor){ .dtype = PARE_I64, .rank = rank, .dim = { 1 }, .data = &i }, err);
}

struct pare_value *pare_new_true(struct pare_graph *g, int rank, struct pare_err *err)
{
    uint8_t yes = 1;

    return constant(
        g, &(struct pare_tensor){ .dtype = PARE_BOOL, .rank = rank, .dim = { 1 }, .data = &yes },
        err);
}

struct pare_node *pare_new_node(struct pare_graph *g, const struct pare_op *op, int n_in,
                                const struct pare_setting *set, struct pare_value *y,
                                struct pare_err *err)
{
    struct pare_node *n = pare_graph_add(g, n_in, 1, err);
    void *attr = pare_alloc(g->arena, 1, op->attr_size + 1);

    if (!n)
        return NULL;
    n->op = op;
    n->type = n->name = op->type;
    n->version = OPSET;
    n->attr = attr;
    n->out[0] = y ? y : new_value(g, op->type, err);
    if (!n->out[0] || !attr) {
        pare_no_memory(err, "for the plan");
        return NULL;
    }
    n->out[0]->maker = n;
    if (op->attrs && pare_opts_apply(op->attrs, set, set != NULL, attr, g->arena, err))
        return NULL;
    return n;
}

int pare_new_copy(struct pare_graph *g, struct pare_value *x, struct pare_value *y,
                  struct pare_err *err)
{
    struct pare_node *n = pare_new_node(g, &pare_op_identity, 1, NULL, y, err);

    if (!n)
        return err->code;
    n->in[0] = x;
    return 0;
}

static struct pare_value *unsqueeze(struct pare_graph *g, int64_t axis, struct pare_value *x,
                                    struct pare_err *err)
{
    int64_t *list = pare_alloc(g->arena, 1, sizeof(*list));
    struct pare_setting axes = { .name = "axes", .type = PARE_OPT_INTS, .ints = { list, 1 } };
    struct pare_node *n;

    if (!list) {
        pare_no_memory(err, "for the plan");
        return NULL;
    }
    *list = axis;
    n = pare_new_node(g, &pare_op_unsqueeze, 1, &axes, NULL, err);
    if (!n)
        return NULL;
    n->in[0] = x;
    return n->out[0];
}

int pare_new_join(struct pare_graph *g, const struct pare_join *j, struct pare_err *err)
{
    struct pare_setting axis = { .name = "axis", .type = PARE_OPT_INT, .whole = j->axis };
    struct pare_node *n = pare_new_node(g, &pare_op_concat, j->n, &axis, j->y, err);

    if (!n)
        return err->code;
    for (int i = 0; i < j->n; i++) {
        n->in[i] = j->new_axis ? unsqueeze(g, j->axis, j->x[i], err) : j->x[i];
        if (!n->in[i])
            return err->code;
    }
    return 0;
}

/* infer.c - shapes of all values, and the values that are the same in every run.
 *
 * Shapes are always concrete: free dimensions of the inputs are bound first.  So one pass in node
 * order is enough, and a shape computed by the graph itself (Shape, Gather, Concat, Reshape) is
 * simply a constant that gets folded on the way.
 */
#include "graph.h"

#include "../base/arena.h"
#include "../tensor/tensor.h"

/* What folding may allocate in one graph; beyond that nodes run with the others. */
#define FOLD_BYTES ((size_t)1 << 31)

void pare_graph_bind(struct pare_graph *g, int64_t batch)
{
    for (int i = 0; i < g->n_in; i++) {
        struct pare_tensor *t = &g->in[i]->t;

        for (int k = 0; k < t->rank; k++)
            if (t->dim[k] < 0)
                t->dim[k] = k ? 1 : batch;
    }
}

/* The node's results depend on nothing that a run could change. */
static bool is_constant(const struct pare_node *n)
{
    if (n->op->flags & PARE_OP_RANDOM)
        return false;
    if (n->op->flags & PARE_OP_SHAPES)
        return true;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && !(n->in[i]->flags & PARE_V_CONST))
            return false;
    for (int i = 0; i < n->n_cap; i++)
        if (!(n->cap[i]->flags & PARE_V_CONST))
            return false;
    return true;
}

/* Small constants are copied out of the file before infer(), which may want to read them. */
static int load_small(struct pare_graph *g, struct pare_node *n, struct pare_err *err)
{
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && n->in[i]->raw && !n->in[i]->t.data && pare_numel(&n->in[i]->t) <= 1 << 16)
            PARE_TRY(pare_value_load(g->arena, n->in[i], err));
    return 0;
}

/* Four times as large as the integers, which may be all that anybody reads. */
static bool is_late(const struct pare_graph *g, const struct pare_node *n)
{
    return g->late && n->op->flags & PARE_OP_LATE && n->n_out == 1 && n->out[0] &&
           pare_numel(&n->out[0]->t) > 1 << 16;
}

static int fold(struct pare_graph *g, struct pare_node *n, struct pare_ctx *c, size_t *budget,
                struct pare_err *err)
{
    size_t bytes, sum = 0;

    for (int i = 0; i < n->n_out && !(n->op->flags & PARE_OP_ALLOCS); i++)
        if (n->out[i]) {
            PARE_TRY(pare_tensor_size(&n->out[i]->t, NULL, &bytes, err));
            sum += bytes;
        }
    if (sum > *budget)
        return 0;
    *budget -= sum;
    if (is_late(g, n)) {
        n->out[0]->flags |= PARE_V_CONST;
        return 0;
    }
    if (!(n->op->flags & PARE_OP_SHAPES))
        for (int i = 0; i < n->n_in; i++)
            if (n->in[i])
                PARE_TRY(pare_value_load(g->arena, n->in[i], err));
    PARE_TRY(pare_node_eval(n, c, err));
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i])
            n->out[i]->flags |= PARE_V_CONST;
    return 0;
}

static bool inputs_known(const struct pare_node *n)
{
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && n->in[i]->t.dtype == PARE_NONE)
            return false;
    for (int i = 0; i < n->n_cap; i++)
        if (n->cap[i]->t.dtype == PARE_NONE)
            return false;
    return true;
}

static void forget(struct pare_node *n)
{
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i])
            n->out[i]->t = (struct pare_tensor){ .dtype = PARE_NONE, .rank = -1 };
}

static int infer_node(struct pare_graph *g, struct pare_node *n, struct pare_ctx *c, size_t *budget,
                      struct pare_err *err)
{
    if (!n->op)
        return pare_node_check(n, err);
    if (!inputs_known(n))
        return pare_fail(err, PARE_EDYNAMIC, "an input's shape depends on data");
    PARE_TRY(load_small(g, n, err));
    PARE_TRY(pare_node_infer(n, err));
    if (is_constant(n))
        PARE_TRY(fold(g, n, c, budget, err));
    if (n->op->flags & PARE_OP_ALLOCS && !pare_node_known(n))
        return pare_fail(err, PARE_EDYNAMIC, "its results are made while it runs");
    return 0;
}

int pare_graph_infer(struct pare_graph *g, bool lenient, struct pare_err *err)
{
    struct pare_arena *scratch = pare_arena_new(1 << 16);
    struct pare_ctx c = { .scratch = scratch,
                          .results = g->arena,
                          .threads = 1,
                          .call = pare_graph_call };
    size_t budget = FOLD_BYTES;
    int rc = 0;

    if (!scratch)
        return pare_fail(err, PARE_ENOMEM, "no memory to infer shapes");
    for (int i = 0; i < g->n_in && !rc; i++)
        if (g->in[i]->t.dtype != PARE_NONE)
            rc = pare_tensor_size(&g->in[i]->t, NULL, NULL, err);
    for (int i = 0; i < g->n_nodes && !rc; i++) {
        struct pare_node *n = g->node[i];

        if (pare_node_known(n) && n->n_out)
            continue;
        rc = infer_node(g, n, &c, &budget, err);
        if (rc == PARE_EDYNAMIC || (rc && rc != PARE_ENOMEM && lenient)) {
            forget(n);
            rc = 0;
        }
        if (rc)
            pare_at(err, rc, "node '%s' (%s)", n->name, n->type);
    }
    pare_arena_free(scratch);
    return rc;
}

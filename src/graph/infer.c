/* infer.c - shape inference and constant folding.
 *
 * Shapes are always concrete: free dimensions of the inputs are bound first.  So one pass in node
 * order is enough, and a shape computed by the graph itself (Shape, Gather, Concat, Reshape) is a
 * constant that gets folded in the same pass.
 */
#include "graph.h"

#include "../base/arena.h"
#include "../base/limits.h"
#include "../tensor/tensor.h"

#define SLACK ((size_t)1 << 20) /* of arenas, whose blocks are larger than their contents */

void pare_graph_bind(struct pare_graph *g, int64_t batch)
{
    for (int i = 0; i < g->n_in; i++) {
        struct pare_tensor *t = &g->in[i]->t;

        for (int k = 0; k < t->rank; k++)
            if (t->dim[k] < 0)
                t->dim[k] = k ? 1 : batch;
    }
}

/* Whether the node's results are the same in every run. */
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

/* Copy small constants out of the file before infer(), which may read them. */
static int load_small(struct pare_graph *g, struct pare_node *n, struct pare_err *err)
{
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && n->in[i]->raw && !n->in[i]->t.data && pare_numel(&n->in[i]->t) <= 1 << 16)
            PARE_TRY(pare_value_load(g->arena, n->in[i], err));
    return 0;
}

/* Float values are four times as large as the int8 values, which may be all that kernels read. */
static bool is_late(const struct pare_graph *g, const struct pare_node *n)
{
    return g->late && n->op->flags & PARE_OP_LAZY && n->n_out == 1 && n->out[0] &&
           pare_numel(&n->out[0]->t) > 1 << 16;
}

/* Memory budget of constant folding for one graph: a small file with constants that specify huge
 * sizes gets a few hundred megabytes, not all memory.  Beyond the budget nodes run with the others,
 * in planned memory.  The budget grows with the constants, including those of Constant nodes. */
static size_t budget_of(const struct pare_graph *g)
{
    size_t sum = PARE_MAX_FOLDED, bytes;
    struct pare_err err;

    for (int i = 0; i < g->n_values; i++) {
        const struct pare_value *v = g->value[i];

        if (!v->maker && (v->t.data || v->raw) && !pare_tensor_size(&v->t, NULL, &bytes, &err))
            sum += PARE_FOLD_RATIO * bytes;
    }
    return sum;
}

/* Bytes of the results, as far as they are known. */
static int results_size(const struct pare_node *n, size_t *sum, struct pare_err *err)
{
    size_t bytes;

    *sum = 0;
    for (int i = 0; i < n->n_out && !(n->op->flags & PARE_OP_ALLOCS); i++)
        if (n->out[i]) {
            PARE_TRY(pare_tensor_size(&n->out[i]->t, NULL, &bytes, err));
            *sum += bytes;
        }
    return 0;
}

/* Fold the node if the budget suffices for its results and its scratch memory. */
static int eval_within(struct pare_graph *g, struct pare_node *n, struct pare_ctx *c,
                       size_t *budget, struct pare_err *err)
{
    size_t may = *budget + SLACK, taken, left, scratch_left;
    struct pare_mark m = pare_mark(g->arena);
    int rc;

    pare_arena_limit(g->arena, may);
    pare_arena_limit(c->scratch, may);
    rc = pare_node_eval(n, c, err);
    left = pare_arena_limit(g->arena, 0);
    scratch_left = pare_arena_limit(c->scratch, 0);
    taken = may - left;
    if (rc == PARE_ENOMEM && (!left || !scratch_left)) {
        for (int i = 0; i < n->n_out; i++)
            if (n->out[i])
                n->out[i]->t.data = NULL;
        pare_reset(g->arena, m);
        return 0;
    }
    *budget -= taken < *budget ? taken : *budget;
    for (int i = 0; i < n->n_out && !rc; i++)
        if (n->out[i])
            n->out[i]->flags |= PARE_V_CONST;
    return rc;
}

static int fold(struct pare_graph *g, struct pare_node *n, struct pare_ctx *c, size_t *budget,
                struct pare_err *err)
{
    size_t sum;

    PARE_TRY(results_size(n, &sum, err));
    if (!n->n_in && !n->n_cap)
        *budget += (PARE_FOLD_RATIO + 1) * sum;
    if (sum > *budget)
        return 0;
    if (is_late(g, n)) {
        *budget -= sum;
        n->out[0]->flags |= PARE_V_CONST;
        return 0;
    }
    if (!(n->op->flags & PARE_OP_SHAPES))
        for (int i = 0; i < n->n_in; i++)
            if (n->in[i])
                PARE_TRY(pare_value_load(g->arena, n->in[i], err));
    return eval_within(g, n, c, budget, err);
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
        return pare_fail(err, PARE_EDYNAMIC, "it allocates its results at run time");
    return 0;
}

int pare_graph_infer(struct pare_graph *g, bool lenient, struct pare_err *err)
{
    struct pare_arena *scratch = pare_arena_new(1 << 16);
    struct pare_ctx c = { .scratch = scratch,
                          .results = g->arena,
                          .threads = 1,
                          .call = pare_graph_call };
    size_t budget = budget_of(g);
    int rc = 0;

    if (!scratch)
        return pare_no_memory(err, "to infer shapes");
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

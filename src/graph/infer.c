/* infer.c - shape inference and constant folding.
 *
 * Shapes are always concrete: free dimensions of the inputs are bound first.  So one pass in node
 * order is enough, and a shape computed by the graph itself (Shape, Gather, Concat, Reshape) is a
 * constant that gets folded in the same pass.
 */
#include "graph.h"

#include <stdatomic.h>

#include "../base/arena.h"
#include "../base/limits.h"
#include "../op/control/iterate.h"
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

/* Sequences and optionals are not folded: constants are tensors. */
static bool is_tensors(const struct pare_node *n)
{
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i] && !pare_is_tensor(&n->out[i]->t))
            return false;
    return true;
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
    c->calls_left = PARE_FOLD_ITERATIONS;
    rc = pare_node_eval(n, c, err);
    left = pare_arena_limit(g->arena, 0);
    scratch_left = pare_arena_limit(c->scratch, 0);
    taken = may - left;
    if ((rc == PARE_ENOMEM && (left <= PARE_ITERATE_EXHAUSTED || !scratch_left)) ||
        (rc == PARE_ELIMIT && !c->calls_left) || !(rc || is_tensors(n))) {
        for (int i = 0; i < n->n_out; i++)
            if (n->out[i])
                n->out[i]->t.data = NULL;
        pare_bodies_unload(n);
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
    for (int i = 0; i < n->n_cap; i++)
        PARE_TRY(pare_value_load(g->arena, n->cap[i], err));
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

/* ---- bodies ------------------------------------------------------------------------------- */

static int infer_graph(struct pare_graph *g, struct pare_ctx *c, size_t *budget, unsigned how,
                       struct pare_err *err);

enum { LENIENT = 1, SHALLOW = 2 }; /* skip nodes that cannot run; skip bodies that iterate */

static bool same_type(const struct pare_tensor *a, const struct pare_tensor *b)
{
    return a->dtype != PARE_NONE && a->dtype == b->dtype && pare_same_shape(a, b);
}

/* The body's inputs as in the first iteration. */
static void first_inputs(const struct pare_node *n, const struct pare_graph *body)
{
    for (int i = 0; i < body->n_in; i++) {
        pare_graph_declared(body, true, i, &body->in[i]->t);
        n->op->body_input(n, i, &body->in[i]->t);
    }
}

/* Captured values without contents.  A trial may load them into memory that is freed with it. */
struct unloaded {
    struct pare_value **v;
    int n;
};

static int list_unloaded(struct pare_arena *a, const struct pare_graph *g, struct unloaded *u,
                         struct pare_err *err)
{
    size_t most = 0;

    for (int i = 0; i < g->n_nodes; i++)
        most += (size_t)(g->node[i]->n_in + g->node[i]->n_cap);
    *u = (struct unloaded){ pare_alloc(a, most + 1, sizeof(*u->v)), 0 };
    if (!u->v)
        return pare_no_memory(err, "to infer shapes");
    for (int i = 0; i < g->n_nodes; i++) {
        const struct pare_node *n = g->node[i];

        for (int k = 0; k < n->n_in + n->n_cap; k++) {
            struct pare_value *v = k < n->n_in ? n->in[k] : n->cap[k - n->n_in];

            if (v && !v->t.data && !(v->id < g->n_values && g->value[v->id] == v))
                u->v[u->n++] = v;
        }
    }
    return 0;
}

static void unload(const struct unloaded *u)
{
    for (int i = 0; i < u->n; i++)
        u->v[i]->t.data = NULL;
}

/* A value that an iteration passes to the next one may change its size.  It does not if the body
 * gives it the type and shape that it has in the first iteration, whenever the inputs have those of
 * the first iteration: then, by induction, every iteration does.  Otherwise nothing is known about
 * any such value. */
static int states_keep(const struct pare_node *n, struct pare_graph *body, struct pare_ctx *c,
                       size_t budget, bool *keep, struct pare_err *err)
{
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_ctx own = *c;
    struct pare_graph *trial = a ? pare_graph_clone(a, body, err) : NULL;
    struct unloaded captured = { NULL, 0 };
    struct pare_tensor t = { 0 };
    int rc = trial ? list_unloaded(a, trial, &captured, err)
                   : pare_no_memory(err, "to infer shapes");

    own.results = a;
    if (!rc) {
        first_inputs(n, trial);
        rc = infer_graph(trial, &own, &budget, LENIENT | SHALLOW, err);
    }
    unload(&captured);
    *keep = true;
    for (int i = 0; i < body->n_in && !rc; i++) {
        int out = n->op->body_input(n, i, &t);

        if (out >= 0)
            *keep &= out < trial->n_out && same_type(&trial->in[i]->t, &trial->out[out]->t);
    }
    pare_arena_free(a);
    return rc;
}

static int bind_body(const struct pare_node *n, struct pare_graph *body, struct pare_ctx *c,
                     size_t budget, struct pare_err *err)
{
    struct pare_tensor t = { 0 };
    bool keep;

    if (!n->op->body_input)
        return 0;
    PARE_TRY(states_keep(n, body, c, budget, &keep, err));
    first_inputs(n, body);
    for (int i = 0; i < body->n_in && !keep; i++)
        if (n->op->body_input(n, i, &t) >= 0)
            body->in[i]->t = (struct pare_tensor){ .dtype = PARE_NONE, .rank = -1 };
    return 0;
}

/* The type of output k of a node that chooses a body, if all bodies that can be chosen agree. */
static bool agreed(const struct pare_node *n, const struct pare_graph *chosen, int k,
                   struct pare_value **v)
{
    const struct pare_graph *body;

    *v = NULL;
    for (int b = 0; (body = pare_node_body(n, b, NULL)) != NULL; b++) {
        if (chosen && body != chosen)
            continue;
        if (k >= body->n_out || body->out[k]->t.rank < 0 || body->out[k]->t.dtype == PARE_NONE ||
            (*v && !same_type(&(*v)->t, &body->out[k]->t)))
            return false;
        *v = body->out[k];
    }
    return *v != NULL;
}

/* Set the outputs of a node that chooses a body; *known false: a shape is known only at run
 * time. */
static int choose_outputs(struct pare_graph *g, struct pare_node *n,
                          const struct pare_graph *chosen, bool *known, struct pare_err *err)
{
    struct pare_value *v;
    int rc;

    *known = false;

    for (int k = 0; k < n->n_out; k++)
        if (n->out[k] && !agreed(n, chosen, k, &v))
            return 0;
    for (int k = 0; k < n->n_out; k++) {
        if (!n->out[k])
            continue;
        agreed(n, chosen, k, &v);
        rc = chosen && v->flags & PARE_V_CONST ? pare_value_load(g->arena, v, err) : 0;
        if (rc == PARE_ENOMEM)
            return rc;
        n->out[k]->t = v->t;
        if (chosen && v->flags & PARE_V_CONST && !rc)
            n->out[k]->flags |= PARE_V_CONST;
        else
            n->out[k]->t.data = NULL;
    }
    *known = true;
    return 0;
}

/* Infer the shapes inside of the bodies. */
static int infer_inside(struct pare_graph *g, struct pare_node *n, struct pare_ctx *c,
                        size_t *budget, unsigned how, struct pare_err *err)
{
    const struct pare_graph *chosen = n->op->chosen ? n->op->chosen(n) : NULL;
    struct pare_graph *body;

    for (int b = 0; (body = pare_node_body(n, b, NULL)) != NULL; b++) {
        size_t own = budget_of(body) - PARE_MAX_FOLDED;
        int failed = body->failed;

        *budget += own;
        PARE_TRY(bind_body(n, body, c, *budget, err));
        PARE_TRY(infer_graph(body, c, budget, LENIENT | (how & SHALLOW), err));
        if (!chosen || body == chosen)
            g->failed += body->failed - failed;
    }
    return 0;
}

/* Results that follow from those of the bodies.  rc: what inferring the node itself returned. */
static int outputs_of_bodies(struct pare_graph *g, struct pare_node *n, int rc,
                             struct pare_err *err)
{
    const struct pare_graph *chosen = n->op->chosen ? n->op->chosen(n) : NULL;

    bool known = false;

    if (rc == PARE_EDYNAMIC && n->op->flags & PARE_OP_CHOOSES && inputs_known(n))
        PARE_TRY(choose_outputs(g, n, chosen, &known, err));
    return known ? 0 : rc;
}

static int infer_graph(struct pare_graph *g, struct pare_ctx *c, size_t *budget, unsigned how,
                       struct pare_err *err)
{
    struct pare_arena *results = c->results;
    int rc = 0;

    c->results = g->arena;
    for (int i = 0; i < g->n_nodes && !rc; i++) {
        struct pare_node *n = g->node[i];

        if (pare_node_known(n) && n->n_out)
            continue;
        rc = infer_node(g, n, c, budget, err);
        if (n->op && (!rc || rc == PARE_EDYNAMIC) && !pare_node_known(n) &&
            pare_node_body(n, 0, NULL) && !(how & SHALLOW && n->op->body_input)) {
            int bodies = infer_inside(g, n, c, budget, how, err);

            rc = bodies ? bodies : outputs_of_bodies(g, n, rc, err);
        }
        if (rc == PARE_EDYNAMIC || (rc && rc != PARE_ENOMEM && how & LENIENT)) {
            g->failed += rc != PARE_EDYNAMIC;
            forget(n);
            rc = 0;
        }
        if (rc)
            pare_at(err, rc, "node '%s' (%s)", n->name, n->type);
    }
    c->results = results;
    return rc;
}

static _Atomic int64_t inferences;

int64_t pare_infer_count(void)
{
    return atomic_load(&inferences);
}

/* An input whose rank the file does not declare is unknown, as what follows from it. */
static int check_input(struct pare_value *v, bool lenient, struct pare_err *err)
{
    if (v->t.dtype == PARE_NONE)
        return 0;
    if (v->t.rank >= 0)
        return pare_tensor_size(&v->t, NULL, NULL, err);
    if (!lenient)
        return pare_fail(err, PARE_ESHAPE,
                         "the file does not declare the shape of input '%s': specify it", v->name);
    v->t = (struct pare_tensor){ .dtype = PARE_NONE, .rank = -1 };
    return 0;
}

int pare_graph_infer(struct pare_graph *g, bool lenient, struct pare_err *err)
{
    struct pare_arena *scratch = pare_arena_new(1 << 16);
    struct pare_ctx c = { .scratch = scratch,
                          .results = g->arena,
                          .threads = 1,
                          .call = pare_graph_call,
                          .declared = pare_graph_declared };
    size_t budget = budget_of(g);
    int rc = 0;

    atomic_fetch_add(&inferences, 1);
    if (!scratch)
        return pare_no_memory(err, "to infer shapes");
    for (int i = 0; i < g->n_in && !rc; i++)
        rc = check_input(g->in[i], lenient, err);
    if (!rc)
        rc = infer_graph(g, &c, &budget, lenient ? LENIENT : 0, err);
    pare_arena_free(scratch);
    return rc;
}

/* tail_plans.c - layers after a result whose shape depends on data run by plans of their own.
 *
 * The length of a Range, the boxes that NonMaxSuppression keeps: such a shape is known only when
 * its node has run.  Everything that depends on it is the tail of the graph.  If the tail has
 * layers, one node replaces it, which makes a plan for the shapes of its inputs when it runs and
 * keeps the last few.  In the tail's plan the next such result ends it again, and so on.  A tail
 * without layers runs node by node, by reference kernels.
 */
#include <string.h>

#include "../base/arena.h"
#include "../base/limits.h"
#include "../tensor/tensor.h"
#include "plan.h"

#define KEPT 2        /* plans of a tail that are kept */
#define MOST_TAILS 32 /* tails in tails */

struct pare_tail {
    struct pare_plan *owner;
    struct pare_graph *graph; /* its inputs are the node's */
    struct pare_tensor *in;   /* of this run */
    struct pare_tensor *out;
    struct kept_plan {
        struct pare_plan *plan;
        struct pare_tensor *in; /* types and shapes */
    } kept[KEPT];               /* the last one used first */
    struct pare_tail *next;
};

/* ---- running --------------------------------------------------------------------------------- */

static bool fits(const struct kept_plan *k, const struct pare_tensor *in, int n)
{
    for (int i = 0; i < n && k->plan; i++)
        if (k->in[i].dtype != in[i].dtype || !pare_same_shape(&k->in[i], &in[i]))
            return false;
    return k->plan != NULL;
}

/* The plan for these inputs becomes kept[0]. */
static int choose(struct pare_tail *t, struct pare_err *err)
{
    const struct pare_plan *owner = t->owner;
    struct pare_plan_opts o = { .threads = owner->threads,
                                .precision = owner->backend.bf16 ? PARE_PRECISION_BF16
                                                                 : PARE_PRECISION_F32,
                                .in = t->in,
                                .n_in = t->graph->n_in };
    struct pare_plan_build build = { .opts = &o,
                                     .body = t->graph,
                                     .without = owner->without,
                                     .without_rewrites = owner->without_rewrites,
                                     .tail = owner->tail_depth + 1 };
    int n = t->graph->n_in, at = 0;
    struct kept_plan found;

    while (at < KEPT - 1 && !fits(&t->kept[at], t->in, n))
        at++;
    found = t->kept[at];
    if (!fits(&found, t->in, n)) {
        struct pare_plan *plan;

        for (int i = 0; i < n; i++) {
            t->graph->in[i]->t = t->in[i];
            t->graph->in[i]->t.data = NULL;
        }
        PARE_TRY(pare_plan_build(owner->model, &build, &plan, err));
        pare_plan_free(found.plan);
        found.plan = plan;
        memcpy(found.in, t->in, (size_t)n * sizeof(*found.in));
    }
    memmove(&t->kept[1], &t->kept[0], (size_t)at * sizeof(*t->kept));
    t->kept[0] = found;
    return 0;
}

static int forward(struct pare_node *n, struct pare_ctx *c, struct pare_err *err)
{
    struct pare_tail *t = *(struct pare_tail *const *)n->attr;
    bool tensors = true;
    int rc;

    for (int i = 0; i < n->n_in; i++) {
        t->in[i] = n->in[i]->t;
        tensors &= pare_is_tensor(&t->in[i]) && t->in[i].dtype != PARE_STR;
    }
    if (!tensors) {
        rc = pare_graph_call(c, t->graph, t->in, n->n_in, t->out, n->n_out, err);
    } else {
        PARE_TRY(choose(t, err));
        if (t->kept[0].plan->profile != t->owner->profile)
            pare_plan_profile(t->kept[0].plan, t->owner->profile);
        rc = pare_plan_execute(t->kept[0].plan, t->in, t->out, err);
    }
    for (int i = 0; i < n->n_out && !rc; i++)
        n->out[i]->t = t->out[i];
    return rc;
}

/* Not in ops.def: it is never written to a file. */
static const struct pare_op tail_op = {
    .type = "Tail",
    .doc = "Runs what depends on a shape that depends on data.",
    .domain = "ai.pare",
    .since = 1,
    .in = "V*",
    .min_out = 1,
    .max_out = -1,
    .attr_size = sizeof(struct pare_tail *),
    .flags = PARE_OP_ALLOCS | PARE_OP_RANDOM,
    .forward = forward,
};

struct pare_plan *pare_tail_plan(const struct pare_node *n)
{
    return n && n->op == &tail_op ? (*(struct pare_tail *const *)n->attr)->kept[0].plan : NULL;
}

void pare_tail_plans_free(struct pare_plan *p)
{
    for (struct pare_tail *t = p->tails; t; t = t->next)
        for (int i = 0; i < KEPT; i++)
            pare_plan_free(t->kept[i].plan);
    p->tails = NULL;
}

/* ---- what belongs to the tail ---------------------------------------------------------------- */

static bool is_unknown(const struct pare_value *v)
{
    return v && v->t.dtype == PARE_NONE && !(v->flags & PARE_V_CONST);
}

/* late[value id]: it depends on a result of unknown shape, or is one. */
static bool reads_late(const struct pare_node *n, const bool *late)
{
    for (int k = 0; k < n->n_in + n->n_cap; k++) {
        const struct pare_value *v = k < n->n_in ? n->in[k] : n->cap[k - n->n_in];

        if (v && late[v->id])
            return true;
    }
    return false;
}

/* part[node id]: the node is in the tail.  Returns whether the tail is worth a plan. */
static bool mark_tail(const struct pare_graph *g, bool *part, bool *late)
{
    bool layers = false;

    for (int i = 0; i < g->n_nodes; i++) {
        const struct pare_node *n = g->node[i];

        part[i] = n->op && reads_late(n, late);
        for (int k = 0; k < n->n_out; k++)
            if (n->out[k] && (part[i] || is_unknown(n->out[k])))
                late[n->out[k]->id] = true;
        layers |= part[i] && n->op->macs;
    }
    return layers;
}

/* Does the caller read values of the tail? */
static bool is_observed(const struct pare_plan *p, const bool *late)
{
    for (int i = 0; i < p->n_observed; i++)
        if (late[p->observed[i]->id])
            return true;
    return false;
}

/* Mark the nodes that compute constants of the tail on first use (dequantized weights): the tail
 * has copies of them.  too[node id]. */
static void mark_constants(const struct pare_graph *g, const bool *part, bool *too)
{
    for (int i = g->n_nodes - 1; i >= 0; i--) {
        const struct pare_node *n = g->node[i];

        for (int k = 0; (part[i] || too[i]) && k < n->n_in + n->n_cap; k++) {
            const struct pare_value *v = k < n->n_in ? n->in[k] : n->cap[k - n->n_in];

            if (v && v->flags & PARE_V_CONST && !v->t.data && !v->raw && v->maker)
                too[v->maker->id] = true;
        }
    }
}

/* ---- the tail's graph ------------------------------------------------------------------------ */

static void add_input(struct pare_graph *t, const struct pare_graph *g, const bool *part,
                      const struct pare_value *v, struct pare_value **in)
{
    struct pare_value *own = v ? t->value[v->id] : NULL;

    if (!v || v->flags & PARE_V_CONST || (v->maker && part[v->maker->id]) ||
        own->flags & PARE_V_INPUT)
        return;
    own->flags = PARE_V_INPUT;
    own->maker = NULL;
    in[t->n_in++] = g->value[v->id];
}

/* Keep the nodes of the tail. */
static void keep_nodes(struct pare_graph *t, const bool *part, const bool *too)
{
    int kept = 0;

    for (int i = 0; i < t->n_nodes; i++) {
        struct pare_node *n = t->node[i];

        for (int k = 0; too[i] && k < n->n_out; k++)
            if (n->out[k])
                n->out[k]->flags &= ~(unsigned)PARE_V_CONST; /* until it is inferred */
        if (!part[i] && !too[i])
            continue;
        t->node[kept] = n;
        n->id = kept++;
    }
    t->n_nodes = kept;
}

/* Clone the nodes of the tail.  in[], out[]: its inputs and outputs in the graph g. */
static struct pare_graph *cut(struct pare_plan *p, const bool *part, const bool *too,
                              struct pare_value **in, struct pare_value **out, struct pare_err *err)
{
    struct pare_graph *g = p->graph, *t = pare_graph_clone(p->arena, g, err);

    if (!t)
        return NULL;
    for (int i = 0; i < t->n_values; i++)
        t->value[i]->flags &= ~(unsigned)(PARE_V_INPUT | PARE_V_OUTPUT);
    t->n_in = t->n_out = 0;
    t->in_type = t->out_type = NULL;
    for (int i = 0; i < g->n_nodes; i++) {
        const struct pare_node *n = g->node[i];

        for (int k = 0; part[i] && k < n->n_in; k++)
            add_input(t, g, part, n->in[k], in);
        for (int k = 0; part[i] && k < n->n_cap; k++)
            add_input(t, g, part, n->cap[k], in);
    }
    for (int i = 0; i < g->n_out; i++)
        if (g->out[i]->maker && part[g->out[i]->maker->id]) {
            t->out[t->n_out] = t->value[g->out[i]->id];
            t->out[t->n_out]->flags |= PARE_V_OUTPUT;
            out[t->n_out++] = g->out[i];
        }
    t->in = pare_alloc(p->arena, (size_t)t->n_in + 1, sizeof(struct pare_value *));
    for (int i = 0; t->in && i < t->n_in; i++)
        t->in[i] = t->value[in[i]->id];
    keep_nodes(t, part, too);
    if (!t->in)
        pare_no_memory(err, "for the plan");
    return t->in ? t : NULL;
}

/* One node instead of those of the tail. */
static int replace(struct pare_graph *g, const bool *part, struct pare_tail *t,
                   struct pare_value *const *in, struct pare_value *const *out,
                   struct pare_err *err)
{
    struct pare_tail **attr = pare_alloc(g->arena, 1, sizeof(struct pare_tail *));
    struct pare_node *n;
    int kept = 0;

    for (int i = 0; i < g->n_nodes; i++)
        if (!part[i]) {
            g->node[kept] = g->node[i];
            g->node[kept]->id = kept;
            kept++;
        }
    g->n_nodes = kept;
    n = attr ? pare_graph_add(g, t->graph->n_in, t->graph->n_out, err) : NULL;
    if (!n)
        return pare_no_memory(err, "for the plan");
    *attr = t;
    n->op = &tail_op;
    n->name = n->type = tail_op.type;
    n->domain = tail_op.domain;
    n->version = 1;
    n->attr = attr;
    if (n->n_in)
        memcpy(n->in, in, (size_t)n->n_in * sizeof(*n->in));
    for (int i = 0; i < n->n_out; i++) {
        n->out[i] = out[i];
        out[i]->maker = n;
        out[i]->t = (struct pare_tensor){ .dtype = PARE_NONE, .rank = -1 };
    }
    return 0;
}

static int split(struct pare_plan *p, const bool *part, struct pare_err *err)
{
    size_t values = (size_t)p->graph->n_values + 1, n;
    struct pare_value **in = pare_alloc(p->scratch, values, sizeof(struct pare_value *));
    struct pare_value **out = pare_alloc(p->scratch, values, sizeof(struct pare_value *));
    bool *too = pare_alloc(p->scratch, (size_t)p->graph->n_nodes + 1, sizeof(*too));
    struct pare_tail *t = pare_alloc(p->arena, 1, sizeof(*t));

    if (!in || !out || !too || !t)
        return pare_no_memory(err, "for the plan");
    mark_constants(p->graph, part, too);
    t->owner = p;
    t->graph = cut(p, part, too, in, out, err);
    if (!t->graph)
        return err->code;
    n = (size_t)t->graph->n_in + 1;
    t->in = pare_alloc(p->arena, n, sizeof(*t->in));
    t->out = pare_alloc(p->arena, (size_t)t->graph->n_out + 1, sizeof(*t->out));
    for (int i = 0; i < KEPT; i++) {
        t->kept[i].in = pare_alloc(p->arena, n, sizeof(*t->in));
        if (!t->kept[i].in || !t->in || !t->out)
            return pare_no_memory(err, "for the plan");
    }
    t->next = p->tails;
    p->tails = t;
    return replace(p->graph, part, t, in, out, err);
}

int pare_plan_split_tail(struct pare_plan *p, struct pare_err *err)
{
    const struct pare_graph *g = p->graph;
    struct pare_mark m = pare_mark(p->scratch);
    bool *part, *late;
    int rc = 0;

    if (p->reference || p->train || p->like || p->tail_depth >= MOST_TAILS)
        return 0;
    part = pare_alloc(p->scratch, (size_t)g->n_nodes + 1, sizeof(*part));
    late = pare_alloc(p->scratch, (size_t)g->n_values + 1, sizeof(*late));
    if (!part || !late)
        return pare_no_memory(err, "for the plan");
    if (mark_tail(g, part, late) && !is_observed(p, late))
        rc = split(p, part, err);
    pare_reset(p->scratch, m);
    return rc;
}

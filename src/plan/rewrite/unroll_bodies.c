/* unroll_bodies.c - write out the runs of bodies of If, Loop and Scan, for training.
 *
 * The nodes of a body, which have gradients, take the place of the node, once per run: states pass
 * from one run to the next, slices of scanned inputs are gathered, results are stacked.  Weights
 * are captured values, so the gradients of all runs add up.
 */
#include "../../base/arena.h"
#include "../../base/limits.h"
#include "../plan.h"
#include "new_nodes.h"

extern const struct pare_op pare_op_gather;

static int64_t at(struct pare_ints list, int i)
{
    return i < list.n ? list.v[i] : 0;
}

/* ---- one run ------------------------------------------------------------------------------- */

/* The values of a copied body become values of the graph. */
static int move_values(struct pare_graph *g, const struct pare_graph *copy, struct pare_err *err)
{
    for (int i = 0; i < copy->n_values; i++) {
        struct pare_value *v = copy->value[i], **list;

        if (v->flags & PARE_V_INPUT)
            continue;
        if (!(v->flags & PARE_V_CONST))
            v->t.data = NULL;
        v->flags &= ~(unsigned)PARE_V_OUTPUT;
        v->name = pare_new_name(g, v->name);
        list = pare_grow(g->arena, g->value, g->n_values, &g->cap_values, sizeof(*list));
        if (!v->name || !list)
            return pare_no_memory(err, "for a body");
        g->value = list;
        PARE_TRY(pare_map_set(&g->names, g->arena, v->name, v, err));
        v->id = g->n_values;
        g->value[g->n_values++] = v;
    }
    return 0;
}

static int move_nodes(struct pare_graph *g, const struct pare_graph *copy, struct pare_err *err)
{
    struct pare_graph *inner;

    for (int i = 0; i < copy->n_nodes; i++) {
        struct pare_node *n = copy->node[i], **list;

        list = pare_grow(g->arena, g->node, g->n_nodes, &g->cap_nodes, sizeof(*list));
        if (!list)
            return pare_no_memory(err, "for a body");
        g->node = list;
        n->id = g->n_nodes;
        g->node[g->n_nodes++] = n;
        for (int b = 0; (inner = pare_node_body(n, b, NULL)) != NULL; b++)
            inner->outer = g;
    }
    return 0;
}

/* Append the body's nodes; in[] are its inputs, out[] becomes its outputs. */
static int write_run(struct pare_graph *g, const struct pare_graph *body, struct pare_value **in,
                     struct pare_value **out, struct pare_err *err)
{
    struct pare_graph *copy = pare_graph_clone(g->arena, body, err);

    if (!copy)
        return err->code;
    for (int i = 0; i < copy->n_in; i++) {
        copy->in[i]->flags |= PARE_V_INPUT;
        pare_graph_replace(copy, copy->in[i], in[i]);
    }
    PARE_TRY(move_values(g, copy, err));
    PARE_TRY(move_nodes(g, copy, err));
    for (int i = 0; i < copy->n_out; i++)
        out[i] = copy->out[i];
    return 0;
}

/* ---- all runs ------------------------------------------------------------------------------ */

/* The results of a node that is written out. */
struct unrolled {
    const struct pare_node *n;
    const struct pare_body_runs *r;
    struct pare_value **in, **out; /* of one run */
    struct pare_value **piece;     /* stacked results: one of each run, then those of the next */
};

static int scan_inputs(struct pare_graph *g, const struct unrolled *u, int64_t run,
                       struct pare_err *err)
{
    const struct pare_body_runs *r = u->r;

    for (int k = 0; k < r->n_scan; k++) {
        struct pare_setting axis = { .name = "axis",
                                     .type = PARE_OPT_INT,
                                     .whole = at(r->scan_axis, k) };
        struct pare_node *s = pare_new_node(g, &pare_op_gather, 2, &axis, NULL, err);
        int64_t i = at(r->scan_from_end, k) ? r->runs - 1 - run : run;

        if (!s)
            return err->code;
        s->in[0] = u->n->in[r->first_in + r->n_state + k];
        s->in[1] = pare_new_number(g, 0, i, err);
        if (!s->in[1])
            return err->code;
        u->in[r->first_in + r->n_state + k] = s->out[0];
    }
    return 0;
}

/* The number of the run, and true. */
static int count_run(struct pare_graph *g, const struct unrolled *u, int64_t run,
                     struct pare_err *err)
{
    struct pare_tensor t;

    pare_graph_declared(u->r->body, true, 0, &t);
    u->in[0] = pare_new_number(g, t.rank == 1, run, err);
    if (!u->in[0])
        return err->code;
    pare_graph_declared(u->r->body, true, 1, &t);
    u->in[1] = pare_new_true(g, t.rank == 1, err);
    return u->in[1] ? 0 : err->code;
}

static int write_runs(struct pare_graph *g, const struct unrolled *u, struct pare_err *err)
{
    const struct pare_body_runs *r = u->r;

    for (int k = 0; k < r->n_state; k++)
        u->in[r->first_in + k] = u->n->in[r->first_in + k];
    for (int64_t i = 0; i < r->runs; i++) {
        if (r->condition)
            PARE_TRY(count_run(g, u, i, err));
        PARE_TRY(scan_inputs(g, u, i, err));
        PARE_TRY(write_run(g, r->body, u->in, u->out, err));
        for (int k = 0; k < r->n_state; k++)
            u->in[r->first_in + k] = u->out[r->first_out + k];
        for (int k = 0; k < r->n_stack; k++) {
            int64_t place = at(r->stack_reversed, k) ? r->runs - 1 - i : i;

            u->piece[k * r->runs + place] = u->out[r->first_out + r->n_state + k];
        }
    }
    return 0;
}

static int unroll(struct pare_graph *g, const struct pare_node *n, const struct pare_body_runs *r,
                  struct pare_err *err)
{
    struct unrolled u = { .n = n, .r = r };

    u.in = pare_alloc(g->arena, (size_t)r->body->n_in + 1, sizeof(*u.in));
    u.out = pare_alloc(g->arena, (size_t)r->body->n_out + 1, sizeof(*u.out));
    u.piece = pare_alloc(g->arena, (size_t)r->runs * (size_t)r->n_stack + 1, sizeof(*u.piece));
    if (!u.in || !u.out || !u.piece)
        return pare_no_memory(err, "for a body");
    PARE_TRY(write_runs(g, &u, err));
    for (int k = 0; k < n->n_out; k++) {
        if (!n->out[k])
            continue;
        PARE_TRY(k < r->n_state
                     ? pare_new_copy(g, u.in[r->first_in + k], n->out[k], err)
                     : pare_new_join(g,
                                     &(struct pare_join){ .x = u.piece + (k - r->n_state) * r->runs,
                                                          .n = (int)r->runs,
                                                          .axis = at(r->stack_axis, k - r->n_state),
                                                          .new_axis = true,
                                                          .y = n->out[k] },
                                     err));
    }
    return 0;
}

static int take_branch(struct pare_graph *g, const struct pare_node *n,
                       const struct pare_graph *body, struct pare_err *err)
{
    struct pare_value **out = pare_alloc(g->arena, (size_t)body->n_out + 1, sizeof(*out));

    if (!out)
        return pare_no_memory(err, "for a body");
    PARE_TRY(write_run(g, body, NULL, out, err));
    for (int k = 0; k < n->n_out; k++)
        if (n->out[k])
            PARE_TRY(pare_new_copy(g, out[k], n->out[k], err));
    return 0;
}

/* ---- which nodes --------------------------------------------------------------------------- */

static bool has_inputs(const struct pare_node *n, const struct pare_body_runs *r)
{
    for (int k = 0; k < r->n_state + r->n_scan; k++)
        if (!n->in[r->first_in + k])
            return false;
    return true;
}

/* Is the condition of the next run true, or the same as that of this run? */
static bool continues(const struct pare_graph *body)
{
    const struct pare_value *v = body->out[0];

    while (v != body->in[1] && v->maker && v->maker->op && v->maker->op->flags & PARE_OP_PASSES)
        v = v->maker->in[0];
    return v == body->in[1] || pare_is_true(v);
}

/* Does the body have the inputs and outputs that the node passes to it? */
static bool fits(const struct pare_node *n, const struct pare_body_runs *r)
{
    return r->n_stack >= 0 && r->body->n_in == r->first_in + r->n_state + r->n_scan &&
           r->body->n_out >= r->first_out + n->n_out && (!r->condition || continues(r->body)) &&
           has_inputs(n, r);
}

/* Can the node be written out within the limits of a graph? */
static bool is_countable(const struct pare_graph *g, const struct pare_node *n,
                         struct pare_body_runs *r)
{
    return n->op && n->op->body_runs && n->op->body_runs(n, r) && r->runs >= 0 && fits(n, r) &&
           (r->runs > 0 || !r->n_stack) && r->runs <= PARE_MAX_INLINED / (r->body->n_nodes + 4) &&
           g->n_nodes < PARE_MAX_INLINED;
}

static const struct pare_graph *branch_of(const struct pare_node *n)
{
    const struct pare_graph *body = n->op && n->op->chosen ? n->op->chosen(n) : NULL;

    return body && !body->n_in && body->n_out >= n->n_out ? body : NULL;
}

static int unroll_all(struct pare_graph *g, bool *changed, struct pare_err *err)
{
    int kept = 0, was = g->n_nodes;

    for (int i = 0; i < was; i++) {
        struct pare_node *n = g->node[i];
        const struct pare_graph *branch = branch_of(n);
        struct pare_body_runs r;

        if (branch)
            PARE_TRY(take_branch(g, n, branch, err));
        else if (is_countable(g, n, &r))
            PARE_TRY(unroll(g, n, &r, err));
        else
            continue;
        *changed = true;
        g->node[i] = NULL;
    }
    if (!*changed)
        return 0;
    for (int i = 0; i < g->n_nodes; i++)
        if (g->node[i])
            g->node[kept++] = g->node[i];
    g->n_nodes = kept;
    return 0;
}

int pare_plan_unroll_bodies(struct pare_plan *p, struct pare_err *err)
{
    bool changed;

    do {
        changed = false;
        PARE_TRY(unroll_all(p->graph, &changed, err));
        PARE_TRY(pare_resolve_sequences(p->graph, &changed, err));
        if (changed) {
            PARE_TRY(pare_graph_order(p->graph, err));
            PARE_TRY(pare_graph_infer(p->graph, false, err));
        }
    } while (changed);
    return 0;
}

/* body_plans.c - bodies of If, Loop and Scan that run by plans of their own.
 *
 * A body is called with the same shapes again in most models: in every iteration, in every run.  At
 * the second call with the same shapes it gets a plan, with the values around it that it reads as
 * inputs or constants.  A body whose shapes change, or that cannot be planned, runs by reference
 * kernels, as do bodies in training.
 */
#include <string.h>

#include "../base/arena.h"
#include "../base/limits.h"
#include "../tensor/tensor.h"
#include "plan.h"

/* One body. */
struct pare_body_plan {
    const struct pare_graph *body;
    struct pare_arena *arena; /* memory of this struct and of `graph` */
    struct pare_graph *graph; /* a copy that stands alone; NULL: not made yet */
    struct pare_value **cap;  /* values around the body that are inputs of the copy */
    int n_cap;
    struct pare_tensor *in;  /* inputs of the last call, then `cap`: types, shapes, data */
    struct pare_tensor *out; /* outputs of the last call */
    int calls;               /* with these shapes, in a row */
    bool never;              /* it cannot be planned */
    struct pare_plan *plan;  /* for these shapes; NULL: none yet */
    struct pare_body_plan *next;
};

static bool is_own(const struct pare_graph *g, const struct pare_value *v)
{
    return v->id < g->n_values && g->value[v->id] == v;
}

/* ---- a graph that stands alone --------------------------------------------------------------- */

/* Take a value around the body into the graph: as a constant, or as one more input. */
static int take_in(struct pare_body_plan *b, struct pare_value *v, struct pare_err *err)
{
    struct pare_graph *g = b->graph;
    const char *name = v->name;
    struct pare_value *own;

    if (is_own(g, v))
        return 0;
    for (int i = 2; name && pare_map_get(&g->names, name); i++)
        name = pare_sprintf(b->arena, "%s.%d", v->name, i);
    own = name ? pare_graph_value(g, name, err) : NULL;
    if (!own)
        return pare_no_memory(err, "for the plan of a body");
    own->t = v->t;
    own->raw = v->raw;
    if (pare_is_fixed(v) && (v->t.data || v->raw)) {
        own->flags = v->flags & ~(unsigned)(PARE_V_INPUT | PARE_V_OUTPUT);
    } else {
        struct pare_value **cap = pare_alloc(b->arena, (size_t)b->n_cap + 1, sizeof(*cap));

        if (!cap)
            return pare_no_memory(err, "for the plan of a body");
        if (b->n_cap)
            memcpy(cap, b->cap, (size_t)b->n_cap * sizeof(*cap));
        cap[b->n_cap++] = v;
        b->cap = cap;
        own->flags = PARE_V_INPUT;
        own->t.data = NULL;
        own->raw = NULL;
    }
    pare_graph_replace(g, v, own);
    return 0;
}

/* The inputs: those of the body, then the values around it. */
static int list_inputs(struct pare_body_plan *b, int n_values, struct pare_err *err)
{
    struct pare_graph *g = b->graph;
    size_t n = (size_t)(g->n_in + b->n_cap) + 1;
    struct pare_value **in = pare_alloc(b->arena, n, sizeof(*in));

    b->in = pare_alloc(b->arena, n, sizeof(*b->in));
    b->out = pare_alloc(b->arena, (size_t)g->n_out + 1, sizeof(*b->out));
    if (!in || !b->in || !b->out)
        return pare_no_memory(err, "for the plan of a body");
    if (g->n_in)
        memcpy(in, g->in, (size_t)g->n_in * sizeof(*in));
    for (int i = n_values, k = g->n_in; i < g->n_values; i++)
        if (g->value[i]->flags & PARE_V_INPUT)
            in[k++] = g->value[i];
    g->in = in;
    g->n_in += b->n_cap;
    return 0;
}

static int stand_alone(struct pare_body_plan *b, struct pare_err *err)
{
    struct pare_graph *g = b->graph = pare_graph_clone(b->arena, b->body, err);
    int n_values;

    if (!g)
        return err->code;
    n_values = g->n_values;
    g->outer = NULL;
    g->in_type = NULL;
    for (int i = 0; i < g->n_values; i++)
        if (!pare_is_fixed(g->value[i])) {
            g->value[i]->t.data = NULL;
            g->value[i]->flags &= ~(unsigned)PARE_V_CONST;
        }
    for (int i = 0; i < g->n_nodes; i++) {
        struct pare_node *n = g->node[i];

        for (int k = 0; k < n->n_in; k++)
            if (n->in[k])
                PARE_TRY(take_in(b, n->in[k], err));
        for (int k = 0; k < n->n_cap; k++)
            PARE_TRY(take_in(b, n->cap[k], err));
    }
    for (int i = 0; i < g->n_out; i++) {
        PARE_TRY(take_in(b, g->out[i], err));
        g->out[i]->flags |= PARE_V_OUTPUT;
    }
    return list_inputs(b, n_values, err);
}

/* ---- calls ----------------------------------------------------------------------------------- */

static bool plannable(const struct pare_tensor *t)
{
    return pare_is_tensor(t) && t->dtype != PARE_NONE && t->dtype != PARE_STR && t->rank >= 0 &&
           t->data;
}

/* Note the inputs of this call, and how often their shapes have been the same. */
static void note_inputs(struct pare_body_plan *b, const struct pare_tensor *in, int n_in)
{
    bool same = true;

    for (int i = 0; i < n_in + b->n_cap && !b->never; i++) {
        const struct pare_tensor *t = i < n_in ? &in[i] : &b->cap[i - n_in]->t;

        if (!plannable(t)) {
            same = false;
            b->in[i] = (struct pare_tensor){ .dtype = PARE_NONE };
            continue;
        }
        same = same && b->in[i].dtype == t->dtype && pare_same_shape(&b->in[i], t);
        b->in[i] = *t;
    }
    if (!same && b->plan) {
        pare_plan_free(b->plan);
        b->plan = NULL;
    }
    b->calls = same ? b->calls + 1 : 0;
}

static int make_plan(struct pare_plan *owner, struct pare_body_plan *b, struct pare_err *err)
{
    struct pare_plan_opts o = { .threads = owner->threads,
                                .precision = owner->backend.bf16 ? PARE_PRECISION_BF16
                                                                 : PARE_PRECISION_F32,
                                .in = b->in,
                                .n_in = b->graph->n_in };
    struct pare_plan_build build = { .opts = &o,
                                     .body = b->graph,
                                     .without = owner->without,
                                     .without_rewrites = owner->without_rewrites };
    struct pare_err why = { 0 };
    int rc;

    for (int i = 0; i < b->graph->n_in; i++) {
        b->graph->in[i]->t = b->in[i];
        b->graph->in[i]->t.data = NULL;
    }
    rc = pare_plan_build(owner->model, &build, &b->plan, &why);
    b->never = rc != 0;
    if (rc == PARE_ENOMEM)
        *err = why;
    return rc == PARE_ENOMEM ? rc : 0;
}

static int find(struct pare_plan *owner, const struct pare_graph *body, struct pare_body_plan **b,
                struct pare_err *err)
{
    struct pare_arena *a;

    for (*b = owner->bodies; *b; *b = (*b)->next)
        if ((*b)->body == body)
            return 0;
    a = pare_arena_new(1 << 14);
    *b = a ? pare_alloc(a, 1, sizeof(**b)) : NULL;
    if (!*b) {
        pare_arena_free(a);
        return pare_no_memory(err, "for the plan of a body");
    }
    (*b)->arena = a;
    (*b)->body = body;
    (*b)->next = owner->bodies;
    owner->bodies = *b;
    (*b)->never = true; /* if this fails */
    PARE_TRY(stand_alone(*b, err));
    (*b)->never = false;
    return 0;
}

static int run(struct pare_ctx *c, struct pare_body_plan *b, struct pare_tensor *out, int n_out,
               struct pare_err *err)
{
    int rc;

    c->calls_left--;
    rc = pare_plan_execute(b->plan, b->in, b->out, err);
    c->calls_left -= PARE_MAX_ITERATIONS - b->plan->ctx.calls_left;
    for (int i = 0; i < n_out && !rc; i++)
        rc = pare_value_copy(c->results, &b->out[i], &out[i], err);
    return rc;
}

int pare_plan_call(struct pare_ctx *c, const struct pare_graph *body, const struct pare_tensor *in,
                   int n_in, struct pare_tensor *out, int n_out, struct pare_err *err)
{
    struct pare_plan *owner = c->owner;
    struct pare_body_plan *b;

    PARE_TRY(find(owner, body, &b, err));
    if (body->n_in != n_in || body->n_out < n_out || c->calls_left <= 0)
        return pare_graph_call(c, body, in, n_in, out, n_out, err);
    note_inputs(b, in, n_in);
    if (b->calls && !b->plan && !b->never)
        PARE_TRY(make_plan(owner, b, err));
    if (!b->plan)
        return pare_graph_call(c, body, in, n_in, out, n_out, err);
    return run(c, b, out, n_out, err);
}

void pare_body_plans_free(struct pare_plan *p)
{
    for (struct pare_body_plan *b = p->bodies, *next; b; b = next) {
        next = b->next;
        pare_plan_free(b->plan);
        pare_arena_free(b->arena);
    }
    p->bodies = NULL;
}

int pare_body_plans_count(const struct pare_plan *p)
{
    int n = 0;

    for (const struct pare_body_plan *b = p->bodies; b; b = b->next)
        n += b->plan != NULL;
    return n;
}

/* graph.c - build, order and copy graphs. */
#include "graph.h"

#include <string.h>

#include "../base/arena.h"

struct pare_graph *pare_graph_new(struct pare_arena *a, const struct pare_graph *outer,
                                  struct pare_err *err)
{
    struct pare_graph *g = pare_alloc(a, 1, sizeof(*g));

    if (!g) {
        pare_no_memory(err, "for the graph");
        return NULL;
    }
    g->arena = a;
    g->outer = outer;
    g->name = "";
    return g;
}

struct pare_value *pare_graph_value(struct pare_graph *g, const char *name, struct pare_err *err)
{
    struct pare_value *v = pare_map_get(&g->names, name), **list;

    if (v)
        return v;
    v = pare_alloc(g->arena, 1, sizeof(*v));
    list = pare_grow(g->arena, g->value, g->n_values, &g->cap_values, sizeof(*list));
    if (!v || !list) {
        pare_no_memory(err, "for the graph");
        return NULL;
    }
    g->value = list;
    v->name = name;
    v->id = g->n_values;
    v->t.rank = -1;
    if (pare_map_set(&g->names, g->arena, name, v, err))
        return NULL;
    g->value[g->n_values++] = v;
    return v;
}

struct pare_value *pare_graph_find(const struct pare_graph *g, const char *name)
{
    for (; g; g = g->outer) {
        struct pare_value *v = pare_map_get(&g->names, name);

        if (v)
            return v;
    }
    return NULL;
}

struct pare_node *pare_graph_add(struct pare_graph *g, int n_in, int n_out, struct pare_err *err)
{
    struct pare_node *n = pare_alloc(g->arena, 1, sizeof(*n)), **list;

    list = pare_grow(g->arena, g->node, g->n_nodes, &g->cap_nodes, sizeof(*list));
    if (!n || !list) {
        pare_no_memory(err, "for the graph");
        return NULL;
    }
    g->node = list;
    n->in = pare_alloc(g->arena, (size_t)n_in, sizeof(*n->in));
    n->out = pare_alloc(g->arena, (size_t)n_out, sizeof(*n->out));
    if (!n->in || !n->out) {
        pare_no_memory(err, "for the graph");
        return NULL;
    }
    n->n_in = n_in;
    n->n_out = n_out;
    n->name = n->type = n->domain = "";
    n->id = g->n_nodes;
    g->node[g->n_nodes++] = n;
    return n;
}

/* Input k of a node; captured values of the outer graph follow the plain inputs. */
static struct pare_value *input(const struct pare_node *n, int k)
{
    return k < n->n_in ? n->in[k] : n->cap[k - n->n_in];
}

/* State of a depth-first walk over producers. */
struct walk {
    int *maker;  /* per value: index of the node that produces it, or -1 */
    int *next;   /* per node: number of inputs visited */
    char *state; /* per node: 0 new, 1 on the stack, 2 placed */
    int *stack;
    struct pare_node **order;
    int depth, placed;
};

/* Visit one more input of the node on top of the stack, or place the node. */
static int walk_step(const struct pare_graph *g, struct walk *w, struct pare_err *err)
{
    int i = w->stack[w->depth - 1], j;
    struct pare_node *n = g->node[i];
    const struct pare_value *v;

    if (w->next[i] == n->n_in + n->n_cap) {
        w->state[i] = 2;
        w->order[w->placed++] = n;
        w->depth--;
        return 0;
    }
    v = input(n, w->next[i]++);
    if (!v || v->id >= g->n_values || g->value[v->id] != v)
        return 0; /* absent, or from an outer graph */
    j = w->maker[v->id];
    if (j < 0 || w->state[j] == 2)
        return 0;
    if (w->state[j] == 1)
        return pare_fail(err, PARE_EFORMAT,
                         "node '%s' (%s) depends on its own output: the graph has a cycle",
                         g->node[j]->name, g->node[j]->type);
    w->state[j] = 1;
    w->stack[w->depth++] = j;
    return 0;
}

/* An explicit stack, so that a long chain cannot overflow the C stack.  Nodes that are already in
 * order keep it. */
int pare_graph_order(struct pare_graph *g, struct pare_err *err)
{
    struct pare_mark mark = pare_mark(g->arena);
    size_t n = (size_t)g->n_nodes;
    struct walk w = {
        .maker = pare_alloc(g->arena, (size_t)g->n_values, sizeof(int)),
        .next = pare_alloc(g->arena, n, sizeof(int)),
        .state = pare_alloc(g->arena, n, 1),
        .stack = pare_alloc(g->arena, n, sizeof(int)),
        .order = pare_alloc(g->arena, n, sizeof(struct pare_node *)),
    };
    int rc = 0;

    if (!w.maker || !w.next || !w.state || !w.stack || !w.order)
        return pare_no_memory(err, "for the graph");
    for (int i = 0; i < g->n_values; i++)
        w.maker[i] = -1;
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->node[i]->n_out; k++)
            if (g->node[i]->out[k]) {
                g->node[i]->out[k]->maker = g->node[i];
                w.maker[g->node[i]->out[k]->id] = i;
            }
    for (int i = 0; i < g->n_nodes && !rc; i++) {
        if (w.state[i])
            continue;
        w.state[i] = 1;
        w.stack[w.depth++] = i;
        while (w.depth && !rc)
            rc = walk_step(g, &w, err);
    }
    if (!rc && n)
        memcpy(g->node, w.order, n * sizeof(*w.order));
    for (int i = 0; i < g->n_nodes; i++)
        g->node[i]->id = i;
    pare_reset(g->arena, mark);
    return rc;
}

/* A graph and its clone; the graphs around a body follow. */
struct copy {
    const struct pare_graph *from;
    struct pare_graph *to;
    const struct copy *outer;
};

/* The clone of a value, by id; a value of a graph that is not cloned stays. */
static struct pare_value *clone_of(const struct copy *c, struct pare_value *v)
{
    for (; c && v; c = c->outer)
        if (v->id < c->from->n_values && c->from->value[v->id] == v)
            return c->to->value[v->id];
    return v;
}

static int clone_list(const struct copy *c, struct pare_value **list, int n,
                      struct pare_value ***out, struct pare_err *err)
{
    *out = pare_alloc(c->to->arena, (size_t)n, sizeof(**out));
    if (!*out)
        return pare_no_memory(err, "for the graph");
    for (int i = 0; i < n; i++)
        (*out)[i] = clone_of(c, list[i]);
    return 0;
}

static int clone_into(const struct copy *c, struct pare_err *err);

/* Bodies are cloned with their node, so that they refer to the clone's values. */
static int clone_bodies(const struct copy *c, struct pare_node *n, struct pare_err *err)
{
    const struct pare_opt *o = n->op ? n->op->attrs : NULL;
    char *attr = NULL;

    for (; o && o->name && n->attr; o++) {
        struct pare_graph *body, *to;

        if (o->type != PARE_OPT_GRAPH)
            continue;
        if (!attr) {
            attr = pare_alloc(c->to->arena, 1, n->op->attr_size);
            if (!attr)
                return pare_no_memory(err, "for the graph");
            memcpy(attr, n->attr, n->op->attr_size);
        }
        memcpy(&body, attr + o->offset, sizeof(body));
        if (!body)
            continue;
        to = pare_graph_new(c->to->arena, c->to, err);
        if (!to)
            return err->code;
        PARE_TRY(clone_into(&(struct copy){ body, to, c }, err));
        memcpy(attr + o->offset, &to, sizeof(to));
    }
    if (attr)
        n->attr = attr;
    return 0;
}

static int clone_node(const struct copy *c, int i, struct pare_err *err)
{
    const struct pare_node *old = c->from->node[i];
    struct pare_node *n = pare_alloc(c->to->arena, 1, sizeof(*n));

    if (!n)
        return pare_no_memory(err, "for the graph");
    *n = *old;
    c->to->node[i] = n;
    PARE_TRY(clone_list(c, old->in, old->n_in, &n->in, err));
    PARE_TRY(clone_list(c, old->out, old->n_out, &n->out, err));
    PARE_TRY(clone_list(c, old->cap, old->n_cap, &n->cap, err));
    for (int k = 0; k < n->n_out; k++)
        if (n->out[k])
            n->out[k]->maker = n;
    return clone_bodies(c, n, err);
}

static int clone_into(const struct copy *c, struct pare_err *err)
{
    const struct pare_graph *from = c->from;
    struct pare_graph *to = c->to;

    to->value = pare_alloc(to->arena, (size_t)from->n_values, sizeof(*to->value));
    to->node = pare_alloc(to->arena, (size_t)from->n_nodes, sizeof(*to->node));
    if (!to->value || !to->node)
        return pare_no_memory(err, "for the graph");
    to->n_values = to->cap_values = from->n_values;
    to->n_nodes = to->cap_nodes = from->n_nodes;
    to->n_in = from->n_in;
    to->n_out = from->n_out;
    to->in_type = from->in_type;
    to->out_type = from->out_type;
    to->name = from->name;
    to->is_body = from->is_body;
    to->captured = from->captured;
    for (int i = 0; i < from->n_values; i++) {
        to->value[i] = pare_alloc(to->arena, 1, sizeof(**to->value));
        if (!to->value[i])
            return pare_no_memory(err, "for the graph");
        *to->value[i] = *from->value[i];
        PARE_TRY(pare_map_set(&to->names, to->arena, to->value[i]->name, to->value[i], err));
    }
    for (int i = 0; i < from->n_nodes; i++)
        PARE_TRY(clone_node(c, i, err));
    PARE_TRY(clone_list(c, from->in, from->n_in, &to->in, err));
    return clone_list(c, from->out, from->n_out, &to->out, err);
}

struct pare_graph *pare_graph_clone(struct pare_arena *a, const struct pare_graph *g,
                                    struct pare_err *err)
{
    struct pare_graph *to = pare_graph_new(a, g->outer, err);

    return !to || clone_into(&(struct copy){ g, to, NULL }, err) ? NULL : to;
}

static void replace_in_list(struct pare_value **list, int n, const struct pare_value *from,
                            struct pare_value *to)
{
    for (int i = 0; i < n; i++)
        if (list[i] == from)
            list[i] = to;
}

/* Bodies refer to captured values directly, in nodes and as outputs. */
static void redirect_nodes(const struct pare_graph *g, const struct pare_value *from,
                           struct pare_value *to)
{
    for (int i = 0; i < g->n_nodes; i++) {
        const struct pare_node *n = g->node[i];
        const struct pare_graph *body;

        if (n == to->maker)
            continue;
        replace_in_list(n->in, n->n_in, from, to);
        replace_in_list(n->cap, n->n_cap, from, to);
        for (int b = 0; n->n_cap && (body = pare_node_body(n, b, NULL)) != NULL; b++) {
            redirect_nodes(body, from, to);
            replace_in_list(body->out, body->n_out, from, to);
        }
    }
}

void pare_graph_redirect(struct pare_graph *g, struct pare_value *from, struct pare_value *to)
{
    redirect_nodes(g, from, to);
    for (int i = 0; i < g->n_out; i++)
        if (g->out[i] == from) {
            g->out[i] = to;
            to->flags |= PARE_V_OUTPUT;
            from->flags &= ~(unsigned)PARE_V_OUTPUT;
        }
}

int pare_graph_count_uses(const struct pare_graph *g, const struct pare_value *v)
{
    int n = 0;

    for (int i = 0; i < g->n_out; i++)
        n += g->out[i] == v;
    for (int i = 0; i < g->n_nodes; i++) {
        const struct pare_node *u = g->node[i];
        const struct pare_graph *body;

        for (int k = 0; k < u->n_in; k++)
            n += u->in[k] == v;
        for (int b = 0; u->n_cap && (body = pare_node_body(u, b, NULL)) != NULL; b++)
            n += pare_graph_count_uses(body, v);
    }
    return n;
}

struct pare_node *pare_graph_only_consumer(const struct pare_graph *g, const struct pare_value *v)
{
    struct pare_node *found = NULL;

    if (v->flags & PARE_V_OUTPUT)
        return NULL;
    for (int i = 0; i < g->n_nodes; i++) {
        struct pare_node *n = g->node[i];

        for (int k = 0; k < n->n_in + n->n_cap; k++)
            if ((k < n->n_in ? n->in[k] : n->cap[k - n->n_in]) == v) {
                if (found)
                    return NULL;
                found = n;
            }
    }
    return found;
}

void pare_graph_move(struct pare_graph *g, const struct pare_node *n, int to)
{
    struct pare_node *moved = g->node[n->id];
    int step = to < n->id ? -1 : 1;

    for (int i = n->id; i != to; i += step) {
        g->node[i] = g->node[i + step];
        g->node[i]->id = i;
    }
    g->node[to] = moved;
    moved->id = to;
}

/* ---- unused nodes that cannot run ------------------------------------------------------------ */

static bool makes_any(const struct pare_graph *g, const struct pare_node *n, const bool *needed)
{
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i] && g->value[n->out[i]->id] == n->out[i] && needed[n->out[i]->id])
            return true;
    return !n->n_out;
}

/* Mark the values that the node reads; those of enclosing graphs are not this graph's. */
static void mark_read(const struct pare_graph *g, const struct pare_node *n, bool *marks)
{
    for (int i = 0; i < n->n_in + n->n_cap; i++) {
        const struct pare_value *v = i < n->n_in ? n->in[i] : n->cap[i - n->n_in];

        if (v && v->id < g->n_values && g->value[v->id] == v)
            marks[v->id] = true;
    }
}

static bool reads_any(const struct pare_graph *g, const struct pare_node *n, const bool *marks)
{
    for (int i = 0; i < n->n_in + n->n_cap; i++) {
        const struct pare_value *v = i < n->n_in ? n->in[i] : n->cap[i - n->n_in];

        if (v && v->id < g->n_values && g->value[v->id] == v && marks[v->id])
            return true;
    }
    return false;
}

int pare_graph_drop_unknown(struct pare_graph *g, struct pare_err *err)
{
    bool *needed, *lost, unknown = false;
    int kept = 0;

    for (int i = 0; i < g->n_nodes; i++)
        unknown = unknown || !g->node[i]->op;
    if (!unknown)
        return 0;
    needed = pare_alloc(g->arena, 2 * (size_t)g->n_values + 1, sizeof(*needed));
    if (!needed)
        return pare_no_memory(err, "for the graph");
    lost = needed + g->n_values;
    for (int i = 0; i < g->n_values; i++)
        needed[i] = (g->value[i]->flags & PARE_V_OUTPUT) != 0;
    for (int i = g->n_nodes; i-- > 0;)
        if (makes_any(g, g->node[i], needed))
            mark_read(g, g->node[i], needed);
    for (int i = 0; i < g->n_nodes; i++) {
        struct pare_node *n = g->node[i];
        bool drop = !makes_any(g, n, needed) && (!n->op || reads_any(g, n, lost));

        for (int k = 0; drop && k < n->n_out; k++)
            if (n->out[k])
                lost[n->out[k]->id] = true;
        if (drop)
            continue;
        n->id = kept;
        g->node[kept++] = n;
    }
    g->n_nodes = kept;
    return 0;
}

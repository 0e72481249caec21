/* simplify.c - simplify a model: fold constants, run the graph rewrites, write the result. */
#include "simplify.h"

#include <stdlib.h>
#include <string.h>

#include "../base/arena.h"
#include "../graph/free_dims.h"
#include "../graph/pattern/pattern.h"
#include "../graph/rewrite/rewrite.h"
#include "../tensor/tensor.h"
#include "body_model.h"
#include "edit_internal.h"

#define SMALL_BYTES 4096 /* results up to this size are folded, whatever they are computed from */

/* ---- folding --------------------------------------------------------------------------------- */

static size_t bytes_of(const struct pare_value *v)
{
    struct pare_err err;
    size_t bytes;

    return v && pare_is_tensor(&v->t) && !pare_tensor_size(&v->t, NULL, &bytes, &err) ? bytes : 0;
}

/* Are the results constants that a file should have instead of the node?  Dequantized weights stay
 * integers, and a result that is larger than its inputs stays a node. */
static bool is_worth_folding(const struct pare_node *n)
{
    size_t in = 0, out = 0;

    if (!n->op || !n->n_out || n->op->flags & PARE_OP_LAZY)
        return false;
    for (int k = 0; k < n->n_out; k++) {
        const struct pare_value *v = n->out[k];

        if (!v)
            continue;
        if (!(v->flags & PARE_V_CONST) || v->flags & PARE_V_OUTPUT || !v->t.data ||
            v->t.dtype == PARE_STR || !pare_is_tensor(&v->t))
            return false;
        out += bytes_of(v);
    }
    for (int k = 0; k < n->n_in; k++)
        if (n->in[k] && n->in[k]->flags & PARE_V_CONST)
            in += bytes_of(n->in[k]);
    return !n->n_in || out <= SMALL_BYTES || out <= in;
}

/* Does the value follow from sizes that Shape reads?  By value id; nodes are sorted. */
static int mark_shapes(struct pare_graph *g, struct pare_arena *a, bool **marks,
                       struct pare_err *err)
{
    *marks = pare_alloc(a, (size_t)g->n_values + 1, sizeof(**marks));
    if (!*marks)
        return pare_no_memory(err, "to simplify the model");
    for (int i = 0; i < g->n_nodes; i++) {
        const struct pare_node *n = g->node[i];
        bool any = n->op && n->op->flags & PARE_OP_SHAPES;

        for (int k = 0; k < n->n_in + n->n_cap; k++) {
            const struct pare_value *v = k < n->n_in ? n->in[k] : n->cap[k - n->n_in];

            any |= v && v->id < g->n_values && g->value[v->id] == v && (*marks)[v->id];
        }
        for (int k = 0; k < n->n_out; k++)
            if (n->out[k])
                (*marks)[n->out[k]->id] = any;
    }
    return 0;
}

/* Is there a free dimension of which only one size could be tried?  Then it is not known what
 * follows it. */
static bool has_unknown_sizes(const struct pare_model *m, const struct pare_graph *first)
{
    for (int i = 0; i < m->n_in; i++)
        for (int k = 0; k < m->in[i].rank; k++)
            if (pare_axis_has_one_size(first, m->in, i, k))
                return true;
    for (int i = 0; i < m->n_in; i++)
        if (m->in[i].rank < 0)
            return true;
    return false;
}

/* Only what is the same for all sizes is a constant from here on, and has no maker. */
static int fold(struct pare_graph *g, const struct pare_varying *v, bool unknown,
                struct pare_arena *a, struct pare_err *err)
{
    bool *shapes;

    PARE_TRY(mark_shapes(g, a, &shapes, err));
    for (int i = 0; i < g->n_values; i++)
        if (g->value[i]->maker && (pare_varies(v, g->value[i]) || (unknown && shapes[i])))
            g->value[i]->flags &= ~(unsigned)PARE_V_CONST;
    for (int i = 0; i < g->n_nodes; i++) {
        struct pare_node *n = g->node[i];
        bool worth = is_worth_folding(n);

        for (int k = 0; k < n->n_out; k++) {
            if (!n->out[k])
                continue;
            if (worth)
                n->out[k]->maker = NULL;
            else
                n->out[k]->flags &= ~(unsigned)PARE_V_CONST;
        }
        n->replaced = worth;
    }
    pare_graph_drop_replaced(g);
    return 0;
}

/* Drop nodes that no output depends on, so that they do not count as consumers. */
static int drop_unused(struct pare_graph *g, struct pare_arena *a, struct pare_err *err)
{
    bool *needed = pare_alloc(a, (size_t)g->n_values + 1, sizeof(*needed));

    if (!needed)
        return pare_no_memory(err, "to simplify the model");
    for (int i = 0; i < g->n_out; i++)
        needed[g->out[i]->id] = true;
    for (int i = g->n_nodes; i-- > 0;) {
        struct pare_node *n = g->node[i];
        bool live = false;

        for (int k = 0; k < n->n_out; k++)
            live |= n->out[k] && needed[n->out[k]->id];
        for (int k = 0; live && k < n->n_in + n->n_cap; k++) {
            const struct pare_value *v = k < n->n_in ? n->in[k] : n->cap[k - n->n_in];

            if (v && v->id < g->n_values && g->value[v->id] == v)
                needed[v->id] = true;
        }
        n->replaced = !live;
    }
    pare_graph_drop_replaced(g);
    return 0;
}

/* ---- bodies ---------------------------------------------------------------------------------- */

/* A model to simplify, or a body of one. */
struct work {
    const struct pare_simplify_opts *opts;
    const struct pare_tensor *given; /* shapes of the inputs; NULL: not given */
    struct pare_arena *a;
};

static int simplify_model(const struct work *w, const struct pare_model *m, struct pare_model **out,
                          struct pare_err *err);

static bool has_bodies(const struct pare_graph *g)
{
    for (int i = 0; i < g->n_nodes; i++)
        if (pare_node_body(g->node[i], 0, NULL))
            return true;
    return false;
}

/* Nodes of the graph and of the bodies in it. */
static int count_all(const struct pare_graph *g)
{
    const struct pare_graph *body;
    int n = g->n_nodes;

    for (int i = 0; i < g->n_nodes; i++)
        for (int b = 0; (body = pare_node_body(g->node[i], b, NULL)) != NULL; b++)
            n += count_all(body);
    return n;
}

static bool ends_all(int rc)
{
    return rc == PARE_ENOMEM || rc == PARE_ECANCEL;
}

/* Simplify the body's model; if it has fewer nodes and passes the check, *now becomes the model
 * with the result in its place. */
static int take_simpler(const struct work *w, const struct pare_node *n, int b,
                        const struct pare_body_model *body, struct pare_model **now,
                        struct pare_err *err)
{
    const struct work inner = { .opts = w->opts, .given = body->given, .a = w->a };
    struct pare_model *simple = NULL, *whole = NULL;
    int rc = simplify_model(&inner, body->model, &simple, err);

    if (!rc && count_all(simple->graph) < count_all(body->model->graph)) {
        if (w->opts && w->opts->check)
            rc = w->opts->check(w->opts->user, body->model, simple, body->given, err);
        if (rc == PARE_ESHAPE)
            rc = 0; /* it cannot run alone, since its shapes depend on data */
        if (!rc)
            rc = pare_body_model_replace(*now, n, b, body->model, simple, &whole, err);
    }
    pare_model_free(simple);
    if (whole) {
        pare_model_free(*now);
        *now = whole;
    }
    return rc;
}

static int simplify_body(const struct work *w, const struct pare_graph *g,
                         const struct pare_node *n, int b, struct pare_model **now,
                         struct pare_err *err)
{
    struct pare_body_model body;
    struct pare_err why = { 0 };
    int rc = pare_body_model_new(w->a, *now, g, n, b, &body, &why);

    if (!rc && body.model) {
        rc = take_simpler(w, n, b, &body, now, &why);
        pare_model_free(body.model);
    }
    if (ends_all(rc))
        *err = why;
    return ends_all(rc) ? rc : 0;
}

/* Simplify the bodies of the main graph, and those inside of them; *now is m at first. */
static int simplify_bodies(const struct work *w, struct pare_model **now, struct pare_err *err)
{
    const struct pare_model *m = *now;
    struct pare_graph *g;

    PARE_TRY(pare_graph_infer_free(w->a, m->graph, m->in, w->given, &g, err));
    for (int i = 0; i < g->n_nodes; i++)
        for (int b = 0; pare_node_body(g->node[i], b, NULL); b++)
            PARE_TRY(simplify_body(w, g, g->node[i], b, now, err));
    return 0;
}

/* ---- the model ------------------------------------------------------------------------------- */

static int simplify_main(const struct work *w, const struct pare_model *m, struct pare_edit **e,
                         struct pare_err *err)
{
    struct pare_all_sizes all;
    struct pare_rewrite_opts o = { .varying = &all.varying };

    PARE_TRY(pare_graph_all_sizes(w->a, m->graph, m->in, w->given, &all, err));
    o.unknown_sizes = has_unknown_sizes(m, all.first);
    PARE_TRY(drop_unused(all.g, w->a, err));
    PARE_TRY(fold(all.g, &all.varying, o.unknown_sizes, w->a, err));
    PARE_TRY(drop_unused(all.g, w->a, err));
    PARE_TRY(pare_graph_rewrite(all.g, &o, NULL, err));
    PARE_TRY(pare_edit_new(m, e, err));
    return pare_edit_set_graph(*e, all.g, err);
}

static int simplify_model(const struct work *outer, const struct pare_model *m,
                          struct pare_model **out, struct pare_err *err)
{
    struct work w = *outer;
    struct pare_model *now = (struct pare_model *)(uintptr_t)m;
    struct pare_edit *e = NULL;
    int rc = 0;

    *out = NULL;
    w.a = pare_arena_new(1 << 16);
    if (!w.a)
        return pare_no_memory(err, "to simplify the model");
    pare_model_retain(now);
    if (has_bodies(m->graph))
        rc = simplify_bodies(&w, &now, err);
    if (!rc)
        rc = simplify_main(&w, now, &e, err);
    if (!rc)
        rc = pare_edit_model(e, out, err);
    else
        pare_edit_free(e);
    pare_model_free(now);
    pare_arena_free(w.a);
    return rc;
}

int pare_model_simplify(const struct pare_model *m, const struct pare_simplify_opts *opts,
                        struct pare_model **out, struct pare_err *err)
{
    return simplify_model(&(struct work){ .opts = opts }, m, out, err);
}

/* ---- counts ---------------------------------------------------------------------------------- */

struct counting {
    struct pare_arena *a;
    struct pare_map index; /* type to its number + 1 */
    struct pare_simplified *s;
    int cap;
};

static int count_type(struct counting *c, const char *type, bool after, struct pare_err *err)
{
    uintptr_t i = (uintptr_t)pare_map_get(&c->index, type);
    struct pare_op_count *list;

    if (!i) {
        list = pare_grow(c->a, c->s->op, c->s->n_ops, &c->cap, sizeof(*list));
        if (!list)
            return pare_no_memory(err, "to count nodes");
        c->s->op = list;
        list[c->s->n_ops++] = (struct pare_op_count){ .type = pare_strdup(c->a, type) };
        i = (uintptr_t)c->s->n_ops;
        if (!list[i - 1].type)
            return pare_no_memory(err, "to count nodes");
        PARE_TRY(pare_map_set(&c->index, c->a, list[i - 1].type, (void *)i, err));
    }
    *(after ? &c->s->op[i - 1].after : &c->s->op[i - 1].before) += 1;
    *(after ? &c->s->nodes_left : &c->s->nodes) += 1;
    return 0;
}

static int count_nodes(struct counting *c, const ProtobufCMessage *m, bool after,
                       struct pare_err *err)
{
    ProtobufCMessage *const *child;

    if (m->descriptor == &onnx__node_proto__descriptor) {
        const char *type = ((const Onnx__NodeProto *)m)->op_type;

        PARE_TRY(count_type(c, type ? type : "", after, err));
    }
    for (unsigned i = 0; i < m->descriptor->n_fields; i++) {
        size_t n = pare_wire_children(m, &m->descriptor->fields[i], &child);

        for (size_t k = 0; k < n; k++)
            PARE_TRY(count_nodes(c, child[k], after, err));
    }
    return 0;
}

static int by_type(const void *a, const void *b)
{
    return strcmp(((const struct pare_op_count *)a)->type, ((const struct pare_op_count *)b)->type);
}

int pare_simplified_count(const struct pare_model *m, const struct pare_model *left,
                          struct pare_arena *a, struct pare_simplified *s, struct pare_err *err)
{
    const Onnx__ModelProto *was = m->file ? m->file : m->proto, *now = left->proto;
    struct counting c = { .a = a, .s = s };

    memset(s, 0, sizeof(*s));
    PARE_TRY(count_nodes(&c, &was->base, false, err));
    PARE_TRY(count_nodes(&c, &now->base, true, err));
    if (s->n_ops)
        qsort(s->op, (size_t)s->n_ops, sizeof(*s->op), by_type);
    return 0;
}

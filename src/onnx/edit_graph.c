/* edit_graph.c - write a changed clone of a model's graph into an edit: nodes, attributes, and
 * constants that were computed. */
#include <string.h>

#include "../tensor/tensor.h"
#include "edit_internal.h"

struct writing {
    struct pare_edit *e;
    const struct pare_graph *was, *g;  /* the model's graph, and the changed clone */
    const struct pare_node **original; /* by index in the file: the node of `was` */
    const char **name;                 /* by value of g: its name in the file; NULL: not used yet */
};

/* ---- names and constants --------------------------------------------------------------------- */

/* An initializer of the file, which is written as it is. */
static bool is_stored(const struct writing *w, const struct pare_value *v)
{
    return v->id < w->was->n_values && !w->was->value[v->id]->maker;
}

static int write_constant(struct writing *w, const struct pare_value *v, const char *name,
                          struct pare_err *err)
{
    struct pare_value copy = *v;

    PARE_TRY(pare_value_load(w->e->a, &copy, err));
    if (copy.t.data == v->t.data) { /* of the clone's memory, which ends before the model */
        struct pare_tensor from = copy.t;
        size_t bytes;

        PARE_TRY(pare_tensor_size(&from, NULL, &bytes, err));
        PARE_TRY(pare_tensor_scratch(w->e->a, &copy.t, &w->e->to->pages, err));
        if (bytes)
            memcpy(copy.t.data, from.data, bytes);
    }
    PARE_TRY(pare_edit_forget_shape(w->e, name, err));
    return pare_edit_constant(w->e, name, &copy.t, err);
}

/* The name of a value that a node reads or makes; a new constant is written on first use. */
static int name_of(struct writing *w, const struct pare_value *v, const char **name,
                   struct pare_err *err)
{
    *name = w->name[v->id];
    if (*name)
        return 0;
    *name = v->id < w->was->n_values ? v->name : pare_edit_value_name(w->e, v->name);
    if (!*name)
        return pare_edit_no_memory(err);
    w->name[v->id] = *name;
    return v->flags & PARE_V_CONST && !is_stored(w, v) ? write_constant(w, v, *name, err) : 0;
}

static int name_list(struct writing *w, struct pare_value *const *v, int n, char ***list,
                     struct pare_err *err)
{
    *list = pare_alloc(w->e->a, (size_t)n + 1, sizeof(**list));
    if (!*list)
        return pare_edit_no_memory(err);
    for (int k = 0; k < n; k++) {
        const char *name = "";

        if (v[k])
            PARE_TRY(name_of(w, v[k], &name, err));
        (*list)[k] = pare_edit_text(name);
    }
    return 0;
}

/* ---- attributes ------------------------------------------------------------------------------ */

static int copy_list(struct pare_edit *e, const void *from, int n, size_t size, void *to,
                     struct pare_err *err)
{
    void *list = pare_alloc(e->a, (size_t)n + 1, size);

    if (!list)
        return pare_edit_no_memory(err);
    if (n)
        memcpy(list, from, (size_t)n * size);
    memcpy(to, &list, sizeof(list));
    return 0;
}

static Onnx__AttributeProto *make_ints(struct pare_edit *e, const struct pare_opt *o,
                                       const struct pare_ints *v, struct pare_err *err)
{
    Onnx__AttributeProto *at = pare_edit_attr(e, o->name,
                                              ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS);

    if (!at || copy_list(e, v->v, v->n, sizeof(*v->v), &at->ints, err))
        return NULL;
    at->n_ints = (size_t)v->n;
    return at;
}

static Onnx__AttributeProto *make_float(struct pare_edit *e, const struct pare_opt *o, double v)
{
    Onnx__AttributeProto *at = pare_edit_attr(e, o->name,
                                              ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT);

    if (at) {
        at->has_f = true;
        at->f = (float)v;
    }
    return at;
}

/* Write an attribute, unless it is the default.  *handled: its type is one that rewrites set. */
static int write_attr(struct pare_edit *e, Onnx__NodeProto *p, const struct pare_opt *o,
                      const void *at, bool *handled, struct pare_err *err)
{
    const struct pare_ints *list = at;
    const char *text;
    int64_t i;
    double x;

    switch (o->type) {
    case PARE_OPT_INT:
        memcpy(&i, at, sizeof(i));
        return (double)i == o->def && !o->required
                   ? 0
                   : pare_edit_set_attr(e, p, pare_edit_int(e, o->name, i), err);
    case PARE_OPT_FLOAT:
        memcpy(&x, at, sizeof(x));
        return x == o->def && !o->required ? 0 : pare_edit_set_attr(e, p, make_float(e, o, x), err);
    case PARE_OPT_STR:
        memcpy(&text, at, sizeof(text));
        if (!text || (o->str && !o->required && !strcmp(text, o->str)))
            return 0;
        return pare_edit_set_attr(e, p, pare_edit_string(e, o->name, text), err);
    case PARE_OPT_INTS:
        return list->n || o->required ? pare_edit_set_attr(e, p, make_ints(e, o, list, err), err)
                                      : 0;
    default: *handled = false; return 0;
    }
}

static int write_attrs(struct pare_edit *e, Onnx__NodeProto *p, const struct pare_node *n,
                       struct pare_err *err)
{
    bool handled = true;

    p->n_attribute = 0;
    p->attribute = NULL;
    for (const struct pare_opt *o = n->op->attrs; o && o->name; o++)
        PARE_TRY(write_attr(e, p, o, (const char *)n->attr + o->offset, &handled, err));
    return handled ? 0
                   : pare_fail(err, PARE_EUNSUPPORTED, "the attributes of %s cannot be written",
                               n->type);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* The node's position in the file; -1: it is new. */
static int index_of(const struct writing *w, const struct pare_node *n)
{
    const Onnx__GraphProto *g = ((const Onnx__ModelProto *)w->e->from->proto)->graph;
    uintptr_t first = (uintptr_t)g->node, at = (uintptr_t)n->proto;

    return n->proto && at >= first && at < first + g->n_node * sizeof(*g->node)
               ? (int)((at - first) / sizeof(*g->node))
               : -1;
}

static bool is_changed(const struct writing *w, const struct pare_node *n, int i)
{
    const struct pare_node *was = i < 0 ? NULL : w->original[i];

    return !was ||
           (n->op && (n->op != was->op || (n->attr != was->attr && !pare_node_body(n, 0, NULL))));
}

static int write_node(struct writing *w, const struct pare_node *n, struct pare_edit_slot *s,
                      struct pare_err *err)
{
    const Onnx__GraphProto *g = ((const Onnx__ModelProto *)w->e->from->proto)->graph;
    const int i = index_of(w, n);
    Onnx__NodeProto *p = pare_alloc(w->e->a, 1, sizeof(*p));

    if (!p)
        return pare_edit_no_memory(err);
    if (i < 0) {
        onnx__node_proto__init(p);
        p->name = pare_edit_text(pare_edit_name(w->e, n->name, ""));
        if (!p->name)
            return pare_edit_no_memory(err);
    } else {
        *p = *g->node[i];
    }
    PARE_TRY(name_list(w, n->in, n->n_in, &p->input, err));
    PARE_TRY(name_list(w, n->out, n->n_out, &p->output, err));
    p->n_input = (size_t)n->n_in;
    p->n_output = (size_t)n->n_out;
    while (p->n_input && !*p->input[p->n_input - 1])
        p->n_input--;
    if (is_changed(w, n, i)) {
        p->op_type = pare_edit_text(n->type);
        p->domain = pare_edit_text(n->domain);
        PARE_TRY(write_attrs(w->e, p, n, err));
    }
    *s = (struct pare_edit_slot){ .p = p, .own = true, .after = n->id };
    return 0;
}

/* ---- the graph ------------------------------------------------------------------------------- */

/* Initializers are no longer listed as inputs, as before IR version 4: a runtime would take them
 * for defaults that may change. */
static void unlist_constants(struct pare_edit *e)
{
    Onnx__GraphProto *g = &e->graph;
    size_t kept = 0;

    if (e->model.ir_version < 4)
        e->model.ir_version = 4;
    for (size_t i = 0; i < g->n_input; i++)
        if (!g->input[i]->name || !pare_map_get(&e->constants, g->input[i]->name))
            g->input[kept++] = g->input[i];
    g->n_input = kept;
}

static int start(struct writing *w, struct pare_err *err)
{
    const Onnx__GraphProto *g = ((const Onnx__ModelProto *)w->e->from->proto)->graph;

    w->name = pare_alloc(w->e->a, (size_t)w->g->n_values + 1, sizeof(*w->name));
    w->original = pare_alloc(w->e->a, g->n_node + 1, sizeof(struct pare_node *));
    if (!w->name || !w->original)
        return pare_edit_no_memory(err);
    for (int i = 0; i < w->was->n_nodes; i++) {
        const struct pare_node *n = w->was->node[i];

        if (index_of(w, n) < 0)
            return pare_fail(
                err, PARE_EUNSUPPORTED,
                "node '%s' (%s) is part of a function with other operator-set versions "
                "than the model, which cannot be rewritten",
                n->name, n->type);
        w->original[index_of(w, n)] = n;
    }
    return 0;
}

int pare_edit_set_graph(struct pare_edit *e, const struct pare_graph *g, struct pare_err *err)
{
    struct writing w = { .e = e, .was = e->from->graph, .g = g };
    struct pare_edit_slot *slot = pare_alloc(e->a, (size_t)g->n_nodes + 64, sizeof(*slot));

    if (!slot)
        return pare_edit_no_memory(err);
    PARE_TRY(start(&w, err));
    for (int i = 0; i < g->n_nodes; i++)
        PARE_TRY(write_node(&w, g->node[i], &slot[i], err));
    for (int i = 0; i < g->n_nodes; i++) /* values that only bodies read */
        for (int k = 0; k < g->node[i]->n_cap; k++) {
            const struct pare_value *v = g->node[i]->cap[k];
            const char *name;

            if (v->id < g->n_values && g->value[v->id] == v)
                PARE_TRY(name_of(&w, v, &name, err));
        }
    e->slot = slot;
    e->n = e->n_file = g->n_nodes;
    e->cap = g->n_nodes + 64;
    memset(&e->maker, 0, sizeof(e->maker));
    for (int i = 0; i < e->n; i++)
        for (size_t k = 0; k < slot[i].p->n_output; k++)
            if (*slot[i].p->output[k])
                PARE_TRY(pare_edit_set_maker(e, slot[i].p->output[k], i, err));
    unlist_constants(e);
    return pare_edit_sweep(e, err);
}

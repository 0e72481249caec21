/* edit.c - another file from a loaded model's: nodes and constants added, inputs rewired. */
#include "edit.h"

#include <string.h>

#include "../tensor/tensor.h"
#include "edit_internal.h"
#include "wire.h"

#define text pare_edit_text

/* ---- the copy ----------------------------------------------------------------------------- */

static int take_name(struct pare_edit *e, const char *name, struct pare_err *err)
{
    return name && *name ? pare_map_set(&e->names, e->a, name, e, err) : 0;
}

/* Names of values, in subgraphs too: there a new name would hide what is meant. */
static int take_names(struct pare_edit *e, const ProtobufCMessage *m, struct pare_err *err)
{
    const ProtobufCMessageDescriptor *d = m->descriptor;
    ProtobufCMessage *const *child;

    if (d == &onnx__node_proto__descriptor) {
        const Onnx__NodeProto *p = (const void *)m;

        for (size_t k = 0; k < p->n_output; k++)
            PARE_TRY(take_name(e, p->output[k], err));
        PARE_TRY(take_name(e, p->name, err));
    } else if (d == &onnx__tensor_proto__descriptor) {
        return take_name(e, ((const Onnx__TensorProto *)m)->name, err);
    } else if (d == &onnx__value_info_proto__descriptor) {
        return take_name(e, ((const Onnx__ValueInfoProto *)m)->name, err);
    }
    for (unsigned i = 0; i < d->n_fields; i++) {
        size_t n = pare_wire_children(m, &d->fields[i], &child);

        for (size_t k = 0; k < n; k++)
            PARE_TRY(take_names(e, child[k], err));
    }
    return 0;
}

static int set_maker(struct pare_edit *e, const char *value, int slot, struct pare_err *err)
{
    return pare_map_set(&e->maker, e->a, value, (void *)(uintptr_t)(slot + 1), err);
}

struct pare_edit_slot *pare_edit_maker(const struct pare_edit *e, const char *value)
{
    uintptr_t i = (uintptr_t)pare_map_get(&e->maker, value);

    return i && e->slot[i - 1].p ? &e->slot[i - 1] : NULL;
}

static int copy_nodes(struct pare_edit *e, const Onnx__GraphProto *g, struct pare_err *err)
{
    e->cap = (int)g->n_node + 64;
    e->slot = pare_alloc(e->a, (size_t)e->cap, sizeof(*e->slot));
    if (!e->slot)
        return pare_no_memory(err, "to change the model");
    e->n = e->n_old = (int)g->n_node;
    for (int i = 0; i < e->n; i++) {
        e->slot[i] = (struct pare_edit_slot){ .p = g->node[i], .after = i };
        for (size_t k = 0; k < g->node[i]->n_output; k++)
            if (*g->node[i]->output[k])
                PARE_TRY(set_maker(e, g->node[i]->output[k], i, err));
    }
    return 0;
}

/* Lists that will change become ours. */
static int copy_lists(struct pare_edit *e, const Onnx__GraphProto *g, struct pare_err *err)
{
    Onnx__OperatorSetIdProto **sets;

    e->cap_const = (int)g->n_initializer + 64;
    e->graph.initializer = pare_alloc(e->a, (size_t)e->cap_const, sizeof(void *));
    e->graph.input = pare_alloc(e->a, g->n_input + 1, sizeof(void *));
    sets = pare_alloc(e->a, e->model.n_opset_import + 1, sizeof(void *));
    if (!e->graph.initializer || !e->graph.input || !sets)
        return pare_no_memory(err, "to change the model");
    for (size_t i = 0; i < g->n_initializer; i++)
        e->graph.initializer[i] = g->initializer[i];
    for (size_t i = 0; i < g->n_input; i++)
        e->graph.input[i] = g->input[i];
    for (size_t i = 0; i < e->model.n_opset_import; i++)
        sets[i] = e->model.opset_import[i];
    e->model.opset_import = sets;
    return 0;
}

int pare_edit_new(const struct pare_model *m, struct pare_arena *a, struct pare_edit **edit,
                  struct pare_err *err)
{
    const Onnx__ModelProto *p = m->proto;
    struct pare_edit *e = pare_alloc(a, 1, sizeof(*e));

    *edit = e;
    if (!e)
        return pare_no_memory(err, "to change the model");
    e->m = m;
    e->a = a;
    e->model = *p;
    e->graph = *p->graph;
    e->model.graph = &e->graph;
    PARE_TRY(copy_lists(e, p->graph, err));
    PARE_TRY(copy_nodes(e, p->graph, err));
    return take_names(e, &p->graph->base, err);
}

const char *pare_edit_name(struct pare_edit *e, const char *base, const char *ending)
{
    char *name = pare_sprintf(e->a, "%s%s", base, ending);
    struct pare_err err;

    for (int i = 2; name && pare_map_get(&e->names, name); i++)
        name = pare_sprintf(e->a, "%s%s_%d", base, ending, i);
    return name && !take_name(e, name, &err) ? name : NULL;
}

/* ---- constants ----------------------------------------------------------------------------- */

int pare_edit_constant(struct pare_edit *e, const char *name, const struct pare_tensor *t,
                       struct pare_err *err)
{
    Onnx__TensorProto *p = pare_alloc(e->a, 1, sizeof(*p));
    int64_t *dims = pare_alloc(e->a, (size_t)t->rank + 1, sizeof(*dims));
    void *list = pare_grow(e->a, e->graph.initializer, (int)e->graph.n_initializer, &e->cap_const,
                           sizeof(void *));
    size_t bytes;

    PARE_TRY(pare_tensor_size(t, NULL, &bytes, err));
    if (!p || !dims || !list)
        return pare_no_memory(err, "to change the model");
    onnx__tensor_proto__init(p);
    memcpy(dims, t->dim, (size_t)t->rank * sizeof(*dims));
    p->name = text(name);
    p->dims = dims;
    p->n_dims = (size_t)t->rank;
    p->has_data_type = true;
    p->data_type = (int32_t)t->dtype;
    p->has_raw_data = true;
    p->raw_data = (ProtobufCBinaryData){ bytes, t->data };
    if (pare_is_4bit(t->dtype)) {
        p->raw_data.len = pare_packed_size(t);
        p->raw_data.data = pare_alloc_raw(e->a, p->raw_data.len, 1);
        if (!p->raw_data.data)
            return pare_no_memory(err, "to change the model");
        pare_pack(t, p->raw_data.data);
    }
    e->graph.initializer = list;
    e->graph.initializer[e->graph.n_initializer++] = p;
    return take_name(e, name, err);
}

/* Old files name their initializers among the inputs, too. */
int pare_edit_drop_constant(struct pare_edit *e, const char *name, struct pare_err *err)
{
    Onnx__GraphProto *g = &e->graph;
    size_t kept = 0, had = g->n_initializer;

    for (size_t i = 0; i < g->n_initializer; i++)
        if (!g->initializer[i]->name || strcmp(g->initializer[i]->name, name))
            g->initializer[kept++] = g->initializer[i];
    g->n_initializer = kept;
    kept = 0;
    for (size_t i = 0; i < g->n_input; i++)
        if (!g->input[i]->name || strcmp(g->input[i]->name, name))
            g->input[kept++] = g->input[i];
    g->n_input = kept;
    if (g->n_initializer == had)
        return pare_fail(err, PARE_EUNSUPPORTED, "'%s' is no initializer of the main graph", name);
    return 0;
}

/* ---- nodes --------------------------------------------------------------------------------- */

Onnx__AttributeProto *pare_edit_int(struct pare_edit *e, const char *name, int64_t v)
{
    Onnx__AttributeProto *at = pare_alloc(e->a, 1, sizeof(*at));

    if (!at)
        return NULL;
    onnx__attribute_proto__init(at);
    at->name = text(name);
    at->has_type = true;
    at->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
    at->has_i = true;
    at->i = v;
    return at;
}

static int add_attrs(struct pare_edit *e, Onnx__NodeProto *p, const struct pare_edit_node *n,
                     struct pare_err *err)
{
    p->attribute = pare_alloc(e->a, PARE_EDIT_ATTRS + 1, sizeof(void *));
    if (!p->attribute)
        return pare_no_memory(err, "to change the model");
    if (n->axis >= 0)
        p->attribute[p->n_attribute++] = pare_edit_int(e, "axis", n->axis);
    for (int i = 0; i < PARE_EDIT_ATTRS && n->attr[i].name; i++)
        p->attribute[p->n_attribute++] = pare_edit_int(e, n->attr[i].name, n->attr[i].v);
    for (size_t i = 0; i < p->n_attribute; i++)
        if (!p->attribute[i])
            return pare_no_memory(err, "to change the model");
    return 0;
}

static Onnx__NodeProto *make_node(struct pare_edit *e, const struct pare_edit_node *n)
{
    Onnx__NodeProto *p = pare_alloc(e->a, 1, sizeof(*p));
    char **io = pare_alloc(e->a, PARE_EDIT_INPUTS + 1, sizeof(*io));

    if (!p || !io)
        return NULL;
    onnx__node_proto__init(p);
    p->op_type = text(n->type);
    p->name = text(n->name);
    p->domain = n->domain ? text(n->domain) : p->domain;
    p->input = io;
    while (p->n_input < PARE_EDIT_INPUTS && n->in[p->n_input]) {
        io[p->n_input] = text(n->in[p->n_input]);
        p->n_input++;
    }
    p->output = io + PARE_EDIT_INPUTS;
    p->output[0] = text(n->out);
    p->n_output = 1;
    return p;
}

int pare_edit_insert(struct pare_edit *e, const struct pare_edit_node *n, struct pare_err *err)
{
    Onnx__NodeProto *p = make_node(e, n);
    void *list = pare_grow(e->a, e->slot, e->n, &e->cap, sizeof(*e->slot));
    int after = -1;

    if (!p || !list)
        return pare_no_memory(err, "to change the model");
    e->slot = list;
    PARE_TRY(add_attrs(e, p, n, err));
    for (size_t k = 0; k < p->n_input; k++) {
        const struct pare_edit_slot *s = pare_edit_maker(e, p->input[k]);

        after = s && s->after > after ? s->after : after;
    }
    e->slot[e->n++] = (struct pare_edit_slot){ .p = p, .own = true, .after = after };
    PARE_TRY(take_name(e, n->out, err));
    return set_maker(e, n->out, e->n - 1, err);
}

int pare_edit_own(struct pare_edit *e, const char *value, struct pare_edit_slot **slot,
                  struct pare_err *err)
{
    struct pare_edit_slot *s = *slot = pare_edit_maker(e, value);
    Onnx__NodeProto *p;
    char **io;

    if (!s)
        return pare_fail(err, PARE_EUNSUPPORTED,
                         "'%s' is not made by a node of the main graph; functions and subgraphs "
                         "are not changed",
                         value);
    if (s->own)
        return 0;
    p = pare_alloc(e->a, 1, sizeof(*p));
    io = pare_alloc(e->a, s->p->n_input + s->p->n_output + 1, sizeof(*io));
    if (!p || !io)
        return pare_no_memory(err, "to change the model");
    *p = *s->p;
    for (size_t k = 0; k < p->n_input; k++)
        io[k] = s->p->input[k];
    p->input = io;
    p->output = io + p->n_input + 1; /* room for one more input */
    for (size_t k = 0; k < p->n_output; k++)
        p->output[k] = s->p->output[k];
    s->p = p;
    s->own = true;
    return 0;
}

int pare_edit_rename(struct pare_edit *e, const char *value, const char *name, struct pare_err *err)
{
    struct pare_edit_slot *s;

    PARE_TRY(pare_edit_own(e, value, &s, err));
    for (size_t k = 0; k < s->p->n_output; k++)
        if (!strcmp(s->p->output[k], value))
            s->p->output[k] = text(name);
    return set_maker(e, name, (int)(s - e->slot), err);
}

/* The last input that a node could have: copies have a place behind theirs until it is taken. */
static size_t room(const Onnx__NodeProto *p)
{
    return p->input + p->n_input < p->output ? p->n_input : p->n_input - 1;
}

int pare_edit_rewire(struct pare_edit *e, const char *value, int k, const char *name,
                     struct pare_err *err)
{
    struct pare_edit_slot *s;

    PARE_TRY(pare_edit_own(e, value, &s, err));
    if (k < 0 || (size_t)k > room(s->p))
        return pare_fail(err, PARE_EUNSUPPORTED, "the node of '%s' has no input %d", value, k);
    s->p->n_input += (size_t)k == s->p->n_input;
    s->p->input[k] = text(name);
    return 0;
}

int pare_edit_remove(struct pare_edit *e, const char *value, struct pare_err *err)
{
    struct pare_edit_slot *s;

    PARE_TRY(pare_edit_own(e, value, &s, err));
    s->p = NULL;
    return 0;
}

/* ---- the end ------------------------------------------------------------------------------- */

/* The file's nodes in their order, each followed by those that were inserted behind it. */
static int order(struct pare_edit *e, struct pare_err *err)
{
    int *first = pare_alloc(e->a, (size_t)e->n_old + 2, sizeof(*first)), at = 0;
    Onnx__NodeProto **list = pare_alloc(e->a, (size_t)e->n + 1, sizeof(*list));

    if (!first || !list)
        return pare_no_memory(err, "to change the model");
    for (int i = e->n_old; i < e->n; i++)
        first[e->slot[i].after + 1] += e->slot[i].p != NULL;
    for (int i = 0; i <= e->n_old; i++) { /* i - 1 is the node, its followers come behind */
        int followers = first[i];

        if (i && e->slot[i - 1].p)
            list[at++] = e->slot[i - 1].p;
        first[i] = at;
        at += followers;
    }
    for (int i = e->n_old; i < e->n; i++)
        if (e->slot[i].p)
            list[first[e->slot[i].after + 1]++] = e->slot[i].p;
    e->graph.node = list;
    e->graph.n_node = (size_t)at;
    return 0;
}

int pare_edit_model(struct pare_edit *e, struct pare_model **model, struct pare_err *err)
{
    struct pare_model changed = *e->m;

    PARE_TRY(order(e, err));
    changed.proto = &e->model;
    return pare_model_copy(&changed, e->a, model, err);
}

int pare_edit_save(struct pare_edit *e, const char *path, struct pare_err *err)
{
    struct pare_model changed = *e->m;

    PARE_TRY(order(e, err));
    changed.proto = &e->model;
    return pare_model_save(&changed, path, NULL, err);
}

/* edit.c - copy-on-write editor for a model: the copy, its names, and the resulting model. */
#include "edit.h"

#include <string.h>

#include "../tensor/tensor.h"
#include "edit_internal.h"

int pare_edit_no_memory(struct pare_err *err)
{
    return pare_no_memory(err, "to change the model");
}

/* ---- names ----------------------------------------------------------------------------------- */

/* What e->names maps a name to: values and nodes have separate namespaces in ONNX. */
static char value_name, node_name;

int pare_edit_reserve(struct pare_edit *e, const char *name, struct pare_err *err)
{
    return name && *name ? pare_map_set(&e->root->names, e->a, name, &value_name, err) : 0;
}

static int reserve_node(struct pare_edit *e, const char *name, struct pare_err *err)
{
    if (!name || !*name || pare_map_get(&e->names, name))
        return 0;
    return pare_map_set(&e->names, e->a, name, &node_name, err);
}

/* Includes names inside subgraphs and functions: there, a new value of the main graph could be
 * shadowed, and new values are made. */
static int reserve_names(struct pare_edit *e, const ProtobufCMessage *m, struct pare_err *err)
{
    const ProtobufCMessageDescriptor *d = m->descriptor;
    ProtobufCMessage *const *child;

    if (d == &onnx__node_proto__descriptor) {
        const Onnx__NodeProto *p = (const void *)m;

        for (size_t k = 0; k < p->n_output; k++)
            PARE_TRY(pare_edit_reserve(e, p->output[k], err));
        PARE_TRY(reserve_node(e, p->name, err));
    } else if (d == &onnx__tensor_proto__descriptor) {
        return pare_edit_reserve(e, ((const Onnx__TensorProto *)m)->name, err);
    } else if (d == &onnx__value_info_proto__descriptor) {
        return pare_edit_reserve(e, ((const Onnx__ValueInfoProto *)m)->name, err);
    }
    if (d == &onnx__function_proto__descriptor) {
        const Onnx__FunctionProto *f = (const void *)m;

        for (size_t k = 0; k < f->n_input; k++)
            PARE_TRY(pare_edit_reserve(e, f->input[k], err));
    }
    for (unsigned i = 0; i < d->n_fields; i++) {
        size_t n = pare_wire_children(m, &d->fields[i], &child);

        for (size_t k = 0; k < n; k++)
            PARE_TRY(reserve_names(e, child[k], err));
    }
    return 0;
}

/* The built graph also has the values of inlined functions, which the file's graph does not. */
static bool in_graph(const struct pare_edit *e, const char *name)
{
    return pare_map_get(&e->from->graph->names, name) != NULL;
}

const char *pare_edit_name(struct pare_edit *e, const char *base, const char *ending)
{
    char *name = pare_sprintf(e->a, "%s%s", base, ending);
    struct pare_err err;

    for (int i = 2; name && (pare_map_get(&e->root->names, name) || in_graph(e, name)); i++)
        name = pare_sprintf(e->a, "%s%s_%d", base, ending, i);
    return name && !pare_edit_reserve(e, name, &err) ? name : NULL;
}

const char *pare_edit_value_name(struct pare_edit *e, const char *base)
{
    char *name = base ? pare_strdup(e->a, base) : NULL;
    struct pare_err err;

    while (name && (pare_map_get(&e->root->names, name) == &value_name || in_graph(e, name)))
        name = pare_sprintf(e->a, "%s.%lld", base, (long long)++e->root->numbered);
    return name && !pare_edit_reserve(e, name, &err) ? name : NULL;
}

/* ---- the copy -------------------------------------------------------------------------------- */

int pare_edit_copy_nodes(struct pare_edit *e, struct pare_err *err)
{
    const Onnx__GraphProto *g = &e->graph;

    e->cap = (int)g->n_node + 64;
    e->slot = pare_alloc(e->a, (size_t)e->cap, sizeof(*e->slot));
    if (!e->slot)
        return pare_edit_no_memory(err);
    e->n = e->n_file = (int)g->n_node;
    for (int i = 0; i < e->n; i++) {
        e->slot[i] = (struct pare_edit_slot){ .p = g->node[i], .after = i };
        for (size_t k = 0; k < g->node[i]->n_output; k++)
            if (*g->node[i]->output[k])
                PARE_TRY(pare_edit_set_maker(e, g->node[i]->output[k], i, err));
    }
    return 0;
}

/* External data becomes raw_data that points to the mapped file: the new model needs no folder. */
static int embed_external(struct pare_edit *e, Onnx__TensorProto *p, struct pare_err *err)
{
    const struct pare_value *v = pare_map_get(&e->from->graph->names, p->name ? p->name : "");

    if (!pare_is_external(p) || !v || (!v->t.data && !v->raw))
        return 0;
    p->has_raw_data = true;
    p->raw_data.len = pare_packed_size(&v->t);
    p->raw_data.data = v->raw ? (uint8_t *)(uintptr_t)v->raw : v->t.data;
    if (!v->raw && pare_is_4bit(v->t.dtype)) {
        p->raw_data.data = pare_alloc_raw(e->a, p->raw_data.len, 1);
        if (!p->raw_data.data)
            return pare_edit_no_memory(err);
        pare_pack(&v->t, p->raw_data.data);
    }
    p->n_external_data = 0;
    p->has_data_location = false;
    return 0;
}

/* Every TensorProto is copied, because pare_model_own() changes them in place; its data is not. */
static int copy_initializers(struct pare_edit *e, struct pare_err *err)
{
    Onnx__GraphProto *g = &e->graph;
    Onnx__TensorProto *copy = pare_alloc(e->a, g->n_initializer + 1, sizeof(*copy));
    Onnx__TensorProto **list = pare_alloc(e->a, g->n_initializer + 64, sizeof(*list));

    if (!copy || !list)
        return pare_edit_no_memory(err);
    e->cap_constant = (int)g->n_initializer + 64;
    for (size_t i = 0; i < g->n_initializer; i++) {
        copy[i] = *g->initializer[i];
        list[i] = &copy[i];
        PARE_TRY(embed_external(e, &copy[i], err));
        PARE_TRY(
            pare_map_set(&e->constants, e->a, copy[i].name ? copy[i].name : "", &copy[i], err));
    }
    g->initializer = list;
    return 0;
}

void *pare_edit_copy_list(struct pare_edit *e, const void *p, size_t n)
{
    void *to = pare_alloc(e->a, n + 1, sizeof(void *));

    if (to && n)
        memcpy(to, p, n * sizeof(void *));
    return to;
}

static int copy_graph(struct pare_edit *e, struct pare_err *err)
{
    Onnx__GraphProto *g = &e->graph;

    e->model = *(const Onnx__ModelProto *)e->from->proto;
    *g = *e->model.graph;
    e->model.graph = g;
    e->model.opset_import = pare_edit_copy_list(e, e->model.opset_import, e->model.n_opset_import);
    g->input = pare_edit_copy_list(e, g->input, g->n_input);
    g->value_info = pare_edit_copy_list(e, g->value_info, g->n_value_info);
    g->sparse_initializer = pare_edit_copy_list(e, g->sparse_initializer, g->n_sparse_initializer);
    if (!e->model.opset_import || !g->input || !g->value_info || !g->sparse_initializer)
        return pare_edit_no_memory(err);
    PARE_TRY(reserve_names(e, &e->model.base, err));
    for (const struct pare_model *m = e->from->around; m; m = m->around)
        PARE_TRY(reserve_names(e, m->proto, err));
    PARE_TRY(copy_initializers(e, err));
    return pare_edit_copy_nodes(e, err);
}

int pare_edit_new(const struct pare_model *m, struct pare_edit **edit, struct pare_err *err)
{
    struct pare_model *to = pare_model_empty(err);
    struct pare_edit *e = to ? pare_alloc(to->arena, 1, sizeof(*e)) : NULL;

    *edit = NULL;
    if (!e) {
        pare_model_free(to);
        return pare_edit_no_memory(err);
    }
    to->path = m->path;
    to->dir = m->dir;
    to->any_batch = m->any_batch;
    to->around = m->around;
    pare_model_borrow(to, m);
    to->proto = &e->model;
    e->from = m;
    e->to = to;
    e->a = to->arena;
    e->root = e;
    if (copy_graph(e, err)) {
        pare_edit_free(e);
        return err->code;
    }
    *edit = e;
    return 0;
}

void pare_edit_free(struct pare_edit *e)
{
    if (e)
        pare_model_free(e->to);
}

struct pare_arena *pare_edit_arena(struct pare_edit *e)
{
    return e->a;
}

/* ---- the result ------------------------------------------------------------------------------ */

/* The file's nodes in their order, each followed by the nodes that were inserted after it. */
int pare_edit_list_nodes(struct pare_edit *e, struct pare_err *err)
{
    int *first = pare_alloc(e->a, (size_t)e->n_file + 2, sizeof(*first)), at = 0;
    Onnx__NodeProto **list = pare_alloc(e->a, (size_t)e->n + 1, sizeof(*list));

    if (!first || !list)
        return pare_edit_no_memory(err);
    PARE_TRY(pare_edit_close_bodies(e, err));
    for (int i = e->n_file; i < e->n; i++)
        first[e->slot[i].after + 1] += e->slot[i].p != NULL;
    for (int i = 0; i <= e->n_file; i++) { /* node i - 1, then its followers */
        int followers = first[i];

        if (i && e->slot[i - 1].p)
            list[at++] = e->slot[i - 1].p;
        first[i] = at;
        at += followers;
    }
    for (int i = e->n_file; i < e->n; i++)
        if (e->slot[i].p)
            list[first[e->slot[i].after + 1]++] = e->slot[i].p;
    e->graph.node = list;
    e->graph.n_node = (size_t)at;
    return 0;
}

int pare_edit_model(struct pare_edit *e, struct pare_model **model, struct pare_err *err)
{
    struct pare_model *m = e->to;
    int rc = pare_edit_list_nodes(e, err);

    *model = NULL;
    if (!rc)
        rc = pare_model_build(m, err);
    if (!rc && pare_arena_failed(m->arena))
        rc = pare_edit_no_memory(err);
    if (rc)
        pare_model_free(m);
    else
        *model = m;
    return pare_at(err, rc, "changing the model");
}

int pare_edit_save(struct pare_edit *e, const char *path, struct pare_err *err)
{
    PARE_TRY(pare_edit_list_nodes(e, err));
    return pare_model_save(e->to, path, NULL, err);
}

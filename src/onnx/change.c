/* change.c - a model made from another by changing constants, attributes and nodes.
 *
 * The messages of the model, its graph and every node are copied, one level deep; all below is
 * shared with the original until it changes.
 */
#include "change.h"

#include <stdio.h>
#include <string.h>

#include "../tensor/tensor.h"
#include "build.h"

struct pare_change {
    struct pare_model *m; /* the new one */
    const struct pare_model *from;
    Onnx__GraphProto *g;
    struct pare_map weight;   /* initializers by name */
    struct pare_map node;     /* new NodeProto by the old one's address, as text */
    struct pare_map maker;    /* new NodeProto by the names of its outputs */
    struct pare_map forget;   /* names of values whose declared shapes do not hold */
    struct pare_map constant; /* outputs of nodes that became initializers */
    int cap_weight, cap_node;
    int64_t made; /* names so far */
};

static const char *key_of(struct pare_arena *a, const void *p)
{
    return pare_sprintf(a, "%p", p);
}

static const char *str(const char *s)
{
    return s ? s : "";
}

/* ---- copying -------------------------------------------------------------------------------- */

static void *copy(struct pare_arena *a, const void *p, size_t size)
{
    void *to = pare_alloc(a, 1, size);

    if (to)
        memcpy(to, p, size);
    return to;
}

static void *copy_list(struct pare_arena *a, const void *p, size_t n)
{
    void *to = pare_alloc(a, n + 1, sizeof(void *));

    if (to && n)
        memcpy(to, p, n * sizeof(void *));
    return to;
}

static int copy_node(struct pare_change *c, size_t i, struct pare_err *err)
{
    struct pare_arena *a = c->m->arena;
    const Onnx__NodeProto *old = c->g->node[i];
    Onnx__NodeProto *p = copy(a, old, sizeof(*p));
    const char *key = key_of(a, old);

    if (!p || !key)
        return pare_no_memory(err, "to change the model");
    p->input = copy_list(a, old->input, old->n_input);
    p->output = copy_list(a, old->output, old->n_output);
    p->attribute = copy_list(a, old->attribute, old->n_attribute);
    if (!p->input || !p->output || !p->attribute)
        return pare_no_memory(err, "to change the model");
    c->g->node[i] = p;
    for (size_t k = 0; k < p->n_output; k++)
        if (*str(p->output[k]))
            PARE_TRY(pare_map_set(&c->maker, a, p->output[k], p, err));
    return pare_map_set(&c->node, a, key, p, err);
}

/* The bytes that the original's graph found: aligned or not, inside or beside the file. */
static int copy_weight(struct pare_change *c, size_t i, struct pare_err *err)
{
    Onnx__TensorProto *p = copy(c->m->arena, c->g->initializer[i], sizeof(*p));
    const struct pare_value *v = pare_map_get(&c->from->graph->names, str(p ? p->name : NULL));

    if (!p)
        return pare_no_memory(err, "to change the model");
    c->g->initializer[i] = p;
    if (pare_is_external(p) && v && (v->t.data || v->raw)) {
        p->has_raw_data = true;
        p->raw_data = (ProtobufCBinaryData){ pare_packed_size(&v->t),
                                             v->raw ? (uint8_t *)(uintptr_t)v->raw : v->t.data };
        if (!v->raw && pare_is_4bit(v->t.dtype)) {
            p->raw_data.data = pare_alloc_raw(c->m->arena, p->raw_data.len, 1);
            if (!p->raw_data.data)
                return pare_no_memory(err, "to change the model");
            pare_pack(&v->t, p->raw_data.data);
        }
        p->n_external_data = 0;
        p->has_data_location = false;
    }
    return pare_map_set(&c->weight, c->m->arena, str(p->name), p, err);
}

static int copy_graph(struct pare_change *c, struct pare_err *err)
{
    struct pare_arena *a = c->m->arena;
    Onnx__ModelProto *p = copy(a, c->from->proto, sizeof(*p));
    const Onnx__GraphProto *old = p ? p->graph : NULL;

    c->g = old ? copy(a, old, sizeof(*c->g)) : NULL;
    if (!c->g)
        return pare_no_memory(err, "to change the model");
    p->graph = c->g;
    c->m->proto = p;
    c->m->path = c->from->path;
    c->g->node = copy_list(a, old->node, old->n_node);
    c->g->initializer = copy_list(a, old->initializer, old->n_initializer);
    c->g->sparse_initializer = copy_list(a, old->sparse_initializer, old->n_sparse_initializer);
    c->g->value_info = copy_list(a, old->value_info, old->n_value_info);
    c->g->input = copy_list(a, old->input, old->n_input);
    if (!c->g->node || !c->g->initializer || !c->g->sparse_initializer || !c->g->value_info ||
        !c->g->input)
        return pare_no_memory(err, "to change the model");
    c->cap_node = (int)c->g->n_node;
    c->cap_weight = (int)c->g->n_initializer;
    for (size_t i = 0; i < c->g->n_node; i++)
        PARE_TRY(copy_node(c, i, err));
    for (size_t i = 0; i < c->g->n_initializer; i++)
        PARE_TRY(copy_weight(c, i, err));
    return 0;
}

int pare_change_new(const struct pare_model *m, struct pare_change **change, struct pare_err *err)
{
    struct pare_model *to = pare_model_empty(err);
    struct pare_change *c = to ? pare_alloc(to->arena, 1, sizeof(*c)) : NULL;

    *change = NULL;
    if (!c) {
        pare_model_free(to);
        return pare_no_memory(err, "to change the model");
    }
    c->m = to;
    c->from = m;
    if (copy_graph(c, err)) {
        pare_model_free(to);
        return err->code;
    }
    *change = c;
    return 0;
}

void pare_change_drop(struct pare_change *c)
{
    if (c)
        pare_model_free(c->m);
}

struct pare_arena *pare_change_arena(struct pare_change *c)
{
    return c->m->arena;
}

/* ---- constants ----------------------------------------------------------------------------- */

static int fill(struct pare_change *c, Onnx__TensorProto *p, const struct pare_tensor *t,
                struct pare_err *err)
{
    size_t bytes;

    PARE_TRY(pare_tensor_size(t, NULL, &bytes, err));
    if (t->dtype == PARE_I4 || t->dtype == PARE_U4 || t->dtype == PARE_STR)
        return pare_fail(err, PARE_EUNSUPPORTED, "'%s' is %s, which cannot be changed",
                         str(p->name), pare_dtype_name(t->dtype));
    p->dims = pare_alloc(c->m->arena, (size_t)t->rank + 1, sizeof(*p->dims));
    if (!p->dims)
        return pare_no_memory(err, "to change the model");
    if (t->rank)
        memcpy(p->dims, t->dim, (size_t)t->rank * sizeof(*p->dims));
    p->n_dims = (size_t)t->rank;
    p->has_data_type = true;
    p->data_type = (int32_t)t->dtype;
    p->has_raw_data = true;
    p->raw_data = (ProtobufCBinaryData){ bytes, t->data };
    p->n_float_data = p->n_int32_data = p->n_int64_data = 0;
    p->n_double_data = p->n_uint64_data = p->n_string_data = 0;
    p->n_external_data = 0;
    p->has_data_location = false;
    return 0;
}

static int append(struct pare_change *c, const char *name, const struct pare_tensor *t,
                  struct pare_err *err)
{
    Onnx__TensorProto *p = pare_alloc(c->m->arena, 1, sizeof(*p));
    Onnx__TensorProto **list = pare_grow(c->m->arena, c->g->initializer, (int)c->g->n_initializer,
                                         &c->cap_weight, sizeof(*list));

    if (!p || !list)
        return pare_no_memory(err, "to change the model");
    onnx__tensor_proto__init(p);
    p->name = (char *)(uintptr_t)name;
    c->g->initializer = list;
    list[c->g->n_initializer++] = p;
    PARE_TRY(pare_map_set(&c->weight, c->m->arena, name, p, err));
    return fill(c, p, t, err);
}

/* An initializer that old files list among the inputs, too: its shape there follows. */
static void drop_input(struct pare_change *c, const char *name)
{
    size_t k = 0;

    if (((Onnx__ModelProto *)c->m->proto)->ir_version < 4)
        ((Onnx__ModelProto *)c->m->proto)->ir_version = 4;
    for (size_t i = 0; i < c->g->n_input; i++)
        if (strcmp(str(c->g->input[i]->name), name) != 0)
            c->g->input[k++] = c->g->input[i];
    c->g->n_input = k;
}

static bool drop_sparse(struct pare_change *c, const char *name)
{
    size_t k = 0, n = c->g->n_sparse_initializer;

    for (size_t i = 0; i < n; i++) {
        const Onnx__SparseTensorProto *s = c->g->sparse_initializer[i];

        if (!s->values || strcmp(str(s->values->name), name) != 0)
            c->g->sparse_initializer[k++] = c->g->sparse_initializer[i];
    }
    c->g->n_sparse_initializer = k;
    return k < n;
}

int pare_change_const(struct pare_change *c, const char *name, const struct pare_tensor *t,
                      struct pare_err *err)
{
    Onnx__TensorProto *p = pare_map_get(&c->weight, name);
    Onnx__NodeProto *n = pare_map_get(&c->maker, name);

    PARE_TRY(pare_change_forget(c, name, err));
    if (p) {
        drop_input(c, name);
        return fill(c, p, t, err);
    }
    if (!n && !drop_sparse(c, name))
        return pare_fail(err, PARE_EUNSUPPORTED, "'%s' is no constant of the main graph", name);
    if (n) {
        for (size_t k = 0; k < n->n_output; k++)
            if (!strcmp(str(n->output[k]), name))
                n->output[k] = pare_strdup(c->m->arena, "");
        PARE_TRY(pare_map_set(&c->constant, c->m->arena, name, n, err));
    }
    return append(c, name, t, err);
}

static bool is_taken(const struct pare_change *c, const char *name)
{
    if (pare_map_get(&c->weight, name) || pare_map_get(&c->maker, name) ||
        pare_map_get(&c->from->graph->names, name))
        return true;
    return false;
}

static const char *fresh(struct pare_change *c, const char *base)
{
    const char *name = base;

    while (name && is_taken(c, name))
        name = pare_sprintf(c->m->arena, "%s.%lld", base, (long long)++c->made);
    return name ? pare_strdup(c->m->arena, name) : NULL;
}

int pare_change_add(struct pare_change *c, const char *base, const struct pare_tensor *t,
                    const char **name, struct pare_err *err)
{
    *name = fresh(c, base);
    return *name ? append(c, *name, t, err) : pare_no_memory(err, "to change the model");
}

/* ---- nodes ---------------------------------------------------------------------------------- */

static Onnx__NodeProto *find(const struct pare_change *c, const struct pare_node *n)
{
    char key[32];

    snprintf(key, sizeof(key), "%p", n->proto);
    return pare_map_get(&c->node, key);
}

bool pare_change_can(const struct pare_change *c, const struct pare_node *n)
{
    return find(c, n) != NULL;
}

bool pare_change_has(const struct pare_model *m, const struct pare_node *n)
{
    const Onnx__GraphProto *g = ((const Onnx__ModelProto *)m->proto)->graph;

    for (size_t i = 0; g && i < g->n_node; i++)
        if (g->node[i] == n->proto)
            return true;
    return false;
}

static int wanted(const struct pare_change *c, const struct pare_node *n, Onnx__NodeProto **p,
                  struct pare_err *err)
{
    *p = find(c, n);
    return *p ? 0
              : pare_fail(err, PARE_EUNSUPPORTED, "node '%s' (%s) is part of a function", n->name,
                          n->type);
}

int pare_change_input(struct pare_change *c, const struct pare_node *n, int i, const char *name,
                      struct pare_err *err)
{
    Onnx__NodeProto *p;
    char **list;

    PARE_TRY(wanted(c, n, &p, err));
    if ((size_t)i >= p->n_input) {
        list = pare_alloc(c->m->arena, (size_t)i + 1, sizeof(*list));
        if (!list)
            return pare_no_memory(err, "to change the model");
        for (int k = 0; k <= i; k++)
            list[k] = (size_t)k < p->n_input ? p->input[k] : pare_strdup(c->m->arena, "");
        p->input = list;
        p->n_input = (size_t)i + 1;
    }
    p->input[i] = (char *)(uintptr_t)name;
    return 0;
}

int pare_change_leave_out(struct pare_change *c, const struct pare_node *n, int i,
                          struct pare_err *err)
{
    Onnx__NodeProto *p;

    PARE_TRY(wanted(c, n, &p, err));
    if (i < 0 || (size_t)i >= p->n_input)
        return 0;
    for (size_t k = (size_t)i + 1; k < p->n_input; k++)
        p->input[k - 1] = p->input[k];
    p->n_input--;
    return 0;
}

int pare_change_behind(struct pare_change *c, const struct pare_node *n, const char *type,
                       const char *with, struct pare_err *err)
{
    struct pare_arena *a = c->m->arena;
    Onnx__NodeProto *p, *q = pare_alloc(a, 1, sizeof(*q)), **list;
    char **in = pare_alloc(a, 2, sizeof(*in)), **out = pare_alloc(a, 1, sizeof(*out));

    PARE_TRY(wanted(c, n, &p, err));
    list = pare_grow(a, c->g->node, (int)c->g->n_node, &c->cap_node, sizeof(*list));
    if (!q || !in || !out || !list)
        return pare_no_memory(err, "to change the model");
    c->g->node = list;
    onnx__node_proto__init(q);
    out[0] = p->output[0];
    in[0] = (char *)(uintptr_t)fresh(c, pare_sprintf(a, "%s.sum", p->output[0]));
    in[1] = (char *)(uintptr_t)with;
    q->op_type = pare_strdup(a, type);
    q->name = in[0] ? pare_sprintf(a, "%s.%s", str(p->name), type) : NULL;
    if (!in[0] || !q->op_type || !q->name)
        return pare_no_memory(err, "to change the model");
    q->input = in;
    q->n_input = 2;
    q->output = out;
    q->n_output = 1;
    p->output[0] = in[0];
    PARE_TRY(pare_map_set(&c->maker, a, in[0], p, err));
    PARE_TRY(pare_map_set(&c->maker, a, out[0], q, err));
    /* Behind p, so that who reads the file in order finds it made in time. */
    for (size_t i = c->g->n_node++; i > 0; i--) {
        if (list[i - 1] == p) {
            list[i] = q;
            break;
        }
        list[i] = list[i - 1];
    }
    return 0;
}

/* A copy of the attribute, or a new one, in the node's list. */
static int attribute(struct pare_change *c, const struct pare_node *n, const char *name,
                     Onnx__AttributeProto **attr, struct pare_err *err)
{
    struct pare_arena *a = c->m->arena;
    Onnx__AttributeProto *p = pare_alloc(a, 1, sizeof(*p)), **list;
    Onnx__NodeProto *node;

    PARE_TRY(wanted(c, n, &node, err));
    if (!p)
        return pare_no_memory(err, "to change the model");
    onnx__attribute_proto__init(p);
    p->name = pare_strdup(a, name);
    p->has_type = true;
    *attr = p;
    for (size_t i = 0; i < node->n_attribute; i++)
        if (!strcmp(str(node->attribute[i]->name), name)) {
            node->attribute[i] = p;
            return p->name ? 0 : pare_no_memory(err, "to change the model");
        }
    list = pare_alloc(a, node->n_attribute + 1, sizeof(*list));
    if (!list || !p->name)
        return pare_no_memory(err, "to change the model");
    if (node->n_attribute)
        memcpy(list, node->attribute, node->n_attribute * sizeof(*list));
    list[node->n_attribute++] = p;
    node->attribute = list;
    return 0;
}

int pare_change_int(struct pare_change *c, const struct pare_node *n, const char *attr, int64_t v,
                    struct pare_err *err)
{
    Onnx__AttributeProto *p;

    PARE_TRY(attribute(c, n, attr, &p, err));
    p->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
    p->has_i = true;
    p->i = v;
    return 0;
}

int pare_change_ints(struct pare_change *c, const struct pare_node *n, const char *attr,
                     const int64_t *v, int count, struct pare_err *err)
{
    Onnx__AttributeProto *p;

    PARE_TRY(attribute(c, n, attr, &p, err));
    p->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS;
    p->ints = pare_alloc(c->m->arena, (size_t)count + 1, sizeof(*p->ints));
    if (!p->ints)
        return pare_no_memory(err, "to change the model");
    if (count)
        memcpy(p->ints, v, (size_t)count * sizeof(*v));
    p->n_ints = (size_t)count;
    return 0;
}

/* ---- the end ------------------------------------------------------------------------------- */

int pare_change_forget(struct pare_change *c, const char *name, struct pare_err *err)
{
    const char *own = pare_strdup(c->m->arena, name);

    return own ? pare_map_set(&c->forget, c->m->arena, own, c, err)
               : pare_no_memory(err, "to change the model");
}

/* Names that graphs inside attributes use, of whatever scope: all of them count. */
static int need_inside(struct pare_change *c, const Onnx__GraphProto *g, struct pare_map *needed,
                       int depth, struct pare_err *err)
{
    for (size_t i = 0; i < g->n_output; i++)
        PARE_TRY(pare_map_set(needed, c->m->arena, str(g->output[i]->name), c, err));
    for (size_t i = 0; i < g->n_node; i++) {
        const Onnx__NodeProto *n = g->node[i];

        for (size_t k = 0; k < n->n_input; k++)
            PARE_TRY(pare_map_set(needed, c->m->arena, str(n->input[k]), c, err));
        for (size_t k = 0; k < n->n_attribute && depth < 100; k++) {
            if (n->attribute[k]->g)
                PARE_TRY(need_inside(c, n->attribute[k]->g, needed, depth + 1, err));
            for (size_t j = 0; j < n->attribute[k]->n_graphs; j++)
                PARE_TRY(need_inside(c, n->attribute[k]->graphs[j], needed, depth + 1, err));
        }
    }
    return 0;
}

static bool makes_needed(const Onnx__NodeProto *n, const struct pare_map *needed)
{
    for (size_t k = 0; k < n->n_output; k++)
        if (*str(n->output[k]) && pare_map_get(needed, n->output[k]))
            return true;
    return false;
}

/* Nodes may stand in any order, so until nothing changes; in the usual order one turn is enough. */
static int find_needed(struct pare_change *c, struct pare_map *needed, bool *live,
                       struct pare_err *err)
{
    bool more = true;

    for (size_t i = 0; i < c->g->n_output; i++)
        PARE_TRY(pare_map_set(needed, c->m->arena, str(c->g->output[i]->name), c, err));
    while (more) {
        more = false;
        for (size_t i = c->g->n_node; i-- > 0;) {
            const Onnx__NodeProto *n = c->g->node[i];
            const Onnx__GraphProto one = { .n_node = 1, .node = &c->g->node[i] };

            if (live[i] || !makes_needed(n, needed))
                continue;
            live[i] = more = true;
            PARE_TRY(need_inside(c, &one, needed, 0, err));
        }
    }
    return 0;
}

static int sweep(struct pare_change *c, struct pare_err *err)
{
    bool *live = pare_alloc(c->m->arena, c->g->n_node + 1, sizeof(*live));
    struct pare_map needed = { 0 };
    Onnx__GraphProto *g = c->g;
    size_t k = 0;

    if (!live)
        return pare_no_memory(err, "to change the model");
    PARE_TRY(find_needed(c, &needed, live, err));
    for (size_t i = 0; i < g->n_node; i++)
        if (live[i])
            g->node[k++] = g->node[i];
    g->n_node = k;
    k = 0;
    for (size_t i = 0; i < g->n_initializer; i++)
        if (pare_map_get(&needed, str(g->initializer[i]->name)))
            g->initializer[k++] = g->initializer[i];
        else
            drop_input(c, str(g->initializer[i]->name));
    g->n_initializer = k;
    k = 0;
    for (size_t i = 0; i < g->n_value_info; i++) {
        const char *name = str(g->value_info[i]->name);

        if (pare_map_get(&needed, name) && !pare_map_get(&c->forget, name))
            g->value_info[k++] = g->value_info[i];
    }
    g->n_value_info = k;
    return 0;
}

int pare_change_done(struct pare_change *c, struct pare_model **model, struct pare_err *err)
{
    struct pare_model *m = c->m;
    int rc = sweep(c, err);

    *model = NULL;
    if (!rc)
        rc = pare_model_build(m, err);
    if (!rc && pare_arena_failed(m->arena))
        rc = pare_no_memory(err, "to change the model");
    if (rc)
        pare_model_free(m);
    else
        *model = m;
    return pare_at(err, rc, "changing the model");
}

/* stored_types.c - write weights back as float16, bfloat16 or float64, with a Cast to float32, if
 * the file had them so before intake folded the Cast (intake/fold_weights.c). */
#include "stored_types.h"

#include <math.h>
#include <string.h>

#include "../base/arena.h"
#include "../tensor/tensor.h"

struct pare_stored {
    const char *name;
    enum pare_dtype type;
    struct pare_stored *next;
};

int pare_stored_note(struct pare_model *m, const char *name, enum pare_dtype type,
                     struct pare_err *err)
{
    struct pare_stored *s = pare_alloc(m->arena, 1, sizeof(*s));

    if (!s)
        return pare_no_memory(err, "for the graph");
    *s = (struct pare_stored){ pare_strdup(m->arena, name), type, m->stored };
    if (!s->name)
        return pare_no_memory(err, "for the graph");
    m->stored = s;
    return 0;
}

/* An edited model has the notes of the one that it was edited from. */
enum pare_dtype pare_model_stored_type(const struct pare_model *m, const char *name)
{
    for (; m; m = m->base)
        for (const struct pare_stored *s = m->stored; s; s = s->next)
            if (!strcmp(s->name, name))
                return s->type;
    return PARE_NONE;
}

static bool has_notes(const struct pare_model *m)
{
    for (; m; m = m->base)
        if (m->stored)
            return true;
    return false;
}

bool pare_stored_half(const struct pare_model *m)
{
    for (; m; m = m->base)
        for (const struct pare_stored *s = m->stored; s; s = s->next)
            if (s->type == PARE_F16 || s->type == PARE_BF16)
                return true;
    return false;
}

int pare_stored_copy(const struct pare_model *from, struct pare_model *to, struct pare_err *err)
{
    for (; from; from = from->base)
        for (const struct pare_stored *s = from->stored; s; s = s->next)
            PARE_TRY(pare_stored_note(to, s->name, s->type, err));
    return 0;
}

/* ---- one tensor ------------------------------------------------------------------------------ */

/* Element i of data in a file, which is aligned to bytes. */
static float element(const unsigned char *data, int64_t i)
{
    float v;

    memcpy(&v, data + (size_t)i * sizeof(v), sizeof(v));
    return v;
}

static bool overflows(const unsigned char *data, int64_t n, enum pare_dtype type)
{
    for (int64_t i = 0; i < n && type == PARE_F16; i++)
        if (isfinite(element(data, i)) && (pare_f32_to_f16(element(data, i)) & 0x7fff) == 0x7c00)
            return true;
    return false;
}

static void convert(const unsigned char *data, int64_t n, enum pare_dtype type, void *to)
{
    for (int64_t i = 0; i < n; i++) {
        float v = element(data, i);

        if (type == PARE_F64)
            ((double *)to)[i] = (double)v;
        else
            ((uint16_t *)to)[i] = type == PARE_F16 ? pare_f32_to_f16(v) : pare_f32_to_bf16(v);
    }
}

/* The elements of a float32 initializer; NULL: it has another type, or is not in memory. */
static const unsigned char *elements(const Onnx__TensorProto *t, int64_t *n)
{
    *n = 1;
    for (size_t i = 0; i < t->n_dims; i++)
        *n *= t->dims[i];
    return t->data_type == PARE_F32 && *n > 0 && t->raw_data.len == (size_t)*n * sizeof(float)
               ? t->raw_data.data
               : NULL;
}

/* A copy of the tensor in another type. */
static Onnx__TensorProto *restored(struct pare_arena *a, const Onnx__TensorProto *t,
                                   enum pare_dtype type)
{
    Onnx__TensorProto *p = pare_alloc(a, 1, sizeof(*p));
    size_t each = pare_dtype_size(type);
    int64_t n;
    const unsigned char *v = elements(t, &n);
    void *data = pare_alloc_raw(a, (size_t)n, each);

    if (!p || !data)
        return NULL;
    *p = *t;
    convert(v, n, type, data);
    p->data_type = (int32_t)type;
    pare_set_raw_data(p, data, (size_t)n * each);
    return p;
}

static Onnx__NodeProto *cast_node(struct pare_arena *a, const char *from, const char *to)
{
    Onnx__NodeProto *n = pare_alloc(a, 1, sizeof(*n));
    Onnx__AttributeProto *at = pare_alloc(a, 1, sizeof(*at)), **list;
    char **names = pare_alloc(a, 2, sizeof(*names));

    list = pare_alloc(a, 1, sizeof(Onnx__AttributeProto *));
    if (!n || !at || !list || !names)
        return NULL;
    onnx__attribute_proto__init(at);
    at->name = (char *)(uintptr_t) "to";
    at->has_type = at->has_i = true;
    at->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
    at->i = PARE_F32;
    list[0] = at;
    names[0] = (char *)(uintptr_t)from;
    names[1] = (char *)(uintptr_t)to;
    onnx__node_proto__init(n);
    n->op_type = (char *)(uintptr_t) "Cast";
    n->name = names[0];
    n->n_input = n->n_output = n->n_attribute = 1;
    n->input = names;
    n->output = names + 1;
    n->attribute = list;
    return n;
}

/* ---- the model ------------------------------------------------------------------------------- */

/* A name that no value has. */
static const char *free_name(struct pare_arena *a, struct pare_map *names, const char *base,
                             struct pare_err *err)
{
    const char *name = pare_sprintf(a, "%s_float", base);

    for (int i = 2; name && pare_map_get(names, name); i++)
        name = pare_sprintf(a, "%s_float%d", base, i);
    if (!name || pare_map_set(names, a, name, names, err)) {
        pare_no_memory(err, "to write it");
        return NULL;
    }
    return name;
}

static int list_names(const Onnx__GraphProto *g, struct pare_arena *a, struct pare_map *names,
                      struct pare_err *err)
{
    for (size_t i = 0; i < g->n_initializer; i++)
        if (g->initializer[i]->name)
            PARE_TRY(pare_map_set(names, a, g->initializer[i]->name, names, err));
    for (size_t i = 0; i < g->n_input; i++)
        if (g->input[i]->name)
            PARE_TRY(pare_map_set(names, a, g->input[i]->name, names, err));
    for (size_t i = 0; i < g->n_node; i++)
        for (size_t k = 0; k < g->node[i]->n_output; k++)
            PARE_TRY(pare_map_set(names, a, g->node[i]->output[k], names, err));
    return 0;
}

/* Names that outputs of graphs and nodes of bodies read. */
static int list_fixed(const Onnx__GraphProto *g, bool body, struct pare_arena *a,
                      struct pare_map *fixed, struct pare_err *err)
{
    for (size_t i = 0; i < g->n_output; i++)
        if (g->output[i]->name)
            PARE_TRY(pare_map_set(fixed, a, g->output[i]->name, fixed, err));
    for (size_t i = 0; i < g->n_node; i++) {
        const Onnx__NodeProto *n = g->node[i];

        for (size_t k = 0; body && k < n->n_input; k++)
            if (n->input[k])
                PARE_TRY(pare_map_set(fixed, a, n->input[k], fixed, err));
        for (size_t k = 0; k < n->n_attribute; k++) {
            if (n->attribute[k]->g)
                PARE_TRY(list_fixed(n->attribute[k]->g, true, a, fixed, err));
            for (size_t b = 0; b < n->attribute[k]->n_graphs; b++)
                PARE_TRY(list_fixed(n->attribute[k]->graphs[b], true, a, fixed, err));
        }
    }
    return 0;
}

/* Lets the node read the results of the Casts. */
static int read_casts(Onnx__NodeProto **node, const struct pare_map *casts, struct pare_arena *a,
                      struct pare_err *err)
{
    bool own = false;

    for (size_t k = 0; k < (*node)->n_input; k++) {
        const char *to = (*node)->input[k] ? pare_map_get(casts, (*node)->input[k]) : NULL;
        Onnx__NodeProto *copy;
        char **in;

        if (!to)
            continue;
        if (!own) {
            copy = pare_alloc(a, 1, sizeof(*copy));
            in = pare_alloc(a, (*node)->n_input, sizeof(*in));
            if (!copy || !in)
                return pare_no_memory(err, "to write it");
            *copy = **node;
            memcpy(in, copy->input, copy->n_input * sizeof(*in));
            copy->input = in;
            *node = copy;
            own = true;
        }
        (*node)->input[k] = (char *)(uintptr_t)to;
    }
    return 0;
}

static int restore(const struct pare_model *m, Onnx__GraphProto *g, struct pare_arena *a,
                   struct pare_err *err)
{
    Onnx__TensorProto **tensor = pare_alloc(a, g->n_initializer + 1, sizeof(*tensor));
    Onnx__NodeProto **node = pare_alloc(a, g->n_initializer + g->n_node, sizeof(*node));
    struct pare_map names = { 0 }, casts = { 0 }, fixed = { 0 };
    size_t n = 0;

    if (!tensor || !node)
        return pare_no_memory(err, "to write it");
    PARE_TRY(list_names(g, a, &names, err));
    PARE_TRY(list_fixed(g, false, a, &fixed, err));
    for (size_t i = 0; i < g->n_initializer; i++) {
        Onnx__TensorProto *t = tensor[i] = g->initializer[i];
        enum pare_dtype type = t->name ? pare_model_stored_type(m, t->name) : PARE_NONE;
        const char *name;
        int64_t count;

        if (type == PARE_NONE || !elements(t, &count) ||
            overflows(elements(t, &count), count, type))
            continue;
        name = free_name(a, &names, t->name, err);
        tensor[i] = name ? restored(a, t, type) : NULL;
        if (!tensor[i])
            return pare_no_memory(err, "to write it");
        if (pare_map_get(&fixed, t->name)) { /* the Cast's result has the name instead */
            tensor[i]->name = (char *)(uintptr_t)name;
            node[n] = cast_node(a, name, t->name);
        } else {
            node[n] = cast_node(a, t->name, name);
            PARE_TRY(pare_map_set(&casts, a, t->name, (void *)(uintptr_t)name, err));
        }
        if (!node[n++])
            return pare_no_memory(err, "to write it");
    }
    for (size_t i = 0; i < g->n_node; i++) {
        node[n + i] = g->node[i];
        PARE_TRY(read_casts(&node[n + i], &casts, a, err));
    }
    g->initializer = tensor;
    g->node = node;
    g->n_node += n;
    return 0;
}

/* *out: the protobuf as it was read with the current initializers of p, in their types.  NULL: a
 * value is out of range. */
static int narrow(const struct pare_model *m, const Onnx__ModelProto *p, struct pare_arena *a,
                  const Onnx__ModelProto **out, struct pare_err *err)
{
    const Onnx__ModelProto *file = m->narrow;
    Onnx__ModelProto *copy = pare_alloc(a, 1, sizeof(*copy));
    Onnx__GraphProto *g = pare_alloc(a, 1, sizeof(*g));
    Onnx__TensorProto **list = pare_alloc(a, file->graph->n_initializer + 1, sizeof(*list));
    struct pare_map now = { 0 };

    *out = NULL;
    if (!copy || !g || !list)
        return pare_no_memory(err, "to write it");
    for (size_t i = 0; i < p->graph->n_initializer; i++)
        if (p->graph->initializer[i]->name)
            PARE_TRY(pare_map_set(&now, a, p->graph->initializer[i]->name, p->graph->initializer[i],
                                  err));
    for (size_t i = 0; i < file->graph->n_initializer; i++) {
        Onnx__TensorProto *was = file->graph->initializer[i];
        Onnx__TensorProto *t = was->name ? pare_map_get(&now, was->name) : NULL;
        enum pare_dtype type = (enum pare_dtype)was->data_type;
        int64_t n;

        list[i] = t && t->data_type == was->data_type ? t : was;
        if (!t || list[i] == t || !elements(t, &n))
            continue;
        if (overflows(elements(t, &n), n, type))
            return 0;
        list[i] = restored(a, t, type);
        if (!list[i])
            return pare_no_memory(err, "to write it");
    }
    *g = *file->graph;
    g->initializer = list;
    *copy = *p;
    copy->ir_version = file->ir_version;
    copy->graph = g;
    *out = copy;
    return 0;
}

int pare_stored_restore(const struct pare_model *m, const Onnx__ModelProto *p, struct pare_arena *a,
                        const Onnx__ModelProto **out, struct pare_err *err)
{
    Onnx__ModelProto *copy;
    Onnx__GraphProto *g;

    if (m->narrow && m->wide == m->proto && p == m->proto) {
        PARE_TRY(narrow(m, p, a, out, err));
        if (*out)
            return 0;
    }
    *out = p;
    if (!has_notes(m) || !p->graph)
        return 0;
    copy = pare_alloc(a, 1, sizeof(*copy));
    g = pare_alloc(a, 1, sizeof(*g));
    if (!copy || !g)
        return pare_no_memory(err, "to write it");
    *copy = *p;
    *g = *p->graph;
    copy->graph = g;
    *out = copy;
    return restore(m, g, a, err);
}

/* widen_compute.c - intake: a model that computes in float16, bfloat16 or float64 computes in
 * float32, so that its layers can be compressed and trained.
 *
 * Only with pare_load_opts.widen, and if a layer reads a weight of such a type without a Cast.  All
 * constants, casts and declared types become float32; inputs and outputs of the model keep their
 * types, with a Cast.  Saving a model of which only initializers changed writes the file's nodes
 * with the new weights in their types; saving another one writes weights in the type of the file,
 * with a Cast (stored_types.h).
 */
#include <math.h>
#include <string.h>

#include "../../op/op.h"
#include "../../tensor/tensor.h"
#include "../stored_types.h"
#include "intake.h"

struct widening {
    struct pare_arena *a;
    struct pare_map narrow; /* names of initializers of such a type, and of views of them */
    struct pare_map names;  /* names of all values */
    struct pare_map to;     /* inputs and outputs of the model: their names in float32 */
    Onnx__NodeProto **cast; /* of inputs, then of outputs */
    int n_in, n, cap;
    bool found, refused; /* refused: sequences of such a type */
};

static bool is_narrow(int type)
{
    return type == PARE_F16 || type == PARE_BF16 || type == PARE_F64;
}

static const char *str(const char *s)
{
    return s ? s : "";
}

/* ---- whether the model computes in such a type ----------------------------------------------- */

static int note_name(struct widening *s, const char *name, struct pare_err *err)
{
    return *str(name) ? pare_map_set(&s->names, s->a, name, s, err) : 0;
}

static void note_type(struct widening *s, const Onnx__ValueInfoProto *v)
{
    const Onnx__TypeProto *t = v->type;

    s->refused |= t && t->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE &&
                  t->value_case != ONNX__TYPE_PROTO__VALUE__NOT_SET;
}

static int see_constants(const Onnx__GraphProto *g, void *state, struct pare_err *err)
{
    struct widening *s = state;

    for (size_t i = 0; i < g->n_initializer; i++) {
        const Onnx__TensorProto *t = g->initializer[i];

        PARE_TRY(note_name(s, t->name, err));
        if (is_narrow(t->data_type) && *str(t->name))
            PARE_TRY(pare_map_set(&s->narrow, s->a, t->name, s, err));
    }
    for (size_t i = 0; i < g->n_input; i++) {
        PARE_TRY(note_name(s, g->input[i]->name, err));
        note_type(s, g->input[i]);
    }
    for (size_t i = 0; i < g->n_output; i++)
        note_type(s, g->output[i]);
    for (size_t i = 0; i < g->n_node; i++)
        for (size_t k = 0; k < g->node[i]->n_output; k++)
            PARE_TRY(note_name(s, g->node[i]->output[k], err));
    return 0;
}

/* Nodes of most files are sorted, so one pass follows chains of views. */
static int see_layers(const Onnx__GraphProto *g, void *state, struct pare_err *err)
{
    struct widening *s = state;

    for (size_t i = 0; i < g->n_node; i++) {
        const Onnx__NodeProto *n = g->node[i];
        const struct pare_op *op = pare_find_op(str(n->domain), str(n->op_type));

        if (!op || !n->n_input)
            continue;
        if (op->layer.params && (size_t)op->layer.weight < n->n_input &&
            pare_map_get(&s->narrow, str(n->input[op->layer.weight])))
            s->found = true;
        if (op->flags & (PARE_OP_VIEW | PARE_OP_STORAGE) && n->n_output &&
            !pare_intake_is(n, "Cast") && pare_map_get(&s->narrow, str(n->input[0])))
            PARE_TRY(pare_map_set(&s->narrow, s->a, str(n->output[0]), s, err));
    }
    return 0;
}

static int wanted(const struct pare_model *m, const struct pare_load_opts *opts, bool *yes,
                  void **state, struct pare_err *err)
{
    const Onnx__ModelProto *p = m->proto;
    struct widening *s = pare_alloc(m->arena, 1, sizeof(*s));

    *yes = false;
    if (!opts->widen || p->n_functions)
        return 0;
    if (!s)
        return pare_no_memory(err, "for the graph");
    s->a = m->arena;
    *state = s;
    PARE_TRY(pare_intake_each(p->graph, see_constants, s, err));
    if (s->narrow.n)
        PARE_TRY(pare_intake_each(p->graph, see_layers, s, err));
    *yes = s->found && !s->refused;
    return 0;
}

/* ---- constants, attributes and types --------------------------------------------------------- */

/* A float32 copy of the tensor. */
static int widen_tensor(struct pare_model *m, Onnx__TensorProto **p, struct pare_err *err)
{
    struct pare_const c = { .raw = NULL };
    Onnx__TensorProto *copy = pare_alloc(m->arena, 1, sizeof(*copy));
    const void *from;
    int64_t n;
    float *to;

    PARE_TRY(pare_const_read(m, *p, &c, err));
    from = c.raw ? c.raw : c.t.data;
    n = pare_numel(&c.t);
    to = pare_alloc_raw(m->arena, (size_t)n + 1, sizeof(*to));
    if (!copy || !to)
        return pare_no_memory(err, "for the graph");
    if (n && !from)
        return pare_fail(err, PARE_EUNSUPPORTED, "'%s' cannot be read: %s", str((*p)->name),
                         str(c.why));
    if (c.raw && n) { /* it may not be aligned */
        void *aligned = pare_alloc_raw(m->arena, (size_t)n, pare_dtype_size(c.t.dtype));

        if (!aligned)
            return pare_no_memory(err, "for the graph");
        from = memcpy(aligned, c.raw, (size_t)n * pare_dtype_size(c.t.dtype));
    }
    PARE_TRY(pare_convert(PARE_F32, to, c.t.dtype, from, n, err));
    for (int64_t i = 0; i < n && c.t.dtype == PARE_F64; i++)
        if (isfinite(((const double *)from)[i]) && !isfinite(to[i]))
            return pare_fail(err, PARE_EUNSUPPORTED,
                             "'%s' has the value %g, which is beyond the range of float32",
                             str((*p)->name), ((const double *)from)[i]);
    *copy = **p;
    copy->data_type = PARE_F32;
    copy->n_external_data = 0;
    copy->has_data_location = false;
    pare_set_raw_data(copy, to, (size_t)n * sizeof(*to));
    *p = copy;
    return 0;
}

/* Attributes that are element types. */
static bool names_type(const char *attr)
{
    return !strcmp(attr, "to") || !strcmp(attr, "dtype") || !strcmp(attr, "output_dtype") ||
           !strcmp(attr, "output_datatype");
}

static int widen_attr(struct pare_intake_graph *g, size_t i, size_t k, bool *own,
                      struct pare_err *err)
{
    Onnx__NodeProto *n = g->p->node[i];
    Onnx__AttributeProto *at = n->attribute[k];
    bool type = at->has_i && is_narrow((int)at->i) && names_type(str(at->name));
    bool value = at->t && is_narrow(at->t->data_type);

    if (!type && !value)
        return 0;
    if (!*own)
        PARE_TRY(pare_intake_own_node(g, i, &n, err));
    *own = true;
    at = pare_alloc(g->m->arena, 1, sizeof(*at));
    if (!at)
        return pare_no_memory(err, "for the graph");
    *at = *n->attribute[k];
    n->attribute[k] = at;
    if (type)
        at->i = PARE_F32;
    return value ? widen_tensor(g->m, &at->t, err) : 0;
}

/* Names of the model's inputs and outputs are replaced in all graphs. */
static int widen_node(struct pare_intake_graph *g, const struct widening *s, size_t i,
                      struct pare_err *err)
{
    bool own = false;

    for (size_t k = 0; k < g->p->node[i]->n_attribute; k++)
        PARE_TRY(widen_attr(g, i, k, &own, err));
    for (int side = 0; side < 2; side++) {
        size_t count = side ? g->p->node[i]->n_output : g->p->node[i]->n_input;

        for (size_t k = 0; k < count; k++) {
            Onnx__NodeProto *n = g->p->node[i];
            const char *to = pare_map_get(&s->to, str((side ? n->output : n->input)[k]));

            if (!to)
                continue;
            if (!own)
                PARE_TRY(pare_intake_own_node(g, i, &n, err));
            own = true;
            (side ? n->output : n->input)[k] = (char *)(uintptr_t)to;
        }
    }
    return 0;
}

/* A list of declared values with float32 instead of such types. */
static int widen_infos(struct pare_arena *a, Onnx__ValueInfoProto ***list, size_t n,
                       struct pare_err *err)
{
    Onnx__ValueInfoProto **to = pare_alloc(a, n + 1, sizeof(Onnx__ValueInfoProto *));

    if (!to)
        return pare_no_memory(err, "for the graph");
    for (size_t i = 0; i < n; i++) {
        const Onnx__TypeProto *t = (*list)[i]->type;
        struct {
            Onnx__ValueInfoProto v;
            Onnx__TypeProto type;
            Onnx__TypeProto__Tensor tensor;
        } * copy;

        to[i] = (*list)[i];
        if (!t || t->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE || !t->tensor_type ||
            !is_narrow(t->tensor_type->elem_type))
            continue;
        copy = pare_alloc(a, 1, sizeof(*copy));
        if (!copy)
            return pare_no_memory(err, "for the graph");
        copy->v = *to[i];
        copy->type = *t;
        copy->tensor = *t->tensor_type;
        copy->tensor.elem_type = PARE_F32;
        copy->type.tensor_type = &copy->tensor;
        copy->v.type = &copy->type;
        to[i] = &copy->v;
    }
    *list = to;
    return 0;
}

/* ---- inputs and outputs of the model --------------------------------------------------------- */

static int add_cast(struct widening *s, const char *from, const char *to, int type,
                    struct pare_err *err)
{
    Onnx__NodeProto *n = pare_alloc(s->a, 1, sizeof(*n)), **list;
    Onnx__AttributeProto *at = pare_alloc(s->a, 1, sizeof(*at)), **attrs;
    char **names = pare_alloc(s->a, 2, sizeof(*names));

    attrs = pare_alloc(s->a, 1, sizeof(Onnx__AttributeProto *));
    list = pare_grow(s->a, s->cast, s->n, &s->cap, sizeof(*list));
    if (!n || !at || !attrs || !names || !list)
        return pare_no_memory(err, "for the graph");
    onnx__attribute_proto__init(at);
    at->name = (char *)(uintptr_t) "to";
    at->has_type = at->has_i = true;
    at->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
    at->i = type;
    attrs[0] = at;
    names[0] = (char *)(uintptr_t)from;
    names[1] = (char *)(uintptr_t)to;
    onnx__node_proto__init(n);
    n->op_type = (char *)(uintptr_t) "Cast";
    n->name = pare_sprintf(s->a, "%s_Cast", to);
    n->n_input = n->n_output = n->n_attribute = 1;
    n->input = names;
    n->output = names + 1;
    n->attribute = attrs;
    s->cast = list;
    s->cast[s->n++] = n;
    return n->name ? 0 : pare_no_memory(err, "for the graph");
}

/* Casts for the inputs or outputs in the list that have such a type. */
static int cast_ends(struct widening *s, Onnx__ValueInfoProto *const *list, size_t n, bool input,
                     struct pare_err *err)
{
    for (size_t i = 0; i < n; i++) {
        const Onnx__TypeProto *t = list[i]->type;
        const char *name = str(list[i]->name), *wide;
        int type = t && t->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE && t->tensor_type
                       ? t->tensor_type->elem_type
                       : 0;

        if (!is_narrow(type) || !*name || (input && pare_map_get(&s->narrow, name)))
            continue; /* files before IR version 4 list initializers as inputs */
        wide = pare_sprintf(s->a, "%s_float32", name);
        for (int k = 2; wide && pare_map_get(&s->names, wide); k++)
            wide = pare_sprintf(s->a, "%s_float32_%d", name, k);
        if (!wide)
            return pare_no_memory(err, "for the graph");
        PARE_TRY(note_name(s, wide, err));
        PARE_TRY(pare_map_set(&s->to, s->a, name, (void *)(uintptr_t)wide, err));
        PARE_TRY(
            add_cast(s, input ? name : wide, input ? wide : name, input ? PARE_F32 : type, err));
    }
    return 0;
}

static int place_casts(struct pare_intake_graph *g, const struct widening *s, struct pare_err *err)
{
    size_t in = (size_t)s->n_in, out = (size_t)(s->n - s->n_in);
    Onnx__NodeProto **list = pare_alloc(s->a, g->p->n_node + (size_t)s->n + 1, sizeof(*list));

    if (!list)
        return pare_no_memory(err, "for the graph");
    if (in)
        memcpy(list, s->cast, in * sizeof(*list));
    memcpy(list + in, g->p->node, g->p->n_node * sizeof(*list));
    if (out)
        memcpy(list + in + g->p->n_node, s->cast + in, out * sizeof(*list));
    g->p->node = list;
    g->p->n_node += in + out;
    return 0;
}

/* ---- the step -------------------------------------------------------------------------------- */

static int widen_constants(struct pare_intake_graph *g, const struct widening *s,
                           struct pare_err *err)
{
    for (size_t i = 0; i < g->p->n_initializer; i++) {
        Onnx__TensorProto **t = &g->p->initializer[i];
        enum pare_dtype type = (enum pare_dtype)(*t)->data_type;
        const char *name = pare_map_get(&s->to, str((*t)->name));

        if (!is_narrow((*t)->data_type))
            continue;
        PARE_TRY(widen_tensor(g->m, t, err));
        if (name)
            (*t)->name = (char *)(uintptr_t)name;
        if (g->main && (*t)->n_dims && *str((*t)->name))
            PARE_TRY(pare_stored_note(g->m, (*t)->name, type, err));
        ++*g->count;
    }
    return 0;
}

static int widen(struct pare_intake_graph *g, void *state, struct pare_err *err)
{
    struct widening *s = state;
    struct pare_arena *a = g->m->arena;

    PARE_TRY(pare_intake_change(g, err));
    if (g->main) {
        PARE_TRY(cast_ends(s, g->p->input, g->p->n_input, true, err));
        s->n_in = s->n;
        PARE_TRY(cast_ends(s, g->p->output, g->p->n_output, false, err));
    }
    PARE_TRY(widen_constants(g, s, err));
    for (size_t i = 0; i < g->p->n_node; i++)
        PARE_TRY(widen_node(g, s, i, err));
    PARE_TRY(widen_infos(a, &g->p->value_info, g->p->n_value_info, err));
    if (g->main) {
        PARE_TRY(pare_intake_drop_inputs(g, &s->narrow, err));
        return place_casts(g, s, err);
    }
    PARE_TRY(widen_infos(a, &g->p->input, g->p->n_input, err));
    return widen_infos(a, &g->p->output, g->p->n_output, err);
}

const struct pare_intake_step pare_intake_step_widen_compute = {
    .name = "widen_compute",
    .what = "constants of half or double precision made float32",
    .note = "the model computes in half or double precision: layers are compressed in float32, and "
            "written in their types; if nodes change, the written file computes in float32",
    .keeps_names = true,
    .wanted = wanted,
    .graph = widen,
};

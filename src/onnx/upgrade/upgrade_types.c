/* upgrade_types.c - element types and ranks of values, for rewrites that depend on them. */
#include <string.h>

#include "upgrade.h"

#include "../../base/arena.h"

/* ---- declared types -------------------------------------------------------------------------- */

static bool is_called(const char *name, const char *wanted)
{
    return name && !strcmp(name, wanted);
}

static enum pare_dtype declared_in(Onnx__ValueInfoProto *const *list, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        const Onnx__TypeProto *t = list[i]->type;

        if (is_called(list[i]->name, name) && t &&
            t->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE)
            return (enum pare_dtype)t->tensor_type->elem_type;
    }
    return PARE_NONE;
}

static enum pare_dtype declared(const Onnx__GraphProto *g, const char *name)
{
    enum pare_dtype d = declared_in(g->input, g->n_input, name);

    if (d == PARE_NONE)
        d = declared_in(g->output, g->n_output, name);
    if (d == PARE_NONE)
        d = declared_in(g->value_info, g->n_value_info, name);
    for (size_t i = 0; i < g->n_initializer && d == PARE_NONE; i++)
        if (is_called(g->initializer[i]->name, name))
            d = (enum pare_dtype)g->initializer[i]->data_type;
    return d;
}

/* ---- inferred shapes ------------------------------------------------------------------------- */

static void bind(struct pare_graph *g, int64_t size)
{
    for (int i = 0; i < g->n_in; i++)
        for (int k = 0; k < g->in[i]->t.rank; k++)
            if (g->in[i]->t.dim[k] < 0)
                g->in[i]->t.dim[k] = size + k;
}

/* Two clones of the graph, with different sizes of free dimensions. */
static int infer(struct pare_upgrade *u, struct pare_err *err)
{
    if (u->shapes_arena)
        return 0;
    u->shapes_arena = pare_arena_new(1 << 16);
    if (!u->shapes_arena)
        return pare_edit_no_memory(err);
    for (int i = 0; i < 2; i++) {
        u->shapes[i] = pare_graph_clone(u->shapes_arena, u->e->from->graph, err);
        if (!u->shapes[i])
            return err->code;
        bind(u->shapes[i], i ? 32 : 1);
        PARE_TRY(pare_graph_infer(u->shapes[i], true, err));
    }
    return 0;
}

static const struct pare_value *value_in(const struct pare_graph *g, const char *name)
{
    const struct pare_value *v = pare_map_get(&g->names, name);

    return v && v->t.dtype != PARE_NONE ? v : NULL;
}

int pare_site_rank(struct pare_site *s, const char *name, int *rank, struct pare_err *err)
{
    const struct pare_value *v[2];

    *rank = -1;
    if (s->list)
        return 0;
    PARE_TRY(infer(s->u, err));
    for (int i = 0; i < 2; i++)
        v[i] = value_in(s->u->shapes[i], name);
    if (v[0] && v[1] && v[0]->t.rank == v[1]->t.rank)
        *rank = v[0]->t.rank;
    return 0;
}

/* ---- element types --------------------------------------------------------------------------- */

static bool other_float(enum pare_dtype d)
{
    return d == PARE_F16 || d == PARE_F64 || d == PARE_BF16;
}

static bool message_has_other_floats(const ProtobufCMessage *m)
{
    const ProtobufCMessageDescriptor *d = m->descriptor;
    ProtobufCMessage *const *child;

    if (d == &onnx__tensor_proto__descriptor)
        return other_float((enum pare_dtype)((const Onnx__TensorProto *)m)->data_type);
    if (d == &onnx__type_proto__tensor__descriptor)
        return other_float((enum pare_dtype)((const Onnx__TypeProto__Tensor *)m)->elem_type);
    if (d == &onnx__attribute_proto__descriptor) {
        const Onnx__AttributeProto *at = (const void *)m;

        if (at->name && (!strcmp(at->name, "to") || !strcmp(at->name, "dtype")) &&
            other_float((enum pare_dtype)at->i))
            return true;
    }
    for (unsigned i = 0; i < d->n_fields; i++) {
        size_t n = pare_wire_children(m, &d->fields[i], &child);

        for (size_t k = 0; k < n; k++)
            if (message_has_other_floats(child[k]))
                return true;
    }
    return false;
}

/* The type that a Cast of a subgraph or function gives the value; PARE_NONE: another node makes
 * it. */
static enum pare_dtype cast_to(const struct pare_upgrade_scope *c, const char *name)
{
    for (size_t i = 0; i < c->n_node; i++) {
        const Onnx__NodeProto *p = c->node[i];

        if (!p->op_type || strcmp(p->op_type, "Cast") || !p->n_output || strcmp(p->output[0], name))
            continue;
        for (size_t k = 0; k < p->n_attribute; k++)
            if (is_called(p->attribute[k]->name, "to"))
                return (enum pare_dtype)p->attribute[k]->i;
    }
    return PARE_NONE;
}

int pare_site_dtype(struct pare_site *s, const char *name, enum pare_dtype *dtype,
                    struct pare_err *err)
{
    const struct pare_value *v;
    struct pare_upgrade *u = s->u;
    const ProtobufCMessage *file = u->e->from->proto;

    *dtype = PARE_NONE;
    for (const struct pare_upgrade_scope *c = s->scope; c && *dtype == PARE_NONE; c = c->up)
        *dtype = c->g ? declared(c->g, name) : PARE_NONE;
    for (const struct pare_upgrade_scope *c = s->scope; c && *dtype == PARE_NONE; c = c->up)
        *dtype = cast_to(c, name);
    if (*dtype != PARE_NONE)
        return 0;
    if (!s->list) {
        PARE_TRY(infer(u, err));
        v = value_in(u->shapes[0], name);
        if (v)
            *dtype = v->t.dtype;
    }
    if (!u->floats)
        u->floats = 1 + message_has_other_floats(file);
    if (*dtype == PARE_NONE && u->floats == 1)
        *dtype = PARE_F32;
    return 0;
}

const struct pare_tensor *pare_site_known(const struct pare_site *s, const char *name)
{
    const struct pare_value *v = s->list ? NULL : pare_map_get(&s->u->e->from->graph->names, name);

    return v && v->flags & PARE_V_CONST && v->t.data ? &v->t : NULL;
}

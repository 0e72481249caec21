/* upgrade_site.c - attributes, constants and new nodes of a node that is rewritten for an opset. */
#include <string.h>

#include "upgrade.h"

#include "../../tensor/tensor.h"

/* ---- attributes ------------------------------------------------------------------------------ */

const Onnx__AttributeProto *pare_site_attr(const struct pare_site *s, const char *name)
{
    for (size_t i = 0; i < s->p->n_attribute; i++)
        if (s->p->attribute[i]->name && !strcmp(s->p->attribute[i]->name, name))
            return s->p->attribute[i];
    return NULL;
}

bool pare_site_attr_is(const struct pare_site *s, const char *name, const char *value)
{
    const Onnx__AttributeProto *at = pare_site_attr(s, name);

    return at && at->s.len == strlen(value) && !memcmp(at->s.data, value, at->s.len);
}

int64_t pare_site_int(const struct pare_site *s, const char *name, int64_t otherwise)
{
    const Onnx__AttributeProto *at = pare_site_attr(s, name);

    return at ? at->i : otherwise;
}

bool pare_site_refers(const Onnx__AttributeProto *at)
{
    return at && at->ref_attr_name && *at->ref_attr_name;
}

int pare_site_drop_attr(struct pare_site *s, const char *name, struct pare_err *err)
{
    return pare_edit_drop_attr(s->u->e, s->p, name, err);
}

int pare_site_set_int(struct pare_site *s, const char *name, int64_t v, struct pare_err *err)
{
    return pare_edit_set_attr(s->u->e, s->p, pare_edit_int(s->u->e, name, v), err);
}

int pare_site_set_text(struct pare_site *s, const char *name, const char *v, struct pare_err *err)
{
    return pare_edit_set_attr(s->u->e, s->p, pare_edit_string(s->u->e, name, v), err);
}

int pare_site_refuse(const struct pare_site *s, const char *why, struct pare_err *err)
{
    return pare_fail(err, PARE_EUNSUPPORTED, "the %s that makes '%s' %s", s->p->op_type, s->value,
                     why);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

const char *pare_site_name(struct pare_site *s, const char *ending)
{
    return pare_edit_name(s->u->e, s->value, ending);
}

static int append(struct pare_site *s, Onnx__NodeProto *p, struct pare_err *err)
{
    struct pare_nodes *l = s->list;
    void *list = pare_grow(s->u->e->a, l->node, l->n, &l->cap, sizeof(*l->node));

    if (!list || !p)
        return pare_edit_no_memory(err);
    l->node = list;
    l->node[l->n++] = p;
    return 0;
}

int pare_site_place(struct pare_site *s, struct pare_err *err)
{
    if (s->placed || !s->list)
        return 0;
    s->placed = true;
    return append(s, s->p, err);
}

int pare_site_emit(struct pare_site *s, const struct pare_edit_node *n, struct pare_err *err)
{
    struct pare_edit_node named = *n;

    for (int i = 0; i < PARE_EDIT_INPUTS && n->in[i]; i++)
        named.in[i] = n->in[i];
    named.name = n->name ? n->name : n->out;
    if (!named.out)
        return pare_edit_no_memory(err);
    if (!s->list)
        return pare_edit_insert(s->u->e, &named, err);
    return append(s, pare_edit_make(s->u->e, &named), err);
}

void pare_site_last(const struct pare_site *s, struct pare_site *last)
{
    *last = *s;
    last->p = s->list ? s->list->node[s->list->n - 1] : s->u->e->slot[s->u->e->n - 1].p;
    last->value = last->p->output[0];
}

/* ---- constants ------------------------------------------------------------------------------- */

/* A Constant node with one attribute. */
static int constant_node(struct pare_site *s, const char *name, Onnx__AttributeProto *at,
                         struct pare_err *err)
{
    struct pare_edit_node n = { .type = "Constant", .name = name, .out = name, .axis = -1 };
    Onnx__NodeProto *p = pare_edit_make(s->u->e, &n);

    if (!p || !at)
        return pare_edit_no_memory(err);
    PARE_TRY(pare_edit_set_attr(s->u->e, p, at, err));
    return append(s, p, err);
}

int pare_site_const(struct pare_site *s, const char *ending, const struct pare_tensor *t,
                    const char **name, struct pare_err *err)
{
    struct pare_edit *e = s->u->e;
    struct pare_tensor copy = *t;
    Onnx__AttributeProto *at;
    size_t bytes;

    *name = pare_site_name(s, ending);
    PARE_TRY(pare_tensor_size(t, NULL, &bytes, err));
    copy.data = pare_alloc(e->a, bytes + 1, 1);
    if (!*name || !copy.data)
        return pare_edit_no_memory(err);
    if (bytes)
        memcpy(copy.data, t->data, bytes);
    if (!s->list)
        return pare_edit_constant(e, *name, &copy, err);
    at = pare_edit_attr(e, "value", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR);
    if (!at)
        return pare_edit_no_memory(err);
    PARE_TRY(pare_edit_tensor(e, *name, &copy, &at->t, err));
    return constant_node(s, *name, at, err);
}

int pare_site_ints(struct pare_site *s, const char *ending, const int64_t *v, size_t n,
                   const char **name, struct pare_err *err)
{
    struct pare_tensor t = { .dtype = PARE_I64,
                             .rank = 1,
                             .dim = { (int64_t)n },
                             .data = (void *)(uintptr_t)v };

    return pare_site_const(s, ending, &t, name, err);
}

/* A float32 constant of a type that only the graph knows. */
static int cast_like(struct pare_site *s, const char *ending, const char *from, const char *like,
                     const char **name, struct pare_err *err)
{
    struct pare_edit_node n = { .type = "CastLike", .in = { from, like }, .axis = -1 };

    if (s->u->to < 15)
        return pare_site_refuse(s,
                                "has an element type that is not declared; declare the types "
                                "of the model's values, or raise its opset to 15 or more",
                                err);
    n.out = *name = pare_site_name(s, ending);
    return pare_site_emit(s, &n, err);
}

int pare_site_number(struct pare_site *s, const char *ending, double v, const char *like,
                     const char **name, struct pare_err *err)
{
    double room = 0;
    struct pare_tensor t = { .data = &room };
    const char *number;

    PARE_TRY(pare_site_dtype(s, like, &t.dtype, err));
    if (t.dtype != PARE_NONE) {
        PARE_TRY(pare_convert(t.dtype, t.data, PARE_F64, &v, 1, err));
        return pare_site_const(s, ending, &t, name, err);
    }
    t.dtype = PARE_F32;
    PARE_TRY(pare_convert(t.dtype, t.data, PARE_F64, &v, 1, err));
    PARE_TRY(pare_site_const(s, ending, &t, &number, err));
    return cast_like(s, ending, number, like, name, err);
}

/* A Constant node whose value is an attribute of the function. */
static int referred(struct pare_site *s, const Onnx__AttributeProto *from, const char *kind,
                    const char **name, struct pare_err *err)
{
    Onnx__AttributeProto *at = pare_edit_attr(s->u->e, kind, (int)from->type);

    if (s->u->to < 12)
        return pare_site_refuse(s,
                                "takes an attribute of its function; raise the opset to 12 or "
                                "more",
                                err);
    *name = pare_site_name(s, pare_sprintf(s->u->e->a, "_%s", from->name));
    if (!at || !*name)
        return pare_edit_no_memory(err);
    at->ref_attr_name = from->ref_attr_name;
    return constant_node(s, *name, at, err);
}

int pare_site_take_ints(struct pare_site *s, const char *attr, bool scalar, const char **name,
                        struct pare_err *err)
{
    const Onnx__AttributeProto *at = pare_site_attr(s, attr);
    bool list = at && (at->n_ints ||
                       (at->has_type && at->type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS));
    struct pare_tensor t = { .dtype = PARE_I64, .rank = !scalar, .dim = { 1 } };
    char *ending = pare_sprintf(s->u->e->a, "_%s", attr);

    *name = NULL;
    if (!at)
        return 0;
    if (!ending)
        return pare_edit_no_memory(err);
    if (pare_site_refers(at) && s->list) {
        if (!list && !scalar)
            return pare_site_refuse(s, "takes an attribute of its function that became a list",
                                    err);
        PARE_TRY(referred(s, at, list ? "value_ints" : "value_int", name, err));
        return pare_site_drop_attr(s, attr, err);
    }
    t.dim[0] = list ? (int64_t)at->n_ints : 1;
    t.data = list ? at->ints : (void *)(uintptr_t)&at->i;
    PARE_TRY(pare_site_const(s, ending, &t, name, err));
    return pare_site_drop_attr(s, attr, err);
}

int pare_site_take_float(struct pare_site *s, const char *attr, const char **name,
                         struct pare_err *err)
{
    const Onnx__AttributeProto *at = pare_site_attr(s, attr);
    char *ending = pare_sprintf(s->u->e->a, "_%s", attr);
    enum pare_dtype dtype;
    const char *number;

    *name = NULL;
    if (!at)
        return 0;
    if (!ending || !s->p->n_input)
        return pare_edit_no_memory(err);
    if (pare_site_refers(at) && s->list) {
        PARE_TRY(referred(s, at, "value_float", name, err));
        PARE_TRY(pare_site_dtype(s, s->p->input[0], &dtype, err));
        number = *name;
        if (dtype != PARE_F32)
            PARE_TRY(cast_like(s, ending, number, s->p->input[0], name, err));
    } else {
        PARE_TRY(pare_site_number(s, ending, (double)at->f, s->p->input[0], name, err));
    }
    return pare_site_drop_attr(s, attr, err);
}

/* ---- inputs and outputs ---------------------------------------------------------------------- */

int pare_site_input(struct pare_site *s, int k, const char *name, struct pare_err *err)
{
    return pare_edit_put_input(s->u->e, s->p, k, name, err);
}

int pare_site_output(struct pare_site *s, int k, const char *name, struct pare_err *err)
{
    if (!name)
        return pare_edit_no_memory(err);
    s->p->output[k] = pare_edit_text(name);
    return s->list || !*name ? 0 : pare_edit_set_maker(s->u->e, name, s->slot, err);
}

/* ---- uses ------------------------------------------------------------------------------------ */

static bool graph_uses(const Onnx__GraphProto *g, const char *name);

static bool node_uses(const Onnx__NodeProto *p, const char *name)
{
    for (size_t k = 0; p && k < p->n_input; k++)
        if (p->input[k] && !strcmp(p->input[k], name))
            return true;
    for (size_t k = 0; p && k < p->n_attribute; k++) {
        const Onnx__AttributeProto *at = p->attribute[k];

        if (at->g && graph_uses(at->g, name))
            return true;
        for (size_t i = 0; i < at->n_graphs; i++)
            if (graph_uses(at->graphs[i], name))
                return true;
    }
    return false;
}

static bool is_output(const Onnx__GraphProto *g, const char *name)
{
    for (size_t i = 0; i < g->n_output; i++)
        if (g->output[i]->name && !strcmp(g->output[i]->name, name))
            return true;
    return false;
}

static bool graph_uses(const Onnx__GraphProto *g, const char *name)
{
    for (size_t i = 0; i < g->n_node; i++)
        if (node_uses(g->node[i], name))
            return true;
    return is_output(g, name);
}

bool pare_site_used(const struct pare_site *s, const char *name)
{
    const struct pare_edit *e = s->u->e;

    if (!s->list) {
        for (int i = 0; i < e->n; i++)
            if (node_uses(e->slot[i].p, name))
                return true;
        return is_output(&e->graph, name);
    }
    for (size_t i = 0; i < s->scope->n_node; i++)
        if (node_uses(s->scope->node[i], name))
            return true;
    for (size_t i = 0; i < s->scope->n_out; i++)
        if (!strcmp(s->scope->out[i], name))
            return true;
    return s->scope->g && is_output(s->scope->g, name);
}

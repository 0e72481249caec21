/* attr.c - parse a node's AttributeProtos into the attribute struct of its operator.
 *
 * An attribute that does not fit its operator is not an error: the node is kept and saved, but
 * cannot run.
 */
#include "build.h"

#include <limits.h>
#include <string.h>

#include "../base/limits.h"

static int no_memory(struct pare_build *b)
{
    return pare_fail(b->err, PARE_ENOMEM, "no memory for attributes");
}

/* Files of the first IR versions do not state the attribute's type: guess it from the fields. */
static int type_of(const Onnx__AttributeProto *p)
{
    if (p->has_type && p->type != ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__UNDEFINED)
        return (int)p->type;
    if (p->has_f)
        return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT;
    if (p->has_i)
        return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
    if (p->has_s)
        return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING;
    if (p->t)
        return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR;
    if (p->g)
        return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH;
    if (p->n_floats)
        return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS;
    if (p->n_ints)
        return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS;
    return p->n_strings ? ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS : 0;
}

static int text(struct pare_build *b, const ProtobufCBinaryData *s, const char **out)
{
    *out = pare_strndup(b->m->arena, (const char *)s->data, s->len);
    return *out ? 0 : no_memory(b);
}

static int set_floats(struct pare_build *b, const Onnx__AttributeProto *p, struct pare_setting *s)
{
    double *v = pare_alloc_raw(b->m->arena, p->n_floats, sizeof(*v));

    if (!v)
        return no_memory(b);
    for (size_t i = 0; i < p->n_floats; i++)
        v[i] = (double)p->floats[i];
    s->type = PARE_OPT_FLOATS;
    s->floats = (struct pare_floats){ v, (int)p->n_floats };
    return 0;
}

static int set_texts(struct pare_build *b, const Onnx__AttributeProto *p, struct pare_setting *s)
{
    const char **v = pare_alloc_raw(b->m->arena, p->n_strings, sizeof(*v));

    if (!v)
        return no_memory(b);
    for (size_t i = 0; i < p->n_strings; i++)
        PARE_TRY(text(b, &p->strings[i], &v[i]));
    s->type = PARE_OPT_STRS;
    s->strs = (struct pare_strs){ v, (int)p->n_strings };
    return 0;
}

static int set_tensor(struct pare_build *b, const Onnx__AttributeProto *p, struct pare_setting *s,
                      const char **why)
{
    struct pare_tensor *t = pare_alloc(b->m->arena, 1, sizeof(*t));
    struct pare_const c = { 0 };

    if (!t)
        return no_memory(b);
    PARE_TRY(pare_at(b->err, pare_const_read(b->m, p->t, &c, b->err), "attribute '%s'", s->name));
    *why = c.why;
    if (c.why)
        return 0;
    *t = c.t;
    if (c.raw) {
        PARE_TRY(pare_tensor_alloc(b->m->arena, t, b->err));
        pare_unpack(t, c.raw);
    }
    s->type = PARE_OPT_TENSOR;
    s->tensor = t;
    return 0;
}

/* Convert one attribute to a setting; sets *why if it cannot be converted. */
static int set(struct pare_build *b, const Onnx__AttributeProto *p, struct pare_setting *s,
               const char **why)
{
    if (p->n_floats > INT_MAX || p->n_ints > INT_MAX || p->n_strings > INT_MAX) {
        *why = "its list is too long";
        return 0;
    }
    switch (type_of(p)) {
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT:
        s->type = PARE_OPT_FLOAT;
        s->num = (double)p->f;
        return 0;
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT:
        s->type = PARE_OPT_INT;
        s->whole = p->i;
        return 0;
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING:
        s->type = PARE_OPT_STR;
        return text(b, &p->s, &s->str);
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS: return set_floats(b, p, s);
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS: return set_texts(b, p, s);
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS:
        s->type = PARE_OPT_INTS;
        s->ints = (struct pare_ints){ p->ints, (int)p->n_ints };
        return 0;
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR:
        if (p->t)
            return set_tensor(b, p, s, why);
        break;
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TYPE_PROTO: /* ignored: values know their type */
        s->type = PARE_OPT_INT;
        s->whole = 1;
        return 0;
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH:
        s->type = PARE_OPT_GRAPH; /* the graph itself is built by the caller */
        if (p->g)
            return 0;
        break;
    default: break;
    }
    *why = "its type is not handled";
    return 0;
}

void pare_attr_follow(const Onnx__AttributeProto **p, struct pare_scope **sc)
{
    while (*p && (*p)->ref_attr_name && *(*p)->ref_attr_name && (*sc)->call) {
        const struct pare_call *call = (*sc)->call;
        const char *name = (*p)->ref_attr_name;

        *p = pare_call_attr(call, name);
        *sc = call->from;
    }
}

/* The node whose attributes are parsed. */
struct work {
    struct pare_scope *sc;
    struct pare_node *n;
    struct pare_map seen; /* captured values by name */
    int cap_cap;
};

/* Values that a subgraph captures are captured by the node; and by the graph that contains the
 * node, if they belong to a graph further out. */
static int add_captures(struct work *w, const struct pare_scope *in)
{
    struct pare_arena *a = w->sc->b->m->arena;
    struct pare_node *n = w->n;

    for (int i = 0; i < in->n_cap; i++) {
        struct pare_value *v = in->cap[i], **list;

        if (pare_map_get(&w->seen, v->name) == v)
            continue;
        list = pare_grow(a, n->cap, n->n_cap, &w->cap_cap, sizeof(*list));
        if (!list)
            return no_memory(w->sc->b);
        n->cap = list;
        n->cap[n->n_cap++] = v;
        PARE_TRY(pare_map_set(&w->seen, a, v->name, v, w->sc->b->err));
        PARE_TRY(pare_scope_note(w->sc, v));
    }
    return 0;
}

static int add_graph(struct work *w, struct pare_scope *from, const Onnx__GraphProto *p,
                     struct pare_graph **out)
{
    struct pare_scope in = { .b = from->b,
                             .up = from,
                             .call = from->call,
                             .prefix = from->prefix,
                             .n_imports = from->n_imports,
                             .imports = from->imports };

    PARE_TRY(pare_build_graph(&in, p));
    if (out)
        *out = in.g;
    return add_captures(w, &in);
}

static void give_up(struct pare_node *n, const char *why)
{
    n->op = NULL;
    if (!n->why)
        n->why = why ? why : "its attributes could not be read";
}

static int one_attr(struct work *w, const Onnx__AttributeProto *p, struct pare_setting *s)
{
    struct pare_build *b = w->sc->b;
    struct pare_scope *from = w->sc;
    const char *why = NULL;

    s->name = p->name ? p->name : "";
    pare_attr_follow(&p, &from);
    if (!p) {
        s->name = NULL; /* the call omits it: use the default */
        return 0;
    }
    if (p->ref_attr_name && *p->ref_attr_name)
        why = "it refers to a function's attribute outside of a function";
    else
        PARE_TRY(set(b, p, s, &why));
    if (p->g)
        PARE_TRY(pare_at(b->err, add_graph(w, from, p->g, &s->graph), "attribute '%s'", s->name));
    for (size_t i = 0; i < p->n_graphs; i++)
        PARE_TRY(
            pare_at(b->err, add_graph(w, from, p->graphs[i], NULL), "attribute '%s'", s->name));
    if (why && w->n->op)
        give_up(w->n, pare_sprintf(b->m->arena, "attribute '%s': %s", s->name, why));
    return 0;
}

static void apply(struct pare_build *b, struct pare_node *n, const struct pare_setting *s,
                  int count)
{
    struct pare_arena *a = b->m->arena;
    const struct pare_op *op = n->op;
    void *attr = pare_alloc(a, 1, op->attr_size ? op->attr_size : 1);
    struct pare_err err = { 0 };
    char hint[128];

    if (!attr) {
        give_up(n, NULL);
        return;
    }
    for (int i = 0; i < count; i++) {
        if (!pare_opt_find(op->attrs, s[i].name)) {
            give_up(n, pare_sprintf(a, "unknown attribute '%s'%s", s[i].name,
                                    pare_opt_hint(op->attrs, s[i].name, hint, sizeof(hint))));
            return;
        }
        for (int k = 0; k < i; k++)
            if (!strcmp(s[i].name, s[k].name)) {
                give_up(n, pare_sprintf(a, "attribute '%s' is given twice", s[i].name));
                return;
            }
    }
    if (pare_opts_apply(op->attrs, s, count, attr, a, &err))
        give_up(n, pare_sprintf(a, "attributes: %s", err.msg));
    n->attr = attr;
}

int pare_build_attrs(struct pare_scope *sc, const Onnx__NodeProto *p, struct pare_node *n)
{
    struct pare_setting *list = pare_alloc(sc->b->m->arena, p->n_attribute, sizeof(*list));
    struct work w = { .sc = sc, .n = n };
    int count = 0;

    if (!list)
        return no_memory(sc->b);
    if (p->n_attribute > PARE_MAX_ATTRS && n->op)
        give_up(n, pare_sprintf(sc->b->m->arena, "it has %zu attributes, at most %d are handled",
                                p->n_attribute, PARE_MAX_ATTRS));
    for (size_t i = 0; i < p->n_attribute; i++) {
        PARE_TRY(one_attr(&w, p->attribute[i], &list[count]));
        count += list[count].name != NULL;
    }
    if (n->op)
        apply(sc->b, n, list, count);
    return 0;
}

int pare_constant_attr(struct pare_build *b, struct pare_node *n, const struct pare_tensor *t)
{
    struct pare_tensor *copy = pare_alloc(b->m->arena, 1, sizeof(*copy));
    struct pare_setting value = { .name = "value", .type = PARE_OPT_TENSOR, .tensor = copy };

    if (!copy)
        return no_memory(b);
    *copy = *t;
    apply(b, n, &value, 1);
    return 0;
}

/* edit_nodes.c - insert, rewire and remove nodes of a model under edit; set their attributes. */
#include <string.h>

#include "edit_internal.h"

#define text pare_edit_text

/* ---- slots ----------------------------------------------------------------------------------- */

int pare_edit_set_maker(struct pare_edit *e, const char *value, int slot, struct pare_err *err)
{
    return pare_map_set(&e->maker, e->a, value, (void *)(uintptr_t)(slot + 1), err);
}

struct pare_edit_slot *pare_edit_maker(const struct pare_edit *e, const char *value)
{
    uintptr_t i = (uintptr_t)pare_map_get(&e->maker, value);

    return i && e->slot[i - 1].p ? &e->slot[i - 1] : NULL;
}

int pare_edit_own_slot(struct pare_edit *e, struct pare_edit_slot *s, struct pare_err *err)
{
    Onnx__NodeProto *p;

    if (s->own)
        return 0;
    p = pare_alloc(e->a, 1, sizeof(*p));
    if (!p)
        return pare_edit_no_memory(err);
    *p = *s->p;
    p->input = pare_edit_copy_list(e, p->input, p->n_input);
    p->output = pare_edit_copy_list(e, p->output, p->n_output);
    if (!p->input || !p->output)
        return pare_edit_no_memory(err);
    s->p = p;
    s->own = true;
    return 0;
}

int pare_edit_own(struct pare_edit *e, const char *value, struct pare_edit_slot **slot,
                  struct pare_err *err)
{
    *slot = pare_edit_maker(e, value);
    if (!*slot)
        return pare_fail(err, PARE_EUNSUPPORTED,
                         "'%s' is not made by a node of the main graph; functions and subgraphs "
                         "are not changed",
                         value);
    return pare_edit_own_slot(e, *slot, err);
}

/* The node's index in the file's list; -1: none.  node->proto points into the list. */
static int index_of(const struct pare_model *m, const struct pare_node *n)
{
    const Onnx__GraphProto *g = ((const Onnx__ModelProto *)m->proto)->graph;
    uintptr_t first = (uintptr_t)g->node, at = (uintptr_t)n->proto;

    return at >= first && at < first + g->n_node * sizeof(*g->node)
               ? (int)((at - first) / sizeof(*g->node))
               : -1;
}

bool pare_model_has_node(const struct pare_model *m, const struct pare_node *n)
{
    return index_of(m, n) >= 0;
}

static int own_node(struct pare_edit *e, const struct pare_node *n, struct pare_edit_slot **slot,
                    struct pare_err *err)
{
    int i = index_of(e->from, n);

    if (i < 0 || !e->slot[i].p)
        return pare_fail(err, PARE_EUNSUPPORTED, "node '%s' (%s) is part of a function", n->name,
                         n->type);
    *slot = &e->slot[i];
    return pare_edit_own_slot(e, *slot, err);
}

/* ---- attributes ------------------------------------------------------------------------------ */

Onnx__AttributeProto *pare_edit_attr(struct pare_edit *e, const char *name, int type)
{
    Onnx__AttributeProto *at = pare_alloc(e->a, 1, sizeof(*at));

    if (!at)
        return NULL;
    onnx__attribute_proto__init(at);
    at->name = pare_strdup(e->a, name);
    at->has_type = true;
    at->type = (Onnx__AttributeProto__AttributeType)type;
    return at->name ? at : NULL;
}

Onnx__AttributeProto *pare_edit_int(struct pare_edit *e, const char *name, int64_t v)
{
    Onnx__AttributeProto *at = pare_edit_attr(e, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT);

    if (at) {
        at->has_i = true;
        at->i = v;
    }
    return at;
}

Onnx__AttributeProto *pare_edit_string(struct pare_edit *e, const char *name, const char *v)
{
    Onnx__AttributeProto *at = pare_edit_attr(e, name,
                                              ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING);

    if (at) {
        at->has_s = true;
        at->s = (ProtobufCBinaryData){ strlen(v), (uint8_t *)text(v) };
    }
    return at;
}

static bool is_called(const Onnx__AttributeProto *at, const char *name)
{
    return at->name && !strcmp(at->name, name);
}

int pare_edit_set_attr(struct pare_edit *e, Onnx__NodeProto *p, Onnx__AttributeProto *attr,
                       struct pare_err *err)
{
    Onnx__AttributeProto **list = pare_edit_copy_list(e, p->attribute, p->n_attribute);
    size_t i = 0;

    if (!list || !attr)
        return pare_edit_no_memory(err);
    while (i < p->n_attribute && !is_called(list[i], attr->name))
        i++;
    list[i] = attr;
    p->attribute = list;
    p->n_attribute += i == p->n_attribute;
    return 0;
}

int pare_edit_drop_attr(struct pare_edit *e, Onnx__NodeProto *p, const char *name,
                        struct pare_err *err)
{
    Onnx__AttributeProto **list = pare_edit_copy_list(e, p->attribute, p->n_attribute);
    size_t kept = 0;

    if (!list)
        return pare_edit_no_memory(err);
    for (size_t i = 0; i < p->n_attribute; i++)
        if (!is_called(list[i], name))
            list[kept++] = list[i];
    p->attribute = list;
    p->n_attribute = kept;
    return 0;
}

int pare_edit_set_int(struct pare_edit *e, const struct pare_node *n, const char *attr, int64_t v,
                      struct pare_err *err)
{
    struct pare_edit_slot *s;

    PARE_TRY(own_node(e, n, &s, err));
    return pare_edit_set_attr(e, s->p, pare_edit_int(e, attr, v), err);
}

/* NULL: no memory. */
static Onnx__AttributeProto *list_attr(struct pare_edit *e, const char *name, const int64_t *v,
                                       int count)
{
    Onnx__AttributeProto *at = pare_edit_attr(e, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS);
    int64_t *list = pare_alloc(e->a, (size_t)count + 1, sizeof(*list));

    if (!at || !list)
        return NULL;
    if (count)
        memcpy(list, v, (size_t)count * sizeof(*v));
    at->ints = list;
    at->n_ints = (size_t)count;
    return at;
}

int pare_edit_set_ints(struct pare_edit *e, const struct pare_node *n, const char *attr,
                       const int64_t *v, int count, struct pare_err *err)
{
    struct pare_edit_slot *s;

    PARE_TRY(own_node(e, n, &s, err));
    return pare_edit_set_attr(e, s->p, list_attr(e, attr, v, count), err);
}

/* ---- inserting ------------------------------------------------------------------------------- */

Onnx__NodeProto *pare_edit_make(struct pare_edit *e, const struct pare_edit_node *n)
{
    struct pare_err err;
    Onnx__NodeProto *p = pare_alloc(e->a, 1, sizeof(*p));
    char **io = pare_alloc(e->a, PARE_EDIT_INPUTS + PARE_EDIT_OUTPUTS, sizeof(*io));

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
    for (int i = 0; i < PARE_EDIT_OUTPUTS - 1 && n->more[i]; i++)
        p->output[p->n_output++] = text(n->more[i]);
    if (n->axis >= 0 && pare_edit_set_attr(e, p, pare_edit_int(e, "axis", n->axis), &err))
        return NULL;
    for (int i = 0; i < PARE_EDIT_ATTRS && n->attr[i].name; i++)
        if (pare_edit_set_attr(e, p, pare_edit_int(e, n->attr[i].name, n->attr[i].v), &err))
            return NULL;
    for (int i = 0; i < PARE_EDIT_LISTS && n->list[i].name; i++)
        if (pare_edit_set_attr(e, p, list_attr(e, n->list[i].name, n->list[i].v, n->list[i].n),
                               &err))
            return NULL;
    return p;
}

int pare_edit_insert(struct pare_edit *e, const struct pare_edit_node *n, struct pare_err *err)
{
    Onnx__NodeProto *p = pare_edit_make(e, n);
    void *list = pare_grow(e->a, e->slot, e->n, &e->cap, sizeof(*e->slot));
    int after = -1;

    if (!p || !list)
        return pare_edit_no_memory(err);
    e->slot = list;
    for (size_t k = 0; k < p->n_input; k++) {
        const struct pare_edit_slot *s = pare_edit_maker(e, p->input[k]);

        after = s && s->after > after ? s->after : after;
    }
    e->slot[e->n++] = (struct pare_edit_slot){ .p = p, .own = true, .after = after };
    for (size_t k = 0; k < p->n_output; k++) {
        PARE_TRY(pare_edit_reserve(e, p->output[k], err));
        PARE_TRY(pare_edit_set_maker(e, p->output[k], e->n - 1, err));
    }
    return 0;
}

int pare_edit_append(struct pare_edit *e, const struct pare_node *n, const char *type,
                     const char *with, struct pare_err *err)
{
    struct pare_edit_node add = { .type = type, .axis = -1 };
    struct pare_edit_slot *s;
    const char *between;

    PARE_TRY(own_node(e, n, &s, err));
    add.out = s->p->output[0];
    between = pare_edit_value_name(e, pare_sprintf(e->a, "%s.sum", add.out));
    add.name = pare_sprintf(e->a, "%s.%s", s->p->name ? s->p->name : "", type);
    add.in[0] = between;
    add.in[1] = with;
    if (!between || !add.name)
        return pare_edit_no_memory(err);
    s->p->output[0] = text(between);
    PARE_TRY(pare_edit_set_maker(e, between, (int)(s - e->slot), err));
    return pare_edit_insert(e, &add, err);
}

/* ---- rewiring -------------------------------------------------------------------------------- */

int pare_edit_put_input(struct pare_edit *e, Onnx__NodeProto *p, int k, const char *name,
                        struct pare_err *err)
{
    if ((size_t)k >= p->n_input) {
        char **list = pare_alloc(e->a, (size_t)k + 1, sizeof(*list));

        if (!list)
            return pare_edit_no_memory(err);
        for (int i = 0; i <= k; i++)
            list[i] = (size_t)i < p->n_input ? p->input[i] : text("");
        p->input = list;
        p->n_input = (size_t)k + 1;
    }
    p->input[k] = text(name);
    return 0;
}

int pare_edit_rewire(struct pare_edit *e, const char *value, int k, const char *name,
                     struct pare_err *err)
{
    struct pare_edit_slot *s;

    PARE_TRY(pare_edit_own(e, value, &s, err));
    return pare_edit_put_input(e, s->p, k, name, err);
}

int pare_edit_set_input(struct pare_edit *e, const struct pare_node *n, int i, const char *name,
                        struct pare_err *err)
{
    struct pare_edit_slot *s;

    PARE_TRY(own_node(e, n, &s, err));
    return pare_edit_put_input(e, s->p, i, name, err);
}

int pare_edit_drop_input(struct pare_edit *e, const struct pare_node *n, int i,
                         struct pare_err *err)
{
    struct pare_edit_slot *s;

    PARE_TRY(own_node(e, n, &s, err));
    if (i < 0 || (size_t)i >= s->p->n_input)
        return 0;
    for (size_t k = (size_t)i + 1; k < s->p->n_input; k++)
        s->p->input[k - 1] = s->p->input[k];
    s->p->n_input--;
    return 0;
}

int pare_edit_rename(struct pare_edit *e, const char *value, const char *name, struct pare_err *err)
{
    struct pare_edit_slot *s;

    PARE_TRY(pare_edit_own(e, value, &s, err));
    for (size_t k = 0; k < s->p->n_output; k++)
        if (!strcmp(s->p->output[k], value))
            s->p->output[k] = text(name);
    return pare_edit_set_maker(e, name, (int)(s - e->slot), err);
}

int pare_edit_remove(struct pare_edit *e, const char *value, struct pare_err *err)
{
    struct pare_edit_slot *s;

    PARE_TRY(pare_edit_own(e, value, &s, err));
    s->p = NULL;
    return 0;
}

/* body_model.c - a body (subgraph) of If, Loop or Scan as a model of its own, and its return. */
#include "body_model.h"

#include <string.h>

#include "../tensor/tensor.h"
#include "edit_internal.h"

static const char *str(const char *s)
{
    return s ? s : "";
}

static int no_memory(struct pare_err *err)
{
    return pare_no_memory(err, "for the model of a body");
}

static const Onnx__GraphProto *main_graph(const struct pare_model *m)
{
    return ((const Onnx__ModelProto *)m->proto)->graph;
}

/* The name of the attribute that is body b of the node. */
static const char *attr_of(const struct pare_node *n, int b)
{
    const struct pare_opt *o = n->op && n->attr ? n->op->attrs : NULL;

    for (; o && o->name; o++) {
        const struct pare_graph *g;

        if (o->type != PARE_OPT_GRAPH)
            continue;
        memcpy(&g, (const char *)n->attr + o->offset, sizeof(g));
        if (g && !b--)
            return o->name;
    }
    return NULL;
}

/* The name of a value that the node makes. */
static const char *made_by(const struct pare_node *n)
{
    for (int k = 0; k < n->n_out; k++)
        if (n->out[k])
            return n->out[k]->name;
    return "";
}

static const Onnx__AttributeProto *find_attr(const Onnx__NodeProto *p, const char *attr)
{
    for (size_t i = 0; attr && i < p->n_attribute; i++)
        if (p->attribute[i]->g && !strcmp(str(p->attribute[i]->name), attr))
            return p->attribute[i];
    return NULL;
}

/* The body in the file; NULL: the node is not one of the file's main graph. */
static const Onnx__GraphProto *find_body(const Onnx__GraphProto *g, const struct pare_node *n,
                                         int b)
{
    const char *value = made_by(n);
    const Onnx__AttributeProto *at;

    for (size_t i = 0; *value && i < g->n_node; i++)
        for (size_t k = 0; k < g->node[i]->n_output; k++)
            if (!strcmp(str(g->node[i]->output[k]), value)) {
                at = find_attr(g->node[i], attr_of(n, b));
                return at ? at->g : NULL;
            }
    return NULL;
}

static const Onnx__TensorProto *find_initializer(const Onnx__GraphProto *g, const char *name)
{
    for (size_t i = 0; i < g->n_initializer; i++)
        if (!strcmp(str(g->initializer[i]->name), name))
            return g->initializer[i];
    return NULL;
}

/* ---- captured values ------------------------------------------------------------------------- */

/* The model under construction. */
struct making {
    struct pare_arena *a; /* of the new model */
    const struct pare_model *m;
    const struct pare_graph *g; /* with shapes, around the body */
    const struct pare_graph *body;
    struct pare_varying varying; /* constants of g that follow a free dimension */
    Onnx__GraphProto *p;
    struct pare_value **cap; /* captured values */
    int n_cap, cap_cap;
    int cap_in, cap_init;      /* capacities of the lists of p */
    struct pare_tensor *given; /* one per input */
    int cap_given;
};

static bool is_own(const struct pare_graph *g, const struct pare_value *v)
{
    return v->id < g->n_values && g->value[v->id] == v;
}

static int note(struct making *k, struct pare_value *v, struct pare_err *err)
{
    struct pare_value **list;

    if (!v || is_own(k->body, v))
        return 0;
    for (int i = 0; i < k->n_cap; i++)
        if (k->cap[i] == v)
            return 0;
    list = pare_grow(k->a, k->cap, k->n_cap, &k->cap_cap, sizeof(*list));
    if (!list)
        return no_memory(err);
    k->cap = list;
    k->cap[k->n_cap++] = v;
    return 0;
}

static int find_captured(struct making *k, struct pare_err *err)
{
    for (int i = 0; i < k->body->n_nodes; i++) {
        const struct pare_node *n = k->body->node[i];

        for (int j = 0; j < n->n_in; j++)
            PARE_TRY(note(k, n->in[j], err));
        for (int j = 0; j < n->n_cap; j++)
            PARE_TRY(note(k, n->cap[j], err));
    }
    for (int i = 0; i < k->body->n_out; i++)
        PARE_TRY(note(k, k->body->out[i], err));
    return 0;
}

/* The counterpart of a value of the graph around the body, or of the body, at other sizes. */
static const struct pare_tensor *at_size(const struct pare_graph *other,
                                         const struct pare_graph *body, const struct pare_value *v)
{
    const struct pare_graph *g = body ? body : other;

    return other && g && v->id < g->n_values ? &g->value[v->id]->t : NULL;
}

/* Is the value known, and the same for all sizes?  Equal contents at the sizes of g are not enough:
 * min(T, 4) is 4 for most of them. */
static bool is_constant(const struct making *k, const struct pare_value *v)
{
    const struct pare_tensor *t = &v->t;

    return v->flags & PARE_V_CONST && t->data && t->dtype != PARE_STR && !pare_is_4bit(t->dtype) &&
           !pare_varies(&k->varying, v);
}

static int add_initializer(struct making *k, const Onnx__TensorProto *t, struct pare_err *err)
{
    Onnx__TensorProto **list = pare_grow(k->a, k->p->initializer, (int)k->p->n_initializer,
                                         &k->cap_init, sizeof(*list));

    if (!list)
        return no_memory(err);
    k->p->initializer = list;
    list[k->p->n_initializer++] = (Onnx__TensorProto *)(uintptr_t)t;
    return 0;
}

/* A constant that nodes around the body compute. */
static int add_computed(struct making *k, const struct pare_value *v, struct pare_err *err)
{
    Onnx__TensorProto *t = pare_alloc(k->a, 1, sizeof(*t));
    size_t bytes = pare_packed_size(&v->t);
    void *data = pare_alloc(k->a, bytes + 1, 1);
    int64_t *dims = pare_alloc(k->a, (size_t)v->t.rank + 1, sizeof(*dims));

    if (!t || !data || !dims)
        return no_memory(err);
    onnx__tensor_proto__init(t);
    t->name = pare_edit_text(v->name);
    t->has_data_type = true;
    t->data_type = (int32_t)v->t.dtype;
    if (v->t.rank)
        memcpy(dims, v->t.dim, (size_t)v->t.rank * sizeof(*dims));
    t->dims = dims;
    t->n_dims = (size_t)v->t.rank;
    if (bytes)
        memcpy(data, v->t.data, bytes);
    pare_set_raw_data(t, data, bytes);
    return add_initializer(k, t, err);
}

/* ---- inputs ---------------------------------------------------------------------------------- */

/* The size of axis i: a number, or a name if it differs at other sizes.  other: the value there. */
static int set_dim(struct making *k, const struct pare_tensor *t,
                   const struct pare_tensor *const other[PARE_OTHER_SIZES], int i,
                   Onnx__TensorShapeProto__Dimension *d, struct pare_err *err)
{
    int64_t size[1 + PARE_OTHER_SIZES] = { t->dim[i] };
    bool fixed = true;

    for (int j = 0; j < PARE_OTHER_SIZES; j++) {
        size[1 + j] = other[j] && other[j]->rank == t->rank ? other[j]->dim[i] : t->dim[i];
        fixed &= size[1 + j] == t->dim[i];
    }
    onnx__tensor_shape_proto__dimension__init(d);
    d->value_case = fixed ? ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE
                          : ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
    if (fixed) {
        d->dim_value = t->dim[i];
        return 0;
    }
    d->dim_param = pare_sprintf(k->a, "size_%lld_%lld_%lld", (long long)size[0], (long long)size[1],
                                (long long)size[2]);
    return d->dim_param ? 0 : no_memory(err);
}

static int make_shape(struct making *k, const struct pare_tensor *t,
                      const struct pare_tensor *const other[PARE_OTHER_SIZES],
                      Onnx__TypeProto__Tensor *to, struct pare_err *err)
{
    size_t n = (size_t)t->rank;
    Onnx__TensorShapeProto *s = pare_alloc(k->a, 1, sizeof(*s));
    Onnx__TensorShapeProto__Dimension *d = pare_alloc(k->a, n + 1, sizeof(*d));
    Onnx__TensorShapeProto__Dimension **list = pare_alloc(k->a, n + 1, sizeof(*list));

    if (!s || !d || !list)
        return no_memory(err);
    onnx__tensor_shape_proto__init(s);
    for (int i = 0; i < t->rank; i++) {
        PARE_TRY(set_dim(k, t, other, i, &d[i], err));
        list[i] = &d[i];
    }
    s->dim = list;
    s->n_dim = n;
    to->shape = s;
    return 0;
}

/* Add an input; an unknown type or shape is not declared. */
static int add_input(struct making *k, const struct pare_value *v,
                     const struct pare_tensor *const other[PARE_OTHER_SIZES], struct pare_err *err)
{
    Onnx__ValueInfoProto **list = pare_grow(k->a, k->p->input, (int)k->p->n_input, &k->cap_in,
                                            sizeof(*list));
    struct pare_tensor *given = pare_grow(k->a, k->given, (int)k->p->n_input, &k->cap_given,
                                          sizeof(*given));
    struct {
        Onnx__ValueInfoProto info;
        Onnx__TypeProto type;
        Onnx__TypeProto__Tensor tensor;
    } *x = pare_alloc(k->a, 1, sizeof(*x));

    if (!list || !given || !x)
        return no_memory(err);
    onnx__value_info_proto__init(&x->info);
    x->info.name = pare_edit_text(v->name);
    if (v->t.dtype != PARE_NONE && pare_is_tensor(&v->t)) {
        onnx__type_proto__init(&x->type);
        onnx__type_proto__tensor__init(&x->tensor);
        x->info.type = &x->type;
        x->type.value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
        x->type.tensor_type = &x->tensor;
        x->tensor.has_elem_type = true;
        x->tensor.elem_type = (int32_t)v->t.dtype;
        if (v->t.rank >= 0)
            PARE_TRY(make_shape(k, &v->t, other, &x->tensor, err));
    }
    k->given = given;
    k->given[k->p->n_input] = v->t;
    k->given[k->p->n_input].data = NULL;
    k->p->input = list;
    list[k->p->n_input++] = &x->info;
    return 0;
}

/* The body at other sizes; NULL: none. */
static const struct pare_graph *body_at(const struct making *k, const struct pare_node *n, int b,
                                        int i)
{
    const struct pare_graph *g = k->g->other[i];

    return g && n->id < g->n_nodes ? pare_node_body(g->node[n->id], b, NULL) : NULL;
}

static int add_inputs(struct making *k, const struct pare_node *n, int b, struct pare_err *err)
{
    const struct pare_tensor *other[PARE_OTHER_SIZES];

    for (int i = 0; i < k->body->n_in; i++) {
        for (int j = 0; j < PARE_OTHER_SIZES; j++) {
            const struct pare_graph *there = body_at(k, n, b, j);

            other[j] = there ? at_size(k->g->other[j], there, k->body->in[i]) : NULL;
        }
        PARE_TRY(add_input(k, k->body->in[i], other, err));
    }
    for (int i = 0; i < k->n_cap; i++) {
        const struct pare_value *v = k->cap[i];
        const Onnx__TensorProto *t = find_initializer(main_graph(k->m), v->name);

        for (int j = 0; j < PARE_OTHER_SIZES; j++)
            other[j] = at_size(k->g->other[j], NULL, v);
        if (t && v->flags & PARE_V_CONST)
            PARE_TRY(add_initializer(k, t, err));
        else if (is_constant(k, v))
            PARE_TRY(add_computed(k, v, err));
        else
            PARE_TRY(add_input(k, v, other, err));
    }
    return 0;
}

/* ---- the model ------------------------------------------------------------------------------- */

static int make(struct making *k, const struct pare_node *n, int b, const Onnx__GraphProto *from,
                struct pare_model *to, struct pare_err *err)
{
    Onnx__ModelProto *model = pare_alloc(k->a, 1, sizeof(*model));
    int captured;

    k->p = pare_alloc(k->a, 1, sizeof(*k->p));
    if (!model || !k->p)
        return no_memory(err);
    *model = *(const Onnx__ModelProto *)k->m->proto;
    *k->p = *from;
    model->graph = k->p;
    k->p->n_input = k->p->n_initializer = 0;
    k->p->input = NULL;
    k->p->initializer = NULL;
    for (size_t i = 0; i < from->n_initializer; i++)
        PARE_TRY(add_initializer(k, from->initializer[i], err));
    PARE_TRY(find_captured(k, err));
    PARE_TRY(add_inputs(k, n, b, err));
    captured = (int)k->p->n_input - k->body->n_in;
    to->proto = model;
    to->path = k->m->path;
    to->dir = k->m->dir;
    to->around = k->m;
    PARE_TRY(pare_model_build(to, err));
    to->graph->captured = captured;
    to->graph->is_body = true;
    return 0;
}

int pare_body_model_new(struct pare_arena *a, const struct pare_model *m,
                        const struct pare_graph *g, const struct pare_node *n, int b,
                        struct pare_body_model *out, struct pare_err *err)
{
    const Onnx__GraphProto *from = find_body(main_graph(m), n, b);
    struct pare_model *to;
    struct making k = { .m = m, .g = g, .body = pare_node_body(n, b, NULL) };
    int rc;

    *out = (struct pare_body_model){ NULL, NULL };
    if (!from || !k.body)
        return 0;
    to = pare_model_empty(err);
    if (!to)
        return err->code;
    pare_model_borrow(to, m);
    k.a = to->arena;
    rc = pare_varying_find(a, g, &k.varying, err);
    if (!rc)
        rc = make(&k, n, b, from, to, err);
    if (!rc && to->n_in != (int)k.p->n_input)
        rc = pare_fail(err, PARE_EUNSUPPORTED, "an input of the body has a default");
    if (!rc) {
        out->given = pare_alloc(a, (size_t)to->n_in + 1, sizeof(*out->given));
        rc = out->given ? 0 : no_memory(err);
    }
    if (rc) {
        pare_model_free(to);
        return rc;
    }
    for (int i = 0; i < to->n_in; i++)
        out->given[i] = k.given[i];
    out->model = to;
    return 0;
}

/* ---- the body's return ----------------------------------------------------------------------- */

struct returning {
    struct pare_edit *e;
    const struct pare_graph *around, *inside; /* both as loaded, to find readers */
    Onnx__GraphProto *to;                     /* the new body */
    struct pare_map renamed;                  /* initializers with a new name */
};

static bool is_unchanged(const Onnx__TensorProto *a, const Onnx__TensorProto *b)
{
    return a->n_dims == b->n_dims && a->data_type == b->data_type &&
           a->raw_data.data == b->raw_data.data && a->float_data == b->float_data &&
           a->int32_data == b->int32_data && a->int64_data == b->int64_data &&
           a->double_data == b->double_data && a->uint64_data == b->uint64_data &&
           a->string_data == b->string_data &&
           (!a->n_dims || !memcmp(a->dims, b->dims, a->n_dims * sizeof(*a->dims)));
}

/* Is the initializer of the main graph read only by this body? */
static bool is_private(const struct returning *r, const char *name)
{
    const struct pare_value *v = pare_map_get(&r->around->names, name);

    return v && pare_map_get(&r->e->constants, name) && !(v->flags & PARE_V_OUTPUT) &&
           pare_graph_count_uses(r->around, v) == pare_graph_count_uses(r->inside, v);
}

static int add_new(struct returning *r, const Onnx__TensorProto *t, const char *name,
                   struct pare_err *err)
{
    Onnx__GraphProto *g = &r->e->graph;
    Onnx__TensorProto *p = pare_alloc(r->e->a, 1, sizeof(*p)), **list;

    list = pare_grow(r->e->a, g->initializer, (int)g->n_initializer, &r->e->cap_constant,
                     sizeof(*list));
    if (!p || !list || !name)
        return pare_edit_no_memory(err);
    *p = *t;
    p->name = pare_edit_text(name);
    g->initializer = list;
    list[g->n_initializer++] = p;
    PARE_TRY(pare_map_set(&r->e->constants, r->e->a, name, p, err));
    return pare_edit_reserve(r->e, name, err);
}

/* The name of an initializer of the main graph with the same contents, which another body that
 * shared the original has now; NULL: none.  With `alias`, a matrix of any name: an Identity or
 * another node of the main graph made the original. */
static const char *find_same(const struct returning *r, const Onnx__TensorProto *t, bool alias)
{
    size_t n = strlen(str(t->name));

    for (size_t i = 0; i < r->e->graph.n_initializer; i++) {
        const Onnx__TensorProto *p = r->e->graph.initializer[i];

        if (p->data_type == t->data_type && p->n_dims == t->n_dims && t->raw_data.len &&
            p->raw_data.len == t->raw_data.len &&
            ((alias && t->n_dims > 1) ||
             (n && !strncmp(str(p->name), t->name, n) && p->name[n] == '.')) &&
            (!t->n_dims || !memcmp(p->dims, t->dims, t->n_dims * sizeof(*t->dims))) &&
            !memcmp(p->raw_data.data, t->raw_data.data, t->raw_data.len))
            return p->name;
    }
    return NULL;
}

/* Put an initializer of the edited model where the body finds it.  What nodes of the body computed
 * may have the name of a value in another body, so it gets a new one in the main graph. */
static int return_constant(struct returning *r, const Onnx__GraphProto *own,
                           const Onnx__TensorProto *was, const Onnx__TensorProto *t,
                           struct pare_err *err)
{
    const char *name = str(t->name);
    const struct pare_value *value = pare_map_get(&r->inside->names, name);
    Onnx__TensorProto *p;

    if (find_initializer(own, name) || (value && value->flags & PARE_V_OUTPUT)) {
        r->to->initializer[r->to->n_initializer++] = (Onnx__TensorProto *)(uintptr_t)t;
        return 0;
    }
    if (!was && !value)
        return add_new(r, t, name, err);
    if (was && is_unchanged(was, t))
        return 0;
    name = find_same(r, t, was && !pare_map_get(&r->e->constants, name));
    if (!name && was && is_private(r, t->name)) {
        p = pare_map_get(&r->e->constants, t->name);
        pare_edit_drop_graph_input(r->e, t->name);
        *p = *t;
        return pare_edit_forget_shape(r->e, t->name, err);
    }
    if (!name) {
        name = pare_edit_value_name(r->e, t->name);
        PARE_TRY(add_new(r, t, name, err));
    }
    return pare_map_set(&r->renamed, r->e->a, t->name, (void *)(uintptr_t)name, err);
}

static int rename_inputs(struct returning *r, Onnx__GraphProto *g, bool *any, struct pare_err *err);

/* A copy of the node with new names of initializers, in its bodies as well; or the node. */
static int rename_node(struct returning *r, Onnx__NodeProto **at, struct pare_err *err)
{
    Onnx__NodeProto *p = pare_alloc(r->e->a, 1, sizeof(*p));
    bool any = false, inside;

    if (!p)
        return pare_edit_no_memory(err);
    *p = **at;
    p->input = pare_edit_copy_list(r->e, p->input, p->n_input);
    p->attribute = pare_edit_copy_list(r->e, p->attribute, p->n_attribute);
    if (!p->input || !p->attribute)
        return pare_edit_no_memory(err);
    for (size_t k = 0; k < p->n_input; k++) {
        const char *name = pare_map_get(&r->renamed, str(p->input[k]));

        any |= name != NULL;
        p->input[k] = name ? pare_edit_text(name) : p->input[k];
    }
    for (size_t k = 0; k < p->n_attribute; k++) {
        struct {
            Onnx__AttributeProto at;
            Onnx__GraphProto g;
        } * copy;

        if (!p->attribute[k]->g)
            continue;
        copy = pare_alloc(r->e->a, 1, sizeof(*copy));
        if (!copy)
            return pare_edit_no_memory(err);
        copy->at = *p->attribute[k];
        copy->g = *copy->at.g;
        copy->at.g = &copy->g;
        PARE_TRY(rename_inputs(r, &copy->g, &inside, err));
        if (inside)
            p->attribute[k] = &copy->at;
        any |= inside;
    }
    if (any)
        *at = p;
    return 0;
}

static int rename_inputs(struct returning *r, Onnx__GraphProto *g, bool *any, struct pare_err *err)
{
    Onnx__NodeProto **list = pare_edit_copy_list(r->e, g->node, g->n_node);

    *any = false;
    if (!list)
        return pare_edit_no_memory(err);
    for (size_t i = 0; i < g->n_node; i++) {
        PARE_TRY(rename_node(r, &list[i], err));
        *any |= list[i] != g->node[i];
    }
    g->node = list;
    return 0;
}

static int put_back(struct returning *r, const struct pare_node *n, int b,
                    const struct pare_model *body, const struct pare_model *edited,
                    struct pare_err *err)
{
    const Onnx__GraphProto *own = find_body(main_graph(r->e->from), n, b);
    const Onnx__GraphProto *now = main_graph(edited);
    Onnx__AttributeProto *at = pare_alloc(r->e->a, 1, sizeof(*at));
    struct pare_edit_slot *s;
    bool any;

    r->to = pare_alloc(r->e->a, 1, sizeof(*r->to));
    if (!at || !r->to)
        return pare_edit_no_memory(err);
    *r->to = *now;
    r->to->input = own->input;
    r->to->n_input = own->n_input;
    r->to->output = own->output;
    r->to->n_output = own->n_output;
    r->to->n_initializer = 0;
    r->to->initializer = pare_alloc(r->e->a, now->n_initializer + 1, sizeof(*r->to->initializer));
    if (!r->to->initializer)
        return pare_edit_no_memory(err);
    for (size_t i = 0; i < now->n_initializer; i++)
        PARE_TRY(return_constant(r, own,
                                 find_initializer(main_graph(body), str(now->initializer[i]->name)),
                                 now->initializer[i], err));
    if (r->renamed.n)
        PARE_TRY(rename_inputs(r, r->to, &any, err));
    PARE_TRY(pare_edit_own(r->e, made_by(n), &s, err));
    *at = *find_attr(s->p, attr_of(n, b));
    at->g = r->to;
    PARE_TRY(pare_edit_set_attr(r->e, s->p, at, err));
    return pare_edit_sweep(r->e, err);
}

int pare_body_model_replace(const struct pare_model *m, const struct pare_node *n, int b,
                            const struct pare_model *body, const struct pare_model *edited,
                            struct pare_model **out, struct pare_err *err)
{
    struct returning r = { .around = m->graph };
    struct pare_model *before;
    int rc;

    *out = NULL;
    for (int i = 0; i < m->graph->n_nodes && !r.inside; i++)
        if (!strcmp(made_by(m->graph->node[i]), made_by(n)))
            r.inside = pare_node_body(m->graph->node[i], b, NULL);
    if (!r.inside)
        return pare_fail(err, PARE_EUNSUPPORTED, "node '%s' has no such body", n->name);
    PARE_TRY(pare_edit_new(m, &r.e, err));
    before = r.e->to->base; /* m, which `edited` keeps by way of `body` */
    pare_model_borrow(r.e->to, edited);
    pare_model_free(before);
    rc = put_back(&r, n, b, body, edited, err);
    if (rc) {
        pare_edit_free(r.e);
        return rc;
    }
    return pare_edit_model(r.e, out, err);
}

/* edit_constants.c - add, replace and drop initializers of a model under edit. */
#include <string.h>

#include "../tensor/tensor.h"
#include "edit_internal.h"

/* Point the TensorProto to the elements of t; int4 is packed, two elements in a byte. */
static int set_contents(struct pare_edit *e, Onnx__TensorProto *p, const struct pare_tensor *t,
                        struct pare_err *err)
{
    size_t bytes;

    PARE_TRY(pare_tensor_size(t, NULL, &bytes, err));
    if (t->dtype == PARE_STR)
        return pare_fail(err, PARE_EUNSUPPORTED, "'%s' holds strings, which cannot be changed",
                         p->name);
    p->dims = pare_alloc(e->a, (size_t)t->rank + 1, sizeof(*p->dims));
    if (!p->dims)
        return pare_edit_no_memory(err);
    if (t->rank)
        memcpy(p->dims, t->dim, (size_t)t->rank * sizeof(*p->dims));
    p->n_dims = (size_t)t->rank;
    p->has_data_type = true;
    p->data_type = (int32_t)t->dtype;
    pare_set_raw_data(p, t->data, bytes);
    if (!pare_is_4bit(t->dtype))
        return 0;
    p->raw_data.len = pare_packed_size(t);
    p->raw_data.data = pare_alloc_raw(e->a, p->raw_data.len, 1);
    if (!p->raw_data.data)
        return pare_edit_no_memory(err);
    pare_pack(t, p->raw_data.data);
    return 0;
}

int pare_edit_tensor(struct pare_edit *e, const char *name, const struct pare_tensor *t,
                     Onnx__TensorProto **tensor, struct pare_err *err)
{
    Onnx__TensorProto *p = *tensor = pare_alloc(e->a, 1, sizeof(*p));

    if (!p)
        return pare_edit_no_memory(err);
    onnx__tensor_proto__init(p);
    p->name = pare_edit_text(name);
    return set_contents(e, p, t, err);
}

int pare_edit_constant(struct pare_edit *e, const char *name, const struct pare_tensor *t,
                       struct pare_err *err)
{
    Onnx__GraphProto *g = &e->graph;
    Onnx__TensorProto *p;
    void *list = pare_grow(e->a, g->initializer, (int)g->n_initializer, &e->cap_constant,
                           sizeof(*g->initializer));

    if (!list)
        return pare_edit_no_memory(err);
    PARE_TRY(pare_edit_tensor(e, name, t, &p, err));
    g->initializer = list;
    g->initializer[g->n_initializer++] = p;
    PARE_TRY(pare_map_set(&e->constants, e->a, name, p, err));
    return pare_edit_reserve(e, name, err);
}

int pare_edit_add_constant(struct pare_edit *e, const char *base, const struct pare_tensor *t,
                           const char **name, struct pare_err *err)
{
    *name = pare_edit_value_name(e, base);
    return *name ? pare_edit_constant(e, *name, t, err) : pare_edit_no_memory(err);
}

void pare_edit_drop_graph_input(struct pare_edit *e, const char *name)
{
    Onnx__GraphProto *g = &e->graph;
    size_t kept = 0;

    if (e->model.ir_version < 4)
        e->model.ir_version = 4;
    for (size_t i = 0; i < g->n_input; i++)
        if (!g->input[i]->name || strcmp(g->input[i]->name, name))
            g->input[kept++] = g->input[i];
    g->n_input = kept;
}

int pare_edit_drop_constant(struct pare_edit *e, const char *name, struct pare_err *err)
{
    Onnx__GraphProto *g = &e->graph;
    size_t kept = 0, had = g->n_initializer;

    for (size_t i = 0; i < had; i++)
        if (!g->initializer[i]->name || strcmp(g->initializer[i]->name, name))
            g->initializer[kept++] = g->initializer[i];
    g->n_initializer = kept;
    if (kept == had)
        return pare_fail(err, PARE_EUNSUPPORTED, "'%s' is not an initializer of the main graph",
                         name);
    pare_edit_drop_graph_input(e, name);
    return pare_map_set(&e->constants, e->a, name, NULL, err);
}

static bool drop_sparse(struct pare_edit *e, const char *name)
{
    Onnx__GraphProto *g = &e->graph;
    size_t kept = 0, had = g->n_sparse_initializer;

    for (size_t i = 0; i < had; i++) {
        const Onnx__TensorProto *v = g->sparse_initializer[i]->values;

        if (!v || !v->name || strcmp(v->name, name))
            g->sparse_initializer[kept++] = g->sparse_initializer[i];
    }
    g->n_sparse_initializer = kept;
    return kept < had;
}

/* The node's output loses its name; pare_edit_sweep() removes the node if no output is used. */
static int unname_output(struct pare_edit *e, const char *name, struct pare_err *err)
{
    struct pare_edit_slot *s;

    PARE_TRY(pare_edit_own(e, name, &s, err));
    for (size_t k = 0; k < s->p->n_output; k++)
        if (!strcmp(s->p->output[k], name))
            s->p->output[k] = pare_edit_text("");
    return pare_map_set(&e->maker, e->a, name, NULL, err);
}

int pare_edit_set_constant(struct pare_edit *e, const char *name, const struct pare_tensor *t,
                           struct pare_err *err)
{
    Onnx__TensorProto *p = pare_map_get(&e->constants, name);

    PARE_TRY(pare_edit_forget_shape(e, name, err));
    if (p) {
        pare_edit_drop_graph_input(e, name);
        return set_contents(e, p, t, err);
    }
    if (pare_edit_maker(e, name))
        PARE_TRY(unname_output(e, name, err));
    else if (!drop_sparse(e, name))
        return pare_fail(err, PARE_EUNSUPPORTED, "'%s' is not a constant of the main graph", name);
    return pare_edit_constant(e, name, t, err);
}

int pare_edit_forget_shape(struct pare_edit *e, const char *name, struct pare_err *err)
{
    return pare_map_set(&e->stale, e->a, name, e, err);
}

/* edit_shapes.c - free the batch dimension that a model under edit declares. */
#include "edit_internal.h"

#include <string.h>

static bool is_batch_of_one(const Onnx__ValueInfoProto *v)
{
    const Onnx__TypeProto *t = v->type;
    const Onnx__TensorShapeProto *s;

    if (!t || t->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE || !t->tensor_type->shape)
        return false;
    s = t->tensor_type->shape;
    return s->n_dim &&
           s->dim[0]->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE &&
           s->dim[0]->dim_value == 1;
}

/* A copy of v whose first dimension is the free dimension `name`; NULL: no memory. */
static Onnx__ValueInfoProto *freed(struct pare_edit *e, const Onnx__ValueInfoProto *v,
                                   const char *name)
{
    struct parts {
        Onnx__ValueInfoProto info;
        Onnx__TypeProto type;
        Onnx__TypeProto__Tensor tensor;
        Onnx__TensorShapeProto shape;
        Onnx__TensorShapeProto__Dimension dim;
    } *p = pare_alloc(e->a, 1, sizeof(*p));

    if (!p)
        return NULL;
    p->info = *v;
    p->type = *v->type;
    p->tensor = *v->type->tensor_type;
    p->shape = *p->tensor.shape;
    p->shape.dim = pare_edit_copy_list(e, p->shape.dim, p->shape.n_dim);
    if (!p->shape.dim)
        return NULL;
    onnx__tensor_shape_proto__dimension__init(&p->dim);
    p->dim.value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
    p->dim.dim_param = pare_edit_text(name);
    p->shape.dim[0] = &p->dim;
    p->tensor.shape = &p->shape;
    p->type.tensor_type = &p->tensor;
    p->info.type = &p->type;
    return &p->info;
}

static int free_list(struct pare_edit *e, Onnx__ValueInfoProto ***list, size_t n, const char *name,
                     struct pare_err *err)
{
    Onnx__ValueInfoProto **copy = pare_edit_copy_list(e, *list, n);

    if (!copy)
        return pare_edit_no_memory(err);
    for (size_t i = 0; i < n; i++) {
        if (!is_batch_of_one(copy[i]) || pare_map_get(&e->constants, copy[i]->name))
            continue;
        copy[i] = freed(e, copy[i], name);
        if (!copy[i])
            return pare_edit_no_memory(err);
    }
    *list = copy;
    return 0;
}

int pare_edit_free_batch(struct pare_edit *e, const char *name, struct pare_err *err)
{
    Onnx__GraphProto *g = &e->graph;

    PARE_TRY(free_list(e, &g->input, g->n_input, name, err));
    PARE_TRY(free_list(e, &g->output, g->n_output, name, err));
    g->n_value_info = 0;
    return 0;
}

void pare_edit_any_batch(struct pare_edit *e)
{
    e->to->any_batch = true;
    e->graph.n_value_info = 0;
}

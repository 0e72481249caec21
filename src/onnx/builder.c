/* builder.c - build a model node by node.
 *
 * The protobuf messages are allocated in the model's arena, as unpacking a file does.
 */
#include "builder.h"

#include <stdarg.h>
#include <string.h>

#include "../tensor/tensor.h"
#include "build.h"

#define OPSET 17
#define IR 8
#define MAX_INPUTS 16

struct pare_builder {
    struct pare_model *m;
    Onnx__GraphProto *g;
    Onnx__NodeProto *last;
    int cap_node, cap_weight, cap_in, cap_out, cap_attr;
    struct pare_err err; /* the first error */
};

static void no_memory(struct pare_builder *k)
{
    if (!k->err.code)
        pare_fail(&k->err, PARE_ENOMEM, "no memory for a new model");
}

static bool has_failed(const struct pare_builder *k)
{
    return k->err.code != PARE_OK;
}

/* Zeroed memory that lives as long as the model; NULL only after an error. */
static void *alloc_zeroed(struct pare_builder *k, size_t n, size_t size)
{
    void *p = has_failed(k) ? NULL : pare_alloc(k->m->arena, n, size);

    if (!p)
        no_memory(k);
    return p;
}

static char *copy(struct pare_builder *k, const char *s)
{
    char *p = has_failed(k) || !s ? NULL : pare_strdup(k->m->arena, s);

    if (!p)
        no_memory(k);
    return p;
}

/* Grow a list of pointers by one; returns the list, or NULL after an error. */
static void *grow_list(struct pare_builder *k, void *list, size_t n, int *cap)
{
    void *p = has_failed(k) ? NULL : pare_grow(k->m->arena, list, (int)n, cap, sizeof(void *));

    if (!p)
        no_memory(k);
    return p;
}

/* ---- model and graph ------------------------------------------------------------------------- */

static int start(struct pare_builder *k, const char *name)
{
    Onnx__ModelProto *p = alloc_zeroed(k, 1, sizeof(*p));
    Onnx__OperatorSetIdProto *set = alloc_zeroed(k, 1, sizeof(*set)),
                             **list = alloc_zeroed(k, 1, sizeof(*list));

    k->g = alloc_zeroed(k, 1, sizeof(*k->g));
    if (has_failed(k))
        return k->err.code;
    onnx__model_proto__init(p);
    onnx__graph_proto__init(k->g);
    onnx__operator_set_id_proto__init(set);
    k->m->proto = p;
    k->m->path = "model";
    p->graph = k->g;
    p->has_ir_version = true;
    p->ir_version = IR;
    p->producer_name = copy(k, "pare");
    p->producer_version = copy(k, pare_version());
    k->g->name = copy(k, name);
    set->domain = copy(k, "");
    set->has_version = true;
    set->version = OPSET;
    list[0] = set;
    p->opset_import = list;
    p->n_opset_import = 1;
    return k->err.code;
}

int pare_builder_new(const char *name, struct pare_builder **make, struct pare_err *err)
{
    struct pare_model *m = pare_model_empty(err);
    struct pare_builder *k = m ? pare_alloc(m->arena, 1, sizeof(*k)) : NULL;

    *make = NULL;
    if (!k) {
        pare_model_free(m);
        return pare_no_memory(err, "for a new model");
    }
    k->m = m;
    if (start(k, name)) {
        *err = k->err;
        pare_model_free(m);
        return err->code;
    }
    *make = k;
    return 0;
}

void pare_builder_fail(struct pare_builder *k, const struct pare_err *err)
{
    if (!has_failed(k))
        k->err = *err;
}

int pare_builder_done(struct pare_builder *k, struct pare_model **model, struct pare_err *err)
{
    struct pare_model *m = k->m;
    int rc = k->err.code;

    *model = NULL;
    if (rc)
        *err = k->err;
    else
        rc = pare_model_build(m, err);
    if (rc)
        pare_model_free(m);
    else
        *model = m;
    return rc;
}

/* ---- inputs and outputs ---------------------------------------------------------------------- */

static Onnx__TensorShapeProto *shape(struct pare_builder *k, int rank, const int64_t *dim)
{
    Onnx__TensorShapeProto *s = alloc_zeroed(k, 1, sizeof(*s));
    Onnx__TensorShapeProto__Dimension **list = alloc_zeroed(k, (size_t)rank, sizeof(*list));

    if (has_failed(k))
        return NULL;
    onnx__tensor_shape_proto__init(s);
    for (int i = 0; i < rank; i++) {
        Onnx__TensorShapeProto__Dimension *d = list[i] = alloc_zeroed(k, 1, sizeof(*d));

        if (!d)
            return NULL;
        onnx__tensor_shape_proto__dimension__init(d);
        if (dim[i] >= 0) {
            d->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
            d->dim_value = dim[i];
        } else if (i == 0) {
            d->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
            d->dim_param = copy(k, "N");
        }
    }
    s->dim = list;
    s->n_dim = (size_t)rank;
    return s;
}

static Onnx__ValueInfoProto *info(struct pare_builder *k, const char *name, int rank,
                                  const int64_t *dim)
{
    Onnx__ValueInfoProto *v = alloc_zeroed(k, 1, sizeof(*v));
    Onnx__TypeProto *type = alloc_zeroed(k, 1, sizeof(*type));
    Onnx__TypeProto__Tensor *t = alloc_zeroed(k, 1, sizeof(*t));

    if (has_failed(k))
        return NULL;
    onnx__value_info_proto__init(v);
    onnx__type_proto__init(type);
    onnx__type_proto__tensor__init(t);
    t->has_elem_type = true;
    t->elem_type = PARE_F32;
    t->shape = shape(k, rank, dim);
    type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    type->tensor_type = t;
    v->type = type;
    v->name = copy(k, name);
    return has_failed(k) ? NULL : v;
}

const char *pare_builder_input(struct pare_builder *k, const char *name, int rank,
                               const int64_t *dim)
{
    Onnx__ValueInfoProto *v = info(k, name, rank, dim);
    Onnx__ValueInfoProto **list = grow_list(k, k->g->input, k->g->n_input, &k->cap_in);

    if (has_failed(k))
        return NULL;
    k->g->input = list;
    list[k->g->n_input++] = v;
    return v->name;
}

void pare_builder_output(struct pare_builder *k, const char *name, int rank, const int64_t *dim)
{
    Onnx__ValueInfoProto *v = info(k, name, rank, dim);
    Onnx__ValueInfoProto **list = grow_list(k, k->g->output, k->g->n_output, &k->cap_out);

    if (has_failed(k))
        return;
    k->g->output = list;
    list[k->g->n_output++] = v;
    k->last->output[0] = v->name;
}

/* ---- initializers ---------------------------------------------------------------------------- */

static const char *constant(struct pare_builder *k, const char *name, struct pare_tensor *t)
{
    Onnx__TensorProto *p = alloc_zeroed(k, 1, sizeof(*p));
    Onnx__TensorProto **list = grow_list(k, k->g->initializer, k->g->n_initializer, &k->cap_weight);
    size_t bytes;

    t->data = NULL;
    if (has_failed(k) || pare_tensor_size(t, NULL, &bytes, &k->err) ||
        pare_tensor_alloc(k->m->arena, t, &k->err))
        return NULL;
    memset(t->data, 0, bytes);
    onnx__tensor_proto__init(p);
    p->name = copy(k, name);
    p->dims = alloc_zeroed(k, (size_t)t->rank + 1, sizeof(*p->dims));
    p->n_dims = (size_t)t->rank;
    p->has_data_type = true;
    p->data_type = (int32_t)t->dtype;
    p->has_raw_data = true;
    p->raw_data = (ProtobufCBinaryData){ bytes, t->data };
    if (has_failed(k))
        return NULL;
    memcpy(p->dims, t->dim, (size_t)t->rank * sizeof(*p->dims));
    k->g->initializer = list;
    list[k->g->n_initializer++] = p;
    return p->name;
}

const char *pare_builder_weight(struct pare_builder *k, const char *name, int rank,
                                const int64_t *dim, struct pare_tensor *t)
{
    *t = (struct pare_tensor){ .dtype = PARE_F32, .rank = rank };
    memcpy(t->dim, dim, (size_t)rank * sizeof(*dim));
    return constant(k, name, t);
}

const char *pare_builder_shape(struct pare_builder *k, const char *name, int n, const int64_t *v)
{
    struct pare_tensor t = { .dtype = PARE_I64, .rank = 1, .dim = { n } };
    const char *made = constant(k, name, &t);

    if (made)
        memcpy(t.data, v, (size_t)n * sizeof(*v));
    return made;
}

const char *pare_builder_number(struct pare_builder *k, const char *name, float v)
{
    struct pare_tensor t = { .dtype = PARE_F32 };
    const char *made = constant(k, name, &t);

    if (made)
        pare_f32_mut(&t)[0] = v;
    return made;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

const char *pare_builder_node(struct pare_builder *k, const char *type, const char *name, ...)
{
    Onnx__NodeProto *n = alloc_zeroed(k, 1, sizeof(*n));
    Onnx__NodeProto **list = grow_list(k, k->g->node, k->g->n_node, &k->cap_node);
    char **in = alloc_zeroed(k, MAX_INPUTS, sizeof(*in)), **out = alloc_zeroed(k, 1, sizeof(*out)),
         *s;
    va_list ap;

    if (has_failed(k))
        return NULL;
    onnx__node_proto__init(n);
    n->op_type = copy(k, type);
    n->name = out[0] = copy(k, name);
    n->input = in;
    n->output = out;
    n->n_output = 1;
    va_start(ap, name);
    while ((s = va_arg(ap, char *)) && n->n_input < MAX_INPUTS)
        in[n->n_input++] = copy(k, s);
    va_end(ap);
    k->g->node = list;
    list[k->g->n_node++] = k->last = n;
    k->cap_attr = 0;
    return out[0];
}

const char *pare_builder_split(struct pare_builder *k, int n, int i)
{
    char **out;

    if (has_failed(k))
        return NULL;
    if (k->last->n_output != (size_t)n) {
        out = alloc_zeroed(k, (size_t)n, sizeof(*out));
        for (int j = 0; j < n && out; j++)
            out[j] = pare_sprintf(k->m->arena, "%s.%d", k->last->name, j);
        if (!out || !out[n - 1]) {
            no_memory(k);
            return NULL;
        }
        k->last->output = out;
        k->last->n_output = (size_t)n;
    }
    return k->last->output[i];
}

static Onnx__AttributeProto *attribute(struct pare_builder *k, const char *name,
                                       Onnx__AttributeProto__AttributeType type)
{
    Onnx__AttributeProto *p = alloc_zeroed(k, 1, sizeof(*p)), **list;

    if (has_failed(k))
        return NULL;
    list = grow_list(k, k->last->attribute, k->last->n_attribute, &k->cap_attr);
    if (!list)
        return NULL;
    onnx__attribute_proto__init(p);
    p->name = copy(k, name);
    p->has_type = true;
    p->type = type;
    k->last->attribute = list;
    list[k->last->n_attribute++] = p;
    return p;
}

void pare_builder_int(struct pare_builder *k, const char *name, int64_t v)
{
    Onnx__AttributeProto *p = attribute(k, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT);

    if (p) {
        p->has_i = true;
        p->i = v;
    }
}

void pare_builder_float(struct pare_builder *k, const char *name, float v)
{
    Onnx__AttributeProto *p = attribute(k, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT);

    if (p) {
        p->has_f = true;
        p->f = v;
    }
}

void pare_builder_ints(struct pare_builder *k, const char *name, int n, const int64_t *v)
{
    Onnx__AttributeProto *p = attribute(k, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS);

    if (p) {
        p->ints = alloc_zeroed(k, (size_t)n, sizeof(*p->ints));
        if (p->ints)
            memcpy(p->ints, v, (size_t)n * sizeof(*v));
        p->n_ints = p->ints ? (size_t)n : 0;
    }
}

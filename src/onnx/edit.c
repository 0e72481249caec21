/* edit.c - change a loaded model: its weights become memory of its own.
 *
 * The protobuf stays the backing store: an owned initializer's raw_data is the very memory that
 * its value points to, so whoever changes the one has changed what will be saved.
 */
#include <string.h>

#include "build.h"

static Onnx__TensorProto *find(const struct pare_model *m, const char *name)
{
    const Onnx__GraphProto *g = ((const Onnx__ModelProto *)m->proto)->graph;

    for (size_t i = 0; i < g->n_initializer; i++)
        if (g->initializer[i]->name && !strcmp(g->initializer[i]->name, name))
            return g->initializer[i];
    return NULL;
}

/* The elements are in raw_data and nowhere else. */
static void point_inside(Onnx__TensorProto *p, void *data, size_t bytes)
{
    p->has_raw_data = true;
    p->raw_data = (ProtobufCBinaryData){ bytes, data };
    p->n_float_data = p->n_int32_data = p->n_int64_data = 0;
    p->n_double_data = p->n_uint64_data = p->n_string_data = 0;
    p->n_external_data = 0;
    p->has_data_location = false;
}

int pare_model_own(struct pare_model *m, struct pare_value *v, struct pare_err *err)
{
    Onnx__TensorProto *p = find(m, v->name);
    struct pare_tensor t = v->t;
    size_t bytes;

    if (!p)
        return pare_fail(err, PARE_EUNSUPPORTED,
                         "'%s' is no initializer of the main graph, only those can be changed",
                         v->name);
    PARE_TRY(pare_tensor_size(&t, NULL, &bytes, err));
    if (p->has_raw_data && p->raw_data.data == v->t.data && v->flags & PARE_V_OWNED)
        return 0;
    if (t.dtype == PARE_I4 || t.dtype == PARE_U4 || t.dtype == PARE_STR)
        return pare_fail(err, PARE_EUNSUPPORTED, "'%s' is %s, which cannot be changed in place",
                         v->name, pare_dtype_name(t.dtype));
    PARE_TRY(pare_tensor_alloc(m->arena, &t, err));
    memcpy(t.data, v->t.data ? v->t.data : v->raw, bytes);
    if (v->raw || !(v->flags & PARE_V_OWNED))
        pare_model_release(m, v->raw ? v->raw : v->t.data, bytes);
    point_inside(p, t.data, bytes);
    v->t = t;
    v->raw = NULL;
    v->flags |= PARE_V_OWNED;
    return 0;
}

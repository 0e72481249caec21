/* externalize.c - move weights into or out of the model file before it is written.
 *
 * Walks the messages by their descriptors.  If a tensor changes, the messages on the path to it are
 * copied; everything else is shared.
 */
#include "externalize.h"

#include <string.h>

#include "wire.h"

#define ALIGN 64u /* of tensors in the external file, so that mapped tensors can be used in place */

/* The elements in the layout of raw_data, if the file has them so; else NULL. */
static int plain_bytes(struct pare_externalize *w, const Onnx__TensorProto *p, const void **bytes,
                       size_t *len, struct pare_err *err)
{
    *bytes = NULL;
    *len = 0;
    if (pare_is_external(p))
        return pare_external_known(w->m, p, bytes, len, err);
    if (p->has_raw_data) {
        *bytes = p->raw_data.data;
        *len = p->raw_data.len;
    } else if (p->data_type == PARE_F32) {
        *bytes = p->float_data;
        *len = p->n_float_data * sizeof(float);
    } else if (p->data_type == PARE_I64) {
        *bytes = p->int64_data;
        *len = p->n_int64_data * sizeof(int64_t);
    } else if (p->data_type == PARE_F64) {
        *bytes = p->double_data;
        *len = p->n_double_data * sizeof(double);
    }
    return 0;
}

static Onnx__StringStringEntryProto *entry(struct pare_arena *a, const char *key, char *value)
{
    Onnx__StringStringEntryProto *e = pare_alloc(a, 1, sizeof(*e));

    if (!e || !value)
        return NULL;
    onnx__string_string_entry_proto__init(e);
    e->key = (char *)(uintptr_t)key;
    e->value = value;
    return e;
}

static int point_outside(struct pare_externalize *w, Onnx__TensorProto *p, const void *bytes,
                         size_t len, struct pare_err *err)
{
    struct pare_outside *o = pare_alloc(w->arena, 1, sizeof(*o));
    Onnx__StringStringEntryProto **e = pare_alloc(w->arena, 3, sizeof(*e));

    if (!o || !e)
        return pare_no_memory(err, "to write the model");
    o->data = bytes;
    o->len = len;
    o->offset = (w->end + ALIGN - 1) / ALIGN * ALIGN;
    w->end = o->offset + len;
    *w->last = o;
    w->last = &o->next;
    e[0] = entry(w->arena, "location", pare_strdup(w->arena, w->location));
    e[1] = entry(w->arena, "offset", pare_sprintf(w->arena, "%llu", (unsigned long long)o->offset));
    e[2] = entry(w->arena, "length", pare_sprintf(w->arena, "%zu", len));
    if (!e[0] || !e[1] || !e[2])
        return pare_no_memory(err, "to write the model");
    p->n_external_data = 3;
    p->external_data = e;
    p->has_data_location = 1;
    p->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
    return 0;
}

static int rewrite_tensor(struct pare_externalize *w, Onnx__TensorProto *p, bool movable,
                          ProtobufCMessage **out, struct pare_err *err)
{
    bool was_outside = pare_is_external(p);
    Onnx__TensorProto *copy;
    const void *bytes;
    size_t len;

    *out = &p->base;
    PARE_TRY(plain_bytes(w, p, &bytes, &len, err));
    movable = movable && w->location && bytes && len >= w->above;
    if (!bytes || (!movable && !was_outside))
        return 0;
    copy = pare_alloc(w->arena, 1, sizeof(*copy));
    if (!copy)
        return pare_no_memory(err, "to write the model");
    *copy = *p;
    *out = &copy->base;
    copy->n_external_data = 0;
    copy->has_data_location = 0;
    copy->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__DEFAULT;
    copy->n_float_data = copy->n_int64_data = copy->n_double_data = 0;
    copy->has_raw_data = !movable;
    copy->raw_data = (ProtobufCBinaryData){ len, (uint8_t *)(uintptr_t)bytes };
    return movable ? point_outside(w, copy, bytes, len, err) : 0;
}

/* Make *m a copy of `old` unless it is one already, and *list its own list of the children of f. */
static int own(struct pare_externalize *w, const ProtobufCFieldDescriptor *f,
               const ProtobufCMessage *old, ProtobufCMessage **m, ProtobufCMessage ***list)
{
    ProtobufCMessage *const *child;
    size_t n = pare_wire_children(old, f, &child);
    void *at;

    if (*m == old) {
        *m = pare_alloc(w->arena, 1, old->descriptor->sizeof_message);
        if (!*m)
            return PARE_ENOMEM;
        memcpy(*m, old, old->descriptor->sizeof_message);
    }
    at = (char *)*m + f->offset;
    *list = at;
    if (f->label != PROTOBUF_C_LABEL_REPEATED)
        return 0;
    *list = pare_alloc(w->arena, n, sizeof(**list));
    if (!*list)
        return PARE_ENOMEM;
    memcpy(*list, child, n * sizeof(**list));
    *(ProtobufCMessage ***)at = *list;
    return 0;
}

static int rewrite_field(struct pare_externalize *w, const ProtobufCFieldDescriptor *f,
                         const ProtobufCMessage *old, ProtobufCMessage **m, struct pare_err *err)
{
    bool movable = old->descriptor == &onnx__graph_proto__descriptor &&
                   !strcmp(f->name, "initializer");
    ProtobufCMessage *const *child, **list = NULL, *to;
    size_t n = pare_wire_children(old, f, &child);

    for (size_t k = 0; k < n; k++) {
        PARE_TRY(f->descriptor == &onnx__tensor_proto__descriptor
                     ? rewrite_tensor(w, (Onnx__TensorProto *)child[k], movable, &to, err)
                     : pare_externalize(w, child[k], &to, err));
        if (to == child[k])
            continue;
        if (!list && own(w, f, old, m, &list))
            return pare_no_memory(err, "to write the model");
        list[k] = to;
    }
    return 0;
}

/* The recursion depth is that of the loaded file, which wire.c has checked. */
int pare_externalize(struct pare_externalize *w, ProtobufCMessage *m, ProtobufCMessage **out,
                     struct pare_err *err)
{
    const ProtobufCMessageDescriptor *d = m->descriptor;

    *out = m;
    for (unsigned i = 0; i < d->n_fields; i++)
        PARE_TRY(rewrite_field(w, &d->fields[i], m, out, err));
    return 0;
}

/* tensor_proto.c - convert TensorProto to struct pare_tensor and back.
 *
 * A TensorProto stores its elements in one of three ways: raw_data, little-endian; typed lists
 * (float_data, int32_data, ...), in which narrow types are widened to 32 bits; or external data,
 * with the layout of raw_data.
 */
#include "build.h"

#include <stdint.h>
#include <string.h>

#include "../tensor/tensor.h"
#include "../base/limits.h"
#include "wire.h"

/* Read shape and type.  Sets c->why for what is valid but not supported. */
static int read_shape(struct pare_arena *a, const Onnx__TensorProto *p, struct pare_const *c,
                      struct pare_err *err)
{
    int type = p->has_data_type ? p->data_type : 0;

    memset(c, 0, sizeof(*c));
    for (size_t i = 0; i < p->n_dims; i++) {
        if (p->dims[i] < 0)
            return pare_fail(err, PARE_EFORMAT, "dimension %zu is %lld, must not be negative", i,
                             (long long)p->dims[i]);
        if (i < PARE_MAX_RANK)
            c->t.dim[i] = p->dims[i];
    }
    if (p->n_dims > PARE_MAX_RANK) {
        c->t.rank = -1;
        c->why = pare_sprintf(a, "it has %zu dimensions, at most %d are handled", p->n_dims,
                              PARE_MAX_RANK);
        return c->why ? 0 : pare_no_memory(err, "for a tensor");
    }
    c->t.rank = (int)p->n_dims;
    if (!pare_dtype_size((enum pare_dtype)type)) {
        c->why = pare_dtype_bits((enum pare_dtype)type)
                     ? pare_sprintf(a, "its element type is %s, which is not computed with",
                                    pare_dtype_name((enum pare_dtype)type))
                     : pare_sprintf(a, "its element type is %d, which is not known", type);
        return c->why ? 0 : pare_no_memory(err, "for a tensor");
    }
    c->t.dtype = (enum pare_dtype)type;
    if (p->segment)
        c->why = "it is one segment of a tensor, which is not handled";
    return 0;
}

/* The bytes that the elements take in a file. */
static int raw_size(const struct pare_tensor *t, int64_t *numel, size_t *bytes,
                    struct pare_err *err)
{
    PARE_TRY(pare_tensor_size(t, numel, bytes, err));
    *bytes = pare_packed_size(t);
    return 0;
}

bool pare_raw_size(const Onnx__TensorProto *p, uint64_t *bytes)
{
    struct pare_tensor t = { .dtype = PARE_U8, .rank = (int)p->n_dims };
    uint64_t bits = (uint64_t)pare_dtype_bits((enum pare_dtype)p->data_type);
    struct pare_err ignored;
    int64_t numel;

    if (p->n_dims > PARE_MAX_RANK || !bits)
        return false;
    if (p->n_dims)
        memcpy(t.dim, p->dims, p->n_dims * sizeof(*t.dim));
    if (pare_tensor_size(&t, &numel, NULL, &ignored) || (uint64_t)numel > UINT64_MAX / bits)
        return false;
    *bytes = ((uint64_t)numel * bits + 7) / 8;
    return true;
}

/* Use bytes of the file as the tensor's data: in place, copied, or, unaligned, as c->raw. */
static int take_raw(struct pare_arena *a, struct pare_const *c, const void *bytes, size_t len,
                    struct pare_err *err)
{
    size_t size = pare_dtype_size(c->t.dtype), want;
    int64_t numel;
    char buf[PARE_SHAPE_TEXT];

    PARE_TRY(raw_size(&c->t, &numel, &want, err));
    if (len != want)
        return pare_fail(err, PARE_EFORMAT, "raw_data has %zu bytes, shape %s of %s needs %zu", len,
                         pare_shape_text(&c->t, buf, sizeof(buf)), pare_dtype_name(c->t.dtype),
                         want);
    if (pare_is_4bit(c->t.dtype) && len <= PARE_SMALL_CONST) {
        PARE_TRY(pare_tensor_alloc(a, &c->t, err));
        pare_unpack(&c->t, bytes);
        return 0;
    }
    if (c->t.dtype == PARE_BOOL) {
        PARE_TRY(pare_tensor_alloc(a, &c->t, err));
        for (size_t i = 0; i < len; i++)
            ((uint8_t *)c->t.data)[i] = ((const uint8_t *)bytes)[i] != 0;
        return 0;
    }
    if (len && (uintptr_t)bytes % size == 0 && !pare_is_4bit(c->t.dtype)) {
        c->t.data = (void *)(uintptr_t)bytes;
        return 0;
    }
    if (len > PARE_SMALL_CONST) {
        c->raw = bytes;
        return 0;
    }
    PARE_TRY(pare_tensor_alloc(a, &c->t, err));
    if (len)
        memcpy(c->t.data, bytes, len);
    return 0;
}

static int wrong_count(const struct pare_const *c, const char *field, size_t found, int64_t want,
                       struct pare_err *err)
{
    char buf[PARE_SHAPE_TEXT];

    return pare_fail(err, PARE_EFORMAT, "%s has %zu elements, shape %s of %s needs %lld", field,
                     found, pare_shape_text(&c->t, buf, sizeof(buf)), pare_dtype_name(c->t.dtype),
                     (long long)want);
}

static int take_strings(struct pare_arena *a, const Onnx__TensorProto *p, struct pare_const *c,
                        int64_t numel, struct pare_err *err)
{
    struct pare_str *s;

    if (p->n_string_data != (size_t)numel)
        return wrong_count(c, "string_data", p->n_string_data, numel, err);
    PARE_TRY(pare_tensor_alloc(a, &c->t, err));
    s = c->t.data;
    for (int64_t i = 0; i < numel; i++)
        s[i] = (struct pare_str){ (const char *)p->string_data[i].data, p->string_data[i].len };
    return 0;
}

/* int32_data holds types of at most 32 bits; of 4-bit types, an entry holds two elements. */
static int take_int32(struct pare_arena *a, const Onnx__TensorProto *p, struct pare_const *c,
                      int64_t numel, struct pare_err *err)
{
    int64_t want = pare_is_4bit(c->t.dtype) ? numel / 2 + numel % 2 : numel;

    if (p->n_int32_data != (size_t)want)
        return wrong_count(c, "int32_data", p->n_int32_data, want, err);
    PARE_TRY(pare_tensor_alloc(a, &c->t, err));
    if (pare_is_4bit(c->t.dtype)) {
        uint8_t *packed = pare_alloc_raw(a, (size_t)want, 1);

        if (!packed)
            return pare_no_memory(err, "for a tensor");
        for (int64_t i = 0; i < want; i++)
            packed[i] = (uint8_t)p->int32_data[i];
        pare_unpack(&c->t, packed);
        return 0;
    }
    for (int64_t i = 0; i < want; i++) {
        int32_t v = p->int32_data[i];

        switch (pare_dtype_size(c->t.dtype)) {
        case 1: ((uint8_t *)c->t.data)[i] = (uint8_t)(c->t.dtype == PARE_BOOL ? v != 0 : v); break;
        case 2: ((uint16_t *)c->t.data)[i] = (uint16_t)v; break;
        default: ((int32_t *)c->t.data)[i] = v; break;
        }
    }
    return 0;
}

static int take_typed(struct pare_arena *a, const Onnx__TensorProto *p, struct pare_const *c,
                      struct pare_err *err)
{
    const void *from = NULL;
    const char *field = "";
    size_t bytes, found = 0;
    int64_t numel;

    PARE_TRY(pare_tensor_size(&c->t, &numel, &bytes, err));
    switch ((int)c->t.dtype) {
    case PARE_STR: return take_strings(a, p, c, numel, err);
    case PARE_F32: from = p->float_data, found = p->n_float_data, field = "float_data"; break;
    case PARE_F64: from = p->double_data, found = p->n_double_data, field = "double_data"; break;
    case PARE_I64: from = p->int64_data, found = p->n_int64_data, field = "int64_data"; break;
    case PARE_U64:
    case PARE_U32: from = p->uint64_data, found = p->n_uint64_data, field = "uint64_data"; break;
    default: return take_int32(a, p, c, numel, err);
    }
    if (found != (size_t)numel)
        return wrong_count(c, field, found, numel, err);
    if (found && c->t.dtype != PARE_U32) {
        c->t.data = (void *)(uintptr_t)from;
        return 0;
    }
    PARE_TRY(pare_tensor_alloc(a, &c->t, err));
    for (int64_t i = 0; i < numel; i++)
        ((uint32_t *)c->t.data)[i] = (uint32_t)p->uint64_data[i];
    return 0;
}

int pare_const_read(struct pare_model *m, const Onnx__TensorProto *p, struct pare_const *c,
                    struct pare_err *err)
{
    const void *bytes = p->raw_data.data;
    size_t len = p->raw_data.len;
    bool outside = pare_is_external(p);

    PARE_TRY(read_shape(m->arena, p, c, err));
    if (c->why)
        return 0;
    if (outside)
        PARE_TRY(pare_external_bytes(m, p, &bytes, &len, err));
    if (!outside && !(p->has_raw_data && len))
        return take_typed(m->arena, p, c, err);
    if (c->t.dtype == PARE_STR) {
        c->why = "it has strings in raw_data, which ONNX does not define";
        return 0;
    }
    return take_raw(m->arena, c, bytes, len, err);
}

int pare_tensor_parse(const void *bytes, size_t len, struct pare_arena *a, struct pare_tensor *t,
                      const char **name, struct pare_err *err)
{
    struct pare_model m = { .arena = a };
    ProtobufCMessage *msg = NULL;
    const Onnx__TensorProto *p;
    struct pare_const c;
    size_t size;

    PARE_TRY(pare_wire_unpack(&onnx__tensor_proto__descriptor, bytes, len, a, &msg, err));
    p = (const Onnx__TensorProto *)msg;
    if (name)
        *name = p->name ? p->name : "";
    PARE_TRY(pare_at(err, pare_const_read(&m, p, &c, err), "tensor '%s'", p->name ? p->name : ""));
    if (c.why)
        return pare_fail(err, PARE_EUNSUPPORTED, "tensor '%s': %s", p->name ? p->name : "", c.why);
    *t = c.t;
    PARE_TRY(pare_tensor_size(t, NULL, &size, err));
    PARE_TRY(pare_tensor_alloc(a, t, err));
    if (c.raw)
        pare_unpack(t, c.raw);
    else if (size && c.t.data)
        memcpy(t->data, c.t.data, size);
    for (int64_t i = 0; t->dtype == PARE_STR && i < pare_numel(t); i++) {
        struct pare_str *s = (struct pare_str *)t->data + i;

        s->s = pare_strndup(a, s->s, s->len);
        if (!s->s)
            return pare_no_memory(err, "for a tensor");
    }
    return 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

static int pack_strings(const struct pare_tensor *t, struct pare_arena *a, Onnx__TensorProto *p,
                        struct pare_err *err)
{
    const struct pare_str *s = t->data;

    p->n_string_data = (size_t)pare_numel(t);
    p->string_data = pare_alloc(a, p->n_string_data, sizeof(*p->string_data));
    if (!p->string_data)
        return pare_no_memory(err, "for a tensor");
    for (size_t i = 0; i < p->n_string_data; i++)
        p->string_data[i] = (ProtobufCBinaryData){ s[i].len, (uint8_t *)(uintptr_t)s[i].s };
    return 0;
}

int pare_tensor_pack(const struct pare_tensor *t, const char *name, struct pare_arena *a,
                     void **bytes, size_t *len, struct pare_err *err)
{
    Onnx__TensorProto p = ONNX__TENSOR_PROTO__INIT;
    int64_t dim[PARE_MAX_RANK];
    size_t size;

    PARE_TRY(pare_tensor_size(t, NULL, &size, err));
    memcpy(dim, t->dim, sizeof(dim));
    p.n_dims = (size_t)t->rank;
    p.dims = dim;
    p.has_data_type = 1;
    p.data_type = (int32_t)t->dtype;
    p.name = (char *)(uintptr_t)name;
    p.has_raw_data = t->dtype != PARE_STR;
    p.raw_data = (ProtobufCBinaryData){ size, t->data };
    if (t->dtype == PARE_STR)
        PARE_TRY(pack_strings(t, a, &p, err));
    if (pare_is_4bit(t->dtype)) {
        p.raw_data.len = pare_packed_size(t);
        p.raw_data.data = pare_alloc_raw(a, p.raw_data.len, 1);
        if (!p.raw_data.data)
            return pare_no_memory(err, "for a tensor");
        pare_pack(t, p.raw_data.data);
    }
    *len = protobuf_c_message_get_packed_size(&p.base);
    *bytes = pare_alloc_raw(a, *len, 1);
    if (!*bytes)
        return pare_no_memory(err, "for a tensor");
    protobuf_c_message_pack(&p.base, *bytes);
    return 0;
}

void pare_set_raw_data(Onnx__TensorProto *p, void *data, size_t bytes)
{
    p->has_raw_data = true;
    p->raw_data = (ProtobufCBinaryData){ bytes, data };
    p->n_float_data = p->n_int32_data = p->n_int64_data = 0;
    p->n_double_data = p->n_uint64_data = p->n_string_data = 0;
    p->n_external_data = 0;
    p->has_data_location = false;
}

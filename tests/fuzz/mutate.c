/* mutate.c - libFuzzer mutator that changes a model field by field, to get past the wire format.
 *
 * Random changes of bytes mostly break lengths.  Here the bytes are unpacked, a few fields are set
 * to values that are likely to cause errors, and the message is packed again.
 */
#include "base/arena.h"
#include "onnx.pb-c.h"
#include "onnx/wire.h"
#include "op/op.h"

#include <string.h>

#define MAX_MESSAGES 4096
#define MAX_BYTES 64 /* of a bytes field that grows */

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

struct work {
    struct pare_arena *a;
    uint64_t random;
    ProtobufCMessage *msg[MAX_MESSAGES];
    size_t n;
};

static size_t below(struct work *w, size_t n)
{
    w->random = w->random * 6364136223846793005u + 1442695040888963407u;
    return n ? (size_t)(w->random >> 33) % n : 0;
}

static void collect(struct work *w, ProtobufCMessage *m)
{
    ProtobufCMessage *const *child;

    if (w->n == MAX_MESSAGES)
        return;
    w->msg[w->n++] = m;
    for (unsigned i = 0; i < m->descriptor->n_fields; i++) {
        size_t n = pare_wire_children(m, &m->descriptor->fields[i], &child);

        for (size_t k = 0; k < n; k++)
            collect(w, child[k]);
    }
}

static int64_t random_number(struct work *w, int64_t old)
{
    static const int64_t tricky[] = { 0,
                                      1,
                                      -1,
                                      2,
                                      3,
                                      -2,
                                      7,
                                      8,
                                      9,
                                      127,
                                      255,
                                      256,
                                      65535,
                                      65536,
                                      INT32_MAX,
                                      INT32_MIN,
                                      INT64_MAX,
                                      INT64_MIN,
                                      INT64_MAX / 8,
                                      (int64_t)1 << 32,
                                      (int64_t)1 << 62 };

    switch (below(w, 4)) {
    case 0: return tricky[below(w, sizeof(tricky) / sizeof(*tricky))];
    case 1: return old < INT64_MAX ? old + 1 : 0;
    case 2: return old > INT64_MIN ? old - 1 : 0;
    default: return (int64_t)below(w, 24);
    }
}

/* A string of the same field in another message, or the name of an operator. */
static char *random_string(struct work *w, const ProtobufCFieldDescriptor *f,
                           const ProtobufCMessageDescriptor *d)
{
    size_t start = below(w, w->n), ops = 0;

    while (pare_ops[ops])
        ops++;
    if (!strcmp(f->name, "op_type") && below(w, 2))
        return pare_strdup(w->a, pare_ops[below(w, ops)]->type);
    for (size_t i = 0; i < w->n; i++) {
        ProtobufCMessage *m = w->msg[(start + i) % w->n];
        const char *p = (const char *)m + f->offset;

        if (m->descriptor != d || (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF &&
                                   *(uint32_t *)((char *)m + f->quantifier_offset) != f->id))
            continue;
        if (f->label == PROTOBUF_C_LABEL_REPEATED) {
            size_t n = *(size_t *)((char *)m + f->quantifier_offset);

            if (n)
                return (*(char ***)(uintptr_t)p)[below(w, n)];
        } else if (*(char **)(uintptr_t)p) {
            return *(char **)(uintptr_t)p;
        }
    }
    return pare_strdup(w->a, below(w, 2) ? "" : "other");
}

static void change_value(struct work *w, const ProtobufCFieldDescriptor *f,
                         const ProtobufCMessageDescriptor *d, void *p)
{
    ProtobufCBinaryData *b = p;
    size_t max;
    uint8_t *copy;

    switch (f->type) {
    case PROTOBUF_C_TYPE_ENUM:
    case PROTOBUF_C_TYPE_INT32: *(int32_t *)p = (int32_t)random_number(w, *(int32_t *)p); break;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_INT64: *(int64_t *)p = random_number(w, *(int64_t *)p); break;
    case PROTOBUF_C_TYPE_FLOAT: *(float *)p = (float)random_number(w, 1) * 0.5f; break;
    case PROTOBUF_C_TYPE_DOUBLE: *(double *)p = (double)random_number(w, 1) * 0.5; break;
    case PROTOBUF_C_TYPE_STRING: *(char **)p = random_string(w, f, d); break;
    case PROTOBUF_C_TYPE_BYTES:
        max = b->len < MAX_BYTES ? MAX_BYTES : b->len;
        copy = pare_alloc(w->a, max, 1);
        if (b->len)
            memcpy(copy, b->data, b->len);
        if (b->len % 8 == 0 && b->len && below(w, 2)) { /* perhaps int64: a shape, an axis */
            int64_t v, *at = (int64_t *)(void *)copy + below(w, b->len / 8);

            memcpy(&v, at, 8);
            v = random_number(w, v);
            memcpy(at, &v, 8);
        } else {
            b->len = LLVMFuzzerMutate(copy, b->len, below(w, 2) && b->len ? b->len : max);
        }
        b->data = copy;
        break;
    default: break;
    }
}

static size_t element_size(const ProtobufCFieldDescriptor *f)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_ENUM:
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_FLOAT: return 4;
    case PROTOBUF_C_TYPE_BYTES: return sizeof(ProtobufCBinaryData);
    default: return 8;
    }
}

/* Remove, repeat, swap or change one element of a list. */
static void change_list(struct work *w, const ProtobufCFieldDescriptor *f, ProtobufCMessage *m)
{
    size_t *n = (size_t *)((char *)m + f->quantifier_offset), size = element_size(f);
    char **list = (char **)((char *)m + f->offset);
    char *copy = pare_alloc(w->a, *n + 1, size), tmp[sizeof(ProtobufCBinaryData)];
    size_t i = below(w, *n), k = below(w, *n);

    if (*n)
        memcpy(copy, *list, *n * size);
    *list = copy;
    switch (*n ? below(w, 4) : 4) {
    case 0:
        memmove(copy + i * size, copy + (i + 1) * size, (*n - 1 - i) * size);
        --*n;
        break;
    case 1:
        memcpy(copy + *n * size, copy + i * size, size);
        ++*n;
        break;
    case 2:
        memcpy(tmp, copy + i * size, size);
        memcpy(copy + i * size, copy + k * size, size);
        memcpy(copy + k * size, tmp, size);
        break;
    case 4:
        if (f->type == PROTOBUF_C_TYPE_MESSAGE)
            break;
        if (f->type == PROTOBUF_C_TYPE_STRING)
            *(char **)(void *)copy = pare_strdup(w->a, "");
        *n = 1;
        /* fall through */
    default: change_value(w, f, m->descriptor, copy + i * size); break;
    }
}

static void change(struct work *w, ProtobufCMessage *m)
{
    const ProtobufCMessageDescriptor *d = m->descriptor;
    const ProtobufCFieldDescriptor *f;

    if (!d->n_fields)
        return;
    f = &d->fields[below(w, d->n_fields)];
    if (f->label == PROTOBUF_C_LABEL_REPEATED) {
        change_list(w, f, m);
    } else if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
        if (*(uint32_t *)((char *)m + f->quantifier_offset) == f->id)
            change_value(w, f, d, (char *)m + f->offset);
    } else if (f->type == PROTOBUF_C_TYPE_MESSAGE) {
        if (!below(w, 8))
            *(void **)((char *)m + f->offset) = NULL;
    } else if (f->type == PROTOBUF_C_TYPE_STRING) {
        change_value(w, f, d, (char *)m + f->offset);
    } else {
        *(protobuf_c_boolean *)((char *)m + f->quantifier_offset) = below(w, 8) != 0;
        change_value(w, f, d, (char *)m + f->offset);
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct work *w = pare_alloc(a, 1, sizeof(*w));
    struct pare_err err;
    ProtobufCMessage *m;
    size_t n = 0;

    w->a = a;
    w->random = seed;
    if (below(w, 8) && !pare_wire_unpack(&onnx__model_proto__descriptor, data, size, a, &m, &err)) {
        collect(w, m);
        for (size_t i = 1 + below(w, 4); i; i--)
            change(w, w->msg[below(w, w->n)]);
        n = protobuf_c_message_get_packed_size(m);
        if (n <= max_size) {
            uint8_t *packed = pare_alloc(a, n, 1); /* it may point into data */

            protobuf_c_message_pack(m, packed);
            memcpy(data, packed, n);
        }
    }
    pare_arena_free(a);
    return n && n <= max_size ? n : LLVMFuzzerMutate(data, size, max_size);
}

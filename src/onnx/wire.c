/* wire.c - unpack protobuf bytes into protobuf-c structs without copying weights.
 *
 * protobuf-c copies every `bytes` field and recurses to any depth of the input.  So this file walks
 * the input first, guided by the generated descriptors.  It checks depth, lengths, wire types and
 * the memory that the structs will take, and writes a skeleton in which each `bytes` value starts
 * with a mark:
 *     0, the bytes                               a short value
 *     1, offset (8 bytes), length (8 bytes)      a long value, which stays in the input
 * protobuf-c unpacks the skeleton, and a second walk turns the marks into pointers.  Every value
 * has a mark, so the input cannot forge one.
 */
#include "wire.h"

#include <string.h>

#include "onnx.pb-c.h"

#include "../base/arena.h"
#include "../base/limits.h"

enum wire { VARINT = 0, FIXED64 = 1, BLOCK = 2, FIXED32 = 5 };

#define LENGTH_BYTES 5 /* lengths in the skeleton are padded to this, and patched */

struct scan {
    const uint8_t *base;
    uint8_t *out;    /* NULL in the first pass, which only counts */
    size_t at, room; /* bytes written or counted; capacity of `out` */
    size_t cost;     /* bytes that unpacking will allocate */
    int64_t nodes;   /* in all graphs and functions */
    struct pare_err *err;
};

struct field {
    uint32_t number;
    int wire;
    const uint8_t *start, *data, *end; /* of the tag, of the value after its length, of the field */
    const ProtobufCFieldDescriptor *d; /* NULL: unknown to the schema */
};

static int bad(const struct scan *s, const uint8_t *p, const char *what, const char *where)
{
    return pare_fail(s->err, PARE_EFORMAT, "malformed at byte %zu (in %s): %s",
                     (size_t)(p - s->base), where, what);
}

static void put(struct scan *s, const void *data, size_t n)
{
    if (s->out && n && s->at + n <= s->room)
        memcpy(s->out + s->at, data, n);
    s->at += n;
}

static void put_length(struct scan *s, size_t at, size_t n)
{
    for (int i = 0; s->out && s->at <= s->room && i < LENGTH_BYTES; i++)
        s->out[at + (size_t)i] = (uint8_t)((n >> (7 * i) & 0x7f) |
                                           (i < LENGTH_BYTES - 1 ? 0x80u : 0u));
}

/* Read a varint of at most `max` bytes; returns its length, 0: it does not end. */
static int get_varint(const uint8_t *p, const uint8_t *end, int max, uint64_t *v)
{
    *v = 0;
    for (int i = 0; i < max && p + i < end; i++) {
        *v |= (uint64_t)(p[i] & 0x7f) << (7 * i);
        if (p[i] < 0x80)
            return i + 1;
    }
    return 0;
}

static int charge(struct scan *s, size_t bytes)
{
    s->cost += bytes;
    if (bytes <= PARE_MAX_UNPACKED && s->cost <= PARE_MAX_UNPACKED)
        return 0;
    return pare_fail(s->err, PARE_ELIMIT, "describing its contents takes more than %u bytes",
                     PARE_MAX_UNPACKED);
}

/* Find the extent of the field at *p and advance *p past it. */
static int next_field(struct scan *s, const ProtobufCMessageDescriptor *d, const uint8_t **p,
                      const uint8_t *end, struct field *f)
{
    uint64_t v;
    int n = get_varint(*p, end, 5, &v);

    f->start = *p;
    f->number = (uint32_t)(v >> 3);
    f->wire = (int)(v & 7);
    if (!n || v >> 32 || !f->number)
        return bad(s, *p, "not the start of a field", d->short_name);
    f->data = *p + n;
    f->d = protobuf_c_message_descriptor_get_field(d, f->number);
    switch (f->wire) {
    case VARINT: n = get_varint(f->data, end, 10, &v); break;
    case FIXED64: n = end - f->data < 8 ? 0 : 8; break;
    case FIXED32: n = end - f->data < 4 ? 0 : 4; break;
    case BLOCK:
        n = get_varint(f->data, end, 5, &v);
        if (n && v <= (uint64_t)(end - f->data - n)) {
            f->data += n;
            f->end = f->data + v;
            *p = f->end;
            return 0;
        }
        return bad(s, f->data, "a length exceeds the message that contains it", d->short_name);
    default: return bad(s, *p, "a field of a wire type that ONNX does not use", d->short_name);
    }
    if (!n)
        return bad(s, f->data, "a number is cut off", d->short_name);
    f->end = f->data + n;
    *p = f->end;
    return 0;
}

/* The wire type of values of this type. */
static int wire_of(ProtobufCType t)
{
    switch (t) {
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_SFIXED32: return FIXED32;
    case PROTOBUF_C_TYPE_DOUBLE:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_SFIXED64: return FIXED64;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE: return BLOCK;
    default: return VARINT;
    }
}

/* The elements of a packed list must be complete. */
static int check_packed(struct scan *s, const struct field *f, const char *where)
{
    size_t len = (size_t)(f->end - f->data), count = 0;
    int wire = wire_of(f->d->type), run = 0;

    if (wire != VARINT) {
        size_t size = wire == FIXED32 ? 4 : 8;

        if (len % size)
            return bad(s, f->data, "a list ends inside a number", where);
        return charge(s, len);
    }
    for (size_t i = 0; i < len; i++) {
        run = f->data[i] < 0x80 ? 0 : run + 1;
        count += !run;
        if (run >= 10)
            return bad(s, f->data + i, "a number has more than 10 bytes", where);
    }
    if (run)
        return bad(s, f->data, "a list ends inside a number", where);
    return charge(s, 8 * count);
}

static int check_plain(struct scan *s, const struct field *f, const char *where)
{
    int want = wire_of(f->d->type);

    if (f->wire == BLOCK && want != BLOCK && f->d->label == PROTOBUF_C_LABEL_REPEATED)
        return check_packed(s, f, where);
    if (f->wire != want)
        return bad(s, f->start, "a field has another wire type than in the schema", where);
    if (f->d->type != PROTOBUF_C_TYPE_STRING)
        return 0;
    if ((size_t)(f->end - f->data) > PARE_MAX_TEXT)
        return pare_fail(s->err, PARE_ELIMIT,
                         "a string of %zu bytes at byte %zu (in %s), at most %zu are handled",
                         (size_t)(f->end - f->data), (size_t)(f->data - s->base), where,
                         PARE_MAX_TEXT);
    if (memchr(f->data, 0, (size_t)(f->end - f->data)))
        return bad(s, f->data, "a string contains a zero byte", where);
    return charge(s, (size_t)(f->end - f->data) + 16);
}

static int copy_bytes(struct scan *s, const struct field *f)
{
    size_t len = (size_t)(f->end - f->data), at;
    uint64_t ref[2] = { (uint64_t)(f->data - s->base), len };
    uint8_t mark = len >= PARE_REFERENCE;
    int n = 0;

    while (f->start[n++] & 0x80)
        ;
    put(s, f->start, (size_t)n);
    at = s->at;
    s->at += LENGTH_BYTES;
    put(s, &mark, 1);
    put(s, mark ? (const void *)ref : f->data, mark ? sizeof(ref) : len);
    put_length(s, at, s->at - at - LENGTH_BYTES);
    return charge(s, s->at - at);
}

/* Recursive, to a depth of PARE_MAX_NESTING at most. */
static int copy_message(struct scan *s, const ProtobufCMessageDescriptor *d, const uint8_t *p,
                        const uint8_t *end, int depth)
{
    uint64_t seen = 0;

    if (depth > PARE_MAX_NESTING)
        return pare_fail(s->err, PARE_ELIMIT, "more than %d messages inside each other (in %s)",
                         PARE_MAX_NESTING, d->short_name);
    s->nodes += d == &onnx__node_proto__descriptor;
    if (s->nodes > PARE_MAX_NODES)
        return pare_fail(s->err, PARE_ELIMIT, "more than %d nodes, which is the limit",
                         PARE_MAX_NODES);
    PARE_TRY(charge(s, d->sizeof_message + 64));
    while (p < end) {
        struct field f = { 0 };
        size_t at, n;

        PARE_TRY(next_field(s, d, &p, end, &f));
        PARE_TRY(charge(s, 56));
        if (!f.d || f.d->type != PROTOBUF_C_TYPE_MESSAGE || f.wire != BLOCK) {
            if (f.d)
                PARE_TRY(check_plain(s, &f, d->short_name));
            else
                PARE_TRY(charge(s, (size_t)(f.end - f.start)));
            if (f.d && f.d->type == PROTOBUF_C_TYPE_BYTES)
                PARE_TRY(copy_bytes(s, &f));
            else
                put(s, f.start, (size_t)(f.end - f.start));
            continue;
        }
        /* A message in two parts would have to be merged; no writer produces that. */
        n = (size_t)(f.d - d->fields);
        if (f.d->label != PROTOBUF_C_LABEL_REPEATED && seen >> n & 1)
            return bad(s, f.start, "a field appears twice that may appear once", d->short_name);
        seen |= (uint64_t)1 << n;
        for (n = 1; f.start[n - 1] & 0x80;)
            n++;
        put(s, f.start, n);
        at = s->at;
        s->at += LENGTH_BYTES;
        PARE_TRY(copy_message(s, f.d->descriptor, f.data, f.end, depth + 1));
        put_length(s, at, s->at - at - LENGTH_BYTES);
    }
    return 0;
}

/* ---- marks to pointers ----------------------------------------------------------------------- */

static void fix_bytes(ProtobufCBinaryData *b, const uint8_t *base)
{
    uint64_t ref[2];

    if (b->len && b->data[0]) {
        memcpy(ref, b->data + 1, sizeof(ref));
        b->data = (uint8_t *)(uintptr_t)(base + ref[0]);
        b->len = (size_t)ref[1];
    } else if (b->len) {
        b->data++;
        b->len--;
    }
}

static size_t quantity(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
    const char *q = (const char *)m + f->quantifier_offset;

    if (f->label == PROTOBUF_C_LABEL_REPEATED)
        return *(const size_t *)q;
    if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
        return *(const uint32_t *)q == f->id;
    if (f->type == PROTOBUF_C_TYPE_MESSAGE)
        return *(void *const *)((const char *)m + f->offset) != NULL;
    return *(const protobuf_c_boolean *)q != 0;
}

size_t pare_wire_children(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f,
                          ProtobufCMessage *const **child)
{
    const void *p = (const char *)m + f->offset;

    if (f->type != PROTOBUF_C_TYPE_MESSAGE)
        return 0;
    *child = f->label == PROTOBUF_C_LABEL_REPEATED ? *(ProtobufCMessage *const *const *)p : p;
    return quantity(m, f);
}

static void fix_message(ProtobufCMessage *m, const uint8_t *base)
{
    for (unsigned i = 0; i < m->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &m->descriptor->fields[i];
        void *p = (char *)m + f->offset;
        ProtobufCMessage *const *child;
        size_t n = pare_wire_children(m, f, &child);

        for (size_t k = 0; k < n; k++)
            fix_message(child[k], base);
        if (f->type != PROTOBUF_C_TYPE_BYTES)
            continue;
        n = quantity(m, f);
        for (size_t k = 0; k < n; k++)
            fix_bytes(f->label == PROTOBUF_C_LABEL_REPEATED ? *(ProtobufCBinaryData **)p + k : p,
                      base);
    }
}

/* ---- protobuf-c's memory from an arena ------------------------------------------------------- */

/* Small allocations share blocks, because the arena rounds up to cache lines. */
struct bump {
    struct pare_arena *arena;
    char *at;
    size_t left;
};

#define BUMP_BLOCK 16384

static void *bump_alloc(void *data, size_t size)
{
    struct bump *b = data;
    void *p;

    if (size > BUMP_BLOCK / 8)
        return pare_alloc_raw(b->arena, size, 1);
    size = (size + 15) & ~(size_t)15;
    if (size > b->left) {
        b->at = pare_alloc_raw(b->arena, BUMP_BLOCK, 1);
        b->left = b->at ? BUMP_BLOCK : 0;
        if (!b->at)
            return NULL;
    }
    p = b->at;
    b->at += size;
    b->left -= size;
    return p;
}

static void bump_free(void *data, void *p)
{
    (void)data, (void)p;
}

int pare_wire_unpack(const ProtobufCMessageDescriptor *d, const void *data, size_t len,
                     struct pare_arena *a, ProtobufCMessage **out, struct pare_err *err)
{
    struct scan s = { .base = data, .err = err };
    struct bump bump = { .arena = a };
    ProtobufCAllocator alloc = { bump_alloc, bump_free, &bump };
    struct pare_arena *tmp;
    int rc;

    PARE_TRY(copy_message(&s, d, s.base, s.base + len, 1));
    tmp = pare_arena_new(0);
    s.out = tmp ? pare_alloc_raw(tmp, s.at + 1, 1) : NULL;
    if (!s.out) {
        pare_arena_free(tmp);
        return pare_no_memory(err, "for its %zu bytes", s.at);
    }
    s.room = s.at; /* the mapped file may be changing: rely on this count only */
    s.at = s.cost = 0;
    s.nodes = 0;
    rc = copy_message(&s, d, s.base, s.base + len, 1);
    *out = rc || s.at > s.room ? NULL : protobuf_c_message_unpack(d, &alloc, s.at, s.out);
    pare_arena_free(tmp);
    if (!*out && pare_arena_failed(a))
        return pare_no_memory(err, "to decode it");
    if (!*out)
        return pare_fail(err, PARE_EFORMAT, "the %s in it cannot be decoded", d->short_name);
    fix_message(*out, data);
    return 0;
}

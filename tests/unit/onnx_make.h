/* onnx_make.h - write ONNX messages by hand, valid or not, for tests.
 *
 * A message is the concatenation of its fields:
 *     struct bin relu = CAT(text(1, "x"), text(2, "y"), text(4, "Relu"));
 *     struct bin file = model(CAT(msg(1, relu), input("x", 1, "2,3"), output("y", 1, "2,3")));
 * Field numbers are those of onnx.proto.  Memory is taken from `pool` and never freed before the
 * test ends.
 */
#ifndef PARE_TEST_ONNX_MAKE_H
#define PARE_TEST_ONNX_MAKE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/arena.h"
#include "onnx/model.h"
#include "tensor/tensor.h"

struct bin {
    unsigned char *p;
    size_t n;
};

static struct pare_arena *pool;

static inline struct bin join(const struct bin *part, size_t count)
{
    struct bin all = { NULL, 0 };

    for (size_t i = 0; i < count; i++)
        all.n += part[i].n;
    all.p = pare_alloc(pool, all.n, 1);
    all.n = 0;
    for (size_t i = 0; i < count; i++) {
        if (part[i].n)
            memcpy(all.p + all.n, part[i].p, part[i].n);
        all.n += part[i].n;
    }
    return all;
}
#define CAT(...)                              \
    join((const struct bin[]){ __VA_ARGS__ }, \
         sizeof((const struct bin[]){ __VA_ARGS__ }) / sizeof(struct bin))
#define NOTHING ((struct bin){ NULL, 0 })

static inline struct bin varint(uint64_t v)
{
    struct bin b = { pare_alloc(pool, 10, 1), 0 };

    do {
        b.p[b.n++] = (unsigned char)((v & 0x7f) | (v > 0x7f ? 0x80 : 0));
        v >>= 7;
    } while (v);
    return b;
}

static inline struct bin tag(unsigned field, unsigned wire)
{
    return varint((uint64_t)field << 3 | wire);
}

static inline struct bin num(unsigned field, int64_t v)
{
    return CAT(tag(field, 0), varint((uint64_t)v));
}

static inline struct bin blob(unsigned field, const void *p, size_t n)
{
    struct bin raw = { (unsigned char *)(uintptr_t)p, n };

    return CAT(tag(field, 2), varint(n), raw);
}

static inline struct bin text(unsigned field, const char *s)
{
    return blob(field, s, strlen(s));
}

static inline struct bin msg(unsigned field, struct bin b)
{
    return blob(field, b.p, b.n);
}

/* A comma-separated list as repeated texts, or as repeated numbers. */
static inline struct bin list(unsigned field, const char *s, int numbers)
{
    struct bin all = NOTHING;

    while (s && *s) {
        size_t n = strcspn(s, ",");
        char *word = pare_strndup(pool, s, n);

        all = CAT(all, numbers ? num(field, strtoll(word, NULL, 10)) : text(field, word));
        s += n;
        s += *s == ',';
    }
    return all;
}

/* ---- parts of a model; those with a field number are fields of GraphProto ---------------- */

static inline struct bin node_with(const char *type, const char *name, const char *in,
                                   const char *out, struct bin more)
{
    return msg(1, CAT(list(1, in, 0), list(2, out, 0), text(3, name), text(4, type), more));
}

static inline struct bin node(const char *type, const char *name, const char *in, const char *out)
{
    return node_with(type, name, in, out, NOTHING);
}

static inline struct bin tensor(const char *name, int type, const char *dims, struct bin more)
{
    return CAT(list(1, dims, 1), num(2, type), text(8, name), more);
}

static inline struct bin initializer(const char *name, int type, const char *dims, struct bin more)
{
    return msg(5, tensor(name, type, dims, more));
}

static inline struct bin info(const char *name, int type, const char *dims)
{
    struct bin shape = NOTHING;

    while (dims && *dims) {
        size_t n = strcspn(dims, ",");
        char *word = pare_strndup(pool, dims, n);

        shape = CAT(shape, msg(1, *word >= '0' && *word <= '9' ? num(1, strtol(word, NULL, 10))
                                                               : text(2, word)));
        dims += n;
        dims += *dims == ',';
    }
    return CAT(text(1, name), msg(2, msg(1, CAT(num(1, type), msg(2, shape)))));
}

static inline struct bin input(const char *name, int type, const char *dims)
{
    return msg(11, info(name, type, dims));
}

static inline struct bin output(const char *name, int type, const char *dims)
{
    return msg(12, info(name, type, dims));
}

static inline struct bin opset(const char *domain, int version)
{
    return msg(8, CAT(text(1, domain), num(2, version)));
}

static inline struct bin model(struct bin graph)
{
    return CAT(num(1, 8), msg(7, graph), opset("", 13));
}

static inline struct bin external(const char *location, const char *offset, const char *length)
{
    struct bin all = msg(13, CAT(text(1, "location"), text(2, location)));

    if (offset)
        all = CAT(all, msg(13, CAT(text(1, "offset"), text(2, offset))));
    if (length)
        all = CAT(all, msg(13, CAT(text(1, "length"), text(2, length))));
    return CAT(all, num(14, 1));
}

static inline int make_pool(void **state)
{
    (void)state;
    pool = pare_arena_new(1 << 16);
    return pool == NULL;
}

static inline int drop_pool(void **state)
{
    (void)state;
    pare_arena_free(pool);
    return 0;
}

#endif

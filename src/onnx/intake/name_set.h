/* name_set.h - map of few names that all names of a model are looked up in.
 *
 * Most lookups are of names that the set does not have: a bit per hash of a few of the name's bytes
 * answers those without the map's hash of all bytes.
 */
#ifndef PARE_ONNX_INTAKE_NAME_SET_H
#define PARE_ONNX_INTAKE_NAME_SET_H

#include <string.h>

#include "../../base/map.h"

#define PARE_NAME_BITS 16384

/* A zeroed set is empty.  Names are not copied. */
struct pare_name_set {
    struct pare_map map;
    uint64_t bits[PARE_NAME_BITS / 64];
};

/* Names of one exporter often differ in a number, at the end or before "_output_0". */
static inline size_t pare_name_bit(const char *name)
{
    size_t n = strlen(name);
    uint64_t last = 0, before = 0;

    if (n >= 16)
        memcpy(&before, name + n - 16, 8);
    if (n >= 8)
        memcpy(&last, name + n - 8, 8);
    else
        memcpy(&last, name, n);
    before = (before ^ n << 56) * 0x9e3779b97f4a7c15u + last;
    before = (before ^ before >> 29) * 0xbf58476d1ce4e5b9u;
    return (size_t)(before >> 32) % PARE_NAME_BITS;
}

static inline void *pare_name_get(const struct pare_name_set *s, const char *name)
{
    size_t bit = s->map.n ? pare_name_bit(name) : 0;

    return s->map.n && s->bits[bit / 64] >> bit % 64 & 1 ? pare_map_get(&s->map, name) : NULL;
}

static inline int pare_name_set(struct pare_name_set *s, struct pare_arena *a, const char *name,
                                void *val, struct pare_err *err)
{
    size_t bit = pare_name_bit(name);

    s->bits[bit / 64] |= (uint64_t)1 << bit % 64;
    return pare_map_set(&s->map, a, name, val, err);
}

#endif

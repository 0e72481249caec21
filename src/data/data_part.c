/* data_part.c - a part of an open data set: the same files and options, fewer items. */
#include <string.h>

#include "source.h"

#include "../base/arena.h"
#include "../base/rng.h"
#include "../tensor/tensor.h"

/* A random order that depends on the number of items only. */
static int64_t *shuffled(struct pare_arena *a, int64_t n)
{
    int64_t *order = pare_alloc(a, (size_t)n + 1, sizeof(*order));
    struct pare_rng rng;

    pare_rng_init(&rng, 0x68656c64);
    for (int64_t i = 0; i < n && order; i++) {
        int64_t k = (int64_t)pare_rng_below(&rng, (uint64_t)i + 1);

        order[i] = order[k];
        order[k] = i;
    }
    return order;
}

static int choose(struct pare_data *d, const struct pare_data *whole, int64_t n, bool those,
                  struct pare_err *err)
{
    const int64_t *old = whole->parts->pick;
    int64_t *order = shuffled(d->arena, whole->n), *pick;
    uint8_t *keep = pare_alloc(d->arena, (size_t)whole->n + 1, 1);
    size_t row = whole->y.data && whole->n
                     ? (size_t)(pare_numel(&whole->y) / whole->n) * pare_dtype_size(whole->y.dtype)
                     : 0;
    char *y;

    d->n = those ? n : whole->n - n;
    d->y.dim[0] = d->n;
    pick = pare_alloc(d->arena, (size_t)d->n + 1, sizeof(*pick));
    y = pare_alloc(d->arena, (size_t)d->n + 1, row + 1);
    if (!order || !keep || !pick || !y)
        return pare_no_memory(err, "for a part of a data set");
    for (int64_t i = 0; i < whole->n; i++)
        keep[order[i]] = (i < n) == those;
    for (int64_t i = 0, k = 0; i < whole->n; i++) {
        if (!keep[i])
            continue;
        pick[k] = old ? old[i] : i;
        if (row)
            memcpy(y + (size_t)k * row, (const char *)whole->y.data + (size_t)i * row, row);
        k++;
    }
    d->parts->pick = pick;
    d->y.data = row ? y : NULL;
    return 0;
}

int pare_data_part(struct pare_data *whole, int64_t n, bool those, struct pare_data **part,
                   struct pare_err *err)
{
    struct pare_arena *a = pare_arena_new(1 << 12);
    struct pare_data *d = a ? pare_alloc(a, 1, sizeof(*d)) : NULL;
    int rc;

    *part = NULL;
    if (!d) {
        pare_arena_free(a);
        return pare_no_memory(err, "for a part of a data set");
    }
    memcpy(d, whole, sizeof(*d));
    d->arena = a;
    d->whole = NULL;
    atomic_init(&d->references, 1);
    d->parts = pare_alloc(a, 1, sizeof(*d->parts));
    if (d->parts)
        *d->parts = *whole->parts;
    rc = d->parts ? choose(d, whole, n, those, err)
                  : pare_no_memory(err, "for a part of a data set");
    if (rc) {
        pare_arena_free(a);
        return rc;
    }
    pare_data_retain(whole);
    d->whole = whole;
    *part = d;
    return 0;
}

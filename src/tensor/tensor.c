/* tensor.c - tensor shapes, sizes and allocation. */
#include "tensor.h"

#include <stdio.h>

#include "../base/limits.h"

int64_t pare_numel(const struct pare_tensor *t)
{
    int64_t n = 1;

    for (int i = 0; i < t->rank; i++)
        n *= t->dim[i];
    return n;
}

int pare_tensor_size(const struct pare_tensor *t, int64_t *numel, size_t *bytes,
                     struct pare_err *err)
{
    int64_t n = 1, size = (int64_t)pare_dtype_size(t->dtype);
    bool empty = false;
    char buf[PARE_SHAPE_TEXT];

    if (t->rank < 0 || t->rank > PARE_MAX_RANK)
        return pare_fail(err, PARE_ELIMIT, "a tensor has %d dimensions, at most %d are supported",
                         t->rank, PARE_MAX_RANK);
    if (!size)
        return pare_fail(err, PARE_EUNSUPPORTED, "element type %d is not supported", (int)t->dtype);
    for (int i = 0; i < t->rank; i++) {
        if (t->dim[i] < 0)
            return pare_fail(err, PARE_ESHAPE, "shape %s has a negative dimension",
                             pare_shape_text(t, buf, sizeof(buf)));
        empty |= !t->dim[i];
    }
    /* Axes of 0 count as 1, so that strides and partial products of an empty tensor fit too. */
    for (int i = 0; i < t->rank; i++) {
        int64_t d = t->dim[i] ? t->dim[i] : 1;

        if (d > PARE_MAX_ELEMENTS / n)
            return pare_fail(err, PARE_ELIMIT, "shape %s has more than %lld elements",
                             pare_shape_text(t, buf, sizeof(buf)), (long long)PARE_MAX_ELEMENTS);
        n *= d;
    }
    if (numel)
        *numel = empty ? 0 : n;
    if (bytes)
        *bytes = empty ? 0 : (size_t)(n * size);
    return 0;
}

size_t pare_packed_size(const struct pare_tensor *t)
{
    int64_t n = pare_numel(t);

    return pare_is_4bit(t->dtype) ? (size_t)(n / 2 + n % 2) : (size_t)n * pare_dtype_size(t->dtype);
}

void pare_unpack(const struct pare_tensor *t, const void *packed)
{
    size_t bytes = pare_packed_size(t);
    int64_t n = pare_numel(t);

    if (!pare_is_4bit(t->dtype) && bytes)
        memcpy(t->data, packed, bytes);
    for (int64_t i = 0; i < n && pare_is_4bit(t->dtype); i++)
        ((int8_t *)t->data)[i] = (int8_t)pare_nibble(t->dtype, packed, i);
}

void pare_pack(const struct pare_tensor *t, void *packed)
{
    size_t bytes = pare_packed_size(t);
    const uint8_t *x = t->data;
    uint8_t *to = packed;
    int64_t n = pare_numel(t);

    if (!pare_is_4bit(t->dtype)) {
        if (bytes)
            memcpy(packed, t->data, bytes);
        return;
    }
    for (int64_t i = 0; i < n; i += 2)
        to[i / 2] = (uint8_t)((x[i] & 15u) | (i + 1 < n ? x[i + 1] & 15u : 0u) << 4);
}

int pare_tensor_alloc(struct pare_arena *a, struct pare_tensor *t, struct pare_err *err)
{
    size_t bytes;

    PARE_TRY(pare_tensor_size(t, NULL, &bytes, err));
    t->data = pare_alloc_raw(a, bytes, 1);
    if (!t->data)
        return pare_no_memory(err, "for a tensor of %zu bytes", bytes);
    return 0;
}

int pare_tensor_new(struct pare_arena *a, struct pare_tensor *t, enum pare_dtype dtype, int rank,
                    const int64_t *dim, struct pare_err *err)
{
    PARE_ERR(err);
    size_t bytes;

    *t = (struct pare_tensor){ .dtype = dtype, .rank = rank };
    for (int i = 0; i < rank && i < PARE_MAX_RANK; i++)
        t->dim[i] = dim[i];
    PARE_TRY(pare_tensor_alloc(a, t, err));
    PARE_TRY(pare_tensor_size(t, NULL, &bytes, err));
    memset(t->data, 0, bytes);
    return 0;
}

const char *pare_shape_text(const struct pare_tensor *t, char *buf, size_t size)
{
    size_t at = (size_t)snprintf(buf, size, "(");

    for (int i = 0; i < t->rank && i < PARE_MAX_RANK && at < size; i++)
        at += (size_t)snprintf(buf + at, size - at, "%s%lld", i ? ", " : "", (long long)t->dim[i]);
    if (at < size)
        snprintf(buf + at, size - at, ")");
    return buf;
}

bool pare_same_shape(const struct pare_tensor *a, const struct pare_tensor *b)
{
    if (a->rank != b->rank)
        return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i])
            return false;
    return true;
}

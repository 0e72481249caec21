/* constant_nodes.c - Constant nodes and sparse initializers, evaluated while the file is read. */
#include "build.h"

#include <string.h>

#include "../tensor/tensor.h"
#include "../base/limits.h"

static int no_memory(struct pare_build *b)
{
    return pare_fail(b->err, PARE_ENOMEM, "no memory for a constant");
}

static int is_odd(struct pare_build *b, const struct pare_value *v, const char *why)
{
    return pare_map_set(&b->odd, b->m->arena, v->name, (void *)(uintptr_t)why, b->err);
}

/* ---- sparse tensors -------------------------------------------------------------------------- */

/* The position of entry i in the dense tensor: indices are (n), linear, or (n, rank); -1: out of
 * range. */
static int64_t position(const struct pare_tensor *t, const struct pare_tensor *idx, int64_t i)
{
    const int64_t *v = idx->data;
    int64_t at = 0;

    if (idx->rank == 1)
        return v[i] < 0 || v[i] >= pare_numel(t) ? -1 : v[i];
    for (int k = 0; k < t->rank; k++) {
        int64_t x = v[i * t->rank + k];

        if (x < 0 || x >= t->dim[k])
            return -1;
        at = at * t->dim[k] + x;
    }
    return at;
}

static int scatter(struct pare_build *b, struct pare_tensor *t, const struct pare_tensor *values,
                   const struct pare_tensor *idx)
{
    size_t size = pare_dtype_size(t->dtype);

    for (int64_t i = 0; i < pare_numel(values); i++) {
        int64_t at = position(t, idx, i);

        if (at < 0)
            return pare_fail(b->err, PARE_EFORMAT, "index %lld is outside of the tensor",
                             (long long)i);
        memcpy((char *)t->data + (size_t)at * size, (const char *)values->data + (size_t)i * size,
               size);
    }
    return 0;
}

/* Read one of the two tensors of a sparse tensor, aligned. */
static int read_part(struct pare_build *b, const Onnx__TensorProto *p, struct pare_const *c)
{
    PARE_TRY(pare_const_read(b->m, p, c, b->err));
    if (c->why || c->t.data)
        return 0;
    PARE_TRY(pare_tensor_alloc(b->m->arena, &c->t, b->err));
    if (c->raw)
        pare_unpack(&c->t, c->raw);
    return 0;
}

int pare_build_sparse(struct pare_build *b, struct pare_value *v, const Onnx__SparseTensorProto *p)
{
    struct pare_const values, idx;
    struct pare_tensor t = { 0 };
    size_t bytes;
    int64_t n;

    if (!p->values || !p->indices)
        return pare_fail(b->err, PARE_EFORMAT, "values or indices are missing");
    if (p->n_dims > PARE_MAX_RANK)
        return is_odd(b, v, "it is sparse and has too many dimensions");
    PARE_TRY(pare_at(b->err, read_part(b, p->values, &values), "values"));
    PARE_TRY(pare_at(b->err, read_part(b, p->indices, &idx), "indices"));
    if (values.why || idx.why || values.t.dtype == PARE_STR)
        return is_odd(b, v, "it is sparse with an element type that is not supported");
    t.dtype = values.t.dtype;
    t.rank = (int)p->n_dims;
    if (p->n_dims)
        memcpy(t.dim, p->dims, p->n_dims * sizeof(*p->dims));
    PARE_TRY(pare_tensor_size(&t, NULL, &bytes, b->err));
    if (bytes > PARE_MAX_SPARSE - b->sparse)
        return is_odd(b, v, "it is sparse and too large to convert to a dense tensor");
    b->sparse += bytes;
    n = pare_numel(&values.t);
    if (values.t.rank != 1 || idx.t.dtype != PARE_I64 || idx.t.rank < 1 || idx.t.rank > 2 ||
        idx.t.dim[0] != n || (idx.t.rank == 2 && idx.t.dim[1] != t.rank))
        return pare_fail(b->err, PARE_EFORMAT,
                         "indices must be int64 of shape (n) or (n, rank) for n values");
    PARE_TRY(pare_tensor_alloc(b->m->arena, &t, b->err));
    memset(t.data, 0, bytes);
    PARE_TRY(scatter(b, &t, &values.t, &idx.t));
    v->t = t;
    v->flags |= PARE_V_CONST;
    return 0;
}

/* ---- Constant -------------------------------------------------------------------------------- */

/* A scalar (rank 0, one element) or a list (rank 1). */
static int set_list(struct pare_value *v, enum pare_dtype dtype, int rank, size_t n,
                    const void *data)
{
    v->t = (struct pare_tensor){ .dtype = dtype,
                                 .rank = rank,
                                 .dim = { rank ? (int64_t)n : 0 },
                                 .data = (void *)(uintptr_t)(n ? data : "") };
    v->flags |= PARE_V_CONST;
    return 0;
}

static int set_strings(struct pare_build *b, struct pare_value *v, int rank,
                       const ProtobufCBinaryData *s, size_t n)
{
    struct pare_str *str = pare_alloc(b->m->arena, n, sizeof(*str));

    if (!str)
        return no_memory(b);
    for (size_t i = 0; i < n; i++)
        str[i] = (struct pare_str){ (const char *)s[i].data, s[i].len };
    return set_list(v, PARE_STR, rank, n, str);
}

/* The attribute's name determines the kind of constant. */
static int set_value(struct pare_build *b, const char *name, const Onnx__AttributeProto *p,
                     struct pare_value *v)
{
    if (!strcmp(name, "value") && p->t)
        return pare_build_const(b, v, p->t);
    if (!strcmp(name, "sparse_value") && p->sparse_tensor)
        return pare_build_sparse(b, v, p->sparse_tensor);
    if (!strcmp(name, "value_float") || !strcmp(name, "value_floats")) {
        int rank = !strcmp(name, "value_floats");

        return set_list(v, PARE_F32, rank, rank ? p->n_floats : 1, rank ? p->floats : &p->f);
    } else if (!strcmp(name, "value_int") || !strcmp(name, "value_ints")) {
        int rank = !strcmp(name, "value_ints");

        return set_list(v, PARE_I64, rank, rank ? p->n_ints : 1, rank ? p->ints : &p->i);
    } else if (!strcmp(name, "value_string")) {
        return set_strings(b, v, 0, &p->s, 1);
    } else if (!strcmp(name, "value_strings")) {
        return set_strings(b, v, 1, p->strings, p->n_strings);
    }
    return 0;
}

int pare_build_constant(struct pare_scope *sc, const Onnx__NodeProto *p, struct pare_node *n)
{
    struct pare_build *b = sc->b;
    struct pare_value *v = n->out[0];

    for (size_t i = 0; i < p->n_attribute && !(v->flags & PARE_V_CONST); i++) {
        const Onnx__AttributeProto *a = p->attribute[i];
        struct pare_scope *from = sc;
        const char *name = a->name ? a->name : "";

        pare_attr_follow(&a, &from);
        if (a)
            PARE_TRY(pare_at(b->err, set_value(b, name, a, v), "attribute '%s'", name));
    }
    if (v->flags & PARE_V_CONST)
        return n->op ? pare_constant_attr(b, n, &v->t) : 0;
    n->op = NULL;
    n->why = pare_map_get(&b->odd, v->name);
    return n->why ? 0 : pare_fail(b->err, PARE_EFORMAT, "a Constant without a value");
}

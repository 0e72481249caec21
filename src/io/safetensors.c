/* safetensors.c - the .safetensors format: named tensors and metadata in one file.
 *
 * Other readers map the file and use tensors in place, so tensors are written by decreasing element
 * size, which aligns each of them.  The header keeps the given order.
 */
#include "safetensors.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "file.h"
#include "../base/arena.h"
#include "../tensor/tensor.h"

#define META "__metadata__"

static const struct {
    enum pare_dtype dtype;
    const char *name;
} types[] = {
    { PARE_F64, "F64" },   { PARE_F32, "F32" }, { PARE_F16, "F16" }, { PARE_BF16, "BF16" },
    { PARE_I64, "I64" },   { PARE_I32, "I32" }, { PARE_I16, "I16" }, { PARE_I8, "I8" },
    { PARE_U64, "U64" },   { PARE_U32, "U32" }, { PARE_U16, "U16" }, { PARE_U8, "U8" },
    { PARE_BOOL, "BOOL" },
};
#define N_TYPES (sizeof(types) / sizeof(*types))

/* ---- reading ------------------------------------------------------------------ */

struct reader {
    struct pare_arena *arena;
    const unsigned char *data; /* bytes of the tensors */
    size_t len;
    struct range {
        size_t begin, end;
    } * range; /* byte range of each tensor */
};

static int read_dtype(const json_t *o, struct pare_tensor *t, struct pare_err *err)
{
    const char *name = json_string_value(json_object_get(o, "dtype"));

    if (!name)
        return pare_fail(err, PARE_EFORMAT, "the dtype is missing or not a string");
    for (size_t i = 0; i < N_TYPES; i++)
        if (!strcmp(types[i].name, name)) {
            t->dtype = types[i].dtype;
            return 0;
        }
    return pare_fail(err, PARE_EUNSUPPORTED, "the dtype '%.32s' is not supported", name);
}

static int read_shape(const json_t *o, struct pare_tensor *t, struct pare_err *err)
{
    const json_t *shape = json_object_get(o, "shape");
    size_t rank = json_array_size(shape);

    if (!json_is_array(shape))
        return pare_fail(err, PARE_EFORMAT, "the shape is missing or not a list");
    if (rank > PARE_MAX_RANK)
        return pare_fail(err, PARE_ELIMIT, "the shape has %zu dimensions, at most %d are supported",
                         rank, PARE_MAX_RANK);
    t->rank = (int)rank;
    for (size_t i = 0; i < rank; i++) {
        const json_t *d = json_array_get(shape, i);

        if (!json_is_integer(d) || json_integer_value(d) < 0)
            return pare_fail(err, PARE_EFORMAT, "dimension %zu of the shape is not a count", i);
        t->dim[i] = json_integer_value(d);
    }
    return 0;
}

static int read_range(const json_t *o, size_t len, size_t bytes, struct range *r,
                      struct pare_err *err)
{
    const json_t *list = json_object_get(o, "data_offsets");
    const json_t *b = json_array_get(list, 0), *e = json_array_get(list, 1);

    if (json_array_size(list) != 2 || !json_is_integer(b) || !json_is_integer(e))
        return pare_fail(err, PARE_EFORMAT, "data_offsets is not a list of two whole numbers");
    if (json_integer_value(b) < 0 || json_integer_value(e) < json_integer_value(b) ||
        (uint64_t)json_integer_value(e) > len)
        return pare_fail(err, PARE_EFORMAT,
                         "data_offsets is [%lld, %lld], the file has %zu bytes of data",
                         (long long)json_integer_value(b), (long long)json_integer_value(e), len);
    r->begin = (size_t)json_integer_value(b);
    r->end = (size_t)json_integer_value(e);
    if (r->end - r->begin != bytes)
        return pare_fail(err, PARE_EFORMAT, "%zu bytes of data where the shape needs %zu",
                         r->end - r->begin, bytes);
    return 0;
}

static int take_data(struct reader *r, const struct range *at, struct pare_tensor *t,
                     struct pare_err *err)
{
    const unsigned char *p = r->data + at->begin;
    size_t bytes = at->end - at->begin;

    for (size_t i = 0; t->dtype == PARE_BOOL && i < bytes; i++)
        if (p[i] > 1)
            return pare_fail(err, PARE_EFORMAT, "element %zu is %d, a BOOL is 0 or 1", i, p[i]);
    t->data = (void *)(uintptr_t)p;
    if ((uintptr_t)p % pare_dtype_size(t->dtype)) {
        t->data = pare_alloc_raw(r->arena, bytes, 1);
        if (!t->data)
            return pare_no_memory(err, "for %zu bytes", bytes);
        memcpy(t->data, p, bytes);
    }
    return 0;
}

static int read_tensor(struct reader *r, const json_t *o, struct range *at, struct pare_tensor *t,
                       struct pare_err *err)
{
    int64_t numel;
    size_t bytes;

    if (!json_is_object(o) || json_object_size(o) != 3)
        return pare_fail(err, PARE_EFORMAT, "not an object of dtype, shape and data_offsets");
    PARE_TRY(read_dtype(o, t, err));
    PARE_TRY(read_shape(o, t, err));
    PARE_TRY(pare_tensor_size(t, &numel, &bytes, err));
    PARE_TRY(read_range(o, r->len, bytes, at, err));
    return take_data(r, at, t, err);
}

static int read_meta(struct pare_arena *a, json_t *o, struct pare_safetensors *st,
                     struct pare_err *err)
{
    const char *key;
    json_t *value;

    if (!json_is_object(o))
        return pare_fail(err, PARE_EFORMAT, META " is not an object");
    st->meta = pare_alloc(a, json_object_size(o), sizeof(*st->meta));
    if (!st->meta)
        return pare_no_memory(err, "for " META);
    json_object_foreach(o, key, value)
    {
        struct pare_meta *m = &st->meta[st->n_meta++];

        if (!json_is_string(value))
            return pare_fail(err, PARE_EFORMAT, "'%.64s' of " META " is not a string", key);
        m->key = pare_strdup(a, key);
        m->value = pare_strdup(a, json_string_value(value));
        if (!m->key || !m->value)
            return pare_no_memory(err, "for " META);
    }
    return 0;
}

static int by_offset(const void *a, const void *b)
{
    const struct range *x = a, *y = b;

    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

/* Check that the tensors cover the data without gaps or overlaps. */
static int check_cover(struct range *r, size_t n, size_t len, struct pare_err *err)
{
    size_t at = 0;

    qsort(r, n, sizeof(*r), by_offset);
    for (size_t i = 0; i < n; i++) {
        if (r[i].begin != at)
            return pare_fail(err, PARE_EFORMAT, "the data has %s at byte %zu",
                             r[i].begin > at ? "a hole" : "two tensors",
                             r[i].begin > at ? at : r[i].begin);
        at = r[i].end;
    }
    if (at != len)
        return pare_fail(err, PARE_EFORMAT, "%zu bytes at the end belong to no tensor", len - at);
    return 0;
}

static int read_header(struct reader *r, json_t *root, struct pare_safetensors *st,
                       struct pare_err *err)
{
    size_t n = json_object_size(root);
    const char *key;
    json_t *value;

    if (!json_is_object(root))
        return pare_fail(err, PARE_EFORMAT, "the header is not an object");
    if (n > PARE_SAFETENSORS_ENTRIES)
        return pare_fail(err, PARE_ELIMIT, "the file has %zu entries, at most %zu are supported", n,
                         PARE_SAFETENSORS_ENTRIES);
    st->tensor = pare_alloc(r->arena, n, sizeof(*st->tensor));
    r->range = pare_alloc(r->arena, n, sizeof(*r->range));
    if (!st->tensor || !r->range)
        return pare_no_memory(err, "for %zu entries", n);
    json_object_foreach(root, key, value)
    {
        struct pare_named *e = &st->tensor[st->n_tensors];

        if (!strcmp(key, META)) {
            PARE_TRY(read_meta(r->arena, value, st, err));
            continue;
        }
        PARE_TRY(pare_at(err, read_tensor(r, value, &r->range[st->n_tensors], &e->t, err),
                         "tensor '%.128s'", key));
        e->name = pare_strdup(r->arena, key);
        if (!e->name)
            return pare_no_memory(err, "for %zu entries", n);
        st->n_tensors++;
    }
    return check_cover(r->range, (size_t)st->n_tensors, r->len, err);
}

int pare_safetensors_parse(struct pare_arena *a, const void *bytes, size_t len,
                           struct pare_safetensors *st, struct pare_err *err)
{
    const unsigned char *p = bytes;
    struct reader r = { .arena = a };
    uint64_t head = 0;
    json_error_t why;
    json_t *root;
    int rc;

    memset(st, 0, sizeof(*st));
    if (len < 8)
        return pare_fail(err, PARE_EFORMAT, "the file has %zu bytes, too few for a header", len);
    for (int i = 7; i >= 0; i--)
        head = head << 8 | p[i];
    if (head > PARE_SAFETENSORS_HEADER || head > len - 8)
        return pare_fail(err, PARE_EFORMAT,
                         "the header says it has %llu bytes, the file has %zu and at most %zu are "
                         "handled",
                         (unsigned long long)head, len - 8, PARE_SAFETENSORS_HEADER);
    if (!head || p[8] != '{')
        return pare_fail(err, PARE_EFORMAT, "the header does not start with '{'");
    root = json_loadb((const char *)p + 8, (size_t)head, JSON_REJECT_DUPLICATES, &why);
    if (!root)
        return pare_fail(err, PARE_EFORMAT, "the header is not JSON: byte %d: %.160s", why.position,
                         why.text);
    r.data = p + 8 + head;
    r.len = len - 8 - (size_t)head;
    rc = read_header(&r, root, st, err);
    json_decref(root);
    return rc;
}

int pare_safetensors_read(struct pare_arena *a, const char *path, struct pare_safetensors *st,
                          struct pare_err *err)
{
    const void *bytes;
    size_t len;
    int rc = pare_file_read(a, path, &bytes, &len, err);

    if (!rc)
        rc = pare_safetensors_parse(a, bytes, len, st, err);
    return pare_at(err, rc, "%s", path);
}

/* ---- writing ------------------------------------------------------------------ */

struct writer {
    struct pare_arena *arena;
    const struct pare_safetensors *st;
    json_t *root;
    struct pare_bytes *part; /* header length, header, bytes of the tensors */
    struct range *range;
    int n_parts;
};

static const char *type_name(enum pare_dtype d)
{
    for (size_t i = 0; i < N_TYPES; i++)
        if (types[i].dtype == d)
            return types[i].name;
    return NULL;
}

/* Assign each tensor its offset. */
static int assign_offsets(struct writer *w, struct pare_err *err)
{
    const struct pare_safetensors *st = w->st;
    size_t at = 0;

    for (int i = 0; i < st->n_tensors; i++)
        if (!type_name(st->tensor[i].t.dtype))
            return pare_fail(err, PARE_EUNSUPPORTED,
                             "tensor '%s' is %s, which .safetensors does not have",
                             st->tensor[i].name, pare_dtype_name(st->tensor[i].t.dtype));
    for (size_t size = 8; size; size /= 2)
        for (int i = 0; i < st->n_tensors; i++) {
            const struct pare_tensor *t = &st->tensor[i].t;
            int64_t numel;
            size_t bytes;

            if (pare_dtype_size(t->dtype) != size)
                continue;
            PARE_TRY(pare_tensor_size(t, &numel, &bytes, err));
            w->range[i] = (struct range){ at, at + bytes };
            w->part[w->n_parts++] = (struct pare_bytes){ t->data, bytes };
            at += bytes;
        }
    return 0;
}

static int add_tensor(struct writer *w, int i, struct pare_err *err)
{
    const struct pare_named *e = &w->st->tensor[i];
    json_t *shape = json_array(), *o;

    if (!strcmp(e->name, META) || json_object_get(w->root, e->name)) {
        json_decref(shape);
        return pare_fail(err, PARE_ECONFIG, "two tensors are named '%s', or the name is reserved",
                         e->name);
    }
    for (int k = 0; k < e->t.rank; k++)
        json_array_append_new(shape, json_integer(e->t.dim[k]));
    o = json_pack("{s:s, s:o, s:[I, I]}", "dtype", type_name(e->t.dtype), "shape", shape,
                  "data_offsets", (json_int_t)w->range[i].begin, (json_int_t)w->range[i].end);
    if (json_object_set_new(w->root, e->name, o))
        return pare_fail(err, PARE_EFORMAT, "'%s' cannot be a name: it is not UTF-8", e->name);
    return 0;
}

static int add_meta(struct writer *w, struct pare_err *err)
{
    json_t *o = json_object();

    json_object_set_new(w->root, META, o);
    for (int i = 0; i < w->st->n_meta; i++) {
        const struct pare_meta *m = &w->st->meta[i];

        if (json_object_set_new(o, m->key, json_string(m->value)))
            return pare_fail(err, PARE_EFORMAT, "'%s' cannot be written: it is not UTF-8", m->key);
    }
    return 0;
}

/* The header length and the header, padded with blanks to a multiple of 64. */
static int pack_header(struct writer *w, struct pare_err *err)
{
    size_t len = json_dumpb(w->root, NULL, 0, JSON_COMPACT), full = (len + 8 + 63) / 64 * 64;
    unsigned char *p;

    if (!len || full > PARE_SAFETENSORS_HEADER)
        return pare_fail(err, PARE_ELIMIT, "a header of %zu bytes, at most %zu are supported", full,
                         PARE_SAFETENSORS_HEADER);
    p = pare_alloc_raw(w->arena, full, 1);
    if (!p)
        return pare_no_memory(err, "for a header of %zu bytes", full);
    memset(p, ' ', full);
    for (int i = 0; i < 8; i++)
        p[i] = (unsigned char)((uint64_t)(full - 8) >> (8 * i));
    json_dumpb(w->root, (char *)p + 8, len, JSON_COMPACT);
    w->part[0] = (struct pare_bytes){ p, full };
    return 0;
}

static int make_parts(struct writer *w, struct pare_err *err)
{
    size_t n = (size_t)w->st->n_tensors;

    w->part = pare_alloc(w->arena, n + 1, sizeof(*w->part));
    w->range = pare_alloc(w->arena, n, sizeof(*w->range));
    if (!w->part || !w->range || !w->root)
        return pare_no_memory(err, "for %zu tensors", n);
    w->n_parts = 1;
    PARE_TRY(assign_offsets(w, err));
    if (w->st->n_meta)
        PARE_TRY(add_meta(w, err));
    for (int i = 0; i < w->st->n_tensors; i++)
        PARE_TRY(add_tensor(w, i, err));
    return pack_header(w, err);
}

int pare_safetensors_write(const char *path, const struct pare_safetensors *st,
                           struct pare_err *err)
{
    struct writer w = { .arena = pare_arena_new(1 << 16), .st = st, .root = json_object() };
    int rc;

    rc = w.arena ? make_parts(&w, err) : pare_no_memory(err, "to write a file");
    if (!rc)
        rc = pare_file_write_parts(path, w.part, w.n_parts, err);
    json_decref(w.root);
    pare_arena_free(w.arena);
    return pare_at(err, rc, "%s", path);
}

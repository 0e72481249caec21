/* pickle_calls.c - globals that a pickle may use: dicts, tensors, parameters, storages. */
#include <string.h>

#include "../base/arena.h"
#include "../tensor/tensor.h"
#include "pickle_machine.h"

static int make_dict(struct pare_machine *m, const struct pare_batch_check *args,
                     struct pare_pickled *out)
{
    if (args->n)
        return pare_pickle_bad(m, "collections.OrderedDict has arguments");
    return pare_pickle_items(m, PARE_PICKLED_DICT, out);
}

static bool is_count(const struct pare_pickled *v)
{
    return v->kind == PARE_PICKLED_INT && v->i >= 0;
}

/* Check that the last element is inside the storage; an empty tensor needs none. */
static int check_reach(struct pare_machine *m, const struct pare_strided *s)
{
    struct pare_tensor t = { .dtype = s->storage->dtype, .rank = s->rank };
    int64_t last = s->offset, step, numel;
    char shape[PARE_SHAPE_TEXT];
    bool over = false;
    size_t bytes;

    memcpy(t.dim, s->dim, sizeof(t.dim));
    PARE_TRY(pare_tensor_size(&t, &numel, &bytes, m->err));
    if (!numel)
        return 0;
    for (int i = 0; i < s->rank; i++)
        over = over || __builtin_mul_overflow(s->dim[i] - 1, s->stride[i], &step) ||
               __builtin_add_overflow(last, step, &last);
    if (over || last >= s->storage->numel)
        return pare_fail(m->err, PARE_EFORMAT,
                         "a tensor of shape %s does not lie inside its storage '%s' of %lld "
                         "elements",
                         pare_shape_text(&t, shape, sizeof(shape)), s->storage->key,
                         (long long)s->storage->numel);
    if (last >= s->storage->reach)
        s->storage->reach = last + 1;
    return 0;
}

/* (storage, offset, sizes, strides, requires_grad, hooks[, metadata]) */
static int make_tensor(struct pare_machine *m, const struct pare_batch_check *args,
                       struct pare_pickled *out)
{
    const struct pare_pickled *v = args->item;
    struct pare_strided *s;

    if (args->n < 6 || args->n > 7 || v[0].kind != PARE_PICKLED_STORAGE || !is_count(&v[1]) ||
        v[2].kind != PARE_PICKLED_TUPLE || v[3].kind != PARE_PICKLED_TUPLE ||
        v[2].items->n != v[3].items->n)
        return pare_pickle_bad(m,
                               "a tensor does not consist of storage, offset, sizes and strides");
    if (v[2].items->n > PARE_MAX_RANK)
        return pare_fail(m->err, PARE_ELIMIT,
                         "a tensor has %d dimensions, at most %d are supported", v[2].items->n,
                         PARE_MAX_RANK);
    s = pare_pickle_object(m, sizeof(*s));
    if (!s)
        return m->err->code;
    s->storage = v[0].storage;
    s->offset = v[1].i;
    s->rank = v[2].items->n;
    for (int i = 0; i < s->rank; i++) {
        const struct pare_pickled *d = &v[2].items->item[i], *e = &v[3].items->item[i];

        if (!is_count(d) || !is_count(e))
            return pare_pickle_bad(m, "a size or stride of a tensor is not a count");
        s->dim[i] = d->i;
        s->stride[i] = e->i;
    }
    *out = (struct pare_pickled){ .kind = PARE_PICKLED_TENSOR, .tensor = s };
    return check_reach(m, s);
}

/* (tensor, requires_grad, hooks[, state]) */
static int make_parameter(struct pare_machine *m, const struct pare_batch_check *args,
                          struct pare_pickled *out)
{
    if (args->n < 3 || args->n > 4 || args->item[0].kind != PARE_PICKLED_TENSOR)
        return pare_pickle_bad(m, "a parameter does not contain a tensor");
    *out = args->item[0];
    return 0;
}

static const struct pare_global globals[] = {
    { "collections", "OrderedDict", make_dict, PARE_NONE },
    { "torch._utils", "_rebuild_tensor_v2", make_tensor, PARE_NONE },
    { "torch._utils", "_rebuild_parameter", make_parameter, PARE_NONE },
    { "torch._utils", "_rebuild_parameter_with_state", make_parameter, PARE_NONE },
    { "torch", "FloatStorage", NULL, PARE_F32 },
    { "torch", "HalfStorage", NULL, PARE_F16 },
    { "torch", "DoubleStorage", NULL, PARE_F64 },
    { "torch", "LongStorage", NULL, PARE_I64 },
    { "torch", "IntStorage", NULL, PARE_I32 },
    { "torch", "ShortStorage", NULL, PARE_I16 },
    { "torch", "CharStorage", NULL, PARE_I8 },
    { "torch", "ByteStorage", NULL, PARE_U8 },
    { "torch", "BoolStorage", NULL, PARE_BOOL },
    { "torch", "BFloat16Storage", NULL, PARE_BF16 },
};

static bool same(struct pare_str s, const char *text)
{
    return s.len == strlen(text) && !memcmp(s.s, text, s.len);
}

/* A string from the file for a message: short and without control characters. */
static const char *quote(struct pare_str s, char buf[64])
{
    size_t n = s.len < 63 ? s.len : 63;

    for (size_t i = 0; i < n; i++)
        buf[i] = s.s[i] >= ' ' && s.s[i] <= '~' ? s.s[i] : '?';
    buf[n] = '\0';
    return buf;
}

int pare_pickle_global(struct pare_machine *m, struct pare_str module, struct pare_str name,
                       struct pare_pickled *v)
{
    char a[64], b[64];

    for (size_t i = 0; i < sizeof(globals) / sizeof(*globals); i++)
        if (same(module, globals[i].module) && same(name, globals[i].name)) {
            *v = (struct pare_pickled){ .kind = PARE_PICKLED_GLOBAL, .global = &globals[i] };
            return 0;
        }
    return pare_fail(
        m->err, PARE_EUNSUPPORTED,
        "the pickle uses %s.%s, but only tensors and plain data are supported; nothing "
        "was executed",
        quote(module, a), quote(name, b));
}

/* A key is the name of a file in the archive; Python numbers them: "0", "1", ... */
static bool is_key(struct pare_str s)
{
    for (size_t i = 0; i < s.len; i++)
        if (s.s[i] <= ' ' || s.s[i] > '~')
            return false;
    return s.len > 0;
}

static struct pare_storage *new_storage(struct pare_machine *m, const char *key,
                                        const struct pare_pickled *id)
{
    struct pare_pickle *p = m->out;
    struct pare_storage *s = pare_pickle_object(m, sizeof(*s));

    if (!s)
        return NULL;
    if (p->n_storages == PARE_PICKLE_STORAGES) {
        pare_fail(m->err, PARE_ELIMIT, "the pickle has more than %d storages, which is the limit",
                  PARE_PICKLE_STORAGES);
        return NULL;
    }
    s->key = pare_strdup(m->arena, key);
    s->dtype = id[1].global->dtype;
    s->numel = id[4].i;
    p->storage = pare_grow(m->arena, p->storage, p->n_storages, &p->cap, sizeof(s));
    if (!p->storage || !s->key) {
        pare_pickle_no_memory(m);
        return NULL;
    }
    p->storage[p->n_storages++] = s;
    return pare_map_set(&m->keys, m->arena, s->key, s, m->err) ? NULL : s;
}

/* ("storage", type, key, device, number of elements); the same key is the same storage. */
int pare_pickle_storage(struct pare_machine *m, const struct pare_pickled *id,
                        struct pare_pickled *v)
{
    const struct pare_pickled *t;
    struct pare_storage *s;
    char key[PARE_PICKLE_KEY + 1] = "";

    t = id->kind == PARE_PICKLED_TUPLE && id->items->n >= 5 ? id->items->item : NULL;
    if (!t || t[0].kind != PARE_PICKLED_TEXT || !same(t[0].text, "storage") ||
        t[1].kind != PARE_PICKLED_GLOBAL || !t[1].global->dtype || t[2].kind != PARE_PICKLED_TEXT ||
        !is_key(t[2].text) || !is_count(&t[4]))
        return pare_pickle_bad(m, "a storage does not consist of type, key and number of elements");
    if (t[2].text.len > PARE_PICKLE_KEY)
        return pare_fail(m->err, PARE_ELIMIT,
                         "a storage's key has %zu bytes, at most %d are supported",
                         (size_t)t[2].text.len, PARE_PICKLE_KEY);
    memcpy(key, t[2].text.s, t[2].text.len);
    s = pare_map_get(&m->keys, key);
    if (!s)
        s = new_storage(m, key, t);
    if (!s)
        return m->err->code;
    if (s->dtype != t[1].global->dtype || s->numel != t[4].i)
        return pare_fail(m->err, PARE_EFORMAT, "storage '%s' is described in two ways", key);
    *v = (struct pare_pickled){ .kind = PARE_PICKLED_STORAGE, .storage = s };
    return 0;
}

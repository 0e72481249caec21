/* pth.c - read PyTorch's .pth files.
 *
 * First the pickle, which describes the storages and how much of each tensors use; then that part
 * of the storages; then the named tensors, as views if they are row-major.
 */
#include "pth.h"

#include <stdio.h>
#include <string.h>

#include "../base/arena.h"
#include "../base/map.h"
#include "../tensor/tensor.h"
#include "file.h"
#include "pickle.h"
#include "zip_read.h"

struct reader {
    struct pare_arena *arena, *scratch; /* for the result; freed after reading */
    const struct pare_zip *z;
    const char *root;                 /* the folder in the archive, including its slash */
    size_t file, stored, grown, kept; /* bytes: of the file, stored, unpacked, of storages */
    size_t copied;                    /* bytes of tensors that are copies */
    struct pare_pickle pickle;
    struct pare_map names;
    char name[PARE_PTH_NAME];
    int visits, cap, none_cap;
    struct pare_pth *out;
};

/* ---- the archive ------------------------------------------------------------------ */

static int no_memory(size_t bytes, struct pare_err *err)
{
    return pare_no_memory(err, "for %zu bytes", bytes);
}

/* Find the folder of data.pkl, or report what kind of archive it is instead. */
static int find_root(struct reader *r, struct pare_err *err)
{
    for (int i = 0; i < r->z->n; i++) {
        const char *name = r->z->item[i].name, *slash = strchr(name, '/');

        if (!slash)
            continue;
        if (!strcmp(slash, "/constants.pkl") || !strncmp(slash, "/code/", 6))
            return pare_fail(err, PARE_EUNSUPPORTED,
                             "a TorchScript archive; save the state_dict() of the module instead");
        if (r->root || strcmp(slash, "/data.pkl") != 0)
            continue;
        r->root = pare_strndup(r->scratch, name, (size_t)(slash - name) + 1);
        if (!r->root)
            return no_memory(strlen(name), err);
    }
    if (!r->root)
        return pare_fail(err, PARE_EFORMAT, "a zip file without data.pkl, so not from torch.save");
    return 0;
}

static int find_entry(struct reader *r, const char *name, const struct pare_zip_item **e,
                      struct pare_err *err)
{
    const char *full = pare_sprintf(r->scratch, "%s%s", r->root, name);

    if (!full)
        return no_memory(strlen(name), err);
    *e = pare_zip_find(r->z, full);
    return *e ? 0 : pare_fail(err, PARE_EFORMAT, "the entry %s is missing", name);
}

static int read_pickle(struct reader *r, struct pare_err *err)
{
    const struct pare_zip_item *e;
    void *p;

    PARE_TRY(find_entry(r, "data.pkl", &e, err));
    if (e->size > PARE_PICKLE_MAX)
        return pare_fail(err, PARE_ELIMIT, "data.pkl has %llu bytes, at most %zu are supported",
                         (unsigned long long)e->size, PARE_PICKLE_MAX);
    p = pare_alloc_raw(r->scratch, (size_t)e->size, 1);
    if (!p)
        return no_memory((size_t)e->size, err);
    PARE_TRY(pare_at(err, pare_zip_read(r->z, e, p, (size_t)e->size, err), "data.pkl"));
    return pare_pickle_parse(r->scratch, p, (size_t)e->size, &r->pickle, err);
}

/* Files since 2022 record their byte order. */
static int check_order(struct reader *r, struct pare_err *err)
{
    char order[7] = "";
    struct pare_err none;
    const struct pare_zip_item *e;
    int rc = find_entry(r, "byteorder", &e, &none);

    if (rc)
        return rc == PARE_ENOMEM ? no_memory(sizeof(order), err) : 0;
    if (e->size >= sizeof(order) || pare_zip_read(r->z, e, order, (size_t)e->size, &none) ||
        strcmp(order, "little") != 0)
        return pare_fail(err, PARE_EUNSUPPORTED, "the byte order is not 'little'");
    return 0;
}

/* ---- storages --------------------------------------------------------------------- */

static int check_bools(const unsigned char *p, size_t n, struct pare_err *err)
{
    unsigned char any = 0;

    for (size_t i = 0; i < n; i++)
        any |= p[i];
    if (any > 1)
        return pare_fail(err, PARE_EFORMAT, "a bool is neither 0 nor 1");
    return 0;
}

/* Stored entries do not overlap, so their total is at most the size of the file; compressed
 * entries have their own limit. */
static int count_bytes(struct reader *r, bool packed, size_t bytes, struct pare_err *err)
{
    size_t *sum = packed ? &r->grown : &r->stored, limit = packed ? PARE_MAX_GROWTH : r->file;

    if (bytes > limit - *sum)
        return pare_fail(err, PARE_ELIMIT, "more than %zu bytes %s", limit,
                         packed ? "when unpacked, which is the limit"
                                : "are needed, and the file has no more");
    *sum += bytes;
    r->kept = (r->kept + 63) / 64 * 64 + bytes;
    return 0;
}

/* The used part of a storage, and its entry in the archive. */
struct piece {
    struct pare_storage *storage;
    const struct pare_zip_item *entry;
    size_t bytes, at; /* at: offset in the block of all storages */
};

static int find_piece(struct reader *r, struct pare_storage *s, struct piece *p,
                      struct pare_err *err)
{
    size_t size = pare_dtype_size(s->dtype);
    const char *name = pare_sprintf(r->scratch, "data/%s", s->key);

    if (!name)
        return no_memory(sizeof(*p), err);
    PARE_TRY(find_entry(r, name, &p->entry, err));
    if ((uint64_t)s->numel > SIZE_MAX / size || p->entry->size != (uint64_t)s->numel * size)
        return pare_fail(err, PARE_EFORMAT,
                         "%llu bytes, but the pickle has %lld elements of %zu bytes",
                         (unsigned long long)p->entry->size, (long long)s->numel, size);
    p->storage = s;
    p->bytes = (size_t)s->reach * size;
    p->at = (r->kept + 63) / 64 * 64;
    return count_bytes(r, p->entry->method != 0, p->bytes, err);
}

static int read_piece(struct reader *r, const struct piece *p, void *to, struct pare_err *err)
{
    PARE_TRY(pare_zip_read(r->z, p->entry, to, p->bytes, err));
    p->storage->data = to;
    return p->storage->dtype == PARE_BOOL ? check_bools(to, p->bytes, err) : 0;
}

static int read_storages(struct reader *r, struct pare_err *err)
{
    struct piece *p = pare_alloc(r->scratch, (size_t)r->pickle.n_storages, sizeof(*p));
    char *block;
    int n = 0;

    if (!p)
        return no_memory(sizeof(*p), err);
    for (int i = 0; i < r->pickle.n_storages; i++) {
        struct pare_storage *s = r->pickle.storage[i];

        if (s->reach)
            PARE_TRY(pare_at(err, find_piece(r, s, &p[n++], err), "storage '%s'", s->key));
    }
    block = pare_file_block(r->arena, r->kept);
    if (!block)
        return no_memory(r->kept, err);
    for (int i = 0; i < n; i++)
        PARE_TRY(pare_at(err, read_piece(r, &p[i], block + p[i].at, err), "storage '%s'",
                         p[i].storage->key));
    return 0;
}

/* ---- tensors ---------------------------------------------------------------------- */

/* Drop dimensions of one element and merge contiguous neighbors: a row-major tensor becomes a
 * single dimension of stride 1. */
static struct pare_strided merge_dims(const struct pare_strided *s)
{
    struct pare_strided m = { .storage = s->storage, .offset = s->offset };

    for (int i = 0; i < s->rank; i++) {
        if (s->dim[i] == 1)
            continue;
        if (m.rank && m.stride[m.rank - 1] == s->stride[i] * s->dim[i]) {
            m.dim[m.rank - 1] *= s->dim[i];
            m.stride[m.rank - 1] = s->stride[i];
            continue;
        }
        m.dim[m.rank] = s->dim[i];
        m.stride[m.rank++] = s->stride[i];
    }
    return m;
}

/* Copy n elements at a distance of `step` bytes. */
static void copy_row(char *to, const char *from, int64_t n, size_t step, size_t size)
{
    if (step == size) {
        memcpy(to, from, (size_t)n * size);
        return;
    }
    for (int64_t i = 0; i < n; i++, to += size, from += step)
        switch (size) {
        case 1: *to = *from; break;
        case 2: memcpy(to, from, 2); break;
        case 4: memcpy(to, from, 4); break;
        default: memcpy(to, from, 8); break;
        }
}

static void copy_strided(char *to, const struct pare_strided *m, size_t size)
{
    int64_t at[PARE_MAX_RANK] = { 0 }, row = m->dim[m->rank - 1], from = m->offset;
    const char *data = m->storage->data;
    int k;

    do {
        copy_row(to, data + (size_t)from * size, row, (size_t)m->stride[m->rank - 1] * size, size);
        to += (size_t)row * size;
        for (k = m->rank - 2; k >= 0; k--) { /* increment the index, last dimension first */
            from += m->stride[k];
            if (++at[k] < m->dim[k])
                break;
            from -= m->stride[k] * m->dim[k];
            at[k] = 0;
        }
    } while (k >= 0);
}

static int make_tensor(struct reader *r, const struct pare_strided *s, struct pare_tensor *t,
                       struct pare_err *err)
{
    size_t size = pare_dtype_size(s->storage->dtype), bytes, limit = r->kept + PARE_MAX_GROWTH;
    struct pare_strided m;
    int64_t numel;

    *t = (struct pare_tensor){ .dtype = s->storage->dtype, .rank = s->rank };
    memcpy(t->dim, s->dim, sizeof(t->dim));
    PARE_TRY(pare_tensor_size(t, &numel, &bytes, err));
    if (!numel)
        return pare_tensor_alloc(r->arena, t, err);
    m = merge_dims(s);
    if (!m.rank || (m.rank == 1 && m.stride[0] == 1)) {
        t->data = (char *)s->storage->data + (size_t)s->offset * size;
        return 0;
    }
    if (bytes > limit - r->copied)
        return pare_fail(err, PARE_ELIMIT,
                         "the tensors have more than %zu bytes when their strides are resolved, "
                         "which is the limit",
                         limit);
    r->copied += bytes;
    PARE_TRY(pare_tensor_alloc(r->arena, t, err));
    copy_strided(t->data, &m, size);
    return 0;
}

/* ---- names ------------------------------------------------------------------------ */

static int add_tensor(struct reader *r, const char *name, const struct pare_strided *s,
                      struct pare_err *err)
{
    struct pare_pth *p = r->out;
    struct pare_named *e;

    if (pare_map_get(&r->names, name))
        return pare_fail(err, PARE_EFORMAT, "two tensors are named '%.128s'", name);
    p->tensor = pare_grow(r->arena, p->tensor, p->n_tensors, &r->cap, sizeof(*e));
    if (!p->tensor)
        return no_memory(sizeof(*e), err);
    e = &p->tensor[p->n_tensors++];
    e->name = pare_strdup(r->arena, name);
    if (!e->name)
        return no_memory(strlen(name), err);
    PARE_TRY(pare_map_set(&r->names, r->scratch, e->name, p, err));
    return pare_at(err, make_tensor(r, s, &e->t, err), "tensor '%.128s'", name);
}

static int add_none(struct reader *r, const char *name, struct pare_err *err)
{
    struct pare_pth *p = r->out;

    p->none = pare_grow(r->arena, p->none, p->n_none, &r->none_cap, sizeof(*p->none));
    if (!p->none)
        return no_memory(sizeof(*p->none), err);
    p->none[p->n_none] = pare_strdup(r->arena, name);
    return p->none[p->n_none++] ? 0 : no_memory(strlen(name), err);
}

/* Append ".key" to the first `len` bytes of the name. */
static int append_key(struct reader *r, size_t *len, const struct pare_pickled *key, int i,
                      struct pare_err *err)
{
    const char *dot = *len ? "." : "";
    size_t room = sizeof(r->name) - *len;
    int n = -1;

    if (key && key->kind != PARE_PICKLED_TEXT && key->kind != PARE_PICKLED_INT)
        return pare_fail(err, PARE_EUNSUPPORTED,
                         "a dict has a key that is neither a string nor a number");
    if (!key || key->kind == PARE_PICKLED_INT)
        n = snprintf(r->name + *len, room, "%s%lld", dot, key ? (long long)key->i : i);
    else if (key->text.len < room && (!key->text.len || !memchr(key->text.s, 0, key->text.len)))
        n = snprintf(r->name + *len, room, "%s%.*s", dot, (int)key->text.len, key->text.s);
    if (n < 0 || (size_t)n >= room)
        return pare_fail(err, PARE_ELIMIT, "a name has more than %zu bytes, or a zero in it",
                         sizeof(r->name) - 1);
    *len += (size_t)n;
    return 0;
}

/* Add all tensors in v, whose name is the first `len` bytes.  The depth limit ends self-containing
 * objects, the limit of visits ends repeatedly shared ones. */
static int add_tensors_of(struct reader *r, size_t len, const struct pare_pickled *v, int depth,
                          struct pare_err *err)
{
    const bool dict = v->kind == PARE_PICKLED_DICT;

    if (v->kind == PARE_PICKLED_TENSOR)
        return add_tensor(r, depth ? r->name : "tensor", v->tensor, err);
    if (v->kind == PARE_PICKLED_NONE)
        return add_none(r, r->name, err);
    if (!dict && v->kind != PARE_PICKLED_LIST && v->kind != PARE_PICKLED_TUPLE)
        return 0;
    if (depth == PARE_PTH_DEPTH)
        return pare_fail(err, PARE_ELIMIT, "dicts and lists are nested deeper than %d",
                         PARE_PTH_DEPTH);
    for (int i = 0; i < v->items->n; i += 1 + dict) {
        const struct pare_pickled *e = &v->items->item[i];
        size_t sub = len;

        if (++r->visits > PARE_PTH_NAMES)
            return pare_fail(err, PARE_ELIMIT, "more than %d names, which is the limit",
                             PARE_PTH_NAMES);
        PARE_TRY(append_key(r, &sub, dict ? e : NULL, i, err));
        PARE_TRY(add_tensors_of(r, sub, e + dict, depth + 1, err));
    }
    return 0;
}

/* The state dict: the whole file, or the member of a training script's checkpoint. */
static const struct pare_pickled *find_state(const struct pare_pickled *root)
{
    static const char *const keys[] = { "state_dict", "model_state_dict" };

    for (int i = 0; root->kind == PARE_PICKLED_DICT && i < root->items->n; i += 2) {
        const struct pare_pickled *k = &root->items->item[i];

        for (size_t j = 0; j < sizeof(keys) / sizeof(*keys); j++)
            if (k->kind == PARE_PICKLED_TEXT && k->text.len == strlen(keys[j]) &&
                !memcmp(k->text.s, keys[j], k->text.len) && k[1].kind == PARE_PICKLED_DICT)
                return k + 1;
    }
    return root;
}

/* ---- files ------------------------------------------------------------------------ */

static int read_all(struct reader *r, struct pare_err *err)
{
    const struct pare_pickled *root = &r->pickle.root;

    PARE_TRY(find_root(r, err));
    PARE_TRY(check_order(r, err));
    PARE_TRY(read_pickle(r, err));
    if (root->kind != PARE_PICKLED_DICT && root->kind != PARE_PICKLED_LIST &&
        root->kind != PARE_PICKLED_TUPLE && root->kind != PARE_PICKLED_TENSOR)
        return pare_fail(err, PARE_EFORMAT, "the file has no tensors");
    PARE_TRY(read_storages(r, err));
    return add_tensors_of(r, 0, find_state(root), 0, err);
}

static int read_zip(struct pare_arena *a, const struct pare_zip *z, struct pare_pth *p,
                    struct pare_err *err)
{
    struct reader r = { .arena = a, .z = z, .file = z->len, .out = p };
    int rc;

    memset(p, 0, sizeof(*p));
    r.scratch = pare_arena_new(1 << 16);
    rc = r.scratch ? read_all(&r, err) : no_memory(1 << 16, err);
    pare_arena_free(r.scratch);
    return rc;
}

/* Files from before 2020 are a sequence of pickles, the first of which is this number. */
static int check_magic(const void *head, size_t len, struct pare_err *err)
{
    static const unsigned char old[] = { 0x80, 0x02, 0x8a, 0x0a, 0x6c, 0xfc, 0x9c,
                                         0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19 };

    if (len >= sizeof(old) && !memcmp(head, old, sizeof(old)))
        return pare_fail(err, PARE_EUNSUPPORTED,
                         "the format of PyTorch before 1.6; load it with torch.load and save it "
                         "again with a newer torch.save");
    if (len < 4 || memcmp(head, "PK", 2) != 0)
        return pare_fail(err, PARE_EFORMAT, "not a file of torch.save: it is not a zip archive");
    return 0;
}

int pare_pth_parse(struct pare_arena *a, const void *bytes, size_t len, struct pare_pth *p,
                   struct pare_err *err)
{
    struct pare_zip z;
    int rc;

    PARE_TRY(check_magic(bytes, len, err));
    rc = pare_zip_parse(bytes, len, &z, err);
    if (!rc)
        rc = pare_zip_check(&z, err);
    if (!rc)
        rc = read_zip(a, &z, p, err);
    pare_zip_close(&z);
    return rc;
}

int pare_pth_read(struct pare_arena *a, const char *path, struct pare_pth *p, struct pare_err *err)
{
    unsigned char head[16];
    struct pare_file_metadata f;
    struct pare_zip z = { 0 };
    int rc;

    memset(p, 0, sizeof(*p));
    rc = pare_file_look(path, head, sizeof(head), &f, err);
    if (!rc)
        rc = check_magic(head, f.head, err);
    if (!rc)
        rc = pare_zip_open(path, &z, err);
    if (!rc)
        rc = pare_zip_check(&z, err);
    if (!rc)
        rc = read_zip(a, &z, p, err);
    pare_zip_close(&z);
    return pare_at(err, rc, "%s", path);
}

int pare_pth_looks(const char *path, bool *found, struct pare_err *err)
{
    struct pare_zip z;
    int rc = pare_zip_open(path, &z, err);

    *found = false;
    for (int i = 0; !rc && i < z.n && !*found; i++) {
        const char *slash = strchr(z.item[i].name, '/');

        *found = slash && (!strcmp(slash, "/data.pkl") || !strcmp(slash, "/constants.pkl"));
    }
    pare_zip_close(&z);
    return rc == PARE_ENOMEM ? rc : 0;
}

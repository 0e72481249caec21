/* pth_write.c - write PyTorch's .pth files: the tensors, and a pickle that describes them. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "../base/arena.h"
#include "../base/map.h"
#include "../tensor/tensor.h"
#include "pth.h"
#include "zip_store.h"

#define ROOT "archive/" /* torch.load accepts any name */

/* Globals and strings that the pickle repeats; a string has module NULL.  From WORD_TYPES on:
 * storage types. */
enum { WORD_DICT, WORD_TENSOR, WORD_STORAGE, WORD_CPU, WORD_TYPES };

static const struct {
    const char *module, *name;
    enum pare_dtype dtype;
} words[] = {
    { "collections", "OrderedDict", PARE_NONE },
    { "torch._utils", "_rebuild_tensor_v2", PARE_NONE },
    { NULL, "storage", PARE_NONE },
    { NULL, "cpu", PARE_NONE },
    { "torch", "FloatStorage", PARE_F32 },
    { "torch", "HalfStorage", PARE_F16 },
    { "torch", "DoubleStorage", PARE_F64 },
    { "torch", "LongStorage", PARE_I64 },
    { "torch", "IntStorage", PARE_I32 },
    { "torch", "ShortStorage", PARE_I16 },
    { "torch", "CharStorage", PARE_I8 },
    { "torch", "ByteStorage", PARE_U8 },
    { "torch", "BoolStorage", PARE_BOOL },
    { "torch", "BFloat16Storage", PARE_BF16 },
};
#define N_WORDS (int)(sizeof(words) / sizeof(*words))

struct writer {
    struct pare_arena *arena;
    const struct pare_named *list;
    int n;
    struct pare_zip_entry *entry;
    unsigned char *p; /* the pickle */
    size_t len, cap;
    int memo[N_WORDS], n_memo; /* memo number of a word + 1; 0: not yet written */
    bool failed;
};

/* ---- pickling --------------------------------------------------------------------- */

static void put(struct writer *w, const void *bytes, size_t n)
{
    if (w->failed)
        return;
    if (n > w->cap - w->len) {
        size_t cap = 2 * (w->cap + n) + 4096;
        unsigned char *p = pare_alloc_raw(w->arena, cap, 1);

        if (!p) {
            w->failed = true;
            return;
        }
        if (w->len)
            memcpy(p, w->p, w->len);
        w->p = p;
        w->cap = cap;
    }
    memcpy(w->p + w->len, bytes, n);
    w->len += n;
}

static void put_code(struct writer *w, const char *codes)
{
    put(w, codes, strlen(codes));
}

/* An opcode and a little-endian number of n bytes. */
static void put_number(struct writer *w, char code, uint64_t v, int n)
{
    unsigned char b[16] = { (unsigned char)code };

    for (int i = 0; i < n; i++)
        b[i + 1] = (unsigned char)(v >> (8 * i));
    put(w, b, (size_t)n + 1);
}

static void put_int(struct writer *w, int64_t v)
{
    if (v <= UINT8_MAX) {
        put_number(w, 'K', (uint64_t)v, 1);
    } else if (v <= INT32_MAX) {
        put_number(w, 'J', (uint64_t)v, 4);
    } else {
        put_code(w, "\x8a");
        put_number(w, 8, (uint64_t)v, 8);
    }
}

static void put_text(struct writer *w, const char *s, size_t n)
{
    put_number(w, 'X', n, 4);
    put(w, s, n);
}

/* Written in full the first time, then by its memo number. */
static void put_word(struct writer *w, int i)
{
    if (w->memo[i]) {
        put_number(w, 'h', (uint64_t)w->memo[i] - 1, 1);
        return;
    }
    if (words[i].module) {
        put_code(w, "c");
        put_code(w, words[i].module);
        put_code(w, "\n");
        put_code(w, words[i].name);
        put_code(w, "\n");
    } else {
        put_text(w, words[i].name, strlen(words[i].name));
    }
    put_number(w, 'q', (uint64_t)w->n_memo, 1);
    w->memo[i] = ++w->n_memo;
}

static void put_tuple(struct writer *w, const int64_t *v, int n)
{
    put_code(w, "(");
    for (int i = 0; i < n; i++)
        put_int(w, v[i]);
    put_code(w, "t");
}

static int word_of(enum pare_dtype d)
{
    for (int i = WORD_TYPES; i < N_WORDS; i++)
        if (words[i].dtype == d)
            return i;
    return 0;
}

/* _rebuild_tensor_v2(storage, 0, sizes, strides, False, OrderedDict()), where the storage is
 * ("storage", type, key, "cpu", number of elements). */
static void put_tensor(struct writer *w, int i)
{
    const struct pare_tensor *t = &w->list[i].t;
    int64_t stride[PARE_MAX_RANK], step = 1;
    char key[16];

    for (int k = t->rank - 1; k >= 0; k--) {
        stride[k] = step;
        step *= t->dim[k] ? t->dim[k] : 1;
    }
    snprintf(key, sizeof(key), "%d", i);
    put_word(w, WORD_TENSOR);
    put_code(w, "((");
    put_word(w, WORD_STORAGE);
    put_word(w, word_of(t->dtype));
    put_text(w, key, strlen(key));
    put_word(w, WORD_CPU);
    put_int(w, pare_numel(t));
    put_code(w, "tQ");
    put_int(w, 0);
    put_tuple(w, t->dim, t->rank);
    put_tuple(w, stride, t->rank);
    put_code(w, "\x89");
    put_word(w, WORD_DICT);
    put_code(w, ")RtR");
}

static void put_state(struct writer *w)
{
    put_word(w, WORD_DICT);
    put_code(w, ")R(");
    for (int i = 0; i < w->n; i++) {
        put_text(w, w->list[i].name, strlen(w->list[i].name));
        put_tensor(w, i);
    }
    put_code(w, "u");
}

/* ---- masks ------------------------------------------------------------------------ */

/* The masks of a layer: their indices in the list; -1: none. */
struct layer {
    const char *name;
    int weight, bias;
};

static int find_layers(struct writer *w, struct layer **layers, int *n, struct pare_err *err)
{
    struct pare_map known = { 0 };

    *layers = pare_alloc(w->arena, (size_t)w->n, sizeof(**layers));
    if (!*layers)
        return pare_no_memory(err, "for %d masks", w->n);
    *n = 0;
    for (int i = 0; i < w->n; i++) {
        const char *full = w->list[i].name, *dot = strrchr(full, '.'), *name;
        bool bias = dot && !strcmp(dot, ".bias");
        struct layer *l;

        if (!dot || (!bias && strcmp(dot, ".weight") != 0))
            return pare_fail(err, PARE_ECONFIG,
                             "the mask '%s' is named neither LAYER.weight nor LAYER.bias", full);
        name = pare_strndup(w->arena, full, (size_t)(dot - full));
        if (!name)
            return pare_no_memory(err, "for %d masks", w->n);
        l = pare_map_get(&known, name);
        if (!l) {
            l = &(*layers)[(*n)++];
            *l = (struct layer){ name, -1, -1 };
            PARE_TRY(pare_map_set(&known, w->arena, name, l, err));
        }
        *(bias ? &l->bias : &l->weight) = i;
    }
    return 0;
}

static void put_mask(struct writer *w, const char *key, int i)
{
    put_text(w, key, strlen(key));
    if (i < 0)
        put_code(w, "N");
    else
        put_tensor(w, i);
}

static int put_masks(struct writer *w, struct pare_err *err)
{
    struct layer *layer;
    int n = 0;

    PARE_TRY(find_layers(w, &layer, &n, err));
    put_code(w, "}(");
    for (int i = 0; i < n; i++) {
        put_text(w, layer[i].name, strlen(layer[i].name));
        put_code(w, "}(");
        put_mask(w, "weight", layer[i].weight);
        put_mask(w, "bias", layer[i].bias);
        put_code(w, "u");
    }
    put_code(w, "u");
    return 0;
}

/* ---- files ------------------------------------------------------------------------ */

static int check_tensors(struct writer *w, struct pare_err *err)
{
    struct pare_map names = { 0 };

    for (int i = 0; i < w->n; i++) {
        const struct pare_named *e = &w->list[i];

        if (!word_of(e->t.dtype))
            return pare_fail(err, PARE_EUNSUPPORTED,
                             "tensor '%s' is %s, which PyTorch does not have", e->name,
                             pare_dtype_name(e->t.dtype));
        if (pare_map_get(&names, e->name))
            return pare_fail(err, PARE_ECONFIG, "two tensors are named '%s'", e->name);
        PARE_TRY(pare_map_set(&names, w->arena, e->name, w, err));
    }
    return 0;
}

/* data.pkl, byteorder, data/0, data/1, ..., version, in PyTorch's order. */
static int make_entries(struct writer *w, bool masks, struct pare_err *err)
{
    struct pare_zip_entry *e = pare_alloc(w->arena, (size_t)w->n + 3, sizeof(*e));

    if (!e)
        return pare_no_memory(err, "for %d tensors", w->n);
    PARE_TRY(check_tensors(w, err));
    put_code(w, "\x80\x02");
    if (masks)
        PARE_TRY(put_masks(w, err));
    else
        put_state(w);
    put_code(w, ".");
    w->entry = e;
    *e++ = (struct pare_zip_entry){ ROOT "data.pkl", { { w->p, w->len } } };
    *e++ = (struct pare_zip_entry){ ROOT "byteorder", { { "little", 6 } } };
    for (int i = 0; i < w->n; i++, e++) {
        int64_t numel;

        e->name = pare_sprintf(w->arena, ROOT "data/%d", i);
        e->part[0].data = w->list[i].t.data;
        w->failed |= !e->name;
        PARE_TRY(pare_tensor_size(&w->list[i].t, &numel, &e->part[0].len, err));
    }
    *e = (struct pare_zip_entry){ ROOT "version", { { "3\n", 2 } } };
    return w->failed ? pare_no_memory(err, "for %d tensors", w->n) : 0;
}

static int write_file(const char *path, struct writer *w, bool masks, struct pare_err *err)
{
    int rc;

    w->arena = pare_arena_new(1 << 16);
    rc = w->arena ? make_entries(w, masks, err) : pare_no_memory(err, "to write a file");
    if (!rc)
        rc = pare_zip_store(path, w->entry, w->n + 3, err);
    pare_arena_free(w->arena);
    return pare_at(err, rc, "%s", path);
}

int pare_pth_write(const char *path, const struct pare_named *list, int n, struct pare_err *err)
{
    return write_file(path, &(struct writer){ .list = list, .n = n }, false, err);
}

int pare_pth_write_masks(const char *path, const struct pare_named *list, int n,
                         struct pare_err *err)
{
    return write_file(path, &(struct writer){ .list = list, .n = n }, true, err);
}

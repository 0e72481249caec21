/* fuzz_pth.c - fuzz target: any bytes as a .pth file or the pickle in one; every element can be
 * read.
 *
 * Built and run as fuzz_onnx.c.  Random bytes rarely form a zip archive with correct checksums, so
 * bytes that do not begin like one are used as the pickle of a valid archive.
 */
#include "io/pickle.h"
#include "base/arena.h"
#include "io/pth.h"
#include "io/zip_store.h"
#include "tensor/tensor.h"

#include <stdlib.h>
#include <string.h>

#define MAX_STORAGES 16
#define MAX_NUMEL 4096

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void read_file(struct pare_arena *a, const unsigned char *data, size_t size)
{
    struct pare_err err = { 0 };
    struct pare_pth p;
    volatile unsigned char sum = 0;

    if (pare_pth_parse(a, data, size, &p, &err)) {
        if (!err.code || !err.msg[0])
            abort();
        return;
    }
    for (int i = 0; i < p.n_tensors; i++) {
        const struct pare_tensor *t = &p.tensor[i].t;
        size_t bytes = (size_t)pare_numel(t) * pare_dtype_size(t->dtype);

        if (strlen(p.tensor[i].name) > size)
            abort();
        for (size_t k = 0; k < bytes && k < 1 << 20; k++)
            sum ^= ((unsigned char *)t->data)[k];
        if (bytes)
            sum ^= ((unsigned char *)t->data)[bytes - 1];
    }
    for (int i = 0; i < p.n_none; i++)
        sum ^= (unsigned char)strlen(p.none[i]);
    (void)sum;
}

/* An archive of the pickle and the storages that it refers to, except large ones. */
static void wrap(struct pare_arena *a, const struct pare_pickle *p, const unsigned char *data,
                 size_t size)
{
    struct pare_zip_entry *e = pare_alloc(a, (size_t)p->n_storages + 1, sizeof(*e));
    struct pare_bytes *part;
    struct pare_err err;
    unsigned char *file;
    size_t len = 0;
    int n = 1, n_parts;

    e[0] = (struct pare_zip_entry){ "a/data.pkl", { { data, size } } };
    for (int i = 0; i < p->n_storages && n < MAX_STORAGES; i++) {
        const struct pare_storage *s = p->storage[i];
        size_t bytes = (size_t)s->numel * pare_dtype_size(s->dtype);

        if (s->numel <= MAX_NUMEL)
            e[n++] = (struct pare_zip_entry){ pare_sprintf(a, "a/data/%s", s->key),
                                              { { pare_alloc(a, bytes, 1), bytes } } };
    }
    if (pare_zip_parts(a, e, n, &part, &n_parts, &err))
        abort();
    for (int i = 0; i < n_parts; i++)
        len += part[i].len;
    file = pare_alloc(a, len, 1);
    len = 0;
    for (int i = 0; i < n_parts; i++) {
        memcpy(file + len, part[i].data, part[i].len);
        len += part[i].len;
    }
    read_file(a, file, len);
}

static void read_pickle(struct pare_arena *a, const unsigned char *data, size_t size)
{
    struct pare_err err = { 0 };
    struct pare_pickle p;

    if (pare_pickle_parse(a, data, size, &p, &err)) {
        if (!err.code || !err.msg[0])
            abort();
        return;
    }
    if (p.root.kind == PARE_PICKLED_MARK)
        abort();
    for (int i = 0; i < p.n_storages; i++)
        if (p.storage[i]->reach > p.storage[i]->numel || p.storage[i]->numel < 0)
            abort();
    wrap(a, &p, data, size);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct pare_arena *a = pare_arena_new(1 << 16);

    if (a && size > 1 && data[0] == 'P' && data[1] == 'K')
        read_file(a, data, size);
    else if (a)
        read_pickle(a, data, size);
    pare_arena_free(a);
    return 0;
}

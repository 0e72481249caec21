/* fuzz_npz.c - fuzz target: any bytes as .npy or .npz; every element can be read, and written
 * again.
 *
 * Built and run as fuzz_onnx.c.  Random bytes rarely form a zip archive with correct checksums, so
 * bytes that do not begin like one are also wrapped in a valid archive.
 */
#include "io/npz.h"
#include "base/arena.h"
#include "io/npy.h"
#include "io/zip_store.h"
#include "memory_file.h"
#include "tensor/tensor.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

/* Reads every byte, so that a sanitizer finds missing ones. */
static void read_all(const struct pare_tensor *t)
{
    size_t bytes = (size_t)pare_numel(t) * pare_dtype_size(t->dtype);
    volatile unsigned char sum = 0;

    for (size_t i = 0; i < bytes; i++)
        sum ^= ((unsigned char *)t->data)[i];
    (void)sum;
}

/* An array that was read can be written and read again. */
static void read_npy(struct pare_arena *a, const unsigned char *data, size_t size)
{
    struct pare_err err = { 0 };
    struct pare_tensor t, again;
    const void *bytes;
    size_t len;

    if (pare_npy_parse(a, data, size, &t, &err)) {
        if (!err.code || !err.msg[0])
            abort();
        return;
    }
    read_all(&t);
    if (pare_npy_pack(a, &t, &bytes, &len, &err) || pare_npy_parse(a, bytes, len, &again, &err) ||
        !pare_same_shape(&t, &again) || again.dtype != t.dtype ||
        memcmp(t.data, again.data, (size_t)pare_numel(&t) * pare_dtype_size(t.dtype)) != 0)
        abort();
}

static void read_npz(struct pare_arena *a, const unsigned char *data, size_t size)
{
    struct memory_file f = memory_file(data, size);
    struct pare_err err = { 0 };
    struct pare_named *list;
    int n;

    if (!pare_npz_read(a, f.path, &list, &n, &err))
        for (int i = 0; i < n; i++)
            read_all(&list[i].t);
    else if (!err.code || !err.msg[0])
        abort();
    close(f.fd);
}

/* An archive of two entries with these bytes. */
static void wrap(struct pare_arena *a, const unsigned char *data, size_t size)
{
    struct pare_zip_entry e[2] = { { "a.npy", { { data, size } } },
                                   { "b.npy", { { data, size } } } };
    struct pare_bytes *part;
    struct pare_err err;
    unsigned char *file;
    size_t len = 0, at = 0;
    int n;

    if (pare_zip_parts(a, e, 2, &part, &n, &err))
        abort();
    for (int i = 0; i < n; i++)
        len += part[i].len;
    file = pare_alloc(a, len, 1);
    for (int i = 0; i < n; i++) {
        if (part[i].len)
            memcpy(file + at, part[i].data, part[i].len);
        at += part[i].len;
    }
    read_npz(a, file, len);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct pare_arena *a = pare_arena_new(1 << 16);

    if (size > 1 && data[0] == 'P' && data[1] == 'K') {
        read_npz(a, data, size);
    } else {
        read_npy(a, data, size);
        wrap(a, data, size);
    }
    pare_arena_free(a);
    return 0;
}

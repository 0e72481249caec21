/* cifar10.c - CIFAR-10, binary version.
 *
 * A file is a sequence of records: one byte of label, 32 x 32 bytes each of red, green and blue.
 * data_batch_1.bin to data_batch_5.bin are for training, test_batch.bin for testing.
 */
#include <stdio.h>
#include <string.h>

#include "source.h"
#include "../base/arena.h"
#include "../io/file.h"
#include "../tensor/tensor.h"

#define PIXELS 3072
#define RECORD (1 + PIXELS)
#define MAX_FILES 5

const char *const pare_cifar10_names[10] = { "airplane", "automobile", "bird",  "cat",  "deer",
                                             "dog",      "frog",       "horse", "ship", "truck" };

struct file {
    const char *path;
    const unsigned char *data;
    int64_t n; /* records */
};

static const char *file_of(struct pare_arena *a, const char *dir, const char *name)
{
    char sub[64];
    const char *f = pare_file_in(a, dir, name);

    snprintf(sub, sizeof(sub), "cifar-10-batches-bin/%s", name);
    return f ? f : pare_file_in(a, dir, sub);
}

static bool probe(struct pare_data *d, const char *path)
{
    if (pare_is_dir(path))
        return file_of(d->arena, path, "data_batch_1.bin") ||
               file_of(d->arena, path, "test_batch.bin");
    return pare_ends_with(path, "_batch.bin") ||
           (strstr(path, "data_batch_") && pare_ends_with(path, ".bin"));
}

/* Find the files of this split; a gap in their numbering is an error. */
static int find_files(struct pare_data *d, const char *path, struct file *f, int *n,
                      struct pare_err *err)
{
    char name[32];

    *n = 0;
    if (!pare_is_dir(path)) {
        d->parts->whole = true;
        f[(*n)++].path = path;
        return 0;
    }
    if (pare_wants_test(d)) {
        f[0].path = file_of(d->arena, path, "test_batch.bin");
        *n = f[0].path != NULL;
    }
    for (int i = 0; !pare_wants_test(d) && i < MAX_FILES; i++) {
        snprintf(name, sizeof(name), "data_batch_%d.bin", i + 1);
        f[*n].path = file_of(d->arena, path, name);
        if (!f[*n].path)
            continue;
        if (*n < i)
            return pare_fail(err, PARE_EIO, "%s: has data_batch_%d.bin, but not data_batch_%d.bin",
                             path, i + 1, *n + 1);
        ++*n;
    }
    if (!*n)
        return pare_fail(err, PARE_EIO, "%s: no %s there", path,
                         pare_wants_test(d) ? "test_batch.bin" : "data_batch_1.bin");
    return 0;
}

static int read_records(struct pare_arena *a, struct file *f, struct pare_err *err)
{
    const void *bytes;
    size_t len;

    PARE_TRY(pare_file_read(a, f->path, &bytes, &len, err));
    if (!len || len % RECORD)
        return pare_fail(err, PARE_EFORMAT,
                         "the file has %zu bytes, not a multiple of %d: it is cut off, or no "
                         "CIFAR-10",
                         len, RECORD);
    f->data = bytes;
    f->n = (int64_t)(len / RECORD);
    return 0;
}

static int gather(struct pare_data *d, const struct file *f, int n, struct pare_err *err)
{
    int64_t dim[] = { 0, 3, 32, 32 };
    struct pare_tensor x, y;
    unsigned char *pixels, *label;

    for (int i = 0; i < n; i++)
        dim[0] += f[i].n;
    PARE_TRY(pare_tensor_new(d->arena, &x, PARE_U8, 4, dim, err));
    PARE_TRY(pare_tensor_new(d->arena, &y, PARE_U8, 1, dim, err));
    pixels = x.data;
    label = y.data;
    for (int i = 0; i < n; i++)
        for (int64_t k = 0; k < f[i].n; k++, pixels += PIXELS) {
            const unsigned char *r = f[i].data + k * RECORD;

            *label++ = r[0];
            memcpy(pixels, r + 1, PIXELS);
        }
    return pare_data_arrays(d, &x, &y, err);
}

static int open_cifar(struct pare_data *d, const char *path, struct pare_err *err)
{
    struct file f[MAX_FILES] = { { 0 } };
    int n;

    d->classes = 10;
    d->classes_known = true;
    d->class_name = pare_cifar10_names;
    d->parts->norm = "cifar10";
    PARE_TRY(find_files(d, path, f, &n, err));
    for (int i = 0; i < n; i++)
        PARE_TRY(pare_at(err, read_records(d->parts->tmp, &f[i], err), "%s", f[i].path));
    return pare_at(err, gather(d, f, n, err), "%s", path);
}

const struct pare_source pare_source_cifar10 = {
    .name = "cifar10",
    .help = "CIFAR-10, binary version: a folder with data_batch_1.bin, ..., test_batch.bin",
    .probe = probe,
    .open = open_cifar,
};

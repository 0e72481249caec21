/* idx.c - IDX, the file format of MNIST, plain or gzip-compressed: files of images and labels.
 *
 *     0  0  type  rank    then `rank` dimensions of 4 bytes, big-endian, and the elements
 *
 * A folder is recognized by the usual names: train-images-idx3-ubyte, t10k-labels-idx1-ubyte.gz and
 * so on, in it or in the subfolders that other programs use.
 */
#include <stdio.h>
#include <string.h>

#include "gzip.h"
#include "source.h"
#include "../base/arena.h"
#include "../io/file.h"
#include "../tensor/tensor.h"

/* ---- the format ------------------------------------------------------------------- */

static enum pare_dtype type_of(unsigned char code)
{
    switch (code) {
    case 0x08: return PARE_U8;
    case 0x09: return PARE_I8;
    case 0x0b: return PARE_I16;
    case 0x0c: return PARE_I32;
    case 0x0d: return PARE_F32;
    case 0x0e: return PARE_F64;
    default: return PARE_NONE;
    }
}

static void reverse_bytes(unsigned char *p, size_t n, size_t size)
{
    for (size_t i = 0; i < n; i++, p += size)
        for (size_t a = 0, b = size - 1; a < b; a++, b--) {
            unsigned char keep = p[a];

            p[a] = p[b];
            p[b] = keep;
        }
}

static int read_header(struct pare_gzip *g, struct pare_tensor *t, struct pare_err *err)
{
    unsigned char b[4 * PARE_MAX_RANK];

    PARE_TRY(pare_gzip_take(g, b, 4, err));
    t->dtype = type_of(b[2]);
    if (b[0] || b[1] || t->dtype == PARE_NONE)
        return pare_fail(err, PARE_EFORMAT, "not an IDX file: it starts with %02x %02x %02x %02x",
                         b[0], b[1], b[2], b[3]);
    t->rank = b[3];
    if (t->rank < 1 || t->rank > PARE_MAX_RANK)
        return pare_fail(err, PARE_EFORMAT, "it has %d dimensions, 1 to %d are supported", t->rank,
                         PARE_MAX_RANK);
    PARE_TRY(pare_gzip_take(g, b, 4 * (size_t)t->rank, err));
    for (int i = 0; i < t->rank; i++)
        t->dim[i] = (int64_t)((uint32_t)b[4 * i] << 24 | (uint32_t)b[4 * i + 1] << 16 |
                              (uint32_t)b[4 * i + 2] << 8 | (uint32_t)b[4 * i + 3]);
    return 0;
}

/* Check sizes before allocating memory. */
static int read_elements(struct pare_arena *a, struct pare_gzip *g, struct pare_tensor *t,
                         struct pare_err *err)
{
    size_t size = pare_dtype_size(t->dtype), bytes;
    char buf[PARE_SHAPE_TEXT];

    PARE_TRY(pare_tensor_size(t, NULL, &bytes, err));
    pare_shape_text(t, buf, sizeof(buf));
    if (g->packed ? bytes / PARE_MAX_RATIO > g->left : bytes != g->left)
        return pare_fail(err, PARE_EFORMAT,
                         "its shape %s needs %zu bytes%s, but the file has %zu%s", buf, bytes,
                         g->packed ? "" : " of data", g->left, g->packed ? " compressed ones" : "");
    if (g->packed && bytes > PARE_MAX_GROWTH)
        return pare_fail(err, PARE_ELIMIT,
                         "its shape %s needs %zu bytes, at most %zu are unpacked from a file", buf,
                         bytes, PARE_MAX_GROWTH);
    if (!g->packed && size == 1) {
        t->data = (void *)(uintptr_t)g->p;
        return 0;
    }
    PARE_TRY(pare_tensor_alloc(a, t, err));
    PARE_TRY(pare_gzip_take(g, t->data, bytes, err));
    reverse_bytes(t->data, bytes / size, size);
    return pare_gzip_end(g, err);
}

int pare_idx_parse(struct pare_arena *a, const void *bytes, size_t len, struct pare_tensor *t,
                   struct pare_err *err)
{
    struct pare_gzip g;
    int rc;

    *t = (struct pare_tensor){ .rank = 0 };
    PARE_TRY(pare_gzip_start(&g, bytes, len, err));
    rc = read_header(&g, t, err);
    if (!rc)
        rc = read_elements(a, &g, t, err);
    pare_gzip_stop(&g);
    return rc;
}

static int read_idx(struct pare_arena *a, const char *path, struct pare_tensor *t,
                    struct pare_err *err)
{
    const void *bytes;
    size_t len;
    int rc = pare_file_read(a, path, &bytes, &len, err);

    if (!rc)
        rc = pare_idx_parse(a, bytes, len, t, err);
    return pare_at(err, rc, "%s", path);
}

int pare_idx_open(struct pare_data *d, const char *images, const char *labels, struct pare_err *err)
{
    struct pare_tensor x, y;

    PARE_TRY(read_idx(d->arena, images, &x, err));
    if (labels)
        PARE_TRY(read_idx(d->arena, labels, &y, err));
    return pare_at(err, pare_data_arrays(d, &x, labels ? &y : NULL, err), "%s", images);
}

/* ---- finding the files -------------------------------------------------------------- */

/* The file of this part ("train" or "test") and kind ("images-idx3", "images.idx3", ...). */
static const char *find_kind(struct pare_arena *a, const char *dir, bool test, const char *kind)
{
    static const char *const place[] = { ".", "data", "raw", "MNIST/raw" };
    static const char *const end[] = { "", ".gz" };
    char name[128];

    for (int p = 0; p < 4; p++)
        for (int e = 0; e < 2; e++)
            for (int alias = 0; alias < 1 + test; alias++) {
                const char *part = !test ? "train" : alias ? "test" : "t10k", *found;

                snprintf(name, sizeof(name), "%s/%s-%s-ubyte%s", place[p], part, kind, end[e]);
                found = pare_file_in(a, dir, p ? name : name + 2);
                if (found)
                    return found;
            }
    return NULL;
}

static const char *find_file(struct pare_arena *a, const char *dir, bool test, bool images)
{
    const char *f = find_kind(a, dir, test, images ? "images-idx3" : "labels-idx1");

    return f ? f : find_kind(a, dir, test, images ? "images.idx3" : "labels.idx1");
}

static bool has_magic(const char *path)
{
    unsigned char b[4] = { 0 };
    FILE *f = pare_is_file(path) ? fopen(path, "rb") : NULL;
    bool yes = f && fread(b, 1, 4, f) == 4 && !b[0] && !b[1] && type_of(b[2]) != PARE_NONE &&
               b[3] && b[3] <= PARE_MAX_RANK;

    if (f)
        fclose(f);
    return yes;
}

static bool probe(struct pare_data *d, const char *path)
{
    if (pare_is_dir(path))
        return find_file(d->arena, path, false, true) || find_file(d->arena, path, true, true);
    return has_magic(path) || pare_ends_with(path, "-ubyte.gz") ||
           (pare_ends_with(path, ".gz") && strstr(path, "idx"));
}

/* ".../train-images-idx3-ubyte.gz" -> ".../train-labels-idx1-ubyte.gz" if it exists, else NULL. */
static const char *labels_path(struct pare_arena *a, const char *path)
{
    const char *base = strrchr(path, '/'), *word;
    char *p, *three;

    base = base ? base + 1 : path;
    word = strstr(base, "images");
    p = word ? pare_sprintf(a, "%.*slabels%s", (int)(word - path), path, word + 6) : NULL;
    if (!p)
        return NULL;
    three = strstr(p + (word - path), "idx3");
    if (three)
        three[3] = '1';
    return pare_is_file(p) ? p : NULL;
}

static int open_idx(struct pare_data *d, const char *path, struct pare_err *err)
{
    bool test = pare_wants_test(d);
    const char *images, *labels;

    if (!pare_is_dir(path)) {
        d->parts->whole = true;
        return pare_idx_open(d, path, labels_path(d->arena, path), err);
    }
    images = find_file(d->arena, path, test, true);
    labels = find_file(d->arena, path, test, false);
    if (!images)
        return pare_fail(err, PARE_EIO, "%s: no %s-images-idx3-ubyte[.gz] there", path,
                         test ? "t10k" : "train");
    if (!labels)
        return pare_fail(err, PARE_EIO, "%s: no file of labels next to it", images);
    return pare_idx_open(d, images, labels, err);
}

const struct pare_source pare_source_idx = {
    .name = "idx",
    .help = "MNIST's format, plain or .gz: a folder with train-images-idx3-ubyte, ...",
    .probe = probe,
    .open = open_idx,
};

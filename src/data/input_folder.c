/* input_folder.c - a folder with a .npy or .pb file for each input of the model, named as the
 * input; labels are in y, labels or targets. */
#include <string.h>

#include "source.h"
#include "../base/arena.h"
#include "../io/file.h"
#include "../io/npy.h"
#include "../io/tensor_pb.h"
#include "../tensor/tensor.h"

/* The file of a name; / and : of the name may be written as _.  NULL: there is none. */
static const char *file_of(struct pare_arena *a, const char *dir, const char *name)
{
    static const char *const suffix[] = { ".npy", ".pb" };
    char *plain = pare_strdup(a, name);

    for (char *p = plain; p && *p; p++)
        *p = *p == '/' || *p == ':' ? '_' : *p;
    for (int i = 0; i < 2 && plain; i++) {
        const char *file = pare_sprintf(a, "%s%s", plain, suffix[i]);
        const char *path = file ? pare_file_in(a, dir, file) : NULL;

        if (path)
            return path;
    }
    return NULL;
}

static bool probe(struct pare_data *d, const char *path)
{
    if (!d->parts->n_io || d->parts->n_io > PARE_DATA_INPUTS || !pare_is_dir(path))
        return false;
    for (int k = 0; k < d->parts->n_io; k++)
        if (!file_of(d->parts->tmp, path, d->parts->io[k].name))
            return false;
    return true;
}

static int read_array(struct pare_data *d, const char *path, struct pare_tensor *t,
                      struct pare_err *err)
{
    struct pare_tensor file;
    const char *name;

    if (pare_ends_with(path, ".npy"))
        PARE_TRY(pare_npy_read(d->parts->tmp, path, &file, err));
    else
        PARE_TRY(pare_pb_read(d->parts->tmp, path, &file, &name, err));
    if (file.dtype == PARE_STR)
        return pare_fail(err, PARE_EUNSUPPORTED, "%s: it has strings, only numbers are supported",
                         path);
    *t = file;
    PARE_TRY(pare_tensor_alloc(d->arena, t, err));
    if (pare_numel(t))
        memcpy(t->data, file.data, (size_t)pare_numel(t) * pare_dtype_size(t->dtype));
    return 0;
}

static int read_labels(struct pare_data *d, const char *dir, struct pare_err *err)
{
    static const char *const names[] = { "y", "labels", "label", "targets", "target" };
    const char *path = NULL;
    struct pare_tensor y;

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        const char *file = file_of(d->parts->tmp, dir, names[i]);

        if (!file || pare_names_input(d, names[i]))
            continue;
        if (path)
            return pare_fail(err, PARE_ECONFIG,
                             "both %s and %s could be the labels: remove or rename one", path,
                             file);
        path = file;
    }
    if (!path)
        return 0;
    PARE_TRY(read_array(d, path, &y, err));
    return pare_at(err, pare_data_targets(d, &y, err), "%s", path);
}

static int open_folder(struct pare_data *d, const char *dir, struct pare_err *err)
{
    int n = d->parts->n_io;
    struct pare_input *in = pare_alloc(d->arena, (size_t)n, sizeof(*in));

    d->parts->whole = true;
    if (!in)
        return pare_no_memory(err, "for a data set");
    for (int k = 0; k < n; k++) {
        const char *path = file_of(d->parts->tmp, dir, d->parts->io[k].name);

        in[k].name = pare_strdup(d->arena, d->parts->io[k].name);
        if (!path || !in[k].name)
            return pare_no_memory(err, "for a data set");
        PARE_TRY(read_array(d, path, &in[k].t, err));
    }
    if (n == 1)
        PARE_TRY(pare_at(err, pare_data_arrays(d, &in[0].t, NULL, err), "%s", dir));
    else
        PARE_TRY(pare_at(err, pare_data_named(d, in, err), "%s", dir));
    return read_labels(d, dir, err);
}

const struct pare_source pare_source_input_folder = {
    .name = "input-folder",
    .help = "a folder with a .npy or .pb file for each input of the model, named as the input, and "
            "y or labels",
    .probe = probe,
    .open = open_folder,
};

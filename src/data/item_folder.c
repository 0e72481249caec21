/* item_folder.c - a folder with a .npy, .pb or .npz file for each item, or a folder per class.
 *
 *     0001.npy  0002.npy ...            the only input of the model
 *     0001.npz  0002.npz ...            arrays that are named as the inputs
 *     cat/0001.npy  dog/0002.npy ...    with labels
 *
 * Items may differ in shape: they run one by one.  Values are used as they are.
 */
#include <string.h>

#include "class_folder.h"
#include "../base/arena.h"
#include "../io/file.h"
#include "../io/npy.h"
#include "../io/npz.h"
#include "../io/tensor_pb.h"
#include "../tensor/tensor.h"

#define HEAD 4096 /* bytes that are read of each .npy file at first */

static const char *const suffixes[] = { ".npy", ".pb", ".npz", NULL };
static const char *const foreign[] = { ".png", ".jpg", ".jpeg", ".wav", NULL };
static const struct pare_file_kind kind = { suffixes, NULL, "items (.npy, .pb, .npz)", "" };

struct set {
    struct pare_file_list list;
    const char **name; /* (n_inputs) of the model's inputs */
    int n_inputs;
    bool *drop; /* by input: files have a batch of 1 as the first axis */
};

static bool probe(struct pare_data *d, const char *path)
{
    struct pare_file_kind others = { foreign, NULL, "", "" };

    return pare_class_folder_probe(d, path, &kind, true) &&
           !pare_class_folder_probe(d, path, &others, true);
}

/* ---- reading --------------------------------------------------------------------------------- */

static int read_npz(const struct set *s, const char *path, struct pare_arena *a,
                    struct pare_tensor *in, struct pare_err *err)
{
    struct pare_named *list;
    int n;

    PARE_TRY(pare_npz_read(a, path, &list, &n, err));
    for (int k = 0; k < s->n_inputs; k++) {
        int i = 0;

        while (i < n && strcmp(list[i].name, s->name[k]) != 0)
            i++;
        if (i == n && (s->n_inputs > 1 || n != 1))
            return pare_fail(err, PARE_ESHAPE, "%s: no array is named as the model's input '%s'",
                             path, s->name[k]);
        in[k] = list[i < n ? i : 0].t;
    }
    return 0;
}

static int read_file(const struct set *s, const char *path, struct pare_arena *a,
                     struct pare_tensor *in, struct pare_err *err)
{
    const char *name;

    if (pare_ends_with(path, ".npz"))
        return read_npz(s, path, a, in, err);
    return pare_ends_with(path, ".npy") ? pare_npy_read(a, path, in, err)
                                        : pare_pb_read(a, path, in, &name, err);
}

/* Types and shapes of an item; a .npy file has them in its header. */
static int look(const struct set *s, const char *path, struct pare_arena *tmp,
                struct pare_tensor *in, struct pare_err *err)
{
    struct pare_mark m = pare_mark(tmp);
    char *head = pare_alloc_raw(tmp, HEAD, 1);
    struct pare_file_metadata f;
    struct pare_npy_layout l;
    int rc = head ? 0 : pare_no_memory(err, "for a file");

    if (!rc && pare_ends_with(path, ".npy"))
        rc = pare_at(err, pare_file_look(path, head, HEAD, &f, err), "%s", path);
    if (!rc && (!pare_ends_with(path, ".npy") || pare_npy_header(head, f.head, in, &l, err) ||
                l.start + l.bytes != f.size))
        rc = read_file(s, path, tmp, in, err);
    for (int k = 0; k < s->n_inputs; k++)
        in[k].data = NULL;
    pare_rewind(tmp, m);
    return rc;
}

static void drop_first(struct pare_tensor *t)
{
    t->rank--;
    memmove(t->dim, t->dim + 1, (size_t)t->rank * sizeof(*t->dim));
}

static int load(const struct pare_data *d, int64_t i, struct pare_arena *a, struct pare_tensor *in,
                struct pare_err *err)
{
    const struct set *s = d->parts->priv;
    struct pare_tensor file[PARE_DATA_INPUTS];

    PARE_TRY(read_file(s, s->list.path[i], a, file, err));
    for (int k = 0; k < s->n_inputs; k++) {
        if (s->drop[k] && file[k].rank)
            drop_first(&file[k]);
        if (file[k].dtype != in[k].dtype || !pare_same_shape(&file[k], &in[k]))
            return pare_fail(err, PARE_EFORMAT, "%s: the file has changed", s->list.path[i]);
        in[k].data = file[k].data;
    }
    return 0;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Whether every file has a batch of 1 as the first axis of input k. */
static bool has_batch(const struct pare_data *d, const struct set *s, int k)
{
    const struct pare_io *io = d->parts->n_io > k ? &d->parts->io[k] : NULL;

    if (!io || io->rank < 1 || io->dim[0] > 1 || pare_batch_axis(d->parts->io, k))
        return false;
    for (int i = 0; i < s->list.n; i++) {
        const struct pare_tensor *t = &d->parts->each[i * s->n_inputs + k];

        if (t->rank != io->rank || t->dim[0] != 1)
            return false;
    }
    return true;
}

static int look_at_all(struct pare_data *d, struct set *s, struct pare_err *err)
{
    int n = s->n_inputs;

    d->parts->each = pare_alloc(d->arena, (size_t)s->list.n * (size_t)n, sizeof(*d->parts->each));
    if (!d->parts->each)
        return pare_no_memory(err, "for %d items", s->list.n);
    for (int i = 0; i < s->list.n; i++) {
        PARE_TRY(pare_open_progress(d, "look at file", i, s->list.n, err));
        PARE_TRY(look(s, s->list.path[i], d->parts->tmp, &d->parts->each[i * n], err));
    }
    for (int k = 0; k < n; k++) {
        s->drop[k] = has_batch(d, s, k);
        for (int i = 0; i < s->list.n && s->drop[k]; i++)
            drop_first(&d->parts->each[i * n + k]);
    }
    return 0;
}

static int open_folder(struct pare_data *d, const char *path, struct pare_err *err)
{
    struct set *s = pare_alloc(d->arena, 1, sizeof(*s));
    int n = d->parts->n_io > 1 ? d->parts->n_io : 1;
    struct pare_tensor y;

    if (n > PARE_DATA_INPUTS)
        return pare_fail(err, PARE_ELIMIT, "the model has %d inputs, at most %d are supported", n,
                         PARE_DATA_INPUTS);
    if (!s || !(s->name = pare_alloc(d->arena, (size_t)n, sizeof(*s->name))) ||
        !(s->drop = pare_alloc(d->arena, (size_t)n, sizeof(*s->drop))))
        return pare_no_memory(err, "to open a data set");
    d->parts->priv = s;
    s->n_inputs = n;
    for (int k = 0; k < d->parts->n_io; k++) {
        s->name[k] = pare_strdup(d->arena, d->parts->io[k].name);
        if (!s->name[k])
            return pare_no_memory(err, "to open a data set");
    }
    PARE_TRY(pare_class_folder_list(d, path, &kind, &s->list, &y, err));
    for (int i = 0; i < s->list.n && n > 1; i++)
        if (!pare_ends_with(s->list.path[i], ".npz"))
            return pare_fail(err, PARE_ESHAPE,
                             "%s: one tensor, but the model has %d inputs; write an .npz file for "
                             "each item, with arrays named as the inputs",
                             s->list.path[i], n);
    PARE_TRY(look_at_all(d, s, err));
    PARE_TRY(pare_at(err, pare_data_each(d, s->name, n, s->list.n, err), "%s", path));
    return y.data ? pare_data_targets(d, &y, err) : 0;
}

const struct pare_source pare_source_item_folder = {
    .name = "item-folder",
    .help = "a folder with a .npy, .pb or .npz file for each item, or with a folder per class; "
            "items of different shapes run one by one",
    .probe = probe,
    .open = open_folder,
    .load = load,
};

/* numpy.c - NumPy arrays: a .npz, a .npy, or a folder of .npy files.
 *
 * Names, in upper or lower case, determine the role of an array: x, images, data, ... are the
 * items; y, labels, targets, ... their labels; with "train", "test" or "val" before or after it
 * (x_train, test-labels) the array is for that split only.  A .npz with an array for each input of
 * the model, named as the input, is a set of several inputs.  The name of an input precedes a role:
 * an array named as an input is never the labels.
 */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "source.h"
#include "../base/arena.h"
#include "../io/file.h"
#include "../io/npy.h"
#include "../io/npz.h"
#include "../tensor/tensor.h"

enum role { NOTHING, ITEMS, TARGETS };
enum part { ANY, TRAIN, VAL, TEST };

static const struct {
    const char *word;
    enum role role;
    enum part part;
} words[] = {
    { "x", ITEMS, ANY },
    { "images", ITEMS, ANY },
    { "image", ITEMS, ANY },
    { "data", ITEMS, ANY },
    { "inputs", ITEMS, ANY },
    { "input", ITEMS, ANY },
    { "features", ITEMS, ANY },
    { "arr_0", ITEMS, ANY },
    { "y", TARGETS, ANY },
    { "labels", TARGETS, ANY },
    { "label", TARGETS, ANY },
    { "targets", TARGETS, ANY },
    { "target", TARGETS, ANY },
    { "arr_1", TARGETS, ANY },
    { "train", NOTHING, TRAIN },
    { "training", NOTHING, TRAIN },
    { "val", NOTHING, VAL },
    { "valid", NOTHING, VAL },
    { "validation", NOTHING, VAL },
    { "test", NOTHING, TEST },
};
#define N_WORDS (sizeof(words) / sizeof(*words))

/* The role of an array; NOTHING if a word of its name is unknown. */
static enum role role_of(const char *name, enum part *part)
{
    enum role role = NOTHING;

    *part = ANY;
    for (const char *p = name; *p;) {
        size_t n = !strncasecmp(p, "arr_", 4) ? strlen(p) : strcspn(p, "_-. "), i = 0;

        while (i < N_WORDS && (strlen(words[i].word) != n || strncasecmp(p, words[i].word, n)))
            i++;
        if (i == N_WORDS || (words[i].role && role) || (words[i].part && *part))
            return NOTHING;
        role = words[i].role ? words[i].role : role;
        *part = words[i].part ? words[i].part : *part;
        p += n + (p[n] != '\0');
    }
    return role;
}

/* The names of the arrays of a set. */
struct arrays {
    const char *const *name;
    int n;
};

/* The array with this role for this split, or -1; two of them are an error. */
static int find_array(const struct pare_data *d, struct arrays a, enum role role, enum part part,
                      int *at, struct pare_err *err)
{
    *at = -1;
    for (int i = 0; i < a.n; i++) {
        enum part p;

        if (role_of(a.name[i], &p) != role || p != part || pare_names_input(d, a.name[i]))
            continue;
        if (*at >= 0)
            return pare_fail(err, PARE_ECONFIG,
                             "both '%s' and '%s' could be the %s: remove or rename one",
                             a.name[*at], a.name[i], role == ITEMS ? "items" : "labels");
        *at = i;
    }
    return 0;
}

/* "a, b, c", as far as the buffer has room. */
static const char *list_names(struct arrays a, char *list, size_t size)
{
    size_t at = 0;

    list[0] = '\0';
    for (int i = 0; i < a.n && at + strlen(a.name[i]) + 4 < size; i++) {
        memcpy(list + at, i ? ", " : "", i ? 2 : 0);
        at += i ? 2 : 0;
        memcpy(list + at, a.name[i], strlen(a.name[i]) + 1);
        at += strlen(a.name[i]);
    }
    return a.n ? list : "(nothing)";
}

static int no_items(const struct pare_data *d, struct arrays a, const char *split,
                    struct pare_err *err)
{
    char list[256];

    if (d->parts->n_io > 1)
        return pare_fail(err, PARE_EFORMAT,
                         "no array is named as an input of the model, such as '%s', only: %s",
                         d->parts->io[0].name, list_names(a, list, sizeof(list)));
    return pare_fail(err, PARE_EFORMAT, "no array has a name like x_%s or images, only: %s", split,
                     list_names(a, list, sizeof(list)));
}

/* Choose the arrays of a split: its own, or (val) those for testing, or those without a split.  An
 * array named as the model's only input is for every split. */
static int choose(struct pare_data *d, struct arrays a, int *x, int *y, struct pare_err *err)
{
    static const enum part train[] = { TRAIN, ANY }, val[] = { VAL, TEST, ANY },
                           test[] = { TEST, VAL, ANY };
    const char *split = d->parts->split;
    const enum part *p = !strcmp(split, "train") ? train : !strcmp(split, "val") ? val : test;

    *x = *y = -1;
    for (int i = 0; d->parts->n_io == 1 && i < a.n; i++)
        *x = !strcmp(a.name[i], d->parts->io[0].name) ? i : *x;
    while (*x >= 0 && *p != ANY)
        p++;
    for (; *x < 0; p++) {
        PARE_TRY(find_array(d, a, ITEMS, *p, x, err));
        if (*x >= 0 || *p == ANY)
            break;
    }
    d->parts->whole = *p == ANY;
    if (*x < 0 && a.n == 1)
        *x = 0; /* a single array may have any name */
    if (*x < 0)
        return no_items(d, a, split, err);
    return find_array(d, a, TARGETS, *p, y, err);
}

/* ---- .npz --------------------------------------------------------------------------- */

/* Copy from the temporary arena, which also has the arrays that were not chosen. */
static int copy_array(struct pare_data *d, const struct pare_tensor *t, struct pare_tensor *copy,
                      struct pare_err *err)
{
    size_t bytes;

    *copy = *t;
    PARE_TRY(pare_tensor_size(t, NULL, &bytes, err));
    PARE_TRY(pare_tensor_alloc(d->arena, copy, err));
    if (bytes)
        memcpy(copy->data, t->data, bytes);
    return 0;
}

static int find_name(const struct pare_named *list, int n, const char *name)
{
    int i = 0;

    while (i < n && strcmp(list[i].name, name) != 0)
        i++;
    return i < n ? i : -1;
}

/* Does the model have several inputs, and each an array of its name?  Some, but not all, is an
 * error. */
static int is_named(const struct pare_data *d, const struct pare_named *list, struct arrays a,
                    bool *yes, struct pare_err *err)
{
    const char *missing = NULL;
    char names[256];
    int found = 0;

    for (int i = 0; i < d->parts->n_io; i++)
        if (find_name(list, a.n, d->parts->io[i].name) >= 0)
            found++;
        else
            missing = missing ? missing : d->parts->io[i].name;
    *yes = found > 1 && found == d->parts->n_io;
    if (!found || d->parts->n_io < 2 || *yes)
        return 0;
    return pare_fail(err, PARE_ESHAPE,
                     "the model has %d inputs, and no array is named as its input '%s', only: %s",
                     d->parts->n_io, missing, list_names(a, names, sizeof(names)));
}

/* A set with an array for each input of the model; labels, if any, are found by their role. */
static int open_named(struct pare_data *d, const struct pare_named *list, struct arrays a,
                      struct pare_err *err)
{
    int y_at;
    const struct pare_io *io = d->parts->io;
    int n_in = d->parts->n_io;
    struct pare_input *in = pare_alloc(d->arena, (size_t)n_in, sizeof(*in));
    struct pare_tensor y;

    if (!in)
        return pare_no_memory(err, "for a data set");
    for (int k = 0; k < n_in; k++) {
        const struct pare_tensor *t = &list[find_name(list, a.n, io[k].name)].t;

        in[k].name = pare_strdup(d->arena, io[k].name);
        if (!in[k].name)
            return pare_no_memory(err, "for a data set");
        PARE_TRY(pare_at(err, copy_array(d, t, &in[k].t, err), "array '%s'", io[k].name));
    }
    PARE_TRY(pare_data_named(d, in, err));
    PARE_TRY(find_array(d, a, TARGETS, ANY, &y_at, err));
    if (y_at < 0)
        return 0;
    PARE_TRY(copy_array(d, &list[y_at].t, &y, err));
    return pare_data_targets(d, &y, err);
}

static int open_npz(struct pare_data *d, const char *path, struct pare_err *err)
{
    struct pare_named *list;
    struct pare_tensor tx, ty;
    const char **name;
    struct arrays a;
    int n, x, y;
    bool named;

    PARE_TRY(pare_npz_read(d->parts->tmp, path, &list, &n, err));
    name = pare_alloc(d->parts->tmp, (size_t)n, sizeof(*name));
    if (!name)
        return pare_no_memory(err, "for %d names", n);
    for (int i = 0; i < n; i++)
        name[i] = list[i].name;
    a = (struct arrays){ name, n };
    PARE_TRY(pare_at(err, is_named(d, list, a, &named, err), "%s", path));
    if (named)
        return pare_at(err, open_named(d, list, a, err), "%s", path);
    PARE_TRY(pare_at(err, choose(d, a, &x, &y, err), "%s", path));
    PARE_TRY(copy_array(d, &list[x].t, &tx, err));
    if (y >= 0)
        PARE_TRY(copy_array(d, &list[y].t, &ty, err));
    return pare_at(err, pare_data_arrays(d, &tx, y < 0 ? NULL : &ty, err), "%s", path);
}

/* ---- .npy ----------------------------------------------------------------------------- */

static int read_npy(struct pare_data *d, const char *path, struct pare_tensor *t,
                    struct pare_err *err)
{
    struct pare_tensor file;

    PARE_TRY(pare_npy_read(d->parts->tmp, path, &file, err));
    return copy_array(d, &file, t, err);
}

/* The .npy files of a folder, without the extension. */
static int npy_names(struct pare_arena *a, const char *dir, struct arrays *names,
                     struct pare_err *err)
{
    const char *const *all;
    const char **stem;
    int n_all, n = 0;

    PARE_TRY(pare_dir_list(a, dir, &all, &n_all, err));
    stem = pare_alloc(a, (size_t)n_all, sizeof(*stem));
    for (int i = 0; stem && i < n_all; i++)
        if (pare_ends_with(all[i], ".npy")) {
            stem[n] = pare_strndup(a, all[i], strlen(all[i]) - 4);
            if (!stem[n++])
                stem = NULL;
        }
    *names = (struct arrays){ stem, n };
    return stem ? 0 : pare_no_memory(err, "for %d names", n_all);
}

static int open_npy_pair(struct pare_data *d, const char *x, const char *y, struct pare_err *err)
{
    struct pare_tensor tx, ty;

    if (!x)
        return pare_no_memory(err, "for a name");
    PARE_TRY(read_npy(d, x, &tx, err));
    if (y)
        PARE_TRY(read_npy(d, y, &ty, err));
    return pare_at(err, pare_data_arrays(d, &tx, y ? &ty : NULL, err), "%s", x);
}

static int open_npy_folder(struct pare_data *d, const char *dir, struct pare_err *err)
{
    struct pare_arena *a = d->parts->tmp;
    struct arrays names;
    int x, y;

    PARE_TRY(pare_at(err, npy_names(a, dir, &names, err), "%s", dir));
    PARE_TRY(pare_at(err, choose(d, names, &x, &y, err), "%s", dir));
    return open_npy_pair(d, pare_sprintf(a, "%s/%s.npy", dir, names.name[x]),
                         y < 0 ? NULL : pare_sprintf(a, "%s/%s.npy", dir, names.name[y]), err);
}

/* A file of items; its labels are searched in the same folder, by name. */
static int open_npy_file(struct pare_data *d, const char *path, struct pare_err *err)
{
    struct pare_arena *a = d->parts->tmp;
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    const char *dir = slash ? pare_strndup(a, path, (size_t)(slash + 1 - path)) : "./";
    const char *stem = pare_strndup(a, base, strlen(base) - 4);
    struct arrays names;
    enum part part;
    int y = -1;

    d->parts->whole = true;
    if (!dir || !stem)
        return pare_no_memory(err, "for a name");
    if (role_of(stem, &part) == ITEMS) {
        PARE_TRY(pare_at(err, npy_names(a, dir, &names, err), "%s", dir));
        PARE_TRY(pare_at(err, find_array(d, names, TARGETS, part, &y, err), "%s", dir));
    }
    return open_npy_pair(d, path, y < 0 ? NULL : pare_sprintf(a, "%s%s.npy", dir, names.name[y]),
                         err);
}

static bool probe(struct pare_data *d, const char *path)
{
    struct pare_err err;
    struct arrays a;
    bool items = false;
    enum part part;

    if (pare_ends_with(path, ".npz") || pare_ends_with(path, ".npy"))
        return pare_is_file(path);
    if (!pare_is_dir(path) || npy_names(d->parts->tmp, path, &a, &err))
        return false;
    for (int i = 0; i < a.n; i++)
        items |= role_of(a.name[i], &part) == ITEMS;
    return items;
}

static int open_numpy(struct pare_data *d, const char *path, struct pare_err *err)
{
    if (pare_is_dir(path))
        return open_npy_folder(d, path, err);
    return pare_ends_with(path, ".npz") ? open_npz(d, path, err) : open_npy_file(d, path, err);
}

const struct pare_source pare_source_numpy = {
    .name = "numpy",
    .help =
        "NumPy's .npz, .npy or a folder of them: x and y, images and labels, x_train, ...; a .npz "
        "also with one array per input of the model, of the same names",
    .probe = probe,
    .open = open_numpy,
};

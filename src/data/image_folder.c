/* image_folder.c - PNG and JPEG files in a folder per class, like torchvision's ImageFolder, or in
 * one folder without labels.
 *
 *     train/cat/1.jpg  train/dog/7.png  val/cat/2.jpg ...    or without the train/ and val/
 *     1.jpg  2.jpg  more/7.png ...                            no labels
 *
 * Images in the folder itself, or in a single folder in it, have no labels: one class tells
 * nothing.  Classes and files are sorted by name.  Files are decoded on demand.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "source.h"
#include "../base/arena.h"
#include "../base/limits.h"
#include "../io/file.h"
#include "../tensor/tensor.h"

struct folder {
    const char **path;
    int n, cap;
    int folders; /* folders read so far; a limit ends cycles of links */
};

static bool ends_in(const char *name, const char *const *list)
{
    const char *dot = strrchr(name, '.');

    for (; dot && *list; list++)
        if (!strcasecmp(dot, *list))
            return true;
    return false;
}

static bool readable(const char *name)
{
    static const char *const list[] = { ".png", ".jpg", ".jpeg", NULL };

    return ends_in(name, list);
}

/* Formats that torchvision reads; silently skipping them would change the data set. */
static bool is_other_image(const char *name)
{
    static const char *const list[] = { ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp", NULL };

    return ends_in(name, list);
}

/* The names of the files and of the folders in a folder. */
static int list_kinds(struct pare_arena *a, const char *dir, struct folder *files,
                      struct folder *folders, struct pare_err *err)
{
    const char *const *name;
    int n;

    *files = *folders = (struct folder){ 0 };
    PARE_TRY(pare_at(err, pare_dir_list(a, dir, &name, &n, err), "%s", dir));
    files->path = pare_alloc(a, (size_t)n, sizeof(*files->path));
    folders->path = pare_alloc(a, (size_t)n, sizeof(*folders->path));
    if (!files->path || !folders->path)
        return pare_no_memory(err, "for %d names", n);
    for (int i = 0; i < n; i++) {
        const char *p = pare_sprintf(a, "%s/%s", dir, name[i]);
        struct folder *to = p && pare_is_dir(p) ? folders : files;

        if (!p)
            return pare_no_memory(err, "for %d names", n);
        to->path[to->n++] = name[i];
    }
    return 0;
}

static int add_file(struct pare_data *d, struct folder *f, const char *dir, const char *name,
                    struct pare_err *err)
{
    if (is_other_image(name))
        return pare_fail(err, PARE_EUNSUPPORTED, "%s/%s: only PNG and JPEG are supported", dir,
                         name);
    if (!readable(name))
        return 0;
    if (f->n == PARE_FOLDER_FILES)
        return pare_fail(err, PARE_ELIMIT, "%s: more than %d files, which is the limit", dir,
                         PARE_FOLDER_FILES);
    f->path = pare_grow(d->arena, f->path, f->n, &f->cap, sizeof(*f->path));
    if (!f->path)
        return pare_fail(err, PARE_ENOMEM, "%s: no memory for %d files", dir, f->n);
    f->path[f->n] = pare_sprintf(d->arena, "%s/%s", dir, name);
    if (!f->path[f->n++])
        return pare_no_memory(err, "for a name");
    return 0;
}

/* All images in a folder and below it: first the folder's own, then those of its subfolders. */
static int add_images(struct pare_data *d, struct folder *f, const char *dir, int depth,
                      struct pare_err *err)
{
    struct folder files, folders;

    if (depth > PARE_FOLDER_DEPTH)
        return pare_fail(err, PARE_ELIMIT, "%s: more than %d nested folders", dir,
                         PARE_FOLDER_DEPTH);
    if (++f->folders > PARE_FOLDER_FOLDERS)
        return pare_fail(err, PARE_ELIMIT, "%s: more than %d folders", dir, PARE_FOLDER_FOLDERS);
    PARE_TRY(list_kinds(d->parts->tmp, dir, &files, &folders, err));
    for (int i = 0; i < files.n; i++)
        PARE_TRY(add_file(d, f, dir, files.path[i], err));
    for (int i = 0; i < folders.n; i++) {
        const char *sub = pare_sprintf(d->parts->tmp, "%s/%s", dir, folders.path[i]);

        if (!sub)
            return pare_no_memory(err, "for a name");
        PARE_TRY(add_images(d, f, sub, depth + 1, err));
    }
    return 0;
}

/* ---- opening ------------------------------------------------------------------------- */

static const char *dir_in(struct pare_arena *a, const char *dir, const char *name)
{
    const char *p = pare_sprintf(a, "%s/%s", dir, name);

    return p && pare_is_dir(p) ? p : NULL;
}

/* The folder of the classes for this split. */
static const char *split_folder(struct pare_data *d, const char *path, struct pare_err *err)
{
    const char *train = dir_in(d->arena, path, "train"), *val = dir_in(d->arena, path, "val");
    const char *test = dir_in(d->arena, path, "test"), *split = d->parts->split, *found;

    if (!train) {
        d->parts->whole = true;
        return path;
    }
    found = !strcmp(split, "train") ? train
            : !strcmp(split, "val") ? (val ? val : test)
                                    : (test ? test : val);
    if (!found)
        pare_fail(err, PARE_EIO, "%s: there is train, but neither test nor val", path);
    return found;
}

static bool has_images(const struct folder *files)
{
    for (int i = 0; i < files->n; i++)
        if (readable(files->path[i]) || is_other_image(files->path[i]))
            return true;
    return false;
}

static bool probe(struct pare_data *d, const char *path)
{
    struct folder files, folders;
    struct pare_err err;

    if (!pare_is_dir(path) || list_kinds(d->parts->tmp, path, &files, &folders, &err))
        return false;
    return folders.n || has_images(&files);
}

/* All images have the size of the first one, unless the options specify another. */
static int set_form(struct pare_data *d, struct pare_err *err)
{
    struct pare_image p;

    PARE_TRY(d->source->read(d, 0, d->parts->tmp, &p, err));
    p.data = NULL;
    d->parts->form = p;
    d->parts->is_image = true;
    d->dtype = PARE_U8;
    return 0;
}

static int no_images(const char *dir, struct pare_err *err)
{
    return pare_fail(err, PARE_EFORMAT, "%s: no images (.png, .jpg, .jpeg) there", dir);
}

/* The images of each class, and their labels. */
static int open_classes(struct pare_data *d, struct folder *f, const char *dir,
                        const struct folder *classes, struct pare_err *err)
{
    struct pare_tensor y = { .dtype = PARE_I64, .rank = 1 };
    int *end = pare_alloc(d->parts->tmp, (size_t)classes->n, sizeof(*end));

    if (!end)
        return pare_no_memory(err, "for %d classes", classes->n);
    for (int k = 0; k < classes->n; k++) {
        const char *sub = pare_sprintf(d->parts->tmp, "%s/%s", dir, classes->path[k]);

        if (!sub)
            return pare_no_memory(err, "for a name");
        PARE_TRY(add_images(d, f, sub, 0, err));
        end[k] = f->n;
        if (f->n == (k ? end[k - 1] : 0))
            return no_images(sub, err);
    }
    y.dim[0] = d->n = f->n;
    PARE_TRY(pare_tensor_alloc(d->arena, &y, err));
    for (int i = 0, k = 0; i < f->n; i++) {
        k += i == end[k];
        pare_i64_mut(&y)[i] = k;
    }
    d->classes = classes->n;
    d->classes_known = true;
    d->class_name = classes->path;
    PARE_TRY(set_form(d, err));
    return pare_data_targets(d, &y, err);
}

static int open_folder(struct pare_data *d, const char *path, struct pare_err *err)
{
    const char *dir = split_folder(d, path, err);
    struct folder *f = pare_alloc(d->arena, 1, sizeof(*f)), files, classes;

    if (!dir || !f)
        return dir ? pare_no_memory(err, "to open a data set") : err->code;
    d->parts->priv = f;
    PARE_TRY(list_kinds(d->arena, dir, &files, &classes, err));
    if (classes.n > 1 || (classes.n && !d->parts->whole))
        return open_classes(d, f, dir, &classes, err);
    PARE_TRY(add_images(d, f, dir, 0, err));
    d->n = f->n;
    return f->n ? set_form(d, err) : no_images(dir, err);
}

/* ---- reading --------------------------------------------------------------------------- */

/* Brightness as in Pillow: (19595 R + 38470 G + 7471 B) / 2^16, rounded. */
static int make_gray(struct pare_arena *a, struct pare_image *p, struct pare_err *err)
{
    const uint8_t *from = p->data;
    uint8_t *to = pare_alloc_raw(a, (size_t)(p->h * p->w), 1);

    if (!to)
        return pare_no_memory(err, "for an image");
    for (int64_t i = 0; i < p->h * p->w; i++, from += 3)
        to[i] = (uint8_t)((19595u * from[0] + 38470u * from[1] + 7471u * from[2] + 0x8000u) >> 16);
    *p = (struct pare_image){ PARE_U8, 1, p->h, p->w, false, to };
    return 0;
}

static int decode(struct pare_arena *a, const unsigned char *b, size_t len, struct pare_image *p,
                  struct pare_err *err)
{
    if (len > 2 && b[0] == 0xff && b[1] == 0xd8)
        return pare_jpeg_decode(a, b, len, p, err);
    return pare_png_decode(a, b, len, p, err);
}

static int read_image(const struct pare_data *d, int64_t i, struct pare_arena *a,
                      struct pare_image *p, struct pare_err *err)
{
    const char *path = ((const struct folder *)d->parts->priv)->path[i];
    const void *bytes;
    size_t len;
    int rc = pare_file_read(a, path, &bytes, &len, err);

    if (!rc)
        rc = decode(a, bytes, len, p, err);
    if (!rc && d->opts.gray)
        rc = make_gray(a, p, err);
    return pare_at(err, rc, "%s", path);
}

const struct pare_source pare_source_image_folder = {
    .name = "image-folder",
    .help = "PNG and JPEG files in a folder per class, optionally below train, val and test; or in "
            "one folder, without labels",
    .probe = probe,
    .open = open_folder,
    .read = read_image,
};

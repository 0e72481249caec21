/* class_folder.c - files in a folder per class, like torchvision's ImageFolder, or in one folder
 * without labels.
 *
 *     train/cat/1.jpg  train/dog/7.png  val/cat/2.jpg ...    or without the train/ and val/
 *     1.jpg  2.jpg  more/7.png ...                            no labels
 *
 * Files in the folder itself, or in a single folder in it, have no labels: one class tells nothing.
 * Classes and files are sorted by name.
 */
#include "class_folder.h"

#include <dirent.h>
#include <string.h>
#include <strings.h>

#include "../base/arena.h"
#include "../base/limits.h"
#include "../tensor/tensor.h"

#define FILES_SHOWN 1024 /* files between two reports of progress */
#define SCANNED 4096     /* entries of a folder that decide on the format */

struct names {
    const char **name;
    int n;
};

struct walk {
    struct pare_data *d;
    const struct pare_file_kind *kind;
    struct pare_file_list *list;
    int folders; /* folders read so far; a limit ends cycles of links */
};

static bool ends_in(const char *name, const char *const *list)
{
    const char *dot = strrchr(name, '.');

    for (; dot && list && *list; list++)
        if (!strcasecmp(dot, *list))
            return true;
    return false;
}

/* The names of the files and of the folders in a folder; d NULL: without progress. */
static int list_kinds(const struct pare_data *d, struct pare_arena *a, const char *dir,
                      struct names *files, struct names *folders, struct pare_err *err)
{
    const char *const *name;
    int n;

    *files = *folders = (struct names){ 0 };
    PARE_TRY(pare_at(err, pare_dir_list(a, dir, &name, &n, err), "%s", dir));
    files->name = pare_alloc(a, (size_t)n, sizeof(*files->name));
    folders->name = pare_alloc(a, (size_t)n, sizeof(*folders->name));
    if (!files->name || !folders->name)
        return pare_no_memory(err, "for %d names", n);
    for (int i = 0; i < n; i++) {
        const char *p = pare_sprintf(a, "%s/%s", dir, name[i]);
        struct names *to = p && pare_is_dir(p) ? folders : files;

        if (d && i % FILES_SHOWN == 0)
            PARE_TRY(pare_open_progress(d, "list", i, n, err));

        if (!p)
            return pare_no_memory(err, "for %d names", n);
        to->name[to->n++] = name[i];
    }
    return 0;
}

int pare_file_list_add(struct pare_file_list *l, struct pare_arena *a, const char *path,
                       struct pare_err *err)
{
    if (l->n == PARE_FOLDER_FILES)
        return pare_fail(err, PARE_ELIMIT, "more than %d files, which is the limit",
                         PARE_FOLDER_FILES);
    l->path = path ? pare_grow(a, l->path, l->n, &l->cap, sizeof(*l->path)) : NULL;
    if (!l->path)
        return pare_no_memory(err, "for %d files", l->n);
    l->path[l->n++] = path;
    return 0;
}

static int add_file(struct walk *w, const char *dir, const char *name, struct pare_err *err)
{
    if (ends_in(name, w->kind->other))
        return pare_fail(err, PARE_EUNSUPPORTED, "%s/%s: %s", dir, name, w->kind->only);
    if (!ends_in(name, w->kind->suffix))
        return 0;
    return pare_at(err,
                   pare_file_list_add(w->list, w->d->arena,
                                      pare_sprintf(w->d->arena, "%s/%s", dir, name), err),
                   "%s", dir);
}

/* All files in a folder and below it: first the folder's own, then those of its subfolders. */
static int add_files(struct walk *w, const char *dir, int depth, struct pare_err *err)
{
    struct names files, folders;

    if (depth > PARE_FOLDER_DEPTH)
        return pare_fail(err, PARE_ELIMIT, "%s: more than %d nested folders", dir,
                         PARE_FOLDER_DEPTH);
    if (++w->folders > PARE_FOLDER_FOLDERS)
        return pare_fail(err, PARE_ELIMIT, "%s: more than %d folders", dir, PARE_FOLDER_FOLDERS);
    PARE_TRY(list_kinds(w->d, w->d->parts->tmp, dir, &files, &folders, err));
    for (int i = 0; i < files.n; i++)
        PARE_TRY(add_file(w, dir, files.name[i], err));
    for (int i = 0; i < folders.n; i++) {
        const char *sub = pare_sprintf(w->d->parts->tmp, "%s/%s", dir, folders.name[i]);

        if (!sub)
            return pare_no_memory(err, "for a name");
        PARE_TRY(add_files(w, sub, depth + 1, err));
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

static bool has_files(const struct names *files, const struct pare_file_kind *kind)
{
    for (int i = 0; i < files->n; i++)
        if (ends_in(files->name[i], kind->suffix) || ends_in(files->name[i], kind->other))
            return true;
    return false;
}

/* Look at the first entries of a folder: a file of this kind, or a folder (*sub, else NULL). */
static bool scan(struct pare_arena *a, const char *dir, const struct pare_file_kind *kind,
                 const char **sub)
{
    DIR *d = opendir(dir);
    bool found = false;
    int n = 0;

    *sub = NULL;
    if (!d)
        return false;
    for (struct dirent *e = readdir(d); e && !found && n < SCANNED; e = readdir(d), n++) {
        found = ends_in(e->d_name, kind->suffix) || ends_in(e->d_name, kind->other);
        if (!*sub && e->d_name[0] != '.') {
            *sub = pare_sprintf(a, "%s/%s", dir, e->d_name);
            *sub = *sub && pare_is_dir(*sub) ? *sub : NULL;
        }
    }
    closedir(d);
    return found;
}

bool pare_class_folder_probe(struct pare_data *d, const char *path,
                             const struct pare_file_kind *kind, bool deep)
{
    struct names files, folders;
    struct pare_err err;

    if (!pare_is_dir(path))
        return false;
    if (!deep)
        return !list_kinds(NULL, d->parts->tmp, path, &files, &folders, &err) &&
               (folders.n || has_files(&files, kind));
    for (int depth = 0; depth < 3 && path; depth++) {
        const char *sub;

        if (scan(d->parts->tmp, path, kind, &sub))
            return true;
        path = sub;
    }
    return false;
}

static int no_files(const char *dir, const struct pare_file_kind *kind, struct pare_err *err)
{
    return pare_fail(err, PARE_EFORMAT, "%s: no %s there", dir, kind->what);
}

/* The files of each class, and their labels. */
static int list_classes(struct walk *w, const char *dir, const struct names *classes,
                        struct pare_tensor *y, struct pare_err *err)
{
    struct pare_data *d = w->d;
    struct pare_file_list *f = w->list;
    int *end = pare_alloc(d->parts->tmp, (size_t)classes->n, sizeof(*end));

    if (!end)
        return pare_no_memory(err, "for %d classes", classes->n);
    for (int k = 0; k < classes->n; k++) {
        const char *sub = pare_sprintf(d->parts->tmp, "%s/%s", dir, classes->name[k]);

        if (!sub)
            return pare_no_memory(err, "for a name");
        PARE_TRY(add_files(w, sub, 0, err));
        end[k] = f->n;
        if (f->n == (k ? end[k - 1] : 0))
            return no_files(sub, w->kind, err);
    }
    *y = (struct pare_tensor){ .dtype = PARE_I64, .rank = 1, .dim = { f->n } };
    PARE_TRY(pare_tensor_alloc(d->arena, y, err));
    for (int i = 0, k = 0; i < f->n; i++) {
        k += i == end[k];
        pare_i64_mut(y)[i] = k;
    }
    d->classes = classes->n;
    d->classes_known = true;
    d->class_name = classes->name;
    return 0;
}

int pare_class_folder_list(struct pare_data *d, const char *path, const struct pare_file_kind *kind,
                           struct pare_file_list *list, struct pare_tensor *y, struct pare_err *err)
{
    struct walk w = { .d = d, .kind = kind, .list = list };
    const char *dir = split_folder(d, path, err);
    struct names files, classes;

    *y = (struct pare_tensor){ 0 };
    if (!dir)
        return err->code;
    PARE_TRY(list_kinds(d, d->arena, dir, &files, &classes, err));
    if (classes.n > 1 || (classes.n && !d->parts->whole))
        PARE_TRY(list_classes(&w, dir, &classes, y, err));
    else
        PARE_TRY(add_files(&w, dir, 0, err));
    d->n = list->n;
    return list->n ? 0 : no_files(dir, kind, err);
}

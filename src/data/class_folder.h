/* class_folder.h - files in a folder per class, or in one folder without labels. */
#ifndef PARE_DATA_CLASS_FOLDER_H
#define PARE_DATA_CLASS_FOLDER_H

#include "source.h"

/* Which files of a folder are items. */
struct pare_file_kind {
    const char *const *suffix; /* ends with NULL */
    const char *const *other;  /* suffixes of items in formats that are not supported; or NULL */
    const char *what;          /* "images (.png, .jpg, .jpeg)", for messages */
    const char *only;          /* "only PNG and JPEG are supported" */
};

/* The files of a set, in data->arena; data->parts->priv of formats with one file per item. */
struct pare_file_list {
    const char **path;
    int n, cap;
};

/* Append a path, which is not copied. */
int pare_file_list_add(struct pare_file_list *l, struct pare_arena *a, const char *path,
                       struct pare_err *err);

/* Does the folder, or (deep) a folder in it, have files of this kind? */
bool pare_class_folder_probe(struct pare_data *d, const char *path,
                             const struct pare_file_kind *kind, bool deep);

/* List the files for data->parts->split, set data->n, and return the classes of the items in *y,
 * with data->classes and class names; y->data is NULL if there are no classes. */
int pare_class_folder_list(struct pare_data *d, const char *path, const struct pare_file_kind *kind,
                           struct pare_file_list *list, struct pare_tensor *y,
                           struct pare_err *err);

#endif

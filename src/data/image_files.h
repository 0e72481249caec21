/* image_files.h - the PNG and JPEG files of a data set, decoded on demand. */
#ifndef PARE_DATA_IMAGE_FILES_H
#define PARE_DATA_IMAGE_FILES_H

#include "class_folder.h"

/* For open(): the items are these files. */
int pare_image_files_use(struct pare_data *d, struct pare_file_list *list, struct pare_err *err);

/* read() of a format whose items are image files. */
int pare_image_files_read(const struct pare_data *d, int64_t i, struct pare_arena *a,
                          struct pare_image *p, struct pare_err *err);

/* size() of such a format. */
int pare_image_files_size(const struct pare_data *d, int64_t i, struct pare_arena *a, int64_t *h,
                          int64_t *w, struct pare_err *err);

#endif

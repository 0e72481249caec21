/* image_folder.c - PNG and JPEG files in a folder per class, or in one folder without labels. */
#include "image_files.h"

#include "../base/arena.h"

static const char *const suffixes[] = { ".png", ".jpg", ".jpeg", NULL };

/* Formats that torchvision reads; silently skipping them would change the data set. */
static const char *const others[] = { ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp", NULL };

static const struct pare_file_kind images = { suffixes, others, "images (.png, .jpg, .jpeg)",
                                              "only PNG and JPEG are supported" };

static bool probe(struct pare_data *d, const char *path)
{
    return pare_class_folder_probe(d, path, &images, false);
}

static int open_folder(struct pare_data *d, const char *path, struct pare_err *err)
{
    struct pare_file_list *list = pare_alloc(d->arena, 1, sizeof(*list));
    struct pare_tensor y;

    if (!list)
        return pare_no_memory(err, "to open a data set");
    PARE_TRY(pare_class_folder_list(d, path, &images, list, &y, err));
    PARE_TRY(pare_image_files_use(d, list, err));
    return y.data ? pare_data_targets(d, &y, err) : 0;
}

const struct pare_source pare_source_image_folder = {
    .name = "image-folder",
    .help = "PNG and JPEG files in a folder per class, optionally below train, val and test; or in "
            "one folder, without labels",
    .probe = probe,
    .open = open_folder,
    .read = pare_image_files_read,
    .size = pare_image_files_size,
};

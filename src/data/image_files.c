/* image_files.c - decode the PNG and JPEG files of a data set on demand. */
#include "image_files.h"

#include <string.h>

#include "../base/arena.h"
#include "../io/file.h"

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
    if (len > 12 && !memcmp(b, "RIFF", 4) && !memcmp(b + 8, "WAVE", 4))
        return pare_fail(err, PARE_EUNSUPPORTED,
                         "is a sound, and a list names images: use a folder of WAV files");
    return pare_png_decode(a, b, len, p, err);
}

int pare_image_files_read(const struct pare_data *d, int64_t i, struct pare_arena *a,
                          struct pare_image *p, struct pare_err *err)
{
    const char *path = ((const struct pare_file_list *)d->parts->priv)->path[i];
    const void *bytes;
    size_t len;
    int rc = pare_file_read(a, path, &bytes, &len, err);

    if (!rc)
        rc = decode(a, bytes, len, p, err);
    if (!rc && d->opts.gray)
        rc = make_gray(a, p, err);
    return pare_at(err, rc, "%s", path);
}

int pare_image_files_use(struct pare_data *d, struct pare_file_list *list, struct pare_err *err)
{
    struct pare_image p;

    d->parts->priv = list;
    d->n = list->n;
    PARE_TRY(pare_image_files_read(d, 0, d->parts->tmp, &p, err));
    p.data = NULL;
    d->parts->form = p;
    d->parts->is_image = true;
    d->dtype = PARE_U8;
    return 0;
}

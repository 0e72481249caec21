/* image_size.c - sizes of PNG and JPEG files from their headers; sets of images that differ in size
 * run one by one. */
#include <string.h>

#include "image_files.h"
#include "../base/arena.h"
#include "../io/file.h"

#define HEAD 65536 /* bytes that are read of each file at first */

static int64_t number(const unsigned char *p, int bytes)
{
    int64_t v = 0;

    for (int i = 0; i < bytes; i++)
        v = v << 8 | p[i];
    return v;
}

/* The frame header of a JPEG file: marker SOF0 to SOF15, without DHT, JPG and DAC. */
static bool jpeg_size(const unsigned char *b, size_t len, int64_t *h, int64_t *w)
{
    size_t at = 2;

    while (at + 9 < len && b[at] == 0xff) {
        unsigned m = b[at + 1];

        if (m == 0xff) { /* padding */
            at++;
            continue;
        }
        if (m >= 0xc0 && m <= 0xcf && m != 0xc4 && m != 0xc8 && m != 0xcc) {
            *h = number(b + at + 5, 2);
            *w = number(b + at + 7, 2);
            return *h > 0 && *w > 0;
        }
        at += m == 0x01 || (m >= 0xd0 && m <= 0xd8) ? 2 : 2 + (size_t)number(b + at + 2, 2);
    }
    return false;
}

/* False: the header is malformed, or longer than len. */
static bool size_of(const unsigned char *b, size_t len, int64_t *h, int64_t *w)
{
    if (len > 2 && b[0] == 0xff && b[1] == 0xd8)
        return jpeg_size(b, len, h, w);
    if (len < 24 || memcmp(b, "\x89PNG\r\n\x1a\n", 8) != 0)
        return false;
    *w = number(b + 16, 4);
    *h = number(b + 20, 4);
    return *h > 0 && *w > 0;
}

int pare_image_files_size(const struct pare_data *d, int64_t i, struct pare_arena *a, int64_t *h,
                          int64_t *w, struct pare_err *err)
{
    const char *path = ((const struct pare_file_list *)d->parts->priv)->path[i];
    unsigned char *head = pare_alloc_raw(a, HEAD, 1);
    struct pare_file_metadata f;
    struct pare_image p;

    if (!head)
        return pare_no_memory(err, "for an image");
    PARE_TRY(pare_at(err, pare_file_look(path, head, HEAD, &f, err), "%s", path));
    if (size_of(head, f.head, h, w))
        return 0;
    PARE_TRY(pare_image_files_read(d, i, a, &p, err)); /* a long header, or the error */
    *h = p.h;
    *w = p.w;
    return 0;
}

int pare_image_sizes(struct pare_data *d, struct pare_err *err)
{
    const struct pare_data_parts *p = d->parts;
    const struct pare_io *io = p->n_io == 1 ? p->io : NULL;
    struct pare_err unfit;

    if (!d->source->size || p->cropped || p->resize.n > 1)
        return 0;
    if (io && pare_image_check(d, p->H, p->W, io, &unfit))
        io = NULL; /* pare_data_check() says so */
    for (int64_t i = 0; i < d->n; i++) {
        struct pare_mark m = pare_mark(p->tmp);
        int64_t h, w;

        PARE_TRY(pare_open_progress(d, "look at image", i, d->n, err));
        PARE_TRY(d->source->size(d, p->pick ? p->pick[i] : i, p->tmp, &h, &w, err));
        pare_rewind(p->tmp, m);
        pare_resized(&p->resize, h, w, &h, &w);
        d->single |= h != p->H || w != p->W;
        if (io && (h != p->H || w != p->W))
            PARE_TRY(pare_at(err, pare_image_check(d, h, w, io, err), "item %lld", (long long)i));
    }
    return 0;
}

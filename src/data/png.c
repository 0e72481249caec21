/* png.c - PNG decoder: bytes of red, green, blue.
 *
 * Transparency is dropped, palettes and grayscale are converted to RGB, 16 bits to 8, as in
 * torchvision's loader.  libpng reports errors by longjmp(), within this file: state that must
 * survive it is in struct reader.
 */
#include <png.h>
#include <setjmp.h>
#include <string.h>

#include "source.h"

struct reader {
    const unsigned char *p;
    size_t left;
    struct pare_arena *a;
    struct pare_image *out;
    unsigned char *pixels;
    struct pare_err *err;
    int rc;
    png_structp png;
    png_infop info;
};

static void failed(png_structp png, png_const_charp what)
{
    struct reader *r = png_get_error_ptr(png);

    if (!r->rc)
        r->rc = pare_fail(r->err, PARE_EFORMAT, "not a readable PNG: %s", what);
    png_longjmp(png, 1);
}

static void ignore(png_structp png, png_const_charp what)
{
    (void)png;
    (void)what;
}

static void read_bytes(png_structp png, png_bytep to, png_size_t len)
{
    struct reader *r = png_get_io_ptr(png);

    if (len > r->left)
        png_error(png, "the file ends too early");
    memcpy(to, r->p, len);
    r->p += len;
    r->left -= len;
}

/* Read everything before the pixels; allocate memory only after checking the size. */
static void read_head(struct reader *r)
{
    int64_t w, h;

    png_set_read_fn(r->png, r, read_bytes);
    png_read_info(r->png, r->info);
    w = (int64_t)png_get_image_width(r->png, r->info);
    h = (int64_t)png_get_image_height(r->png, r->info);
    if (w > PARE_MAX_PIXELS / h) {
        r->rc = pare_fail(r->err, PARE_ELIMIT,
                          "the image has %lld x %lld pixels, at most %lld are supported",
                          (long long)w, (long long)h, (long long)PARE_MAX_PIXELS);
        png_longjmp(r->png, 1);
    }
    png_set_expand(r->png);
    png_set_strip_16(r->png);
    png_set_strip_alpha(r->png);
    png_set_gray_to_rgb(r->png);
    png_set_interlace_handling(r->png);
    png_read_update_info(r->png, r->info);
    r->pixels = pare_alloc(r->a, (size_t)(w * h), 3);
    if (!r->pixels || png_get_rowbytes(r->png, r->info) != (size_t)w * 3) {
        r->rc = pare_fail(r->err, PARE_ENOMEM, "no memory for an image of %lld x %lld",
                          (long long)w, (long long)h);
        png_longjmp(r->png, 1);
    }
    *r->out = (struct pare_image){ PARE_U8, 3, h, w, true, r->pixels };
}

/* Interlaced images are read in several passes over the same rows. */
static void read_rows(struct reader *r)
{
    int passes = png_get_interlace_type(r->png, r->info) == PNG_INTERLACE_ADAM7 ? 7 : 1;

    for (int k = 0; k < passes; k++)
        for (int64_t y = 0; y < r->out->h; y++)
            png_read_row(r->png, r->pixels + y * r->out->w * 3, NULL);
    png_read_end(r->png, NULL);
}

/* What changes after setjmp() must not be a local variable of its function. */
static void decode(struct reader *r)
{
    if (setjmp(png_jmpbuf(r->png)))
        return;
    read_head(r);
    read_rows(r);
}

int pare_png_decode(struct pare_arena *a, const void *bytes, size_t len, struct pare_image *p,
                    struct pare_err *err)
{
    struct reader r = { .p = bytes, .left = len, .a = a, .out = p, .err = err };

    r.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &r, failed, ignore);
    r.info = r.png ? png_create_info_struct(r.png) : NULL;
    if (r.info)
        decode(&r);
    else
        r.rc = pare_no_memory(err, "to read a PNG");
    png_destroy_read_struct(&r.png, &r.info, NULL);
    return r.rc;
}

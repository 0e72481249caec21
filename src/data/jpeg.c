/* jpeg.c - JPEG decoder: bytes of red, green, blue.
 *
 * libjpeg's defaults (accurate DCT, smooth upsampling), which are Pillow's and so torchvision's.
 * libjpeg reports errors by a function that must not return, so it uses longjmp(), within this
 * file.
 */
#include <stdio.h>

#include <jpeglib.h>
#include <jerror.h>
#include <setjmp.h>

#include "source.h"

struct reader {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf jump;
    struct pare_arena *a;
    struct pare_image *out;
    unsigned char *pixels, *row; /* row: cyan, magenta, yellow, black */
    struct pare_err *err;
    int rc;
};

static void stop_decoding(struct reader *r, int code, const char *what)
{
    r->rc = pare_fail(r->err, code, "not a readable JPEG: %s", what);
    longjmp(r->jump, 1);
}

static void failed(j_common_ptr c)
{
    char what[JMSG_LENGTH_MAX];

    c->err->format_message(c, what);
    stop_decoding(c->client_data, PARE_EFORMAT, what);
}

/* Other warnings are common in images that every viewer shows. */
static void on_warning(j_common_ptr c, int level)
{
    if (level < 0 && c->err->msg_code == JWRN_JPEG_EOF)
        stop_decoding(c->client_data, PARE_EFORMAT, "the file ends too early");
}

static void progress(j_common_ptr c)
{
    if (c->is_decompressor && ((j_decompress_ptr)c)->input_scan_number > PARE_JPEG_SCANS)
        stop_decoding(c->client_data, PARE_ELIMIT, "it has too many scans");
}

static void read_head(struct reader *r, const void *bytes, size_t len)
{
    struct jpeg_decompress_struct *j = &r->jpeg;
    bool four;
    int64_t w, h;

    jpeg_mem_src(j, bytes, len);
    jpeg_read_header(j, TRUE);
    w = (int64_t)j->image_width;
    h = (int64_t)j->image_height;
    if (w > PARE_MAX_PIXELS / h)
        stop_decoding(r, PARE_ELIMIT, "it has more pixels than are supported");
    four = j->jpeg_color_space == JCS_CMYK || j->jpeg_color_space == JCS_YCCK;
    j->out_color_space = four ? JCS_CMYK : JCS_RGB;
    jpeg_start_decompress(j);
    r->pixels = pare_alloc(r->a, (size_t)(w * h), 3);
    r->row = four ? pare_alloc(r->a, (size_t)w, 4) : NULL;
    if (!r->pixels || (four && !r->row))
        stop_decoding(r, PARE_ENOMEM, "there is no memory for it");
    *r->out = (struct pare_image){ PARE_U8, 3, h, w, true, r->pixels };
}

/* a b / 255, rounded. */
static unsigned mul255(unsigned a, unsigned b)
{
    unsigned t = a * b + 128;

    return (t + (t >> 8)) >> 8;
}

/* red = (1 - cyan) (1 - black).  Adobe's files have all four inverted. */
static void from_cmyk(const struct reader *r, unsigned char *to)
{
    unsigned flip = r->jpeg.saw_Adobe_marker ? 255 : 0;

    for (int64_t x = 0; x < r->out->w; x++) {
        const unsigned char *p = r->row + 4 * x;
        unsigned white = 255 - (p[3] ^ flip);

        for (int k = 0; k < 3; k++)
            to[3 * x + k] = (unsigned char)(white - mul255(p[k] ^ flip, white));
    }
}

static void read_rows(struct reader *r)
{
    for (int64_t y = 0; y < r->out->h; y++) {
        unsigned char *to = r->pixels + y * r->out->w * 3, *row = r->row ? r->row : to;

        jpeg_read_scanlines(&r->jpeg, &row, 1);
        if (r->row)
            from_cmyk(r, to);
    }
    jpeg_finish_decompress(&r->jpeg);
}

/* What changes after setjmp() must not be a local variable of its function. */
static void decode(struct reader *r, const void *bytes, size_t len)
{
    if (setjmp(r->jump))
        return;
    jpeg_create_decompress(&r->jpeg);
    r->jpeg.progress = &r->progress;
    read_head(r, bytes, len);
    read_rows(r);
}

int pare_jpeg_decode(struct pare_arena *a, const void *bytes, size_t len, struct pare_image *p,
                     struct pare_err *err)
{
    struct reader r = { .a = a, .out = p, .err = err };

    r.jpeg.err = jpeg_std_error(&r.errors);
    r.jpeg.client_data = &r;
    r.errors.error_exit = failed;
    r.errors.emit_message = on_warning;
    r.progress.progress_monitor = progress;
    decode(&r, bytes, len);
    jpeg_destroy_decompress(&r.jpeg);
    return r.rc;
}

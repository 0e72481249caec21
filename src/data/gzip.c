/* gzip.c - sequential reader of plain or gzip-compressed bytes. */
#include "gzip.h"

#include <string.h>

#define PIECE ((size_t)1 << 30) /* zlib counts in 32 bits */

int pare_gzip_start(struct pare_gzip *g, const void *bytes, size_t len, struct pare_err *err)
{
    *g = (struct pare_gzip){ .p = bytes, .left = len };
    g->packed = len >= 2 && g->p[0] == 0x1f && g->p[1] == 0x8b;
    if (g->packed && inflateInit2(&g->z, 16 + MAX_WBITS) != Z_OK)
        return pare_no_memory(err, "to decompress");
    return 0;
}

void pare_gzip_stop(struct pare_gzip *g)
{
    if (g->packed)
        inflateEnd(&g->z);
}

/* Call inflate once; *got is the number of bytes produced.  A file may have several streams. */
static int inflate_some(struct pare_gzip *g, unsigned char *dst, size_t len, size_t *got,
                        struct pare_err *err)
{
    size_t in = g->left < PIECE ? g->left : PIECE, room = len < PIECE ? len : PIECE;
    int rc;

    g->z.next_in = (unsigned char *)(uintptr_t)g->p;
    g->z.avail_in = (uInt)in;
    g->z.next_out = dst;
    g->z.avail_out = (uInt)room;
    rc = inflate(&g->z, Z_NO_FLUSH);
    *got = room - g->z.avail_out;
    g->left -= in - g->z.avail_in;
    g->p = g->z.next_in;
    g->done = rc == Z_STREAM_END && !g->left;
    if (rc == Z_STREAM_END && g->left)
        rc = inflateReset(&g->z);
    if (rc == Z_OK || rc == Z_STREAM_END)
        return 0;
    if (rc == Z_BUF_ERROR)
        return pare_fail(err, PARE_EFORMAT, "the compressed data ends too early");
    return pare_fail(err, PARE_EFORMAT, "the compressed data is damaged: %s",
                     g->z.msg ? g->z.msg : "no gzip stream");
}

int pare_gzip_take(struct pare_gzip *g, void *dst, size_t len, struct pare_err *err)
{
    unsigned char *to = dst;

    if (!g->packed) {
        if (len > g->left)
            return pare_fail(err, PARE_EFORMAT, "the file ends too early");
        memcpy(to, g->p, len);
        g->p += len;
        g->left -= len;
        return 0;
    }
    while (len) {
        size_t got = 0;

        if (!g->left)
            return pare_fail(err, PARE_EFORMAT, "the compressed data ends too early");
        PARE_TRY(inflate_some(g, to, len, &got, err));
        to += got;
        len -= got;
    }
    return 0;
}

/* zlib compares the checksum when the end is read. */
int pare_gzip_end(struct pare_gzip *g, struct pare_err *err)
{
    unsigned char more;
    size_t got = 0;

    while (g->packed && g->left && !got)
        PARE_TRY(inflate_some(g, &more, 1, &got, err));
    if (g->packed && !got && !g->done)
        return pare_fail(err, PARE_EFORMAT, "the compressed data ends too early");
    if (got || g->left)
        return pare_fail(err, PARE_EFORMAT, "the file has bytes after its data");
    return 0;
}

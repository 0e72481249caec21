/* zip_read.c - read a zip archive: its directory, and entries that are stored or deflated.
 *
 * The end record, found from the end of the file, locates the directory, which has a record for
 * each entry: name, sizes, checksum and the offset of the local header, after which the data
 * begins.  Zip64 records replace values that do not fit in 16 or 32 bits.  (PKWARE, APPNOTE.TXT)
 */
#include "zip_read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include "../base/arena.h"
#include "../base/limits.h"
#include "crc.h"
#include "file.h"

enum {
    END_BYTES = 22,      /* end record */
    LOCATOR_BYTES = 20,  /* locator of the zip64 end record, before the end record */
    END64_BYTES = 56,    /* zip64 end record */
    RECORD_BYTES = 46,   /* record of an entry in the directory, without its name */
    LOCAL_BYTES = 30,    /* local header, without its name */
    MOST_COMMENT = 65535 /* bytes after the end record */
};

#define FULL16 0xffffu
#define FULL32 0xffffffffu
#define PIECE ((size_t)1 << 30) /* zlib counts in 32 bits */

/* n bytes, little endian. */
static uint64_t le(const unsigned char *p, int n)
{
    uint64_t v = 0;

    for (int i = n - 1; i >= 0; i--)
        v = v << 8 | p[i];
    return v;
}

static int not_zip(struct pare_err *err, const char *what)
{
    return pare_fail(err, PARE_EFORMAT, "cannot open the zip archive: %s", what);
}

/* ---- the directory ------------------------------------------------------------------------ */

struct directory {
    uint64_t at, len, n;
};

/* Offset of the end record; -1: there is none. */
static int64_t find_end(const struct pare_zip *z)
{
    const int64_t last = (int64_t)z->len - END_BYTES, first = last - MOST_COMMENT;

    for (int64_t i = last; i >= 0 && i >= first; i--)
        if (le(z->bytes + i, 4) == 0x06054b50 &&
            (uint64_t)i + END_BYTES + le(z->bytes + i + 20, 2) <= z->len)
            return i;
    return -1;
}

/* Take the values of the zip64 end record, which is before `end`. */
static int read_end64(const struct pare_zip *z, uint64_t end, struct directory *d,
                      struct pare_err *err)
{
    const unsigned char *p;
    uint64_t at;

    if (end < LOCATOR_BYTES || le(z->bytes + end - LOCATOR_BYTES, 4) != 0x07064b50)
        return 0;
    at = le(z->bytes + end - LOCATOR_BYTES + 8, 8);
    if (at > end || end - at < END64_BYTES || le(z->bytes + at, 4) != 0x06064b50)
        return not_zip(err, "its zip64 end record is missing");
    p = z->bytes + at;
    *d = (struct directory){ .n = le(p + 32, 8), .len = le(p + 40, 8), .at = le(p + 48, 8) };
    return 0;
}

static int find_directory(const struct pare_zip *z, struct directory *d, struct pare_err *err)
{
    const int64_t end = find_end(z);
    const unsigned char *p = z->bytes + (end < 0 ? 0 : end);

    if (end < 0)
        return not_zip(err, "Not a zip archive");
    if (le(p + 4, 2) != le(p + 6, 2))
        return not_zip(err, "it is one of several parts");
    *d = (struct directory){ .n = le(p + 10, 2), .len = le(p + 12, 4), .at = le(p + 16, 4) };
    if (d->n == FULL16 || d->len == FULL32 || d->at == FULL32)
        PARE_TRY(read_end64(z, (uint64_t)end, d, err));
    if (d->n > PARE_ZIP_ENTRIES)
        return pare_fail(err, PARE_ELIMIT, "the archive has %llu entries, at most %d are supported",
                         (unsigned long long)d->n, PARE_ZIP_ENTRIES);
    if (d->at > (uint64_t)end || d->len > (uint64_t)end - d->at || d->n > d->len / RECORD_BYTES)
        return not_zip(err, "its directory lies outside the file");
    return 0;
}

/* Replace those of size, packed and at that are full by the values of the zip64 extra field. */
static void read_extra64(struct pare_zip_item *e, const unsigned char *p, size_t len)
{
    uint64_t *value[] = { &e->size, &e->packed, &e->at };

    while (len >= 4) {
        size_t id = (size_t)le(p, 2), n = (size_t)le(p + 2, 2);

        p += 4;
        len -= 4;
        n = n < len ? n : len;
        for (int i = 0; i < 3 && id == 1; i++)
            if (*value[i] == FULL32 && n >= 8) {
                *value[i] = le(p, 8);
                p += 8;
                len -= 8;
                n -= 8;
            }
        if (id == 1)
            return;
        p += n;
        len -= n;
    }
}

/* The record at *p, with `left` bytes of the directory; moves *p to the next one. */
static int read_record(struct pare_zip *z, const unsigned char **p, size_t left,
                       struct pare_zip_item *e, struct pare_err *err)
{
    const unsigned char *r = *p;
    size_t name, extra, all;

    if (left < RECORD_BYTES || le(r, 4) != 0x02014b50)
        return not_zip(err, "its directory is damaged");
    name = (size_t)le(r + 28, 2);
    extra = (size_t)le(r + 30, 2);
    all = RECORD_BYTES + name + extra + (size_t)le(r + 32, 2);
    if (all > left || memchr(r + RECORD_BYTES, 0, name))
        return not_zip(err, "its directory is damaged");
    *e = (struct pare_zip_item){
        .name = pare_strndup(z->arena, (const char *)r + RECORD_BYTES, name),
        .encrypted = r[8] & 1,
        .method = (int)le(r + 10, 2),
        .crc = (uint32_t)le(r + 16, 4),
        .packed = le(r + 20, 4),
        .size = le(r + 24, 4),
        .at = le(r + 42, 4),
    };
    if (!e->name)
        return pare_no_memory(err, "for a name");
    read_extra64(e, r + RECORD_BYTES + name, extra);
    *p += all;
    return 0;
}

static int read_directory(struct pare_zip *z, struct pare_err *err)
{
    const unsigned char *p;
    struct directory d = { 0 };

    PARE_TRY(find_directory(z, &d, err));
    z->arena = pare_arena_new(1 << 12);
    if (z->arena)
        z->item = pare_alloc(z->arena, (size_t)d.n, sizeof(*z->item));
    if (!z->item)
        return pare_no_memory(err, "for %llu entries", (unsigned long long)d.n);
    p = z->bytes + d.at;
    for (; z->n < (int)d.n; z->n++) {
        struct pare_zip_item *e = &z->item[z->n];

        PARE_TRY(read_record(z, &p, (size_t)(d.at + d.len) - (size_t)(p - z->bytes), e, err));
        if (!pare_map_get(&z->names, e->name))
            PARE_TRY(pare_map_set(&z->names, z->arena, e->name, e, err));
    }
    return 0;
}

int pare_zip_parse(const void *bytes, size_t len, struct pare_zip *z, struct pare_err *err)
{
    *z = (struct pare_zip){ .bytes = bytes, .len = len };
    return read_directory(z, err);
}

int pare_zip_open(const char *path, struct pare_zip *z, struct pare_err *err)
{
    struct pare_file_metadata f;
    unsigned char head[4];
    int fd;

    *z = (struct pare_zip){ 0 };
    PARE_TRY(pare_file_look(path, head, sizeof(head), &f, err));
    if (!f.size)
        return not_zip(err, "Not a zip archive");
    fd = open(path, O_RDONLY | O_CLOEXEC);
    z->map = fd < 0 ? MAP_FAILED : mmap(NULL, f.size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (fd >= 0)
        close(fd);
    if (z->map == MAP_FAILED) {
        z->map = NULL;
        return pare_fail(err, PARE_EIO, "cannot open the zip archive: %s", strerror(errno));
    }
    z->bytes = z->map;
    z->len = f.size;
    return read_directory(z, err);
}

void pare_zip_close(struct pare_zip *z)
{
    if (z->map)
        munmap(z->map, z->len);
    pare_arena_free(z->arena);
    *z = (struct pare_zip){ 0 };
}

const struct pare_zip_item *pare_zip_find(const struct pare_zip *z, const char *name)
{
    return pare_map_get(&z->names, name);
}

/* ---- entries ------------------------------------------------------------------------------ */

/* The data of an entry, e->packed bytes. */
static int find_data(const struct pare_zip *z, const struct pare_zip_item *e,
                     const unsigned char **data, struct pare_err *err)
{
    const unsigned char *p = e->at > z->len ? NULL : z->bytes + e->at;
    uint64_t head;

    if (!p || z->len - e->at < LOCAL_BYTES || le(p, 4) != 0x04034b50)
        return pare_fail(err, PARE_EFORMAT, "its local header is missing");
    head = LOCAL_BYTES + le(p + 26, 2) + le(p + 28, 2);
    if (head > z->len - e->at || e->packed > z->len - e->at - head)
        return pare_fail(err, PARE_EFORMAT, "it ends beyond the end of the archive");
    *data = p + head;
    return 0;
}

/* Unpack until `len` bytes are written; with `end` the stream must end there, and so must the data:
 * *end tells whether they do. */
static int unpack(z_stream *s, const unsigned char *from, size_t left, unsigned char *to,
                  size_t len, bool *end)
{
    unsigned char more;
    int rc = Z_OK;

    s->next_in = (unsigned char *)(uintptr_t)from;
    while (rc == Z_OK && len) {
        size_t in = left < PIECE ? left : PIECE, room = len < PIECE ? len : PIECE;

        s->avail_in = (uInt)in;
        s->next_out = to;
        s->avail_out = (uInt)room;
        rc = inflate(s, Z_NO_FLUSH);
        left -= in - s->avail_in;
        to += room - s->avail_out;
        len -= room - s->avail_out;
    }
    if (len || (rc != Z_OK && rc != Z_STREAM_END))
        return rc == Z_MEM_ERROR ? PARE_ENOMEM : PARE_EFORMAT;
    if (!end)
        return 0;
    if (rc == Z_OK) { /* nothing but the end may follow */
        s->avail_in = (uInt)(left < PIECE ? left : PIECE);
        left -= s->avail_in;
        s->next_out = &more;
        s->avail_out = 1;
        rc = inflate(s, Z_NO_FLUSH);
        left += s->avail_in;
        rc = s->avail_out ? rc : Z_DATA_ERROR;
        s->next_out = NULL;
    }
    *end = rc == Z_STREAM_END && !left;
    return 0;
}

static int read_deflated(const unsigned char *from, const struct pare_zip_item *e, void *to,
                         size_t len, struct pare_err *err)
{
    bool end = false, whole = len == e->size;
    z_stream s = { 0 };
    int rc;

    if (inflateInit2(&s, -MAX_WBITS) != Z_OK)
        return pare_no_memory(err, "to decompress");
    rc = len || whole ? unpack(&s, from, (size_t)e->packed, to, len, whole ? &end : NULL) : 0;
    inflateEnd(&s);
    if (rc == PARE_ENOMEM)
        return pare_no_memory(err, "to decompress");
    if (rc)
        return pare_fail(err, PARE_EFORMAT, "shorter than the archive's directory says");
    return !whole || end
               ? 0
               : pare_fail(err, PARE_EFORMAT,
                           "longer than the archive's directory says, or its checksum is wrong");
}

int pare_zip_read(const struct pare_zip *z, const struct pare_zip_item *e, void *to, size_t len,
                  struct pare_err *err)
{
    const unsigned char *from = NULL;

    PARE_TRY(find_data(z, e, &from, err));
    if (len > e->size || (e->method != 0 && e->method != 8) || (!e->method && e->size != e->packed))
        return pare_fail(err, PARE_EFORMAT, "cannot be unpacked");
    if (e->method)
        PARE_TRY(read_deflated(from, e, to, len, err));
    else
        memcpy(to, from, len);
    if (len == e->size && pare_crc32(0, to, len) != e->crc)
        return pare_fail(err, PARE_EFORMAT,
                         "longer than the archive's directory says, or its checksum is wrong");
    return 0;
}

/* zip_store.c - write a zip archive with uncompressed, aligned entries.
 *
 * The archive consists of header and bytes of each entry, then the central directory, then its
 * position. Sizes and offsets from 4 GB on are in the zip64 extra field; the usual field is then
 * 2^32 - 1.
 */
#include "zip_store.h"

#include <limits.h>
#include <string.h>

#include "../base/arena.h"
#include "crc.h"

#define ALIGN 64
#define FULL UINT32_MAX /* the value is in the zip64 extra field */
#define TEXT_UTF8 0x0800
#define DATE_1980 0x21 /* 1980-01-01, the earliest date of the format */

struct place {
    uint64_t at; /* offset of the header */
    size_t len;
    uint32_t crc;
};

struct writer {
    struct pare_arena *arena;
    const struct pare_zip_entry *entry;
    int n;
    struct place *place;
    struct pare_bytes *part;
    int n_parts;
    uint64_t at; /* offset of the next part */
    unsigned char *p;
};

/* Write n bytes, little-endian. */
static void put_le(struct writer *w, uint64_t v, int n)
{
    for (; n; n--, v >>= 8)
        *w->p++ = (unsigned char)v;
}

static uint64_t clamp32(uint64_t v)
{
    return v < FULL ? v : FULL;
}

static void append_bytes(struct writer *w, const void *data, size_t len)
{
    if (len)
        w->part[w->n_parts++] = (struct pare_bytes){ data, len };
    w->at += len;
}

/* Fields shared by an entry's local header and its directory record. */
static void put_common(struct writer *w, int i, size_t extra)
{
    const struct pare_zip_entry *e = &w->entry[i];

    put_le(w, w->place[i].len >= FULL || w->place[i].at >= FULL ? 45 : 20,
           2); /* version needed to extract */
    put_le(w, TEXT_UTF8, 2);
    put_le(w, 0, 2); /* stored */
    put_le(w, 0, 2);
    put_le(w, DATE_1980, 2);
    put_le(w, w->place[i].crc, 4);
    put_le(w, clamp32(w->place[i].len), 4);
    put_le(w, clamp32(w->place[i].len), 4);
    put_le(w, strlen(e->name), 2);
    put_le(w, extra, 2);
}

/* The local header, with an extra field that pads the data to its alignment. */
static int add_entry(struct writer *w, int i, struct pare_err *err)
{
    const struct pare_zip_entry *e = &w->entry[i];
    size_t name = strlen(e->name), big = w->place[i].len >= FULL ? 20 : 0,
           len = 30 + name + big + 4, pad;
    unsigned char *head;

    if (name > UINT16_MAX)
        return pare_fail(err, PARE_ELIMIT, "a name has %zu bytes, at most %d fit", name,
                         UINT16_MAX);
    pad = (size_t)(-(w->at + len)) % ALIGN;
    w->p = head = pare_alloc(w->arena, len + pad, 1);
    if (!head)
        return pare_no_memory(err, "for an archive");
    w->place[i].at = w->at;
    put_le(w, 0x04034b50, 4);
    put_common(w, i, big + 4 + pad);
    memcpy(w->p, e->name, name);
    w->p += name;
    if (big) {
        put_le(w, 1, 2);
        put_le(w, 16, 2);
        put_le(w, w->place[i].len, 8);
        put_le(w, w->place[i].len, 8);
    }
    put_le(w, 0x4246, 2); /* PyTorch's id of the padding field */
    put_le(w, pad, 2);
    append_bytes(w, head, len + pad);
    for (int k = 0; k < 2; k++)
        append_bytes(w, e->part[k].data, e->part[k].len);
    return 0;
}

static void put_line(struct writer *w, int i)
{
    const struct pare_zip_entry *e = &w->entry[i];
    const uint64_t at = w->place[i].at;
    size_t name = strlen(e->name),
           extra = (w->place[i].len >= FULL ? 16u : 0u) + (at >= FULL ? 8u : 0u);

    put_le(w, 0x02014b50, 4);
    put_le(w, 45, 2);
    put_common(w, i, extra ? extra + 4 : 0);
    put_le(w, 0, 10); /* no comment, first disk, no attributes */
    put_le(w, clamp32(at), 4);
    memcpy(w->p, e->name, name);
    w->p += name;
    if (!extra)
        return;
    put_le(w, 1, 2);
    put_le(w, extra, 2);
    if (w->place[i].len >= FULL) {
        put_le(w, w->place[i].len, 8);
        put_le(w, w->place[i].len, 8);
    }
    if (at >= FULL)
        put_le(w, at, 8);
}

/* The end records, always including the zip64 one, as in PyTorch's files. */
static void put_end(struct writer *w, uint64_t at, uint64_t len)
{
    uint64_t n = (uint64_t)w->n, few = n < UINT16_MAX ? n : UINT16_MAX;

    put_le(w, 0x06064b50, 4);
    put_le(w, 44, 8);
    put_le(w, 45, 2);
    put_le(w, 45, 2);
    put_le(w, 0, 8);
    put_le(w, n, 8);
    put_le(w, n, 8);
    put_le(w, len, 8);
    put_le(w, at, 8);
    put_le(w, 0x07064b50, 4);
    put_le(w, 0, 4);
    put_le(w, at + len, 8);
    put_le(w, 1, 4);
    put_le(w, 0x06054b50, 4);
    put_le(w, 0, 4);
    put_le(w, few, 2);
    put_le(w, few, 2);
    put_le(w, clamp32(len), 4);
    put_le(w, clamp32(at), 4);
    put_le(w, 0, 2);
}

static int add_directory(struct writer *w, struct pare_err *err)
{
    size_t most = 98;
    unsigned char *p;

    for (int i = 0; i < w->n; i++)
        most += 46 + 28 + strlen(w->entry[i].name);
    w->p = p = pare_alloc(w->arena, most, 1);
    if (!p)
        return pare_no_memory(err, "for an archive");
    for (int i = 0; i < w->n; i++)
        put_line(w, i);
    put_end(w, w->at, (uint64_t)(w->p - p));
    append_bytes(w, p, (size_t)(w->p - p));
    return 0;
}

static void crc_entry(const struct pare_zip_entry *e, struct place *to)
{
    for (int k = 0; k < 2; k++)
        if (e->part[k].len) {
            to->crc = pare_crc32(to->crc, e->part[k].data, e->part[k].len);
            to->len += e->part[k].len;
        }
}

static int make_archive(struct writer *w, struct pare_err *err)
{
    if (w->n > INT_MAX / 3 - 1)
        return pare_fail(err, PARE_ELIMIT, "%d entries are too many for an archive", w->n);
    w->place = pare_alloc(w->arena, (size_t)w->n, sizeof(*w->place));
    w->part = pare_alloc(w->arena, 3 * (size_t)w->n + 1, sizeof(*w->part));
    if (!w->place || !w->part)
        return pare_no_memory(err, "for an archive");
    for (int i = 0; i < w->n; i++)
        crc_entry(&w->entry[i], &w->place[i]);
    for (int i = 0; i < w->n; i++)
        PARE_TRY(add_entry(w, i, err));
    return add_directory(w, err);
}

int pare_zip_parts(struct pare_arena *a, const struct pare_zip_entry *entry, int n,
                   struct pare_bytes **part, int *n_parts, struct pare_err *err)
{
    struct writer w = { .arena = a, .entry = entry, .n = n };
    int rc = make_archive(&w, err);

    *part = w.part;
    *n_parts = w.n_parts;
    return rc;
}

int pare_zip_store(const char *path, const struct pare_zip_entry *entry, int n,
                   struct pare_err *err)
{
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_bytes *part = NULL;
    int n_parts = 0, rc;

    rc = a ? pare_zip_parts(a, entry, n, &part, &n_parts, err)
           : pare_no_memory(err, "for an archive");
    if (!rc)
        rc = pare_file_write_parts(path, part, n_parts, err);
    pare_arena_free(a);
    return rc;
}

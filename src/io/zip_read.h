/* zip_read.h - read a zip archive: its directory, and entries that are stored or deflated. */
#ifndef PARE_IO_ZIP_READ_H
#define PARE_IO_ZIP_READ_H

#include <pare/pare.h>

#include "../base/map.h"

/* An entry, as the archive's directory describes it. */
struct pare_zip_item {
    const char *name;
    uint64_t size, packed; /* bytes, and bytes in the archive */
    uint64_t at;           /* offset of its local header */
    uint32_t crc;
    bool encrypted;
    int method; /* 0: stored, 8: deflated; others cannot be read */
};

struct pare_zip {
    const unsigned char *bytes;
    size_t len;
    void *map; /* the mapped file; NULL: the caller's bytes */
    struct pare_arena *arena;
    struct pare_zip_item *item;
    struct pare_map names; /* the first item of each name */
    int n;
};

/* Read the directory of a file, or of bytes that outlive *z.  The caller closes *z, also after a
 * failure. */
int pare_zip_open(const char *path, struct pare_zip *z, struct pare_err *err);
int pare_zip_parse(const void *bytes, size_t len, struct pare_zip *z, struct pare_err *err);
void pare_zip_close(struct pare_zip *z);

/* Check the directory before anything is unpacked: names, sizes and compression of the entries, and
 * that they do not overlap (zip_check.c). */
int pare_zip_check(const struct pare_zip *z, struct pare_err *err);

/* NULL: there is no entry of this name. */
const struct pare_zip_item *pare_zip_find(const struct pare_zip *z, const char *name);

/* Read the first `len` bytes of an entry; if that is all of it, its end and its checksum are
 * checked, too. */
int pare_zip_read(const struct pare_zip *z, const struct pare_zip_item *e, void *to, size_t len,
                  struct pare_err *err);

#endif

/* zip_store.h - write a zip archive with uncompressed entries, each at a multiple of 64 bytes,
 * so that other programs can map the file and use them in place. */
#ifndef PARE_IO_ZIP_STORE_H
#define PARE_IO_ZIP_STORE_H

#include "file.h"

struct pare_zip_entry {
    const char *name;          /* UTF-8, at most 65535 bytes */
    struct pare_bytes part[2]; /* concatenated; either may be empty */
};

/* Write atomically (file.h).  The same entries give the same bytes: all are dated 1980. */
int pare_zip_store(const char *path, const struct pare_zip_entry *entry, int n,
                   struct pare_err *err);

/* The archive's bytes as consecutive pieces; the entries' data is not copied. */
int pare_zip_parts(struct pare_arena *a, const struct pare_zip_entry *entry, int n,
                   struct pare_bytes **part, int *n_parts, struct pare_err *err);

#endif

/* zip_store.h - write a zip archive whose entries are stored as they are, each at a multiple of 64
 * bytes, so that others can map the file and use them where they lie. */
#ifndef PARE_IO_ZIP_STORE_H
#define PARE_IO_ZIP_STORE_H

#include "file.h"

struct pare_zip_entry {
    const char *name;          /* UTF-8, at most 65535 bytes */
    struct pare_bytes part[2]; /* one behind the other; either may be empty */
};

/* Written as file.h says.  The same entries give the same bytes: all are of 1980. */
int pare_zip_store(const char *path, const struct pare_zip_entry *entry, int n,
                   struct pare_err *err);

/* The archive's bytes, in pieces one behind the other; the entries' data is not copied. */
int pare_zip_parts(struct pare_arena *a, const struct pare_zip_entry *entry, int n,
                   struct pare_bytes **part, int *n_parts, struct pare_err *err);

#endif

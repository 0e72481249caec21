/* zip_check.h - is an archive one that may be unpacked? */
#ifndef PARE_IO_ZIP_CHECK_H
#define PARE_IO_ZIP_CHECK_H

#include <zip.h>

#include <pare/pare.h>

/* Open an archive that is a regular file and passes pare_zip_check(); *file is its size.  The
 * caller discards *z unless it is NULL. */
int pare_zip_open(const char *path, zip_t **z, size_t *file, struct pare_err *err);

/* What the directory of an archive of `file` bytes says, before anything of it is unpacked: how
 * many entries, their names and sizes, how they are packed, and whether they have room beside each
 * other. */
int pare_zip_check(zip_t *z, size_t file, struct pare_err *err);

#endif

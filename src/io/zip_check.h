/* zip_check.h - check the directory of a zip archive before unpacking. */
#ifndef PARE_IO_ZIP_CHECK_H
#define PARE_IO_ZIP_CHECK_H

#include <zip.h>

#include <pare/pare.h>

/* Open an archive that is a regular file and passes pare_zip_check(); *file is its size.  The
 * caller discards *z unless it is NULL. */
int pare_zip_open(const char *path, zip_t **z, size_t *file, struct pare_err *err);

/* Check the directory of an archive of `file` bytes before anything is unpacked: number, names,
 * sizes and compression of its entries, and that they do not overlap. */
int pare_zip_check(zip_t *z, size_t file, struct pare_err *err);

#endif

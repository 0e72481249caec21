/* crc.h - the check sum of zip archives. */
#ifndef PARE_IO_CRC_H
#define PARE_IO_CRC_H

#include <pare/pare.h>

/* CRC-32 of what `crc` is the sum of, followed by n bytes; start with 0.  zlib's crc32(), at the
 * speed of memory where the machine can multiply without carry. */
uint32_t pare_crc32(uint32_t crc, const void *data, size_t n);

#endif

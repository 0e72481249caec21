/* crc.h - CRC-32 of zip archives. */
#ifndef PARE_IO_CRC_H
#define PARE_IO_CRC_H

#include <pare/pare.h>

/* Continue the CRC-32 `crc` with n bytes; start with 0.  Same result as zlib's crc32(), but at
 * memory speed on machines with carry-less multiplication. */
uint32_t pare_crc32(uint32_t crc, const void *data, size_t n);

#endif

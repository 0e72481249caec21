/* sized.h - copy an options struct whose first field is its size, for callers of other versions. */
#ifndef PARE_BASE_SIZED_H
#define PARE_BASE_SIZED_H

#include <pare/base.h>

/* Fill `to` (n bytes) from the caller's struct, which may be NULL (all 0), older and so shorter
 * (the rest is 0), or newer: then the fields that this library does not know must be 0. */
int pare_sized_copy(void *to, size_t n, const void *from, struct pare_err *err);

#endif

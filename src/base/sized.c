/* sized.c - copy an options struct whose first field is its size, for callers of other versions. */
#include "sized.h"

#include <string.h>

#define LARGEST 65536 /* a larger size is a struct whose size was not set */

int pare_sized_copy(void *to, size_t n, const void *from, struct pare_err *err)
{
    size_t size = 0;

    memset(to, 0, n);
    if (!from)
        return 0;
    memcpy(&size, from, sizeof(size));
    if (!size)
        size = n;
    if (size < sizeof(size) || size > LARGEST)
        return pare_fail(err, PARE_ECONFIG,
                         "an options struct has size %zu: set `size` to its sizeof, or to 0", size);
    for (size_t i = n; i < size; i++)
        if (((const unsigned char *)from)[i])
            return pare_fail(err, PARE_EUNSUPPORTED,
                             "the program sets an option that this version of libpare (%s) does "
                             "not have",
                             pare_version());
    memcpy(to, from, size < n ? size : n);
    return 0;
}

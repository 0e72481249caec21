/* select.h - which of many numbers are the smallest, without sorting them.
 *
 * Counting by the leading bits of the floats' order, then looking only at the one bin in which
 * the border is: two passes over the numbers, and the result is exact.  Among equal numbers the
 * lower index goes first.  NaN counts as larger than everything.
 */
#ifndef PARE_COMPRESS_SELECT_H
#define PARE_COMPRESS_SELECT_H

#include <stdbool.h>
#include <stdint.h>

#include <pare/pare.h>

struct pare_select {
    const float *x;
    int64_t n;
    bool magnitude;     /* rank |x| instead of x */
    const uint8_t *old; /* or NULL; where it is 0, the number counts as smaller than all */
    int threads;
};

/* keep[i] = 0 for exactly the k smallest (0 <= k <= n), 1 for the others.  keep may be old. */
int pare_select_mask(const struct pare_select *s, int64_t k, uint8_t *keep,
                     struct pare_arena *scratch, struct pare_err *err);

#endif

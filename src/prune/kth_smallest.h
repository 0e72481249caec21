/* kth_smallest.h - mask of the k smallest of many values, without sorting.
 *
 * A sample gives a bracket for the threshold; one pass counts the values outside of the bracket and
 * collects those inside, among which the threshold is found; a second pass writes the mask.  The
 * sample affects only the speed: the result is exact, and if the sample misleads, a histogram finds
 * the threshold.  Among equal values the lower index is removed first.  -0 equals 0, and NaN counts
 * as larger than all others.
 */
#ifndef PARE_PRUNE_KTH_SMALLEST_H
#define PARE_PRUNE_KTH_SMALLEST_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <pare/pare.h>

/* The key of a float: an integer in the order of the values, namely the bits without the sign,
 * negated if the value is negative. */
#define PARE_KEY_REMOVED INT32_MIN /* key of values that count as smaller than all others */
#define PARE_KEY_NAN 0x7f800001

static inline int32_t pare_key(float x, bool magnitude)
{
    int32_t bits, mag;

    memcpy(&bits, &x, sizeof(bits));
    mag = bits & 0x7fffffff;
    if (magnitude)
        return mag < PARE_KEY_NAN ? mag : PARE_KEY_NAN;
    return mag >= PARE_KEY_NAN ? PARE_KEY_NAN : bits < 0 ? -mag : mag;
}

/* The key as an unsigned integer of the same order. */
static inline uint32_t pare_key_bits(int32_t key)
{
    return (uint32_t)key ^ 0x80000000u;
}

int64_t pare_count_zeros(const uint8_t *keep, int64_t n); /* number of zeros in a mask */

struct pare_kth_smallest {
    const float *x;
    int64_t n;
    bool magnitude;     /* rank |x| instead of x */
    const uint8_t *old; /* NULL: none; where it is 0, the value counts as smaller than all others */
    int threads;
};

/* keep[i] = 0 for exactly the k smallest (0 <= k <= n), 1 for the others.  keep may be old. */
int pare_kth_smallest_mask(const struct pare_kth_smallest *s, int64_t k, uint8_t *keep,
                           struct pare_arena *scratch, struct pare_err *err);

/* The same over n_arrays arrays, as if they were concatenated: the k smallest of all.  keep[p] is
 * the mask of array p; the first array's `threads` applies. */
int pare_kth_smallest_masks(const struct pare_kth_smallest *array, int n_arrays, int64_t k,
                            uint8_t *const *keep, struct pare_arena *scratch, struct pare_err *err);

#endif

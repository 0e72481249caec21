/* kth_smallest.h - which of many numbers are the smallest, without sorting them.
 *
 * A sample says between which two numbers the border is; one pass counts what lies outside and
 * collects what lies between, where the border is then found; a second pass writes the mask.  The
 * sample only decides how fast that goes: the result is exact, and where the sample misleads, a
 * histogram finds the border.  Among equal numbers the lower index goes first.  -0 equals 0, and
 * NaN counts as larger than everything.
 */
#ifndef PARE_PRUNE_KTH_SMALLEST_H
#define PARE_PRUNE_KTH_SMALLEST_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <pare/pare.h>

/* Integers in the order of the numbers: the bits of a float without the sign, minus those of
 * negative ones. */
#define PARE_KEY_REMOVED INT32_MIN /* of what counts as smaller than all */
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

/* The same order as an unsigned number. */
static inline uint32_t pare_key_bits(int32_t key)
{
    return (uint32_t)key ^ 0x80000000u;
}

int64_t pare_count_zeros(const uint8_t *keep, int64_t n); /* of a mask */

struct pare_kth_smallest {
    const float *x;
    int64_t n;
    bool magnitude;     /* rank |x| instead of x */
    const uint8_t *old; /* or NULL; where it is 0, the number counts as smaller than all */
    int threads;
};

/* keep[i] = 0 for exactly the k smallest (0 <= k <= n), 1 for the others.  keep may be old. */
int pare_kth_smallest_mask(const struct pare_kth_smallest *s, int64_t k, uint8_t *keep,
                           struct pare_arena *scratch, struct pare_err *err);

/* The same over the numbers of n_parts together, as if they stood one after the other: the k
 * smallest of all.  keep[p] is for part p; threads is that of the first. */
int pare_kth_smallest_masks(const struct pare_kth_smallest *part, int n_parts, int64_t k,
                            uint8_t *const *keep, struct pare_arena *scratch, struct pare_err *err);

#endif

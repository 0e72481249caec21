/* nth_element.c - select the n-th smallest of a few integers without sorting.
 *
 * Count by the leading bits of the value range, then repeat with the keys of the matching bin only.
 */
#include "nth_element.h"

#include "../base/simd.h"

#define DIGIT 11 /* bits of one counting pass */

PARE_SIMD static void range(const int32_t *key, int64_t n, int32_t *lo, int32_t *hi)
{
    int32_t least = INT32_MAX, most = INT32_MIN;

    for (int64_t i = 0; i < n; i++) {
        least = key[i] < least ? key[i] : least;
        most = key[i] > most ? key[i] : most;
    }
    *lo = least;
    *hi = most;
}

uint32_t pare_find_bin(const int64_t *count, int64_t *rank)
{
    uint32_t bin = 0;

    while (*rank >= count[bin])
        *rank -= count[bin++];
    return bin;
}

struct pare_nth_element pare_nth_element(const int32_t *key, int64_t n, int64_t rank, int32_t *tmp)
{
    for (;;) {
        int64_t count[1 << DIGIT] = { 0 }, m = 0;
        int32_t lo, hi;
        uint32_t span, bin;
        int shift = 0;

        range(key, n, &lo, &hi);
        if (lo == hi)
            return (struct pare_nth_element){ lo, rank, n };
        span = (uint32_t)hi - (uint32_t)lo;
        while (span >> shift >> DIGIT)
            shift++;
        for (int64_t i = 0; i < n; i++)
            count[((uint32_t)key[i] - (uint32_t)lo) >> shift]++;
        bin = pare_find_bin(count, &rank);
        for (int64_t i = 0; i < n; i++) {
            int32_t v = key[i];

            tmp[m] = v;
            m += ((uint32_t)v - (uint32_t)lo) >> shift == bin;
        }
        key = tmp;
        n = m;
    }
}

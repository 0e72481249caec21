/* rng.c - reproducible random number generator (xoshiro256**).
 *
 * xoshiro256** of Blackman and Vigna ("Scrambled linear pseudorandom number generators", 2021),
 * its state filled from the seed by SplitMix64 so that similar seeds give unrelated streams.
 */
#include "rng.h"

#include <math.h>

static uint64_t rotl(uint64_t x, int k)
{
    return x << k | x >> (64 - k);
}

void pare_rng_init(struct pare_rng *r, uint64_t seed)
{
    for (int i = 0; i < 4; i++) {
        uint64_t z = seed += 0x9e3779b97f4a7c15u;

        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        r->s[i] = z ^ z >> 31;
    }
}

uint64_t pare_rng_next(struct pare_rng *r)
{
    uint64_t *s = r->s, result = rotl(s[1] * 5, 7) * 9, t = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return result;
}

/* Reject values above the largest multiple of n, to avoid a bias toward small results. */
uint64_t pare_rng_below(struct pare_rng *r, uint64_t n)
{
    uint64_t limit = UINT64_MAX - UINT64_MAX % n, x = pare_rng_next(r);

    while (x >= limit)
        x = pare_rng_next(r);
    return x % n;
}

double pare_rng_uniform(struct pare_rng *r)
{
    return (double)(pare_rng_next(r) >> 11) * 0x1p-53;
}

/* Box-Muller: sqrt(-2 ln u) cos(2 pi v).  The second value is dropped, so that the generator is
 * the only state. */
double pare_rng_normal(struct pare_rng *r)
{
    double u = 1 - pare_rng_uniform(r), v = pare_rng_uniform(r);

    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

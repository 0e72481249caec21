/* rng.h - reproducible random number generator (xoshiro256**). */
#ifndef PARE_BASE_RNG_H
#define PARE_BASE_RNG_H

#include <stdint.h>

#include <pare/base.h>

struct pare_rng {
    uint64_t s[4];
};

void pare_rng_init(struct pare_rng *r, uint64_t seed);
uint64_t pare_rng_next(struct pare_rng *r);              /* 64 random bits */
uint64_t pare_rng_below(struct pare_rng *r, uint64_t n); /* uniform in 0 .. n-1; n > 0 */
PARE_API double pare_rng_uniform(struct pare_rng *r);    /* [0, 1) */
double pare_rng_normal(struct pare_rng *r);              /* mean 0, variance 1 */

#endif

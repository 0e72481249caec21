/* mt19937.h - Mersenne Twister, NumPy's legacy random generator, to reproduce its files.
 *
 * Everything else uses rng.h.
 */
#ifndef PARE_BASE_MT19937_H
#define PARE_BASE_MT19937_H

#include <stdint.h>

struct pare_mt {
    uint32_t s[624];
    int used; /* words of s already returned */
};

void pare_mt_init(struct pare_mt *r, uint32_t seed); /* numpy.random.RandomState(seed) */
uint32_t pare_mt_next(struct pare_mt *r);            /* 32 random bits */
double pare_mt_uniform(struct pare_mt *r);           /* [0, 1), as random_sample() */

#endif

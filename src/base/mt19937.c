/* mt19937.c - Mersenne Twister, NumPy's legacy random generator, to reproduce its files.
 *
 * The Mersenne Twister of Matsumoto and Nishimura ("Mersenne twister: a 623-dimensionally
 * equidistributed uniform pseudo-random number generator", 1998), with their seeding of 2002:
 * 624 words, each of which follows from the words 624, 623 and 227 places before it,
 *     s[k] = s[k - 227] ^ (y >> 1) ^ (y odd ? A : 0),
 * where y has its top bit from s[k - 624] and the others from s[k - 623].
 */
#include "mt19937.h"

#define WORDS 624
#define MIDDLE 397 /* 624 - 227 */
#define A 0x9908b0dfu

void pare_mt_init(struct pare_mt *r, uint32_t seed)
{
    r->s[0] = seed;
    for (uint32_t i = 1; i < WORDS; i++)
        r->s[i] = 1812433253u * (r->s[i - 1] ^ r->s[i - 1] >> 30) + i;
    r->used = WORDS;
}

/* The next 624 words, in place: the older half of what word i needs is still there. */
static void next_words(struct pare_mt *r)
{
    for (int i = 0; i < WORDS; i++) {
        uint32_t y = (r->s[i] & 0x80000000u) | (r->s[(i + 1) % WORDS] & 0x7fffffffu);

        r->s[i] = r->s[(i + MIDDLE) % WORDS] ^ y >> 1 ^ (y & 1 ? A : 0);
    }
    r->used = 0;
}

uint32_t pare_mt_next(struct pare_mt *r)
{
    uint32_t y;

    if (r->used == WORDS)
        next_words(r);
    y = r->s[r->used++];
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680u;
    y ^= y << 15 & 0xefc60000u;
    return y ^ y >> 18;
}

/* 53 bits of two words: 27 of the first, 26 of the second. */
double pare_mt_uniform(struct pare_mt *r)
{
    double high = (double)(pare_mt_next(r) >> 5), low = (double)(pare_mt_next(r) >> 6);

    return (high * 67108864 + low) * 0x1p-53;
}

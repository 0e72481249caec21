/* paired_bound.h - confidence bounds of the accuracy that one model loses against another one on
 * the same items.
 *
 * Of n items, b are right only with the original and d only with the other model.  The drop
 * (b - d) / n estimates q (2 pi - 1): q is the probability that an item is discordant, pi that a
 * discordant item is one of b.  Given b + d, b is binomial, so Clopper-Pearson's exact bound of pi
 * holds, and so does that of q; a failure of either has at most the probability that is left to it
 * (3/4 and 1/4 of 1 - confidence).  The bound holds for every n, b and d, without a normal
 * approximation, and is wider for that: 2.3 points for 2,000 items with b = 60 and d = 40, whose
 * drop is 1.0, instead of 1.8.
 */
#ifndef PARE_TRAIN_PAIRED_BOUND_H
#define PARE_TRAIN_PAIRED_BOUND_H

#include <stdbool.h>
#include <stdint.h>

struct pare_pairs {
    int64_t n, b, d;
};

double pare_pairs_drop(const struct pare_pairs *p);  /* (b - d) / n; 0 if n is 0 */
double pare_pairs_error(const struct pare_pairs *p); /* standard error of the drop */

/* One-sided bounds of the drop that fail with probability `alpha` at most. */
double pare_pairs_upper(const struct pare_pairs *p, double alpha);
double pare_pairs_lower(const struct pare_pairs *p, double alpha);

/* Upper bound of a binomial probability after k of n (Clopper, Pearson 1934). */
double pare_binomial_upper(int64_t k, int64_t n, double alpha);

/* Looks at a comparison that ends as soon as the answer is known: after 64, 128, 256, ... items in
 * random order, and after all of them.  The last look spends half of alpha, the others share the
 * other half equally, so the probability of any wrong answer is at most alpha for each answer. */
struct pare_looks {
    int64_t n;    /* items of the set */
    double alpha; /* 1 - confidence */
    int64_t next; /* number of items at the next look */
    int count;    /* looks in total */
    double spent; /* alpha of the last look: bounds of the end hold for all looks together */
};
struct pare_looks pare_looks_start(int64_t n, double alpha);

/* Is the drop at most `max`?  1: yes; -1: no, it is larger; 0: not decided, or no look is due. */
int pare_looks_decide(struct pare_looks *l, const struct pare_pairs *p, double max);

#endif

/* sparsity_vector.h - vectors of sparsities with a given overall sparsity: draw, perturb, rescale;
 * and the rule by which simulated annealing accepts a worse one.
 */
#ifndef PARE_SEARCH_SPARSITY_VECTOR_H
#define PARE_SEARCH_SPARSITY_VECTOR_H

#include "../base/rng.h"

struct pare_sparsity_space {
    const double *weight; /* (n) of each part */
    int n;
    double target; /* overall, in (0, 1) */
    int *order;    /* (n) parts by ascending weight: set by pare_sparsity_order() */
    bool sorted;   /* as in NNI: the part with the most weight has the highest sparsity, ... */
};

void pare_sparsity_order(struct pare_sparsity_space *s);

/* Multiply all by one factor, so that the sum of floor(weight * sparsity) would be the target's
 * share of all weights.  False: not possible, or one becomes 1 or more. */
bool pare_sparsity_rescale(const struct pare_sparsity_space *s, double *v);

/* Numbers in [low, 1), of which `low` approaches 1 by 5 % with each rejected draw, sorted if
 * the space is, and rescaled. */
void pare_sparsity_draw(const struct pare_sparsity_space *s, struct pare_rng *rng, double *v);

/* Add numbers in (-most, most), clip at 0, sort, rescale; try again if that is not possible, at
 * most 1,000 times.  `to` becomes `from` if none is. */
void pare_sparsity_perturb(const struct pare_sparsity_space *s, struct pare_rng *rng, double most,
                           const double *from, double *to);

/* Does annealing at temperature t accept a candidate that is worse by `worse` (0 or less: it is not
 * worse)?  u is uniform in [0, 1). */
bool pare_annealing_accepts(double worse, double t, double u);

/* The temperature at which a typical worse candidate is accepted with probability 1/2. */
double pare_annealing_temperature(double mean_difference);

#endif

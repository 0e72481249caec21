/* pairwise_distance.h - sums of distances between all pairs of vectors. */
#ifndef PARE_PRUNE_PAIRWISE_DISTANCE_H
#define PARE_PRUNE_PAIRWISE_DISTANCE_H

#include <pare/plugin.h>

/* sum[i] = sum over j of |x_i - x_j|, for the n rows x_i of x (n, size). */
int pare_pairwise_distances(const float *x, int64_t n, int64_t size, double *sum,
                            struct pare_arena *scratch, struct pare_err *err);

#endif

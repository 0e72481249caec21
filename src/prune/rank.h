/* rank.h - from scores to masks: which units of one layer, or of several together, are removed.
 *
 * Counts are exact: of n units, int(n * sparsity) go (the product in double, cut toward 0), the
 * lowest scores first, among equal ones the lowest index first.  More go only where more were
 * removed before and stay so.
 */
#ifndef PARE_PRUNE_RANK_H
#define PARE_PRUNE_RANK_H

#include "kth_smallest.h"
#include "units.h"

/* One layer as ranking sees it.  score has units.n numbers; NULL: the score is |weight| and units
 * are single elements.  keep (units.n) is in and out: on entry what was kept so far; units that
 * were removed go first and so stay removed, unless `regrow`. */
struct pare_ranked {
    const struct pare_units *units;
    const float *score;
    const struct pare_tensor *weight;
    uint8_t *keep;
    double sparsity, max_sparsity; /* max_sparsity: for ranking together */
    bool regrow;
};

/* Each layer by itself. */
int pare_rank_local(const struct pare_ranked *l, int threads, struct pare_arena *scratch,
                    struct pare_err *err);

/* `balance`: units in a grid of tiles of `gran` (right-aligned, as numpy broadcasts; every size
 * must divide); in each tile of B units int(B * sparsity) go. */
int pare_rank_balance(const struct pare_ranked *l, const struct pare_ints *gran, int threads,
                      struct pare_arena *scratch, struct pare_err *err);

/* n:m along an axis of the weight: of every m elements in a row the n with the largest score stay;
 * a rest of fewer than m at the end of the axis keeps at most n. */
int pare_rank_nm(const struct pare_ranked *l, int64_t n, int64_t m, int axis,
                 struct pare_arena *scratch, struct pare_err *err);

/* All of these layers together: units in the order of their scores go until the next would make the
 * removed weights more than int(all weights * sparsity).  Of each layer at least
 * n - int(n * max_sparsity) units stay, its best. */
int pare_rank_global(const struct pare_ranked *l, int n_layers, double sparsity, int threads,
                     struct pare_arena *scratch, struct pare_err *err);

#endif

/* rank.h - masks from scores: rank units per layer, in balanced tiles, N:M, or over several layers.
 *
 * Counts are exact: int(n * sparsity) of n units are removed (the product is a double, truncated),
 * the lowest scores first, among equal scores the lowest index first.  More are removed only if
 * more were removed before and stay removed.
 */
#ifndef PARE_PRUNE_RANK_H
#define PARE_PRUNE_RANK_H

#include "kth_smallest.h"
#include "units.h"

/* One layer to rank.  score has units.n values; NULL: the score is |weight| and units are single
 * elements.  keep (units.n) is in and out: on entry the old mask; units removed before rank lowest
 * and so stay removed, unless `regrow`. */
struct pare_ranked {
    const struct pare_units *units;
    const float *score;
    const struct pare_tensor *weight;
    uint8_t *keep;
    double sparsity, max_sparsity; /* max_sparsity: limit per layer in pare_rank_global() */
    bool regrow;
};

/* Ranks the units of one layer. */
int pare_rank_local(const struct pare_ranked *l, int threads, struct pare_arena *scratch,
                    struct pare_err *err);

/* Mode `balance`: ranks the units of each tile of size `gran` (right-aligned, as numpy broadcasts;
 * every size must divide); int(B * sparsity) of the B units of a tile are removed. */
int pare_rank_balance(const struct pare_ranked *l, const struct pare_ints *gran, int threads,
                      struct pare_arena *scratch, struct pare_err *err);

/* N:M along an axis of the weight: keeps the n largest scores of every m consecutive elements; a
 * remainder of fewer than m at the end of the axis keeps at most n. */
int pare_rank_nm(const struct pare_ranked *l, int64_t n, int64_t m, int axis,
                 struct pare_arena *scratch, struct pare_err *err);

/* Ranks the units of several layers together: removes units in the order of their scores until the
 * next one would make the removed weights more than int(all weights * sparsity).  At least n -
 * int(n * max_sparsity) units of each layer are kept, its best ones. */
int pare_rank_global(const struct pare_ranked *l, int n_layers, double sparsity, int threads,
                     struct pare_arena *scratch, struct pare_err *err);

#endif

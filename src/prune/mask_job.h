/* mask_job.h - a layer that is being ranked: between masks.c and rank_groups.c. */
#ifndef PARE_PRUNE_MASK_JOB_H
#define PARE_PRUNE_MASK_JOB_H

#include "prune_state.h"
#include "rank.h"

struct pare_mask_job {
    struct pare_layer *layer;
    struct pare_ranked ranked;
    struct pare_units both; /* units of both weights of a joined layer: elements of a channel */
    uint8_t *next;          /* dependency groups: the mask being made */
};

/* Prepare a layer for ranking; PARE_NOT_YET if the pruner has no scores yet.  `sums`: scores are
 * added or normalized, so that they are needed where a weight is its own score, too. */
int pare_mask_job_score(struct pare_compression *c, struct pare_layer *l, bool sums,
                        struct pare_mask_job *j, struct pare_err *err);

/* Rank the units of the layer by itself: by its pattern, by rows, in tiles, or all of them. */
int pare_mask_job_rank(struct pare_compression *c, struct pare_mask_job *j, struct pare_err *err);

/* Write the mask of the layer, and of its bias. */
void pare_mask_job_write(struct pare_mask_job *j);

/* The axis of consecutive weights of an n:m pattern: input channels, or the last axis where there
 * are fewer than m. */
int pare_layer_pattern_axis(const struct pare_layer *l);

/* ---- rank_groups.c --------------------------------------------------------------------------- */

/* Make scores of several layers comparable, by the setting `normalize`, which
 * pare_scores_normalized() asks for. */
int pare_scores_normalize(struct pare_compression *c, float *score, int64_t n,
                          struct pare_err *err);
bool pare_scores_normalized(const struct pare_compression *c);

/* Do two layers have the same operator and kernel?  Setting `isomorphic` ranks only those
 * together. */
bool pare_layers_isomorphic(const struct pare_layer *a, const struct pare_layer *b);

/* Limit of the fraction that a layer may lose in a global ranking. */
double pare_layer_most(const struct pare_layer *l);

/* An error if two layers that are ranked together have different sparsities. */
int pare_same_sparsity(const struct pare_layer *a, const struct pare_layer *b,
                       struct pare_err *err);

/* Rank all layers by dependency groups, each set of groups by itself or, in mode global_aware, all
 * of an entry together; layers whose units are not output channels by themselves. */
int pare_rank_groups(struct pare_compression *c, struct pare_err *err);

#endif

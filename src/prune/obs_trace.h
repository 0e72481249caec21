/* obs_trace.h - exact optimal brain surgeon for rows of a weight: the order in which weights are
 * removed, and what each removal costs.
 *
 * For a row w with the inverse H of its inputs' second moments, removing weight j changes the
 * output least if the other weights move by -w_j / H_jj H_:j; that costs w_j^2 / H_jj.  The next
 * weight is the one that costs least; H then loses row and column j:
 *
 *     H := H - H_:j H_j: / H_jj
 *
 * Frantar et al., "Optimal brain compression", 2022, arXiv 2208.11580.
 */
#ifndef PARE_PRUNE_OBS_TRACE_H
#define PARE_PRUNE_OBS_TRACE_H

#include <pare/pare.h>

/* Rows that lose the same weights: one row, or the rows of a block, whose costs add.  Rows of
 * several groups of a convolution have inverses of their own. */
struct pare_obs_trace {
    int64_t parts, rows, k; /* inverses; rows of each */
    const double *w;        /* (parts, rows, k) */
    const double *inverse;  /* (parts, k, k), symmetric */
    const int32_t *group;   /* (k): the group of a column, [first, first + k); NULL: no limit */
    const int32_t *most;    /* by group: columns that it may lose */
    int32_t first;
    double *cost;   /* out, (k): of the column's removal, not less than those before it; INFINITY:
                     * its group may not lose it */
    double *fitted; /* out, (parts, rows, k): what is left of w after `steps` removals; or NULL */
    int64_t steps;  /* removals; -1: as many as there are */
};

/* Doubles of scratch memory that a trace needs. */
int64_t pare_obs_trace_room(const struct pare_obs_trace *t);

/* Trace the removals, the first column among equal costs first; nothing is allocated. */
void pare_obs_trace(const struct pare_obs_trace *t, double *room);

#endif

/* obs_curves.h - error curves of channels by structured optimal brain surgeon: the order in which
 * coupled channels are removed, and the error of the layers that read them after each removal.
 *
 * Removing the columns S of a layer with the inverse H of its inputs' second moments costs
 *
 *     sum over rows o of  w_oS inverse(H_SS) w_oS'
 *
 * after the other columns have been fitted.  A dependency group (dependency_groups.h) costs what it
 * costs in all layers that read its channels.  The order is nested: the channels that are left
 * at one count contain those at every smaller count.
 */
#ifndef PARE_PRUNE_OBS_CURVES_H
#define PARE_PRUNE_OBS_CURVES_H

#include "dependency_groups.h"
#include "obs_scores.h"

/* A layer that reads channels of a set. */
struct pare_obs_reader {
    const char *layer;
    double part; /* of its input channels that belong to the set */
};

struct pare_obs_curve {
    const struct pare_unit_groups *set; /* groups that are ranked against each other */
    int64_t *order;                     /* (set->n): groups, in the order of removal */
    double *error; /* (set->n + 1): after i removals, never less than after i - 1; sum over the
                     * layers that read the channels, each by the option `scale` relative to the
                     * mean square of its outputs, or the increase of the loss in nats */
    int readers;   /* layers that read the channels and whose errors are known; 0: the error is
                     * the part of the squares of the group's own weights that is removed */
    struct pare_obs_reader *reader; /* (readers) */
    double params, macs;            /* that one group has, in its own layers and in readers */
};

struct pare_obs_curves {
    struct pare_obs_curve *list;
    int n;
};

/* The curves of all dependency groups of a compression, with its data and the model as it is.
 * Memory is from the arena. */
int pare_obs_curves(struct pare_compression *c, const struct pare_obs_options *o,
                    struct pare_arena *a, struct pare_obs_curves *curves, struct pare_err *err);

#endif

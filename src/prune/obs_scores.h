/* obs_scores.h - scores of single weights and blocks by exact optimal brain surgeon. */
#ifndef PARE_PRUNE_OBS_SCORES_H
#define PARE_PRUNE_OBS_SCORES_H

#include "../compress/fisher.h"
#include "input_grams.h"

struct pare_obs_options {
    struct pare_gram_options gram;
    int64_t span;      /* columns that are traced together, at most */
    const char *scale; /* none, layer, row: costs relative to the output's power; fisher: the
                        * expected increase of the loss; outputs: the expected change of the
                        * model's outputs; auto: outputs for single weights, if the model has a
                        * backward pass, else layer */
    const char *price; /* none, params, macs: costs of channels per what they free */
};
#define PARE_OBS_FISHER_ITEMS 512

/* Whether costs are weighed by Fisher information. */
bool pare_obs_by_fisher(const struct pare_obs_options *o);

/* Scores of all units of a layer, single weights or blocks of output channels: what it costs to
 * remove them, in the order of removal.  Weights that the pattern of the layer keeps have the
 * largest scores.  f: the Fisher information of the layer's outputs, which costs are weighed by;
 * NULL without. */
int pare_obs_scores(const struct pare_input_gram *m, const struct pare_obs_options *o,
                    const struct pare_fisher *f, float *score, struct pare_err *err);

#endif

/* obs_scores.h - scores of single weights and blocks by exact optimal brain surgeon. */
#ifndef PARE_PRUNE_OBS_SCORES_H
#define PARE_PRUNE_OBS_SCORES_H

#include "input_grams.h"

struct pare_obs_options {
    struct pare_gram_options gram;
    int64_t span;      /* columns that are traced together, at most */
    const char *scale; /* none, layer, row: costs relative to the output's power; fisher: of
                        * channels, the expected increase of the loss */
    const char *price; /* none, params, macs: costs of channels per what they free */
};

/* Scores of all units of a layer, single weights or blocks of output channels: what it costs to
 * remove them, in the order of removal.  Weights that the pattern of the layer keeps have the
 * largest scores. */
int pare_obs_scores(const struct pare_input_gram *m, const struct pare_obs_options *o, float *score,
                    struct pare_err *err);

#endif

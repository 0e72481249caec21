/* repair_choice.h - repair a compressed model without training, and keep what is closest to the
 * original: as it is, new statistics, least-squares repair, or both; then reconstruction of that.
 */
#ifndef PARE_PIPELINE_REPAIR_CHOICE_H
#define PARE_PIPELINE_REPAIR_CHOICE_H

#include <pare/compress.h>

#include "../train/recalibrate.h"

struct pare_compression;

enum pare_repair_way {
    PARE_WAY_NONE,
    PARE_WAY_STATISTICS,
    PARE_WAY_REPAIR,
    PARE_WAY_BOTH,
    PARE_WAY_DAMPED,
    PARE_WAY_RECONSTRUCTION,
    PARE_REPAIR_WAYS
};

struct pare_repair_choice {
    struct pare_model *model;             /* compressed; changes in place */
    struct pare_model *dense;             /* the original */
    struct pare_compression *compression; /* that wraps its layers; NULL: none */
    struct pare_trainer *trainer;         /* of the model, to re-estimate statistics; NULL: none */
    struct pare_data *data;
    struct pare_recalibrate_opts recalibrate;        /* batches 0: statistics stay */
    bool fit;                                        /* try least squares */
    bool corrects;                                   /* try pare_correct_statistics() */
    const struct pare_reconstruct_opts *reconstruct; /* of the best; NULL: not */
    struct pare_dist *dist;
    int threads;

    /* Train a copy as the training that follows will do for its first steps, so that ways are
     * compared by what becomes of them; with damped least squares as one more way, whose weights
     * grow less (of two factors, the better).  NULL: no training follows. */
    int (*trial)(void *user, struct pare_model *copy, struct pare_err *err);
    void *trial_user;
    int64_t trial_steps; /* that it runs, for messages */

    /* Results. */
    double db[PARE_REPAIR_WAYS];         /* of the outputs on held-out items; NaN: not tried */
    double divergence[PARE_REPAIR_WAYS]; /* of class probabilities, see held_out.h; NaN: none */
    double loss[PARE_REPAIR_WAYS];       /* with labels; NaN: there are none */
    enum pare_repair_way kept;
    int64_t items;  /* held out */
    int fitted;     /* layers, of what was kept */
    int corrected;  /* layers whose outputs have the original's mean and variance again */
    int64_t steps;  /* of reconstruction, after which the model was best; 0: not better */
    bool estimated; /* statistics of normalizations are new */
};

/* Names of the ways, for messages: "as it is", "statistics", "repair", "repair + statistics",
 * "damped repair", "reconstruction". */
const char *pare_repair_way_name(enum pare_repair_way w);

int pare_repair_choose(struct pare_repair_choice *c, struct pare_err *err);

/* "outputs against the original ...: as it is 1.2 dB, ...; kept: repair"; NULL: no memory. */
const char *pare_repair_choice_text(const struct pare_repair_choice *c, struct pare_arena *a);

#endif

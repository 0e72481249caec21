/* reconstruct.h - reconstruction: the parameters of a compressed model are trained for some steps
 * so that its outputs are those of the original, on items without labels.
 *
 *     struct pare_reconstruct r = { .model = m, .teacher = dense, .data = d, .held = &held,
 *                                   .steps = 500, .rate = 1e-3, .keep_zeros = true };
 *     pare_reconstruct(&r, err);
 *
 * The loss is the Kullback-Leibler divergence of softened class probabilities, if output 0 has
 * class scores, and the mean square of the other outputs' differences, relative to the original's.
 * Which parameters are free, and what holds them after each step, is the caller's: `freeze` and
 * `hooks`.
 */
#ifndef PARE_COMPRESS_RECONSTRUCT_H
#define PARE_COMPRESS_RECONSTRUCT_H

#include "../train/trainer.h"
#include "held_out.h"

struct pare_reconstruct {
    struct pare_model *model;   /* changes in place */
    struct pare_model *teacher; /* the original */
    struct pare_data *data;
    const struct pare_held_out *held; /* compares both on items not fitted to */
    int64_t items;        /* at most, the first of the order of held_out.h; 0: all except the
                               * held-out ones.  More than `steps` need are not read */
    int64_t steps, batch; /* batch 0: PARE_RECONSTRUCT_BATCH */
    double rate;          /* of Adam, the largest: it rises for a twentieth of the steps, and falls
                               * to 0 as a cosine */
    const char *const *freeze; /* parameters that stay, as in struct pare_trainer_opts */
    int n_freeze;
    struct pare_hooks hooks; /* constraints; keep() is called for the best model */
    bool keep_zeros;         /* weights that are 0, and removed channels, stay 0 */
    int64_t recalibrate; /* batches of 64 items for the statistics of normalizations, before each
                              * comparison; 0: those of training are used */
    uint64_t seed;
    struct pare_dist *dist;
    int threads; /* 0: all cores */
    pare_progress_fn *progress;
    void *user;

    double cost;       /* out: pare_output_cost() of the model that was kept */
    int64_t kept_step; /* out: steps after which the model was best; 0: it is as it was */
};

#define PARE_RECONSTRUCT_BATCH 32
#define PARE_RECONSTRUCT_STEPS 500
#define PARE_RECONSTRUCT_RATE 1e-3

/* The model is compared with the original a few times during the steps, and the best is kept: never
 * one that is worse than it was.  Training that diverges ends early.  The same input gives the same
 * bytes. */
int pare_reconstruct(struct pare_reconstruct *r, struct pare_err *err);

#endif

/* mixup.h - batches of mixed items: Zhang et al., "mixup: Beyond Empirical Risk Minimization",
 * 2018.
 *
 *     x = l x_i + (1 - l) x_j,  loss = l L(x, y_i) + (1 - l) L(x, y_j),  l from Beta(alpha, alpha)
 *
 * i and j are neighbors, items 0 and 1, 2 and 3, ... of the batch, which is in random order; a last
 * one is alone.  l is drawn once per step, from the seed and the step, so that a resumed training
 * and all processes have the same.  Each process mixes its part of the batch: with parts of an even
 * size, the pairs are the same for any number of processes.
 */
#ifndef PARE_TRAIN_MIXUP_H
#define PARE_TRAIN_MIXUP_H

#include "trainer.h"

struct pare_mixup {
    double alpha;
    uint64_t seed;
    struct pare_arena *arena; /* of the batch */
    struct pare_mark start;   /* of the arena when it is empty */

    /* Set by pare_mixup_batch(). */
    struct pare_tensor in[PARE_DATA_INPUTS]; /* mixed inputs */
    struct pare_tensor y;                    /* labels of the second items */
    double share;                            /* l */
};

int pare_mixup_new(double alpha, uint64_t seed, struct pare_mixup **mixup, struct pare_err *err);
void pare_mixup_free(struct pare_mixup *m); /* NULL is fine */

/* Mix a batch of the step; inputs must be float32.  The result is valid until the next call. */
int pare_mixup_batch(struct pare_mixup *m, const struct pare_batch *b, int64_t step,
                     struct pare_err *err);

/* After loss->run() with the labels of the first items: the loss and the gradient of both. */
int pare_mixup_loss(const struct pare_mixup *m, const struct pare_trainer *t, float *grad,
                    double *loss, struct pare_err *err);

/* A number of the distribution Beta(alpha, alpha). */
double pare_rng_beta(struct pare_rng *r, double alpha);

#endif

/* gram_learn.h - learned rounding on a Gram matrix (AdaRound without stored activations). */
#ifndef PARE_QUANT_GRAM_LEARN_H
#define PARE_QUANT_GRAM_LEARN_H

#include "gram_round.h"

/* Columns are in `order`: column c is column order[c] of the layer. */
struct pare_gram_learn {
    int64_t rows, k;
    const int64_t *order;
    const struct pare_round_grid *grid;
    const double *g, *target;  /* (k, k), (rows, k) */
    const float *scale, *zero; /* (rows, blocks) */
    const uint8_t *keep;       /* (rows, k): 0: the level stays; NULL: none does */
    int16_t *level;            /* (rows, k), in and out: where learning starts */
    int64_t steps;
    int threads;
};

/* Each weight goes to the level below or above its target, or to the one it starts from if that is
 * neither.  Memory is from the arena. */
int pare_gram_learn(const struct pare_gram_learn *l, struct pare_arena *a, struct pare_err *err);

#endif

/* input_grams.h - Gram matrices of the inputs of wrapped layers, for pruners that weigh what a
 * removed weight does to its layer's output: wanda, sparsegpt, obs.
 *
 * The weight of a layer is (groups, rows, k) matrices, as in compress/grams.h.
 */
#ifndef PARE_PRUNE_INPUT_GRAMS_H
#define PARE_PRUNE_INPUT_GRAMS_H

#include "../compress/grams.h"
#include "prune_state.h"

/* A wrapped layer and the statistics of its inputs. */
struct pare_input_gram {
    struct pare_layer *l;
    struct pare_gram gram;
    int64_t row, column; /* strides of the weight: row of all groups, column */
    bool centered;       /* a bias or a normalization takes the means: only deviations count */
};

typedef int pare_input_gram_fn(const struct pare_input_gram *m, void *user, struct pare_err *err);

struct pare_input_grams {
    struct pare_compression *c;
    int64_t items; /* of the data, at most */
    bool diagonal; /* see struct pare_gram_source */
    bool in_order; /* the inputs are those of the model with the layers before it pruned: each()
                     * changes mask and weight of its layer */
    bool due;      /* only layers whose mask is due */
    pare_input_gram_fn *each;
    void *user;
};

/* An error if the layer has no Gram matrix, or if other layers use its weight. */
int pare_input_gram_check(struct pare_layer *l, struct pare_err *err);

/* Sizes and strides of a layer, by its info, weight, w, bias and axes; false: it has no Gram. */
bool pare_input_gram_of(struct pare_layer *l, struct pare_input_gram *m);

/* Collect the Grams of n layers in one pass over the data; memory is from the arena. */
int pare_input_grams_collect(const struct pare_input_grams *s, struct pare_input_gram *m, int n,
                             struct pare_arena *a, struct pare_err *err);

/* Call each() for all layers that algorithms see, in order; memory of the Grams is bounded. */
int pare_input_grams(const struct pare_input_grams *s, struct pare_err *err);

/* ---- one group of a layer -------------------------------------------------------------------- */

/* Matrices of one group of a layer, in double. */
struct pare_hessian {
    int64_t rows, k;
    double *w;      /* (rows, k): the masked weight; 0 where an input is always 0 */
    double *h;      /* (k, k): G, centered where the layer is, plus damping */
    bool *dead;     /* (k): inputs that are always 0, or constant where the layer is centered; they
                    * have rows and columns of 0, and the mean of the others in the diagonal */
    double *output; /* (rows): w h w' without damping, the mean square of an output */
};

/* Settings of pruners that factor Grams. */
struct pare_gram_options {
    int64_t items;
    double damping; /* of the mean of the diagonal; -1: 0.001 for convolutions, else 0.01 */
};
#define PARE_GRAM_ITEMS 1024

/* Matrices of group g, in the arena.  The damping is raised where there are few positions. */
int pare_hessian(const struct pare_input_gram *m, int64_t g, double damping, struct pare_arena *a,
                 struct pare_hessian *h, struct pare_err *err);

/* The upper factor u (k, k) of inverse(h) = u' u, or, with u NULL, the inverse in place of h.  The
 * damping grows tenfold while h is not positive definite; *raised counts that. */
int pare_hessian_invert(struct pare_hessian *h, double *u, int threads, int *raised,
                        struct pare_arena *a, struct pare_err *err);

#endif

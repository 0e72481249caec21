/* gram_round.h - round a weight matrix by a method of rounding.h, so that the layer's outputs
 * change least, given the Gram matrix of its inputs.
 *
 *     error = E |W d - Q x|^2,  Q = scale (level - zero)
 *
 * x: inputs of the quantized model, d: of the float model; the same without a cross-Gram.  The best
 * real matrix is  W* = W + W (C - G) inverse(G + damping),  and up to a constant the error is
 * tr (Q - W*) G (Q - W*)'.  With means, G and C are centered, and the bias takes the rest.
 */
#ifndef PARE_QUANT_GRAM_ROUND_H
#define PARE_QUANT_GRAM_ROUND_H

#include <pare/pare.h>

#include "rounding.h"

struct pare_gram_round {
    int64_t rows, k;
    const double *w;             /* (rows, k) */
    const double *g, *cross;     /* (k, k); g NULL: no data; cross NULL: d is x */
    const double *mean, *d_mean; /* (k) of x and d; mean NULL: the bias stays; d_mean NULL: mean */
    const uint8_t *keep;         /* (rows, k): 0: the weight is 0 and stays 0; NULL: none is */
    double damping;              /* relative to the mean of G's diagonal; raised where G needs it */
    const struct pare_rounding_method *method;
    const struct pare_rounding_method *scales; /* for groups, where the method does not fit */
    int64_t steps;                             /* of learned rounding */
    int threads;
    struct pare_round_grid grid;
    float *scale, *zero; /* (rows, blocks) */

    int16_t *level;        /* out: (rows, k) */
    double *shift;         /* out: (rows) to be added to the bias; NULL: not needed */
    double error, nearest; /* out: the error, without its constant part; that of rounding W to the
                             * nearest level with scales from its range, or the given ones */
    bool failed;           /* out: G is not finite or singular; levels are the nearest, errors 0 */
};

/* The error of a row is never above that of the nearest levels, except without data, when the error
 * is that of the weights.  Memory is from the arena. */
int pare_gram_round(struct pare_gram_round *r, struct pare_arena *a, struct pare_err *err);

#endif

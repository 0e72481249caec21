/* least_squares.h - the best weights of a layer whose inputs have changed, by least squares.
 *
 * Minimizes  E |W d + b - W' x - b'|^2  over W' that is 0 outside of the columns to keep, and b':
 *
 *     W'_k = W_k + (W C_:k - W_k G_kk) inverse(G_kk + damping),   b' = b + W m_d - W' m
 *
 * with the Grams of grams.h, centered where there is a bias.  Damping draws toward W: inputs that
 * did not change give W itself.
 */
#ifndef PARE_COMPRESS_LEAST_SQUARES_H
#define PARE_COMPRESS_LEAST_SQUARES_H

#include <stdbool.h>
#include <stdint.h>

#include <pare/pare.h>

struct pare_least_squares {
    int64_t rows, k;
    const double *w;                 /* (rows, k) */
    const double *g, *cross;         /* (k, k): G, C */
    const double *mean, *cross_mean; /* (k): m, m_d; NULL: there is no bias */
    const uint8_t *keep;             /* (k): columns that W' may use */
    double damping;                  /* relative to the mean of G's diagonal; raised if need be */
    int threads;

    double *out, *shift; /* out: W' (rows, k); b' - b (rows), 0 without a bias */
    double before,
        after;   /* out: the error up to a constant, of W with the other columns 0, of W' */
    bool failed; /* out: G is singular or not finite; W' is W with the other columns 0 */
};

/* Memory is from the arena. */
int pare_least_squares(struct pare_least_squares *s, struct pare_arena *a, struct pare_err *err);

#endif

/* cholesky.h - dense linear algebra in double: matrix product, Cholesky factor, triangular inverse
 * and solves, Gram matrices.
 *
 * Matrices are row-major.  Each element is computed by one thread in a fixed order, so results do
 * not depend on the number of threads.  Nothing is allocated.
 */
#ifndef PARE_BACKEND_GEMM_CHOLESKY_H
#define PARE_BACKEND_GEMM_CHOLESKY_H

#include <stdbool.h>
#include <stdint.h>

/* An operand of a product: element (i, j) is at i * row + j * column of d, or of f. */
struct pare_dmatrix {
    const double *d;
    const float *f; /* used if d is NULL */
    int64_t row, column;
};

/* c (m, n) += sign a b, a (m, k), b (k, n); ldc: row stride of c.  lower: only the tiles that have
 * elements on or below the diagonal are computed.  c does not overlap a or b. */
struct pare_dgemm {
    struct pare_dmatrix a, b;
    double *c;
    int64_t m, n, k, ldc;
    double sign;
    bool lower;
    int threads;
};
void pare_dgemm(const struct pare_dgemm *p);

/* Factor a (n, n) = l l' in place: a is symmetric, of which the lower triangle is read; l is lower,
 * with zeros above the diagonal.  false: a is not positive definite, or so close to singular that
 * the rounding error of a pivot exceeds it, or not finite; a is then overwritten. */
bool pare_cholesky(double *a, int64_t n, int threads);

/* y (n, n) = transposed inverse of a lower triangular l, an upper triangular matrix. */
void pare_lower_inverse(const double *l, int64_t n, double *y, int threads);

/* x (rows, n) = x inverse(l l'), in place: each row of x is the right side of an equation. */
void pare_cholesky_solve(const double *l, int64_t n, double *x, int64_t rows, int threads);

/* The upper factor u (n, n) of inverse(h) = u' u, which error propagation by columns needs, without
 * the inverse: with rows and columns in reverse order h = r r' where r is upper, and then
 * u = inverse(r).  h is symmetric and is overwritten.  false: h is not positive definite, see
 * pare_cholesky(). */
bool pare_inverse_factor(double *h, int64_t n, double *u, int threads);

/* Copy the lower triangle of a (n, n) to the upper one. */
void pare_mirror_lower(double *a, int64_t n);

#endif

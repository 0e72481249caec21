/* cholesky.c - Cholesky factor, triangular inverse and solves in double, in blocks.
 *
 * Blocks on the diagonal are done element by element, all else by pare_dgemm().
 */
#include "cholesky.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "../../base/simd.h"

#define BLOCK 64
#define ALONE 16 /* rows of a panel that one thread solves */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static struct pare_dmatrix normal(const double *d, int64_t row)
{
    return (struct pare_dmatrix){ .d = d, .row = row, .column = 1 };
}

static struct pare_dmatrix transposed(const double *d, int64_t row)
{
    return (struct pare_dmatrix){ .d = d, .row = 1, .column = row };
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* x (n) = inverse(l) x, l (n, n) lower with row stride ld. */
PARE_SIMD static void forward_row(const double *l, int64_t ld, int64_t n, double *x)
{
    for (int64_t j = 0; j < n; j++) {
        const double *row = l + j * ld;
        double sum = 0;

#pragma omp simd reduction(+ : sum)
        for (int64_t k = 0; k < j; k++)
            sum += x[k] * row[k];
        x[j] = (x[j] - sum) / row[j];
    }
}

/* x (n) = inverse(l') x. */
PARE_SIMD static void backward_row(const double *l, int64_t ld, int64_t n, double *x)
{
    for (int64_t j = n - 1; j >= 0; j--) {
        const double *row = l + j * ld;
        double v = x[j] / row[j];

        x[j] = v;
        for (int64_t k = 0; k < j; k++)
            x[k] -= v * row[k];
    }
}

/* Rows of x to solve with a block of l, which has l's row stride. */
struct solve {
    const double *l;
    int64_t n; /* size of the block */
    double *x;
    int64_t rows, ld; /* of x; row stride of both */
    int threads;
    bool back; /* with l' instead of l */
};

static void solve_rows(const struct solve *s)
{
    int threads = s->rows > ALONE ? s->threads : 1;

#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t i = 0; i < s->rows; i++)
        (s->back ? backward_row : forward_row)(s->l, s->ld, s->n, s->x + i * s->ld);
}

/* Factors a block on the diagonal; was[j]: the diagonal before any update. */
static bool factor_block(double *a, int64_t ld, int64_t n, const double *was, int64_t all)
{
    for (int64_t j = 0; j < n; j++) {
        double *row = a + j * ld, d;

        forward_row(a, ld, j, row);
        d = row[j];
        for (int64_t k = 0; k < j; k++)
            d -= row[k] * row[k];
        if (!(d > DBL_EPSILON * (double)all * was[j]) || !(d <= DBL_MAX))
            return false;
        row[j] = sqrt(d);
    }
    return true;
}

/* ---- matrices -------------------------------------------------------------------------------- */

/* The diagonal of the matrix is kept in the first row, in the part that is not read. */
bool pare_cholesky(double *a, int64_t n, int threads)
{
    double first = n > 0 ? a[0] : 0, was[BLOCK];

    for (int64_t j = 1; j < n; j++)
        a[j] = a[j * n + j];
    for (int64_t at = 0; at < n; at += BLOCK) {
        int64_t m = least(BLOCK, n - at), below = n - at - m;
        double *block = a + at * n + at, *panel = block + m * n;
        struct pare_dgemm rest = { .a = normal(panel, n),
                                   .b = transposed(panel, n),
                                   .c = panel + m,
                                   .m = below,
                                   .n = below,
                                   .k = m,
                                   .ldc = n,
                                   .sign = -1,
                                   .lower = true,
                                   .threads = threads };

        memcpy(was, a + at, (size_t)m * sizeof(*was));
        if (!at)
            was[0] = first;
        if (!factor_block(block, n, m, was, n))
            return false;
        solve_rows(&(struct solve){ block, m, panel, below, n, threads, false });
        pare_dgemm(&rest);
    }
    for (int64_t i = 0; i < n; i++)
        memset(a + i * n + i + 1, 0, (size_t)(n - i - 1) * sizeof(*a));
    return true;
}

/* Rows i of the inverse x: x_i = inverse(l_ii) (e_i - sum over k < i of l_ik x_k); y is x'. */
void pare_lower_inverse(const double *l, int64_t n, double *y, int threads)
{
    memset(y, 0, (size_t)n * (size_t)n * sizeof(*y));
    for (int64_t at = 0; at < n; at += BLOCK) {
        int64_t m = least(BLOCK, n - at);

        pare_dgemm(&(struct pare_dgemm){ .a = normal(y, n),
                                         .b = transposed(l + at * n, n),
                                         .c = y + at,
                                         .m = at,
                                         .n = m,
                                         .k = at,
                                         .ldc = n,
                                         .sign = -1,
                                         .threads = threads });
        for (int64_t i = at; i < at + m; i++)
            y[i * n + i] = 1;
        solve_rows(&(struct solve){ l + at * n + at, m, y + at, at + m, n, threads, false });
    }
}

void pare_cholesky_solve(const double *l, int64_t n, double *x, int64_t rows, int threads)
{
    struct pare_dgemm g = { .m = rows, .ldc = n, .sign = -1, .threads = threads };

    for (int64_t at = 0; at < n; at += BLOCK) {
        g.n = least(BLOCK, n - at);
        g.k = at;
        g.a = normal(x, n);
        g.b = transposed(l + at * n, n);
        g.c = x + at;
        pare_dgemm(&g);
        solve_rows(&(struct solve){ l + at * n + at, g.n, x + at, rows, n, threads, false });
    }
    for (int64_t at = (n - 1) / BLOCK * BLOCK; at >= 0 && n > 0; at -= BLOCK) {
        g.n = least(BLOCK, n - at);
        g.k = n - at - g.n;
        g.a = normal(x + at + g.n, n);
        g.b = normal(l + (at + g.n) * n + at, n);
        g.c = x + at;
        pare_dgemm(&g);
        solve_rows(&(struct solve){ l + at * n + at, g.n, x + at, rows, n, threads, true });
    }
}

static void swap(double *a, double *b)
{
    double v = *a;

    *a = *b;
    *b = v;
}

/* With j the reversal of indices: jhj = l l', r = j l j, u = j inverse(l) j. */
bool pare_inverse_factor(double *h, int64_t n, double *u, int threads)
{
    for (int64_t i = 0; i < n * n / 2; i++)
        swap(&h[i], &h[n * n - 1 - i]);
    if (!pare_cholesky(h, n, threads))
        return false;
    pare_lower_inverse(h, n, u, threads);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n - 1 - i; j++)
            swap(&u[i * n + j], &u[(n - 1 - j) * n + n - 1 - i]);
    return true;
}

void pare_mirror_lower(double *a, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < i; j++)
            a[j * n + i] = a[i * n + j];
}

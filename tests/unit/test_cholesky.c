/* test_cholesky.c - products, Cholesky factors, triangular inverses and solves against naive loops;
 * matrices that are ill-conditioned or not positive definite; the same bits for any number of
 * threads. */
#include <math.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend/gemm/cholesky.h"
#include "base/arena.h"
#include "base/rng.h"

static struct pare_arena *arena;

static int setup(void **state)
{
    (void)state;
    arena = pare_arena_new(1 << 16);
    return arena ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    pare_arena_free(arena);
    return 0;
}

static double *numbers(int64_t n, uint64_t seed)
{
    double *x = pare_alloc(arena, (size_t)n + 1, sizeof(*x));
    struct pare_rng rng;

    assert_non_null(x);
    pare_rng_init(&rng, seed);
    for (int64_t i = 0; i < n; i++)
        x[i] = 2 * pare_rng_uniform(&rng) - 1;
    return x;
}

static double *copy_of(const double *x, int64_t n)
{
    double *y = pare_alloc(arena, (size_t)n + 1, sizeof(*y));

    assert_non_null(y);
    memcpy(y, x, (size_t)n * sizeof(*y));
    return y;
}

/* x' x of 2 n rows of random numbers, plus a multiple of the identity. */
static double *positive(int64_t n, double plus, uint64_t seed)
{
    double *x = numbers(2 * n * n, seed), *h = numbers(n * n, 1);

    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            double s = i == j ? plus : 0;

            for (int64_t k = 0; k < 2 * n; k++)
                s += x[k * n + i] * x[k * n + j];
            h[i * n + j] = s;
        }
    return h;
}

static const int64_t sizes[] = { 1, 2, 3, 17, 63, 64, 65, 130, 200 };
#define N_SIZES (sizeof(sizes) / sizeof(*sizes))

static void test_product_equals_naive_sums(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_SIZES; i++)
        for (int form = 0; form < 8; form++) {
            int64_t m = sizes[i], n = sizes[N_SIZES - 1 - i], k = 3 * sizes[(i + 3) % N_SIZES];
            double *a = numbers(m * k, 1), *b = numbers(k * n, 2), *c = numbers(m * n, 3);
            double *was = copy_of(c, m * n);
            float *f = pare_alloc(arena, (size_t)(m * k), sizeof(*f));
            struct pare_dgemm p = { .c = c, .m = m, .n = n, .k = k, .ldc = n, .sign = -1 };
            bool ta = form & 1, tb = form & 2, floats = form & 4;

            for (int64_t e = 0; e < m * k; e++)
                a[e] = (double)(f[e] = (float)a[e]);
            p.a = (struct pare_dmatrix){ floats ? NULL : a, f, ta ? 1 : k, ta ? m : 1 };
            p.b = (struct pare_dmatrix){ b, NULL, tb ? 1 : n, tb ? k : 1 };
            p.threads = 1 + form % 3;
            pare_dgemm(&p);
            for (int64_t r = 0; r < m; r++)
                for (int64_t q = 0; q < n; q++) {
                    double s = was[r * n + q];

                    for (int64_t e = 0; e < k; e++)
                        s -= a[ta ? e * m + r : r * k + e] * b[tb ? q * k + e : e * n + q];
                    assert_true(fabs(s - c[r * n + q]) < 1e-12 * (double)(k + 1));
                }
        }
}

static void test_lower_product_leaves_tiles_above_the_diagonal(void **state)
{
    const int64_t n = 150, k = 20;
    double *a = numbers(n * k, 1), *c = pare_alloc(arena, (size_t)(n * n), sizeof(*c));

    (void)state;
    pare_dgemm(&(struct pare_dgemm){ .a = { a, NULL, k, 1 },
                                     .b = { a, NULL, 1, k },
                                     .c = c,
                                     .m = n,
                                     .n = n,
                                     .k = k,
                                     .ldc = n,
                                     .sign = 1,
                                     .lower = true,
                                     .threads = 2 });
    assert_true(c[0 * n + 140] == 0 && c[140 * n] != 0);
    pare_mirror_lower(c, n);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            double s = 0;

            for (int64_t e = 0; e < k; e++)
                s += a[i * k + e] * a[j * k + e];
            assert_true(fabs(s - c[i * n + j]) < 1e-12);
        }
}

static void test_factor_times_its_transpose_is_the_matrix(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_SIZES; i++) {
        int64_t n = sizes[i];
        double *h = positive(n, 0.1, 5), *l = copy_of(h, n * n);

        for (int64_t r = 0; r < n; r++) /* only the lower triangle is read */
            for (int64_t q = r + 1; q < n; q++)
                l[r * n + q] = NAN;
        assert_true(pare_cholesky(l, n, 2));
        for (int64_t r = 0; r < n; r++)
            for (int64_t q = 0; q < n; q++) {
                double s = 0;

                assert_true(q <= r || l[r * n + q] == 0);
                for (int64_t k = 0; k < n; k++)
                    s += l[r * n + k] * l[q * n + k];
                assert_true(fabs(s - h[r * n + q]) < 1e-11 * (double)n);
            }
    }
}

static void test_inverse_of_a_triangular_matrix(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_SIZES; i++) {
        int64_t n = sizes[i];
        double *l = positive(n, 1, 6), *y = numbers(n * n, 9);

        assert_true(pare_cholesky(l, n, 1));
        pare_lower_inverse(l, n, y, 2);
        for (int64_t r = 0; r < n; r++)
            for (int64_t q = 0; q < n; q++) {
                double s = 0;

                assert_true(q >= r || y[r * n + q] == 0);
                for (int64_t k = 0; k < n; k++)
                    s += l[r * n + k] * y[q * n + k];
                assert_true(fabs(s - (r == q)) < 1e-10);
            }
    }
}

static void test_solution_times_the_matrix_is_the_right_side(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_SIZES; i++)
        for (int64_t rows = 1; rows < 80; rows += 39) {
            int64_t n = sizes[i];
            double *h = positive(n, 1, 7), *l = copy_of(h, n * n), *b = numbers(rows * n, 8);
            double *x = copy_of(b, rows * n);

            assert_true(pare_cholesky(l, n, 2));
            pare_cholesky_solve(l, n, x, rows, 2);
            for (int64_t r = 0; r < rows; r++)
                for (int64_t q = 0; q < n; q++) {
                    double s = 0;

                    for (int64_t k = 0; k < n; k++)
                        s += x[r * n + k] * h[k * n + q];
                    assert_true(fabs(s - b[r * n + q]) < 1e-10);
                }
        }
}

/* u' u = inverse(h), and u is the factor of the usual route: the transposed Cholesky factor of the
 * inverse. */
static void test_upper_factor_of_the_inverse(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_SIZES; i++) {
        int64_t n = sizes[i];
        double *h = positive(n, 0.5, 11), *l = copy_of(h, n * n), *y = numbers(n * n, 1);
        double *inverse = numbers(n * n, 1), *u = numbers(n * n, 2), *other = copy_of(h, n * n);

        assert_true(pare_cholesky(l, n, 1));
        pare_lower_inverse(l, n, y, 1);
        for (int64_t r = 0; r < n; r++)
            for (int64_t q = 0; q < n; q++) {
                inverse[r * n + q] = 0;
                for (int64_t k = 0; k < n; k++)
                    inverse[r * n + q] += y[r * n + k] * y[q * n + k];
            }
        assert_true(pare_inverse_factor(other, n, u, 2));
        for (int64_t r = 0; r < n; r++)
            for (int64_t q = 0; q < n; q++) {
                double s = 0;

                assert_true(q >= r || u[r * n + q] == 0);
                for (int64_t k = 0; k < n; k++)
                    s += u[k * n + r] * u[k * n + q];
                assert_true(fabs(s - inverse[r * n + q]) < 1e-11);
            }
        assert_true(pare_cholesky(inverse, n, 2));
        for (int64_t r = 0; r < n; r++)
            for (int64_t q = 0; q < n; q++)
                assert_true(fabs(inverse[q * n + r] - u[r * n + q]) < 1e-10);
    }
}

/* Hilbert matrices: condition 5e14 for 11 rows; 13 rows are singular in double. */
static void test_ill_conditioned_matrices(void **state)
{
    (void)state;
    for (int64_t n = 2; n <= 40; n++) {
        double *h = pare_alloc(arena, (size_t)(n * n), sizeof(*h)), *l, most = 0;
        bool done;

        for (int64_t i = 0; i < n * n; i++)
            h[i] = 1 / (double)(i / n + i % n + 1);
        l = copy_of(h, n * n);
        done = pare_cholesky(l, n, 1);
        assert_true(n > 11 || done);
        assert_true(n < 16 || !done);
        for (int64_t i = 0; i < n * n && done; i++) {
            double s = 0;

            for (int64_t k = 0; k < n; k++)
                s += l[i / n * n + k] * l[i % n * n + k];
            most = fmax(most, fabs(s - h[i]));
        }
        assert_true(most < 1e-15);
        for (int64_t i = 0; i < n; i++) /* damping helps */
            h[i * n + i] += 1e-8;
        assert_true(pare_cholesky(h, n, 1));
    }
}

static void test_matrices_that_are_not_positive_definite_fail(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_SIZES; i++)
        for (int bad = 0; bad < 5; bad++) {
            const double value[] = { 0, -1, NAN, INFINITY, -INFINITY };
            int64_t n = sizes[i], at = n * 2 / 3;
            double *h = positive(n, 1, 13), *u = numbers(n * n, 1);

            h[at * n + at] = value[bad];
            assert_false(pare_cholesky(copy_of(h, n * n), n, 2));
            assert_false(pare_inverse_factor(copy_of(h, n * n), n, u, 2));
        }
    /* rank 1: every pivot after the first is rounding error */
    for (int64_t n = 2; n < 200; n += 37) {
        double *x = numbers(n, 3), *h = pare_alloc(arena, (size_t)(n * n), sizeof(*h));

        for (int64_t i = 0; i < n * n; i++)
            h[i] = x[i / n] * x[i % n];
        assert_false(pare_cholesky(h, n, 1));
    }
}

static void test_threads_do_not_change_a_bit(void **state)
{
    const int64_t n = 333;
    double *h = positive(n, 1, 17), *u = numbers(n * n, 1), *first = NULL;

    (void)state;
    for (int threads = 1; threads <= 4; threads++) {
        double *x = copy_of(h, n * n), *b = numbers(40 * n, 4);

        assert_true(pare_inverse_factor(copy_of(h, n * n), n, u, threads));
        assert_true(pare_cholesky(x, n, threads));
        pare_cholesky_solve(x, n, b, 40, threads);
        memcpy(x, b, (size_t)(40 * n) * sizeof(*b));
        for (int64_t i = 40 * n; i < n * n; i++)
            x[i] += u[i];
        first = first ? first : copy_of(x, n * n);
        assert_memory_equal(first, x, (size_t)(n * n) * sizeof(*x));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_product_equals_naive_sums, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lower_product_leaves_tiles_above_the_diagonal, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_factor_times_its_transpose_is_the_matrix, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_inverse_of_a_triangular_matrix, setup, teardown),
        cmocka_unit_test_setup_teardown(test_solution_times_the_matrix_is_the_right_side, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_upper_factor_of_the_inverse, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ill_conditioned_matrices, setup, teardown),
        cmocka_unit_test_setup_teardown(test_matrices_that_are_not_positive_definite_fail, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_threads_do_not_change_a_bit, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

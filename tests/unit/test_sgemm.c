/* test_sgemm.c - matrix products of any sizes, strides and transpositions against sums in
 * float64. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <omp.h>
#include <string.h>

#include "backend/gemm/sgemm_packed.h"
#include "base/rng.h"

enum { MOST = 300, GAP = 3, ROOM = MOST * (MOST + GAP) };

static struct pare_rng rng;
static float a[ROOM], b[ROOM], c[ROOM], before[ROOM];

static void fill(float *x)
{
    for (int64_t i = 0; i < ROOM; i++)
        x[i] = (float)pare_rng_uniform(&rng) * 2 - 1;
}

static double element(const float *x, int64_t ld, bool transposed, int64_t i, int64_t j)
{
    return (double)(transposed ? x[j * ld + i] : x[i * ld + j]);
}

/* Every element of C, and what is between its rows and after them. */
static void check(const struct pare_sgemm *p)
{
    for (int64_t i = 0; i < ROOM; i++) {
        int64_t m = i / p->ldc, n = i % p->ldc;
        double sum = p->add ? (double)before[i] : 0;

        if (m >= p->M || n >= p->N) {
            assert_true(c[i] == before[i]);
            continue;
        }
        for (int64_t k = 0; k < p->K; k++)
            sum += element(p->a, p->lda, p->ta, m, k) * element(p->b, p->ldb, p->tb, k, n);
        if (fabs((double)c[i] - sum) > 1e-5 * (double)(p->K + 1))
            fail_msg("M %d N %d K %d ta %d tb %d add %d: (%d, %d) is %g, not %g", (int)p->M,
                     (int)p->N, (int)p->K, p->ta, p->tb, p->add, (int)m, (int)n, (double)c[i], sum);
    }
}

static void run(struct pare_sgemm p, int block)
{
    p.lda = (p.ta ? p.M : p.K) + (int64_t)pare_rng_below(&rng, GAP + 1);
    p.ldb = (p.tb ? p.K : p.N) + (int64_t)pare_rng_below(&rng, GAP + 1);
    p.ldc = p.N + (int64_t)pare_rng_below(&rng, GAP + 1);
    p.lda = p.lda ? p.lda : 1;
    p.ldb = p.ldb ? p.ldb : 1;
    p.a = a;
    p.b = b;
    p.c = c;
    fill(c);
    memcpy(before, c, sizeof(c));
    if (block)
        pare_sgemm_packed(&p, block);
    else
        assert_int_equal(pare_sgemm(&p), 0);
    check(&p);
}

/* Each case as pare_sgemm() of this build, and by packed GEMM with both blocks. */
static void test_sizes(void **state)
{
    static const int64_t sizes[][3] = {
        { 1, 1, 1 },   { 1, 100, 70 },  { 2, 33, 64 },    { 3, 5, 7 },     { 4, 8, 1 },
        { 5, 16, 0 },  { 96, 64, 256 }, { 97, 65, 257 },  { 100, 63, 30 }, { 13, 17, 299 },
        { 200, 7, 9 }, { 7, 200, 300 }, { 130, 150, 20 }, { 1, 300, 300 },
    };
    static const int blocks[] = { 0, 8, 16 };

    (void)state;
    fill(a);
    fill(b);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
        for (int flags = 0; flags < 8; flags++)
            for (int k = 0; k < 3; k++) {
                struct pare_sgemm p = { .ta = flags & 1,
                                        .tb = flags & 2,
                                        .add = flags & 4,
                                        .M = sizes[i][0],
                                        .N = sizes[i][1],
                                        .K = sizes[i][2] };

                if (p.K || blocks[k])
                    run(p, blocks[k]);
            }
}

/* The number of threads does not change a bit. */
static void test_sgemm_threads(void **state)
{
    struct pare_sgemm p = { .tb = true,
                            .M = 250,
                            .N = 130,
                            .K = 299,
                            .a = a,
                            .lda = 300,
                            .b = b,
                            .ldb = 300,
                            .c = c,
                            .ldc = 130 };
    int threads = omp_get_max_threads();

    (void)state;
    fill(a);
    fill(b);
    omp_set_num_threads(1);
    pare_sgemm_packed(&p, 8);
    memcpy(before, c, sizeof(c));
    for (int n = 2; n < 5; n++) {
        memset(c, 0, (size_t)(p.M * p.N) * sizeof(*c));
        omp_set_num_threads(n);
        pare_sgemm_packed(&p, 8);
        assert_memory_equal(c, before, (size_t)(p.M * p.N) * sizeof(*c));
    }
    omp_set_num_threads(threads);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_sgemm_threads),
    };

    pare_rng_init(&rng, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_gemm_packed.c - packed GEMM against sums in float64. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "backend/gemm/gemm_packed.h"
#include "base/rng.h"

enum { ROWS = 40, COLUMNS = 80, DEPTH = 48, GAP = 3 };

static struct pare_rng rng;

static float random_value(void)
{
    return (float)pare_rng_uniform(&rng) * 2 - 1;
}

static int64_t random_size(int64_t n)
{
    return 1 + (int64_t)pare_rng_below(&rng, (uint64_t)n);
}

/* Random sizes, one row or many, with gaps between runs and rows; nothing outside y is written. */
static void check_product(int block)
{
    static float x[ROWS * (2 * DEPTH + GAP)], w[DEPTH * COLUMNS], y[ROWS * (COLUMNS + GAP)];
    static float packed[DEPTH * COLUMNS];
    const bool vector = random_size(4) == 1; /* one row without gaps */
    int64_t blocks = random_size(COLUMNS / block), run = random_size(vector ? DEPTH : 16),
            runs = vector ? 1 : random_size(DEPTH / run);
    int64_t rest = DEPTH - runs * run,
            last = vector ? 0 : random_size(rest < run ? rest + 1 : run) - 1;
    int64_t K = run * runs + last, columns = blocks * block, rows = vector ? 1 : random_size(ROWS);
    int64_t shown = columns + 1 - random_size(block); /* the last block of y may not be full */
    struct pare_packed_gemm p = {
        .columns = shown < columns ? shown : 0,
        .x = x,
        .w = packed,
        .y = y,
        .rows = rows,
        .blocks = blocks,
        .runs = runs,
        .run = run,
        .last = last,
        .x_run = run + 1,
        .x_row = runs * (run + 1) + last + GAP,
        .y_row = columns + GAP,
        .y_block = block,
        .block = block,
    };

    for (size_t i = 0; i < sizeof(x) / sizeof(*x); i++)
        x[i] = random_value();
    for (size_t i = 0; i < sizeof(y) / sizeof(*y); i++)
        y[i] = 77;
    for (int64_t k = 0; k < K; k++)
        for (int64_t c = 0; c < columns; c++) {
            w[k * columns + c] = random_value();
            packed[pare_packed_gemm_at(K, blocks, block, k, c)] = w[k * columns + c];
        }
    pare_packed_gemm_run(&p);
    for (int64_t r = 0; r < ROWS; r++)
        for (int64_t c = 0; c < p.y_row; c++) {
            double sum = 0;

            if (r >= rows || c >= shown) {
                assert_true(y[r * p.y_row + c] == 77);
                continue;
            }
            for (int64_t k = 0; k < K; k++)
                sum += (double)x[r * p.x_row + k / run * p.x_run + k % run] *
                       (double)w[k * columns + c];
            assert_true(fabs(sum - (double)y[r * p.y_row + c]) < 1e-5);
        }
}

/* Columns of x times rows of w, added to y, clamped. */
static void check_outer(int block)
{
    static float x[DEPTH * (ROWS + GAP)], w[DEPTH * (COLUMNS + GAP)], y[ROWS * COLUMNS];
    static float before[ROWS * COLUMNS];
    int64_t blocks = random_size(COLUMNS / block), K = random_size(DEPTH), rows = random_size(ROWS);
    struct pare_packed_gemm p = {
        .x = x,
        .w = w,
        .y = y,
        .start = y,
        .clamp = true,
        .low = -1,
        .high = 2,
        .rows = rows,
        .blocks = blocks,
        .runs = 1,
        .run = K,
        .x_row = 1,
        .x_step = rows + GAP,
        .w_step = blocks * block + GAP,
        .y_row = blocks * block,
        .y_block = block,
        .block = block,
    };

    for (size_t i = 0; i < sizeof(x) / sizeof(*x); i++)
        x[i] = random_value();
    for (size_t i = 0; i < sizeof(w) / sizeof(*w); i++)
        w[i] = random_value();
    for (size_t i = 0; i < sizeof(y) / sizeof(*y); i++)
        before[i] = y[i] = random_value();
    pare_packed_gemm_run(&p);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < p.y_row; c++) {
            double sum = (double)before[r * p.y_row + c];

            for (int64_t k = 0; k < K; k++)
                sum += (double)x[k * p.x_step + r] * (double)w[k * p.w_step + c];
            sum = fmin(2, fmax(-1, sum));
            assert_true(fabs(sum - (double)y[r * p.y_row + c]) < 1e-5);
        }
}

/* Runs of two lengths at arbitrary offsets, like the taps of a filter, with post-ops. */
static void check_taps(int block)
{
    enum { RUNS = 6, LONG = 8 };
    static float x[ROWS + 1000], w[RUNS * LONG * COLUMNS], packed[RUNS * LONG * COLUMNS];
    static float y[ROWS * COLUMNS], sum[ROWS * COLUMNS];
    const struct pare_post_op post[] = { { PARE_POST_RELU, 0, 0 }, { PARE_POST_SUM, 0, 0 } };
    int64_t offset[2 * RUNS], blocks = random_size(COLUMNS / block), rows = random_size(ROWS);
    int64_t K, columns = blocks * block;
    struct pare_packed_gemm p = {
        .x = x,
        .w = packed,
        .y = y,
        .sum = sum,
        .post = post,
        .n_post = 2,
        .rows = rows,
        .blocks = blocks,
        .runs = random_size(3),
        .run = random_size(LONG),
        .last = random_size(LONG),
        .tails = random_size(3),
        .offset = offset,
        .x_row = random_size(2),
        .y_row = block,
        .y_block = rows * block,
        .block = block,
    };

    K = pare_packed_gemm_depth(&p);
    for (int i = 0; i < 2 * RUNS; i++)
        offset[i] = random_size(900);
    for (size_t i = 0; i < sizeof(x) / sizeof(*x); i++)
        x[i] = random_value();
    for (int64_t i = 0; i < rows * columns; i++)
        sum[i] = random_value();
    for (int64_t k = 0; k < K; k++)
        for (int64_t c = 0; c < columns; c++) {
            w[k * columns + c] = random_value();
            packed[pare_packed_gemm_at(K, blocks, block, k, c)] = w[k * columns + c];
        }
    pare_packed_gemm_run(&p);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++) {
            int64_t at = c / block * p.y_block + r * block + c % block, k = 0;
            double want = 0;

            for (int64_t i = 0; i < p.runs + p.tails; i++)
                for (int64_t e = 0; e < (i < p.runs ? p.run : p.last); e++, k++)
                    want += (double)x[r * p.x_row + offset[i] + e] * (double)w[k * columns + c];
            want = fmax(want, 0) + (double)sum[at];
            assert_true(fabs(want - (double)y[at]) < 1e-5);
        }
}

static void test_runs_at_offsets(void **state)
{
    (void)state;
    pare_rng_init(&rng, 7);
    for (int i = 0; i < 300; i++)
        check_taps(i % 2 ? 8 : 16);
}

static void test_outer_products(void **state)
{
    (void)state;
    pare_rng_init(&rng, 6);
    for (int i = 0; i < 300; i++)
        check_outer(i % 2 ? 8 : 16);
}

static void test_products_with_gaps(void **state)
{
    (void)state;
    pare_rng_init(&rng, 5);
    for (int i = 0; i < 300; i++)
        check_product(i % 2 ? 8 : 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products_with_gaps),
        cmocka_unit_test(test_outer_products),
        cmocka_unit_test(test_runs_at_offsets),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

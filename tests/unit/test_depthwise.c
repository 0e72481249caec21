/* test_depthwise.c - depthwise convolution loops of every instruction set against plain sums. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

/* Include the file itself, since each machine chooses only one of its variants. */
#define pare_depthwise_rows run_included
#include "backend/conv/depthwise.c"
#undef pare_depthwise_rows

#include "base/rng.h"

enum { SIDE = 40, BLOCK = 16, TAPS = 9 };

static struct pare_rng rng;
static float x[SIDE * SIDE * BLOCK], y[SIDE * SIDE * BLOCK], sum[SIDE * SIDE * BLOCK];
static float w[TAPS * TAPS * BLOCK], bias[BLOCK];

static int64_t random_between(int64_t low, int64_t high)
{
    return low + (int64_t)pare_rng_below(&rng, (uint64_t)(high - low + 1));
}

static void fill(float *to, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = (float)pare_rng_uniform(&rng) * 2 - 1;
}

static double reference_output(const struct pare_depthwise *d, int64_t r, int64_t q, int c)
{
    double s = (double)bias[c];

    for (int64_t i = 0; i < d->kernel[0]; i++)
        for (int64_t k = 0; k < d->kernel[1]; k++) {
            int64_t h = r * d->stride[0] - d->pad[0] + i * d->dilation[0];
            int64_t v = q * d->stride[1] - d->pad[1] + k * d->dilation[1];

            if (h >= 0 && h < d->in[0] && v >= 0 && v < d->in[1])
                s += (double)x[(h * d->in[1] + v) * d->block + c] *
                     (double)w[(i * d->kernel[1] + k) * d->block + c];
        }
    return d->clamp ? fmin((double)d->high, fmax((double)d->low, s)) : s;
}

/* Random geometry, often one with a fast loop; pads may be negative or exceed the filter. */
static bool random_geometry(struct pare_depthwise *d, int block)
{
    static const int64_t common[] = { 3, 5, 7 };
    bool fast = random_between(0, 3) > 0;
    int64_t same = common[random_between(0, 2)], step = random_between(1, 2);

    *d = (struct pare_depthwise){ .block = block,
                                  .width = 1,
                                  .clamp = random_between(0, 1),
                                  .low = -0.5f,
                                  .high = 1 };
    for (int i = 0; i < 2; i++) {
        int64_t reach;

        d->kernel[i] = fast ? same : random_between(1, TAPS);
        d->stride[i] = fast ? step : random_between(1, 3);
        d->dilation[i] = fast ? 1 : random_between(1, 3);
        d->pad[i] = fast ? same / 2 : random_between(-1, 4);
        d->in[i] = random_between(1, SIDE);
        reach = (d->kernel[i] - 1) * d->dilation[i] + 1;
        d->out[i] = (d->in[i] + d->pad[i] + random_between(0, 3) - reach) / d->stride[i] + 1;
        if (d->in[i] + d->pad[i] < reach || d->out[i] < 1 || d->out[i] > SIDE)
            return false;
    }
    return true;
}

static void check_random_convolution(int block)
{
    const struct pare_post_op post = { PARE_POST_SUM, 0, 0 };
    struct pare_depthwise_plane p = { .x = x,
                                      .w = w,
                                      .bias = bias,
                                      .sum = sum,
                                      .y = y,
                                      .depth = 1 };
    struct pare_depthwise d;
    int64_t from, to;

    if (!random_geometry(&d, block))
        return;
    d.post = &post;
    d.n_post = block < 8 ? 0 : (int)random_between(0, 1); /* post-ops need whole vectors */
    fill(x, SIDE * SIDE * BLOCK);
    fill(sum, SIDE * SIDE * BLOCK);
    fill(w, TAPS * TAPS * BLOCK);
    fill(bias, BLOCK);
    for (int64_t i = 0; i < SIDE * SIDE * BLOCK; i++)
        y[i] = 77;
    from = random_between(0, d.out[0] - 1);
    to = random_between(from, d.out[0]);
    run_included(&d, &p, from, to);
    for (int64_t i = 0; i < SIDE * SIDE * BLOCK; i++) {
        int64_t c = i % block, q = i / block % d.out[1], r = i / block / d.out[1];
        double want = 77;

        if (r >= from && r < to)
            want = reference_output(&d, r, q, (int)c) + (d.n_post ? (double)sum[i] : 0);
        if (fabs(want - (double)y[i]) > 2e-5)
            fail_msg("filter %dx%d, stride %d, row %d column %d: %g, expected %g", (int)d.kernel[0],
                     (int)d.kernel[1], (int)d.stride[1], (int)r, (int)q, (double)y[i], want);
    }
}

static void check_block_size(int block)
{
    pare_rng_init(&rng, 8);
    for (int i = 0; i < 400; i++)
        check_random_convolution(block);
}

/* Blocks of 16 and 8 use AVX-512 and AVX2 if the machine has them, blocks of 4 plain C. */
static void test_blocks_of_16(void **state)
{
    (void)state;
    check_block_size(16);
}

static void test_blocks_of_8(void **state)
{
    (void)state;
    check_block_size(8);
}

static void test_blocks_of_4(void **state)
{
    (void)state;
    check_block_size(4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_of_16),
        cmocka_unit_test(test_blocks_of_8),
        cmocka_unit_test(test_blocks_of_4),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_units.c - units of weights: granularity names, sums per unit, masks. */
#include "arena_rig.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "prune/units.h"

static struct pare_tensor make_weight(int rank, const int64_t *dim)
{
    struct pare_tensor t;

    assert_int_equal(pare_tensor_new(arena, &t, PARE_F32, rank, dim, &err), 0);
    return t;
}

#define DIMS(...)                                                            \
    (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), (int64_t[]) \
    {                                                                        \
        __VA_ARGS__                                                          \
    }
#define INTS(...)                                                                               \
    (struct pare_ints)                                                                          \
    {                                                                                           \
        (int64_t[]){ __VA_ARGS__ }, (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)) \
    }

static struct pare_units make_units(const struct pare_tensor *w, const struct pare_grain *g)
{
    struct pare_units u;

    if (pare_units_make(w, g, &u, &err))
        fail_msg("%s", err.msg);
    return u;
}

static void expect_dims(const int64_t *got, int rank, const int64_t *want)
{
    for (int i = 0; i < rank; i++)
        assert_int_equal(got[i], want[i]);
}

/* ---- names --------------------------------------------------------------------------------- */

static void test_granularity_names(void **state)
{
    static const struct {
        struct pare_grain g;
        int64_t block[4], grid[4], n, size;
    } c[] = {
        { { .name = "element" }, { 1, 1, 1, 1 }, { 6, 4, 3, 3 }, 216, 1 },
        { { .name = "out_channel", .in_axis = 1 }, { 1, 4, 3, 3 }, { 6, 1, 1, 1 }, 6, 36 },
        { { .name = "in_channel", .in_axis = 1 }, { 6, 1, 3, 3 }, { 1, 4, 1, 1 }, 4, 54 },
        { { .name = "block_4x1", .out_axis = 1 }, { 1, 4, 1, 1 }, { 6, 1, 3, 3 }, 54, 4 },
        { { .name = "out_channel", .out_axis = 1 }, { 6, 1, 3, 3 }, { 1, 4, 1, 1 }, 4, 54 },
        { { .name = "head", .heads = 2 }, { 3, 4, 3, 3 }, { 2, 1, 1, 1 }, 2, 108 },
        { { .name = "head", .heads = 2, .out_axis = 1 }, { 6, 2, 3, 3 }, { 1, 2, 1, 1 }, 2, 108 },
    };
    struct pare_tensor w = make_weight(DIMS(6, 4, 3, 3));

    (void)state;
    for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
        struct pare_units u = make_units(&w, &c[i].g);

        expect_dims(u.block, 4, c[i].block);
        expect_dims(u.grid, 4, c[i].grid);
        assert_int_equal(u.n, c[i].n);
        assert_int_equal(pare_units_size(&u), c[i].size);
        assert_int_equal(pare_units_single(&u), c[i].size == 1);
    }
}

/* Fused queries, keys and values: a head has channels of all three. */
static void test_fused_heads(void **state)
{
    for (int axis = 0; axis < 2; axis++) {
        struct pare_tensor w = axis ? make_weight(DIMS(5, 12)) : make_weight(DIMS(12, 5));
        struct pare_grain g = { .name = "head", .heads = 2, .parts = 3, .out_axis = axis };
        struct pare_units u = make_units(&w, &g);
        uint8_t mask[60], keep[2] = { 1, 0 };

        assert_int_equal(u.n, 2);
        assert_int_equal(pare_units_size(&u), 30);
        pare_units_expand(&u, keep, mask);
        for (int i = 0; i < 60; i++)
            assert_int_equal(mask[i], (axis ? i % 12 : i / 5) % 4 < 2);
        mask[axis ? 11 : 59] = 1;
        pare_units_shrink(&u, mask, keep);
        assert_int_equal(keep[1], 1);
    }
    (void)state;
}

static void test_blocks(void **state)
{
    struct pare_tensor w = make_weight(DIMS(6, 4, 3, 3));
    struct pare_grain g = { .name = "block" };
    struct pare_units u;

    (void)state;
    g.block = INTS(3);
    u = make_units(&w, &g);
    expect_dims(u.grid, 4, (int64_t[]){ 6, 4, 3, 1 });
    g.block = INTS(2, -1, 0);
    u = make_units(&w, &g);
    expect_dims(u.grid, 4, (int64_t[]){ 6, 2, 1, 1 });
    expect_dims(u.block, 4, (int64_t[]){ 1, 2, 3, 3 });
    g.block = INTS(2, 1, 3, 1);
    u = make_units(&w, &g);
    expect_dims(u.grid, 4, (int64_t[]){ 3, 4, 1, 3 });
    assert_int_equal(u.n, 36);
}

static void test_wrong_granularities_are_errors(void **state)
{
    static const int64_t five[] = { 5 }, minus[] = { -2 }, many[] = { 1, 1, 1 };
    static const struct {
        struct pare_grain g;
        const char *msg;
    } c[] = {
        { { .name = "out_channel", .out_axis = -1 },
          "granularity 'out_channel' needs a weight with output channels" },
        { { .name = "in_channel", .in_axis = -1 },
          "granularity 'in_channel' needs a weight with input channels" },
        { { .name = "head", .out_axis = -1, .heads = 2 },
          "granularity 'head' needs a weight with output channels" },
        { { .name = "in_channel", .in_axis = 2 },
          "granularity 'in_channel' needs a weight with input channels" },
        { { .name = "head", .heads = 0 }, "granularity 'head' needs the number of heads" },
        { { .name = "head", .heads = 4 }, "4 heads do not divide 6 output channels" },
        { { .name = "block" }, "granularity 'block' needs the sizes of a block" },
        { { .name = "block", .block = { five, 1 } },
          "a block of 5 does not divide axis 1 of size 4" },
        { { .name = "block", .block = { many, 3 } },
          "block has 3 sizes, but the weight has rank 2" },
        { { .name = "block", .block = { minus, 1 } },
          "block size -2; expected a positive number, or -1 for a whole axis" },
        { { .name = "chanel" },
          "granularity 'chanel' is unknown; expected element, block, block_4x1, block_8x1, "
          "out_channel, in_channel or head" },
        { { .name = "block_4x1", .out_axis = 0 },
          "granularity 'block_4x1' needs a multiple of 4 output channels, but the layer has 6; "
          "exclude the layer, or choose another granularity" },
        { { .name = "block_8x1", .out_axis = -1 },
          "granularity 'block_8x1' needs a weight with output channels" },
        { { .name = "block_2x1" },
          "granularity 'block_2x1' is unknown (did you mean 'block_4x1'?); expected element, "
          "block, block_4x1, block_8x1, out_channel, in_channel or head" },
        { { .name = "elment" },
          "granularity 'elment' is unknown (did you mean 'element'?); expected element, block, "
          "block_4x1, block_8x1, out_channel, in_channel or head" },
        { { .name = NULL },
          "granularity '' is unknown; expected element, block, block_4x1, block_8x1, out_channel, "
          "in_channel or head" },
    };
    struct pare_tensor w = make_weight(DIMS(6, 4));
    struct pare_units u;

    (void)state;
    for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
        int code = strstr(c[i].msg, "needs a weight") ? PARE_EUNSUPPORTED : PARE_ECONFIG;

        assert_int_equal(pare_units_make(&w, &c[i].g, &u, &err), code);
        assert_string_equal(err.msg, c[i].msg);
    }
}

/* ---- random units, against single elements ------------------------------------------------- */

static int64_t unit_of(const struct pare_units *u, const struct pare_tensor *w, int64_t i)
{
    int64_t at[PARE_MAX_RANK], n = 0;

    for (int k = w->rank - 1; k >= 0; k--) {
        at[k] = i % w->dim[k];
        i /= w->dim[k];
    }
    for (int k = 0; k < w->rank; k++)
        n = n * u->grid[k] + at[k] / u->block[k];
    return n;
}

static void check_sum(const struct pare_units *u, const struct pare_tensor *w, int power)
{
    double *want = pare_alloc(arena, (size_t)u->n + 1, sizeof(*want));
    float *got = pare_alloc(arena, (size_t)u->n + 1, sizeof(*got));

    got[u->n] = 7;
    pare_units_sum(u, w, power, got);
    for (int64_t i = 0; i < pare_numel(w); i++)
        want[unit_of(u, w, i)] += pow(fabs((double)pare_f32(w)[i]), power);
    for (int64_t i = 0; i < u->n; i++)
        if (!(fabs((double)got[i] - want[i]) <= 1e-7 * want[i]))
            fail_msg("unit %lld is %.9g, expected %.9g", (long long)i, (double)got[i], want[i]);
    assert_true(got[u->n] == 7);
}

static void check_masks(const struct pare_units *u, const struct pare_tensor *w,
                        struct pare_rng *rng)
{
    size_t n = (size_t)pare_numel(w);
    uint8_t *keep = pare_alloc(arena, (size_t)u->n + 1, 1), *back, *want, *mask;

    back = pare_alloc(arena, (size_t)u->n + 1, 1);
    want = pare_alloc(arena, (size_t)u->n + 1, 1);
    mask = pare_alloc(arena, n + 1, 1);
    for (int64_t i = 0; i < u->n; i++)
        keep[i] = pare_rng_below(rng, 2) != 0;
    mask[n] = back[u->n] = 7;
    pare_units_expand(u, keep, mask);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(mask[i], keep[unit_of(u, w, (int64_t)i)]);
    pare_units_shrink(u, mask, back);
    assert_memory_equal(keep, back, (size_t)u->n);
    assert_int_equal(mask[n], 7);
    assert_int_equal(back[u->n], 7);
    for (size_t i = 0; i < n; i++) {
        mask[i] = pare_rng_below(rng, 8) == 0;
        want[unit_of(u, w, (int64_t)i)] |= mask[i];
    }
    pare_units_shrink(u, mask, back);
    assert_memory_equal(want, back, (size_t)u->n);
}

static void check_units(const struct pare_tensor *w, const struct pare_units *u,
                        struct pare_rng *rng)
{
    for (int64_t i = 0; i < pare_numel(w); i++)
        pare_f32_mut(w)[i] = (float)pare_rng_normal(rng);
    check_sum(u, w, 1);
    check_sum(u, w, 2);
    check_masks(u, w, rng);
}

/* Ranks 0 to 8, blocks of any size that divides. */
static void test_random_blocks(void **state)
{
    struct pare_mark m;
    struct pare_rng rng;

    (void)state;
    pare_rng_init(&rng, 1);
    m = pare_mark(arena);
    for (int c = 0; c < 400; c++) {
        int rank = (int)pare_rng_below(&rng, PARE_MAX_RANK + 1);
        int64_t dim[PARE_MAX_RANK], numel = 1;
        struct pare_units u = { .rank = rank, .n = 1 };
        struct pare_tensor w;

        for (int i = 0; i < rank; i++) {
            int64_t most = numel > 2000 ? 2 : rank < 3 ? 40 : 5;

            u.grid[i] = 1 + (int64_t)pare_rng_below(&rng, (uint64_t)most);
            u.block[i] = 1 + (int64_t)pare_rng_below(&rng, (uint64_t)most);
            u.n *= u.grid[i];
            dim[i] = u.grid[i] * u.block[i];
            numel *= dim[i];
        }
        w = make_weight(rank, dim);
        check_units(&w, &u, &rng);
        pare_reset(arena, m);
    }
}

/* Many units, long rows, and shapes of convolutions. */
static void test_typical_shapes(void **state)
{
    static const struct {
        int rank;
        int64_t dim[4];
        struct pare_grain g;
    } c[] = {
        { 2, { 30, 9000 }, { .name = "in_channel", .in_axis = 1 } },
        { 2, { 5000, 30 }, { .name = "out_channel", .in_axis = 1 } },
        { 2, { 3, 70000 }, { .name = "out_channel", .in_axis = 1 } },
        { 4, { 6, 1500, 3, 3 }, { .name = "in_channel", .in_axis = 1 } },
        { 4, { 64, 32, 3, 3 }, { .name = "out_channel", .in_axis = 1 } },
        { 4, { 64, 1, 3, 3 }, { .name = "in_channel", .in_axis = 1 } },
        { 1, { 3000 }, { .name = "out_channel" } },
        { 2, { 300, 40 }, { .name = "element" } },
    };
    struct pare_rng rng;

    (void)state;
    pare_rng_init(&rng, 2);
    for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
        struct pare_tensor w = make_weight(c[i].rank, c[i].dim);
        struct pare_units u = make_units(&w, &c[i].g);

        check_units(&w, &u, &rng);
    }
}

static void test_empty_weights(void **state)
{
    struct pare_tensor w = make_weight(DIMS(3, 0, 2));
    struct pare_units u = make_units(&w, &(struct pare_grain){ .name = "element" });
    uint8_t keep[3] = { 5, 5, 5 };
    float s[3] = { 5, 5, 5 };

    (void)state;
    assert_int_equal(u.n, 0);
    pare_units_sum(&u, &w, 1, s);
    pare_units_shrink(&u, keep, keep);
    pare_units_expand(&u, keep, keep);
    assert_true(s[0] == 5 && keep[0] == 5);
    u = make_units(&w, &(struct pare_grain){ .name = "out_channel" });
    assert_int_equal(u.n, 3);
    pare_units_sum(&u, &w, 2, s);
    assert_true(s[0] == 0 && s[1] == 0 && s[2] == 0);
    pare_units_shrink(&u, NULL, keep);
    assert_int_equal(keep[2], 0);
    u = make_units(&w, &(struct pare_grain){ .name = "in_channel", .in_axis = 1 });
    assert_int_equal(u.n, 0);
}

static void test_nan_and_infinity(void **state)
{
    struct pare_tensor w = make_weight(DIMS(3, 40));
    struct pare_units u = make_units(&w, &(struct pare_grain){ .name = "out_channel" });
    float s[3];

    (void)state;
    pare_f32_mut(&w)[7] = NAN;
    pare_f32_mut(&w)[47] = -INFINITY;
    pare_f32_mut(&w)[87] = -3e38f;
    pare_units_sum(&u, &w, 1, s);
    assert_true(isnan(s[0]) && isinf(s[1]) && s[1] > 0 && s[2] == 3e38f);
}

/* ---- published cases ----------------------------------------------------------------------- */

/* Case N17: the 2-norm by rows of ones(3, 3, 3) is 3, of 2 * ones(4, 4) is 4; case N19's 1-norm of
 * the latter is 8. */
static void test_n17_n19_norms(void **state)
{
    struct pare_tensor a = make_weight(DIMS(3, 3, 3)), b = make_weight(DIMS(4, 4));
    struct pare_grain g = { .name = "out_channel" };
    struct pare_units u = make_units(&a, &g);
    float s[4];

    (void)state;
    for (int i = 0; i < 27; i++)
        pare_f32_mut(&a)[i] = 1;
    for (int i = 0; i < 16; i++)
        pare_f32_mut(&b)[i] = 2;
    pare_units_sum(&u, &a, 2, s);
    for (int i = 0; i < 3; i++)
        assert_true(sqrtf(s[i]) == 3);
    u = make_units(&b, &g);
    pare_units_sum(&u, &b, 2, s);
    for (int i = 0; i < 4; i++)
        assert_true(sqrtf(s[i]) == 4);
    pare_units_sum(&u, &b, 1, s);
    for (int i = 0; i < 4; i++)
        assert_true(s[i] == 8);
}

/* Case N25.  A kernel aligned to the first axes is our block, one aligned to the last axes is a
 * block whose last sizes are 1, or whole.  keepdim has no counterpart (a grid always has the
 * weight's rank). */
static void test_n25_blocks(void **state)
{
    struct pare_tensor w = make_weight(DIMS(10, 10)), wide = make_weight(DIMS(10, 50));
    struct pare_tensor cube = make_weight(DIMS(50, 50, 10)), v = make_weight(DIMS(2, 3, 4));
    struct pare_grain g = { .name = "block", .in_axis = 1 };
    struct pare_units u;
    float s[24];

    (void)state;
    g.block = INTS(5);
    u = make_units(&w, &g);
    expect_dims(u.grid, 2, (int64_t[]){ 10, 2 });
    u = make_units(&wide, &g);
    expect_dims(u.grid, 2, (int64_t[]){ 10, 10 });
    g.block = INTS(5, 5);
    u = make_units(&w, &g);
    expect_dims(u.grid, 2, (int64_t[]){ 2, 2 });
    g.block = INTS(5, 5, -1);
    u = make_units(&cube, &g);
    expect_dims(u.grid, 3, (int64_t[]){ 10, 10, 1 });

    for (int i = 0; i < 24; i++)
        pare_f32_mut(&v)[i] = (float)i;
    g.block = INTS(1, -1, -1);
    u = make_units(&v, &g);
    pare_units_sum(&u, &v, 1, s);
    assert_true(u.n == 2 && s[0] / 12 == 5.5f && s[1] / 12 == 17.5f);
    g.block = INTS(-1, -1, 1);
    u = make_units(&v, &g);
    pare_units_sum(&u, &v, 1, s);
    assert_int_equal(u.n, 4);
    for (int i = 0; i < 4; i++)
        assert_true(s[i] / 6 == (float)(10 + i));
    g.block = INTS(1);
    u = make_units(&v, &g);
    pare_units_sum(&u, &v, 1, s);
    assert_memory_equal(s, v.data, sizeof(s));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_granularity_names),
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_fused_heads),
        cmocka_unit_test(test_wrong_granularities_are_errors),
        cmocka_unit_test(test_random_blocks),
        cmocka_unit_test(test_typical_shapes),
        cmocka_unit_test(test_empty_weights),
        cmocka_unit_test(test_nan_and_infinity),
        cmocka_unit_test(test_n17_n19_norms),
        cmocka_unit_test(test_n25_blocks),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}

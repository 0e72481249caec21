/* test_kth_smallest.c - masks of the k smallest values against sorting. */
#include "arena_rig.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "prune/kth_smallest.h"

/* ---- sorting ------------------------------------------------------------------------------- */

struct item {
    int removed, nan;
    float v;
    int64_t i;
};

static int compare_items(const void *a, const void *b)
{
    const struct item *x = a, *y = b;

    if (x->removed != y->removed)
        return y->removed - x->removed;
    if (x->removed)
        return x->i < y->i ? -1 : 1;
    if (x->nan != y->nan)
        return x->nan - y->nan;
    if (!x->nan && x->v != y->v)
        return x->v < y->v ? -1 : 1;
    return x->i < y->i ? -1 : 1;
}

/* The expected mask over all arrays concatenated. */
static uint8_t *expected_mask(const struct pare_kth_smallest *s, int n_arrays, int64_t k)
{
    int64_t n = 0, m = 0;
    struct item *it;
    uint8_t *keep;

    for (int p = 0; p < n_arrays; p++)
        n += s[p].n;
    it = pare_alloc(arena, (size_t)n + 1, sizeof(*it));
    keep = pare_alloc(arena, (size_t)n + 1, 1);
    for (int p = 0; p < n_arrays; p++)
        for (int64_t i = 0; i < s[p].n; i++, m++) {
            float v = s[p].magnitude ? fabsf(s[p].x[i]) : s[p].x[i];

            it[m] = (struct item){ s[p].old && !s[p].old[i], isnan(v), v, m };
        }
    qsort(it, (size_t)n, sizeof(*it), compare_items);
    memset(keep, 1, (size_t)n);
    for (int64_t i = 0; i < k; i++)
        keep[it[i].i] = 0;
    return keep;
}

static void expect_mask(const uint8_t *got, const uint8_t *want, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (got[i] != want[i])
            fail_msg("mask %lld of %lld is %d, expected %d", (long long)i, (long long)n, got[i],
                     want[i]);
}

/* Checks the mask with 1 to 3 threads, and in place of the old mask. */
static void check_mask(const struct pare_kth_smallest *s, int64_t k)
{
    struct pare_mark m = pare_mark(arena);
    struct pare_kth_smallest t = *s;
    uint8_t *want = expected_mask(s, 1, k), *got = pare_alloc(arena, (size_t)s->n + 1, 1);
    struct pare_arena *scratch = pare_arena_new(1 << 12);

    got[s->n] = 7;
    for (t.threads = 1; t.threads < 4; t.threads++) {
        if (pare_kth_smallest_mask(&t, k, got, scratch, &err))
            fail_msg("%s", err.msg);
        expect_mask(got, want, s->n);
    }
    if (s->old) {
        memcpy(got, s->old, (size_t)s->n);
        t.old = got;
        assert_int_equal(pare_kth_smallest_mask(&t, k, got, scratch, &err), 0);
        expect_mask(got, want, s->n);
    }
    assert_int_equal(got[s->n], 7);
    pare_arena_free(scratch);
    pare_reset(arena, m);
}

/* ---- values ---------------------------------------------------------------------------------- */

enum { NORMAL, FEW, EQUAL, SPECIAL, TINY, ZEROS, CLUSTERS, STEPS, KINDS };

static float special_float(struct pare_rng *r)
{
    static const uint32_t bits[] = {
        0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007fffff, 0x7f800000, 0xff800000,
        0x7fc00000, 0xffc00000, 0x7f800001, 0xffffffff, 0x7f7fffff, 0xff7fffff, 0x3f800000,
    };
    float x;

    memcpy(&x, &bits[pare_rng_below(r, sizeof(bits) / sizeof(*bits))], sizeof(x));
    return x;
}

static float random_number(struct pare_rng *r, int kind, int64_t i)
{
    float x = (float)pare_rng_normal(r);

    switch (kind) {
    case FEW: return rintf(x * 2);
    case EQUAL: return -0.25f;
    case SPECIAL: return special_float(r);
    case TINY: return x * 1e-40f;
    case ZEROS: return pare_rng_below(r, 10) < 8 ? 0 : x;
    case CLUSTERS: return 1 + x * 1e-6f;
    case STEPS: return (float)i * (i % 2 ? 1 : -1); /* sorted, with both signs */
    default: return x;
    }
}

static struct pare_kth_smallest random_array(struct pare_rng *r, int kind, int64_t n)
{
    float *x = pare_alloc(arena, (size_t)n + 1, sizeof(*x));
    uint8_t *old = pare_alloc(arena, (size_t)n + 1, 1);
    uint64_t tenths = pare_rng_below(r, 11);

    for (int64_t i = 0; i < n; i++) {
        x[i] = random_number(r, kind, i);
        old[i] = pare_rng_below(r, 10) >= tenths;
    }
    return (struct pare_kth_smallest){ x, n, pare_rng_below(r, 2) != 0,
                                       pare_rng_below(r, 2) ? old : NULL, 1 };
}

static void test_small_arrays(void **state)
{
    struct pare_mark m = pare_mark(arena);
    struct pare_rng r;

    (void)state;
    pare_rng_init(&r, 1);
    for (int c = 0; c < 3000; c++) {
        int64_t n = (int64_t)pare_rng_below(&r, c % 10 ? 40 : 3000);
        struct pare_kth_smallest s = random_array(&r, c % KINDS, n);

        check_mask(&s, (int64_t)pare_rng_below(&r, (uint64_t)n + 1));
        pare_reset(arena, m);
    }
}

/* Large enough for sampling, with thresholds at the ends, in the middle and at old masks. */
static void test_large_arrays(void **state)
{
    struct pare_mark m = pare_mark(arena);
    struct pare_rng r;

    (void)state;
    pare_rng_init(&r, 2);
    for (int kind = 0; kind < KINDS; kind++) {
        int64_t n = 140000 + (int64_t)pare_rng_below(&r, 60000), old = 0;
        struct pare_kth_smallest s = random_array(&r, kind, n);

        for (int64_t i = 0; s.old && i < n; i++)
            old += !s.old[i];
        check_mask(&s, 0);
        check_mask(&s, 1);
        check_mask(&s, n / 2);
        check_mask(&s, (int64_t)((double)n * 0.8));
        check_mask(&s, n - 1);
        check_mask(&s, n);
        check_mask(&s, old);
        check_mask(&s, old < n ? old + 1 : n);
        check_mask(&s, old / 2);
        pare_reset(arena, m);
    }
}

/* Many equal values at, next to and inside the sampled bracket. */
static void test_many_equal_values(void **state)
{
    int64_t n = 1 << 17;
    float *x = pare_alloc(arena, (size_t)n, sizeof(*x));
    struct pare_kth_smallest s = { .x = x, .n = n, .magnitude = true, .threads = 1 };
    struct pare_rng r;

    (void)state;
    pare_rng_init(&r, 3);
    for (int64_t i = 0; i < n; i++)
        x[i] = i % 3 == 0 ? 1 : i % 3 == 1 ? 2 : 3;
    check_mask(&s, n / 3);
    check_mask(&s, n / 3 + 1);
    check_mask(&s, n / 2);
    for (int64_t i = 0; i < n; i++)
        x[i] = pare_rng_below(&r, 8) ? (float)pare_rng_uniform(&r) : 0.5f;
    check_mask(&s, n / 2);
    for (int64_t i = 0; i < n; i++)
        x[i] = i < 5 ? 100 - (float)i : 1;
    check_mask(&s, n - 3);
    check_mask(&s, n - 5);
    check_mask(&s, n - 6);
}

/* Equal neighbors make the sample less representative than its size, so that in some of these cases
 * the threshold is outside of the bracket, and histograms must find it. */
static void test_unrepresentative_samples(void **state)
{
    int64_t n = 40000;
    float *x = pare_alloc(arena, (size_t)n, sizeof(*x));
    uint8_t *old = pare_alloc(arena, (size_t)n, 1);
    struct pare_rng r;

    (void)state;
    pare_rng_init(&r, 6);
    for (int c = 0; c < 60; c++) {
        struct pare_kth_smallest s = { x, n, c % 2, c % 4 > 1 ? old : NULL, 1 };

        for (int64_t i = 0; i < n; i++) {
            x[i] = i % 8 ? x[i - 1] : (float)pare_rng_normal(&r);
            old[i] = pare_rng_below(&r, 6) != 0;
        }
        check_mask(&s, n / 2 + c);
    }
}

static void test_several_arrays(void **state)
{
    struct pare_mark m = pare_mark(arena);
    struct pare_rng r;

    (void)state;
    pare_rng_init(&r, 4);
    for (int c = 0; c < 60; c++) {
        int n_arrays = (int)pare_rng_below(&r, 6);
        struct pare_kth_smallest s[6];
        uint8_t *keep[6] = { NULL }, *want, *all;
        int64_t n = 0, at = 0, k;

        for (int p = 0; p < n_arrays; p++) {
            s[p] = random_array(&r, c % KINDS, (int64_t)pare_rng_below(&r, c % 6 ? 50 : 60000));
            s[p].n = pare_rng_below(&r, 4) ? s[p].n : 0;
            s[p].threads = 1 + (c & 1);
            keep[p] = s[p].old && (c & 2) ? (uint8_t *)s[p].old : pare_alloc(arena, 60000, 1);
            n += s[p].n;
        }
        k = (int64_t)pare_rng_below(&r, (uint64_t)n + 1);
        want = expected_mask(s, n_arrays, k);
        all = pare_alloc(arena, (size_t)n + 1, 1);
        if (pare_kth_smallest_masks(s, n_arrays, k, keep, arena, &err))
            fail_msg("%s", err.msg);
        for (int p = 0; p < n_arrays; at += s[p++].n)
            memcpy(all + at, keep[p], (size_t)s[p].n);
        expect_mask(all, want, n);
        pare_reset(arena, m);
    }
}

static void test_wrong_counts_are_errors(void **state)
{
    float x[3] = { 1, 2, 3 };
    struct pare_kth_smallest s = { .x = x, .n = 3, .threads = 1 };
    uint8_t keep[3];

    (void)state;
    assert_int_equal(pare_kth_smallest_mask(&s, 4, keep, arena, &err), PARE_ELIMIT);
    assert_string_equal(err.msg, "cannot remove 4 of 3 values");
    assert_int_equal(pare_kth_smallest_mask(&s, -1, keep, arena, &err), PARE_ELIMIT);
}

static void test_out_of_memory(void **state)
{
    int64_t n = 140000;
    struct pare_rng r;
    struct pare_kth_smallest s;
    uint8_t *keep;
    int rc = PARE_ENOMEM;

    (void)state;
    pare_rng_init(&r, 5);
    s = random_array(&r, NORMAL, n);
    keep = pare_alloc(arena, (size_t)n, 1);
    for (int i = 1; rc && i < 20; i++) {
        pare_oom_countdown = -i;
        rc = pare_kth_smallest_mask(&s, n / 2, keep, arena, &err);
        if (rc)
            assert_string_equal(err.msg, "no memory to rank weights");
    }
    pare_oom_countdown = 0;
    assert_int_equal(rc, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_arrays),      cmocka_unit_test(test_large_arrays),
        cmocka_unit_test(test_many_equal_values), cmocka_unit_test(test_unrepresentative_samples),
        cmocka_unit_test(test_several_arrays),    cmocka_unit_test(test_wrong_counts_are_errors),
        cmocka_unit_test(test_out_of_memory),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}

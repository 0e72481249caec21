/* test_compare.c - tensor comparison, tolerances and messages; the random number generator. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "tensor/compare.h"
#include "tensor/tensor.h"

static struct pare_tensor float_vector(float *v, int64_t n)
{
    return (struct pare_tensor){ .dtype = PARE_F32, .rank = 1, .dim = { n }, .data = v };
}

static int floats_agree(float a, float b, double rtol, double atol)
{
    struct pare_tensor x = float_vector(&a, 1), y = float_vector(&b, 1);
    struct pare_err err;

    return !pare_tensor_compare(&x, &y, (struct pare_tolerance){ rtol, atol }, &err);
}

static void test_floats_agree_within_tolerance(void **state)
{
    (void)state;
    assert_true(floats_agree(1.0f, 1.0f, 0, 0));
    assert_true(floats_agree(1.0009f, 1.0f, 1e-3, 0));
    assert_false(floats_agree(1.002f, 1.0f, 1e-3, 0));
    assert_true(floats_agree(0.0f, 1e-6f, 0, 1e-5));
    assert_true(floats_agree(NAN, NAN, 0, 0));
    assert_false(floats_agree(NAN, 1.0f, 1, 1));
    assert_false(floats_agree(1.0f, NAN, 1, 1));
    assert_true(floats_agree(INFINITY, INFINITY, 0, 0));
    assert_false(floats_agree(INFINITY, -INFINITY, 1, 1));
    assert_false(floats_agree(1.0f, INFINITY, 1, 1));
    assert_false(floats_agree(INFINITY, 1.0f, 1, 1));
}

static void test_difference_messages(void **state)
{
    float a[6] = { 0, 1, 2, 3, 4, 5 }, b[6] = { 0, 1, 2, 3, 4.5f, 6 };
    int64_t i = INT64_MAX, j = INT64_MAX - 1;
    struct pare_tensor x = { PARE_F32, 2, { 2, 3 }, a }, y = { PARE_F32, 2, { 2, 3 }, b };
    struct pare_tensor z = { PARE_F32, 1, { 6 }, b };
    struct pare_tensor m = { PARE_I64, 0, { 0 }, &i }, n = { PARE_I64, 0, { 0 }, &j };
    struct pare_str s = { "ab", 2 }, t = { "abc", 3 };
    struct pare_tensor p = { PARE_STR, 1, { 1 }, &s }, q = { PARE_STR, 1, { 1 }, &t };
    struct pare_tolerance tol = { 1e-3, 1e-7 };
    struct pare_err err;

    (void)state;
    assert_int_equal(pare_tensor_compare(&x, &y, tol, &err), PARE_EFORMAT);
    assert_string_equal(err.msg, "element (1, 1) is 4, expected 4.5; 2 of 6 differ");
    assert_int_equal(pare_tensor_compare(&x, &z, tol, &err), PARE_ESHAPE);
    assert_string_equal(err.msg, "has shape (2, 3), expected (6)");
    assert_int_equal(pare_tensor_compare(&x, &m, tol, &err), PARE_ESHAPE);
    assert_string_equal(err.msg, "is float32, expected int64");
    assert_int_equal(pare_tensor_compare(&m, &n, tol, &err), PARE_EFORMAT);
    assert_string_equal(err.msg, "element () is 9223372036854775807, expected "
                                 "9223372036854775806; 1 of 1 differ");
    assert_int_equal(pare_tensor_compare(&p, &p, tol, &err), 0);
    assert_int_equal(pare_tensor_compare(&p, &q, tol, &err), PARE_EFORMAT);
    assert_string_equal(err.msg, "element (0) is 'ab', expected 'abc'; 1 of 1 differ");
}

/* The generator's first numbers for a seed, and the moments of its distributions. */
static void test_random_numbers_are_fixed_and_uniform(void **state)
{
    double sum = 0, square = 0;
    int count[6] = { 0 };
    struct pare_rng r, s;

    (void)state;
    /* SplitMix64 of seed 0 starts e220a8397b1dcdaf 6e789e6aa1b965f4 06c45d188009454f ... */
    pare_rng_init(&r, 0);
    assert_true(r.s[0] == 0xe220a8397b1dcdafu && r.s[1] == 0x6e789e6aa1b965f4u);
    s = (struct pare_rng){ { 1, 2, 3, 4 } };
    assert_true(pare_rng_next(&s) == 11520); /* rotl(2 * 5, 7) * 9 */
    assert_true(pare_rng_next(&s) == 0);     /* then its second word is 2 ^ 1 ^ 3 = 0 */
    for (int i = 0; i < 60000; i++) {
        double v = pare_rng_normal(&r), u = pare_rng_uniform(&r);

        sum += v;
        square += v * v;
        assert_true(u >= 0 && u < 1);
        count[pare_rng_below(&r, 6)]++;
    }
    assert_true(fabs(sum / 60000) < 0.02 && fabs(square / 60000 - 1) < 0.03);
    for (int i = 0; i < 6; i++)
        assert_in_range(count[i], 9600, 10400);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_floats_agree_within_tolerance),
        cmocka_unit_test(test_difference_messages),
        cmocka_unit_test(test_random_numbers_are_fixed_and_uniform),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

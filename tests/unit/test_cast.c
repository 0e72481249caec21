/* test_cast.c - Cast from numbers to strings and back. */
#include "one_node.h"

static void expect_text(const struct pare_tensor *t, const char *const *want)
{
    const struct pare_str *s = t->data;

    for (int64_t i = 0; i < pare_numel(t); i++)
        if (s[i].len != strlen(want[i]) || memcmp(s[i].s, want[i], s[i].len))
            fail_msg("'%.*s', expected '%s'", (int)s[i].len, s[i].s, want[i]);
}

static void test_numbers_to_text(void **state)
{
    static const float x[] = { 0,     -0.0f,         1,         -2.5f,    0.1f,
                               100,   1.2345679e10f, 1e16f,     3e-5f,    0.0001f,
                               1e15f, NAN,           -INFINITY, 16777216, 1234.5f };
    static const char *const want[] = { "0.0",
                                        "-0.0",
                                        "1.0",
                                        "-2.5",
                                        "0.1",
                                        "100.0",
                                        "12345679000.0",
                                        "1e+16",
                                        "3e-05",
                                        "0.0001",
                                        "1000000000000000.0",
                                        "nan",
                                        "-inf",
                                        "16777216.0",
                                        "1234.5" };
    static const double d[] = { 0.1, 1.0 / 3 };
    static const uint64_t u = UINT64_MAX;
    struct pare_setting to = int_attr("to", PARE_STR);
    struct fixture f = fixture_begin("Cast", 13);

    (void)state;
    add_input(&f, PARE_F32, 1, DIMS(15), x);
    assert_int_equal(run_with_attrs(&f, &to, 1), 0);
    expect_text(&f.out[0]->t, want);
    fixture_end(&f);
    f = fixture_begin("Cast", 13);
    add_input(&f, PARE_F64, 1, DIMS(2), d);
    assert_int_equal(run_with_attrs(&f, &to, 1), 0);
    expect_text(&f.out[0]->t, (const char *[]){ "0.1", "0.3333333333333333" });
    fixture_end(&f);
    f = fixture_begin("Cast", 13);
    add_input(&f, PARE_U64, 0, NULL, &u);
    assert_int_equal(run_with_attrs(&f, &to, 1), 0);
    expect_text(&f.out[0]->t, (const char *[]){ "18446744073709551615" });
    fixture_end(&f);
}

static void test_text_to_numbers(void **state)
{
    static const struct pare_str x[] = { { "1.5xx", 3 }, { "-INF", 4 }, { "NaN", 3 }, { "7", 1 } };
    static const struct pare_str i[] = { { "-12", 3 }, { "3.9", 3 } }, bad = { "12a", 3 };
    struct pare_setting real = int_attr("to", PARE_F32), small = int_attr("to", PARE_I8);
    struct pare_setting unknown = int_attr("to", 19);
    struct fixture f = fixture_begin("Cast", 13);

    (void)state;
    add_input(&f, PARE_STR, 1, DIMS(4), x);
    assert_int_equal(run_with_attrs(&f, &real, 1), 0);
    expect_floats(&f.out[0]->t, 4, (float[]){ 1.5f, -INFINITY, NAN, 7 });
    fixture_end(&f);
    f = fixture_begin("Cast", 13);
    add_input(&f, PARE_STR, 1, DIMS(2), i);
    assert_int_equal(run_with_attrs(&f, &small, 1), 0);
    expect_bytes(&f.out[0]->t, 2, (int8_t[]){ -12, 3 });
    fixture_end(&f);
    f = fixture_begin("Cast", 13);
    add_input(&f, PARE_STR, 0, NULL, &bad);
    assert_int_equal(run_with_attrs(&f, &real, 1), PARE_EFORMAT);
    assert_string_equal(f.err.msg, "the text '12a' is not a number");
    assert_int_equal(run_with_attrs(&f, &unknown, 1), PARE_EUNSUPPORTED);
    fixture_end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_to_text),
        cmocka_unit_test(test_text_to_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

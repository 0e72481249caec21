/* test_verify_shapes.c - speedup compares the two models at other shapes that the caller feeds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <pare/compress.h>

#include "base/arena.h"

#define RUNS 2

static const int64_t height[] = { 6, 6, 9, 5 }; /* by run; 6 x 7 is the first shape */

struct calls {
    int by_run[4];
    int bad; /* run that fails; -1: none */
};

static int feed(void *user, int run, struct pare_tensor *in, struct pare_err *err)
{
    struct calls *c = user;

    assert_true(run >= 0 && run < 4);
    c->by_run[run]++;
    assert_true(in[0].rank == 4 && in[0].dim[0] == 1 && in[0].dim[1] == 3);
    assert_true(in[0].dim[2] == height[run] && in[0].dim[3] == 7);
    for (int64_t i = 0; i < 3 * height[run] * 7; i++)
        pare_f32_mut(&in[0])[i] = (float)(i % 11) / 11;
    return run == c->bad ? pare_fail(err, PARE_EIO, "run %d cannot be read", run) : 0;
}

static int shrink(struct calls *c, int n_in, struct pare_speedup_report *r, struct pare_err *err)
{
    struct pare_tensor in = { PARE_F32, 4, { 1, 3, 6, 7 }, NULL };
    struct pare_tensor more[] = { { PARE_F32, 4, { 1, 3, 9, 7 }, NULL },
                                  { PARE_F32, 4, { 1, 3, 5, 7 }, NULL } };
    struct pare_speedup_opts o = { .size = sizeof(o),
                                   .in = &in,
                                   .n_in = n_in,
                                   .threads = 1,
                                   .feed = feed,
                                   .user = c,
                                   .runs = RUNS,
                                   .more = more,
                                   .n_more = 2 };
    struct pare_arena *a = pare_arena_new(1 << 14);
    struct pare_model *model, *smaller = NULL;
    int rc;

    assert_non_null(a);
    assert_int_equal(pare_model_load("models/any_size.onnx", &model, err), 0);
    rc = pare_speedup(model, &o, a, &smaller, r, err);
    pare_model_free(smaller);
    pare_model_free(model);
    pare_arena_free(a);
    return rc;
}

static void test_each_shape_is_run(void **state)
{
    struct pare_speedup_report r;
    struct calls c = { .bad = -1 };
    struct pare_err err;

    (void)state;
    assert_int_equal(shrink(&c, 1, &r, &err), 0);
    assert_true(r.verified);
    for (int i = 0; i < 4; i++)
        assert_int_equal(c.by_run[i], 1);
}

static void test_errors_of_other_shapes(void **state)
{
    struct pare_speedup_report r;
    struct calls c = { .bad = 3 };
    struct pare_err err;

    (void)state;
    assert_int_equal(shrink(&c, 1, &r, &err), PARE_EIO);
    assert_non_null(strstr(err.msg, "run 3 cannot be read"));
    assert_int_equal(shrink(&c, 2, &r, &err), PARE_ECONFIG);
    assert_non_null(strstr(err.msg, "the shapes of 2 inputs are given, the model has 1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_shape_is_run),
        cmocka_unit_test(test_errors_of_other_shapes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

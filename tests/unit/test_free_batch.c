/* test_free_batch.c - models with a fixed batch of 1 that are changed to accept any batch. */
#include "make_model.h"

#include <pare/compress.h>
#include <pare/data.h>

#include "plan/batch/free_batch.h"

static struct pare_err err;

/* (batch, 2, 6) reshaped by constants to (1, 3, 4), then to (1, -1); a product, or a mean over the
 * batch. */
static struct pare_model *make_network(bool mixes, int64_t batch)
{
    static float w[12 * 3];
    struct build b = { .opset = 13 };
    const char *x, *shape;

    for (int i = 0; i < 36; i++)
        w[i] = 0.1f * (float)(i * 7 % 11 - 5);
    x = build_input(&b, PARE_F32, 3, (int64_t[]){ batch, 2, 6 });
    shape = build_ints(&b, 3, (int64_t[]){ 1, 3, 4 });
    x = build_node(&b, "Reshape", NAMES(x, shape), NOTHING);
    x = build_node(&b, "Relu", NAMES(x), NOTHING);
    x = build_node(&b, "Reshape", NAMES(x, build_ints(&b, 2, (int64_t[]){ 1, -1 })), NOTHING);
    if (mixes)
        x = build_node(&b, "ReduceMean", NAMES(x), at_ints("axes", 1, (int64_t[]){ 0 }));
    else
        x = build_node(&b, "MatMul", NAMES(x, build_floats(&b, 2, (int64_t[]){ 12, 3 }, w)),
                       NOTHING);
    build_output(&b, x);
    return build_model(&b);
}

static void test_free_batch_matches_single_items(void **state)
{
    struct pare_model *m = make_network(false, 1), *freed = make_network(false, 1);
    struct pare_tensor x = build_tensor(PARE_F32, 3, (int64_t[]){ 5, 2, 6 }), y[2], item = x;
    struct pare_plan_opts five = { .in = &x, .n_in = 1 };
    struct pare_plan *p, *one;

    (void)state;
    if (pare_model_free_batch(freed, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(freed->in[0].dim[0], -1);
    assert_string_equal(freed->in[0].sym[0], "N");
    for (int i = 0; i < 60; i++)
        pare_f32_mut(&x)[i] = 0.1f * (float)(i * 13 % 17 - 8);
    assert_int_equal(pare_plan_make(freed, &five, &p, &err), 0);
    assert_int_equal(pare_plan_make(m, NULL, &one, &err), 0);
    assert_int_equal(pare_plan_execute(p, &x, &y[0], &err), 0);
    assert_int_equal(y[0].dim[0], 5);
    item.dim[0] = 1;
    for (int i = 0; i < 5; i++) {
        item.data = pare_f32_mut(&x) + 12 * i;
        assert_int_equal(pare_plan_execute(one, &item, &y[1], &err), 0);
        for (int k = 0; k < 3; k++)
            assert_float_equal(pare_f32(&y[1])[k], pare_f32(&y[0])[3 * i + k], 1e-5);
    }
    pare_plan_free(p);
    pare_plan_free(one);
    pare_model_free(freed);
    pare_model_free(m);
}

static void expect_refused(bool mixes, int64_t batch, const char *why)
{
    struct pare_model *m = make_network(mixes, batch);

    assert_int_equal(pare_model_free_batch(m, &err), PARE_EUNSUPPORTED);
    if (!strstr(err.msg, why))
        fail_msg("expected '%s' in: %s", why, err.msg);
    assert_false(m->any_batch);
    assert_int_equal(m->in[0].dim[0], batch);
    pare_model_free(m);
}

static void test_batches_that_cannot_be_freed(void **state)
{
    (void)state;
    expect_refused(true, 1, "differs from the outputs of single items");
    expect_refused(false, -1, "is free already");
    expect_refused(false, 2, "is not 1");
}

/* A class token that Concat reads: a constant, or Expand, Tile or ConstantOfShape of constants;
 * then the heads of an attention, (1, 4, 6) to (1, 4, 2, 3) to (2, 4, 3) and back. */
static struct pare_model *class_token(const char *maker)
{
    static float cls[6] = { 1, 2, 3, 4, 5, 6 };
    struct build b = { .opset = 13 };
    const char *t = build_floats(&b, 3, (int64_t[]){ 1, 1, 6 }, cls), *x;

    if (!strcmp(maker, "Expand") || !strcmp(maker, "Tile"))
        t = build_node(&b, maker, NAMES(t, build_ints(&b, 3, (int64_t[]){ 1, 1, 1 })), NOTHING);
    else if (!strcmp(maker, "ConstantOfShape"))
        t = build_node(&b, maker, NAMES(build_ints(&b, 3, (int64_t[]){ 1, 1, 6 })), NOTHING);
    x = build_input(&b, PARE_F32, 3, (int64_t[]){ 1, 3, 6 });
    x = build_node(&b, "Concat", NAMES(t, x), at_int("axis", 1));
    x = build_node(&b, "Reshape", NAMES(x, build_ints(&b, 4, (int64_t[]){ 1, 4, 2, 3 })), NOTHING);
    x = build_node(&b, "Transpose", NAMES(x), at_ints("perm", 4, (int64_t[]){ 0, 2, 1, 3 }));
    x = build_node(&b, "Reshape", NAMES(x, build_ints(&b, 3, (int64_t[]){ 2, -1, 3 })), NOTHING);
    x = build_node(&b, "Softmax", NAMES(x), at_int("axis", 1));
    x = build_node(&b, "Reshape", NAMES(x, build_ints(&b, 4, (int64_t[]){ 1, 2, 4, 3 })), NOTHING);
    x = build_node(&b, "Transpose", NAMES(x), at_ints("perm", 4, (int64_t[]){ 0, 2, 1, 3 }));
    build_output(&b, build_node(&b, "Reshape", NAMES(x, build_ints(&b, 3, (int64_t[]){ 1, -1, 6 })),
                                NOTHING));
    return build_model(&b);
}

static void test_constants_get_a_free_batch(void **state)
{
    static const char *const makers[] = { "", "Expand", "Tile", "ConstantOfShape" };

    (void)state;
    for (int i = 0; i < 4; i++) {
        struct pare_model *m = class_token(makers[i]), *declared;

        if (pare_model_free_batch(m, &err))
            fail_msg("%s: %s", makers[i], err.msg);
        assert_int_equal(pare_model_declare_batch(m, &declared, &err), 0);
        assert_int_equal(declared->in[0].dim[0], -1);
        pare_model_free(declared);
        pare_model_free(m);
    }
}

/* A saved model declares the batch of 1; an unchanged model is saved with the same bytes. */
static void test_saved_model_declares_batch_1(void **state)
{
    struct pare_model *m = make_network(false, 1), *again;
    void *before, *after;
    size_t n, k;

    (void)state;
    assert_int_equal(pare_model_pack(m, pool, &before, &n, &err), 0);
    assert_int_equal(pare_model_try_batch(m, &err), 0);
    assert_true(m->any_batch);
    assert_int_equal(pare_model_pack(m, pool, &after, &k, &err), 0);
    assert_int_equal(n, k);
    assert_memory_equal(before, after, n);
    pare_model_touch(m);
    assert_int_equal(pare_model_duplicate(m, &again, &err), 0);
    assert_int_equal(again->in[0].dim[0], -1);
    pare_model_free(again);
    assert_int_equal(pare_model_pack(m, pool, &after, &k, &err), 0);
    assert_int_equal(pare_model_parse(after, k, NULL, &again, &err), 0);
    assert_int_equal(again->in[0].dim[0], 1);
    pare_model_free(again);
    pare_model_free(m);
}

/* Two inputs: with a batch of 1, and without. */
static struct pare_model *make_two_inputs(void)
{
    struct build b = { .opset = 13 };
    const char *x = build_input(&b, PARE_F32, 2, (int64_t[]){ 1, 4 });
    const char *state = build_input(&b, PARE_F32, 2, (int64_t[]){ 2, 4 });

    state = build_node(&b, "ReduceSum", NAMES(state, build_ints(&b, 1, (int64_t[]){ 0 })), NOTHING);
    build_output(&b, build_node(&b, "Add", NAMES(x, state), NOTHING));
    return build_model(&b);
}

/* Calibration takes batches where all inputs have one; items of data may differ in an input without
 * a batch. */
static void test_calibration_frees_the_batch(void **state)
{
    struct pare_model *m, *q, *again, *two = make_two_inputs();
    struct pare_quantize_opts o = { .preset = "int8" };
    void *bytes;
    size_t n;

    (void)state;
    assert_int_equal(pare_model_new("lenet", (int64_t[]){ 1, 8, 8 }, 10, 1, &m, &err), 0);
    assert_int_equal(pare_model_fix_input(m, (int64_t[]){ 1, 1, 8, 8 }, 4, pool, NULL, &err), 0);
    assert_int_equal(pare_data_open("digits", "train", NULL, &o.tuning.data, &err), 0);
    if (pare_quantize(m, &o, &q, NULL, &err))
        fail_msg("%s", err.msg);
    assert_true(m->any_batch);
    assert_int_equal(pare_model_pack(q, pool, &bytes, &n, &err), 0);
    assert_int_equal(pare_model_parse(bytes, n, NULL, &again, &err), 0);
    assert_int_equal(again->in[0].dim[0], 1);
    pare_model_free(again);
    assert_int_equal(pare_model_try_batch_of_all(two, &err), 0);
    assert_false(two->any_batch);
    assert_int_equal(pare_model_try_batch(two, &err), 0);
    assert_true(two->any_batch);
    pare_data_free(o.tuning.data);
    pare_model_free(q);
    pare_model_free(m);
    pare_model_free(two);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_free_batch_matches_single_items),
        cmocka_unit_test(test_batches_that_cannot_be_freed),
        cmocka_unit_test(test_constants_get_a_free_batch),
        cmocka_unit_test(test_saved_model_declares_batch_1),
        cmocka_unit_test(test_calibration_frees_the_batch),
    };

    return cmocka_run_group_tests(tests, make_pool, drop_pool);
}

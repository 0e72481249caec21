/* test_checkpoint.c - checkpoints: tensors and numbers are restored bit for bit; other files are
 * refused. */
#include "file_rig.h"

#include <float.h>

#include "train/checkpoint.h"

static int setup(void **state)
{
    (void)state;
    return make_folder("x.safetensors");
}

static void test_tensors_and_numbers_are_restored(void **state)
{
    static float w[30], m[30], got[30];
    struct pare_tensor t = { PARE_F32, 2, { 5, 6 }, w }, s = { PARE_F32, 2, { 5, 6 }, m };
    struct pare_tensor into = { PARE_F32, 2, { 5, 6 }, got };
    struct pare_checkpoint c = { .arena = arena }, d = { .arena = arena };
    struct pare_rng r, q;
    int64_t epoch;
    double best;

    (void)state;
    pare_rng_init(&r, 42);
    for (int i = 0; i < 30; i++) {
        w[i] = (float)pare_rng_normal(&r);
        m[i] = -w[i];
    }
    for (int i = 0; i < 20; i++) /* enough to make lists grow */
        assert_int_equal(pare_checkpoint_add(&c, "weight", pare_sprintf(arena, "conv%d.weight", i),
                                             &t, &err),
                         0);
    assert_int_equal(pare_checkpoint_add(&c, "optim", "conv1.weight.exp_avg", &s, &err), 0);
    assert_int_equal(pare_checkpoint_add_rng(&c, "data", &r, &err), 0);
    assert_int_equal(pare_checkpoint_set_int(&c, "epoch", 3, &err), 0);
    assert_int_equal(pare_checkpoint_set_int(&c, "epoch", INT64_MIN, &err), 0);
    assert_int_equal(pare_checkpoint_set_float(&c, "best", 1 / 3.0, &err), 0);
    assert_int_equal(pare_checkpoint_set_float(&c, "least", -DBL_MIN / 3, &err), 0);
    assert_int_equal(pare_checkpoint_set(&c, "data", "fashion-mnist", &err), 0);
    assert_int_equal(pare_checkpoint_write(&c, path, &err), 0);
    assert_int_equal(pare_checkpoint_write(&c, path, &err), 0);

    assert_int_equal(pare_checkpoint_read(&d, path, &err), 0);
    assert_int_equal(d.st.n_tensors, 22);
    assert_int_equal(pare_checkpoint_load(&d, "weight", "conv19.weight", &into, &err), 0);
    assert_memory_equal(got, w, sizeof(w));
    assert_int_equal(pare_checkpoint_load(&d, "optim", "conv1.weight.exp_avg", &into, &err), 0);
    assert_memory_equal(got, m, sizeof(m));
    assert_int_equal(pare_checkpoint_load_rng(&d, "data", &q, &err), 0);
    assert_true(pare_rng_next(&q) == pare_rng_next(&r));
    assert_int_equal(pare_checkpoint_get_int(&d, "epoch", &epoch, &err), 0);
    assert_true(epoch == INT64_MIN);
    assert_int_equal(pare_checkpoint_get_float(&d, "best", &best, &err), 0);
    assert_true(best == 1 / 3.0);
    assert_int_equal(pare_checkpoint_get_float(&d, "least", &best, &err), 0);
    assert_true(best == -DBL_MIN / 3);
    assert_string_equal(pare_checkpoint_get(&d, "data"), "fashion-mnist");
    assert_null(pare_checkpoint_get(&d, "nothing"));
    assert_null(pare_checkpoint_find(&d, "weight", "conv1"));
    assert_null(pare_checkpoint_find(&d, "weigh", "t/conv1.weight"));
    assert_int_equal(pare_checkpoint_set_int(&d, "epoch", 4, &err), 0);
    assert_int_equal(pare_checkpoint_set_int(&d, "more", 5, &err), 0);
    assert_int_equal(pare_checkpoint_add_rng(&d, "more", &q, &err), 0);
    assert_int_equal(pare_checkpoint_write(&d, path, &err), 0);
}

static void test_missing_and_wrong_entries_are_errors(void **state)
{
    static float w[6];
    static uint64_t zeros[4];
    struct pare_tensor t = { PARE_F32, 2, { 2, 3 }, w }, u = { PARE_F32, 1, { 6 }, w };
    struct pare_tensor z = { PARE_U64, 1, { 4 }, zeros };
    struct pare_checkpoint c = { .arena = arena }, d = { .arena = arena };
    struct pare_rng r;
    int64_t i;
    double f;

    (void)state;
    assert_int_equal(pare_checkpoint_add(&c, "weight", "a", &t, &err), 0);
    assert_int_equal(pare_checkpoint_add(&c, "rng", "a", &z, &err), 0);
    assert_int_equal(pare_checkpoint_set(&c, "text", "12x", &err), 0);
    assert_int_equal(pare_checkpoint_set(&c, "huge", "99999999999999999999", &err), 0);
    assert_int_equal(pare_checkpoint_write(&c, path, &err), 0);
    assert_int_equal(pare_checkpoint_read(&d, path, &err), 0);
    assert_int_equal(pare_checkpoint_load(&d, "weight", "b", &t, &err), PARE_EFORMAT);
    assert_string_equal(err.msg, "the checkpoint has no 'weight/b'");
    assert_int_equal(pare_checkpoint_load(&d, "weight", "a", &u, &err), PARE_ESHAPE);
    assert_string_equal(err.msg, "'weight/a' of the checkpoint is float32 (2, 3), expected "
                                 "float32 (6)");
    assert_int_equal(pare_checkpoint_load_rng(&d, "a", &r, &err), PARE_EFORMAT);
    assert_int_equal(pare_checkpoint_get_int(&d, "text", &i, &err), PARE_EFORMAT);
    assert_string_equal(err.msg, "'text' of the checkpoint is '12x', not an integer");
    assert_int_equal(pare_checkpoint_get_int(&d, "huge", &i, &err), PARE_EFORMAT);
    assert_int_equal(pare_checkpoint_get_int(&d, "none", &i, &err), PARE_EFORMAT);
    assert_int_equal(pare_checkpoint_get_float(&d, "text", &f, &err), PARE_EFORMAT);
    assert_int_equal(pare_checkpoint_get_float(&d, "none", &f, &err), PARE_EFORMAT);
}

static void test_other_files_are_refused(void **state)
{
    struct pare_safetensors st = { 0 };
    struct pare_checkpoint d = { .arena = arena };

    (void)state;
    assert_int_equal(pare_checkpoint_read(&d, path, &err), PARE_EIO);
    assert_int_equal(pare_safetensors_write(path, &st, &err), 0);
    assert_int_equal(pare_checkpoint_read(&d, path, &err), PARE_EFORMAT);
    assert_non_null(strstr(err.msg, "the format is ''"));
}

static void test_out_of_memory(void **state)
{
    static float w[6];
    struct pare_tensor t = { PARE_F32, 2, { 2, 3 }, w };
    int rc = PARE_ENOMEM;

    (void)state;
    for (int k = 1; rc && k < 200; k++) {
        struct pare_checkpoint c = { .arena = pare_arena_new(64) };
        struct pare_checkpoint d = { .arena = pare_arena_new(64) };

        pare_oom_countdown = k;
        rc = pare_checkpoint_add(&c, "weight", "a", &t, &err);
        if (!rc)
            rc = pare_checkpoint_set(&c, "key", "value", &err);
        if (!rc)
            rc = pare_checkpoint_write(&c, path, &err);
        if (!rc)
            rc = pare_checkpoint_read(&d, path, &err);
        pare_oom_countdown = 0;
        assert_true(!rc || rc == PARE_ENOMEM);
        pare_arena_free(c.arena);
        pare_arena_free(d.arena);
    }
    assert_int_equal(rc, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_tensors_and_numbers_are_restored, setup, teardown),
        cmocka_unit_test_setup_teardown(test_missing_and_wrong_entries_are_errors, setup, teardown),
        cmocka_unit_test_setup_teardown(test_other_files_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_out_of_memory, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

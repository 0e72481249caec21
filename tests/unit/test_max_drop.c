/* test_max_drop.c - the limit of the loss of accuracy in calls of the library. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <string.h>

#include <cmocka.h>

#include <pare/compress.h>

static struct pare_err err;
static struct pare_data *train, *valid;

#define OK(call)                     \
    do {                             \
        if (call)                    \
            fail_msg("%s", err.msg); \
    } while (0)

static void fit(struct pare_model *m, const char *settings, int expected)
{
    struct pare_training_opts o = { .data = train, .valid = valid, .settings = settings };
    struct pare_training *t;

    OK(pare_training_new(m, &o, &t, &err));
    assert_int_equal(pare_training_run(t, NULL, NULL, &err), expected);
    pare_training_free(t);
}

static struct pare_model *trained_model(void)
{
    struct pare_model *m;

    OK(pare_model_new("mlp", (int64_t[]){ 1, 8, 8 }, 10, 1, &m, &err));
    fit(m, "epochs=4 threads=1", 0);
    return m;
}

static void expect_limit(int rc, const struct pare_model *out)
{
    assert_int_equal(rc, PARE_ECONFIG);
    assert_non_null(strstr(err.msg, "max-drop allows 2"));
    assert_null(out);
}

static void test_training_beyond_the_limit_fails(void **state)
{
    struct pare_model *m = trained_model();

    (void)state;
    fit(m, "epochs=1 threads=1 max_drop=2", 0);
    fit(m, "epochs=1 threads=1 lr=3 max_drop=2", PARE_ECONFIG);
    expect_limit(err.code, NULL);
    pare_model_free(m);
}

static void test_pruning_beyond_the_limit_fails(void **state)
{
    struct pare_prune_opts o = { .sparsity = 0.97,
                                 .tuning = { train, valid, "threads=1 max_drop=2", NULL } };
    struct pare_model *m = trained_model(), *out;
    int rc;

    (void)state;
    rc = pare_prune(m, &o, &out, NULL, &err);
    expect_limit(rc, out);
    pare_model_free(m);
    m = trained_model();
    o.sparsity = 0.05;
    OK(pare_prune(m, &o, &out, NULL, &err));
    pare_model_free(out);
    pare_model_free(m);
}

static void test_quantization_beyond_the_limit_fails(void **state)
{
    struct pare_quantize_opts o = { .quantizer = "ptq",
                                    .config = "[{\"quant_types\": [\"weight\", \"input\"], "
                                              "\"quant_bits\": 1, \"op_types\": [\"default\"]}]",
                                    .tuning = { train, valid, "threads=1 max_drop=2", NULL } };
    struct pare_model *m = trained_model(), *out;
    int rc;

    (void)state;
    rc = pare_quantize(m, &o, &out, NULL, &err);
    expect_limit(rc, out);
    o.quantizer = "dorefa"; /* learns in training */
    o.tuning.settings = "threads=1";
    assert_int_equal(pare_quantize(m, &o, &out, NULL, &err), PARE_ECONFIG);
    assert_non_null(strstr(err.msg, "learns in training"));
    pare_model_free(m);
}

static void test_compression_beyond_the_limit_fails(void **state)
{
    struct pare_compress_opts o = { .preset = "tiny",
                                    .data = train,
                                    .valid = valid,
                                    .train = "lr=10",
                                    .threads = 1,
                                    .max_drop = 2 };
    struct pare_model *m = trained_model(), *out;
    int rc;

    (void)state;
    rc = pare_compress(m, &o, &out, NULL, &err);
    expect_limit(rc, out);
    o.max_drop = 100;
    OK(pare_compress(m, &o, &out, NULL, &err));
    pare_model_free(out);
    pare_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_training_beyond_the_limit_fails),
        cmocka_unit_test(test_pruning_beyond_the_limit_fails),
        cmocka_unit_test(test_quantization_beyond_the_limit_fails),
        cmocka_unit_test(test_compression_beyond_the_limit_fails),
    };
    int rc;

    OK(pare_data_open("digits", "train", NULL, &train, &err));
    OK(pare_data_open("digits", "test", NULL, &valid, &err));
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    pare_data_free(train);
    pare_data_free(valid);
    return rc;
}

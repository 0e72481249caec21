/* test_metrics.c - metrics and tasks: values computed by hand, and the task that labels imply. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <pare/train.h>

#include "base/arena.h"
#include "onnx/builder.h"
#include "onnx/model.h"
#include "train/paired_bound.h"
#include "train/train_options.h"

/* A model that returns its input (N, ...), and a data set with labels. */
struct rig {
    struct pare_model *model;
    struct pare_data *data;
    struct pare_metrics m;
    struct pare_err err;
};

static struct pare_model *model_of(const char *op, const struct pare_tensor *x)
{
    int64_t dim[PARE_MAX_RANK];
    struct pare_builder *k;
    struct pare_model *m;
    struct pare_err err;

    memcpy(dim, x->dim, sizeof(dim));
    dim[0] = -1;
    assert_int_equal(pare_builder_new("same", &k, &err), 0);
    pare_builder_node(k, op, "same", pare_builder_input(k, "x", x->rank, dim), NULL);
    pare_builder_output(k, "out", x->rank, dim);
    assert_int_equal(pare_builder_done(k, &m, &err), 0);
    return m;
}

static void rig_open(struct rig *r, const struct pare_tensor *x, const struct pare_tensor *y)
{
    struct pare_input in = { "x", *x };
    struct pare_arrays a = { .size = sizeof(a), .n = x->dim[0], .input = &in, .n_inputs = 1 };

    *r = (struct rig){ .model = model_of("Identity", x) };
    a.y = y;
    assert_int_equal(pare_data_from_arrays(&a, &r->data, &r->err), 0);
}

static int rig_run(struct rig *r, const char *loss, const char *task, const char *metric)
{
    struct pare_evaluate_opts o = { .size = sizeof(o),
                                    .threads = 1,
                                    .batch = 2,
                                    .loss = loss,
                                    .task = task,
                                    .metric = metric };

    return pare_evaluate(r->model, r->data, &o, &r->m, &r->err);
}

static void rig_close(struct rig *r)
{
    pare_data_free(r->data);
    pare_model_free(r->model);
}

static void expect_task(struct rig *r, const char *task, int n_values)
{
    if (rig_run(r, NULL, NULL, NULL))
        fail_msg("%s", r->err.msg);
    assert_string_equal(r->m.task, task);
    assert_int_equal(r->m.n_values, n_values);
}

static void check_value(const struct rig *r, int i, const char *name, double value)
{
    assert_string_equal(r->m.value[i].name, name);
    assert_true(fabs(r->m.value[i].value - value) < 1e-6);
}

static void expect_error(struct rig *r, const char *loss, const char *task, const char *metric,
                         const char *part)
{
    assert_int_not_equal(rig_run(r, loss, task, metric), 0);
    if (!strstr(r->err.msg, part))
        fail_msg("'%s' lacks '%s'", r->err.msg, part);
}

#define TENSOR(type, data, ...)                                                                  \
    {                                                                                            \
        type, (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), { __VA_ARGS__ }, data \
    }

static void test_classification_counts_the_highest_scores(void **state)
{
    float x[] = { 3, 1, 2, 1, 3, 2, 3, 2, 1 };
    int64_t y[] = { 0, 1, 2 };
    struct pare_tensor tx = TENSOR(PARE_F32, x, 3, 3), ty = TENSOR(PARE_I64, y, 3);
    struct rig r;

    (void)state;
    rig_open(&r, &tx, &ty);
    expect_task(&r, "classification", 1); /* top-5 of three classes means nothing */
    check_value(&r, 0, "top-1", 2.0 / 3);
    assert_true(fabs(r.m.top1 - 2.0 / 3) < 1e-12);
    assert_int_equal(rig_run(&r, NULL, NULL, "loss"), 0);
    check_value(&r, 0, "loss", r.m.loss);
    expect_error(&r, NULL, NULL, "r2",
                 "metric 'r2' does not apply to classification: use one of top-1");
    expect_error(&r, NULL, "clasification", NULL, "did you mean 'classification'");
    expect_error(&r, "mse", NULL, NULL,
                 "has one target, but the model's output is (3): expected targets (3)");
    rig_close(&r);
}

static void test_top5_needs_more_than_five_classes(void **state)
{
    float x[] = { 6, 5, 4, 3, 2, 1, 6, 5, 4, 3, 2, 1 };
    int64_t y[] = { 4, 5 };
    struct pare_tensor tx = TENSOR(PARE_F32, x, 2, 6), ty = TENSOR(PARE_I64, y, 2);
    struct rig r;

    (void)state;
    rig_open(&r, &tx, &ty);
    expect_task(&r, "classification", 2);
    check_value(&r, 0, "top-1", 0);
    check_value(&r, 1, "top-5", 0.5);
    rig_close(&r);
}

/* As many elements in another shape are not a mask, either. */
static void test_masks_of_another_shape(void **state)
{
    float x[2 * 3 * 4 * 6] = { 0 };
    int64_t y[2 * 4 * 6] = { 2 };
    struct pare_tensor tx = TENSOR(PARE_F32, x, 2, 3, 4, 6), few = TENSOR(PARE_I64, y, 2, 4, 3),
                       turned = TENSOR(PARE_I64, y, 2, 6, 4), one = TENSOR(PARE_I64, y, 2, 1, 4, 6);
    struct rig r;

    (void)state;
    rig_open(&r, &tx, &one); /* an axis of 1 is allowed */
    assert_int_equal(rig_run(&r, NULL, NULL, NULL), 0);
    rig_close(&r);
    rig_open(&r, &tx, &few);
    expect_error(&r, NULL, NULL, NULL,
                 "an item of 'memory' has targets (4, 3), but the model's output is (3, 4, 6): "
                 "expected targets (3, 4, 6), or a class for each position, (4, 6)");
    rig_close(&r);
    rig_open(&r, &tx, &turned);
    expect_error(&r, NULL, NULL, NULL, "has targets (6, 4), but the model's output is (3, 4, 6)");
    rig_close(&r);
}

static void test_labels_of_0_and_1_are_multi_label(void **state)
{
    float x[] = { 1, -1, 1, 1, 1, -1 }; /* logits: above 0 means 1 */
    int64_t y[] = { 1, 0, 1, 1, 0, 1 };
    struct pare_tensor tx = TENSOR(PARE_F32, x, 3, 2), ty = TENSOR(PARE_I64, y, 3, 2);
    struct rig r;

    (void)state;
    rig_open(&r, &tx, &ty);
    expect_task(&r, "multi-label", 3);
    check_value(&r, 0, "f1", 2 * 3.0 / (2 * 3 + 1 + 1));
    check_value(&r, 1, "label-accuracy", 4.0 / 6);
    check_value(&r, 2, "exact-match", 2.0 / 3);
    assert_int_equal(rig_run(&r, "mse", "multi-label", "exact-match"), 0); /* above 0.5 means 1 */
    check_value(&r, 0, "exact-match", 2.0 / 3);
    rig_close(&r);
}

static void test_one_hot_rows_are_refused(void **state)
{
    float x[] = { 1, 0, 0, 1 }, y[] = { 1, 0, 0, 1 };
    struct pare_tensor tx = TENSOR(PARE_F32, x, 2, 2), ty = TENSOR(PARE_F32, y, 2, 2);
    struct rig r;

    (void)state;
    rig_open(&r, &tx, &ty);
    expect_error(&r, NULL, NULL, NULL, "one-hot rows");
    assert_int_equal(rig_run(&r, NULL, "multi-label", NULL), 0);
    rig_close(&r);
}

static void test_numbers_are_a_regression(void **state)
{
    float x[] = { 1, 10, 2, 20, 3, 33 }, y[] = { 1, 10, 2, 20, 5, 30 };
    struct pare_tensor tx = TENSOR(PARE_F32, x, 3, 2), ty = TENSOR(PARE_F32, y, 3, 2);
    double mean = 8.0 / 3, spread = (1 - mean) * (1 - mean) + (2 - mean) * (2 - mean) +
                                    (5 - mean) * (5 - mean) + 100 + 0 + 100;
    struct rig r;

    (void)state;
    rig_open(&r, &tx, &ty);
    expect_task(&r, "regression", 3);
    check_value(&r, 0, "mse", (4 + 9) / 6.0);
    check_value(&r, 1, "mae", 5 / 6.0);
    check_value(&r, 2, "r2", 1 - 13 / spread);
    assert_true(r.m.top1 < 0 && r.m.value[0].lower_is_better && !r.m.value[2].lower_is_better);
    rig_close(&r);
}

static void test_equal_targets_leave_r2_undefined(void **state)
{
    float x[] = { 1, 2 }, y[] = { 3, 3 };
    struct pare_tensor tx = TENSOR(PARE_F32, x, 2, 1), ty = TENSOR(PARE_F32, y, 2);
    struct rig r;

    (void)state;
    rig_open(&r, &tx, &ty);
    expect_task(&r, "regression", 3);
    assert_true(isnan(r.m.value[2].value));
    rig_close(&r);
}

static void test_integers_for_one_output(void **state)
{
    float x[] = { 1, 7, 3 };
    int64_t age[] = { 1, 5, 3 }, yes[] = { 1, 1, 0 };
    struct pare_tensor tx = TENSOR(PARE_F32, x, 3, 1), ty = TENSOR(PARE_I64, age, 3);
    struct rig r;

    (void)state;
    rig_open(&r, &tx, &ty);
    expect_task(&r, "regression", 3);
    check_value(&r, 0, "mse", 4.0 / 3);
    rig_close(&r);
    ty.data = yes;
    rig_open(&r, &tx, &ty);
    expect_task(&r, "multi-label", 2);
    check_value(&r, 1, "label-accuracy", 2.0 / 3);
    rig_close(&r);
}

/* Two items of 1 x 3 pixels and 2 classes; class 1 wins where its score is larger. */
static void test_class_maps_are_a_segmentation(void **state)
{
    float x[] = { 0, 0, 1, 1, 1, 0, 1, 1, 1, 0, 0, 0 };
    int64_t y[] = { 1, 0, 0, 0, 0, 255 };
    struct pare_tensor tx = TENSOR(PARE_F32, x, 2, 2, 1, 3), ty = TENSOR(PARE_I64, y, 2, 1, 3);
    struct pare_tensor channel = TENSOR(PARE_I64, y, 2, 1, 1, 3);
    struct pare_given ignore = { "ignore_index", "255" };
    struct pare_evaluate_opts o = { .size = sizeof(o),
                                    .threads = 1,
                                    .given = &ignore,
                                    .n_given = 1 };
    struct rig r;

    (void)state;
    rig_open(&r, &tx, &ty);
    if (pare_evaluate(r.model, r.data, &o, &r.m, &r.err))
        fail_msg("%s", r.err.msg);
    assert_string_equal(r.m.task, "segmentation");
    check_value(&r, 0, "mean-iou", (3.0 / 4 + 1.0 / 2) / 2);
    check_value(&r, 1, "pixel-accuracy", 4.0 / 5);
    rig_close(&r);
    rig_open(&r, &tx, &channel); /* masks are often stored with a channel */
    assert_int_equal(pare_evaluate(r.model, r.data, &o, &r.m, &r.err), 0);
    check_value(&r, 1, "pixel-accuracy", 4.0 / 5);
    expect_error(&r, NULL, NULL, NULL, "label 255");
    y[5] = 7;
    rig_close(&r);
    rig_open(&r, &tx, &ty);
    expect_error(&r, NULL, NULL, NULL, "labels of 'memory' are up to 7, but the model has 2");
    rig_close(&r);
}

/* One score per pixel: above 0 means 1.  Masks may be integers or numbers, with or without a
 * dimension of 1. */
static void test_one_channel_distinguishes_two_classes(void **state)
{
    float x[] = { 1, -1, 1, -1 }, f[] = { 1, 0, 0, 0 };
    int64_t y[] = { 1, 0, 0, 0 };
    struct pare_tensor tx = TENSOR(PARE_F32, x, 2, 1, 1, 2);
    struct pare_tensor label[] = { TENSOR(PARE_I64, y, 2, 1, 2), TENSOR(PARE_I64, y, 2, 1, 1, 2),
                                   TENSOR(PARE_F32, f, 2, 1, 1, 2), TENSOR(PARE_F32, f, 2, 1, 2) };
    struct rig r;

    (void)state;
    for (int i = 0; i < 4; i++) {
        rig_open(&r, &tx, &label[i]);
        expect_task(&r, "segmentation", 2);
        check_value(&r, 0, "mean-iou", (1.0 / 2 + 2.0 / 3) / 2);
        check_value(&r, 1, "pixel-accuracy", 3.0 / 4);
        rig_close(&r);
    }
}

/* Masks of 0 and 255 would train toward 255. */
static void test_masks_of_bytes_are_refused(void **state)
{
    float x[] = { 1, -1, 1, -1 };
    int64_t y[] = { 255, 0, 0, 0 };
    struct pare_tensor tx = TENSOR(PARE_F32, x, 2, 1, 1, 2), ty = TENSOR(PARE_I64, y, 2, 1, 2);
    struct rig r;

    (void)state;
    rig_open(&r, &tx, &ty);
    expect_error(&r, NULL, NULL, NULL, "masks of 'memory' are 0 to 255, bce needs 0 to 1");
    rig_close(&r);
}

static void test_unit_vectors_are_embeddings(void **state)
{
    float x[2 * 16] = { 2, 0 }, y[2 * 16] = { 1, 0 };
    struct pare_tensor tx = TENSOR(PARE_F32, x, 2, 16), ty = TENSOR(PARE_F32, y, 2, 16);
    struct rig r;

    (void)state;
    x[16] = x[17] = 3; /* 45 degrees */
    y[17] = -0.6f;
    y[16] = 0.8f;
    rig_open(&r, &tx, &ty);
    expect_task(&r, "embedding", 2);
    check_value(&r, 0, "cosine", (1 + 0.2 / sqrt(2)) / 2);
    rig_close(&r);
}

static void test_scores_that_are_not_numbers_are_wrong(void **state)
{
    float x[] = { NAN, NAN, NAN, 1, NAN, 0, 2, 1, 0, 2, 1, NAN };
    int64_t y[] = { 0, 0, 0, 0 }, bits[12] = { 0 };
    struct pare_tensor tx = TENSOR(PARE_F32, x, 4, 3), ty = TENSOR(PARE_I64, y, 4),
                       many = TENSOR(PARE_I64, bits, 4, 3), maps = TENSOR(PARE_F32, x, 1, 3, 2, 2),
                       map = TENSOR(PARE_I64, y, 1, 2, 2);
    struct rig r;

    (void)state;
    rig_open(&r, &tx, &ty);
    expect_task(&r, "classification", 1);
    check_value(&r, 0, "top-1", 0.25);
    assert_true(fabs(r.m.top1 - 0.25) < 1e-12);
    rig_close(&r);
    rig_open(&r, &tx, &many);
    assert_int_equal(rig_run(&r, NULL, "multi-label", NULL), 0);
    check_value(&r, 1, "label-accuracy", 2.0 / 12);
    check_value(&r, 2, "exact-match", 0);
    rig_close(&r);
    rig_open(&r, &maps, &map); /* scores of a position: NaN 0 2; NaN 2 1; NaN 0 1; 1 1 NaN */
    assert_int_equal(rig_run(&r, NULL, NULL, NULL), 0);
    assert_string_equal(r.m.task, "segmentation");
    check_value(&r, 0, "mean-iou", 0);
    check_value(&r, 1, "pixel-accuracy", 0);
    rig_close(&r);
}

/* Outputs of Sqrt are not numbers, those of Reciprocal are infinite. */
static void test_agreement_with_outputs_that_are_not_numbers(void **state)
{
    float x[] = { -1, -2, -4, 0, -8, -16 }, far[] = { 3, -INFINITY, 3, -INFINITY };
    struct pare_tensor tx = TENSOR(PARE_F32, x, 2, 3), masked = TENSOR(PARE_F32, far, 2, 2);
    struct pare_agreement g;
    struct pare_model *other;
    struct rig r;

    (void)state;
    rig_open(&r, &tx, NULL);
    other = model_of("Sqrt", &tx);
    assert_int_equal(pare_compare(other, r.model, r.data, NULL, &g, &r.err), 0);
    assert_true(isnan(g.kl) && isnan(g.snr) && isnan(g.max_difference));
    assert_true(g.same_top1 == 0);
    pare_model_free(other);
    other = model_of("Reciprocal", &tx);
    assert_int_equal(pare_compare(other, r.model, r.data, NULL, &g, &r.err), 0);
    assert_true(isinf(g.snr) && g.snr < 0 && isinf(g.max_difference) && isfinite(g.cosine));
    pare_model_free(other);
    rig_close(&r);
    rig_open(&r, &masked, NULL);
    other = model_of("Relu", &masked); /* probabilities 1, 0 and 1 / (1 + exp(-3)), 1 - that */
    assert_int_equal(pare_compare(other, r.model, r.data, NULL, &g, &r.err), 0);
    assert_true(fabs(g.kl - log1p(exp(-3))) < 1e-6);
    pare_model_free(other);
    rig_close(&r);
}

/* 300 items have looks at 64, 128, 256 and 300: a bound that is read at a look holds for all. */
static void test_bound_of_an_early_end_holds_for_all_looks(void **state)
{
    float x[600];
    int64_t y[300] = { 0 };
    struct pare_tensor tx = TENSOR(PARE_F32, x, 300, 2), ty = TENSOR(PARE_I64, y, 300);
    struct pare_paired_opts o = { .size = sizeof(o), .batch = 32, .early = true, .max_drop = 0.2 };
    struct pare_paired p;
    struct rig r;

    (void)state;
    for (int i = 0; i < 600; i++)
        x[i] = (float)(i % 2);
    rig_open(&r, &tx, &ty);
    assert_int_equal(pare_compare_paired(r.model, r.model, r.data, &o, &p, &r.err), 0);
    assert_int_equal(p.n, 64);
    assert_int_equal(p.decided, 1);
    assert_true(fabs(p.bound - pare_pairs_upper(&(struct pare_pairs){ 64, 0, 0 }, 0.05 / 6)) <
                1e-9);
    rig_close(&r);
}

/* Every allocation of an evaluation fails once. */
static void test_evaluation_survives_failing_allocations(void **state)
{
    float x[] = { 1, 2, 3, 4 }, y[] = { 1, 2, 3, 5 };
    struct pare_tensor tx = TENSOR(PARE_F32, x, 2, 2), ty = TENSOR(PARE_F32, y, 2, 2);
    struct rig r;
    int rc = PARE_ENOMEM;

    (void)state;
    rig_open(&r, &tx, &ty);
    for (int n = 1; rc == PARE_ENOMEM && n < 10000; n++) {
        pare_oom_countdown = n;
        rc = rig_run(&r, NULL, NULL, NULL);
        pare_oom_countdown = 0;
    }
    assert_int_equal(rc, 0);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_classification_counts_the_highest_scores),
        cmocka_unit_test(test_top5_needs_more_than_five_classes),
        cmocka_unit_test(test_masks_of_another_shape),
        cmocka_unit_test(test_labels_of_0_and_1_are_multi_label),
        cmocka_unit_test(test_one_hot_rows_are_refused),
        cmocka_unit_test(test_numbers_are_a_regression),
        cmocka_unit_test(test_equal_targets_leave_r2_undefined),
        cmocka_unit_test(test_integers_for_one_output),
        cmocka_unit_test(test_class_maps_are_a_segmentation),
        cmocka_unit_test(test_one_channel_distinguishes_two_classes),
        cmocka_unit_test(test_masks_of_bytes_are_refused),
        cmocka_unit_test(test_unit_vectors_are_embeddings),
        cmocka_unit_test(test_scores_that_are_not_numbers_are_wrong),
        cmocka_unit_test(test_agreement_with_outputs_that_are_not_numbers),
        cmocka_unit_test(test_bound_of_an_early_end_holds_for_all_looks),
        cmocka_unit_test(test_evaluation_survives_failing_allocations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

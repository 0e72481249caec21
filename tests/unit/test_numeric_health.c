/* test_numeric_health.c - NaN, infinity and dead layers give defined results or an error.
 *
 * Every pruner and quantizer, speedup and training run on networks with one damaged layer: NaN,
 * infinity, all 0, channels of 0, numbers near the limits of float32; also with sparsities of 0 and
 * 1, and on layers of one weight.
 */
#include "make_model.h"

#include <pare/compress.h>

#include <float.h>
#include <math.h>
#include <stdio.h>

#include "prune/prune_method.h"
#include "quant/quant_method.h"
#include "compress/compression.h"

static const int64_t chw[] = { 1, 8, 8 };

enum damage {
    NO_DAMAGE,
    ONE_NAN,
    ONE_INF,
    MINUS_INF,
    DEAD,
    ZERO_CHANNELS,
    HUGE_NUMBERS,
    TINY,
    N_DAMAGES
};
static const char *const damages[] = { "no damage",    "a NaN",        "an infinity",
                                       "-infinity",    "a dead layer", "channels of 0",
                                       "huge numbers", "tiny numbers" };

static struct {
    int succeeded, refused;
} totals;

/* Damages the second layer's weights. */
static void damage_layer(struct pare_model *m, enum damage h)
{
    struct pare_value *v = NULL;
    struct pare_err err;
    int64_t n;
    int found = 0;

    for (int i = 0; i < m->graph->n_values && found < 2; i++)
        if (m->graph->value[i]->flags & PARE_V_CONST && m->graph->value[i]->t.rank > 1) {
            v = m->graph->value[i];
            found++;
        }
    assert_non_null(v);
    assert_int_equal(pare_model_own(m, v, &err), 0);
    n = pare_numel(&v->t);
    for (int64_t i = 0; i < n; i++) {
        float *x = &pare_f32_mut(&v->t)[i];

        if (h == DEAD || (h == ZERO_CHANNELS && i / (n / v->t.dim[0]) % 2))
            *x = 0;
        if (h == HUGE_NUMBERS)
            *x = *x > 0 ? FLT_MAX : -FLT_MAX;
        if (h == TINY)
            *x = *x > 0 ? 1e-44f : -1e-44f;
    }
    if (h == ONE_NAN)
        pare_f32_mut(&v->t)[n / 2] = NAN;
    if (h == ONE_INF || h == MINUS_INF)
        pare_f32_mut(&v->t)[n / 2] = h == ONE_INF ? INFINITY : -INFINITY;
}

/* Expects success, or an error with a message; counts both. */
static int expect_success_or_error(int rc, const struct pare_err *err, const char *algorithm,
                                   const char *what)
{
    if (rc && (rc != err->code || !err->msg[0] || rc == PARE_ENOMEM))
        fail_msg("%s with %s: code %d, '%s'", algorithm, what, rc, err->msg);
    totals.succeeded += !rc;
    totals.refused += rc != 0;
    return rc;
}

/* Expects masks of 0 or 1, and weights of 0 where the mask is 0. */
static void check_masks(struct pare_compression *r, const char *algorithm, const char *what)
{
    for (int i = 0; i < r->n_layers; i++) {
        const struct pare_layer *l = &r->layer[i];
        const uint8_t *mask = l->mask.data;

        for (int64_t k = 0; k < pare_numel(&l->mask); k++)
            if (mask[k] > 1 || (!mask[k] && pare_f32(&l->weight->t)[k] != 0))
                fail_msg("%s with %s: mask %d, weight %g", algorithm, what, mask[k],
                         (double)pare_f32(&l->weight->t)[k]);
    }
}

static void compress_and_train(struct pare_model *m, const struct pare_compression_opts *o,
                               const char *what)
{
    const char *algorithm = o->pruner ? o->pruner : o->quantizer;
    struct pare_training *l = NULL;
    struct pare_compression *r = NULL;
    struct pare_err err = { 0 };
    int rc;

    rc = pare_training_open(m, "digits", "limit=32 batch=16 epochs=1 threads=1 valid=none", &l,
                            &err);
    if (rc)
        fail_msg("%s with %s: %s", algorithm, what, err.msg);
    rc = pare_compression_new(m, o, &r, &err);
    if (!rc)
        rc = pare_compression_follow(r, l, &err);
    if (!rc)
        rc = pare_compression_compress(r, &err);
    if (!rc)
        rc = pare_training_run(l, NULL, NULL, &err);
    if (!expect_success_or_error(rc, &err, algorithm, what) && o->pruner)
        check_masks(r, algorithm, what);
    pare_training_free(l);
    pare_compression_free(r);
}

static struct pare_model *damaged_lenet(enum damage h)
{
    struct pare_model *m;
    struct pare_err err;

    if (pare_model_new("lenet", chw, 10, 1, &m, &err))
        fail_msg("%s", err.msg);
    damage_layer(m, h);
    return m;
}

static void test_pruning_damaged_layers(void **state)
{
    const struct pare_algorithm *p;

    (void)state;
    for (int i = 0; (p = pare_pruners[i]); i++)
        for (int h = 0; h < N_DAMAGES; h++) {
            struct pare_model *m = damaged_lenet((enum damage)h);

            compress_and_train(m,
                               &(struct pare_compression_opts){
                                   .pruner = p->name,
                                   .config = "[{\"op_types\": [\"Conv2d\"], "
                                             "\"sparsity\": 0.5}]",
                                   .threads = 1 },
                               damages[h]);
            pare_model_free(m);
        }
    print_message("pruners: %d succeeded, %d refused\n", totals.succeeded, totals.refused);
}

static void test_quantizing_damaged_layers(void **state)
{
    const struct pare_algorithm *q;

    (void)state;
    totals.succeeded = totals.refused = 0;
    for (int i = 0; (q = pare_quantizers[i]); i++)
        for (int h = 0; h < N_DAMAGES; h++) {
            struct pare_model *m = damaged_lenet((enum damage)h);

            compress_and_train(m,
                               &(struct pare_compression_opts){
                                   .quantizer = q->name,
                                   .config = "[{\"op_types\": [\"Conv2d\"], "
                                             "\"quant_types\": [\"weight\"], "
                                             "\"quant_bits\": 8}]",
                                   .threads = 1 },
                               damages[h]);
            pare_model_free(m);
        }
    print_message("quantizers: %d succeeded, %d refused\n", totals.succeeded, totals.refused);
}

static void test_extreme_sparsities(void **state)
{
    static const char *const all[] = { "0", "1", "0.999999", "1e-9" };
    const struct pare_algorithm *p;

    (void)state;
    totals.succeeded = totals.refused = 0;
    for (int i = 0; (p = pare_pruners[i]); i++)
        for (size_t k = 0; k < sizeof(all) / sizeof(*all); k++) {
            struct pare_model *m = damaged_lenet(NO_DAMAGE);

            compress_and_train(
                m,
                &(struct pare_compression_opts){
                    .pruner = p->name,
                    .config = pare_sprintf(pool, "[{\"op_types\": [\"Conv2d\"], \"sparsity\": %s}]",
                                           all[k]),
                    .threads = 1 },
                all[k]);
            pare_model_free(m);
        }
    print_message("sparsities: %d succeeded, %d refused\n", totals.succeeded, totals.refused);
}

/* A convolution and a product of one weight each. */
static struct pare_model *make_one_weight_model(void)
{
    struct build b = { .opset = 17 };
    const char *x = build_input(&b, PARE_F32, INTS(-1, 1, 8, 8)), *y;

    y = build_node(&b, "Conv", NAMES(x, build_floats(&b, INTS(1, 1, 1, 1), (float[]){ 0.5f })),
                   NOTHING);
    y = build_node(&b, "GlobalAveragePool", NAMES(y), NOTHING);
    y = build_node(&b, "Flatten", NAMES(y), NOTHING);
    y = build_node(&b, "Gemm", NAMES(y, build_floats(&b, INTS(1, 1), (float[]){ 2 })), NOTHING);
    y = build_node(&b, "Expand", NAMES(y, build_ints(&b, INTS(1, 10))), NOTHING);
    build_output(&b, y);
    return build_model(&b);
}

static void test_layers_of_one_weight(void **state)
{
    const struct pare_algorithm *p;
    const struct pare_algorithm *q;

    (void)state;
    totals.succeeded = totals.refused = 0;
    for (int i = 0; (p = pare_pruners[i]); i++) {
        struct pare_model *m = make_one_weight_model();

        compress_and_train(m,
                           &(struct pare_compression_opts){
                               .pruner = p->name,
                               .config = "[{\"op_types\": [\"default\"], \"sparsity\": 0.5}]",
                               .threads = 1 },
                           "one weight");
        pare_model_free(m);
    }
    for (int i = 0; (q = pare_quantizers[i]); i++) {
        struct pare_model *m = make_one_weight_model();

        compress_and_train(m,
                           &(struct pare_compression_opts){
                               .quantizer = q->name,
                               .config = "[{\"op_types\": [\"default\"], "
                                         "\"quant_types\": [\"weight\", \"input\"], "
                                         "\"quant_bits\": 8}]",
                               .threads = 1 },
                           "one weight");
        pare_model_free(m);
    }
    print_message("one weight: %d succeeded, %d refused\n", totals.succeeded, totals.refused);
}

/* Models with infinite outputs cannot be verified: speedup gives a model or an error. */
static void test_speedup_of_damaged_layers(void **state)
{
    (void)state;
    totals.succeeded = totals.refused = 0;
    for (int h = 0; h < N_DAMAGES; h++) {
        struct pare_speedup_opts o = { .threads = 1 };
        struct pare_model *m = damaged_lenet((enum damage)h), *smaller = NULL;
        struct pare_speedup_report report;
        struct pare_err err = { 0 };
        int rc = pare_speedup(m, &o, pool, &smaller, &report, &err);

        expect_success_or_error(rc, &err, "speedup", damages[h]);
        if (rc && (h == NO_DAMAGE || h == DEAD || h == ZERO_CHANNELS || h == TINY))
            fail_msg("speedup with %s: %s", damages[h], err.msg);
        if (h == ZERO_CHANNELS || h == DEAD)
            assert_true(report.params_left < report.params);
        pare_model_free(smaller);
        pare_model_free(m);
    }
    print_message("speedup: %d succeeded, %d refused\n", totals.succeeded, totals.refused);
}

/* Training stops with an error when the loss is not finite. */
static void test_training_damaged_layers(void **state)
{
    (void)state;
    for (int h = 0; h < N_DAMAGES; h++) {
        struct pare_model *m = damaged_lenet((enum damage)h);
        struct pare_training *l = NULL;
        struct pare_err err = { 0 };
        int rc = pare_training_open(m, "digits", "limit=32 batch=16 epochs=2 threads=1 valid=none",
                                    &l, &err);

        assert_int_equal(rc, 0);
        rc = pare_training_run(l, NULL, NULL, &err);
        expect_success_or_error(rc, &err, "training", damages[h]);
        if (rc && (h == NO_DAMAGE || h == DEAD || h == ZERO_CHANNELS || h == TINY))
            fail_msg("training with %s: %s", damages[h], err.msg);
        if (!rc && (h == ONE_NAN || h == ONE_INF || h == MINUS_INF || h == HUGE_NUMBERS))
            fail_msg("training with %s gives no error", damages[h]);
        if (rc)
            print_message("%s: %s\n", damages[h], err.msg);
        pare_training_free(l);
        pare_model_free(m);
    }
}

/* With the reference kernels, a NaN in the input gives NaN in the output; fast kernels may lose it
 * (oneDNN's Relu replaces it by 0), which 'pare run' warns of. */
static void test_nan_inputs(void **state)
{
    static float x[64];

    (void)state;
    for (int i = 0; i < 4; i++) {
        struct pare_tensor in = { PARE_F32, 4, { 1, 1, 8, 8 }, x }, out;
        struct pare_plan_opts o = { .threads = 1, .reference = i % 2 };
        struct pare_model *m = damaged_lenet(NO_DAMAGE);
        struct pare_plan *p;
        struct pare_err err;
        bool finite = true;

        for (int k = 0; k < 64; k++)
            x[k] = i < 2 ? NAN : 0.5f;
        assert_int_equal(pare_plan_make(m, &o, &p, &err), 0);
        assert_int_equal(pare_plan_execute(p, &in, &out, &err), 0);
        for (int k = 0; k < 10; k++)
            finite &= isfinite(pare_f32(&out)[k]) != 0;
        if (i)
            assert_int_equal(finite, i >= 2);
        pare_plan_free(p);
        pare_model_free(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pruning_damaged_layers),
        cmocka_unit_test(test_quantizing_damaged_layers),
        cmocka_unit_test(test_extreme_sparsities),
        cmocka_unit_test(test_layers_of_one_weight),
        cmocka_unit_test(test_speedup_of_damaged_layers),
        cmocka_unit_test(test_training_damaged_layers),
        cmocka_unit_test(test_nan_inputs),
    };

    return cmocka_run_group_tests(tests, make_pool, drop_pool);
}

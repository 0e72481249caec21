/* test_analyze.c - parameter and FLOP counts as in NNI; sensitivity and quantization error per
 * layer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "analyze/quant_error.h"
#include "analyze/sensitivity.h"
#include "graph/macs.h"
#include "make_model.h"
#include "onnx/model.h"

static struct pare_err err;

#define OK(call)                     \
    do {                             \
        int rc_ = (call);            \
        if (rc_)                     \
            fail_msg("%s", err.msg); \
    } while (0)

/* ---- counts: the values of NNI's FlopsCounterTest (spec N16) -------------------------------- */

static const char *zeros(struct build *b, int rank, const int64_t *dim)
{
    struct pare_tensor t = build_tensor(PARE_F32, rank, dim);

    return build_floats(b, rank, dim, t.data);
}

static const char *conv(struct build *b, const char *x, const char *w, const char *bias)
{
    return build_node(b, "Conv", NAMES(x, w, bias), NOTHING);
}

static void expect_counts(const struct build *b, int64_t batch, bool full, double flops,
                          int64_t params)
{
    struct pare_model *m = build_model(b);
    struct pare_graph *g = pare_graph_clone(pool, m->graph, &err);
    struct pare_count n;

    assert_non_null(g);
    pare_graph_bind(g, batch);
    OK(pare_graph_infer(g, false, &err));
    OK(pare_count(pool, g, batch, full, &n, &err));
    assert_int_equal(n.unknown, 0);
    assert_true(n.flops == flops);
    assert_int_equal(n.params, params);
    pare_model_free(m);
}

/* Conv 3 to 5, BatchNorm, LeakyReLU, bilinear upsampling to 2x2, adaptive average pooling to 2x2
 * of 2x2 (so its window is 1x1), Linear 20 to 10; the input is (N, 3, 2, 2). */
static void small_model(struct build *b)
{
    const int64_t of_w[] = { 5, 3, 1, 1 }, of_5[] = { 5 }, of_fc[] = { 10, 20 }, of_10[] = { 10 };
    const float ones[] = { 1, 1, 1, 1, 1 }, factors[] = { 1, 1, 1, 1 };
    const char *x = build_input(b, PARE_F32, 4, (int64_t[]){ -1, 3, 2, 2 });
    const char *one = build_floats(b, 1, of_5, ones), *none = zeros(b, 1, of_5);

    x = conv(b, x, zeros(b, 4, of_w), zeros(b, 1, of_5));
    x = build_node(b, "BatchNormalization",
                   NAMES(x, zeros(b, 1, of_5), zeros(b, 1, of_5), none, one), NOTHING);
    x = build_node(b, "LeakyRelu", NAMES(x), NOTHING);
    x = build_node(b, "Resize", NAMES(x, "", build_floats(b, 1, (int64_t[]){ 4 }, factors)),
                   at_text("mode", "linear"));
    x = build_node(b, "AveragePool", NAMES(x), at_ints("kernel_shape", INTS(1, 1)));
    x = build_node(b, "Flatten", NAMES(x), NOTHING);
    x = build_node(b, "Gemm", NAMES(x, zeros(b, 2, of_fc), zeros(b, 1, of_10)),
                   at_int("transB", 1));
    build_output(b, x);
}

static void test_counts_with_all_operators(void **state)
{
    struct build b = { .opset = 13 };

    (void)state;
    small_model(&b);
    expect_counts(&b, 1, true, 610, 240);
    expect_counts(&b, 2, true, 610, 240);
    /* Without biases and the other operators: 60 + 200, and without the normalization's
     * parameters. */
    expect_counts(&b, 1, false, 260, 230);
}

/* One convolution, then another one five times: its parameters count once. */
static void test_shared_weights_count_once(void **state)
{
    struct build b = { .opset = 13 };
    const char *x = build_input(&b, PARE_F32, 4, (int64_t[]){ -1, 3, 2, 2 });
    const char *w = zeros(&b, 4, (int64_t[]){ 5, 5, 1, 1 });
    const char *bias = zeros(&b, 1, (int64_t[]){ 5 });

    (void)state;
    x = conv(&b, x, zeros(&b, 4, (int64_t[]){ 5, 3, 1, 1 }), zeros(&b, 1, (int64_t[]){ 5 }));
    for (int i = 0; i < 5; i++)
        x = conv(&b, x, w, bias);
    build_output(&b, x);
    expect_counts(&b, 1, false, 560, 50);
}

/* An LSTM of 3 steps, 4 in, 5 out: 4 (h (i + h) + h) + 4 h for each step. */
static void test_lstm_counts(void **state)
{
    struct build b = { .opset = 14 };
    const char *x = build_input(&b, PARE_F32, 3, (int64_t[]){ 3, 1, 4 }), *y;

    (void)state;
    y = build_node(&b, "LSTM",
                   NAMES(x, zeros(&b, 3, (int64_t[]){ 1, 20, 4 }),
                         zeros(&b, 3, (int64_t[]){ 1, 20, 5 })),
                   at_int("hidden_size", 5));
    build_output(&b, y);
    expect_counts(&b, 1, false, 3 * (4 * (5 * 9 + 5) + 20), 180);
}

/* ---- sensitivity -------------------------------------------------------------------------- */

/* A known metric: the fraction of the convolution's weights that are not 0. */
struct probe {
    const char *weight;
    int calls;
};

static int fraction_kept(void *user, const struct pare_model *m, double *metric, struct pare_err *e)
{
    struct probe *p = user;
    const struct pare_value *v = pare_graph_find(m->graph, p->weight);
    int64_t n = pare_numel(&v->t), kept = 0;

    (void)e;
    for (int64_t i = 0; i < n; i++)
        kept += pare_f32(&v->t)[i] != 0;
    p->calls++;
    *metric = (double)kept / (double)n;
    return 0;
}

static struct pare_model *lenet(void)
{
    struct pare_model *m;

    OK(pare_model_new("lenet", (const int64_t[]){ 1, 28, 28 }, 10, 1, &m, &err));
    return m;
}

static void pack_model(const struct pare_model *m, void **bytes, size_t *len)
{
    OK(pare_model_pack(m, pool, bytes, len, &err));
}

static void test_sensitivity_of_each_layer(void **state)
{
    static const double steps[] = { 0.25, 0.5, 0.75 };
    struct pare_model *m = lenet();
    struct probe p = { .weight = "conv2.weight" };
    struct pare_sensitivity_setup o = { .pruner = "l1",
                                        .sparsity = { steps, 3 },
                                        .measure = fraction_kept,
                                        .user = &p };
    struct pare_sensitivity *s, *again;
    void *before, *after;
    size_t n_before, n_after;

    (void)state;
    pack_model(m, &before, &n_before);
    OK(pare_sensitivity_new(m, &o, &s, &err));
    assert_int_equal(s->n_layers, 3); /* fc2 makes the outputs: its channels cannot be removed */
    assert_true(s->base == 1);
    OK(pare_sensitivity_run(s, &err));
    assert_int_equal(p.calls, 1 + 9);
    for (int i = 0; i < s->n_layers; i++)
        for (int k = 0; k < 3; k++) {
            double want = strcmp(s->name[i], "conv2") ? 1 : 1 - (int)(50 * steps[k]) / 50.0;

            assert_true(fabs(s->metric[i * 3 + k] - want) < 1e-12);
        }
    /* Items do not depend on each other or on their order. */
    OK(pare_sensitivity_new(m, &o, &again, &err));
    for (int i = 8; i >= 0; i--)
        OK(pare_sensitivity_item(again, i, &err));
    assert_memory_equal(again->metric, s->metric, 9 * sizeof(double));
    pare_sensitivity_free(again);
    pare_sensitivity_free(s);
    pack_model(m, &after, &n_after);
    assert_int_equal(n_before, n_after);
    assert_memory_equal(before, after, n_before);
    pare_model_free(m);
}

/* Of a layer with 40 % of its channels removed before, sparsity 0.5 removes half of the others. */
static void test_sensitivity_of_a_pruned_layer(void **state)
{
    static const double steps[] = { 0.5 };
    struct pare_model *m = lenet();
    struct pare_value *v = pare_graph_find(m->graph, "conv2.weight");
    struct probe p = { .weight = "conv2.weight" };
    struct pare_sensitivity_setup o = { .pruner = "l1",
                                        .sparsity = { steps, 1 },
                                        .layers = { (const char *[]){ "re:conv[23]" }, 1 },
                                        .measure = fraction_kept,
                                        .user = &p };
    struct pare_sensitivity *s;
    int64_t n = pare_numel(&v->t);

    (void)state;
    OK(pare_model_own(m, v, &err));
    memset(v->t.data, 0, (size_t)(n * 2 / 5) * sizeof(float)); /* 20 of 50 channels */
    OK(pare_sensitivity_new(m, &o, &s, &err));
    assert_int_equal(s->n_layers, 1);
    assert_true(fabs(s->already[0] - 0.4) < 1e-12);
    assert_true(fabs(s->base - 0.6) < 1e-12);
    OK(pare_sensitivity_run(s, &err));
    assert_true(fabs(s->metric[0] - 0.3) < 1e-12);
    pare_sensitivity_free(s);
    pare_model_free(m);
}

/* Number of sparsities of conv2 measured until this mode stops; the metrics are 0.9, 0.8, ...
 * 0.1. */
static int count_measured(const char *mode, double value)
{
    struct pare_model *m = lenet();
    struct probe p = { .weight = "conv2.weight" };
    struct pare_sensitivity_setup o = { .pruner = "level",
                                        .layers = { (const char *[]){ "conv2" }, 1 },
                                        .early_stop = mode,
                                        .early_stop_value = value,
                                        .measure = fraction_kept,
                                        .user = &p };
    struct pare_sensitivity *s;
    int n = 0;

    OK(pare_sensitivity_new(m, &o, &s, &err));
    OK(pare_sensitivity_run(s, &err));
    for (int i = 0; i < s->n_sparsities; i++)
        n += !isnan(s->metric[i]);
    assert_int_equal(s->n_sparsities, 9);
    assert_int_equal(n, p.calls - 1);
    pare_sensitivity_free(s);
    pare_model_free(m);
    return n;
}

static void test_early_stop_modes(void **state)
{
    (void)state;
    assert_int_equal(count_measured("none", 0), 9);
    assert_int_equal(count_measured("minimize", 0.55), 5);
    assert_int_equal(count_measured("maximize", 0.55), 1);
    assert_int_equal(count_measured("dropped", 0.35), 4);
    assert_int_equal(count_measured("raised", 0.1), 9);
    assert_int_equal(count_measured("raised", -0.5), 1);
}

static void expect_error(struct pare_sensitivity_setup o, const char *why)
{
    struct pare_model *m = lenet();
    struct probe p = { .weight = "conv2.weight" };
    struct pare_sensitivity *s;

    o.measure = fraction_kept;
    o.user = &p;
    assert_int_not_equal(pare_sensitivity_new(m, &o, &s, &err), 0);
    if (!strstr(err.msg, why))
        fail_msg("expected '%s' in: %s", why, err.msg);
    pare_model_free(m);
}

static void test_wrong_options_are_errors(void **state)
{
    static const double falling[] = { 0.5, 0.25 }, whole[] = { 1 };
    static const char *const typo[] = { "conv3" }, *const bad[] = { "re:(" };

    (void)state;
    expect_error((struct pare_sensitivity_setup){ .pruner = "taylor" }, "needs only weights");
    expect_error((struct pare_sensitivity_setup){ .pruner = "agp" }, "needs only weights");
    expect_error((struct pare_sensitivity_setup){ .pruner = "missing" }, "missing");
    expect_error((struct pare_sensitivity_setup){ .pruner = "l1", .sparsity = { falling, 2 } },
                 "must be ascending");
    expect_error((struct pare_sensitivity_setup){ .pruner = "l1", .sparsity = { whole, 1 } },
                 "less than 1");
    expect_error((struct pare_sensitivity_setup){ .pruner = "l1", .layers = { typo, 1 } },
                 "did you mean");
    expect_error((struct pare_sensitivity_setup){ .pruner = "l1", .layers = { bad, 1 } },
                 "pattern");
    expect_error((struct pare_sensitivity_setup){ .pruner = "l1", .early_stop = "soon" },
                 "dropped");
}

/* ---- quantization error ---------------------------------------------------------------------- */

static float test_value(int64_t i)
{
    return (float)((i * 7919 % 1000) - 499) / 300;
}

/* x quantized to q levels on each side of 0, the last one at `largest`. */
static double quantized(double x, double largest, double q)
{
    double scale = largest / q;

    return nearbyint(x / scale) * scale;
}

/* A Linear of 6 to 4, weights only: all five results against sums in float64. */
static void test_quantization_error_of_one_layer(void **state)
{
    enum { N = 3, K = 6, M = 4 };
    struct build b = { .opset = 13 };
    const char *x = build_input(&b, PARE_F32, 2, (int64_t[]){ N, K });
    struct pare_tensor w = build_tensor(PARE_F32, 2, (int64_t[]){ M, K });
    struct pare_tensor in = build_tensor(PARE_F32, 2, (int64_t[]){ N, K });
    struct pare_qerror_opts o = { .bits = { (int64_t[]){ 4 }, 1 }, .weights = true, .in = &in };
    double ww = 0, noise = 0, yy = 0, zz = 0, yz = 0, off = 0;
    struct pare_qerror *q;
    struct pare_model *m;

    (void)state;
    for (int i = 0; i < M * K; i++)
        pare_f32_mut(&w)[i] = test_value(i + 5);
    for (int i = 0; i < N * K; i++)
        pare_f32_mut(&in)[i] = test_value(i * 3 + 1);
    build_output(&b, build_node(&b, "Gemm", NAMES(x, build_floats(&b, 2, w.dim, w.data)),
                                at_int("transB", 1)));
    m = build_model(&b);
    for (int j = 0; j < M; j++) {
        double largest = 0, r[K];

        for (int k = 0; k < K; k++)
            largest = fmax(largest, fabs((double)pare_f32(&w)[j * K + k]));
        for (int k = 0; k < K; k++) {
            double v = (double)pare_f32(&w)[j * K + k];

            r[k] = quantized(v, largest, 7);
            ww += v * v;
            noise += (v - r[k]) * (v - r[k]);
        }
        for (int i = 0; i < N; i++) {
            double y = 0, z = 0;

            for (int k = 0; k < K; k++) {
                y += (double)pare_f32(&in)[i * K + k] * (double)pare_f32(&w)[j * K + k];
                z += (double)pare_f32(&in)[i * K + k] * r[k];
            }
            yy += y * y;
            zz += z * z;
            yz += y * z;
            off += (y - z) * (y - z);
        }
    }
    OK(pare_qerror_new(m, &o, &q, &err));
    assert_int_equal(q->n_layers, 1);
    OK(pare_qerror_run(q, &err));
    assert_true(fabs(q->item[0].weight_db - 10 * log10(ww / noise)) < 1e-3);
    assert_true(fabs(q->item[0].out_db - 10 * log10(yy / off)) < 1e-3);
    assert_true(fabs(q->item[0].out_cos - yz / sqrt(yy * zz)) < 1e-6);
    assert_true(q->item[0].end_db == q->item[0].out_db);
    assert_true(q->item[0].end_cos == q->item[0].out_cos);
    pare_qerror_free(q);
    pare_model_free(m);
}

/* More bits are better, quantized inputs cost accuracy, the model is not changed, and layers are
 * independent. */
static void test_quantization_error_of_lenet(void **state)
{
    struct pare_model *m = lenet();
    struct pare_tensor in = build_tensor(PARE_F32, 4, (int64_t[]){ 4, 1, 28, 28 });
    struct pare_qerror_opts o = { .bits = { (int64_t[]){ 8, 4, 2 }, 3 }, .in = &in };
    struct pare_qerror *all, *only, *one;
    void *before, *after;
    size_t n_before, n_after;

    (void)state;
    for (int64_t i = 0; i < pare_numel(&in); i++)
        pare_f32_mut(&in)[i] = test_value(i);
    pack_model(m, &before, &n_before);
    OK(pare_qerror_new(m, &o, &all, &err));
    OK(pare_qerror_run(all, &err));
    assert_int_equal(all->n_layers, 4);
    o.weights = true;
    OK(pare_qerror_new(m, &o, &only, &err));
    OK(pare_qerror_run(only, &err));
    o.weights = false;
    o.layers = (struct pare_strs){ (const char *[]){ "fc1" }, 1 };
    OK(pare_qerror_new(m, &o, &one, &err));
    OK(pare_qerror_run(one, &err));
    for (int i = 0; i < 12; i++) {
        assert_true(i % 3 == 0 || all->item[i].out_db < all->item[i - 1].out_db);
        assert_true(all->item[i].out_db < only->item[i].out_db);
        assert_true(all->item[i].weight_db == only->item[i].weight_db);
        assert_true(all->item[i].out_cos > 0.5 && all->item[i].out_cos <= 1);
    }
    assert_memory_equal(one->item, all->item + 6, 3 * sizeof(*one->item));
    pare_qerror_free(one);
    pare_qerror_free(only);
    pare_qerror_free(all);
    pack_model(m, &after, &n_after);
    assert_int_equal(n_before, n_after);
    assert_memory_equal(before, after, n_before);
    pare_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts_with_all_operators),
        cmocka_unit_test(test_shared_weights_count_once),
        cmocka_unit_test(test_lstm_counts),
        cmocka_unit_test(test_sensitivity_of_each_layer),
        cmocka_unit_test(test_sensitivity_of_a_pruned_layer),
        cmocka_unit_test(test_early_stop_modes),
        cmocka_unit_test(test_wrong_options_are_errors),
        cmocka_unit_test(test_quantization_error_of_one_layer),
        cmocka_unit_test(test_quantization_error_of_lenet),
    };

    return cmocka_run_group_tests(tests, make_pool, drop_pool);
}

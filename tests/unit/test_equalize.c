/* test_equalize.c - cross-layer equalization and bias correction: same function, smaller
 * quantization error. */
#include "quant_rig.h"

#include "quant/equalize.h"
#include "onnx/fold_norm.h"

#define LEARN "optimizer=adam lr=3e-3 batch=32 threads=1 seed=1 "
#define WEIGHTS(bits)                                                                             \
    "[{\"quant_types\": [\"weight\"], \"op_types\": [\"Conv2d\", \"Linear\"], "                   \
    "\"quant_dtype\": \"int\", \"quant_scheme\": \"per_tensor_symmetric\", \"quant_bits\": " bits \
    "}]"

/* Consecutive convolutions (some grouped), a pool, Flatten, linear layers. */
static struct pare_flow build(struct pare_net *n, struct pare_flow x)
{
    struct pare_conv c = { .out = 12, .kernel = 3, .pad = 1, .bias = true };

    x = pare_net_relu(n, pare_net_batch_norm(n, pare_net_conv(n, x, "conv1", c), "bn1"), "relu1");
    c.group = 12;
    x = pare_net_relu(n, pare_net_batch_norm(n, pare_net_conv(n, x, "deep", c), "bn2"), "relu2");
    c = (struct pare_conv){ .out = 16, .kernel = 1, .bias = true };
    x = pare_net_apply(n, pare_net_conv(n, x, "point", c), "LeakyRelu", "leaky");
    c = (struct pare_conv){ .out = 16, .kernel = 3, .pad = 1, .group = 4 };
    x = pare_net_max_pool(n, pare_net_conv(n, x, "groups", c), "pool", 2);
    x = pare_net_linear(n, pare_net_flatten(n, x, "flatten"), "fc1", 24);
    return pare_net_linear(n, pare_net_relu(n, x, "relu3"), "fc2", n->classes);
}

static struct pare_arena *arena;
static void *bytes;
static size_t len;
static double float_accuracy;

static struct pare_model *load_trained(void)
{
    struct pare_model *m;

    ok(pare_model_parse(bytes, len, NULL, &m, &rig_err));
    return m;
}

static int setup(void **state)
{
    static const struct pare_network net = { .name = "deep", .build = build };
    struct pare_network_opts o = { .c = 1, .h = 8, .w = 8, .classes = 10, .seed = 1 };
    struct pare_model *m, *folded;
    struct job j;
    int n;

    (void)state;
    arena = pare_arena_new(1 << 16);
    ok(pare_network_make(&net, &o, &m, &rig_err));
    j = job_open(m, NULL, NULL, NULL, LEARN "epochs=6");
    ok(pare_training_run(j.training, NULL, NULL, &rig_err));
    float_accuracy = rig_accuracy(j.training);
    ok(pare_model_fold_norm(m, &folded, &n, &rig_err));
    assert_int_equal(n, 2);
    ok(pare_model_pack(folded, arena, &bytes, &len, &rig_err));
    pare_model_free(folded);
    job_close(&j);
    return float_accuracy > 0.93 ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    pare_arena_free(arena);
    return 0;
}

/* (64, 10) logits of random inputs. */
static struct pare_tensor logits(struct pare_model *m)
{
    const int64_t dim[4] = { 64, 1, 8, 8 };
    struct pare_tensor x, out, copy;
    struct pare_plan_opts o = { .threads = 1 };
    struct pare_plan *p;
    struct pare_rng rng;

    ok(pare_tensor_new(arena, &x, PARE_F32, 4, dim, &rig_err));
    pare_rng_init(&rng, 7);
    for (int64_t i = 0; i < pare_numel(&x); i++)
        pare_f32_mut(&x)[i] = (float)pare_rng_uniform(&rng);
    o.in = &x;
    ok(pare_plan_make(m, &o, &p, &rig_err));
    ok(pare_plan_execute(p, &x, &out, &rig_err));
    ok(pare_tensor_new(arena, &copy, PARE_F32, out.rank, out.dim, &rig_err));
    memcpy(copy.data, out.data, (size_t)pare_numel(&out) * sizeof(float));
    pare_plan_free(p);
    return copy;
}

/* sum (a - b)^2 / sum a^2. */
static double relative_error(const struct pare_tensor *a, const struct pare_tensor *b)
{
    double d = 0, s = 0;

    for (int64_t i = 0; i < pare_numel(a); i++) {
        double v = (double)pare_f32(a)[i], e = v - (double)pare_f32(b)[i];

        s += v * v;
        d += e * e;
    }
    return d / s;
}

static void scale_channel(struct pare_tensor *t, int64_t c, float by)
{
    int64_t each = pare_numel(t) / t->dim[0];

    for (int64_t i = c * each; i < (c + 1) * each; i++)
        pare_f32_mut(t)[i] *= by;
}

/* Scales channels of conv1 and deep by up to a thousand, without changing the function. */
static void unbalance_channels(struct pare_model *m)
{
    struct pare_tensor *w1 = rig_weight(m, "conv1.weight"), *b1 = rig_weight(m, "conv1.bias");
    struct pare_tensor *w2 = rig_weight(m, "deep.weight"), *b2 = rig_weight(m, "deep.bias");
    struct pare_tensor *w3 = rig_weight(m, "point.weight");

    for (int64_t c = 0; c < 12; c++) {
        float by = powf(2, (float)(c % 6) * 2 - 5);

        scale_channel(w1, c, by);
        scale_channel(b1, c, by);
        scale_channel(w2, c, 1 / by / by);
        scale_channel(b2, c, 1 / by);
        for (int64_t o = 0; o < w3->dim[0]; o++)
            pare_f32_mut(w3)[o * 12 + c] *= by;
    }
}

static float largest_magnitude(const struct pare_tensor *t, int64_t from, int64_t n)
{
    float m = 0;

    for (int64_t i = from; i < from + n; i++)
        m = fabsf(pare_f32(t)[i]) > m ? fabsf(pare_f32(t)[i]) : m;
    return m;
}

/* ---- equalization ---------------------------------------------------------------------------- */

static void test_equalization_keeps_the_function(void **state)
{
    struct pare_model *m = load_trained();
    struct pare_tensor before, after, w1, w2;
    int pairs;

    (void)state;
    unbalance_channels(m);
    before = logits(m);
    ok(pare_model_equalize(m, &pairs, &rig_err));
    /* conv1, deep, point, groups, fc1, fc2 */
    assert_int_equal(pairs, 5);
    after = logits(m);
    assert_true(relative_error(&before, &after) < 1e-10);
    assert_true(relative_error(&before, &after) > 0); /* equalization did change the weights */
    w1 = *rig_weight(m, "conv1.weight");
    w2 = *rig_weight(m, "deep.weight");
    for (int64_t c = 0; c < 12; c++) { /* both sides of a channel have the same range */
        double a = (double)largest_magnitude(&w1, c * 9, 9),
               b = (double)largest_magnitude(&w2, c * 9, 9);

        expect_near(a / b, 1, 0.01);
    }
    pare_model_free(m);
}

/* Channels with only zeros on either side, and values that are not finite, are not scaled. */
static void test_zero_and_infinite_channels_are_not_scaled(void **state)
{
    struct pare_model *m = load_trained();
    struct pare_tensor *w1 = rig_weight(m, "conv1.weight"), *w2 = rig_weight(m, "deep.weight");
    struct pare_tensor before, after;
    int pairs;

    (void)state;
    scale_channel(w1, 0, 0);
    scale_channel(w2, 1, 0);
    scale_channel(w1, 2, 0);
    scale_channel(w2, 2, 0);
    before = logits(m);
    ok(pare_model_equalize(m, &pairs, &rig_err));
    after = logits(m);
    assert_true(relative_error(&before, &after) < 1e-10);
    pare_f32_mut(w1)[3 * 9] = INFINITY;
    pare_f32_mut(w1)[4 * 9] = NAN;
    ok(pare_model_equalize(m, &pairs, &rig_err));
    for (int64_t i = 0; i < pare_numel(w2); i++)
        assert_true(isfinite(pare_f32(w2)[i]));
    pare_model_free(m);
}

/* Values with two consumers, or with an upper bound, are not equalized. */
static struct pare_flow build_without_pairs(struct pare_net *n, struct pare_flow x)
{
    struct pare_conv c = { .out = 8, .kernel = 3, .pad = 1, .bias = true };
    struct pare_flow y;

    x = pare_net_relu6(n, pare_net_conv(n, x, "conv1", c), "relu6");
    x = pare_net_conv(n, x, "conv2", c); /* two consumers */
    y = pare_net_conv(n, x, "conv3", c); /* consumed by an Add */
    x = pare_net_sum(n, x, y, "sum");
    x = pare_net_apply(n, pare_net_conv(n, x, "conv4", c), "Sigmoid", "sigmoid");
    return pare_net_linear(n, pare_net_flatten(n, x, "flatten"), "fc", n->classes);
}

static void test_layers_that_are_not_equalized(void **state)
{
    static const struct pare_network net = { .name = "no_pairs", .build = build_without_pairs };
    struct pare_network_opts o = { .c = 1, .h = 8, .w = 8, .classes = 10, .seed = 1 };
    struct pare_model *m;
    int pairs;

    (void)state;
    ok(pare_network_make(&net, &o, &m, &rig_err));
    ok(pare_model_equalize(m, &pairs, &rig_err));
    assert_int_equal(pairs, 0);
    pare_model_free(m);
}

/* With 8 bits and one scale per tensor, channels with small weights become 0 unless equalized. */
static void test_equalization_reduces_quantization_error(void **state)
{
    static const char *const quantizers[] = { "ptq", "naive", "qat" };
    struct pare_tensor truth;
    struct pare_model *m = load_trained();

    (void)state;
    truth = logits(m);
    pare_model_free(m);
    for (int i = 0; i < 3; i++) {
        double noise[2], accuracy[2];

        for (int on = 0; on < 2; on++) {
            struct pare_tensor out;
            struct job j;

            m = load_trained();
            unbalance_channels(m);
            j = job_open(m, quantizers[i], WEIGHTS("8"), on ? "equalize=true" : NULL, LEARN);
            out = logits(m);
            noise[on] = relative_error(&truth, &out);
            accuracy[on] = rig_accuracy(j.training);
            job_close(&j);
        }
        print_message("%s: %.1f dB, %.2f%% without, %.1f dB, %.2f%% with\n", quantizers[i],
                      -10 * log10(noise[0]), 100 * accuracy[0], -10 * log10(noise[1]),
                      100 * accuracy[1]);
        assert_true(noise[1] < noise[0] / 10);
        assert_true(accuracy[1] >= float_accuracy - 0.01);
    }
}

/* ---- bias correction ------------------------------------------------------------------------- */

/* The mean of each logit over training data. */
static void mean_logits(struct job *j, double mean[10])
{
    struct pare_plan *p = NULL;
    int64_t n = 0;

    memset(mean, 0, 10 * sizeof(*mean));
    for (int k = 0; k < 40; k++) {
        struct pare_tensor x, y, out;
        struct pare_plan_opts o = { .threads = 1, .in = &x };

        ok(pare_training_next(j->training, &x, &y, &rig_err));
        if (!x.data || x.dim[0] != 32)
            continue;
        if (!p)
            ok(pare_plan_make(j->model, &o, &p, &rig_err));
        ok(pare_plan_execute(p, &x, &out, &rig_err));
        for (int64_t i = 0; i < 320; i++)
            mean[i % 10] += (double)pare_f32(&out)[i];
        n += 32;
    }
    for (int i = 0; i < 10; i++)
        mean[i] /= (double)n;
    pare_plan_free(p);
}

static double mean_error(const char *quantizer, const char *config, const char *settings,
                         double *accuracy)
{
    struct job f = job_open(load_trained(), NULL, NULL, NULL, LEARN), j;
    double a[10], b[10], largest_error = 0;
    int nodes = f.model->graph->n_nodes;

    mean_logits(&f, a);
    job_close(&f);
    j = job_open(load_trained(), quantizer, config, settings, LEARN);
    mean_logits(&j, b);
    *accuracy = rig_accuracy(j.training);
    if (strcmp(quantizer, "ptq") != 0) /* ptq adds nodes at inputs */
        assert_int_equal(j.model->graph->n_nodes, nodes);
    job_close(&j);
    for (int i = 0; i < 10; i++)
        largest_error = fabs(a[i] - b[i]) > largest_error ? fabs(a[i] - b[i]) : largest_error;
    return largest_error;
}

static void test_bias_correction_reduces_mean_error(void **state)
{
    static const struct {
        const char *quantizer, *config;
        double gain; /* least gain of accuracy; -1: not checked */
    } cases[] = {
        { "naive", WEIGHTS("8"), -1 },
        { "ptq", WEIGHTS("3"), 0.01 },
        { "qat", WEIGHTS("3"), 0.01 },
        { "ptq",
          "[{\"quant_types\": [\"weight\", \"input\"], \"op_types\": [\"Conv2d\", \"Linear\"], "
          "\"quant_bits\": 4}]",
          -1 }
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        double accuracy[2];
        double off = mean_error(cases[i].quantizer, cases[i].config, NULL, &accuracy[0]);
        double on = mean_error(cases[i].quantizer, cases[i].config,
                               "bias_correction=true correction_steps=40", &accuracy[1]);

        print_message("%s: mean error %.4f, accuracy %.2f%%; corrected %.4f, %.2f%%\n",
                      cases[i].quantizer, off, 100 * accuracy[0], on, 100 * accuracy[1]);
        assert_true(off > 0.02);
        assert_true(on < off / 4);
        assert_true(accuracy[1] >= accuracy[0] + cases[i].gain);
    }
}

/* An accuracy that only the float model reaches. */
static int accuracy_of_float(void *user, double *value, struct pare_err *err)
{
    const struct pare_compression *r = ((struct job *)user)->compression;

    (void)err;
    *value = 1;
    for (int i = 0; i < r->n_layers; i++)
        if (r->layer[i].quant->quantized[PARE_WEIGHT])
            *value = 0;
    return 0;
}

/* Corrections are undone when mixed precision makes layers float; they need data. */
static void test_corrections_are_undone_for_float_layers(void **state)
{
    struct pare_model *m = load_trained();
    struct pare_tensor before = logits(m), after;
    struct job j = job_open(m, "ptq", WEIGHTS("3"), "bias_correction=true", LEARN);
    struct pare_budget b = { .least = 1, .evaluate = accuracy_of_float, .user = &j };
    struct pare_compression_opts o = { .quantizer = "ptq", .config = WEIGHTS("3"), .threads = 1 };
    struct pare_budget_report p;
    struct pare_compression *r;

    (void)state;
    ok(pare_compression_mixed_precision(j.compression, &b, &p, &rig_err));
    assert_true(p.met);
    after = logits(m);
    assert_true(relative_error(&before, &after) == 0);
    job_close(&j);

    m = load_trained();
    o.settings = "bias_correction=true";
    ok(pare_compression_new(m, &o, &r, &rig_err));
    assert_int_equal(pare_compression_compress(r, &rig_err), PARE_ECONFIG);
    assert_non_null(strstr(rig_err.msg, "bias_correction needs data"));
    pare_compression_free(r);
    pare_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equalization_keeps_the_function),
        cmocka_unit_test(test_zero_and_infinite_channels_are_not_scaled),
        cmocka_unit_test(test_layers_that_are_not_equalized),
        cmocka_unit_test(test_equalization_reduces_quantization_error),
        cmocka_unit_test(test_bias_correction_reduces_mean_error),
        cmocka_unit_test(test_corrections_are_undone_for_float_layers),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}

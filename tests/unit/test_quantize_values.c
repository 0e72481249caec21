/* test_quantize_values.c - quantizers against known values: NNI's cases, and empty or infinite
 * ranges. */
#include "quant_rig.h"

#include <float.h>

#include "tensor/tensor.h"

static void copy_floats(float *to, const double *from, int n)
{
    for (int i = 0; i < n; i++)
        to[i] = (float)from[i];
}

/* Four weights as (2, 2), 8 bits, affine, unsigned, as in NNI's tests. */
static void check_qat_weight(const double *w, double scale, double zero, const double *want)
{
    float x[4], y[4];
    struct pare_tensor tx = { PARE_F32, 2, { 2, 2 }, x }, ty = { PARE_F32, 2, { 2, 2 }, y };
    struct quantizer_rig f;

    copy_floats(x, w, 4);
    quantizer_rig_open(&f, "qat", NULL, &tx, 1u << PARE_WEIGHT, make_quant(8, false, false, -1));
    ok(quantizer_rig_quantize(&f, PARE_WEIGHT, &tx, &ty));
    expect_near(buffer_value(&f, "weight_scale", 0), scale, 1e-7);
    expect_near(buffer_value(&f, "weight_zero_point", 0), zero, 0);
    for (int i = 0; i < 4 && want; i++)
        expect_near((double)y[i], want[i], 1e-4 * fabs(want[i]));
    quantizer_rig_close(&f);
}

/* Cases N9, N10, N11. */
static void test_scales_of_qat_weights(void **state)
{
    const double a[] = { 1, 2, 3, 5 }, b[] = { -1, 2, 3, 5 };
    const double c[] = { 1.1287, 2.3456, 3.7814, 5.9723 }, d[] = { 1.1242, 2.3421, 3.7707, 5.9723 };

    (void)state;
    check_qat_weight(a, 5.0 / 255, 0, NULL);
    check_qat_weight(b, 6.0 / 255, 42, NULL);
    check_qat_weight(c, 5.9723 / 255, 0, d);
}

/* Cases N12, N13: ranges of activations in training and in evaluation. */
static void test_ranges_of_qat_activations(void **state)
{
    float first[] = { 0, 0, 0.1f, 0.2f }, next[] = { 0.2f, 0.4f, 0.6f, 0.8f }, y[4];
    float in[] = { 1, 4, 2, 1 }, outliers[] = { -9, 9, 0.1f, 0 };
    struct pare_tensor x = VECTOR(first, 4), out = VECTOR(y, 4);
    struct quantizer_rig f;

    (void)state;
    quantizer_rig_open(&f, "qat", NULL, NULL, 1u << PARE_OUTPUT, make_quant(8, false, false, -1));
    ok(quantizer_rig_quantize(&f, PARE_OUTPUT, &x, &out));
    expect_near(buffer_value(&f, "tracked_min_output", 0), 0, 0);
    expect_near(buffer_value(&f, "tracked_max_output", 0), 0.2, 1e-7);
    x.data = next;
    ok(quantizer_rig_quantize(&f, PARE_OUTPUT, &x, &out));
    expect_near(buffer_value(&f, "tracked_min_output", 0), 0.002, 1e-7);
    expect_near(buffer_value(&f, "tracked_max_output", 0), 0.2060, 1e-7);
    f.quant.training = false; /* evaluation: the range is fixed, and values outside are clamped */
    x.data = outliers;
    ok(quantizer_rig_quantize(&f, PARE_OUTPUT, &x, &out));
    expect_near(buffer_value(&f, "tracked_max_output", 0), 0.2060, 1e-7);
    expect_near((double)y[0], 0, 0);
    expect_near((double)y[1], 0.2060, 1e-6);
    quantizer_rig_close(&f);
    quantizer_rig_open(&f, "qat", NULL, NULL, 1u << PARE_INPUT, make_quant(8, false, false, -1));
    x.data = in;
    ok(quantizer_rig_quantize(&f, PARE_INPUT, &x, &out));
    expect_near(buffer_value(&f, "input_scale", 0), 4.0 / 255, 1e-7);
    expect_near(buffer_value(&f, "input_zero_point", 0), 0, 0);
    quantizer_rig_close(&f);
}

/* Before quant_start_step values are not quantized, but their range is tracked; nor are they in an
 * evaluation before the first batch, where NNI divides by 0. */
static void test_qat_before_the_start_step(void **state)
{
    float x[] = { 0.111f, 0.222f, -0.333f, 1 }, y[4], g[4] = { 1, 1, 1, 1 }, gx[4];
    struct pare_tensor tx = VECTOR(x, 4), ty = VECTOR(y, 4), tg = VECTOR(g, 4), to = VECTOR(gx, 4);
    struct quantizer_rig f;

    (void)state;
    quantizer_rig_open(&f, "qat", NULL, &tx, 7, make_quant(2, false, false, -1));
    f.layer_quant.start_step = 3;
    f.quant.training = false;
    ok(quantizer_rig_quantize(&f, PARE_OUTPUT, &tx, &ty));
    assert_memory_equal(x, y, sizeof(x));
    f.quant.training = true;
    ok(quantizer_rig_quantize(&f, PARE_OUTPUT, &tx, &ty));
    assert_memory_equal(x, y, sizeof(x));
    expect_near(buffer_value(&f, "tracked_min_output", 0), -0.333, 1e-7);
    ok(quantizer_rig_quantize(&f, PARE_WEIGHT, &tx, &ty));
    assert_memory_equal(x, y, sizeof(x));
    ok(f.z->backward(&f.layer, PARE_INPUT, &tx, &tg, &to, &rig_err));
    assert_memory_equal(g, gx, sizeof(g));
    f.optim.step = 3;
    ok(quantizer_rig_quantize(&f, PARE_OUTPUT, &tx, &ty));
    assert_memory_not_equal(x, y, sizeof(x));
    quantizer_rig_close(&f);
}

/* Case N14: weights 1 to 18 as (2, 1, 3, 3), and inputs 0 to 15 as (1, 1, 4, 4). */
static void check_scheme(bool has_sign, bool symmetric, bool per_channel, double steps, double zero)
{
    float w[18], in[16], y[18];
    struct pare_tensor tw = { PARE_F32, 4, { 2, 1, 3, 3 }, w }, ty = tw;
    struct pare_tensor ti = { PARE_F32, 4, { 1, 1, 4, 4 }, in }, to = ti;
    struct quantizer_rig f;

    for (int i = 0; i < 18; i++)
        w[i] = (float)(i + 1), in[i % 16] = (float)(i % 16);
    ty.data = to.data = y;
    quantizer_rig_open(&f, "qat", NULL, &tw, 3,
                       make_quant(8, has_sign, symmetric, per_channel ? 0 : -1));
    f.layer_quant.site[PARE_INPUT].axis = per_channel ? 1 : -1;
    ok(quantizer_rig_quantize(&f, PARE_WEIGHT, &tw, &ty));
    ok(quantizer_rig_quantize(&f, PARE_INPUT, &ti, &to));
    expect_near(buffer_value(&f, "weight_scale", 0), (per_channel ? 9 : 18) / steps, 1e-6);
    if (per_channel)
        expect_near(buffer_value(&f, "weight_scale", 1), 18 / steps, 1e-6);
    expect_near(buffer_value(&f, "weight_zero_point", per_channel ? 1 : 0), zero, 0);
    expect_near(buffer_value(&f, "input_scale", 0), 15 / steps, 1e-6);
    expect_near(buffer_value(&f, "input_zero_point", 0), zero, 0);
    quantizer_rig_close(&f);
}

static void test_quantization_schemes(void **state)
{
    (void)state;
    for (int per_channel = 0; per_channel < 2; per_channel++) {
        check_scheme(true, true, per_channel, 127, 0);
        check_scheme(false, true, per_channel, 127.5, 127);
        check_scheme(true, false, per_channel, 254, -127);
        check_scheme(false, false, per_channel, 255, 0);
    }
}

/* ---- case N26: quantized, then masked -------------------------------------------------------- */

static int fixed_weight(struct pare_layer *l, const struct pare_tensor *x, struct pare_tensor *y,
                        struct pare_err *err)
{
    const float scale = 0.5f, zero = 10;

    (void)err;
    pare_quant_apply(pare_layer_quant(l, PARE_WEIGHT), x, &scale, &zero, y);
    return 0;
}

static const struct pare_algorithm fixed = {
    .abi = PARE_ABI,
    .size = sizeof(struct pare_algorithm),
    .name = "fixed",
    .doc = "For this test.",
    .quantizer =
        &(const struct pare_quantizer){
            .size = sizeof(struct pare_quantizer),
            .weight = fixed_weight,
        },
};

static void test_quantized_weights_are_masked(void **state)
{
    struct pare_registry *g = pare_registry_new(&rig_err);
    struct pare_compression_opts o = { .quantizer = "fixed", .registry = g };
    struct pare_model *m = rig_model("small");
    struct pare_layer *l;
    struct pare_compression *r;
    uint8_t *mask;

    (void)state;
    o.config = "[{\"quant_types\": [\"weight\"], \"quant_bits\": 8, \"quant_dtype\": \"int\", "
               "\"op_names\": [\"conv1\"]}]";
    ok(pare_add_quantizer(g, &fixed, &rig_err));
    for (int i = 0; i < 72; i++) /* some are outside the range of -137 to 117 steps of 0.5 */
        pare_f32_mut(rig_weight(m, "conv1.weight"))[i] = (float)(i - 36) * 2.3f;
    ok(pare_compression_new(m, &o, &r, &rig_err));
    l = pare_compression_layer(r, 0);
    mask = pare_layer_mask(l)->data;
    for (int i = 0; i < 72; i++)
        mask[i] = i % 3 != 0;
    ok(pare_compression_compress(r, &rig_err));
    for (int i = 0; i < 72; i++) {
        float v = (float)(i - 36) * 2.3f / 0.5f + 10, want;

        v = v < -127 ? -127 : v > 127 ? 127 : v;
        want = (rintf(v) - 10) * 0.5f;
        assert_true(pare_f32(&l->weight->t)[i] == (i % 3 ? want : 0));
    }
    pare_compression_free(r);
    pare_model_free(m);
    pare_registry_free(g);
}

/* ---- dorefa, bnn ----------------------------------------------------------------------------- */

static void check_dorefa_weights(int bits, const double *want)
{
    float x[] = { -1, -0.5f, 0, 0.5f, 1 }, y[5];
    struct pare_tensor tx = VECTOR(x, 5), ty = VECTOR(y, 5);
    struct quantizer_rig f;

    quantizer_rig_open(&f, "dorefa", NULL, &tx, 1, make_quant(bits, false, false, -1));
    ok(quantizer_rig_quantize(&f, PARE_WEIGHT, &tx, &ty));
    for (int i = 0; i < 5; i++) {
        double s = buffer_value(&f, "weight_scale", 0),
               z = buffer_value(&f, "weight_zero_point", 0);

        expect_near((double)y[i], want[i], 1e-6);
        expect_near((double)y[i] / s + z, rint((double)y[i] / s + z), 1e-4); /* an integer */
    }
    quantizer_rig_close(&f);
}

static void test_dorefa_values(void **state)
{
    const double b8[] = { -1, -0.607843, 0.003922, 0.607843, 1 };
    const double b2[] = { -1, -1.0 / 3, 1.0 / 3, 1.0 / 3, 1 }, b1[] = { -1, -1, -1, 1, 1 };
    float x[] = { -0.3f, 0, 0.5f, 0.7f, 1, 1.5f }, y[6], g[] = { 1, 2, 3, 4, 5, 6 }, gx[6];
    const float want[] = { 0, 0, 2, 2, 3, 3 }, grad[] = { 0, 2, 3, 4, 5, 0 };
    struct pare_tensor tx = VECTOR(x, 6), ty = VECTOR(y, 6), tg = VECTOR(g, 6), to = VECTOR(gx, 6);
    struct quantizer_rig f;

    (void)state;
    check_dorefa_weights(8, b8);
    check_dorefa_weights(2, b2);
    check_dorefa_weights(1, b1);
    quantizer_rig_open(&f, "dorefa", NULL, NULL, 1u << PARE_OUTPUT,
                       make_quant(2, false, false, -1));
    ok(quantizer_rig_quantize(&f, PARE_OUTPUT, &tx, &ty));
    ok(f.z->backward(&f.layer, PARE_OUTPUT, &tx, &tg, &to, &rig_err));
    for (int i = 0; i < 6; i++) {
        expect_near((double)y[i], (double)want[i] / 3, 1e-7);
        expect_near((double)gx[i], (double)grad[i], 0);
    }
    quantizer_rig_close(&f);
}

/* Gradients of 2 bits: -m, -m/3, m/3 or m, with the original mean. */
static void test_dorefa_quantized_gradients(void **state)
{
    static float x[4000], g[4000], gx[4000];
    struct pare_tensor tx = { PARE_F32, 2, { 2, 2000 }, x }, tg = tx, to = tx;
    double sum[2] = { 0, 0 };
    struct quantizer_rig f;

    (void)state;
    for (int i = 0; i < 4000; i++) {
        x[i] = 0.5f;
        g[i] = (i < 2000 ? 1.0f : 10.0f) * (i % 2000 ? 0.2f : 1);
    }
    tg.data = g;
    to.data = gx;
    quantizer_rig_open(&f, "dorefa", "gradient_bits=2", NULL, 4, make_quant(8, false, false, -1));
    pare_rng_init(&f.compression.rng, 1);
    ok(f.z->backward(&f.layer, PARE_OUTPUT, &tx, &tg, &to, &rig_err));
    for (int i = 0; i < 4000; i++) {
        double m = i < 2000 ? 1 : 10, v = ((double)gx[i] / m + 1) * 1.5;

        expect_near(v, rint(v), 1e-5);
        sum[i / 2000] += (double)gx[i] / m / 2000;
    }
    expect_near(sum[0], 0.2, 0.03);
    expect_near(sum[1], 0.2, 0.03);
    quantizer_rig_close(&f);
}

static void test_bnn_values(void **state)
{
    float x[] = { -2, -1, -0.1f, 0, 0.3f, 1, 1.1f }, y[7], g[] = { 1, 2, 3, 4, 5, 6, 7 }, gx[7];
    const float want[] = { -1, -1, -1, 1, 1, 1, 1 }, grad[] = { 0, 2, 3, 4, 5, 6, 0 };
    struct pare_tensor tx = VECTOR(x, 7), ty = VECTOR(y, 7), tg = VECTOR(g, 7), to = VECTOR(gx, 7);
    struct quantizer_rig f;

    (void)state;
    quantizer_rig_open(&f, "bnn", NULL, &tx, 5, make_quant(1, true, true, -1));
    ok(quantizer_rig_quantize(&f, PARE_WEIGHT, &tx, &ty));
    assert_memory_equal(y, want, sizeof(want));
    ok(quantizer_rig_quantize(&f, PARE_OUTPUT, &tx, &ty));
    assert_memory_equal(y, want, sizeof(want));
    ok(f.z->backward(&f.layer, PARE_OUTPUT, &tx, &tg, &to, &rig_err));
    assert_memory_equal(gx, grad, sizeof(grad));
    ok(f.z->backward(&f.layer, PARE_WEIGHT, &tx, &tg, &to, &rig_err));
    assert_memory_equal(gx, g, sizeof(g));
    expect_near(buffer_value(&f, "weight_scale", 0), 1, 0);
    quantizer_rig_close(&f);
}

/* ---- rounding and hostile values ------------------------------------------------------------- */

static void test_halves_round_to_even(void **state)
{
    float x[] = { 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, 300, -300, 7 }, y[8], one = 1, zero = 0;
    const float want[] = { 0, 2, 2, -0.0f, -2, 127, -127, 7 };
    struct pare_tensor tx = VECTOR(x, 8), ty = VECTOR(y, 8);
    struct pare_quant q = make_quant(8, true, true, -1);

    (void)state;
    pare_quant_apply(&q, &tx, &one, &zero, &ty);
    for (int i = 0; i < 8; i++)
        assert_true(y[i] == want[i]);
}

/* For every quantizer, site and range: no division by 0, and finite values stay
 * finite. */
static void check_hostile_values(const char *quantizer, enum pare_quant_site site,
                                 const float *values)
{
    float x[40], y[40], g[40], gx[40];
    struct pare_tensor tx = { PARE_F32, 2, { 4, 10 }, x }, ty = tx, tg = tx, to = tx;
    bool per_channel = site == PARE_WEIGHT && strcmp(quantizer, "dorefa") != 0;
    struct quantizer_rig f;

    for (int i = 0; i < 40; i++) {
        x[i] = values[i % 4];
        g[i] = gx[i] = 1;
    }
    ty.data = y, tg.data = g, to.data = gx;
    for (int sign = 0; sign < 2; sign++)
        for (int axis = -1; axis <= (per_channel ? 1 : -1); axis++) {
            quantizer_rig_open(&f, quantizer, NULL, &tx, 1u << site,
                               make_quant(4, sign, sign, axis));
            for (int step = 0; step < 2; step++, f.optim.step++) {
                ok(quantizer_rig_quantize(&f, site, &tx, &ty));
                if (f.z->backward)
                    ok(f.z->backward(&f.layer, site, &tx, &tg, &to, &rig_err));
                for (int i = 0; i < 40; i++)
                    assert_true(!isfinite(x[i]) || (isfinite(y[i]) && isfinite(gx[i])));
                if (f.a->on_step)
                    ok(f.a->on_step(&f.compression, 1, &rig_err));
            }
            quantizer_rig_close(&f);
        }
}

static void test_all_quantizers_with_hostile_values(void **state)
{
    static const float values[][4] = { { 0, 0, 0, 0 },
                                       { 7, 7, 7, 7 },
                                       { -7, -7, -7, -7 },
                                       { INFINITY, 1, -1, 0 },
                                       { -INFINITY, NAN, 2, 0 },
                                       { NAN, NAN, NAN, NAN },
                                       { INFINITY, -INFINITY, INFINITY, INFINITY },
                                       { 1e-42f, -1e-42f, 0, 0 },
                                       { FLT_MAX, -FLT_MAX, 1, 0 } };
    static const char *const names[] = { "qat", "lsq", "lsq_plus", "pact", "dorefa" };

    (void)state;
    for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
        for (size_t k = 0; k < sizeof(names) / sizeof(*names); k++)
            for (int site = 0; site < PARE_QUANT_SITES; site++)
                check_hostile_values(names[k], (enum pare_quant_site)site, values[i]);
        check_hostile_values("ptq", PARE_WEIGHT, values[i]);
        check_hostile_values("naive", PARE_WEIGHT, values[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scales_of_qat_weights),
        cmocka_unit_test(test_ranges_of_qat_activations),
        cmocka_unit_test(test_qat_before_the_start_step),
        cmocka_unit_test(test_quantization_schemes),
        cmocka_unit_test(test_quantized_weights_are_masked),
        cmocka_unit_test(test_dorefa_values),
        cmocka_unit_test(test_dorefa_quantized_gradients),
        cmocka_unit_test(test_bnn_values),
        cmocka_unit_test(test_halves_round_to_even),
        cmocka_unit_test(test_all_quantizers_with_hostile_values),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

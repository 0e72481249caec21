/* test_smooth.c - inputs of linear layers divided by scales: the same function, a smaller error in
 * 8 bits where a channel has outliers, nothing where none has, failing allocations. */
#include "make_model.h"

#include <math.h>

#include "base/arena.h"
#include "base/rng.h"
#include "quant/smooth.h"

#include <pare/data.h>

enum { ITEMS = 64, K = 24, OUT = 10 };

static struct pare_err err;
static struct pare_data *data;
static struct pare_tensor items;

static void ok(int rc)
{
    if (rc)
        fail_msg("%s", err.msg);
}

static int setup(void **state)
{
    struct pare_input in = { .t = { 0 } };
    struct pare_arrays a = { .n = ITEMS, .input = &in, .n_inputs = 1, .batch = 8 };
    struct pare_rng rng;

    (void)state;
    pool = pare_arena_new(1 << 16);
    items = build_tensor(PARE_F32, 2, (int64_t[]){ ITEMS, K });
    pare_rng_init(&rng, 5);
    for (int64_t i = 0; i < pare_numel(&items); i++)
        pare_f32_mut(&items)[i] = (float)pare_rng_normal(&rng);
    in.t = items;
    ok(pare_data_from_arrays(&a, &data, &err));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    pare_data_free(data);
    pare_arena_free(pool);
    return 0;
}

static const char *random_weight(struct build *b, int64_t rows, int64_t columns, uint64_t seed)
{
    struct pare_tensor t = build_tensor(PARE_F32, 2, (int64_t[]){ rows, columns });
    struct pare_rng rng;

    pare_rng_init(&rng, seed);
    for (int64_t i = 0; i < pare_numel(&t); i++)
        pare_f32_mut(&t)[i] = (float)pare_rng_normal(&rng) * 0.3f;
    return build_floats(b, 2, t.dim, pare_f32(&t));
}

/* x * gain is read by a MatMul, a Gemm with the other order, and a Sigmoid, which must stay. */
static struct pare_model *make(float outlier)
{
    struct build b = { .opset = 13 };
    const char *x = build_input(&b, PARE_F32, 2, (int64_t[]){ -1, K });
    float gain[K];
    const char *y;

    for (int i = 0; i < K; i++)
        gain[i] = i == 7 ? outlier : 1;
    y = build_node(&b, "Mul", NAMES(x, build_floats(&b, 1, (int64_t[]){ K }, gain)), NOTHING);
    build_output(&b, build_node(&b, "MatMul", NAMES(y, random_weight(&b, K, OUT, 1)), NOTHING));
    build_output(&b, build_node(&b, "Gemm", NAMES(y, random_weight(&b, OUT, K, 2)),
                                CAT(at_int("transB", 1))));
    build_output(&b, build_node(&b, "Sigmoid", NAMES(y), NOTHING));
    return build_model(&b);
}

static int smooth(const struct pare_model *m, struct pare_smooth *s, struct pare_model **out)
{
    *s = (struct pare_smooth){ .data = data, .items = 40, .bits = { 8, 8 }, .threads = 1 };
    *out = NULL;
    return pare_model_smooth(m, s, out, &err);
}

static void run(const struct pare_model *m, float *to[3])
{
    struct pare_plan_opts o = { .threads = 1, .in = &items, .n_in = 1 };
    struct pare_tensor y[3];
    struct pare_plan *p;

    ok(pare_plan_new((struct pare_model *)(uintptr_t)m, &o, &p, &err));
    ok(pare_plan_run(p, &items, 1, y, 3, &err));
    for (int i = 0; i < 3; i++) {
        to[i] = pare_alloc(pool, (size_t)pare_numel(&y[i]), sizeof(float));
        memcpy(to[i], y[i].data, (size_t)pare_numel(&y[i]) * sizeof(float));
    }
    pare_plan_free(p);
}

static void test_the_function_stays_and_all_readers_share_the_scales(void **state)
{
    struct pare_model *m = make(60), *out;
    struct pare_smooth s;
    float *before[3], *after[3];

    (void)state;
    ok(smooth(m, &s, &out));
    assert_non_null(out);
    assert_int_equal(s.values, 1);
    assert_int_equal(s.layers, 2);
    run(m, before);
    run(out, after);
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < ITEMS * (i < 2 ? OUT : K); k++)
            assert_true(fabsf(before[i][k] - after[i][k]) <= 1e-4f + 1e-5f * fabsf(before[i][k]));
    pare_model_free(out);
    pare_model_free(m);
}

/* The largest |x| of the layers' input, relative to the median channel's. */
static void test_outliers_are_reduced(void **state)
{
    struct pare_model *m = make(60), *out;
    struct pare_smooth s;
    double most = 0, least = INFINITY;

    (void)state;
    ok(smooth(m, &s, &out));
    assert_non_null(out);
    for (int i = 0; i < out->graph->n_nodes; i++) {
        const struct pare_node *n = out->graph->node[i];
        const struct pare_value *by = n->n_in > 1 ? n->in[1] : NULL;

        if (!by || !strstr(by->name, "_smooth_scale"))
            continue;
        for (int k = 0; k < K; k++) {
            double v = (k == 7 ? 60 : 1) * (double)pare_f32(&by->t)[k];

            most = v > most ? v : most;
            least = v < least ? v : least;
        }
    }
    assert_true(most > 0 && most / least < 20); /* 60 before */
    pare_model_free(out);
    pare_model_free(m);
}

/* y = (x gain) A * (x B), z = y C: the gain takes the scales of the inputs of A and B, which only
 * these read, and B those of C's. */
static struct pare_model *make_gated(void)
{
    struct build b = { .opset = 13 };
    const char *x = build_input(&b, PARE_F32, 2, (int64_t[]){ -1, K }), *u, *v;
    float gain[K];

    for (int i = 0; i < K; i++)
        gain[i] = i == 7 ? 40 : i % 5 ? 0.2f : 2;
    x = build_node(&b, "Mul", NAMES(x, build_floats(&b, 1, (int64_t[]){ K }, gain)), NOTHING);
    u = build_node(&b, "MatMul", NAMES(x, random_weight(&b, K, OUT, 1)), NOTHING);
    v = build_node(&b, "MatMul", NAMES(x, random_weight(&b, K, OUT, 2)), NOTHING);
    u = build_node(&b, "Sigmoid", NAMES(u), NOTHING);
    u = build_node(&b, "Mul", NAMES(u, v), NOTHING);
    build_output(&b, build_node(&b, "MatMul", NAMES(u, random_weight(&b, OUT, OUT, 3)), NOTHING));
    return build_model(&b);
}

static void test_constants_before_take_the_scales(void **state)
{
    struct pare_plan_opts o = { .threads = 1, .in = &items, .n_in = 1 };
    struct pare_model *m = make_gated(), *out = NULL;
    struct pare_tensor y[2];

    (void)state;
    for (int awq = 0; awq < 2; awq++) {
        struct pare_smooth s = { .data = data, .items = 40, .bits = { 8, 8 }, .threads = 1 };
        struct pare_plan *p[2];

        if (awq)
            s = (struct pare_smooth){ .data = data,
                                      .items = 40,
                                      .bits = { 4, 0 },
                                      .group = 8,
                                      .threads = 1 };
        ok(pare_model_smooth(m, &s, &out, &err));
        assert_non_null(out);
        assert_true(s.folded > 0 && s.folded == s.values);
        assert_int_equal(out->graph->n_nodes, m->graph->n_nodes);
        for (int i = 0; i < 2; i++) {
            ok(pare_plan_new(i ? out : m, &o, &p[i], &err));
            ok(pare_plan_run(p[i], &items, 1, &y[i], 1, &err));
        }
        for (int64_t k = 0; k < pare_numel(&y[0]); k++)
            assert_true(fabsf(pare_f32(&y[0])[k] - pare_f32(&y[1])[k]) <=
                        1e-3f + 1e-4f * fabsf(pare_f32(&y[0])[k]));
        pare_plan_free(p[0]);
        pare_plan_free(p[1]);
        pare_model_free(out);
    }
    pare_model_free(m);
}

static void test_even_inputs_stay(void **state)
{
    struct pare_model *m = make(1), *out;
    struct pare_smooth s;

    (void)state;
    ok(smooth(m, &s, &out));
    assert_null(out);
    assert_int_equal(s.values, 0);
    pare_model_free(m);
}

/* The squared error of the outputs when inputs and weights are rounded in 8 bits; by: the scales of
 * the inputs, w (K, OUT). */
static double rounding_error(const float *w, const double *gain, const double *by)
{
    double lo = 0, hi = 0, sum = 0;

    for (int64_t i = 0; i < ITEMS * K; i++) {
        double v = ((double)pare_f32(&items)[i] + 2) * gain[i % K] / by[i % K];

        lo = v < lo ? v : lo;
        hi = v > hi ? v : hi;
    }
    for (int64_t o = 0; o < OUT; o++) {
        double most = 0;

        for (int64_t k = 0; k < K; k++)
            most = fmax(most, fabs((double)w[k * OUT + o]) * by[k]);
        most /= 127;
        for (int64_t i = 0; i < ITEMS; i++) {
            double e = 0;

            for (int64_t k = 0; k < K; k++) {
                double v = ((double)pare_f32(&items)[i * K + k] + 2) * gain[k] / by[k];
                double u = (double)w[k * OUT + o] * by[k], step = (hi - lo) / 255;

                e += rint(v / step) * step * rint(u / most) * most - u * v;
            }
            sum += e * e;
        }
    }
    return sum;
}

/* (x + 2), times the gain of channel 7, times w: the error with the chosen scales, relative to
 * that without scales. */
static double gain_of_scales(float gain7, float big, float small)
{
    struct build b = { .opset = 13 };
    const char *x = build_input(&b, PARE_F32, 2, (int64_t[]){ -1, K });
    float gain[K], shift[K], w[K * OUT];
    double real[K], by[K], one[K];
    struct pare_model *m, *out;
    struct pare_smooth s;

    for (int i = 0; i < K; i++) {
        gain[i] = i == 7 ? gain7 : 1;
        real[i] = (double)gain[i];
        shift[i] = 2 * gain[i];
        by[i] = one[i] = 1;
        for (int o = 0; o < OUT; o++)
            w[i * OUT + o] = o == 3 && i == 7 ? big
                                              : small * (float)((i * 7 + o * 3) % 11 + 1) / 11;
    }
    x = build_node(&b, "Mul", NAMES(x, build_floats(&b, 1, (int64_t[]){ K }, gain)), NOTHING);
    x = build_node(&b, "Add", NAMES(x, build_floats(&b, 1, (int64_t[]){ K }, shift)), NOTHING);
    x = build_node(&b, "MatMul", NAMES(x, build_floats(&b, 2, (int64_t[]){ K, OUT }, w)), NOTHING);
    build_output(&b, x);
    m = build_model(&b);
    ok(smooth(m, &s, &out));
    for (int i = 0; out && i < out->graph->n_nodes; i++) {
        const struct pare_value *v = out->graph->node[i]->n_in > 1 ? out->graph->node[i]->in[1]
                                                                   : NULL;

        for (int k = 0; v && strstr(v->name, "_smooth_scale") && k < K; k++)
            by[k] = 1 / (double)pare_f32(&v->t)[k];
    }
    pare_model_free(out);
    pare_model_free(m);
    return rounding_error(w, real, by) / rounding_error(w, real, one);
}

/* One large weight of an output makes the steps of the others of that output large: the scales must
 * not make the sum of their errors larger than the error without scales. */
static void test_scales_never_add_to_the_error(void **state)
{
    const float gains[] = { 2, 4, 8, 30 }, bigs[] = { 0.3f, 1, 8 },
                smalls[] = { 0.01f, 0.05f, 0.2f };
    double worst = 0;

    (void)state;
    for (int few = 0; few < 2; few++) {
        for (int64_t i = 0; few && i < ITEMS; i++) /* few items have the outlier, as few words do */
            if (i % 16)
                pare_f32_mut(&items)[i * K + 7] = -2;
        for (int i = 0; i < 36; i++)
            worst = fmax(worst, gain_of_scales(gains[i / 9], bigs[i / 3 % 3], smalls[i % 3]));
    }
    if (worst > 1.01)
        fail_msg("the error is %g of that without scales", worst);
}

static void test_failing_allocations(void **state)
{
    struct pare_model *m = make(60), *out;
    int failures = 0;

    (void)state;
    for (int n = 1;; n++) {
        struct pare_smooth s;
        bool reached;
        int rc;

        pare_oom_countdown = -n;
        rc = smooth(m, &s, &out);
        reached = pare_oom_countdown == 0;
        pare_oom_countdown = 0;
        pare_model_free(out);
        failures += rc != 0;
        assert_true(!rc || rc == PARE_ENOMEM);
        if (!reached)
            break;
    }
    assert_true(failures > 10);
    pare_model_free(m);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_the_function_stays_and_all_readers_share_the_scales),
        TEST(test_outliers_are_reduced),
        TEST(test_constants_before_take_the_scales),
        TEST(test_even_inputs_stay),
        TEST(test_scales_never_add_to_the_error),
        TEST(test_failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

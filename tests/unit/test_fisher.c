/* test_fisher.c - Fisher information of layer outputs against differences of the loss; files of
 * Gram matrices: round trip, broken files, failing allocations. */
#include "make_model.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/rng.h"
#include "compress/gram_file.h"
#include "compress/wrap.h"

#include <pare/data.h>

enum { ITEMS = 40, C = 2, SIDE = 3, MID = 4, OUT = 3 };

static struct pare_err err;
static struct pare_tensor items;
static int64_t labels[ITEMS];
static struct pare_data *data, *plain;
static const char *bias_name;

static void ok(int rc)
{
    if (rc)
        fail_msg("%s", err.msg);
}

static const char *random_weight(struct build *b, int rank, const int64_t *dim, uint64_t seed)
{
    struct pare_tensor t = build_tensor(PARE_F32, rank, dim);
    struct pare_rng rng;

    pare_rng_init(&rng, seed);
    for (int64_t i = 0; i < pare_numel(&t); i++)
        pare_f32_mut(&t)[i] = 0.5f * (float)pare_rng_normal(&rng);
    return build_floats(b, rank, dim, pare_f32(&t));
}

/* A convolution over the whole image, so that the gradient of its output is that of its bias. */
static struct pare_model *network_of(int64_t batch)
{
    struct build b = { .opset = 13 };
    const char *in = build_input(&b, PARE_F32, 4, (int64_t[]){ batch, C, SIDE, SIDE }), *y;

    bias_name = random_weight(&b, 1, (int64_t[]){ MID }, 2);
    y = build_node(&b, "Conv",
                   NAMES(in, random_weight(&b, 4, (int64_t[]){ MID, C, SIDE, SIDE }, 1), bias_name),
                   NOTHING);
    y = build_node(&b, "Flatten", NAMES(build_node(&b, "Tanh", NAMES(y), NOTHING)), NOTHING);
    build_output(&b, build_node(&b, "Gemm",
                                NAMES(y, random_weight(&b, 2, (int64_t[]){ MID, OUT }, 3),
                                      random_weight(&b, 1, (int64_t[]){ OUT }, 4)),
                                NOTHING));
    return build_model(&b);
}

static struct pare_model *network(void)
{
    return network_of(-1);
}

static int setup(void **state)
{
    struct pare_input in = { .t = { 0 } };
    struct pare_tensor y = { PARE_I64, 1, { ITEMS }, labels };
    struct pare_arrays a = { .n = ITEMS, .input = &in, .n_inputs = 1, .batch = 8, .y = &y };
    struct pare_rng rng;

    (void)state;
    pool = pare_arena_new(1 << 16);
    items = build_tensor(PARE_F32, 4, (int64_t[]){ ITEMS, C, SIDE, SIDE });
    pare_rng_init(&rng, 3);
    for (int64_t i = 0; i < pare_numel(&items); i++)
        pare_f32_mut(&items)[i] = (float)pare_rng_normal(&rng);
    for (int i = 0; i < ITEMS; i++)
        labels[i] = (int64_t)pare_rng_below(&rng, OUT);
    in.t = items;
    ok(pare_data_from_arrays(&a, &data, &err));
    a.y = NULL;
    ok(pare_data_from_arrays(&a, &plain, &err));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    pare_data_free(data);
    pare_data_free(plain);
    pare_arena_free(pool);
    return 0;
}

/* Losses of all items, and their gradients of the output. */
static void losses(struct pare_model *m, double *loss, double (*grad)[OUT])
{
    struct pare_plan_opts o = { .in = &items, .batch = ITEMS, .threads = 1 };
    struct pare_plan *p;
    struct pare_tensor y;

    ok(pare_plan_make(m, &o, &p, &err));
    ok(pare_plan_execute(p, &items, &y, &err));
    for (int i = 0; i < ITEMS; i++) {
        const float *v = pare_f32(&y) + i * OUT;
        double sum = 0;

        for (int k = 0; k < OUT; k++)
            sum += exp((double)v[k]);
        loss[i] = log(sum) - (double)v[labels[i]];
        for (int k = 0; k < OUT && grad; k++)
            grad[i][k] = exp((double)v[k]) / sum - (k == labels[i]);
    }
    pare_plan_free(p);
}

static int layers_of(struct pare_model *m, struct pare_arena *a, struct pare_gram *g)
{
    struct pare_layer_info *list;
    struct pare_graph *graph;
    int n, count = 0;

    ok(pare_model_layers(m, a, &graph, &list, &n, &err));
    for (int i = 0; i < n && count < 2; i++)
        count += pare_gram_of(&list[i], &g[count]);
    return count;
}

static void test_it_is_the_mean_square_of_the_gradient(void **state)
{
    struct pare_model *m = network();
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_fisher_source s = { .model = m, .data = data, .items = ITEMS, .threads = 1 };
    struct pare_gram g[2];
    struct pare_fisher f[2] = { 0 };
    double base[ITEMS], up[ITEMS], down[ITEMS], grad[ITEMS][OUT];
    struct pare_value *bias;

    (void)state;
    assert_int_equal(layers_of(m, a, g), 2);
    for (int i = 0; i < 2; i++)
        f[i].layer = g[i].layer;
    ok(pare_fisher_collect(&s, a, f, 2, &err));
    assert_true(f[0].n == MID && f[1].n == OUT && f[0].count == ITEMS && f[1].count == ITEMS);
    losses(m, base, grad);
    for (int k = 0; k < OUT; k++) {
        double sum = 0;

        for (int i = 0; i < ITEMS; i++)
            sum += grad[i][k] * grad[i][k] / ITEMS;
        assert_true(fabs(f[1].f[k] - sum) < 1e-5 * sum);
    }
    bias = pare_graph_find(m->graph, bias_name);
    ok(pare_model_own(m, bias, &err));
    for (int k = 0; k < MID; k++) {
        float was = pare_f32(&bias->t)[k];
        double sum = 0;

        pare_f32_mut(&bias->t)[k] = was + 0.01f;
        losses(m, up, NULL);
        pare_f32_mut(&bias->t)[k] = was - 0.01f;
        losses(m, down, NULL);
        pare_f32_mut(&bias->t)[k] = was;
        for (int i = 0; i < ITEMS; i++)
            sum += pow((up[i] - down[i]) / 0.02, 2) / ITEMS;
        assert_true(fabs(f[0].f[k] - sum) < 2e-3 * sum);
    }
    pare_arena_free(a);
    pare_model_free(m);
}

/* A model that takes 1 or 3 items at a time gives the same numbers, and a rest is left out. */
static void test_of_a_model_with_a_fixed_batch(void **state)
{
    static const int64_t batch[] = { -1, 1, 3 };
    double first[2][MID > OUT ? MID : OUT] = { 0 };

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct pare_model *m = network_of(batch[i]);
        struct pare_arena *a = pare_arena_new(1 << 16);
        struct pare_fisher_source s = { .model = m, .data = data, .items = ITEMS, .threads = 1 };
        struct pare_gram g[2];
        struct pare_fisher f[2] = { 0 };

        assert_int_equal(layers_of(m, a, g), 2);
        for (int k = 0; k < 2; k++)
            f[k].layer = g[k].layer;
        ok(pare_fisher_collect(&s, a, f, 2, &err));
        assert_true(f[1].count == (i < 2 ? ITEMS : ITEMS / 3 * 3));
        for (int k = 0; k < 2 && i < 2; k++)
            for (int64_t c = 0; c < f[k].n; c++) {
                first[k][c] = i ? first[k][c] : f[k].f[c];
                assert_true(fabs(f[k].f[c] - first[k][c]) < 1e-5 * first[k][c]);
            }
        pare_arena_free(a);
        pare_model_free(m);
    }
}

/* Gram matrices of a model with a free batch, next to an original with a batch of 1. */
static void test_grams_with_an_original_of_fixed_batch(void **state)
{
    struct pare_model *m = network(), *dense = network_of(1);
    struct pare_arena *a = pare_arena_new(1 << 18);
    struct pare_gram_source s = { .model = m,
                                  .other = dense,
                                  .data = data,
                                  .items = ITEMS,
                                  .threads = 1 };
    struct pare_gram g[2];

    (void)state;
    assert_int_equal(layers_of(m, a, g), 2);
    ok(pare_grams_collect(&s, a, g, 2, &err));
    pare_arena_free(a);
    pare_model_free(m);
    pare_model_free(dense);
}

/* Without labels the expectation is that of the model's own probabilities: p (1 - p). */
static void test_without_labels_it_is_of_the_predictions(void **state)
{
    struct pare_model *m = network();
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_gram g[2];

    (void)state;
    assert_int_equal(layers_of(m, a, g), 2);
    for (int own = 0; own < 2; own++) {
        struct pare_fisher_source s = { .model = m,
                                        .data = own ? data : plain,
                                        .items = ITEMS,
                                        .own = own,
                                        .threads = 1 };
        struct pare_fisher f = { .layer = g[1].layer };
        double sum = 0, base[ITEMS], grad[ITEMS][OUT], want = 0;

        ok(pare_fisher_collect(&s, a, &f, 1, &err));
        losses(m, base, grad);
        for (int k = 0; k < OUT; k++) {
            sum += f.f[k];
            for (int i = 0; i < ITEMS; i++) {
                double p = grad[i][k] + (k == labels[i]);

                want += p * (1 - p) / ITEMS;
            }
        }
        assert_true(fabs(sum - want) < 0.35 * want); /* 40 draws */
    }
    pare_arena_free(a);
    pare_model_free(m);
}

static void test_outputs_do_not_need_labels(void **state)
{
    struct pare_model *m = network();
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_gram g[2];
    double first[2][MID > OUT ? MID : OUT];

    (void)state;
    assert_int_equal(layers_of(m, a, g), 2);
    for (int with = 0; with < 2; with++) {
        struct pare_fisher_source s = { .model = m,
                                        .data = with ? data : plain,
                                        .items = ITEMS,
                                        .outputs = true,
                                        .threads = 1 };
        struct pare_fisher f[2] = { { .layer = g[0].layer }, { .layer = g[1].layer } };
        double sum = 0;

        ok(pare_fisher_collect(&s, a, f, 2, &err));
        for (int64_t k = 0; k < OUT; k++)
            sum += f[1].f[k] / OUT;
        assert_true(fabs(sum - 1) < 0.35); /* 120 draws of variance 1 */
        assert_true(fabs(pare_fisher_cost(&f[1], 0) - 0.5 * f[1].f[0]) < 1e-12);
        for (int i = 0; i < 2 && !with; i++)
            memcpy(first[i], f[i].f, (size_t)f[i].n * sizeof(double));
        for (int i = 0; i < 2 && with; i++)
            assert_memory_equal(first[i], f[i].f, (size_t)f[i].n * sizeof(double));
    }
    pare_arena_free(a);
    pare_model_free(m);
}

/* ---- files ----------------------------------------------------------------------------------- */

static void collect(struct pare_model *m, struct pare_arena *a, struct pare_gram *g,
                    struct pare_fisher *f)
{
    struct pare_gram_source s = { .model = m, .other = m, .data = data, .items = 32, .threads = 1 };
    struct pare_fisher_source fs = { .model = m, .data = data, .items = 32, .threads = 1 };

    assert_int_equal(layers_of(m, a, g), 2);
    for (int i = 0; i < 2; i++)
        f[i] = (struct pare_fisher){ .layer = g[i].layer };
    ok(pare_grams_collect(&s, a, g, 2, &err));
    ok(pare_fisher_collect(&fs, a, f, 2, &err));
}

static void test_files_hold_the_same_numbers(void **state)
{
    struct pare_model *m = network();
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_gram g[2], r[2];
    struct pare_fisher f[2], rf[2] = { 0 };
    char path[] = "/tmp/pare-grams-XXXXXX";

    (void)state;
    close(mkstemp(path));
    collect(m, a, g, f);
    ok(pare_grams_write(path, g, f, 2, &err));
    memcpy(r, g, sizeof(r));
    ok(pare_grams_read(a, path, r, rf, 2, &err));
    for (int i = 0; i < 2; i++) {
        size_t n = (size_t)(g[i].groups * g[i].k);

        assert_true(r[i].n == g[i].n && r[i].g != g[i].g && rf[i].n == f[i].n);
        assert_memory_equal(r[i].g, g[i].g, n * (size_t)g[i].k * sizeof(double));
        assert_memory_equal(r[i].cross, g[i].cross, n * (size_t)g[i].k * sizeof(double));
        assert_memory_equal(r[i].mean, g[i].mean, n * sizeof(double));
        assert_memory_equal(r[i].cross_mean, g[i].cross_mean, n * sizeof(double));
        assert_memory_equal(rf[i].f, f[i].f, (size_t)f[i].n * sizeof(double));
    }
    unlink(path);
    pare_arena_free(a);
    pare_model_free(m);
}

/* Each way to break the file is an error that says what is wrong. */
static void test_broken_files_are_errors(void **state)
{
    static const char *const want[] = { "not finite",  "second moments", "second moments",
                                        "not above 0", "below 0",        "another type or shape",
                                        "is missing" };
    struct pare_model *m = network();
    struct pare_arena *a = pare_arena_new(1 << 16);
    char path[] = "/tmp/pare-grams-XXXXXX";

    (void)state;
    close(mkstemp(path));
    for (int i = 0; i < 7; i++) {
        struct pare_gram g[2], r[2];
        struct pare_fisher f[2], rf[2] = { 0 };

        collect(m, a, g, f);
        memcpy(r, g, sizeof(r));
        if (i == 0)
            g[1].mean[0] = NAN;
        if (i == 1)
            g[0].g[1] += 1;
        if (i == 2)
            g[0].g[0] = -1;
        if (i == 3)
            g[1].n = 0;
        if (i == 4)
            f[0].f[1] = -1;
        r[0].k += i == 5;
        ok(pare_grams_write(path, g, i == 6 ? NULL : f, 2, &err));
        assert_int_not_equal(pare_grams_read(a, path, r, rf, 2, &err), 0);
        if (!strstr(err.msg, want[i]))
            fail_msg("%d: '%s' does not contain '%s'", i, err.msg, want[i]);
    }
    assert_int_not_equal(pare_grams_read(a, "/nonexistent", NULL, NULL, 0, &err), 0);
    assert_int_not_equal(pare_grams_parse(a, "abc", 3, NULL, NULL, 0, &err), 0);
    unlink(path);
    pare_arena_free(a);
    pare_model_free(m);
}

static void test_failing_allocations(void **state)
{
    struct pare_model *m = network();
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_gram g[2];
    int failures = 0;

    (void)state;
    assert_int_equal(layers_of(m, a, g), 2);
    for (int n = 1;; n += 1 + n / 8) {
        struct pare_fisher_source s = { .model = m, .data = data, .items = 16, .threads = 1 };
        struct pare_fisher f = { .layer = g[0].layer };
        struct pare_arena *b = pare_arena_new(1 << 10);
        bool reached;
        int rc;

        pare_oom_countdown = -n;
        rc = pare_fisher_collect(&s, b, &f, 1, &err);
        reached = pare_oom_countdown == 0;
        pare_oom_countdown = 0;
        pare_arena_free(b);
        failures += rc != 0;
        if (rc && rc != PARE_ENOMEM)
            fail_msg("allocation %d: code %d, '%s'", n, rc, err.msg);
        if (!reached)
            break;
    }
    assert_true(failures > 5);
    pare_arena_free(a);
    pare_model_free(m);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_it_is_the_mean_square_of_the_gradient),
        TEST(test_of_a_model_with_a_fixed_batch),
        TEST(test_grams_with_an_original_of_fixed_batch),
        TEST(test_without_labels_it_is_of_the_predictions),
        TEST(test_outputs_do_not_need_labels),
        TEST(test_files_hold_the_same_numbers),
        TEST(test_broken_files_are_errors),
        TEST(test_failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

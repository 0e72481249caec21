/* test_obs.c - pruners by second moments of inputs: exact counts and patterns, errors below those
 * of magnitude, degenerate inputs, error curves, failing allocations. */
#include "make_model.h"
#include "prune_rig.h"

#include "data/data.h"
#include "plan/plan.h"
#include "prune/obs_curves.h"

/* ---- layers ---------------------------------------------------------------------------------- */

enum { ITEMS = 96, C = 8, SIDE = 6 };

static struct pare_tensor items;
static struct pare_data *data;

static int setup(void **state)
{
    struct pare_input in = { .t = { 0 } };
    struct pare_arrays a = { .n = ITEMS, .input = &in, .n_inputs = 1, .batch = 8 };
    struct pare_rng rng;

    (void)state;
    pool = pare_arena_new(1 << 16);
    items = build_tensor(PARE_F32, 4, (int64_t[]){ ITEMS, C, SIDE, SIDE });
    pare_rng_init(&rng, 3);
    for (int64_t i = 0; i < pare_numel(&items); i++) /* channel 5 is always 0 */
        pare_f32_mut(&items)[i] = i / (SIDE * SIDE) % C == 5
                                      ? 0
                                      : (float)pare_rng_normal(&rng) * 0.5f + 0.3f +
                                            sinf((float)(i % (SIDE * SIDE)) +
                                                 (float)(i / (C * SIDE * SIDE)));
    in.t = items;
    ok(pare_data_from_arrays(&a, &data, &rig_err));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    pare_data_free(data);
    pare_arena_free(pool);
    return 0;
}

static const char *random_weight(struct build *b, int rank, const int64_t *dim, uint64_t seed)
{
    struct pare_tensor t = build_tensor(PARE_F32, rank, dim);
    struct pare_rng rng;

    pare_rng_init(&rng, seed);
    for (int64_t i = 0; i < pare_numel(&t); i++)
        pare_f32_mut(&t)[i] = 0.3f * (float)pare_rng_normal(&rng);
    return build_floats(b, rank, dim, pare_f32(&t));
}

/* One layer of each kind, whose inputs no pruning changes. */
enum kind { CONV, GROUPED, DEPTHWISE, CONV1, GEMM, GEMM_TRANSPOSED, MATMUL, KINDS };
static const char *const type_of[KINDS] = { "Conv2d", "Conv2d", "Conv2d", "Conv1d",
                                            "Linear", "Linear", "Linear" };

static struct pare_model *one_layer(enum kind kind)
{
    static const int64_t dim[][4] = { { 8, 8, 3, 3 }, { 8, 4, 3, 3 }, { 8, 1, 3, 3 }, { 8, 8, 5 },
                                      { 288, 12 },    { 12, 288 },    { 288, 12 } };
    static const int64_t group[] = { 1, 2, 8, 1 };
    const int rank = kind < CONV1 ? 4 : kind == CONV1 ? 3 : 2;
    struct build b = { .opset = 13 };
    const char *in = build_input(&b, PARE_F32, 4, (int64_t[]){ -1, C, SIDE, SIDE });
    const char *w, *y, *bias;

    w = random_weight(&b, rank, dim[kind], 10 + (uint64_t)kind);
    bias = random_weight(&b, 1, (int64_t[]){ kind < GEMM ? 8 : 12 }, 30);
    if (kind == CONV1)
        in = build_node(&b, "Reshape",
                        NAMES(in, build_ints(&b, 3, (int64_t[]){ -1, C, SIDE * SIDE })), NOTHING);
    if (kind >= GEMM)
        in = build_node(&b, "Flatten", NAMES(in), NOTHING);
    if (kind == MATMUL)
        y = build_node(&b, "MatMul", NAMES(in, w), NOTHING);
    else if (kind >= GEMM)
        y = build_node(&b, "Gemm", NAMES(in, w, bias), at_int("transB", kind == GEMM_TRANSPOSED));
    else
        y = build_node(&b, "Conv", NAMES(in, w, bias), at_int("group", group[kind]));
    build_output(&b, y);
    return build_model(&b);
}

/* Mean squared difference of the outputs for all items. */
static double difference(struct pare_model *a, struct pare_model *b)
{
    struct pare_model *m[2] = { a, b };
    struct pare_plan_opts o = { .in = &items, .batch = ITEMS, .threads = 1 };
    struct pare_tensor y[2];
    struct pare_plan *p[2];
    double sum = 0;

    for (int i = 0; i < 2; i++) {
        ok(pare_plan_make(m[i], &o, &p[i], &rig_err));
        ok(pare_plan_execute(p[i], &items, &y[i], &rig_err));
    }
    for (int64_t i = 0, n = pare_numel(&y[0]); i < n; i++)
        sum += pow((double)pare_f32(&y[0])[i] - (double)pare_f32(&y[1])[i], 2) / (double)n;
    pare_plan_free(p[0]);
    pare_plan_free(p[1]);
    return sum;
}

static struct pare_compression *prune(struct pare_model *m, const char *pruner, const char *keys,
                                      const char *type, int threads)
{
    struct pare_compression_opts o = { .pruner = pruner, .threads = threads };
    struct pare_compression *c;
    char config[200];

    snprintf(config, sizeof(config), "[{\"op_types\": [\"%s\"], %s}]", type, keys);
    o.config = config;
    ok(pare_compression_new(m, &o, &c, &rig_err));
    ok(pare_compression_use_data(c, data, 8, &rig_err));
    ok(pare_compression_compress(c, &rig_err));
    return c;
}

/* The error of the outputs after pruning; *zeros: removed weights. */
static double error_of(enum kind kind, const char *pruner, const char *keys, int64_t *zeros)
{
    struct pare_model *dense = one_layer(kind), *m = one_layer(kind);
    struct pare_compression *c = prune(m, pruner, keys, type_of[kind], 2);
    double error = difference(dense, m);

    *zeros = rig_removed(pare_compression_layer(c, 0));
    pare_compression_free(c);
    pare_model_free(m);
    pare_model_free(dense);
    return error;
}

static void test_errors_are_below_those_of_magnitude(void **state)
{
    static const char *const keys[] = {
        "\"sparsity\": 0.5, \"granularity\": \"element\"",
        "\"sparsity\": 0.75, \"granularity\": \"element\"",
        "\"sparsity\": 0.5, \"granularity\": \"block_4x1\"",
        "\"pattern\": \"2:4\"",
    };

    (void)state;
    for (enum kind kind = 0; kind < KINDS; kind++)
        for (int k = 0; k < 4; k++) {
            int64_t zeros[3];
            double level = error_of(kind, "level", keys[k], &zeros[0]), other;

            other = error_of(kind, "obs", keys[k], &zeros[1]);
            assert_true(other <= level * (1 + 1e-6) + 1e-12);
            assert_int_equal(zeros[1], zeros[0]);
            if (kind == DEPTHWISE && k == 2)
                continue; /* blocks overlap groups */
            other = error_of(kind, "sparsegpt", keys[k], &zeros[2]);
            assert_true(other <= level * (1 + 1e-6) + 1e-12);
            assert_true(zeros[2] <= zeros[0] && zeros[2] >= zeros[0] - 4 * (int64_t)C * 3);
        }
}

/* Wanda keeps as many weights in every row. */
static void test_wanda_removes_the_same_part_of_each_output(void **state)
{
    (void)state;
    for (enum kind kind = 0; kind < KINDS; kind++) {
        struct pare_model *m = one_layer(kind);
        struct pare_compression *c = prune(m, "wanda", "\"sparsity\": 0.5", type_of[kind], 1);
        struct pare_layer *l = pare_compression_layer(c, 0);
        const struct pare_tensor *mask = pare_layer_mask(l);
        int out = pare_layer_out_axis(l);
        int64_t rows = mask->dim[out], k = pare_numel(mask) / rows;

        for (int64_t r = 0; r < rows; r++) {
            int64_t gone = 0;

            for (int64_t i = 0; i < k; i++)
                gone += !((const uint8_t *)mask->data)[out ? i * rows + r : r * k + i];
            assert_int_equal(gone, k / 2);
        }
        pare_compression_free(c);
        pare_model_free(m);
    }
}

/* Of every 4 consecutive input channels, 2 are left. */
static void test_patterns_are_exact(void **state)
{
    static const char *const pruners[] = { "level", "wanda", "sparsegpt", "obs" };

    (void)state;
    for (int p = 0; p < 4; p++)
        for (enum kind kind = 0; kind < KINDS; kind++) {
            struct pare_model *m = one_layer(kind);
            struct pare_compression *c = prune(m, pruners[p], "\"pattern\": \"2:4\"", type_of[kind],
                                               1);
            struct pare_layer *l = pare_compression_layer(c, 0);
            const struct pare_tensor *mask = pare_layer_mask(l);
            int axis = kind == DEPTHWISE ? 3 : pare_layer_in_axis(l);
            int64_t inner = 1, len = mask->dim[axis];

            for (int i = axis + 1; i < mask->rank; i++)
                inner *= mask->dim[i];
            for (int64_t at = 0; at < pare_numel(mask); at++) {
                int64_t left = 0, most = len < 4 ? len : 4;

                if (at / inner % len % 4)
                    continue;
                for (int64_t i = 0; i < most; i++)
                    left += ((const uint8_t *)mask->data)[at + i * inner];
                assert_int_equal(left, 2);
            }
            pare_compression_free(c);
            pare_model_free(m);
        }
}

static void test_keeping_everything_changes_nothing(void **state)
{
    static const char *const pruners[] = { "wanda", "sparsegpt", "obs" };

    (void)state;
    for (int p = 0; p < 3; p++)
        for (enum kind kind = 0; kind < KINDS; kind++) {
            struct pare_model *dense = one_layer(kind), *m = one_layer(kind);
            struct pare_compression *c = prune(m, pruners[p],
                                               "\"sparsity\": 0, \"granularity\": \"element\"",
                                               type_of[kind], 1);
            const struct pare_tensor *w = pare_layer_weight(pare_compression_layer(c, 0));
            struct pare_value *v = pare_compression_layer(c, 0)->weight;
            struct pare_value *was = pare_graph_find(dense->graph, v->name);

            ok(pare_model_own(dense, was, &rig_err));
            assert_memory_equal(v->t.data, was->t.data, (size_t)pare_numel(w) * sizeof(float));
            pare_compression_free(c);
            pare_model_free(m);
            pare_model_free(dense);
        }
}

/* ---- networks -------------------------------------------------------------------------------- */

/* A residual block, a depthwise layer between pointwise ones, normalization, a linear layer. */
static struct pare_model *network(void)
{
    struct build b = { .opset = 13 };
    const char *in = build_input(&b, PARE_F32, 4, (int64_t[]){ -1, C, SIDE, SIDE }), *x, *y;
    struct bin pads = at_ints("pads", 4, (int64_t[]){ 1, 1, 1, 1 });

    x = build_node(&b, "Conv", NAMES(in, random_weight(&b, 4, (int64_t[]){ 8, C, 3, 3 }, 1)), pads);
    x = build_node(&b, "Relu", NAMES(x), NOTHING);
    y = build_node(&b, "Conv", NAMES(x, random_weight(&b, 4, (int64_t[]){ 12, 8, 3, 3 }, 2)), pads);
    y = build_node(&b, "Relu", NAMES(y), NOTHING);
    y = build_node(&b, "Conv", NAMES(y, random_weight(&b, 4, (int64_t[]){ 8, 12, 3, 3 }, 3)), pads);
    x = build_node(&b, "Relu", NAMES(build_node(&b, "Add", NAMES(x, y), NOTHING)), NOTHING);
    x = build_node(&b, "Conv", NAMES(x, random_weight(&b, 4, (int64_t[]){ 8, 1, 3, 3 }, 4)),
                   CAT(at_int("group", 8), pads));
    x = build_node(&b, "Conv", NAMES(x, random_weight(&b, 4, (int64_t[]){ 10, 8, 1, 1 }, 5)),
                   NOTHING);
    x = build_node(&b, "Flatten", NAMES(build_node(&b, "Relu", NAMES(x), NOTHING)), NOTHING);
    build_output(&b, build_node(&b, "Gemm",
                                NAMES(x, random_weight(&b, 2, (int64_t[]){ 360, 5 }, 6)), NOTHING));
    return build_model(&b);
}

static struct pare_compression *open_channels(struct pare_model *m, int threads)
{
    struct pare_compression_opts o = { .pruner = "obs",
                                       .threads = threads,
                                       .config = "[{\"op_types\": [\"Conv2d\"], "
                                                 "\"sparsity\": 0.4}]",
                                       .settings = "mode=global_aware" };
    struct pare_compression *c;

    ok(pare_compression_new(m, &o, &c, &rig_err));
    ok(pare_compression_use_data(c, data, 8, &rig_err));
    return c;
}

/* The order is a permutation, errors never fall, and every set has its readers. */
static void test_curves_of_channels(void **state)
{
    struct pare_model *m = network();
    struct pare_compression *c = open_channels(m, 2);
    struct pare_arena *a = pare_arena_new(1 << 12);
    struct pare_obs_options o = { { 64, -1 }, 640, "layer", "macs" };
    struct pare_obs_curves v;

    (void)state;
    ok(pare_obs_curves(c, &o, a, &v, &rig_err));
    assert_true(v.n == 3); /* the residual sum with the depthwise layer, inside, before the Gemm */
    for (int i = 0; i < v.n; i++) {
        const struct pare_obs_curve *e = &v.list[i];
        int64_t sum = 0;

        assert_true(e->readers > 0 && e->params > 0 && e->macs > 0);
        assert_true(e->error[0] == 0 && e->error[e->set->n] > 0);
        for (int64_t k = 0; k < e->set->n; k++) {
            sum += e->order[k];
            assert_true(e->error[k + 1] >= e->error[k]);
        }
        assert_int_equal(sum, e->set->n * (e->set->n - 1) / 2);
    }
    pare_arena_free(a);
    pare_compression_free(c);
    pare_model_free(m);
}

static void test_channels_do_not_depend_on_threads(void **state)
{
    float first[12 * 8 * 9];

    (void)state;
    for (int threads = 1; threads <= 3; threads++) {
        struct pare_model *m = network();
        struct pare_compression *c = open_channels(m, threads);
        const struct pare_tensor *w;

        ok(pare_compression_compress(c, &rig_err));
        w = &pare_compression_layer(c, 1)->weight->t;
        assert_true(pare_compression_zeros(c) > 0 && pare_numel(w) == 12 * 8 * 9);
        if (threads > 1)
            assert_memory_equal(w->data, first, sizeof(first));
        memcpy(first, w->data, sizeof(first));
        pare_compression_free(c);
        pare_model_free(m);
    }
}

/* ---- what cannot be pruned ------------------------------------------------------------------- */

static void expect_failure(const char *pruner, const char *config, bool with_data, const char *text)
{
    struct pare_model *m = network();
    struct pare_compression_opts o = { .pruner = pruner, .config = config };
    struct pare_compression *c = NULL;
    int rc = pare_compression_new(m, &o, &c, &rig_err);

    if (!rc && with_data)
        ok(pare_compression_use_data(c, data, 8, &rig_err));
    if (!rc)
        rc = pare_compression_compress(c, &rig_err);
    if (!rc || !strstr(rig_err.msg, text))
        fail_msg("%s: '%s', expected '%s'", pruner, rc ? rig_err.msg : "no error", text);
    pare_compression_free(c);
    pare_model_free(m);
}

static void test_errors(void **state)
{
    static const char *const pruners[] = { "wanda", "sparsegpt", "obs" };

    (void)state;
    for (int i = 0; i < 3; i++) {
        expect_failure(pruners[i], "[{\"op_types\": [\"Conv2d\"], \"sparsity\": 0.5}]", false,
                       "needs data");
        expect_failure(pruners[i], "[{\"op_types\": [\"Conv2d\"], \"pattern\": \"4:2\"}]", true,
                       "expected n:m");
        expect_failure(pruners[i],
                       "[{\"op_types\": [\"Conv2d\"], \"pattern\": \"2:4\", \"sparsity\": 0.7}]",
                       true, "specify one of them");
    }
    expect_failure("sparsegpt",
                   "[{\"op_types\": [\"Conv2d\"], \"sparsity\": 0.5, \"granularity\": "
                   "\"out_channel\"}]",
                   true, "use granularity element");
    expect_failure("obs",
                   "[{\"op_types\": [\"Conv2d\"], \"sparsity\": 0.5, \"granularity\": "
                   "\"in_channel\"}]",
                   true, "use granularity element");
}

/* Two nodes with one weight: the layer is left alone, by name. */
static void test_tied_layers_are_refused(void **state)
{
    struct build b = { .opset = 13 };
    const char *in = build_input(&b, PARE_F32, 4, (int64_t[]){ -1, C, SIDE, SIDE });
    const char *w = random_weight(&b, 4, (int64_t[]){ C, C, 1, 1 }, 1), *x;
    struct pare_compression_opts o = { .pruner = "wanda" };
    struct pare_compression *c = NULL;
    struct pare_model *m;

    (void)state;
    x = build_node(&b, "Relu", NAMES(build_node(&b, "Conv", NAMES(in, w), NOTHING)), NOTHING);
    build_output(&b, build_node(&b, "Conv", NAMES(x, w), NOTHING));
    m = build_model(&b);
    o.config = "[{\"op_types\": [\"Conv2d\"], \"sparsity\": 0.5}]";
    assert_true(pare_compression_new(m, &o, &c, &rig_err) != 0);
    assert_non_null(strstr(rig_err.msg, "several nodes use its weight"));
    pare_model_free(m);
}

static void test_failing_allocations(void **state)
{
    static const char *const pruners[] = { "wanda", "sparsegpt", "obs", "obs" };
    static const char *const keys[] = { "[{\"op_types\": [\"Conv2d\"], \"sparsity\": 0.5}]",
                                        "[{\"op_types\": [\"Conv2d\"], \"pattern\": \"2:4\"}]" };

    (void)state;
    for (int p = 0; p < 4; p++) {
        int failures = 0;

        for (int n = 1;; n += 1 + n / 6) {
            struct pare_model *m = network();
            struct pare_compression *c;
            struct pare_compression_opts o = { .pruner = pruners[p],
                                               .threads = 1,
                                               .settings = "items=16",
                                               .config = keys[p == 2] };
            bool reached;
            int rc;

            ok(pare_compression_new(m, &o, &c, &rig_err));
            ok(pare_compression_use_data(c, data, 8, &rig_err));
            pare_oom_countdown = -n;
            rc = pare_compression_compress(c, &rig_err);
            reached = pare_oom_countdown == 0;
            pare_oom_countdown = 0;
            failures += rc != 0;
            if (rc && rc != PARE_ENOMEM)
                fail_msg("%s, allocation %d: code %d, '%s'", pruners[p], n, rc, rig_err.msg);
            pare_compression_free(c);
            pare_model_free(m);
            if (!reached)
                break;
        }
        assert_true(failures > 10);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_errors_are_below_those_of_magnitude),
        TEST(test_wanda_removes_the_same_part_of_each_output),
        TEST(test_patterns_are_exact),
        TEST(test_keeping_everything_changes_nothing),
        TEST(test_curves_of_channels),
        TEST(test_channels_do_not_depend_on_threads),
        TEST(test_errors),
        TEST(test_tied_layers_are_refused),
        TEST(test_failing_allocations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

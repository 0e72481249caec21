/* test_pruner_cases.c - pruners against the numeric cases of NNI's tests (numbered N1, N2, ...),
 * and schedules against the values that NNI documents. */
#include "prune_rig.h"

#include "prune/activation_stats.h"
#include "prune/sparsity_schedule.h"

#define BOTH(a, b)                                                                             \
    "[{\"sparsity\": " a ", \"op_types\": [\"Conv2d\"]}, {\"sparsity\": " b ", \"op_names\": " \
    "[\"conv2\"]}]"

static void free_both(struct pare_compression *r, struct pare_model *m)
{
    pare_compression_free(r);
    pare_model_free(m);
}

/* ---- masks --------------------------------------------------------------------------------- */

static void test_n1_n2_fpgm(void **state)
{
    static const char *const config[] = { "[{\"sparsity\": 0.2, \"op_types\": [\"Conv2d\"]}]",
                                          BOTH("0.2", "0.6") };
    static const char *const kept[] = { "1111001111", "1100000011" };

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct pare_model *m = rig_model("t1");
        struct pare_compression *r;

        rig_fill_channels(m, "conv2.weight", 1, 1);
        r = rig_compression(m, "fpgm", config[i], NULL);
        ok(pare_compression_compress(r, &rig_err));
        rig_expect_kept(r, "conv2", kept[i]);
        free_both(r, m);
    }
}

/* Cases N3 and N4; l2 ranks these weights as l1 does. */
static void test_n3_n4_l1_and_l2(void **state)
{
    static const char *const pruner[] = { "l1", "l2" };

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct pare_model *m = rig_model("t1");
        struct pare_compression *r;

        rig_fill_channels(m, "conv1.weight", 0, 1);
        rig_fill_channels(m, "conv2.weight", 0, 1);
        r = rig_compression(m, pruner[i], BOTH("0.2", "0.6"), NULL);
        ok(pare_compression_compress(r, &rig_err));
        rig_expect_kept(r, "conv1", "01111");
        rig_expect_kept(r, "conv2", "0000001111");
        free_both(r, m);
    }
}

/* Two batch normalizations of 5 channels each. */
static struct pare_flow two_norms(struct pare_net *n, struct pare_flow x)
{
    struct pare_conv c = { .out = 5, .kernel = 3 };

    x = pare_net_batch_norm(n, pare_net_conv(n, x, "conv1", c), "bn1");
    x = pare_net_batch_norm(n, pare_net_conv(n, x, "conv2", c), "bn2");
    return pare_net_linear(n, pare_net_flatten(n, x, "flatten"), "fc", n->classes);
}

/* Layers ranked together, which is the default, or separately. */
static void test_n5_n6_slim(void **state)
{
    static const struct pare_network net = { .name = "two", .build = two_norms };
    struct pare_network_opts o = { .c = 1, .h = 8, .w = 8, .classes = 10 };

    (void)state;
    for (int i = 0; i < 4; i++) {
        bool n6 = i & 1;
        struct pare_model *m;
        struct pare_compression *r;

        ok(pare_network_make(&net, &o, &m, &rig_err));
        rig_fill_channels(m, "bn1.weight", 0, 1);
        rig_fill_channels(m, "bn2.weight", 0, n6 ? 1 : -1);
        r = rig_compression(m, "slim",
                            n6 ? "[{\"sparsity\": 0.6, \"op_types\": [\"BatchNorm2d\"]}]"
                               : "[{\"sparsity\": 0.2, \"op_types\": [\"BatchNorm2d\"]}]",
                            i / 2 ? "training_epochs=0 mode=normal" : "training_epochs=0");
        ok(pare_compression_compress(r, &rig_err));
        rig_expect_kept(r, "bn1", n6 ? "00011" : "01111");
        rig_expect_kept(r, "bn2", n6 ? "00011" : "01111");
        free_both(r, m);
    }
}

/* A training step with gradients of +1 and -1, without a trainer. */
static void taylor_step(struct pare_compression *r)
{
    for (int i = 0; i < pare_compression_layers(r); i++) {
        struct pare_layer *l = pare_compression_layer(r, i);

        ok(pare_tensor_new(r->arena, &l->grad, PARE_F32, l->w.rank, l->w.dim, &rig_err));
        for (int64_t k = 0; k < pare_numel(&l->w); k++)
            pare_f32_mut(&l->grad)[k] = k & 1 ? -1 : 1;
    }
    r->in_step = true;
    ok(pare_compression_before_step(r, &rig_err));
    r->in_step = false;
    for (int i = 0; i < pare_compression_layers(r); i++)
        pare_compression_layer(r, i)->grad.data = NULL;
    ok(pare_compression_update_masks(r, &rig_err));
}

static void test_n7_n8_taylor(void **state)
{
    (void)state;
    for (int global = 0; global < 2; global++) {
        struct pare_model *m = rig_model("t1");
        struct pare_compression *r;

        rig_fill_channels(m, "conv1.weight", 0, 1);
        rig_fill_channels(m, "conv2.weight", 10, -1);
        r = rig_compression(m, "taylor",
                            global ? "[{\"total_sparsity\": 0.4, \"op_types\": [\"Conv2d\"]}]"
                                   : BOTH("0.2", "0.6"),
                            global ? "statistics_batch_num=1 mode=global" : "training_steps=2");
        taylor_step(r);
        if (!global) {
            rig_expect_kept(r, "conv1", "11111");
            taylor_step(r);
        }
        rig_expect_kept(r, "conv1", global ? "00001" : "01111");
        rig_expect_kept(r, "conv2", global ? "1111111000" : "1111000000");
        free_both(r, m);
    }
}

/* ---- scores of single weights ---------------------------------------------------------------- */

static struct pare_tensor filled_tensor(struct pare_arena *a, int rank, const int64_t *dim, float v)
{
    struct pare_tensor t;

    ok(pare_tensor_new(a, &t, PARE_F32, rank, dim, &rig_err));
    for (int64_t i = 0; i < pare_numel(&t); i++)
        pare_f32_mut(&t)[i] = v;
    return t;
}

static const struct pare_grain rows = { .name = "out_channel", .out_axis = 0, .in_axis = 1 };

static void test_n17_l2_scores(void **state)
{
    struct pare_arena *a = pare_arena_new(4096);
    struct pare_tensor cube = filled_tensor(a, 3, (int64_t[]){ 3, 3, 3 }, 1);
    struct pare_tensor square = filled_tensor(a, 2, (int64_t[]){ 4, 4 }, 2);
    struct pruner_rig f;

    (void)state;
    pruner_rig_open(&f, "l2", NULL, &cube, &rows);
    for (int i = 0; i < 3; i++)
        expect_near((double)pruner_rig_score(&f)[i], 3, 1e-6);
    pruner_rig_close(&f);
    pruner_rig_open(&f, "l2", NULL, &square, &rows);
    for (int i = 0; i < 4; i++)
        expect_near((double)pruner_rig_score(&f)[i], 4, 1e-6);
    pruner_rig_close(&f);
    pare_arena_free(a);
}

static void test_n18_fpgm_scores(void **state)
{
    float x[2][4] = { { 1, 2, 4, 6 }, { 0, 0, 1, 1 } };
    struct pruner_rig f;

    (void)state;
    for (int k = 0; k < 2; k++) {
        struct pare_tensor t = { PARE_F32, 2, { 2, 2 }, x[k] };

        pruner_rig_open(&f, "fpgm", NULL, &t, &rows);
        for (int i = 0; i < 2; i++)
            expect_near((double)pruner_rig_score(&f)[i], k ? sqrt(2) : 5, 1e-6);
        pruner_rig_close(&f);
    }
}

/* Two steps with a sum of 1 for each weight give a buffer of 2. */
static void test_n19_taylor_sums(void **state)
{
    struct pare_arena *a = pare_arena_new(4096);
    int64_t dim[2][3] = { { 3, 3, 3 }, { 4, 4 } };

    (void)state;
    for (int k = 0; k < 2; k++) {
        struct pare_tensor w = filled_tensor(a, 3 - k, dim[k], 0.5f),
                           g = filled_tensor(a, 3 - k, dim[k], -2);
        struct pruner_rig f;

        pruner_rig_open(&f, "taylor", "training_steps=2", &w, &rows);
        pruner_rig_step(&f, &g);
        assert_int_equal(f.p->pruner->score(&f.compression, &f.layer, f.score, &rig_err),
                         PARE_NOT_YET);
        pruner_rig_step(&f, &g);
        for (int i = 0; i < dim[k][0]; i++)
            expect_near((double)pruner_rig_score(&f)[i], k ? 8 : 18, 1e-6);
        pruner_rig_close(&f);
    }
    pare_arena_free(a);
}

/* Expects these scores of activations x (2 items, 2 positions, channels). */
static void expect_activation_score(const char *pruner, const float *x, int64_t channels,
                                    const double *want)
{
    struct pare_tensor out = { PARE_F32, 3, { 2, 2, channels }, (void *)(uintptr_t)x };
    struct pare_arena *a = pare_arena_new(4096);
    struct pare_tensor w = filled_tensor(a, 2, (int64_t[]){ channels, 7 }, 1);
    const int64_t dim[] = { 2 * channels + 1 };
    struct pare_activation_stats_layer *s;
    struct pruner_rig f;
    double *sum;

    pruner_rig_open(&f, pruner, "training_steps=1", &w, &rows);
    s = f.layer.state[0];
    *s = (struct pare_activation_stats_layer){ 1, channels };
    sum = pare_layer_buffer(&f.layer, "activity", PARE_F64, 1, dim, &rig_err)->data;
    sum[2 * channels] = 4;
    pare_activation_stats_add(&out, 2, pare_activation_find("relu"), sum, sum + channels);
    for (int64_t c = 0; c < channels; c++)
        expect_near((double)pruner_rig_score(&f)[c], want[c], 1e-6);
    pruner_rig_close(&f);
    pare_arena_free(a);
}

static void test_n20_n21_apoz_and_mean_rank(void **state)
{
    /* Each of the (2, 2) values is 0 in one of two items; only channel 2 is 0, at the first
     * position. */
    static const float half[] = { 0, 1, 1, -3, 2, 0, -1, 5 };
    static const float most[] = { 1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1 };
    /* Sums over items [[0, 1], [1, 0]]; [[0, 0, 1], [0, 0, 0]]. */
    static const float sum[] = { 0, 1, 1, 0, -1, 0, 0, 0 };
    static const float third[] = { 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0 };

    (void)state;
    expect_activation_score("apoz", half, 2, (double[]){ 0.5, 0.5 });
    expect_activation_score("apoz", most, 3, (double[]){ 1, 1, 0.75 });
    expect_activation_score("mean_rank", sum, 2, (double[]){ 0.25, 0.25 });
    expect_activation_score("mean_rank", third, 3, (double[]){ 0, 0, 0.25 });
}

/* ---- the model ------------------------------------------------------------------------------ */

static double output_sum(struct pare_model *m)
{
    float one[10] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };
    struct pare_tensor x = { PARE_F32, 4, { 1, 1, 1, 10 }, one }, y;
    struct pare_plan *p;
    double sum = 0;

    ok(pare_plan_make(m, NULL, &p, &rig_err));
    ok(pare_plan_execute(p, &x, &y, &rig_err));
    for (int i = 0; i < 10; i++)
        sum += (double)pare_f32(&y)[i];
    pare_plan_free(p);
    return sum;
}

static struct pare_flow linear_of_10(struct pare_net *n, struct pare_flow x)
{
    return pare_net_linear(n, pare_net_flatten(n, x, "flatten"), "fc", 10);
}

/* Of 10 x 10 weights i + 0.1 j the 10 largest are kept: those of i = 9. */
static void test_n27_level(void **state)
{
    static const struct pare_network net = { .name = "ten", .build = linear_of_10 };
    struct pare_network_opts o = { .c = 1, .h = 1, .w = 10, .classes = 10 };
    struct pare_arena *a = pare_arena_new(1 << 14);
    struct pare_model *m, *again;
    struct pare_compression *r;
    size_t len;
    void *bytes;

    (void)state;
    ok(pare_network_make(&net, &o, &m, &rig_err));
    for (int i = 0; i < 100; i++)
        pare_f32_mut(rig_weight(m, "fc.weight"))[i] = (float)(i % 10) + 0.1f * (float)(i / 10);
    memset(rig_weight(m, "fc.bias")->data, 0, 10 * sizeof(float));
    r = rig_compression(m, "level", "[{\"sparsity\": 0.9, \"op_types\": [\"default\"]}]", NULL);
    ok(pare_compression_compress(r, &rig_err));
    expect_near(output_sum(m), 94.5, 1e-4);
    ok(pare_model_pack(m, a, &bytes, &len, &rig_err));
    ok(pare_model_parse(bytes, len, NULL, &again, &rig_err));
    expect_near(output_sum(again), 94.5, 1e-4);
    pare_model_free(again);
    free_both(r, m);
    pare_arena_free(a);
}

static void test_n30_wrapped_layer(void **state)
{
    struct pare_model *m = rig_model("t1");
    struct pare_tensor *w = rig_weight(m, "conv2.weight");
    int64_t n = pare_numel(w);
    struct pare_arena *a = pare_arena_new(1 << 14);
    float *before = pare_alloc(a, (size_t)n, sizeof(float));
    struct pare_compression *r;
    struct pare_layer *l;

    (void)state;
    memcpy(before, w->data, (size_t)n * sizeof(float));
    r = rig_compression(m, "l1", "[{\"sparsity\": 0.5, \"op_types\": [\"Conv2d\"]}]", NULL);
    ok(pare_compression_compress(r, &rig_err));
    l = rig_layer(r, "conv2");
    assert_memory_equal(pare_layer_weight(l)->data, before, (size_t)n * sizeof(float));
    assert_int_equal(rig_removed(l), n / 2);
    for (int64_t i = 0; i < n; i++)
        assert_true(pare_f32(rig_weight(m, "conv2.weight"))[i] ==
                    (((uint8_t *)pare_layer_mask(l)->data)[i] ? before[i] : 0));
    free_both(r, m);
    pare_arena_free(a);
}

/* ---- schedules ------------------------------------------------------------------------------ */

static void test_nni_sparsity_schedules(void **state)
{
    static const double old[] = { 0,       .238134, .423594, .562963, .662826, .729767,
                                  .770370, .791221, .798903, .8,      .8 };
    static const double v2[] = { 0, .3904, .6272, .7488, .7936, .8 };
    static const double rounds[] = { 0, .27522, .474694, .619269, .724054, .8 };
    const struct pare_epochs e = { 0, 0.8, 0, 10, 1 };

    (void)state;
    for (int t = 0; t <= 10; t++)
        expect_near(pare_sparsity_epochs(&e, pare_sparsity_cubic, t), old[t], 1e-6);
    for (int i = 0; i <= 5; i++) {
        expect_near(pare_sparsity_times(pare_sparsity_cubic, 0.8, i, 5), v2[i], 1e-6);
        expect_near(pare_sparsity_times(pare_sparsity_linear, 0.8, i, 5), 0.16 * i, 1e-6);
        expect_near(pare_sparsity_rounds(0.8, i, 5), rounds[i], 1e-6);
    }
    assert_true(pare_sparsity_times(pare_sparsity_cubic, 0.8, 6, 5) == 0.8);
    assert_true(pare_sparsity_times(pare_sparsity_cubic, 0.8, -1, 5) == 0);
}

/* Every third epoch from 2 to 11: at 2, 5, 8 and 11. */
static void test_sparsity_by_epochs(void **state)
{
    const struct pare_epochs e = { 0.1, 0.7, 2, 12, 3 };
    const struct pare_epochs none = { 0, 0.7, 2, 3, 1 }, down = { 0.7, 0.1, 0, 10, 1 };
    static const int due[] = { 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0 };

    (void)state;
    assert_int_equal(pare_sparsity_span(&e), 9);
    assert_int_equal(pare_sparsity_span(&none), 0);
    for (int t = 0; t <= 12; t++)
        assert_int_equal(pare_sparsity_due(&e, t), due[t]);
    expect_near(pare_sparsity_epochs(&e, pare_sparsity_cubic, 0), 0.1, 1e-12);
    expect_near(pare_sparsity_epochs(&e, pare_sparsity_cubic, 5), 0.7 - 0.6 * 8 / 27, 1e-12);
    expect_near(pare_sparsity_epochs(&e, pare_sparsity_linear, 8), 0.5, 1e-12);
    expect_near(pare_sparsity_epochs(&e, pare_sparsity_cubic, 11), 0.7, 1e-12);
    expect_near(pare_sparsity_epochs(&none, pare_sparsity_cubic, 2), 0.7, 1e-12);
    expect_near(pare_sparsity_epochs(&down, pare_sparsity_cubic, 2), 0.1, 1e-12);
}

static void test_sparsity_window(void **state)
{
    (void)state;
    assert_true(pare_sparsity_window(10, 10, 20) == 0);
    assert_true(pare_sparsity_window(20, 10, 20) == 1);
    expect_near(pare_sparsity_window(15, 10, 20), 1 - 0.125, 1e-12);
}

/* Case N24: iterations 0 to 5 of agp and linear; lottery_ticket prunes 5 times after a training. */
static void test_n24_epochs_and_masks(void **state)
{
    static const struct {
        const char *pruner, *settings;
        int64_t epochs, masks;
    } c[] = { { "agp", "total_iteration=5", 6, 5 },
              { "linear", "total_iteration=5", 6, 5 },
              { "lottery_ticket", "prune_iterations=5 reset_weights=false", 6, 5 } };

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct pare_model *m = rig_model("t1");
        struct pare_compression *r = rig_compression(
            m, c[i].pruner, "[{\"sparsity\": 0.8, \"op_types\": [\"default\"]}]", c[i].settings);
        int64_t epochs, steps, masks = 0, before = 0;

        ok(pare_compression_length(r, &epochs, &steps, &rig_err));
        assert_int_equal(epochs, c[i].epochs);
        assert_int_equal(steps, 0);
        for (int64_t e = 0; e < epochs + 2; e++) {
            ok(pare_compression_on_epoch(r, e, &rig_err));
            masks += rig_removed(rig_layer(r, "fc1")) != before;
            before = rig_removed(rig_layer(r, "fc1"));
        }
        assert_int_equal(masks, c[i].masks);
        assert_int_equal(before, 12800);
        free_both(r, m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_n1_n2_fpgm),
        cmocka_unit_test(test_n3_n4_l1_and_l2),
        cmocka_unit_test(test_n5_n6_slim),
        cmocka_unit_test(test_n7_n8_taylor),
        cmocka_unit_test(test_n17_l2_scores),
        cmocka_unit_test(test_n18_fpgm_scores),
        cmocka_unit_test(test_n19_taylor_sums),
        cmocka_unit_test(test_n20_n21_apoz_and_mean_rank),
        cmocka_unit_test(test_n24_epochs_and_masks),
        cmocka_unit_test(test_n27_level),
        cmocka_unit_test(test_n30_wrapped_layer),
        cmocka_unit_test(test_nni_sparsity_schedules),
        cmocka_unit_test(test_sparsity_by_epochs),
        cmocka_unit_test(test_sparsity_window),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_grams.c - Gram matrices of layer inputs against naive sums: windows with padding, stride and
 * groups, linear layers of both orders, another model's inputs, subsets, failing allocations; and
 * quantizer gptq on such layers. */
#include "make_model.h"

#include <math.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/rng.h"
#include "compress/compression.h"
#include "compress/grams.h"
#include "compress/wrap.h"
#include "quant/quant_state.h"

#include <pare/data.h>
#include <pare/session.h>

enum { ITEMS = 40, C = 4, SIDE = 6 };

static struct pare_err err;
static struct pare_tensor items;
static struct pare_data *data;

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
    items = build_tensor(PARE_F32, 4, (int64_t[]){ ITEMS, C, SIDE, SIDE });
    pare_rng_init(&rng, 3);
    for (int64_t i = 0; i < pare_numel(&items); i++)
        pare_f32_mut(&items)[i] = (float)pare_rng_normal(&rng) + 0.3f;
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

static const char *random_weight(struct build *b, int rank, const int64_t *dim, uint64_t seed)
{
    struct pare_tensor t = build_tensor(PARE_F32, rank, dim);
    struct pare_rng rng;

    pare_rng_init(&rng, seed);
    for (int64_t i = 0; i < pare_numel(&t); i++)
        pare_f32_mut(&t)[i] = (float)pare_rng_normal(&rng) * 0.3f;
    return build_floats(b, rank, dim, pare_f32(&t));
}

/* Conv of a window, then a linear layer of all its outputs: Gemm, or MatMul with a bias. */
static struct pare_model *make(int64_t group, int64_t stride, bool gemm, uint64_t seed)
{
    struct build b = { .opset = 13 };
    const int64_t out = 8, side = (SIDE + 1 - 3) / stride + 1, n = out * side * side;
    const char *x = build_input(&b, PARE_F32, 4, (int64_t[]){ -1, C, SIDE, SIDE });
    const char *w = random_weight(&b, 4, (int64_t[]){ out, C / group, 3, 3 }, seed);
    const char *bias = random_weight(&b, 1, (int64_t[]){ out }, seed + 1), *y;

    y = build_node(&b, "Conv", NAMES(x, w, bias),
                   CAT(at_int("group", group), at_ints("strides", 2, (int64_t[]){ stride, stride }),
                       at_ints("pads", 4, (int64_t[]){ 1, 0, 0, 1 })));
    y = build_node(&b, "Relu", NAMES(y), NOTHING);
    y = build_node(&b, "Flatten", NAMES(y), NOTHING);
    if (gemm) {
        w = random_weight(&b, 2, (int64_t[]){ 5, n }, seed + 2);
        bias = random_weight(&b, 1, (int64_t[]){ 5 }, seed + 3);
        y = build_node(&b, "Gemm", NAMES(y, w, bias), CAT(at_int("transB", 1)));
    } else {
        w = random_weight(&b, 2, (int64_t[]){ n, 5 }, seed + 2);
        y = build_node(&b, "MatMul", NAMES(y, w), NOTHING);
    }
    build_output(&b, y);
    return build_model(&b);
}

static int find_grams(const struct pare_model *m, struct pare_arena *a, struct pare_gram *g)
{
    struct pare_layer_info *list;
    struct pare_graph *graph;
    int n, count = 0;

    ok(pare_model_layers(m, a, &graph, &list, &n, &err));
    for (int i = 0; i < n; i++)
        count += pare_gram_of(&list[i], &g[count]);
    return count;
}

/* What the convolution's tap k of a group reads at output (h, w); 0 in the padding. */
static double patch(int64_t item, int64_t group, int64_t groups, int64_t k, int64_t at, int64_t out,
                    int64_t stride)
{
    int64_t c = group * (C / groups) + k / 9, h = at / out * stride + k / 3 % 3 - 1;
    int64_t v = at % out * stride + k % 3;

    if (h < 0 || h >= SIDE || v < 0 || v >= SIDE)
        return 0;
    return (double)pare_f32(&items)[((item * C + c) * SIDE + h) * SIDE + v];
}

static void check_conv(const struct pare_gram *g, int64_t groups, int64_t stride)
{
    int64_t out = (SIDE + 1 - 3) / stride + 1, n = ITEMS * out * out;

    assert_int_equal(g->groups, groups);
    assert_int_equal(g->k, C / groups * 9);
    assert_true(g->n == (double)n);
    for (int64_t i = 0; i < groups; i++)
        for (int64_t a = 0; a < g->k; a++)
            for (int64_t b = 0; b < g->k; b++) {
                double s = 0, m = 0;

                for (int64_t p = 0; p < n; p++) {
                    double v = patch(p / (out * out), i, groups, a, p % (out * out), out, stride);

                    m += v;
                    s += v * patch(p / (out * out), i, groups, b, p % (out * out), out, stride);
                }
                assert_true(fabs(g->g[(i * g->k + a) * g->k + b] - s / (double)n) < 1e-12);
                assert_true(fabs(g->mean[i * g->k + a] - m / (double)n) < 1e-12);
            }
}

static void test_windows_and_groups(void **state)
{
    (void)state;
    for (int64_t group = 1; group <= 4; group *= 2)
        for (int64_t stride = 1; stride <= 2; stride++) {
            struct pare_model *m = make(group, stride, true, 1);
            struct pare_gram g[4];
            struct pare_gram_source s = { .model = m, .data = data, .items = ITEMS, .threads = 2 };

            assert_int_equal(find_grams(m, pool, g), 2);
            ok(pare_grams_collect(&s, pool, g, 2, &err));
            check_conv(&g[0], group, stride);
            pare_model_free(m);
        }
}

/* Both orders of the matrix; the values are those of a run of the model. */
static void test_linear_layers(void **state)
{
    (void)state;
    for (int gemm = 0; gemm < 2; gemm++) {
        struct pare_model *m = make(1, 2, gemm, 1);
        struct pare_gram g[4];
        struct pare_gram_source s = { .model = m, .data = data, .items = ITEMS, .threads = 1 };
        double trace = 0, sum = 0;

        assert_int_equal(find_grams(m, pool, g), 2);
        ok(pare_grams_collect(&s, pool, g, 2, &err));
        assert_int_equal(g[1].k, 8 * 9);
        assert_int_equal(g[1].rows, 5);
        assert_true(g[1].n == ITEMS);
        for (int64_t i = 0; i < g[1].k; i++) {
            trace += g[1].g[i * g[1].k + i];
            sum += g[1].mean[i];
            for (int64_t k = 0; k < i; k++)
                assert_true(g[1].g[i * g[1].k + k] == g[1].g[k * g[1].k + i]);
        }
        assert_true(trace > 0 && sum > 0 && sum * sum <= trace * (double)g[1].k);
        pare_model_free(m);
    }
}

static void test_cross_gram_with_itself_is_the_gram(void **state)
{
    struct pare_model *m = make(2, 1, true, 1), *other = make(2, 1, true, 1);
    struct pare_gram g[4];
    struct pare_gram_source s = { .model = m, .other = other, .data = data, .items = ITEMS };

    (void)state;
    assert_int_equal(find_grams(m, pool, g), 2);
    ok(pare_grams_collect(&s, pool, g, 2, &err));
    for (int l = 0; l < 2; l++)
        for (int64_t i = 0; i < g[l].groups * g[l].k * g[l].k; i++)
            assert_true(fabs(g[l].g[i] - g[l].cross[i]) < 1e-9);
    pare_model_free(other);
    other = make(2, 1, true, 9); /* other weights: other inputs of the second layer only */
    s.other = other;
    ok(pare_grams_collect(&s, pool, g, 2, &err));
    assert_true(fabs(g[0].g[5] - g[0].cross[5]) < 1e-9);
    assert_true(fabs(g[1].mean[5] - g[1].cross_mean[5]) > 1e-3);
    pare_model_free(other);
    pare_model_free(m);
}

/* Fewer items, and a subset of the positions, which is the same each time and close to all. */
static void test_subsets(void **state)
{
    struct pare_model *m = make(1, 1, true, 1);
    struct pare_gram all[4], part[4], again[4];
    struct pare_gram_source s = { .model = m, .data = data, .items = ITEMS };

    (void)state;
    assert_int_equal(find_grams(m, pool, all), 2);
    memcpy(part, all, sizeof(all));
    memcpy(again, all, sizeof(all));
    ok(pare_grams_collect(&s, pool, all, 1, &err));
    s.items = 16;
    ok(pare_grams_collect(&s, pool, part, 1, &err));
    assert_true(part[0].n == 16 * 25);
    s.flops = 1; /* at least 64 positions, and there are 25 */
    ok(pare_grams_collect(&s, pool, again, 1, &err));
    assert_memory_equal(part[0].g, again[0].g, sizeof(double) * 36 * 36);
    pare_model_free(m);
}

static void test_failing_allocations(void **state)
{
    struct pare_model *m = make(2, 1, true, 1), *other = make(2, 1, true, 1);
    int failures = 0;

    (void)state;
    for (int n = 1;; n++) {
        struct pare_arena *a = pare_arena_new(1 << 14);
        struct pare_gram_source s = { .model = m,
                                      .other = other,
                                      .data = data,
                                      .items = 16,
                                      .threads = 1 };
        struct pare_gram g[4];
        bool reached;
        int rc, count = find_grams(m, a, g);

        pare_oom_countdown = -n;
        rc = pare_grams_collect(&s, a, g, count, &err);
        reached = pare_oom_countdown == 0;
        pare_oom_countdown = 0;
        pare_arena_free(a);
        failures += rc != 0;
        if (rc && rc != PARE_ENOMEM)
            fail_msg("allocation %d: code %d, '%s'", n, rc, err.msg);
        if (!reached)
            break;
        n += n / 8; /* plans request much */
    }
    assert_true(failures > 20);
    pare_model_free(other);
    pare_model_free(m);
}

/* ---- quantizers ------------------------------------------------------------------------------ */

static void quantize(struct pare_model *m, const char *quantizer, const char *settings, int bits,
                     const char *scheme, struct pare_compression **c)
{
    struct pare_compression_opts o = { .quantizer = quantizer, .settings = settings, .threads = 1 };
    char config[512];

    snprintf(config, sizeof(config),
             "[{\"quant_types\": [\"weight\"], \"op_types\": [\"Conv2d\", \"Linear\"], "
             "\"quant_dtype\": \"%s\", \"quant_scheme\": \"%s\", \"quant_bits\": %d}]",
             strstr(scheme, "symmetric") ? "int" : "uint", scheme, bits);
    o.config = config;
    ok(pare_compression_new(m, &o, c, &err));
    ok(pare_compression_use_data(*c, data, 8, &err));
    ok(pare_compression_compress(*c, &err));
}

/* Every layer, every scheme: the error in the norm of the Gram is at most that of the nearest
 * levels, and the exported integers give the weights of the model. */
static void test_gptq_is_at_most_the_error_of_nearest_on_every_layer(void **state)
{
    const char *const scheme[] = { "per_channel_symmetric", "per_channel_affine",
                                   "per_tensor_symmetric", "per_tensor_affine" };

    (void)state;
    for (int i = 0; i < 4; i++)
        for (int bits = 2; bits <= 8; bits += 2)
            for (int gemm = 0; gemm < 2; gemm++) {
                struct pare_model *m = make(gemm ? 1 : 2, 1, gemm, 1);
                struct pare_compression *c;
                struct pare_export e = { .onnx = "grams.tmp.onnx" };

                quantize(m, "gptq",
                         gemm ? "rounding_toward=layer group_size=32"
                              : "rounding_toward=layer group_size=0",
                         bits, scheme[i], &c);
                assert_int_equal(c->n_layers, 2);
                for (int l = 0; l < 2; l++) {
                    const double *r = c->layer[l].quant->round_error;

                    assert_true(r[1] > 0 && r[0] <= r[1]);
                    assert_true(bits > 4 || r[0] < r[1]);
                }
                ok(pare_compression_export(c, &e, &err));
                remove(e.onnx);
                pare_compression_free(c);
                pare_model_free(m);
            }
}

static void test_ptq_and_group_round_by_the_data_on_request(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct pare_model *m = make(1, 1, true, 1);
        struct pare_compression *c;
        char settings[128];

        snprintf(settings, sizeof(settings), "%s rounding_toward=%s",
                 i & 2 ? "rounding=adaround rounding_steps=20" : "rounding=gptq",
                 i & 1 ? "layer" : "float");
        quantize(m, i & 1 ? "group" : "ptq", settings, 3, "per_channel_symmetric", &c);
        assert_int_equal(c->quant->rounded.layers, 2);
        assert_true(c->quant->rounded.error < 0.7 * c->quant->rounded.nearest);
        pare_compression_free(c);
        pare_model_free(m);
    }
}

/* Restoring gives back the weights and the biases. */
static void test_float_weights_survive(void **state)
{
    struct pare_model *m = make(1, 1, true, 1);
    struct pare_compression *c;
    struct pare_value *b = NULL;
    float was[8];

    (void)state;
    for (int i = 0; i < m->graph->n_nodes; i++)
        if (!strcmp(m->graph->node[i]->type, "Conv"))
            b = m->graph->node[i]->in[2];
    assert_non_null(b);
    memcpy(was, b->t.data, sizeof(was));
    quantize(m, "gptq", "bias_correction=false rounding_toward=layer", 2, "per_channel_symmetric",
             &c);
    assert_memory_not_equal(b->t.data, was, sizeof(was));
    assert_memory_equal(c->layer[0].quant->b_before.data, was, sizeof(was));
    pare_compression_free(c);
    pare_model_free(m);
}

/* The default: what was kept is said, and nothing of the other ways stays. */
static void test_the_choice_leaves_only_the_best(void **state)
{
    (void)state;
    for (int bits = 2; bits <= 8; bits += 2) {
        struct pare_model *m = make(1, 1, true, 1);
        struct pare_compression *c;
        struct pare_value *b = NULL;
        float was[8];
        bool nearest;

        for (int i = 0; i < m->graph->n_nodes; i++)
            if (!strcmp(m->graph->node[i]->type, "Conv"))
                b = m->graph->node[i]->in[2];
        assert_non_null(b);
        memcpy(was, b->t.data, sizeof(was));
        quantize(m, "gptq", "bias_correction=false", bits, "per_channel_symmetric", &c);
        assert_non_null(c->quant->rounded.choice);
        nearest = strstr(c->quant->rounded.choice, "kept: nearest") != NULL;
        assert_int_equal(memcmp(b->t.data, was, sizeof(was)) == 0, nearest);
        assert_int_equal(c->layer[0].quant->rounded_bias, !nearest);
        assert_int_equal(c->layer[0].quant->round_error[1] > 0, !nearest);
        assert_int_equal(c->quant->rounded.layers, nearest ? 0 : 2);
        pare_compression_free(c);
        pare_model_free(m);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_windows_and_groups),
        TEST(test_linear_layers),
        TEST(test_cross_gram_with_itself_is_the_gram),
        TEST(test_subsets),
        TEST(test_failing_allocations),
        TEST(test_gptq_is_at_most_the_error_of_nearest_on_every_layer),
        TEST(test_ptq_and_group_round_by_the_data_on_request),
        TEST(test_float_weights_survive),
        TEST(test_the_choice_leaves_only_the_best),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_half_precision.c - conversion to float16 and bfloat16: borders, ranges, out of memory. */
#include "make_model.h"

#include "quant/half/half_precision.h"

static struct pare_err e;

static int count_nodes(const struct pare_model *m, const char *type)
{
    int n = 0;

    for (int i = 0; i < m->graph->n_nodes; i++)
        n += !strcmp(m->graph->node[i]->type, type);
    return n;
}

/* The inferred element type of the first output of the only node of this type. */
static enum pare_dtype output_type(const struct pare_model *m, const char *type)
{
    struct pare_graph *g = pare_graph_clone(pool, m->graph, &e);

    assert_non_null(g);
    pare_graph_bind(g, 2);
    assert_int_equal(pare_graph_infer(g, false, &e), 0);
    for (int i = 0; i < g->n_nodes; i++)
        if (!strcmp(g->node[i]->type, type))
            return g->node[i]->out[0]->t.dtype;
    fail_msg("the graph has no %s", type);
    return PARE_NONE;
}

static struct pare_model *convert_to_half(const struct pare_model *m, struct pare_half *h)
{
    struct pare_model *out;

    if (pare_model_to_half(m, h, pool, &out, &e))
        fail_msg("%s", e.msg);
    return out;
}

#define K 8

static const char *add_product(struct build *b, const char *x, float first)
{
    float w[K * K];

    for (int i = 0; i < K * K; i++)
        w[i] = (float)(i % 7 - 3) / 8;
    w[0] = first;
    return build_node(b, "MatMul", NAMES(x, build_floats(b, 2, (int64_t[]){ K, K }, w)), NOTHING);
}

/* A product, then a normalization in single operators, with an epsilon that float16 rounds to 0,
 * then another product.  The mask has constants beyond the range. */
static struct pare_model *make_network(float first)
{
    struct build b = { .opset = 13 };
    const char *x = build_input(&b, PARE_F32, 2, (int64_t[]){ -1, K });
    const char *m = build_input(&b, PARE_F32, 2, (int64_t[]){ -1, K });
    const char *y = add_product(&b, x, first), *v;

    v = build_node(&b, "Pow", NAMES(y, build_scalar(&b, 2)), NOTHING);
    v = build_node(&b, "ReduceMean", NAMES(v), at_ints("axes", INTS(-1)));
    v = build_node(&b, "Add", NAMES(v, build_scalar(&b, 1e-12f)), NOTHING);
    v = build_node(&b, "Sqrt", NAMES(v), NOTHING);
    y = build_node(&b, "Div", NAMES(y, v), NOTHING);
    m = build_node(&b, "Mul", NAMES(m, build_scalar(&b, -3.4e38f)), NOTHING);
    y = build_node(&b, "Sub", NAMES(add_product(&b, y, 1), m), NOTHING);
    build_output(&b, build_node(&b, "Tanh", NAMES(y), NOTHING));
    return build_model(&b);
}

static void run_model(struct pare_model *m, float *y)
{
    struct pare_tensor in[2] = { build_tensor(PARE_F32, 2, (int64_t[]){ 2, K }),
                                 build_tensor(PARE_F32, 2, (int64_t[]){ 2, K }) };
    struct pare_plan_opts o = { .batch = 2, .in = in };
    struct pare_tensor out[1];
    struct pare_plan *p;

    for (int i = 0; i < 2 * K; i++) {
        pare_f32_mut(&in[0])[i] = (float)(i * 5 % 11 - 5) * 100;
        pare_f32_mut(&in[1])[i] = (float)(i % 3 == 0);
    }
    if (pare_plan_make(m, &o, &p, &e) || pare_plan_execute(p, in, out, &e))
        fail_msg("%s", e.msg);
    memcpy(y, out[0].data, 2 * K * sizeof(float));
    pare_plan_free(p);
}

static void test_nodes_of_wide_range_stay_float32(void **state)
{
    struct pare_half h = { .type = PARE_F16, .compute = true };
    struct pare_model *m = make_network(1), *half = convert_to_half(m, &h);
    float want[2 * K], have[2 * K];

    (void)state;
    assert_int_equal(output_type(half, "MatMul"), PARE_F16);
    assert_int_equal(output_type(half, "Div"), PARE_F32); /* part of the normalization */
    assert_int_equal(output_type(half, "Pow"), PARE_F32);
    assert_int_equal(output_type(half, "ReduceMean"), PARE_F32);
    assert_int_equal(output_type(half, "Sqrt"), PARE_F32);
    assert_int_equal(count_nodes(half, "Min"), 1); /* the mask is bounded before its Cast */
    assert_int_equal(h.n_kept, 0);
    run_model(m, want);
    run_model(half, have);
    for (int i = 0; i < 2 * K; i++)
        assert_true(have[i] >= want[i] - 0.01f && have[i] <= want[i] + 0.01f);
    pare_model_free(half);
    pare_model_free(m);
}

static void test_weights_beyond_float16_stay_float32(void **state)
{
    struct pare_half h = { .type = PARE_F16, .compute = true };
    struct pare_model *m = make_network(70000), *half = convert_to_half(m, &h);

    (void)state;
    assert_int_equal(h.n_kept, 1);
    assert_non_null(strstr(h.kept[0], "70000, beyond the range of float16"));
    assert_int_equal(output_type(half, "MatMul"), PARE_F32); /* the first of two */
    pare_model_free(half);

    h = (struct pare_half){ .type = PARE_BF16, .compute = true }; /* has the range of float32 */
    half = convert_to_half(m, &h);
    assert_int_equal(h.n_kept, 0);
    assert_int_equal(output_type(half, "MatMul"), PARE_BF16);
    pare_model_free(half);
    pare_model_free(m);
}

/* Clamping a variance would change results, unlike clamping a mask. */
static void test_variances_beyond_float16_stay_float32(void **state)
{
    struct pare_half h = { .type = PARE_F16, .compute = true };
    struct build b = { .opset = 15 };
    const char *x = build_input(&b, PARE_F32, 2, (int64_t[]){ -1, K }), *one, *large;
    float ones[K], many[K];
    struct pare_model *m, *half;

    (void)state;
    for (int i = 0; i < K; i++) {
        ones[i] = 1;
        many[i] = 1e8f;
    }
    x = add_product(&b, x, 1);
    one = build_floats(&b, 1, (int64_t[]){ K }, ones);
    large = build_floats(&b, 1, (int64_t[]){ K }, many);
    x = build_node(&b, "BatchNormalization", NAMES(x, one, one, one, large), NOTHING);
    build_output(&b, build_node(&b, "Tanh", NAMES(x), NOTHING));
    m = build_model(&b);
    half = convert_to_half(m, &h);
    assert_int_equal(output_type(half, "BatchNormalization"), PARE_F32);
    assert_int_equal(h.n_kept, 1);
    assert_int_equal(h.clamped, 0);
    pare_model_free(half);
    pare_model_free(m);
}

static void test_values_beyond_float16_stay_float32(void **state)
{
    struct pare_model *m = make_network(1), *half;
    struct pare_map peaks = { 0 };
    double peak = 1e5;
    struct pare_half h = { .type = PARE_F16, .compute = true, .peaks = &peaks };
    const char *name = NULL;

    (void)state;
    for (int i = 0; i < m->graph->n_nodes && !name; i++)
        if (!strcmp(m->graph->node[i]->type, "MatMul"))
            name = m->graph->node[i]->out[0]->name;
    assert_int_equal(pare_map_set(&peaks, pool, name, &peak, &e), 0);
    half = convert_to_half(m, &h);
    assert_int_equal(h.n_kept, 1);
    assert_non_null(strstr(h.kept[0], "100000 on the data"));
    assert_int_equal(output_type(half, "MatMul"), PARE_F32);
    pare_model_free(half);
    pare_model_free(m);
}

static void test_weights_only_are_cast(void **state)
{
    struct pare_half h = { .type = PARE_F16 };
    struct pare_model *m = make_network(1), *half = convert_to_half(m, &h);

    (void)state;
    assert_int_equal(h.weights, 2);
    assert_int_equal(h.elements, 2 * K * K);
    assert_int_equal(count_nodes(half, "Cast"), 2);
    assert_int_equal(output_type(half, "MatMul"), PARE_F32);
    pare_model_free(half);
    pare_model_free(m);
}

static void test_out_of_memory(void **state)
{
    struct pare_model *m = make_network(1);
    int failures = 0;

    (void)state;
    for (int n = 1;; n++) {
        struct pare_half h = { .type = PARE_F16, .compute = true };
        struct pare_arena *a = pare_arena_new(1 << 10);
        struct pare_model *out = NULL;
        bool reached;
        int rc;

        pare_oom_countdown = -n;
        rc = pare_model_to_half(m, &h, a, &out, &e);
        reached = pare_oom_countdown == 0;
        pare_oom_countdown = 0;
        pare_model_free(out);
        pare_arena_free(a);
        failures += rc != 0;
        if (rc && rc != PARE_ENOMEM)
            fail_msg("allocation %d: code %d, '%s'", n, rc, e.msg);
        if (!reached)
            break;
    }
    assert_true(failures > 20);
    pare_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nodes_of_wide_range_stay_float32),
        cmocka_unit_test(test_weights_beyond_float16_stay_float32),
        cmocka_unit_test(test_variances_beyond_float16_stay_float32),
        cmocka_unit_test(test_values_beyond_float16_stay_float32),
        cmocka_unit_test(test_weights_only_are_cast),
        cmocka_unit_test(test_out_of_memory),
    };
    int rc;

    pool = pare_arena_new(1 << 16);
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    pare_arena_free(pool);
    return rc;
}

/* test_shapes_of_layers.c - shapes of layers in models that do not accept 1 for free dimensions. */
#include "make_model.h"

#include "compress/wrap.h"
#include "graph/free_dims.h"
#include "onnx/model.h"

/* A window of 2 x 2 rejects images of 1 x 1, so that nothing after it has a shape. */
static struct pare_model *window_then_layer(int64_t size)
{
    struct build b = { .opset = 13 };
    float w[5 * 3] = { 1 };
    const char *h = build_input(&b, PARE_F32, INTS(-1, 3, size, size));

    h = build_node(&b, "AveragePool", NAMES(h),
                   CAT(at_ints("kernel_shape", INTS(2, 2)), at_ints("strides", INTS(2, 2))));
    h = build_node(&b, "Conv", NAMES(h, build_floats(&b, INTS(5, 3, 1, 1), w)), NOTHING);
    build_output(&b, h);
    return build_model(&b);
}

static void test_layer_after_a_window_has_a_shape(void **state)
{
    struct pare_model *m = window_then_layer(-1);
    struct pare_layer_info *list;
    struct pare_graph *g;
    struct pare_err err;
    int n;

    (void)state;
    assert_int_equal(pare_model_layers(m, pool, &g, &list, &n, &err), 0);
    assert_int_equal(g->failed, 0);
    assert_int_equal(n, 1);
    assert_int_equal(list[0].out->t.dtype, PARE_F32);
    assert_int_equal(list[0].out->t.dim[0], 1);
    assert_int_equal(list[0].out->t.dim[1], 5);
    assert_true(list[0].macs > 0);
    assert_int_equal(pare_model_find_layers(m, pool, &g, &list, &n, &err), 0);
    assert_int_equal(g->failed, 0);
    pare_model_free(m);
}

static void test_sizes_of_1_where_nodes_accept_them(void **state)
{
    struct pare_model *m = window_then_layer(2);
    struct pare_graph *g;
    struct pare_err err;

    (void)state;
    assert_int_equal(pare_graph_infer_ones(pool, m->graph, m->in, &g, &err), 0);
    assert_int_equal(g->in[0]->t.dim[0], 1);
    assert_int_equal(g->in[0]->t.dim[2], 2);
    pare_model_free(m);
}

static void expect_sizes(const struct build *b, int rank, const int64_t *size)
{
    struct pare_model *m = build_model(b);
    struct pare_graph *g;
    struct pare_err err;

    assert_int_equal(pare_graph_infer_free(pool, m->graph, m->in, NULL, &g, &err), 0);
    assert_int_equal(g->failed, 0);
    for (int i = 0; i < rank; i++)
        assert_int_equal(g->in[0]->t.dim[i], size[i]);
    assert_int_equal(pare_graph_infer_ones(pool, m->graph, m->in, &g, &err), 0);
    assert_int_equal(g->failed, 0);
    pare_model_free(m);
}

/* Whisper's encoder as Optimum exports it: channels and length are free in the declaration, but the
 * weight of a convolution and a table of positions fix them. */
static void test_channels_and_positions_fix_free_sizes(void **state)
{
    struct build b = { .opset = 13 };
    float w[8 * 20 * 2] = { 1 };
    const char *h = build_input(&b, PARE_F32, INTS(-1, -1, -1));

    (void)state;
    h = build_node(&b, "Conv", NAMES(h, build_floats(&b, INTS(8, 20, 2), w)),
                   at_ints("strides", INTS(2)));
    h = build_node(&b, "Transpose", NAMES(h), at_ints("perm", INTS(0, 2, 1)));
    build_output(&b, build_node(&b, "Add", NAMES(h, build_floats(&b, INTS(25, 8), w)), NOTHING));
    expect_sizes(&b, 3, (int64_t[]){ 1, 20, 50 });
}

/* Flatten before a linear layer: height times width is fixed. */
static void test_flatten_fixes_height_and_width(void **state)
{
    struct build b = { .opset = 13 };
    static float w[2 * 100 * 3];
    const char *h = build_input(&b, PARE_F32, INTS(-1, 1, -1, -1));

    (void)state;
    h = build_node(&b, "Conv", NAMES(h, build_floats(&b, INTS(2, 1, 2, 2), w)),
                   at_ints("strides", INTS(2, 2)));
    h = build_node(&b, "Flatten", NAMES(h), NOTHING);
    build_output(&b, build_node(&b, "Gemm", NAMES(h, build_floats(&b, INTS(200, 3), w)), NOTHING));
    expect_sizes(&b, 4, (int64_t[]){ 1, 1, 20, 20 });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_channels_and_positions_fix_free_sizes, make_pool,
                                        drop_pool),
        cmocka_unit_test_setup_teardown(test_flatten_fixes_height_and_width, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_layer_after_a_window_has_a_shape, make_pool,
                                        drop_pool),
        cmocka_unit_test_setup_teardown(test_sizes_of_1_where_nodes_accept_them, make_pool,
                                        drop_pool),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_tied_layers.c - config_list entries that name a layer with the weight of another layer. */
#include "make_model.h"

#include <pare/session.h>

#include "compress/compression.h"
#include "compress/wrap.h"
#include "graph/layer.h"

/* Two layers that share a weight, and a third one. */
static struct pare_model *tied_model(void)
{
    struct build b = { .opset = 17 };
    const char *x = build_input(&b, PARE_F32, INTS(2, 4)), *w, *y;
    float v[16];

    for (int i = 0; i < 16; i++)
        v[i] = (float)(i % 5) - 2;
    w = build_floats(&b, INTS(4, 4), v);
    y = build_node(&b, "MatMul", NAMES(x, w), NOTHING);
    y = build_node(&b, "MatMul", NAMES(build_node(&b, "Relu", NAMES(y), NOTHING), w), NOTHING);
    y = build_node(&b, "MatMul", NAMES(y, build_floats(&b, INTS(4, 4), v)), NOTHING);
    build_output(&b, y);
    return build_model(&b);
}

/* Opens a compression whose entries name these layers by index; -1: all layers of the type. */
static int open_named(struct pare_model *m, const int *layer, int n, struct pare_compression **c,
                      struct pare_err *err)
{
    struct pare_layer_info *info;
    struct pare_graph *g;
    const char *config = "[";
    int found;

    assert_int_equal(pare_model_layers(m, pool, &g, &info, &found, err), 0);
    assert_int_equal(found, 3);
    assert_true(info[1].shared && !info[0].shared && !info[2].shared);
    for (int i = 0; i < n; i++)
        config = layer[i] < 0
                     ? pare_sprintf(pool, "%s%s{\"sparsity\": 0.5, \"op_types\": [\"Linear\"]}",
                                    config, i ? ", " : "")
                     : pare_sprintf(pool, "%s%s{\"sparsity\": 0.5, \"op_names\": [\"%s\"]}", config,
                                    i ? ", " : "", info[layer[i]].name);
    config = pare_sprintf(pool, "%s]", config);
    return pare_compression_new(m,
                                &(struct pare_compression_opts){ .pruner = "l1", .config = config },
                                c, err);
}

/* Only the second layer is named: the error names the layer to choose. */
static void test_naming_only_the_second_layer(void **state)
{
    struct pare_model *m = tied_model();
    struct pare_compression *c = NULL;
    struct pare_err err;

    (void)state;
    assert_int_not_equal(open_named(m, (int[]){ 1 }, 1, &c, &err), 0);
    assert_non_null(strstr(err.msg, "choose that layer instead"));
    assert_int_not_equal(open_named(m, (int[]){ 2, 1 }, 2, &c, &err), 0);
    assert_non_null(strstr(err.msg, "choose that layer instead"));
    pare_model_free(m);
}

/* Both layers are named: the second is skipped, with a reason. */
static void test_naming_both_layers(void **state)
{
    struct pare_model *m = tied_model();
    struct pare_compression *c = NULL;
    const char *why = NULL;
    struct pare_err err;

    (void)state;
    assert_int_equal(open_named(m, (int[]){ 0, 1 }, 2, &c, &err), 0);
    assert_int_equal(pare_compression_layers(c), 1);
    assert_non_null(pare_compression_skipped(c, 0, &why));
    assert_non_null(strstr(why, "holds for both"));
    pare_compression_free(c);
    pare_model_free(m);
}

/* Chosen by type: the weight is masked once, without a message. */
static void test_choosing_layers_by_type(void **state)
{
    struct pare_model *m = tied_model();
    struct pare_compression *c = NULL;
    const char *why = NULL;
    struct pare_err err;

    (void)state;
    assert_int_equal(open_named(m, (int[]){ -1 }, 1, &c, &err), 0);
    assert_int_equal(pare_compression_layers(c), 2);
    assert_null(pare_compression_skipped(c, 0, &why));
    pare_compression_free(c);
    pare_model_free(m);
}

#define T(f) cmocka_unit_test_setup_teardown(f, make_pool, drop_pool)

int main(void)
{
    const struct CMUnitTest tests[] = { T(test_naming_only_the_second_layer),
                                        T(test_naming_both_layers),
                                        T(test_choosing_layers_by_type) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

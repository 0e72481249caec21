/* test_speedup_memory.c - memory that dependency-aware pruning, smaller models and plans for
 * verification keep. */
#include "speedup_rig.h"

#include <pare/session.h>

#include "base/arena.h"
#include "plan/plan.h"

enum { D = 8, WORDS = 11 };

/* A normalization that follows a linear layer, and a constant of shape (T, T, 16), T the length of
 * the input: the larger T is, the larger is the constant. */
static struct pare_model *make_with_large_constant(void)
{
    struct net n = net_new(7);
    const char *ids = build_input(&n.b, PARE_I64, INTS(-1)), *x, *t, *shape;
    int64_t wide = 16;

    x = build_node(&n.b, "Gather", NAMES(CONST(&n, 0, 1, WORDS, D), ids), NOTHING);
    x = build_node(&n.b, "MatMul", NAMES(x, WEIGHT(&n, ALL, 1, D, D)), NOTHING);
    x = build_node(&n.b, "LayerNormalization",
                   NAMES(x, CONST(&n, 1, 0.4f, D), CONST(&n, 0.2f, 0.4f, D)), NOTHING);
    t = build_node(&n.b, "Shape", NAMES(ids), NOTHING);
    shape = build_node(&n.b, "Concat", NAMES(t, t, build_const(&n.b, PARE_I64, INTS(1), &wide)),
                       at_int("axis", 0));
    t = build_node(&n.b, "ConstantOfShape", NAMES(shape), NOTHING);
    x = net_add(&n, x, build_node(&n.b, "ReduceMean", NAMES(t), at_ints("axes", INTS(-1))));
    build_output(&n.b, build_node(&n.b, "MatMul", NAMES(x, WEIGHT(&n, ALL, 1, D, 3)), NOTHING));
    return build_model(&n.b);
}

/* Graphs for other sizes of free dimensions, with their constants, end with the search. */
static void test_followers_keep_no_constants_of_other_sizes(void **state)
{
    struct pare_compression_opts o = { .pruner = "l1",
                                       .config = "[{\"sparsity\": 0.5, \"op_types\": "
                                                 "[\"Linear\"]}]",
                                       .settings = "mode=dependency_aware" };
    struct pare_model *m = make_with_large_constant();
    size_t before = pare_memory_used();
    struct pare_compression *c;
    struct pare_err err;

    (void)state;
    if (pare_compression_new(m, &o, &c, &err) || pare_compression_compress(c, &err))
        fail_msg("%s", err.msg);
    assert_true(pare_compression_layers(c) > 2);
    assert_in_range(pare_memory_used() - before, 1, 2 << 20);
    pare_compression_free(c);
    pare_model_free(m);
}

/* A padded convolution whose removed channels are added to a carrier: the model keeps the smaller
 * weights, not the sums before they were gathered. */
static void test_smaller_model_keeps_no_whole_weights(void **state)
{
    enum { C = 192 };
    struct net n = net_new(8);
    struct pare_speedup_opts o = { .threads = 1, .unverified = true };
    struct pare_speedup_report r;
    struct pare_model *m, *small;
    const char *x = net_image(&n);
    struct pare_err err;
    size_t before;

    (void)state;
    x = net_relu(&n, net_conv(&n, x, HALF, 3, C, 3));
    x = net_relu(&n, net_conv(&n, x, HALF, C, C, 3));
    build_output(&n.b, net_conv(&n, x, ALL, C, 4, 1));
    m = build_model(&n.b);
    before = pare_memory_used();
    if (pare_speedup(m, &o, pool, &small, &r, &err))
        fail_msg("%s", err.msg);
    assert_in_range(pare_memory_used() - before, C * C * 9, C * C * 9 * 2);
    pare_model_free(small);
    pare_model_free(m);
}

/* Filters of a Winograd convolution are four times as large as those in the file. */
static void test_compact_plan_does_not_enlarge_weights(void **state)
{
    enum { C = 256 };
    struct net n = net_new(9);
    struct pare_tensor in = { .dtype = PARE_F32, .rank = 4, .dim = { 1, C, 14, 14 } };
    struct pare_plan_opts o = { .threads = 1, .in = &in, .n_in = 1 };
    struct pare_plan_build build = { .opts = &o, .compact = true };
    const char *x = build_input(&n.b, PARE_F32, INTS(1, C, 14, 14));
    struct pare_plan *plan;
    struct pare_model *m;
    struct pare_err err;
    size_t before;

    (void)state;
    build_output(&n.b, net_conv(&n, x, ALL, C, C, 3));
    m = build_model(&n.b);
    before = pare_memory_used();
    if (pare_plan_build(m, &build, &plan, &err))
        fail_msg("%s", err.msg);
    assert_in_range(pare_memory_used() - before, 1, (size_t)C * C * 9 * 4 * 2);
    pare_plan_free(plan);
    pare_model_free(m);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, make_pool, drop_pool)
    const struct CMUnitTest tests[] = {
        T(test_followers_keep_no_constants_of_other_sizes),
        T(test_smaller_model_keeps_no_whole_weights),
        T(test_compact_plan_does_not_enlarge_weights),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_speedup_free_dims.c - speedup of models with free dimensions, run at several sizes. */
#include "speedup_rig.h"

#include <math.h>

#include "plan/plan.h"

/* Runs the model on random floats of one shape. */
static struct pare_tensor run_at(struct net *n, const struct pare_model *m, int rank,
                                 const int64_t *dim, uint64_t seed)
{
    struct pare_tensor in, out, copy;
    struct pare_plan_opts o = { .threads = 1, .in = &in };
    struct pare_plan *p;
    struct pare_err err;

    pare_rng_init(&n->r, seed);
    in = net_random(n, 0, 1, rank, dim);
    if (pare_plan_make(m, &o, &p, &err) || pare_plan_execute(p, &in, &out, &err))
        fail_msg("%s", err.msg);
    copy = build_copy(&out);
    pare_plan_free(p);
    return copy;
}

/* The smaller model computes the same at these shapes. */
static void expect_same_outputs(struct net *n, const struct speedup_result *s, int count, int rank,
                                const int64_t (*shape)[4])
{
    for (int i = 0; i < count; i++) {
        struct pare_tensor a = run_at(n, s->before, rank, shape[i], 7 + (uint64_t)i);
        struct pare_tensor b = run_at(n, s->after, rank, shape[i], 7 + (uint64_t)i);

        assert_true(a.rank == b.rank && !memcmp(a.dim, b.dim, (size_t)a.rank * sizeof(*a.dim)));
        for (int64_t k = 0; k < pare_numel(&a); k++)
            assert_true(fabsf(pare_f32(&a)[k] - pare_f32(&b)[k]) < 1e-4f);
    }
}

static struct speedup_result speedup_unverified(struct net *n, const char *y)
{
    struct pare_speedup_opts o = { .threads = 1, .unverified = true };

    build_output(&n->b, y);
    return net_speedup_with(n, &o);
}

/* Element i of the shape of x. */
static const char *dimension_of(struct net *n, const char *x, int64_t i)
{
    const char *shape = build_node(&n->b, "Shape", NAMES(x), NOTHING);

    return build_node(&n->b, "Gather", NAMES(shape, build_ints(&n->b, 1, &i)), NOTHING);
}

/* x (N, T, 8) * sin(0 .. T - 1): the table is 0 for length 1, but not for others. */
static void test_table_sliced_to_the_length(void **state)
{
    struct net n = net_new(1);
    const char *x = build_input(&n.b, PARE_F32, INTS(-1, -1, 8)), *table, *y;
    float sine[64 * 8];
    struct speedup_result s;

    (void)state;
    for (int i = 0; i < 64 * 8; i++)
        sine[i] = sinf((float)(i / 8));
    table = build_floats(&n.b, INTS(64, 8), sine);
    table = build_node(&n.b, "Slice",
                       NAMES(table, build_ints(&n.b, 1, (int64_t[]){ 0 }), dimension_of(&n, x, 1),
                             build_ints(&n.b, 1, (int64_t[]){ 0 })),
                       NOTHING);
    y = build_node(&n.b, "Mul", NAMES(x, table), NOTHING);
    y = net_add(&n, x, y);
    y = build_node(&n.b, "MatMul", NAMES(y, WEIGHT(&n, HALF, 1, 8, 12)), NOTHING);
    y = build_node(&n.b, "MatMul", NAMES(net_relu(&n, y), WEIGHT(&n, ALL, 1, 12, 4)), NOTHING);
    s = speedup_unverified(&n, y);
    assert_int_equal(speedup_out_channels(&s, 0), 6);
    expect_same_outputs(&n, &s, 3, 3,
                        (const int64_t[][4]){ { 1, 1, 8, 0 }, { 2, 33, 8, 0 }, { 5, 50, 8, 0 } });
    speedup_free(&s);
}

/* After a stride of 2, sizes 1 and 2 are both 1: the computed shape must not be a constant. */
static void test_computed_shape_after_a_stride(void **state)
{
    struct net n = net_new(2);
    const char *x = build_input(&n.b, PARE_F32, INTS(-1, 3, -1, -1)), *h, *shape;
    struct speedup_result s;

    (void)state;
    h = build_node(&n.b, "Conv", NAMES(x, WEIGHT(&n, HALF, 0, 8, 3, 3, 3), net_bias(&n, HALF, 8)),
                   CAT(at_ints("pads", INTS(1, 1, 1, 1)), at_ints("strides", INTS(2, 2))));
    h = net_relu(&n, h);
    shape = build_node(&n.b, "Shape", NAMES(h), NOTHING);
    h = build_node(&n.b, "Reshape", NAMES(h, build_ints(&n.b, 3, (int64_t[]){ 0, 8, -1 })),
                   NOTHING);
    h = build_node(&n.b, "Sigmoid", NAMES(h), NOTHING);
    h = build_node(&n.b, "Reshape", NAMES(h, shape), NOTHING);
    h = build_node(&n.b, "Conv", NAMES(h, WEIGHT(&n, ALL, 0, 4, 8, 1, 1)), NOTHING);
    s = speedup_unverified(&n, h);
    assert_int_equal(speedup_out_channels(&s, 0), 4);
    expect_same_outputs(&n, &s, 3, 4,
                        (const int64_t[][4]){ { 1, 3, 2, 2 }, { 2, 3, 20, 31 }, { 3, 3, 64, 48 } });
    speedup_free(&s);
}

/* A shape (n, channels, h, w) or (n, 2, channels / 2, h, w) as PyTorch writes it, of which three
 * elements follow free dimensions. */
static const char *computed_shape(struct net *n, const char *x, int count, const int64_t *channels)
{
    return build_node(&n->b, "Concat",
                      NAMES(dimension_of(n, x, 0), build_ints(&n->b, count, channels),
                            dimension_of(n, x, 2), dimension_of(n, x, 3)),
                      at_int("axis", 0));
}

/* Channel shuffles of ShuffleNet, one after the other: the new shapes mix constants with what the
 * model computes. */
static void test_channel_shuffle(void **state)
{
    enum { BLOCKS = 6 };
    struct net n = net_new(12);
    const char *x = build_input(&n.b, PARE_F32, INTS(-1, 3, -1, -1)), *h = x, *shape;
    struct speedup_result s;

    (void)state;
    for (int i = 0; i < BLOCKS; i++) {
        h = build_node(&n.b, "Conv", NAMES(h, WEIGHT(&n, HALF, 0, 8, i ? 8 : 3, 1, 1)), NOTHING);
        h = net_relu(&n, h);
        shape = computed_shape(&n, h, INTS(2, 4));
        h = build_node(&n.b, "Reshape", NAMES(h, shape), NOTHING);
        h = build_node(&n.b, "Transpose", NAMES(h), at_ints("perm", INTS(0, 2, 1, 3, 4)));
        shape = computed_shape(&n, x, INTS(8));
        h = build_node(&n.b, "Reshape", NAMES(h, shape), NOTHING);
    }
    s = speedup_unverified(&n, net_conv(&n, h, ALL, 8, 3, 1));
    assert_int_equal(speedup_out_channels(&s, 0), 4);
    assert_int_equal(speedup_out_channels(&s, BLOCKS - 1), 4);
    expect_same_outputs(&n, &s, 3, 4,
                        (const int64_t[][4]){ { 1, 3, 2, 2 }, { 2, 3, 20, 31 }, { 3, 3, 7, 48 } });
    speedup_free(&s);
}

/* Attention with free batch and length and shapes computed as PyTorch does; one head is masked. */
static void test_attention_heads(void **state)
{
    struct net n = net_new(3);
    const char *x = build_input(&n.b, PARE_F32, INTS(-1, -1, 12)), *p[3], *shape, *y;
    const char *four = build_ints(&n.b, 1, (int64_t[]){ 4 }), *w;
    const char *three = build_ints(&n.b, 1, (int64_t[]){ 3 });
    struct speedup_result s;

    (void)state;
    shape = build_node(&n.b, "Concat",
                       NAMES(dimension_of(&n, x, 0), dimension_of(&n, x, 1), three, four),
                       at_int("axis", 0));
    for (int i = 0; i < 3; i++) {
        struct pare_tensor t = net_random(&n, 0, 0.6f, INTS(12, 12));

        for (int64_t k = 0; k < 144; k++)
            if (k % 12 / 4 == 1)
                pare_f32_mut(&t)[k] = 0;
        w = build_floats(&n.b, INTS(12, 12), pare_f32(&t));
        p[i] = build_node(&n.b, "MatMul", NAMES(x, w), NOTHING);
        p[i] = build_node(&n.b, "Reshape", NAMES(p[i], shape), NOTHING);
        p[i] = build_node(&n.b, "Transpose", NAMES(p[i]),
                          at_ints("perm", 4,
                                  i == 1 ? (int64_t[]){ 0, 2, 3, 1 } : (int64_t[]){ 0, 2, 1, 3 }));
    }
    y = build_node(&n.b, "MatMul", NAMES(p[0], p[1]), NOTHING);
    y = build_node(&n.b, "Softmax", NAMES(y), NOTHING);
    y = build_node(&n.b, "MatMul", NAMES(y, p[2]), NOTHING);
    y = build_node(&n.b, "Transpose", NAMES(y), at_ints("perm", INTS(0, 2, 1, 3)));
    shape = build_node(&n.b, "Concat",
                       NAMES(dimension_of(&n, x, 0), dimension_of(&n, x, 1),
                             build_ints(&n.b, 1, (int64_t[]){ 12 })),
                       at_int("axis", 0));
    y = build_node(&n.b, "Reshape", NAMES(y, shape), NOTHING);
    y = build_node(&n.b, "MatMul", NAMES(y, WEIGHT(&n, ALL, 1, 12, 5)), NOTHING);
    s = speedup_unverified(&n, y);
    for (int i = 0; i < 3; i++)
        assert_int_equal(speedup_out_channels(&s, i), 8);
    expect_same_outputs(&n, &s, 3, 3,
                        (const int64_t[][4]){ { 1, 1, 12, 0 }, { 2, 33, 12, 0 }, { 5, 7, 12, 0 } });
    speedup_free(&s);
}

/* Verification takes two shapes that differ in every free dimension and fit the windows. */
static void test_verification_uses_two_shapes(void **state)
{
    struct net n = net_new(4);
    const char *x = build_input(&n.b, PARE_F32, INTS(-1, 3, -1, -1)), *y;
    struct speedup_result s;

    (void)state;
    y = build_node(&n.b, "Conv", NAMES(x, WEIGHT(&n, HALF, 0, 4, 3, 2, 2)),
                   at_ints("dilations",
                           INTS(70, 70))); /* larger than the first size that verification tries */
    y = net_relu(&n, y);
    build_output(&n.b, net_conv(&n, y, ALL, 4, 2, 1));
    s = net_speedup(&n);
    assert_string_equal(s.r.shapes[0], "v0 (1, 3, 256, 256)");
    assert_string_equal(s.r.shapes[1], "v0 (3, 3, 293, 297)");
    speedup_free(&s);
}

/* Outputs after ArgMax are compared by the fraction of equal elements; token ids are in range. */
static void test_outputs_of_arg_max(void **state)
{
    struct net n = net_new(5);
    const char *ids = build_input(&n.b, PARE_I64, INTS(-1, -1)), *y;
    struct speedup_result s;

    (void)state;
    y = build_node(&n.b, "Gather", NAMES(CONST(&n, 0, 1, 300, 8), ids), NOTHING);
    y = build_node(&n.b, "MatMul", NAMES(y, WEIGHT(&n, HALF, 1, 8, 12)), NOTHING);
    y = build_node(&n.b, "MatMul", NAMES(net_relu(&n, y), WEIGHT(&n, ALL, 1, 12, 6)), NOTHING);
    build_output(&n.b, build_node(&n.b, "ArgMax", NAMES(y), at_int("axis", 2)));
    s = net_speedup(&n);
    assert_string_equal(s.r.discontinuous, "ArgMax");
    assert_true(s.r.agreement >= 0.99);
    assert_true(s.r.max_rel < 1e-4);
    speedup_free(&s);
}

/* The length is free in the file, but the layer accepts only 16; the batch has several sizes. */
static void test_dimension_with_one_size(void **state)
{
    struct net n = net_new(6);
    const char *x = build_input(&n.b, PARE_F32, INTS(-1, -1)), *y;
    struct speedup_result s;

    (void)state;
    y = build_node(&n.b, "MatMul", NAMES(x, WEIGHT(&n, HALF, 1, 16, 12)), NOTHING);
    y = build_node(&n.b, "MatMul", NAMES(net_relu(&n, y), WEIGHT(&n, ALL, 1, 12, 4)), NOTHING);
    build_output(&n.b, y);
    s = net_speedup(&n);
    assert_int_equal(speedup_out_channels(&s, 0), 6);
    assert_non_null(s.r.one_size);
    assert_non_null(strstr(s.r.one_size, "dimension 1 'N1'"));
    assert_non_null(strstr(s.r.one_size, "(16)"));
    assert_null(strstr(s.r.one_size, "dimension 0"));
    speedup_free(&s);
}

/* Dependency groups after a window that does not fit an image of size 1: the residual convolutions
 * lose the same channels. */
static void test_dependency_groups_after_a_window(void **state)
{
    const struct pare_prune_opts o = { .pruner = "l1",
                                       .sparsity = 0.5,
                                       .settings = "mode=dependency_aware" };
    struct net n = net_new(7);
    const char *x = build_input(&n.b, PARE_F32, INTS(-1, 3, -1, -1)), *y;
    struct pare_model *m, *masked = NULL, *small = NULL;
    struct pare_prune_report p;
    struct pare_speedup_report r;
    struct pare_err err;

    (void)state;
    x = build_node(&n.b, "MaxPool", NAMES(x),
                   CAT(at_ints("kernel_shape", INTS(2, 2)), at_ints("strides", INTS(2, 2))));
    x = net_conv(&n, x, ALL, 3, 8, 3);
    y = net_conv(&n, net_relu(&n, net_conv(&n, x, ALL, 8, 6, 3)), ALL, 6, 8, 3);
    build_output(&n.b, net_conv(&n, net_relu(&n, net_add(&n, x, y)), ALL, 8, 4, 1));
    m = build_model(&n.b);
    if (pare_prune(m, &o, &masked, &p, &err) ||
        pare_speedup(masked, &(struct pare_speedup_opts){ .threads = 1 }, pool, &small, &r, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(r.n_layers, 4);
    assert_int_equal(r.layer[0].out_left, 4);
    assert_int_equal(r.layer[1].out_left, 3);
    assert_int_equal(r.layer[2].out_left, 4);
    for (int i = 0; i < r.n_layers; i++)
        assert_false(r.layer[i].coupled);
    pare_model_free(small);
    pare_model_free(masked);
    pare_model_free(m);
}

/* Expand to the shape of a value that has masked channels: the shape follows free dimensions, so it
 * cannot be stored, and that value keeps its channels. */
static void test_expand_to_a_computed_shape(void **state)
{
    struct net n = net_new(8);
    const char *x = build_input(&n.b, PARE_F32, INTS(-1, 4, -1, -1)), *c, *e, *y;
    struct speedup_result s;

    (void)state;
    c = net_conv(&n, x, HALF, 4, 6, 3);
    e = net_conv(&n, build_node(&n.b, "GlobalAveragePool", NAMES(x), NOTHING), ALL, 4, 6, 1);
    e = build_node(&n.b, "Expand", NAMES(e, build_node(&n.b, "Shape", NAMES(c), NOTHING)), NOTHING);
    y = build_node(&n.b, "Concat", NAMES(c, e), at_int("axis", 1));
    y = net_relu(&n, net_conv(&n, y, HALF, 12, 8, 1));
    s = speedup_unverified(&n, net_conv(&n, y, ALL, 8, 3, 1));
    assert_int_equal(speedup_out_channels(&s, 0), 6);
    assert_int_equal(speedup_out_channels(&s, 2), 4);
    expect_same_outputs(&n, &s, 2, 4, (const int64_t[][4]){ { 1, 4, 5, 9 }, { 2, 4, 11, 7 } });
    speedup_free(&s);
}

/* A table that is sliced by a computed length must be stored without its masked channels; after
 * that, the shape that Expand reads is known again. */
static void test_expand_after_a_computed_table(void **state)
{
    struct net n = net_new(10);
    const char *x = build_input(&n.b, PARE_F32, INTS(-1, 24, 8)), *t, *y, *shape;
    struct speedup_result s;

    (void)state;
    y = build_node(&n.b, "MatMul", NAMES(x, WEIGHT(&n, HALF, 1, 8, 6)), NOTHING);
    shape = build_node(&n.b, "Shape", NAMES(x), NOTHING);
    t = build_node(&n.b, "Slice",
                   NAMES(CONST(&n, 1, 0.5f, 64, 6), build_ints(&n.b, INTS(0)),
                         build_node(&n.b, "Gather", NAMES(shape, build_ints(&n.b, INTS(1))),
                                    NOTHING),
                         build_ints(&n.b, INTS(0))),
                   NOTHING);
    y = build_node(&n.b, "Mul", NAMES(y, t), NOTHING);
    shape = build_node(&n.b, "Shape", NAMES(y), NOTHING);
    shape = build_node(&n.b, "Concat",
                       NAMES(build_node(&n.b, "Gather", NAMES(shape, build_ints(&n.b, INTS(0))),
                                        NOTHING),
                             build_ints(&n.b, INTS(1, 1))),
                       at_int("axis", 0));
    t = build_node(&n.b, "Expand", NAMES(CONST(&n, 0, 1, 1, 1, 5), shape), NOTHING);
    y = build_node(&n.b, "MatMul", NAMES(y, WEIGHT(&n, ALL, 1, 6, 5)), NOTHING);
    s = speedup_unverified(&n, build_node(&n.b, "Concat", NAMES(t, y), at_int("axis", 1)));
    assert_int_equal(speedup_out_channels(&s, 0), 3);
    expect_same_outputs(&n, &s, 2, 3, (const int64_t[][4]){ { 2, 24, 8, 0 }, { 5, 24, 8, 0 } });
    speedup_free(&s);
}

/* An input without a declared rank: the error names it. */
static void test_input_of_unknown_rank(void **state)
{
    struct net n = net_new(9);
    const char *x = build_input(&n.b, PARE_F32, -1, NULL);
    struct pare_model *m, *small = NULL;
    struct pare_speedup_report r;
    struct pare_graph *g;
    struct pare_err err = { 0 };

    (void)state;
    build_output(&n.b, net_conv(&n, net_conv(&n, x, HALF, 4, 8, 1), ALL, 8, 2, 1));
    m = build_model(&n.b);
    assert_int_not_equal(pare_speedup(m, &(struct pare_speedup_opts){ .threads = 1 }, pool, &small,
                                      &r, &err),
                         0);
    assert_non_null(strstr(err.msg, x));
    g = pare_graph_clone(pool, m->graph, &err);
    assert_non_null(g);
    assert_int_equal(pare_graph_infer(g, true, &err), 0);
    g = pare_graph_clone(pool, m->graph, &err);
    assert_int_not_equal(pare_graph_infer(g, false, &err), 0);
    assert_non_null(strstr(err.msg, x));
    pare_model_free(m);
}

#define T(f) cmocka_unit_test_setup_teardown(f, make_pool, drop_pool)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_table_sliced_to_the_length),
        T(test_computed_shape_after_a_stride),
        T(test_channel_shuffle),
        T(test_attention_heads),
        T(test_verification_uses_two_shapes),
        T(test_outputs_of_arg_max),
        T(test_dimension_with_one_size),
        T(test_dependency_groups_after_a_window),
        T(test_expand_to_a_computed_shape),
        T(test_expand_after_a_computed_table),
        T(test_input_of_unknown_rank),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

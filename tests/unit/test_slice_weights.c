/* test_slice_weights.c - intake of weights that are read in parts: Slice and Split become
 * initializers of their own, unless parts overlap, are read whole, or depend on free dimensions. */
#include "onnx_make.h"

#include "onnx/intake/intake.h"

static float ramp[64];

static int64_t sliced(const struct pare_model *m)
{
    const struct pare_intake_count *list;
    int n = pare_model_intake(m, &list);

    for (int i = 0; i < n; i++)
        if (!strcmp(list[i].name, "slice_weights"))
            return list[i].count;
    fail_msg("intake has no such step");
    return -1;
}

static struct pare_model *parse(struct bin file)
{
    struct pare_model *m = NULL;
    struct pare_err err = { 0 };

    for (int i = 0; i < 64; i++)
        ramp[i] = (float)i;
    if (pare_model_parse_with(file.p, file.n, NULL, &(struct pare_load_opts){ 0 }, &m, &err))
        fail_msg("%s", err.msg);
    return m;
}

static struct bin floats(const char *name, const char *dims, size_t n)
{
    for (int i = 0; i < 64; i++)
        ramp[i] = (float)i;
    return initializer(name, PARE_F32, dims, blob(9, ramp, n * sizeof(*ramp)));
}

static struct bin number(const char *name, int64_t v)
{
    return initializer(name, PARE_I64, "1", blob(9, &v, sizeof(v)));
}

/* w (9, 3), of which two layers read some rows. */
static struct bin model_of(struct bin parts, const char *x)
{
    struct bin constants = CAT(number("0", 0), number("3", 3), number("4", 4), number("9", 9),
                               number("2", 2), floats("w", "9,3", 27));

    return model(CAT(text(2, "g"), constants, parts, node("Transpose", "", "a", "ta"),
                     node("Transpose", "", "b", "tb"), node("MatMul", "first", "x,ta", "y"),
                     node("MatMul", "second", "x,tb", "z"), input("x", PARE_F32, x),
                     output("y", PARE_F32, "N,p"), output("z", PARE_F32, "N,q")));
}

static struct bin two_slices(const char *first, const char *second)
{
    return CAT(node("Slice", "", first, "a"), node("Slice", "", second, "b"));
}

static void expect_rows(struct pare_model *m, const char *name, int64_t from, int64_t rows)
{
    struct pare_value *w = pare_graph_find(m->graph, name);
    struct pare_err err = { 0 };

    assert_non_null(w);
    assert_null(w->maker);
    assert_int_equal(pare_value_load(m->arena, w, &err), 0);
    assert_int_equal(w->t.dim[0], 3); /* transposed */
    assert_int_equal(w->t.dim[1], rows);
    for (int64_t i = 0; i < 3 * rows; i++)
        assert_true(pare_f32(&w->t)[i] == (float)((from + i % rows) * 3 + i / rows));
}

static void test_slices_become_weights(void **state)
{
    struct pare_model *m = parse(model_of(two_slices("w,0,3,0", "w,3,9,0"), "N,3"));

    (void)state;
    assert_int_equal(sliced(m), 2);
    assert_int_equal(m->graph->n_nodes, 2);
    assert_null(pare_graph_find(m->graph, "w"));
    assert_null(pare_graph_find(m->graph, "9"));
    expect_rows(m, "a", 0, 3);
    expect_rows(m, "b", 3, 6);
    pare_model_free(m);
}

static void test_split_becomes_weights(void **state)
{
    int64_t sizes[2] = { 4, 5 };
    struct bin parts = CAT(initializer("sizes", PARE_I64, "2", blob(9, sizes, sizeof(sizes))),
                           node("Split", "", "w,sizes", "a,b"));
    struct pare_model *m = parse(model_of(parts, "N,3"));

    (void)state;
    assert_int_equal(sliced(m), 1);
    expect_rows(m, "a", 0, 4);
    expect_rows(m, "b", 4, 5);
    pare_model_free(m);
}

/* Shared rows, and a weight that is read whole, are not copied. */
static void test_shared_parts_are_kept(void **state)
{
    struct bin whole = CAT(node("Slice", "", "w,0,3,0", "a"), node("Identity", "", "w", "b"));
    struct bin twice = two_slices("w,0,3,0", "w,0,3,0");
    struct bin overlap = two_slices("w,0,4,0", "w,3,9,0");
    struct bin list[3] = { model_of(whole, "N,3"), model_of(twice, "N,3"),
                           model_of(overlap, "N,3") };

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct pare_model *m = parse(list[i]);

        assert_int_equal(sliced(m), 0);
        assert_non_null(pare_graph_find(m->graph, "w"));
        pare_model_free(m);
    }
}

/* As PyTorch writes cross attention: the border is the size of an axis of x. */
static struct bin border_of(const char *axis)
{
    return CAT(node("Shape", "", "x", "shape"), node("Gather", "", axis, "n"),
               node("Slice", "", "w,0,n,0", "a"), node("Slice", "", "w,n,9,0", "b"));
}

static void test_borders_that_are_computed(void **state)
{
    struct bin one = number("1", 1);
    struct pare_model *m = parse(model_of(CAT(one, border_of("shape,1")), "N,3"));

    (void)state;
    assert_int_equal(sliced(m), 2);
    expect_rows(m, "a", 0, 3);
    expect_rows(m, "b", 3, 6);
    pare_model_free(m);
    m = parse(model_of(border_of("shape,0"), "N,3")); /* the batch */
    assert_int_equal(sliced(m), 0);
    pare_model_free(m);
}

static void test_no_memory(void **state)
{
    struct bin one = number("1", 1);
    struct bin file = model_of(CAT(one, border_of("shape,1")), "N,3");
    int rc = 1;

    (void)state;
    for (int n = 1; rc && n < 20000; n++) {
        struct pare_model *m = NULL;
        struct pare_err err = { 0 };

        pare_oom_countdown = n;
        rc = pare_model_parse_with(file.p, file.n, NULL, &(struct pare_load_opts){ 0 }, &m, &err);
        pare_oom_countdown = 0;
        assert_int_equal(rc == 0, m != NULL);
        if (rc)
            assert_int_equal(rc, PARE_ENOMEM);
        else
            assert_int_equal(sliced(m), 2);
        pare_model_free(m);
    }
    assert_int_equal(rc, 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_pool, drop_pool)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_slices_become_weights),
        TEST(test_split_becomes_weights),
        TEST(test_shared_parts_are_kept),
        TEST(test_borders_that_are_computed),
        TEST(test_no_memory),
    };

    return cmocka_run_group_tests_name("slice_weights", tests, NULL, NULL);
}

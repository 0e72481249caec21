/* test_movement_limits.c - hostile indices, sizes and shapes give an error, never a crash. */
#include "op_rig.h"

#include "base/arena.h"
#include "op/shape/movement.h"

/* ---- indices --------------------------------------------------------------------- */

static const int64_t hostile[] = { 3, -4, INT64_MAX, INT64_MIN, INT64_MIN + 3 };
#define N_HOSTILE ((int)(sizeof(hostile) / sizeof(*hostile)))

static void test_indices_out_of_range(void **state)
{
    struct rig r;

    (void)state;
    for (int i = 0; i < N_HOSTILE; i++) {
        rig_begin(&r, "Gather", 13);
        COUNTING(&r, 3, 2);
        I64(&r, 0, hostile[i]);
        expect_error(&r, 1, "is outside a dimension of 3");
        rig_begin(&r, "GatherElements", 13);
        COUNTING(&r, 3, 2);
        add_input(&r, PARE_I64, 2, INTS(1, 2), INTS(0, hostile[i]));
        expect_error(&r, 1, "is outside a dimension of 3");
        rig_begin(&r, "GatherND", 13);
        COUNTING(&r, 3, 2);
        I64(&r, hostile[i], 0);
        expect_error(&r, 1, "is outside a dimension of 3");
        rig_begin(&r, "ScatterND", 18);
        COUNTING(&r, 3, 2);
        I64(&r, hostile[i]);
        COUNTING(&r, 2);
        expect_error(&r, 1, "is outside a dimension of 3");
    }
}

static void test_element_indices_out_of_range(void **state)
{
    static const char *const names[] = { "Scatter", "ScatterElements" };
    struct rig r;

    (void)state;
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < N_HOSTILE; i++) {
            rig_begin(&r, names[k], k ? 18 : 9);
            COUNTING(&r, 3);
            I64(&r, hostile[i]);
            COUNTING(&r, 1);
            expect_error(&r, 1, "is outside a dimension of 3");
        }
    rig_begin(&r, "Gather", 13);
    COUNTING(&r, 0, 2);
    I64(&r, 0);
    expect_error(&r, 1, "is outside a dimension of 0");
    rig_begin(&r, "ReverseSequence", 10);
    COUNTING(&r, 3, 2);
    I64(&r, 1, 4);
    expect_error(&r, 1, "length 4 of 3");
}

static void test_wrong_index_shapes(void **state)
{
    struct rig r;

    (void)state;
    rig_begin(&r, "GatherND", 13);
    COUNTING(&r, 3, 2);
    I64(&r, 0, 0, 0);
    expect_error(&r, 1, "indices (3) do not fit data (3, 2)");
    rig_begin(&r, "GatherND", 13);
    set_attr(&r, "batch_dims", "1");
    COUNTING(&r, 3, 2);
    I64(&r, 0);
    expect_error(&r, 1, "do not fit");
    rig_begin(&r, "GatherElements", 13);
    COUNTING(&r, 3, 2);
    add_input(&r, PARE_I64, 2, INTS(1, 3), NULL);
    expect_error(&r, 1, "do not fit");
    rig_begin(&r, "ScatterElements", 18);
    COUNTING(&r, 3);
    I64(&r, 0, 1);
    COUNTING(&r, 1);
    expect_error(&r, 1, "indices are (2) but updates are (1)");
    rig_begin(&r, "ScatterND", 18);
    COUNTING(&r, 3, 2);
    I64(&r, 0);
    COUNTING(&r, 3);
    expect_error(&r, 1, "do not fit");
    rig_begin(&r, "ScatterND", 18);
    set_attr(&r, "reduction", "add");
    add_input(&r, PARE_BOOL, 1, INTS(2), NULL);
    add_input(&r, PARE_I64, 2, INTS(1, 1), NULL);
    add_input(&r, PARE_BOOL, 1, INTS(1), NULL);
    expect_error(&r, 1, "reduction 'add' of bool");
}

static void test_scatter_add_wraps_around(void **state)
{
    struct rig r;

    (void)state;
    rig_begin(&r, "ScatterElements", 18);
    set_attr(&r, "reduction", "add");
    I64(&r, INT64_MAX, 1);
    I64(&r, 0);
    I64(&r, 1);
    expect_ok(&r, 1);
    assert_true(pare_i64(&r.out[0]->t)[0] == INT64_MIN);
    rig_end(&r);
}

static void test_one_hot_of_hostile_values(void **state)
{
    struct rig r;

    (void)state;
    rig_begin(&r, "OneHot", 11);
    F32(&r, 1, -1, NAN, 1e30f, -3);
    I64(&r, 2);
    F32(&r, 5, 6);
    expect_ok(&r, 1);
    EXPECT(&r, 0, 5, 6, 5, 6, 5, 5, 5, 5, 5, 5);
    rig_end(&r);
    rig_begin(&r, "OneHot", 11);
    I64(&r, 1);
    I64(&r, -2);
    add_input(&r, PARE_F32, 1, INTS(2), NULL);
    expect_error(&r, 1, "depth is -2");
    rig_begin(&r, "OneHot", 11);
    I64(&r, 1);
    F32(&r, NAN);
    add_input(&r, PARE_F32, 1, INTS(2), NULL);
    expect_error(&r, 1, "depth is");
}

/* ---- Resize ---------------------------------------------------------------------- */

static void begin_resize(struct rig *r, const char *mode, const char *coord)
{
    rig_begin(r, "Resize", 19);
    set_attr(r, "mode", mode);
    set_attr(r, "coordinate_transformation_mode", coord);
    COUNTING(r, 1, 4);
}

static void add_scales(struct rig *r, float a, float b)
{
    add_absent_input(r);
    F32(r, a, b);
}

static void test_resize_errors(void **state)
{
    static const float bad[] = { 0, -1, NAN, INFINITY, 1e30f };
    struct rig r;

    (void)state;
    for (int i = 0; i < 5; i++) {
        begin_resize(&r, "linear", "half_pixel");
        add_scales(&r, 1, bad[i]);
        expect_error(&r, 1, "axis 1 of size 4 cannot be scaled by");
    }
    begin_resize(&r, "linear", "half_pixel");
    expect_error(&r, 1, "neither scales nor sizes");
    begin_resize(&r, "linear", "half_pixel");
    add_absent_input(&r);
    F32(&r, 2);
    expect_error(&r, 1, "scales has shape (1), must have (2)");
    begin_resize(&r, "linear", "half_pixel");
    add_absent_input(&r);
    add_absent_input(&r);
    I64(&r, 1, -5);
    expect_error(&r, 1, "cannot be made -5 long");
    begin_resize(&r, "nearest", "half_pixel");
    add_absent_input(&r);
    add_absent_input(&r);
    I64(&r, INT64_MAX, INT64_MAX);
    expect_error(&r, 1, "has more than 1099511627776 elements");
    begin_resize(&r, "linear", "tf_crop_and_resize");
    add_scales(&r, 1, 1);
    expect_error(&r, 1, "needs the input roi");
    begin_resize(&r, "linear", "tf_crop_and_resize");
    F32(&r, 0, NAN, 1, 1);
    F32(&r, 1, 1);
    expect_error(&r, 1, "is not finite");
    rig_begin(&r, "Resize", 13);
    set_attr(&r, "mode", "cubic");
    add_input(&r, PARE_BOOL, 2, INTS(1, 4), NULL);
    add_scales(&r, 1, 2);
    expect_error(&r, 1, "bool cannot be interpolated");
}

/* 0 1 2 3 at half size: antialiased taps weigh 1, 3, 3 and 1 of 8, where the outermost is at the
 * edge. */
static void test_resize_values(void **state)
{
    struct rig r;

    (void)state;
    begin_resize(&r, "linear", "half_pixel");
    set_attr(&r, "antialias", "1");
    add_scales(&r, 1, 0.5f);
    expect_ok(&r, 1);
    EXPECT(&r, 0, 0.625f, 2.375f);
    rig_end(&r);
    begin_resize(&r, "linear", "half_pixel");
    add_scales(&r, 1, 0.5f);
    expect_ok(&r, 1);
    EXPECT(&r, 0, 0.5f, 2.5f);
    rig_end(&r);
    begin_resize(&r, "linear", "align_corners");
    add_scales(&r, 1, 1.75f);
    expect_ok(&r, 1);
    EXPECT(&r, 0, 0, 0.5f, 1, 1.5f, 2, 2.5f, 3);
    rig_end(&r);
    begin_resize(&r, "nearest", "asymmetric");
    set_attr(&r, "nearest_mode", "ceil");
    add_scales(&r, 2, 1.5f);
    expect_ok(&r, 1);
    EXPECT(&r, 0, 0, 1, 2, 2, 3, 3, 0, 1, 2, 2, 3, 3);
    rig_end(&r);
    begin_resize(&r, "linear", "tf_crop_and_resize");
    set_attr(&r, "extrapolation_value", "9");
    F32(&r, 0, 0.5f, 1, 1.5f);
    add_absent_input(&r);
    I64(&r, 1, 3);
    expect_ok(&r, 1);
    EXPECT(&r, 0, 1.5f, 3, 9);
    rig_end(&r);
}

/* ---- shapes and sizes -------------------------------------------------------------- */

static void begin_reshape(struct rig *r)
{
    rig_begin(r, "Reshape", 14);
    COUNTING(r, 2, 3);
}

static void test_reshape_errors(void **state)
{
    struct rig r;

    (void)state;
    begin_reshape(&r);
    I64(&r, -1, -1);
    expect_error(&r, 1, "second unknown");
    begin_reshape(&r);
    I64(&r, 4, -1);
    expect_error(&r, 1, "does not fit");
    begin_reshape(&r);
    I64(&r, 5);
    expect_error(&r, 1, "does not fit");
    begin_reshape(&r);
    I64(&r, 2, 3, 0);
    expect_error(&r, 1, "copies dimension 2");
    begin_reshape(&r);
    I64(&r, INT64_MAX, INT64_MAX);
    expect_error(&r, 1, "too many");
    begin_reshape(&r);
    I64(&r, INT64_MIN);
    expect_error(&r, 1, "negative");
    begin_reshape(&r);
    I64(&r, 1, 1, 1, 1, 1, 1, 1, 1, 6);
    expect_error(&r, 1, "at most 8");
}

static void begin_split(struct rig *r, int version)
{
    rig_begin(r, "Split", version);
    COUNTING(r, 5);
}

static void test_split_sizes(void **state)
{
    struct rig r;

    (void)state;
    begin_split(&r, 13);
    I64(&r, 2, 2);
    expect_error(&r, 2, "add up to 4 of an axis of 5");
    begin_split(&r, 13);
    I64(&r, 2, 4);
    expect_error(&r, 2, "part 1 of size 4 does not fit");
    begin_split(&r, 13);
    I64(&r, INT64_MAX, INT64_MAX);
    expect_error(&r, 2, "does not fit");
    begin_split(&r, 13);
    I64(&r, 6, -1);
    expect_error(&r, 2, "does not fit");
    begin_split(&r, 13);
    I64(&r, 5);
    expect_error(&r, 2, "1 sizes are given for 2 outputs");
    begin_split(&r, 13);
    expect_error(&r, 2, "cannot be split in 2 equal parts");
    begin_split(&r, 18);
    set_attr(&r, "num_outputs", "4");
    expect_error(&r, 4, "does not fit");
    begin_split(&r, 18);
    set_attr(&r, "num_outputs", "2");
    expect_ok(&r, 2);
    EXPECT(&r, 0, 0, 1, 2);
    EXPECT(&r, 1, 3, 4);
    assert_int_equal(pare_split_axis(&r.node), 0);
    assert_int_equal(pare_split_size(&r.node, 1), 2);
    rig_end(&r);
}

static void test_huge_results_are_refused(void **state)
{
    struct rig r;

    (void)state;
    rig_begin(&r, "Expand", 13);
    COUNTING(&r, 1, 1);
    I64(&r, INT64_MAX, INT64_MAX);
    expect_error(&r, 1, "has more than 1099511627776 elements");
    rig_begin(&r, "Expand", 13);
    COUNTING(&r, 1);
    I64(&r, -1);
    expect_error(&r, 1, "negative");
    rig_begin(&r, "Tile", 13);
    COUNTING(&r, 4);
    I64(&r, INT64_MAX / 2);
    expect_error(&r, 1, "does not fit");
    rig_begin(&r, "Tile", 13);
    COUNTING(&r, 4);
    I64(&r, -1);
    expect_error(&r, 1, "-1 times");
    rig_begin(&r, "ConstantOfShape", 9);
    I64(&r, INT64_MAX, 2);
    expect_error(&r, 1, "has more than 1099511627776 elements");
    rig_begin(&r, "ConstantOfShape", 9);
    I64(&r, INT64_MAX, INT64_MAX, 0);
    expect_error(&r, 1, "has more than 1099511627776 elements");
    rig_begin(&r, "ConstantOfShape", 9);
    I64(&r, 2, -2);
    expect_error(&r, 1, "negative dimension: -2");
    rig_begin(&r, "CenterCropPad", 18);
    COUNTING(&r, 4, 4);
    I64(&r, INT64_MAX, 1000);
    expect_error(&r, 1, "has more than 1099511627776 elements");
    rig_begin(&r, "DepthToSpace", 13);
    set_attr(&r, "blocksize", "1048576");
    add_input(&r, PARE_F32, 4, INTS(1, 0, (int64_t)1 << 39, 1), NULL);
    expect_error(&r, 1, "has more than 1099511627776 elements");
}

static void test_hostile_ranges(void **state)
{
    struct rig r;

    (void)state;
    rig_begin(&r, "Range", 11);
    I64(&r, INT64_MIN);
    I64(&r, INT64_MAX);
    I64(&r, 1);
    expect_error(&r, 1, "too long");
    rig_begin(&r, "Range", 11);
    I64(&r, 1);
    I64(&r, 5);
    I64(&r, 0);
    expect_error(&r, 1, "delta is 0");
    rig_begin(&r, "Range", 11);
    add_input(&r, PARE_F32, 0, NULL, FLOATS(0));
    add_input(&r, PARE_F32, 0, NULL, FLOATS(NAN));
    add_input(&r, PARE_F32, 0, NULL, FLOATS(1));
    expect_error(&r, 1, "is not finite");
    rig_begin(&r, "Range", 11);
    I64(&r, INT64_MAX);
    I64(&r, INT64_MIN);
    I64(&r, INT64_MIN);
    expect_ok(&r, 1);
    assert_int_equal(r.out[0]->t.dim[0], 2);
    assert_true(pare_i64(&r.out[0]->t)[1] == -1);
    rig_end(&r);
}

/* ---- huge shapes without elements ------------------------------------------------- */

/* As in numpy and ONNX Runtime, slices without elements are all equal, and their count is the size
 * of the axis. */
static void test_unique_slices_without_elements(void **state)
{
    struct rig r;

    (void)state;
    rig_begin(&r, "Unique", 11);
    set_attr(&r, "axis", "1");
    COUNTING(&r, 0, 3, 0);
    expect_ok(&r, 4);
    assert_int_equal(r.out[0]->t.rank, 3);
    assert_int_equal(r.out[0]->t.dim[1], 1);
    assert_int_equal(pare_numel(&r.out[1]->t), 1);
    assert_int_equal(pare_i64(&r.out[1]->t)[0], 0);
    assert_int_equal(pare_numel(&r.out[2]->t), 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pare_i64(&r.out[2]->t)[i], 0);
    assert_int_equal(pare_numel(&r.out[3]->t), 1);
    assert_int_equal(pare_i64(&r.out[3]->t)[0], 3);
    rig_end(&r);
    rig_begin(&r, "Unique", 11);
    set_attr(&r, "axis", "0");
    COUNTING(&r, 0, 3);
    expect_ok(&r, 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pare_numel(&r.out[i]->t), 0);
    rig_end(&r);
}

/* Billions of slices need no memory, unless their indices are an output. */
static void test_unique_of_billions_of_empty_slices(void **state)
{
    const int64_t many = INT64_C(1) << 31;
    struct rig r;

    (void)state;
    for (int sorted = 0; sorted < 2; sorted++) {
        rig_begin(&r, "Unique", 11);
        set_attr(&r, "axis", "1");
        set_attr(&r, "sorted", sorted ? "1" : "0");
        COUNTING(&r, 0, many, 0);
        pare_arena_limit(r.arena, 1 << 16);
        pare_arena_limit(r.scratch, 1 << 16);
        expect_ok(&r, 2);
        assert_int_equal(r.out[0]->t.dim[1], 1);
        rig_end(&r);
        rig_begin(&r, "Unique", 11);
        set_attr(&r, "axis", "1");
        COUNTING(&r, 0, many, 0);
        pare_arena_limit(r.arena, 1 << 16);
        expect_error(&r, 3, "no memory for a tensor of 17179869184 bytes");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_indices_out_of_range),
        cmocka_unit_test(test_element_indices_out_of_range),
        cmocka_unit_test(test_wrong_index_shapes),
        cmocka_unit_test(test_scatter_add_wraps_around),
        cmocka_unit_test(test_one_hot_of_hostile_values),
        cmocka_unit_test(test_resize_errors),
        cmocka_unit_test(test_resize_values),
        cmocka_unit_test(test_reshape_errors),
        cmocka_unit_test(test_split_sizes),
        cmocka_unit_test(test_huge_results_are_refused),
        cmocka_unit_test(test_hostile_ranges),
        cmocka_unit_test(test_unique_slices_without_elements),
        cmocka_unit_test(test_unique_of_billions_of_empty_slices),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

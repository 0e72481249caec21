/* test_movement_limits.c - hostile indices, sizes and shapes give an error, never a crash. */
#include "op_rig.h"

#include "base/arena.h"
#include "op/shape/movement.h"

/* ---- indices --------------------------------------------------------------------- */

static const int64_t hostile[] = { 3, -4, INT64_MAX, INT64_MIN, INT64_MIN + 3 };
#define N_HOSTILE ((int)(sizeof(hostile) / sizeof(*hostile)))

static void hostile_indices(void **state)
{
    struct rig r;

    (void)state;
    for (int i = 0; i < N_HOSTILE; i++) {
        begin(&r, "Gather", 13);
        SHAPED(&r, 3, 2);
        I64(&r, 0, hostile[i]);
        run_fails(&r, 1, "is outside a dimension of 3");
        begin(&r, "GatherElements", 13);
        SHAPED(&r, 3, 2);
        input(&r, PARE_I64, 2, INTS(1, 2), INTS(0, hostile[i]));
        run_fails(&r, 1, "is outside a dimension of 3");
        begin(&r, "GatherND", 13);
        SHAPED(&r, 3, 2);
        I64(&r, hostile[i], 0);
        run_fails(&r, 1, "is outside a dimension of 3");
        begin(&r, "ScatterND", 18);
        SHAPED(&r, 3, 2);
        I64(&r, hostile[i]);
        SHAPED(&r, 2);
        run_fails(&r, 1, "is outside a dimension of 3");
    }
}

static void hostile_indices_of_elements(void **state)
{
    static const char *const names[] = { "Scatter", "ScatterElements" };
    struct rig r;

    (void)state;
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < N_HOSTILE; i++) {
            begin(&r, names[k], k ? 18 : 9);
            SHAPED(&r, 3);
            I64(&r, hostile[i]);
            SHAPED(&r, 1);
            run_fails(&r, 1, "is outside a dimension of 3");
        }
    begin(&r, "Gather", 13);
    SHAPED(&r, 0, 2);
    I64(&r, 0);
    run_fails(&r, 1, "is outside a dimension of 0");
    begin(&r, "ReverseSequence", 10);
    SHAPED(&r, 3, 2);
    I64(&r, 1, 4);
    run_fails(&r, 1, "length 4 of 3");
}

static void index_shapes_that_do_not_fit(void **state)
{
    struct rig r;

    (void)state;
    begin(&r, "GatherND", 13);
    SHAPED(&r, 3, 2);
    I64(&r, 0, 0, 0);
    run_fails(&r, 1, "indices (3) do not fit data (3, 2)");
    begin(&r, "GatherND", 13);
    attr(&r, "batch_dims", "1");
    SHAPED(&r, 3, 2);
    I64(&r, 0);
    run_fails(&r, 1, "do not fit");
    begin(&r, "GatherElements", 13);
    SHAPED(&r, 3, 2);
    input(&r, PARE_I64, 2, INTS(1, 3), NULL);
    run_fails(&r, 1, "do not fit");
    begin(&r, "ScatterElements", 18);
    SHAPED(&r, 3);
    I64(&r, 0, 1);
    SHAPED(&r, 1);
    run_fails(&r, 1, "indices are (2) but updates are (1)");
    begin(&r, "ScatterND", 18);
    SHAPED(&r, 3, 2);
    I64(&r, 0);
    SHAPED(&r, 3);
    run_fails(&r, 1, "do not fit");
    begin(&r, "ScatterND", 18);
    attr(&r, "reduction", "add");
    input(&r, PARE_BOOL, 1, INTS(2), NULL);
    input(&r, PARE_I64, 2, INTS(1, 1), NULL);
    input(&r, PARE_BOOL, 1, INTS(1), NULL);
    run_fails(&r, 1, "reduction 'add' of bool");
}

static void scatter_wraps_around(void **state)
{
    struct rig r;

    (void)state;
    begin(&r, "ScatterElements", 18);
    attr(&r, "reduction", "add");
    I64(&r, INT64_MAX, 1);
    I64(&r, 0);
    I64(&r, 1);
    run_ok(&r, 1);
    assert_true(pare_i64(&r.out[0]->t)[0] == INT64_MIN);
    end(&r);
}

static void one_hot_of_anything(void **state)
{
    struct rig r;

    (void)state;
    begin(&r, "OneHot", 11);
    F32(&r, 1, -1, NAN, 1e30f, -3);
    I64(&r, 2);
    F32(&r, 5, 6);
    run_ok(&r, 1);
    CHECK(&r, 0, 5, 6, 5, 6, 5, 5, 5, 5, 5, 5);
    end(&r);
    begin(&r, "OneHot", 11);
    I64(&r, 1);
    I64(&r, -2);
    input(&r, PARE_F32, 1, INTS(2), NULL);
    run_fails(&r, 1, "depth is -2");
    begin(&r, "OneHot", 11);
    I64(&r, 1);
    F32(&r, NAN);
    input(&r, PARE_F32, 1, INTS(2), NULL);
    run_fails(&r, 1, "depth is");
}

/* ---- Resize ---------------------------------------------------------------------- */

static void resize(struct rig *r, const char *mode, const char *coord)
{
    begin(r, "Resize", 19);
    attr(r, "mode", mode);
    attr(r, "coordinate_transformation_mode", coord);
    SHAPED(r, 1, 4);
}

static void scales(struct rig *r, float a, float b)
{
    absent(r);
    F32(r, a, b);
}

static void resize_refuses(void **state)
{
    static const float bad[] = { 0, -1, NAN, INFINITY, 1e30f };
    struct rig r;

    (void)state;
    for (int i = 0; i < 5; i++) {
        resize(&r, "linear", "half_pixel");
        scales(&r, 1, bad[i]);
        run_fails(&r, 1, "axis 1 of size 4 cannot be scaled by");
    }
    resize(&r, "linear", "half_pixel");
    run_fails(&r, 1, "neither scales nor sizes");
    resize(&r, "linear", "half_pixel");
    absent(&r);
    F32(&r, 2);
    run_fails(&r, 1, "scales has shape (1), must have (2)");
    resize(&r, "linear", "half_pixel");
    absent(&r);
    absent(&r);
    I64(&r, 1, -5);
    run_fails(&r, 1, "cannot be made -5 long");
    resize(&r, "nearest", "half_pixel");
    absent(&r);
    absent(&r);
    I64(&r, INT64_MAX, INT64_MAX);
    run_fails(&r, 1, "has more than 1099511627776 elements");
    resize(&r, "linear", "tf_crop_and_resize");
    scales(&r, 1, 1);
    run_fails(&r, 1, "needs the input roi");
    resize(&r, "linear", "tf_crop_and_resize");
    F32(&r, 0, NAN, 1, 1);
    F32(&r, 1, 1);
    run_fails(&r, 1, "is not finite");
    begin(&r, "Resize", 13);
    attr(&r, "mode", "cubic");
    input(&r, PARE_BOOL, 2, INTS(1, 4), NULL);
    scales(&r, 1, 2);
    run_fails(&r, 1, "bool cannot be interpolated");
}

/* Of 0 1 2 3 halved: antialiased taps weigh 1, 3, 3 and 1 of 8, where the outermost falls on the
 * edge. */
static void resize_values(void **state)
{
    struct rig r;

    (void)state;
    resize(&r, "linear", "half_pixel");
    attr(&r, "antialias", "1");
    scales(&r, 1, 0.5f);
    run_ok(&r, 1);
    CHECK(&r, 0, 0.625f, 2.375f);
    end(&r);
    resize(&r, "linear", "half_pixel");
    scales(&r, 1, 0.5f);
    run_ok(&r, 1);
    CHECK(&r, 0, 0.5f, 2.5f);
    end(&r);
    resize(&r, "linear", "align_corners");
    scales(&r, 1, 1.75f);
    run_ok(&r, 1);
    CHECK(&r, 0, 0, 0.5f, 1, 1.5f, 2, 2.5f, 3);
    end(&r);
    resize(&r, "nearest", "asymmetric");
    attr(&r, "nearest_mode", "ceil");
    scales(&r, 2, 1.5f);
    run_ok(&r, 1);
    CHECK(&r, 0, 0, 1, 2, 2, 3, 3, 0, 1, 2, 2, 3, 3);
    end(&r);
    resize(&r, "linear", "tf_crop_and_resize");
    attr(&r, "extrapolation_value", "9");
    F32(&r, 0, 0.5f, 1, 1.5f);
    absent(&r);
    I64(&r, 1, 3);
    run_ok(&r, 1);
    CHECK(&r, 0, 1.5f, 3, 9);
    end(&r);
}

/* ---- shapes and sizes -------------------------------------------------------------- */

static void reshape(struct rig *r)
{
    begin(r, "Reshape", 14);
    SHAPED(r, 2, 3);
}

static void reshape_refuses(void **state)
{
    struct rig r;

    (void)state;
    reshape(&r);
    I64(&r, -1, -1);
    run_fails(&r, 1, "second unknown");
    reshape(&r);
    I64(&r, 4, -1);
    run_fails(&r, 1, "does not fit");
    reshape(&r);
    I64(&r, 5);
    run_fails(&r, 1, "does not fit");
    reshape(&r);
    I64(&r, 2, 3, 0);
    run_fails(&r, 1, "copies dimension 2");
    reshape(&r);
    I64(&r, INT64_MAX, INT64_MAX);
    run_fails(&r, 1, "too many");
    reshape(&r);
    I64(&r, INT64_MIN);
    run_fails(&r, 1, "negative");
    reshape(&r);
    I64(&r, 1, 1, 1, 1, 1, 1, 1, 1, 6);
    run_fails(&r, 1, "at most 8");
}

static void split(struct rig *r, int version)
{
    begin(r, "Split", version);
    SHAPED(r, 5);
}

static void split_sizes(void **state)
{
    struct rig r;

    (void)state;
    split(&r, 13);
    I64(&r, 2, 2);
    run_fails(&r, 2, "add up to 4 of an axis of 5");
    split(&r, 13);
    I64(&r, 2, 4);
    run_fails(&r, 2, "part 1 of size 4 does not fit");
    split(&r, 13);
    I64(&r, INT64_MAX, INT64_MAX);
    run_fails(&r, 2, "does not fit");
    split(&r, 13);
    I64(&r, 6, -1);
    run_fails(&r, 2, "does not fit");
    split(&r, 13);
    I64(&r, 5);
    run_fails(&r, 2, "1 sizes are given for 2 outputs");
    split(&r, 13);
    run_fails(&r, 2, "cannot be split in 2 equal parts");
    split(&r, 18);
    attr(&r, "num_outputs", "4");
    run_fails(&r, 4, "does not fit");
    split(&r, 18);
    attr(&r, "num_outputs", "2");
    run_ok(&r, 2);
    CHECK(&r, 0, 0, 1, 2);
    CHECK(&r, 1, 3, 4);
    assert_int_equal(pare_split_axis(&r.node), 0);
    assert_int_equal(pare_microbatch_size(&r.node, 1), 2);
    end(&r);
}

static void huge_requests(void **state)
{
    struct rig r;

    (void)state;
    begin(&r, "Expand", 13);
    SHAPED(&r, 1, 1);
    I64(&r, INT64_MAX, INT64_MAX);
    run_fails(&r, 1, "has more than 1099511627776 elements");
    begin(&r, "Expand", 13);
    SHAPED(&r, 1);
    I64(&r, -1);
    run_fails(&r, 1, "negative");
    begin(&r, "Tile", 13);
    SHAPED(&r, 4);
    I64(&r, INT64_MAX / 2);
    run_fails(&r, 1, "does not fit");
    begin(&r, "Tile", 13);
    SHAPED(&r, 4);
    I64(&r, -1);
    run_fails(&r, 1, "-1 times");
    begin(&r, "ConstantOfShape", 9);
    I64(&r, INT64_MAX, 2);
    run_fails(&r, 1, "has more than 1099511627776 elements");
    begin(&r, "ConstantOfShape", 9);
    I64(&r, INT64_MAX, INT64_MAX, 0);
    run_fails(&r, 1, "has more than 1099511627776 elements");
    begin(&r, "ConstantOfShape", 9);
    I64(&r, 2, -2);
    run_fails(&r, 1, "negative dimension: -2");
    begin(&r, "CenterCropPad", 18);
    SHAPED(&r, 4, 4);
    I64(&r, INT64_MAX, 1000);
    run_fails(&r, 1, "has more than 1099511627776 elements");
    begin(&r, "DepthToSpace", 13);
    attr(&r, "blocksize", "1048576");
    input(&r, PARE_F32, 4, INTS(1, 0, (int64_t)1 << 39, 1), NULL);
    run_fails(&r, 1, "has more than 1099511627776 elements");
}

static void ranges(void **state)
{
    struct rig r;

    (void)state;
    begin(&r, "Range", 11);
    I64(&r, INT64_MIN);
    I64(&r, INT64_MAX);
    I64(&r, 1);
    run_fails(&r, 1, "too long");
    begin(&r, "Range", 11);
    I64(&r, 1);
    I64(&r, 5);
    I64(&r, 0);
    run_fails(&r, 1, "delta is 0");
    begin(&r, "Range", 11);
    input(&r, PARE_F32, 0, NULL, FLOATS(0));
    input(&r, PARE_F32, 0, NULL, FLOATS(NAN));
    input(&r, PARE_F32, 0, NULL, FLOATS(1));
    run_fails(&r, 1, "is not finite");
    begin(&r, "Range", 11);
    I64(&r, INT64_MAX);
    I64(&r, INT64_MIN);
    I64(&r, INT64_MIN);
    run_ok(&r, 1);
    assert_int_equal(r.out[0]->t.dim[0], 2);
    assert_true(pare_i64(&r.out[0]->t)[1] == -1);
    end(&r);
}

/* ---- no elements, of a huge shape ------------------------------------------------- */

/* Numpy and ONNX Runtime: slices without elements are all alike, and there are as many as there
 * are. */
static void slices_without_elements(void **state)
{
    struct rig r;

    (void)state;
    begin(&r, "Unique", 11);
    attr(&r, "axis", "1");
    SHAPED(&r, 0, 3, 0);
    run_ok(&r, 4);
    assert_int_equal(r.out[0]->t.rank, 3);
    assert_int_equal(r.out[0]->t.dim[1], 1);
    assert_int_equal(pare_numel(&r.out[1]->t), 1);
    assert_int_equal(pare_i64(&r.out[1]->t)[0], 0);
    assert_int_equal(pare_numel(&r.out[2]->t), 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pare_i64(&r.out[2]->t)[i], 0);
    assert_int_equal(pare_numel(&r.out[3]->t), 1);
    assert_int_equal(pare_i64(&r.out[3]->t)[0], 3);
    end(&r);
    begin(&r, "Unique", 11);
    attr(&r, "axis", "0");
    SHAPED(&r, 0, 3);
    run_ok(&r, 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pare_numel(&r.out[i]->t), 0);
    end(&r);
}

/* Billions of them take nothing, unless their numbers are asked for. */
static void billions_of_slices(void **state)
{
    const int64_t many = INT64_C(1) << 31;
    struct rig r;

    (void)state;
    for (int sorted = 0; sorted < 2; sorted++) {
        begin(&r, "Unique", 11);
        attr(&r, "axis", "1");
        attr(&r, "sorted", sorted ? "1" : "0");
        SHAPED(&r, 0, many, 0);
        pare_arena_limit(r.arena, 1 << 16);
        pare_arena_limit(r.scratch, 1 << 16);
        run_ok(&r, 2);
        assert_int_equal(r.out[0]->t.dim[1], 1);
        end(&r);
        begin(&r, "Unique", 11);
        attr(&r, "axis", "1");
        SHAPED(&r, 0, many, 0);
        pare_arena_limit(r.arena, 1 << 16);
        run_fails(&r, 3, "no memory for a tensor of 17179869184 bytes");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hostile_indices),
        cmocka_unit_test(hostile_indices_of_elements),
        cmocka_unit_test(index_shapes_that_do_not_fit),
        cmocka_unit_test(scatter_wraps_around),
        cmocka_unit_test(one_hot_of_anything),
        cmocka_unit_test(resize_refuses),
        cmocka_unit_test(resize_values),
        cmocka_unit_test(reshape_refuses),
        cmocka_unit_test(split_sizes),
        cmocka_unit_test(huge_requests),
        cmocka_unit_test(ranges),
        cmocka_unit_test(slices_without_elements),
        cmocka_unit_test(billions_of_slices),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_movement.c - operators that move elements, at the limits of their ranges. */
#include "op_rig.h"

#include "graph/ties.h"
#include "op/shape/movement.h"

/* ---- Slice ----------------------------------------------------------------------- */

static void begin_slice(struct rig *r, int64_t start, int64_t stop, int64_t axis, int64_t step)
{
    rig_begin(r, "Slice", 13);
    COUNTING(r, 2, 4);
    I64(r, start);
    I64(r, stop);
    I64(r, axis);
    I64(r, step);
}

static void test_slice_with_negative_steps(void **state)
{
    struct rig r;

    (void)state;
    begin_slice(&r, -1, INT64_MIN, 1, -1);
    expect_ok(&r, 1);
    EXPECT(&r, 0, 3, 2, 1, 0, 7, 6, 5, 4);
    rig_end(&r);
    begin_slice(&r, INT64_MAX, 0, -1, -2);
    expect_ok(&r, 1);
    EXPECT(&r, 0, 3, 1, 7, 5);
    rig_end(&r);
    begin_slice(&r, INT64_MAX, INT64_MIN, 0, INT64_MIN);
    expect_ok(&r, 1);
    EXPECT(&r, 0, 4, 5, 6, 7);
    rig_end(&r);
}

static void test_slice_clamps_its_range(void **state)
{
    struct rig r;

    (void)state;
    begin_slice(&r, INT64_MIN, INT64_MAX, 1, 3);
    expect_ok(&r, 1);
    EXPECT(&r, 0, 0, 3, 4, 7);
    rig_end(&r);
    begin_slice(&r, 1, 1000, 1, INT64_MAX);
    expect_ok(&r, 1);
    EXPECT(&r, 0, 1, 5);
    rig_end(&r);
    begin_slice(&r, 1000, INT64_MAX, 1, 1);
    expect_ok(&r, 1);
    assert_int_equal(r.out[0]->t.dim[0], 2);
    assert_int_equal(r.out[0]->t.dim[1], 0);
    rig_end(&r);
}

static void test_slice_errors(void **state)
{
    struct rig r;

    (void)state;
    begin_slice(&r, 0, 1, 1, 0);
    expect_error(&r, 1, "step along axis 1 is 0");
    begin_slice(&r, 0, 1, 2, 1);
    expect_error(&r, 1, "axis 2 is outside");
    rig_begin(&r, "Slice", 13);
    COUNTING(&r, 2, 4);
    I64(&r, 0, 0);
    I64(&r, 1);
    expect_error(&r, 1, "entries");
    rig_begin(&r, "Slice", 13);
    COUNTING(&r, 2, 4);
    I64(&r, 0, 0);
    I64(&r, 1, 1);
    I64(&r, 1, -1);
    expect_error(&r, 1, "twice");
}

static void test_slice_by_attributes(void **state)
{
    struct rig r;

    (void)state;
    rig_begin(&r, "Slice", 9);
    set_attr(&r, "starts", "1,-2");
    set_attr(&r, "ends", "2,9223372036854775807");
    COUNTING(&r, 2, 4);
    expect_ok(&r, 1);
    EXPECT(&r, 0, 6, 7);
    rig_end(&r);
}

/* ---- Pad ------------------------------------------------------------------------- */

static void begin_pad(struct rig *r, const char *mode, int64_t size, int64_t before, int64_t after)
{
    rig_begin(r, "Pad", 19);
    set_attr(r, "mode", mode);
    COUNTING(r, size);
    I64(r, before, after);
}

static void test_pad_of_small_axes(void **state)
{
    struct rig r;

    (void)state;
    begin_pad(&r, "reflect", 1, 2, 3);
    expect_ok(&r, 1);
    EXPECT(&r, 0, 0, 0, 0, 0, 0, 0);
    rig_end(&r);
    begin_pad(&r, "reflect", 2, 3, 4);
    expect_ok(&r, 1);
    EXPECT(&r, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1);
    rig_end(&r);
    begin_pad(&r, "reflect", 3, 5, 3);
    expect_ok(&r, 1);
    EXPECT(&r, 0, 1, 0, 1, 2, 1, 0, 1, 2, 1, 0, 1);
    rig_end(&r);
    begin_pad(&r, "wrap", 3, 4, 4);
    expect_ok(&r, 1);
    EXPECT(&r, 0, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0);
    rig_end(&r);
    begin_pad(&r, "edge", 3, 2, -1);
    expect_ok(&r, 1);
    EXPECT(&r, 0, 0, 0, 0, 1);
    rig_end(&r);
    begin_pad(&r, "constant", 3, -2, 2);
    expect_ok(&r, 1);
    EXPECT(&r, 0, 2, 0, 0);
    rig_end(&r);
    begin_pad(&r, "constant", 2, -3, 5);
    expect_ok(&r, 1);
    EXPECT(&r, 0, 0, 0, 0, 0);
    rig_end(&r);
    begin_pad(&r, "constant", 2, -1, -1);
    expect_ok(&r, 1);
    assert_int_equal(pare_numel(&r.out[0]->t), 0);
    rig_end(&r);
}

static void test_pad_errors(void **state)
{
    struct rig r;

    (void)state;
    begin_pad(&r, "constant", 3, -2, -2);
    expect_error(&r, 1, "leave nothing");
    begin_pad(&r, "constant", 3, INT64_MIN, INT64_MAX);
    expect_error(&r, 1, "out of range");
    begin_pad(&r, "constant", 3, INT64_MAX / 8, INT64_MAX / 8);
    expect_error(&r, 1, "has more than 1099511627776 elements");
    begin_pad(&r, "reflect", 0, 1, 1);
    expect_error(&r, 1, "no element to pad with");
    begin_pad(&r, "wrap", 2, -3, 5);
    expect_error(&r, 1, "no element to pad with");
    rig_begin(&r, "Pad", 13);
    COUNTING(&r, 2, 2);
    I64(&r, 1, 1);
    expect_error(&r, 1, "2 pads are given for 2 axes");
    rig_begin(&r, "Pad", 18);
    COUNTING(&r, 2, 2);
    I64(&r, 1, 1);
    add_absent_input(&r);
    I64(&r, 5);
    expect_error(&r, 1, "axis 5 is outside");
}

/* ---- Transpose, Concat, empty tensors ---------------------------------------------- */

/* Transpose of a shape that is not a multiple of a tile, for elements of every size. */
static void test_transpose_of_all_element_sizes(void **state)
{
    static const enum pare_dtype types[] = { PARE_U8, PARE_F16, PARE_F32, PARE_I64, PARE_STR };
    const int64_t dim[3] = { 3, 37, 18 };
    struct rig r;

    (void)state;
    for (int k = 0; k < 5; k++) {
        size_t size = pare_dtype_size(types[k]);
        unsigned char *x, *y;
        int perm[3];

        rig_begin(&r, "Transpose", 13);
        set_attr(&r, "perm", "2,0,1");
        add_input(&r, types[k], 3, dim, NULL);
        x = r.in[0]->t.data;
        for (size_t i = 0; i < 3 * 37 * 18 * size; i++)
            x[i] = (unsigned char)(i * 31 + i / 251);
        expect_ok(&r, 1);
        y = r.out[0]->t.data;
        for (size_t a = 0; a < 18; a++)
            for (size_t b = 0; b < 3; b++)
                for (size_t c = 0; c < 37; c++)
                    assert_memory_equal(y + ((a * 3 + b) * 37 + c) * size,
                                        x + ((b * 37 + c) * 18 + a) * size, size);
        pare_transpose_perm(&r.node, perm);
        assert_int_equal(perm[0], 2);
        rig_end(&r);
    }
}

static void test_empty_tensors(void **state)
{
    struct rig r;

    (void)state;
    rig_begin(&r, "Transpose", 13);
    COUNTING(&r, 3, 0, 2);
    expect_ok(&r, 1);
    assert_int_equal(r.out[0]->t.dim[0], 2);
    rig_end(&r);
    rig_begin(&r, "Concat", 13);
    set_attr(&r, "axis", "-2");
    COUNTING(&r, 0, 2);
    COUNTING(&r, 1, 2);
    expect_ok(&r, 1);
    EXPECT(&r, 0, 0, 1);
    assert_int_equal(pare_concat_axis(&r.node), 0);
    rig_end(&r);
    rig_begin(&r, "Resize", 13);
    COUNTING(&r, 0, 2);
    add_absent_input(&r);
    F32(&r, 1, 2);
    expect_ok(&r, 1);
    assert_int_equal(r.out[0]->t.dim[1], 4);
    rig_end(&r);
    rig_begin(&r, "Unique", 11);
    COUNTING(&r, 0);
    expect_ok(&r, 4);
    assert_int_equal(r.out[3]->t.dim[0], 0);
    rig_end(&r);
}

static void test_concat_errors(void **state)
{
    struct rig r;

    (void)state;
    rig_begin(&r, "Concat", 13);
    set_attr(&r, "axis", "0");
    COUNTING(&r, 1);
    COUNTING(&r, 1);
    r.in[0]->t.dim[0] = r.in[1]->t.dim[0] = INT64_MAX - 1;
    expect_error(&r, 1, "does not fit");
    rig_begin(&r, "Concat", 13);
    set_attr(&r, "axis", "0");
    COUNTING(&r, 1, 2);
    COUNTING(&r, 1, 3);
    expect_error(&r, 1, "inputs (1, 2) and (1, 3) do not fit along axis 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slice_with_negative_steps),
        cmocka_unit_test(test_slice_clamps_its_range),
        cmocka_unit_test(test_slice_errors),
        cmocka_unit_test(test_slice_by_attributes),
        cmocka_unit_test(test_pad_of_small_axes),
        cmocka_unit_test(test_pad_errors),
        cmocka_unit_test(test_transpose_of_all_element_sizes),
        cmocka_unit_test(test_empty_tensors),
        cmocka_unit_test(test_concat_errors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

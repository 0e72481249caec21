/* test_grad_movement.c - gradients of operators that move elements, against finite differences. */
#include "grad.h"

/* ---- one input that has a gradient ------------------------------------------------------ */

/* Inputs after the first are "shape:elements" of int64; a leading f means float32 without a
 * gradient, a leading b bool.  "" is absent. */
struct row {
    const char *type;
    int version;
    const char *x, *in[4], *attr[8];
};

static void add_row_input(struct one_op *f, const char *text, struct grad_opts *o)
{
    enum pare_dtype d = *text == 'f' ? PARE_F32 : *text == 'b' ? PARE_BOOL : PARE_I64;
    char shape[64] = "";
    double v[64];
    const char *colon;
    int n = 0;

    if (!*text) {
        op_in_none(f);
        return;
    }
    text += d != PARE_I64;
    colon = strchr(text, ':');
    assert_non_null(colon);
    memcpy(shape, text, (size_t)(colon - text));
    for (const char *p = colon + 1; *p; p += *p == ',') {
        char *end;

        v[n++] = strtod(p, &end);
        p = end;
    }
    if (d == PARE_F32)
        o->skip |= 1u << f->node.n_in;
    op_in(f, d, shape, v);
}

static void check_rows(const struct row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct row *r = &rows[i];
        struct grad_opts o = { 0 };
        struct one_op f;

        op_begin(&f, r->type, r->version);
        for (int k = 0; k < 8 && r->attr[k]; k += 2)
            op_attr(&f, r->attr[k], r->attr[k + 1]);
        grad_in(&f, r->x, -1, 1);
        for (int k = 0; k < 4 && r->in[k]; k++)
            add_row_input(&f, r->in[k], &o);
        grad_check_with(&f, &o);
    }
}

#define CHECK_ROWS(rows) check_rows(rows, sizeof(rows) / sizeof(*(rows)))

static void test_gradients_of_reshapes(void **state)
{
    static const struct row rows[] = {
        { "Identity", 16, "2,3", { 0 }, { 0 } },
        { "Flatten", 13, "2,3,2", { 0 }, { "axis", "2" } },
        { "Squeeze", 13, "2,1,3", { "1:1" }, { 0 } },
        { "Squeeze", 11, "2,1,3", { 0 }, { "axes", "1" } },
        { "Unsqueeze", 13, "2,3", { "2:0,3" }, { 0 } },
        { "Reshape", 14, "2,3,2", { "2:4,-1" }, { 0 } },
        { "Reshape", 14, "1", { "0:" }, { 0 } },
        { "Flatten", 13, "2,0,3", { 0 }, { 0 } },
    };

    (void)state;
    CHECK_ROWS(rows);
}

static void test_gradients_of_transpose_slice_tile(void **state)
{
    static const struct row rows[] = {
        { "Transpose", 13, "2,3,4", { 0 }, { 0 } },
        { "Transpose", 13, "2,3,4", { 0 }, { "perm", "1,0,2" } },
        { "Transpose", 13, "2,3,4", { 0 }, { "perm", "0,2,1" } },
        { "Transpose", 13, "2,3,2,3", { 0 }, { "perm", "0,3,1,2" } },
        { "Transpose", 13, "18,2,17", { 0 }, { "perm", "2,1,0" } },
        { "Transpose", 13, "", { 0 }, { 0 } },
        { "Slice", 13, "5,6", { "2:1,0", "2:4,5" }, { 0 } },
        { "Slice", 13, "5,6", { "2:1,5", "2:100,-100", "2:0,1", "2:2,-2" }, { 0 } },
        { "Slice", 9, "5,6", { 0 }, { "starts", "2", "ends", "-1", "axes", "1" } },
        { "Slice", 13, "5,6", { "1:3", "1:3" }, { 0 } },
        { "Tile", 13, "2,3", { "2:2,3" }, { 0 } },
        { "Tile", 13, "2,1", { "2:1,4" }, { 0 } },
        { "Tile", 13, "2,3,2", { "3:2,1,2" }, { 0 } },
        { "Tile", 13, "2,3", { "2:0,3" }, { 0 } },
        { "Expand", 13, "3,1", { "3:2,3,4" }, { 0 } },
        { "Expand", 13, "1,3,1,2", { "4:2,3,2,2" }, { 0 } },
        { "Expand", 13, "", { "2:2,3" }, { 0 } },
        { "Expand", 13, "2,3", { "2:1,1" }, { 0 } },
        { "DepthToSpace", 13, "2,8,2,3", { 0 }, { "blocksize", "2" } },
        { "DepthToSpace", 13, "2,8,2,3", { 0 }, { "blocksize", "2", "mode", "CRD" } },
        { "SpaceToDepth", 13, "2,3,4,6", { 0 }, { "blocksize", "2" } },
        { "CenterCropPad", 18, "4,5", { "2:7,2" }, { 0 } },
        { "CenterCropPad", 18, "2,5,3", { "1:3" }, { "axes", "1" } },
        { "Trilu", 14, "2,3,4", { 0 }, { 0 } },
        { "Trilu", 14, "2,3,4", { ":1" }, { "upper", "1" } },
        { "Trilu", 14, "2,3,4", { ":-1" }, { "upper", "0" } },
        { "Trilu", 14, "4,3", { ":9" }, { "upper", "1" } },
    };

    (void)state;
    CHECK_ROWS(rows);
}

static void test_gradients_of_pad(void **state)
{
    static const struct row rows[] = {
        { "Pad", 13, "3,4", { "4:1,2,0,1" }, { 0 } },
        { "Pad", 13, "3,4", { "4:1,-1,2,1" }, { 0 } },
        { "Pad", 13, "3,4", { "4:-3,0,2,0" }, { 0 } },
        { "Pad", 10, "3,4", { 0 }, { "pads", "1,2,0,1", "value", "3" } },
        { "Pad", 18, "2,3,4", { "2:1,2", "", "1:2" }, { "mode", "edge" } },
        { "Pad", 13, "3,4", { "4:1,2,5,3" }, { "mode", "reflect" } },
        { "Pad", 13, "3,4", { "4:1,2,2,3" }, { "mode", "edge" } },
        { "Pad", 19, "3,4", { "4:1,5,4,3" }, { "mode", "wrap" } },
        { "Pad", 13, "3,4", { "4:-1,2,2,-2" }, { "mode", "reflect" } },
        { "Pad", 13, "3,4", { "4:0,0,0,0" }, { "mode", "edge" } },
    };
    struct one_op f;

    (void)state;
    CHECK_ROWS(rows);
    op_begin(&f, "Pad", 13); /* the constant has a gradient, too */
    grad_in(&f, "3,4", -1, 1);
    op_in(&f, PARE_I64, "4", LIST(1, -1, 2, 2));
    op_in(&f, PARE_F32, "", LIST(0.5));
    grad_check(&f);
}

static void test_gradients_of_gather(void **state)
{
    static const struct row rows[] = {
        { "Gather", 13, "4,3", { "2,3:0,2,-1,2,2,1" }, { 0 } },
        { "Gather", 13, "2,4,3", { "3:3,0,3" }, { "axis", "1" } },
        { "Gather", 13, "2,4", { ":-2" }, { "axis", "-1" } },
        { "Gather", 13, "4,3", { "0:" }, { 0 } },
        { "GatherElements", 13, "3,4", { "2,4:0,1,2,-1,1,1,0,2" }, { 0 } },
        { "GatherElements", 13, "3,4", { "2,3:0,3,3,1,-2,1" }, { "axis", "1" } },
        { "GatherND", 13, "3,4,2", { "3,2:0,1,2,-1,0,1" }, { 0 } },
        { "GatherND", 13, "3,4", { "3,2:0,1,2,3,2,3" }, { 0 } },
        { "GatherND", 13, "2,3,4", { "2,2,1:1,0,2,2" }, { "batch_dims", "1" } },
        { "Compress", 11, "3,4", { "b4:1,0,1,1" }, { "axis", "1" } },
        { "Compress", 11, "3,4", { "b2:0,1" }, { "axis", "0" } },
        { "Compress", 11, "3,4", { "b5:0,1,1,0,1" }, { 0 } },
        { "Compress", 11, "3,4", { "b2:0,0" }, { "axis", "0" } },
        { "ReverseSequence", 10, "4,3,2", { "3:4,2,1" }, { 0 } },
        { "ReverseSequence", 10, "3,4", { "3:3,0,4" }, { "batch_axis", "0", "time_axis", "1" } },
        { "Col2Im", 18, "2,8,6", { "2:3,4", "2:2,2" }, { 0 } },
        { "Col2Im",
          18,
          "1,4,9",
          { "2:5,6", "2:2,2" },
          { "strides", "2,1", "pads", "1,0,2,1", "dilations", "3,4" } },
    };

    (void)state;
    CHECK_ROWS(rows);
}

/* ---- resizing ---------------------------------------------------------------------------- */

static void test_gradients_of_resize(void **state)
{
    static const struct row rows[] = {
        { "Resize", 13, "1,2,3,4", { "", "f4:1,1,2,2" }, { "mode", "nearest" } },
        { "Resize", 13, "1,2,5,6", { "", "f4:1,1,0.6,0.5" }, { "mode", "nearest" } },
        { "Resize",
          13,
          "1,2,3,4",
          { "", "", "4:1,2,5,3" },
          { "mode", "nearest", "coordinate_transformation_mode", "asymmetric", "nearest_mode",
            "floor" } },
        { "Resize", 10, "1,1,3,4", { "f4:1,1,2,1.5" }, { "mode", "linear" } },
        { "Resize", 13, "1,2,3,4", { "", "f4:1,1,2,2" }, { "mode", "linear" } },
        { "Resize",
          13,
          "1,2,3,4",
          { "", "", "4:1,2,5,3" },
          { "mode", "linear", "coordinate_transformation_mode", "align_corners" } },
        { "Resize",
          13,
          "1,2,4,5",
          { "", "f4:1,1,0.5,1" },
          { "mode", "linear", "coordinate_transformation_mode", "pytorch_half_pixel" } },
        { "Resize", 13, "2,3", { "", "f2:2,3" }, { "mode", "linear" } },
        { "Resize", 13, "1,1,4,4", { "", "f4:1,1,2,1.5" }, { "mode", "cubic" } },
        { "Resize",
          13,
          "1,1,6,5",
          { "", "f4:1,1,0.5,1.6" },
          { "mode", "cubic", "exclude_outside", "1", "cubic_coeff_a", "-0.5" } },
        { "Resize",
          18,
          "1,1,6,7",
          { "", "f4:1,1,0.5,0.4" },
          { "mode", "linear", "antialias", "1" } },
        { "Resize",
          18,
          "1,1,6,7",
          { "", "f4:1,1,0.5,0.4" },
          { "mode", "cubic", "antialias", "1" } },
        { "Resize",
          13,
          "1,1,4,4",
          { "f8:0,0,0.4,-0.3,1,1,1.2,0.8", "", "4:1,1,3,5" },
          { "mode", "linear", "coordinate_transformation_mode", "tf_crop_and_resize",
            "extrapolation_value", "3" } },
        { "Resize",
          13,
          "1,1,4,4",
          { "f8:0,0,0.4,-0.3,1,1,1.2,0.8", "", "4:1,1,3,5" },
          { "mode", "nearest", "coordinate_transformation_mode", "tf_crop_and_resize",
            "extrapolation_value", "3" } },
        { "Resize", 13, "1,1,4,4", { "", "f4:1,1,1,1" }, { "mode", "linear" } },
        { "Resize", 13, "1,1,4,4", { "", "f4:1,1,1,1" }, { "mode", "nearest" } },
        { "Upsample", 9, "1,2,3,4", { "f4:1,1,2,3" }, { "mode", "nearest" } },
        { "Upsample", 9, "1,2,3,4", { "f4:1,1,2,3" }, { "mode", "linear" } },
        { "Upsample", 7, "1,2,3,4", { 0 }, { "mode", "linear", "scales", "1,1,2,2" } },
    };

    (void)state;
    CHECK_ROWS(rows);
}

/* ---- several inputs or outputs ------------------------------------------------------------ */

static void test_gradients_of_concat(void **state)
{
    struct one_op f;

    (void)state;
    for (int axis = 0; axis < 2; axis++) {
        op_begin(&f, "Concat", 13);
        op_attr(&f, "axis", axis ? "-1" : "0");
        grad_in(&f, axis ? "3,2" : "2,4", -1, 1);
        grad_in(&f, axis ? "3,0" : "0,4", -1, 1);
        grad_in(&f, axis ? "3,4" : "1,4", -1, 1);
        grad_check(&f);
    }
    op_begin(&f, "Concat", 13); /* one value twice */
    op_attr(&f, "axis", "1");
    grad_in(&f, "3,2", -1, 1);
    grad_in(&f, "3,1", -1, 1);
    f.in[2] = f.in[0];
    f.node.n_in = 3;
    grad_check(&f);
}

static void test_gradients_of_split(void **state)
{
    const struct grad_opts without_middle = { .skip_out = 2 };
    struct one_op f;

    (void)state;
    op_begin(&f, "Split", 18);
    op_attr(&f, "num_outputs", "3");
    f.node.n_out = 3;
    grad_in(&f, "5,2", -1, 1);
    grad_check(&f);
    op_begin(&f, "Split", 13);
    op_attr(&f, "axis", "1");
    f.node.n_out = 3;
    grad_in(&f, "2,6", -1, 1);
    op_in(&f, PARE_I64, "3", LIST(1, 3, 2));
    grad_check_with(&f, &without_middle);
}

/* With reduction 'none', only the last update of an element has a gradient. */
static void test_gradients_of_scatter(void **state)
{
    static const char *const reductions[] = { "none", "add" };
    static const char *const types[] = { "ScatterElements", "Scatter" };
    struct one_op f;

    (void)state;
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < 2; k++) {
            op_begin(&f, types[k], 18);
            op_attr(&f, "axis", k ? "1" : "0");
            op_attr(&f, "reduction", reductions[i]);
            grad_in(&f, "3,4", -1, 1);
            op_in(&f, PARE_I64, "2,4",
                  k ? LIST(0, 3, 0, -2, 1, 1, 1, 1) : LIST(0, 1, 2, -1, 0, 2, 2, 1));
            grad_in(&f, "2,4", -1, 1);
            grad_check(&f);
        }
        op_begin(&f, "ScatterND", 18);
        op_attr(&f, "reduction", reductions[i]);
        grad_in(&f, "4,3", -1, 1);
        op_in(&f, PARE_I64, "3,1", LIST(1, -1, 1));
        grad_in(&f, "3,3", -1, 1);
        grad_check(&f);
        op_begin(&f, "ScatterND", 18);
        op_attr(&f, "reduction", reductions[i]);
        grad_in(&f, "2,3", -1, 1);
        op_in(&f, PARE_I64, "2,2,2", LIST(0, 1, 1, 2, 0, 1, 1, -3));
        grad_in(&f, "2,2", -1, 1);
        grad_check(&f);
        op_begin(&f, "ScatterND", 18); /* no updates at all */
        op_attr(&f, "reduction", reductions[i]);
        grad_in(&f, "2,3", -1, 1);
        op_in(&f, PARE_I64, "0,1", NULL);
        grad_in(&f, "0,3", -1, 1);
        grad_check(&f);
    }
}

static void test_other_reductions_of_scatter_have_no_gradient(void **state)
{
    static const char *const types[] = { "ScatterElements", "ScatterND" };

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct pare_ctx c = { 0 };
        struct grad_run g;
        struct one_op f;

        op_begin(&f, types[i], 18);
        op_attr(&f, "reduction", "mul");
        grad_in(&f, "2,2", -1, 1);
        op_in(&f, PARE_I64, "1,2", LIST(0, 1));
        grad_in(&f, i ? "1" : "1,2", -1, 1);
        grad_begin(&g, &f, NULL);
        c.scratch = f.scratch;
        assert_int_equal(f.node.op->backward(&f.node, &c, &f.err), PARE_EUNSUPPORTED);
        assert_string_equal(f.err.msg, "the gradient of reduction 'mul' is not supported, only of "
                                       "'none' and 'add'");
        op_end(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients_of_reshapes),
        cmocka_unit_test(test_gradients_of_transpose_slice_tile),
        cmocka_unit_test(test_gradients_of_pad),
        cmocka_unit_test(test_gradients_of_gather),
        cmocka_unit_test(test_gradients_of_resize),
        cmocka_unit_test(test_gradients_of_concat),
        cmocka_unit_test(test_gradients_of_split),
        cmocka_unit_test(test_gradients_of_scatter),
        cmocka_unit_test(test_other_reductions_of_scatter_have_no_gradient),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_conv.c - convolutions, pools and their geometry, against known values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/options.h"
#include "graph/graph.h"
#include "graph/ties.h"
#include "op/nn/norm.h"
#include "op/op.h"
#include "op/nn/window.h"

/* One node with its values: inputs from add_input(), attributes as text, then run_node(). */
struct fixture {
    struct pare_arena *arena, *scratch;
    struct pare_node node;
    struct pare_value value[10], *in[6], *out[4];
    struct pare_setting set[8];
    int n_set;
    struct pare_err err;
};

static void node_begin(struct fixture *f, const char *type, int version)
{
    memset(f, 0, sizeof(*f));
    f->arena = pare_arena_new(1 << 12);
    f->scratch = pare_arena_new(1 << 12);
    assert_true(f->arena && f->scratch);
    f->node.op = pare_find_op("", type);
    assert_non_null(f->node.op);
    f->node.name = f->node.domain = "";
    f->node.type = type;
    f->node.version = version;
    f->node.in = f->in;
    f->node.out = f->out;
    for (int i = 0; i < 10; i++)
        f->value[i].name = "v";
}

static void node_end(struct fixture *f)
{
    pare_arena_free(f->arena);
    pare_arena_free(f->scratch);
}

static void set_attr(struct fixture *f, const char *name, const char *text)
{
    const struct pare_opt *o = pare_opt_find(f->node.op->attrs, name);

    assert_non_null(o);
    assert_int_equal(pare_opt_parse(o, text, &f->set[f->n_set++], f->arena, &f->err), 0);
}

/* An input of this shape, ended by -1, that counts 0, 1, 2, ... times step. */
static float *add_input(struct fixture *f, double step, ...)
{
    struct pare_value *v = &f->value[f->node.n_in];
    int64_t dim[PARE_MAX_RANK];
    int rank = 0;
    va_list ap;

    va_start(ap, step);
    for (int d = va_arg(ap, int); d >= 0; d = va_arg(ap, int))
        dim[rank++] = d;
    va_end(ap);
    assert_int_equal(pare_tensor_new(f->arena, &v->t, PARE_F32, rank, dim, &f->err), 0);
    for (int64_t i = 0; i < pare_numel(&v->t); i++)
        pare_f32_mut(&v->t)[i] = (float)((double)i * step);
    f->in[f->node.n_in++] = v;
    return pare_f32_mut(&v->t);
}

static int run_node(struct fixture *f, int n_out)
{
    struct pare_ctx c = { .scratch = f->scratch, .results = f->arena, .threads = 1 };
    void *a = pare_alloc(f->arena, 1, f->node.op->attr_size);
    int rc;

    assert_non_null(a);
    rc = pare_opts_apply(f->node.op->attrs, f->set, f->n_set, a, f->arena, &f->err);
    f->node.attr = a;
    f->node.n_out = n_out;
    for (int i = 0; i < n_out; i++)
        f->out[i] = &f->value[6 + i];
    return rc ? rc : pare_node_eval(&f->node, &c, &f->err);
}

static void expect_output(struct fixture *f, const char *shape, const float *want)
{
    const struct pare_tensor *y = &f->out[0]->t;
    char buf[PARE_SHAPE_TEXT];

    assert_string_equal(pare_shape_text(y, buf, sizeof(buf)), shape);
    for (int64_t i = 0; i < pare_numel(y); i++)
        assert_float_equal(pare_f32(y)[i], want[i], 1e-4);
}

static void expect_error(struct fixture *f, const char *text)
{
    assert_int_not_equal(run_node(f, 1), 0);
    assert_string_equal(f->err.msg, text);
    node_end(f);
}

/* Computed by hand: two convolution groups, each with its own 1x1 kernel, and a bias. */
static void test_grouped_conv(void **state)
{
    const float want[] = { 0, 2, 4, 6, 25, 30, 35, 40 };
    struct fixture f;
    float *w, *b;

    (void)state;
    node_begin(&f, "Conv", 11);
    add_input(&f, 1, 1, 2, 2, 2, -1);
    w = add_input(&f, 1, 2, 1, 1, 1, -1);
    w[0] = 2;
    w[1] = 5;
    b = add_input(&f, 1, 2, -1);
    b[1] = 5;
    set_attr(&f, "group", "2");
    assert_int_equal(run_node(&f, 1), 0);
    expect_output(&f, "(1, 2, 2, 2)", want);
    assert_true(f.node.op->macs(&f.node) == 8);
    node_end(&f);
}

/* Computed by hand: dilation 2, stride 2, one zero before and two after. */
static void test_dilated_conv_1d(void **state)
{
    /* x = 0 1 2 3 4 5, w = 0 1 2; output o reads 2o - 1, 2o + 1, 2o + 3 */
    const float want[] = { 1 + 2 * 3, 3 + 2 * 5, 5 };
    struct fixture f;

    (void)state;
    node_begin(&f, "Conv", 11);
    add_input(&f, 1, 1, 1, 6, -1);
    add_input(&f, 1, 1, 1, 3, -1);
    set_attr(&f, "dilations", "2");
    set_attr(&f, "strides", "2");
    set_attr(&f, "pads", "1,2");
    assert_int_equal(run_node(&f, 1), 0);
    expect_output(&f, "(1, 1, 3)", want);
    node_end(&f);
}

/* Computed by torch 1.13: conv2d of arange(30) * 0.5 as (1, 2, 3, 5), padded (left 0, right 2, top
 * 1, bottom 0), with arange(24) * 0.1 as (2, 2, 2, 3), stride (1, 2), and arange(2) as bias. */
static void test_asymmetric_padding(void **state)
{
    static const float want[] = {
        24.8f, 29,    9.15f,  52.45f,  59.05f,  17.85f, 68.95f,  75.55f,  22.35f,
        56.4f, 67.8f, 23.95f, 132.65f, 153.65f, 52.45f, 185.15f, 206.15f, 68.95f,
    };
    struct fixture f;

    (void)state;
    node_begin(&f, "Conv", 11);
    add_input(&f, 0.5, 1, 2, 3, 5, -1);
    add_input(&f, 0.1, 2, 2, 2, 3, -1);
    add_input(&f, 1, 2, -1);
    set_attr(&f, "strides", "1,2");
    set_attr(&f, "pads", "1,0,0,2");
    assert_int_equal(run_node(&f, 1), 0);
    expect_output(&f, "(1, 2, 3, 3)", want);
    node_end(&f);
}

/* Computed by torch 1.13: conv3d of arange(24) as (1, 1, 2, 3, 4) with arange(8) as (1, 1, 2, 2,
 * 2), padding (1, 0, 1), stride (1, 1, 2). */
static void test_conv_3d(void **state)
{
    static const float want[] = {
        28, 86, 54, 76, 174, 94, 184, 380, 188, 248, 492, 236, 60, 102, 38, 76, 126, 46,
    };
    struct fixture f;

    (void)state;
    node_begin(&f, "Conv", 11);
    add_input(&f, 1, 1, 1, 2, 3, 4, -1);
    add_input(&f, 1, 1, 1, 2, 2, 2, -1);
    set_attr(&f, "strides", "1,1,2");
    set_attr(&f, "pads", "1,0,1,1,0,1");
    assert_int_equal(run_node(&f, 1), 0);
    expect_output(&f, "(1, 1, 3, 2, 3)", want);
    node_end(&f);
}

/* SAME_UPPER puts the odd zero at the end, SAME_LOWER at the start. */
static void test_auto_pad_same(void **state)
{
    const float upper[] = { 1, 3, 5, 3 }, lower[] = { 0, 1, 3, 5 };

    (void)state;
    for (int k = 0; k < 2; k++) {
        struct fixture f;
        float *w;

        node_begin(&f, "Conv", 11);
        add_input(&f, 1, 1, 1, 4, -1);
        w = add_input(&f, 1, 1, 1, 2, -1);
        w[0] = w[1] = 1;
        set_attr(&f, "auto_pad", k ? "SAME_LOWER" : "SAME_UPPER");
        assert_int_equal(run_node(&f, 1), 0);
        expect_output(&f, "(1, 1, 4)", k ? lower : upper);
        node_end(&f);
    }
}

/* Computed by torch 1.13: conv_transpose2d of arange(8) as (1, 2, 2, 2) with arange(18) * 0.1 as
 * (2, 1, 3, 3), stride 2, padding 1, output_padding 1, 2 groups. */
static void test_conv_transpose(void **state)
{
    static const float want[] = {
        0,    0.3f,  0.4f, 0.5f,  0.2f, 1,    1,     1.4f,  0.8f,  1.9f,  1.2f,
        1.5f, 1.4f,  3.4f, 2.1f,  2.4f, 5.2f, 11.6f, 6.5f,  7,     12.4f, 27.2f,
        15,   16.2f, 7.8f, 16.8f, 9.1f, 9.8f, 9.6f,  20.7f, 11.2f, 11.9f,
    };
    struct fixture f;

    (void)state;
    node_begin(&f, "ConvTranspose", 11);
    add_input(&f, 1, 1, 2, 2, 2, -1);
    add_input(&f, 0.1, 2, 1, 3, 3, -1);
    set_attr(&f, "strides", "2,2");
    set_attr(&f, "pads", "1,1,1,1");
    set_attr(&f, "output_padding", "1,1");
    set_attr(&f, "group", "2");
    assert_int_equal(run_node(&f, 1), 0);
    expect_output(&f, "(1, 2, 4, 4)", want);
    assert_true(f.node.op->macs(&f.node) == 8 * 9);
    node_end(&f);
}

/* Computed by hand: ceil_mode adds windows at the ends.  X counts, so Indices are the values; by
 * columns they are r + 4 * c. */
static void test_max_pool_with_indices(void **state)
{
    const float want[] = { 7, 8, 10, 11, 19, 20, 22, 23 };
    const int64_t columns[] = { 6, 10, 7, 11, 18, 22, 19, 23 };

    (void)state;
    for (int k = 0; k < 2; k++) {
        struct fixture f;

        node_begin(&f, "MaxPool", 12);
        add_input(&f, 1, 1, 2, 4, 3, -1);
        set_attr(&f, "kernel_shape", "3,2");
        set_attr(&f, "strides", "2,2");
        set_attr(&f, "ceil_mode", "1");
        set_attr(&f, "storage_order", k ? "1" : "0");
        assert_int_equal(run_node(&f, 2), 0);
        expect_output(&f, "(1, 2, 2, 2)", want);
        for (int i = 0; i < 8; i++)
            assert_true(pare_i64(&f.out[1]->t)[i] == (k ? columns[i] : (int64_t)want[i]));
        node_end(&f);
    }
}

/* Computed by hand: padding counts as zeros, what ceil_mode adds beyond it does not. */
static void test_average_pool_padding(void **state)
{
    const float with[] = { 1.0f / 3, 2, 1.5f }, without[] = { 0.5f, 2, 3 };

    (void)state;
    for (int k = 0; k < 2; k++) {
        struct fixture f;

        node_begin(&f, "AveragePool", 11);
        add_input(&f, 1, 1, 1, 4, -1);
        set_attr(&f, "kernel_shape", "3");
        set_attr(&f, "strides", "2");
        set_attr(&f, "pads", "1,1");
        set_attr(&f, "ceil_mode", "1");
        set_attr(&f, "count_include_pad", k ? "1" : "0");
        assert_int_equal(run_node(&f, 1), 0);
        expect_output(&f, "(1, 1, 3)", k ? with : without);
        assert_true(pare_pool_counts_pad(&f.node) == (k == 1));
        node_end(&f);
    }
}

/* ceil_mode adds no window that would read only the padding after the input. */
static void test_no_window_in_padding(void **state)
{
    struct pare_window w;
    struct fixture f;

    (void)state;
    node_begin(&f, "MaxPool", 12);
    add_input(&f, 1, 1, 1, 2, 2, -1);
    set_attr(&f, "kernel_shape", "3,3");
    set_attr(&f, "strides", "3,3");
    set_attr(&f, "pads", "1,1,1,1");
    set_attr(&f, "ceil_mode", "1");
    assert_int_equal(run_node(&f, 1), 0);
    assert_int_equal(pare_pool_window(&f.node, &w, &f.err), 0);
    assert_int_equal(w.nd, 2);
    assert_true(w.out[0] == 1 && w.out[1] == 1 && w.in[0] == 2 && w.pad_end[1] == 1);
    node_end(&f);
}

/* Computed by hand: ONNX's formula rounds (2 - 3) / 2 toward 0, so the window has one position.  A
 * mean over padding that does not exist is not defined, and neither is a convolution. */
static void test_pooling_windows_larger_than_the_input(void **state)
{
    static const char *const type[] = { "MaxPool", "AveragePool", "LpPool" };
    const float want[] = { 1, 0.5f, 1 };
    struct fixture f;

    (void)state;
    for (int i = 0; i < 3; i++) {
        node_begin(&f, type[i], 11);
        add_input(&f, 1, 1, 1, 2, -1); /* 0, 1 */
        set_attr(&f, "kernel_shape", "3");
        set_attr(&f, "strides", "2");
        assert_int_equal(run_node(&f, 1), 0);
        expect_output(&f, "(1, 1, 1)", &want[i]);
        node_end(&f);
    }
    node_begin(&f, "MaxPool", 11);
    add_input(&f, 1, 1, 1, 1, -1);
    set_attr(&f, "kernel_shape", "3");
    set_attr(&f, "strides", "2");
    expect_error(&f, "the window spans 3 along spatial axis 0 but the input has only 1 with its "
                     "padding");
    node_begin(&f, "AveragePool", 11);
    add_input(&f, 1, 1, 1, 2, -1);
    set_attr(&f, "kernel_shape", "3");
    set_attr(&f, "strides", "2");
    set_attr(&f, "count_include_pad", "1");
    expect_error(&f, "the window spans 3 along spatial axis 0 but the input has only 2 with its "
                     "padding");
}

static void test_wrong_shape_errors(void **state)
{
    struct fixture f;

    (void)state;
    node_begin(&f, "Conv", 11);
    add_input(&f, 1, 1, 4, 5, 5, -1);
    add_input(&f, 1, 8, 3, 3, 3, -1);
    expect_error(&f, "X is (1, 4, 5, 5) but W has 3 input channels in 1 group");

    node_begin(&f, "Conv", 11);
    add_input(&f, 1, 1, 4, 5, 5, -1);
    add_input(&f, 1, 3, 2, 3, 3, -1);
    set_attr(&f, "group", "2");
    expect_error(&f, "W has 3 output channels, which are not divisible into 2 groups");

    node_begin(&f, "Conv", 11);
    add_input(&f, 1, 1, 1, 2, 9, -1);
    add_input(&f, 1, 1, 1, 3, 3, -1);
    expect_error(&f, "the window spans 3 along spatial axis 0 but the input has only 2 with its "
                     "padding");

    node_begin(&f, "Conv", 11);
    add_input(&f, 1, 1, 1, 5, 5, -1);
    add_input(&f, 1, 2, 1, 3, 3, -1);
    add_input(&f, 1, 3, -1);
    expect_error(&f, "B is (3) but W has 2 output channels");

    node_begin(&f, "Conv", 11);
    add_input(&f, 1, 1, 1, 5, 5, -1);
    add_input(&f, 1, 1, 1, 3, 3, -1);
    set_attr(&f, "pads", "1,1");
    expect_error(&f, "pads has 2 numbers for 2 spatial axes, expected 4");

    node_begin(&f, "MaxPool", 12);
    add_input(&f, 1, 1, 1, 5, -1);
    set_attr(&f, "kernel_shape", "2");
    set_attr(&f, "pads", "0,2");
    expect_error(&f, "padding of 2 along spatial axis 0, which must be less than the window's 2");

    node_begin(&f, "BatchNormalization", 15);
    add_input(&f, 1, 1, 3, 2, -1);
    for (int i = 0; i < 4; i++)
        add_input(&f, 1, i == 2 ? 2 : 3, -1);
    expect_error(&f, "X is (1, 3, 2) but mean is (2), expected (3)");
}

/* Sizes near the limits are refused, not wrapped around. */
static void test_huge_sizes_are_refused(void **state)
{
    struct fixture f;

    (void)state;
    node_begin(&f, "MaxPool", 12);
    add_input(&f, 1, 0, 1, 1, 1, 1, -1);
    f.value[0].t.dim[2] = f.value[0].t.dim[3] = f.value[0].t.dim[4] = (int64_t)1 << 40;
    set_attr(&f, "kernel_shape", "2147483647,2147483647,2147483647");
    set_attr(&f, "dilations", "2147483647,2147483647,2147483647");
    set_attr(&f, "auto_pad", "SAME_UPPER");
    expect_error(&f, "X has a plane of more elements than memory can hold");

    node_begin(&f, "AveragePool", 19);
    add_input(&f, 1, 1, 1, 2, 2, -1);
    set_attr(&f, "kernel_shape", "2147483647,2147483647");
    set_attr(&f, "dilations", "2147483647,2147483647");
    set_attr(&f, "auto_pad", "SAME_UPPER");
    set_attr(&f, "count_include_pad", "1");
    assert_int_equal(run_node(&f, 1), 0);
    node_end(&f);
}

/* Computed by hand: one channel with mean 1 and variance 1; running moments move by a tenth. */
static void test_batch_norm_in_training(void **state)
{
    const float want[] = { 5 - 2, 5 + 2 };
    struct fixture f;

    (void)state;
    node_begin(&f, "BatchNormalization", 15);
    add_input(&f, 2, 2, 1, -1);
    add_input(&f, 0, 1, -1)[0] = 2;
    add_input(&f, 0, 1, -1)[0] = 5;
    add_input(&f, 0, 1, -1)[0] = 10;
    add_input(&f, 0, 1, -1)[0] = 20;
    set_attr(&f, "training_mode", "1");
    set_attr(&f, "epsilon", "0");
    assert_int_equal(run_node(&f, 3), 0);
    expect_output(&f, "(2, 1)", want);
    assert_float_equal(pare_f32(&f.out[1]->t)[0], 9.1f, 1e-5);
    assert_float_equal(pare_f32(&f.out[2]->t)[0], 18.1f, 1e-5);
    assert_true(pare_bn_trains(&f.node) && pare_bn_epsilon(&f.node) == 0);
    node_end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grouped_conv),
        cmocka_unit_test(test_dilated_conv_1d),
        cmocka_unit_test(test_asymmetric_padding),
        cmocka_unit_test(test_conv_3d),
        cmocka_unit_test(test_auto_pad_same),
        cmocka_unit_test(test_conv_transpose),
        cmocka_unit_test(test_max_pool_with_indices),
        cmocka_unit_test(test_average_pool_padding),
        cmocka_unit_test(test_no_window_in_padding),
        cmocka_unit_test(test_pooling_windows_larger_than_the_input),
        cmocka_unit_test(test_wrong_shape_errors),
        cmocka_unit_test(test_huge_sizes_are_refused),
        cmocka_unit_test(test_batch_norm_in_training),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

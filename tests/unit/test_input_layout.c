/* test_input_layout.c - layout of image inputs, NCHW or NHWC, inferred from the graph. */
#include "make_model.h"

/* The layout of an input of this shape, followed by the nodes of `first`: M Mul by a constant,
 * T Transpose to channels second, C convolution, R ReduceMean over all axes. */
static enum pare_layout inferred_layout(const int64_t *dim, const char *first)
{
    static float w[64];
    struct build b = { .opset = 13 };
    const char *x = build_input(&b, PARE_F32, 4, dim);
    struct pare_model *m;
    enum pare_layout l;

    for (; *first; first++)
        switch (*first) {
        case 'M':
            x = build_node(&b, "Mul", NAMES(x, build_floats(&b, 1, (int64_t[]){ 1 }, w)), NOTHING);
            break;
        case 'T':
            x = build_node(&b, "Transpose", NAMES(x),
                           at_ints("perm", 4, (int64_t[]){ 0, 3, 1, 2 }));
            break;
        case 'C':
            x = build_node(&b, "Conv",
                           NAMES(x, build_floats(&b, 4, (int64_t[]){ 1, dim[1], 1, 1 }, w)),
                           NOTHING);
            break;
        default: x = build_node(&b, "ReduceMean", NAMES(x), NOTHING);
        }
    build_output(&b, x);
    m = build_model(&b);
    l = m->in[0].layout;
    pare_model_free(m);
    return l;
}

static void test_image_input_layout(void **state)
{
    (void)state;
    assert_int_equal(inferred_layout((int64_t[]){ 1, 8, 8, 16 }, "T"), PARE_NHWC);
    assert_int_equal(inferred_layout((int64_t[]){ 1, -1, -1, -1 }, "MMT"), PARE_NHWC);
    assert_int_equal(inferred_layout((int64_t[]){ 1, 16, 8, 3 }, "MC"), PARE_NCHW);
    assert_int_equal(inferred_layout((int64_t[]){ 1, 8, 8, 3 }, "R"), PARE_NHWC);
    assert_int_equal(inferred_layout((int64_t[]){ 1, 3, 8, 8 }, "R"), PARE_NCHW);
    assert_int_equal(inferred_layout((int64_t[]){ 1, 8, 8, 8 }, "R"), PARE_LAYOUT_UNKNOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_image_input_layout) };

    return cmocka_run_group_tests(tests, make_pool, drop_pool);
}

/* test_grad_nn.c - gradients of convolutions, pools, normalizations and Dropout. */
#include "grad.h"

/* Attributes as "pads=1,1;group=2". */
static void set_attrs(struct one_op *f, const char *list)
{
    while (list && *list) {
        size_t len = strcspn(list, ";"), name = strcspn(list, "=");

        op_attr(f, pare_strndup(f->arena, list, name),
                pare_strndup(f->arena, list + name + 1, len - name - 1));
        list += len + (list[len] == ';');
    }
}

/* ---- convolutions -------------------------------------------------------------------- */

struct conv_case {
    const char *x, *w, *b, *attrs; /* b NULL: no bias */
};

static void check_convs(const char *type, const struct conv_case *c, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct one_op f;

        op_begin(&f, type, 13);
        set_attrs(&f, c[i].attrs);
        grad_in(&f, c[i].x, -1, 1);
        grad_in(&f, c[i].w, -1, 1);
        if (c[i].b)
            grad_in(&f, c[i].b, -1, 1);
        grad_check(&f);
    }
}
#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static void test_gradients_of_conv(void **state)
{
    static const struct conv_case c[] = {
        { "2,3,7", "4,3,3", "4", NULL },
        { "1,2,9", "3,2,3", NULL, "dilations=2;pads=1,3;strides=2" },
        { "2,2,5,6", "3,2,3,2", "3", "pads=1,0,2,1" },
        { "1,4,6,7", "4,2,3,3", "4", "group=2;dilations=2,1;pads=2,1,2,1" },
        { "2,3,5,5", "6,1,3,3", "6", "group=3;strides=2,2;pads=1,1,1,1" }, /* depthwise */
        { "2,3,4,5", "2,3,1,1", "2", NULL },                               /* pointwise */
        { "2,3,5,5", "2,3,1,1", NULL, "strides=2,2" },
        { "1,1,2,2", "1,1,3,3", "1", "pads=3,3,3,3" }, /* taps that read only padding */
        { "1,2,5,5", "2,2,2,2", "2", "strides=4,3" },  /* inputs that no tap reads */
        { "1,2,5,4", "2,2,3,2", "2", "auto_pad=SAME_LOWER;strides=2,2" },
        { "1,2,3,4,3", "2,2,2,3,2", "2", "pads=1,1,0,0,1,1;strides=1,2,1;dilations=2,1,1" },
        { "0,2,4,4", "3,2,3,3", "3", NULL },
        { "1,0,4,4", "3,0,3,3", "3", NULL },
    };

    (void)state;
    check_convs("Conv", c, COUNT(c));
}

static void test_gradients_of_conv_transpose(void **state)
{
    static const struct conv_case c[] = {
        { "2,3,5", "3,4,3", "4", NULL },
        { "1,2,4", "2,3,3", NULL, "dilations=2;pads=1,2;strides=3;output_padding=1" },
        { "2,2,3,4", "2,3,3,2", "3", "strides=2,1;pads=1,0,0,1" },
        { "1,4,3,3", "4,2,3,3", "4", "group=2;strides=2,2;dilations=1,2" },
        { "1,3,4,3", "3,1,2,2", "3", "group=3" },
        { "2,3,4,5", "3,2,1,1", "2", NULL },
        { "1,2,3,3", "2,2,3,3", "2", "strides=2,2;output_shape=9,6" },
        { "1,1,3,3", "1,2,3,3", NULL, "auto_pad=SAME_UPPER;strides=2,2" },
        { "1,2,2,3,2", "2,2,2,2,3", "2", "strides=2,1,2;pads=0,1,1,1,0,1" },
        { "0,2,4,4", "2,3,3,3", "3", NULL },
    };

    (void)state;
    check_convs("ConvTranspose", c, COUNT(c));
}

/* X is its own filter: both gradients are added to the same tensor. */
static void test_gradients_of_conv_with_itself(void **state)
{
    struct one_op f;

    (void)state;
    op_begin(&f, "Conv", 13);
    set_attrs(&f, "pads=1,1,1,1");
    grad_in(&f, "2,2,3,3", -1, 1);
    f.in[1] = f.in[0];
    f.node.n_in = 2;
    grad_check(&f);
}

/* ---- pools ------------------------------------------------------------------------------ */

struct one_case {
    const char *type;
    int version;
    const char *x, *attrs;
};

/* Operators of one input, whose elements differ by at least 0.1. */
static void check_one_input(const struct one_case *c, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct one_op f;

        op_begin(&f, c[i].type, c[i].version);
        set_attrs(&f, c[i].attrs);
        grad_in_distinct(&f, c[i].x, 0.1);
        grad_check(&f);
    }
}

static void test_gradients_of_pools(void **state)
{
    static const struct one_case c[] = {
        { "MaxPool", 12, "2,2,9", "kernel_shape=3" },
        { "MaxPool", 12, "1,2,5,6", "kernel_shape=3,2;strides=2,1;pads=1,0,1,1" },
        { "MaxPool", 12, "1,2,6,7", "kernel_shape=2,3;strides=3,2;dilations=2,1;ceil_mode=1" },
        { "MaxPool", 12, "1,1,4,3,4", "kernel_shape=2,2,2;strides=2,1,2" },
        { "MaxPool", 12, "0,1,4,4", "kernel_shape=2,2" },
        { "AveragePool", 19, "2,2,9", "kernel_shape=3" },
        { "AveragePool", 19, "1,2,5,6", "kernel_shape=3,2;strides=2,1;pads=1,0,1,1" },
        { "AveragePool", 19, "1,2,6,5",
          "kernel_shape=3,3;strides=2,2;pads=1,1,1,1;count_include_pad=1;ceil_mode=1" },
        { "AveragePool", 19, "1,1,4,4,3", "kernel_shape=2,2,2;dilations=2,1,1" },
        { "LpPool", 18, "2,2,9", "kernel_shape=3;p=1" },
        { "LpPool", 18, "1,2,5,6", "kernel_shape=3,2;strides=2,1;pads=1,0,1,1" },
        { "LpPool", 18, "1,1,3,4,3", "kernel_shape=2,2,2;p=3" },
        { "GlobalMaxPool", 13, "2,3,4,2", NULL },
        { "GlobalAveragePool", 13, "2,3,4,2", NULL },
        { "GlobalAveragePool", 13, "2,3,0,2", NULL },
        { "GlobalLpPool", 13, "2,3,4", "p=1" },
        { "GlobalLpPool", 13, "2,3,2,2", NULL },
        { "GlobalLpPool", 13, "2,2,2,2,1", "p=3" },
    };

    (void)state;
    check_one_input(c, COUNT(c));
}

/* Indices are an output without a gradient. */
static void test_gradients_of_max_pool_with_indices(void **state)
{
    struct one_op f;

    (void)state;
    op_begin(&f, "MaxPool", 12);
    set_attrs(&f, "kernel_shape=2,2;strides=2,2");
    f.node.n_out = 2;
    grad_in_distinct(&f, "1,2,4,4", 0.1);
    grad_check(&f);
}

static void test_gradients_of_max_unpool(void **state)
{
    struct one_op f;

    (void)state;
    op_begin(&f, "MaxUnpool", 11);
    set_attrs(&f, "kernel_shape=2,2;strides=2,2");
    grad_in(&f, "1,1,2,2", -1, 1);
    op_in(&f, PARE_I64, "1,1,2,2", LIST(1, 7, 9, 7)); /* two have the same index */
    grad_check(&f);
}

/* Runs f with the output gradient 1, 2, ...; the gradient of input 0 must be `want`. */
static void expect_grad(struct one_op *f, const double *want)
{
    struct grad_run g;

    grad_begin(&g, f, NULL);
    for (int64_t i = 0; i < pare_numel(&f->out[0]->t); i++)
        pare_f32_mut(&f->out[0]->grad)[i] = (float)(i + 1);
    grad_backward(&g);
    for (int64_t i = 0; i < pare_numel(&f->in[0]->t); i++)
        assert_true((double)pare_f32(&f->in[0]->grad)[i] == want[i]);
    op_end(f);
}

/* Of several equal maxima, the first in the window gets the gradient. */
static void test_first_maximum_gets_the_gradient(void **state)
{
    struct one_op f;

    (void)state;
    op_begin(&f, "MaxPool", 12);
    set_attrs(&f, "kernel_shape=3;strides=2");
    op_in(&f, PARE_F32, "1,1,7", LIST(1, 1, 1, 0, 2, 2, -1));
    expect_grad(&f, LIST(1, 0, 0, 0, 2 + 3, 0, 0));
    op_begin(&f, "GlobalMaxPool", 13);
    op_in(&f, PARE_F32, "1,2,3", LIST(0, 5, 5, -INFINITY, -INFINITY, -INFINITY));
    expect_grad(&f, LIST(0, 1, 0, 2, 0, 0));
}

/* The gradient of the norm of zeros is 0. */
static void test_gradients_of_norms_of_zero(void **state)
{
    struct one_op f;

    (void)state;
    op_begin(&f, "GlobalLpPool", 13);
    op_in(&f, PARE_F32, "1,1,3", LIST(0, 0, 0));
    expect_grad(&f, LIST(0, 0, 0));
    op_begin(&f, "LpNormalization", 13);
    op_in(&f, PARE_F32, "2,2", LIST(0, 0, 0, 2));
    expect_grad(&f, LIST(0, 0, 1.5, 0));
}

/* ---- normalizations ----------------------------------------------------------------------- */

static void test_gradients_of_norms_of_one_input(void **state)
{
    static const struct one_case c[] = {
        { "LRN", 13, "2,5,3", "size=3;alpha=0.5;beta=0.75;bias=1" },
        { "LRN", 13, "1,6,2,2", "size=4;alpha=0.9;beta=0.5;bias=2" },
        { "LRN", 13, "1,3,2", "size=9;alpha=0.9;beta=1.5" },
        { "LpNormalization", 13, "3,4", NULL },
        { "LpNormalization", 13, "2,3,2", "axis=1;p=1" },
        { "LpNormalization", 13, "2,3,2", "axis=0;p=2" },
        { "MeanVarianceNormalization", 13, "2,3,2,2", NULL },
        { "MeanVarianceNormalization", 13, "3,4", "axes=1" },
        { "MeanVarianceNormalization", 13, "2,2,3", "axes=0,-1" },
    };

    (void)state;
    check_one_input(c, COUNT(c));
}

/* X, scale, B, mean, var; the moments are not those of the batch. */
static void begin_bn(struct one_op *f, int version, const char *attrs, const char *x, const char *c)
{
    op_begin(f, "BatchNormalization", version);
    set_attrs(f, attrs);
    grad_in(f, x, -1, 2);
    grad_in(f, c, 0.5, 1.5);
    grad_in(f, c, -1, 1);
    grad_in(f, c, -0.5, 0.5);
    grad_in(f, c, 0.5, 2);
}

static void test_gradients_of_batch_norm(void **state)
{
    struct grad_opts train = { .train = true };
    struct grad_opts own = { .skip_out = 6 }; /* running moments have no gradient */
    struct one_op f;

    (void)state;
    begin_bn(&f, 15, "epsilon=0.01", "2,3,2,2", "3");
    grad_check(&f);
    begin_bn(&f, 9, NULL, "4,3", "3");
    grad_check(&f);
    begin_bn(&f, 7, "spatial=0", "3,2,2", "2,2");
    grad_check(&f);
    begin_bn(&f, 15, "epsilon=0.01", "2,3,2,2", "3");
    grad_check_with(&f, &train);
    begin_bn(&f, 9, NULL, "5,3", "3");
    grad_check_with(&f, &train);
    begin_bn(&f, 7, "spatial=0", "4,2,2", "2,2");
    grad_check_with(&f, &train);
    begin_bn(&f, 15, "training_mode=1", "3,2,4", "2");
    f.node.n_out = 3;
    grad_check_with(&f, &own);
    begin_bn(&f, 15, NULL, "0,2,4", "2");
    grad_check_with(&f, &train);
}

/* One forward pass in training, which changes the running moments. */
static void forward_in_training(struct one_op *f)
{
    struct pare_ctx c = { .scratch = f->scratch, .results = f->arena, .threads = 1, .train = true };

    assert_int_equal(op_run(f), 0);
    assert_int_equal(pare_node_forward(&f->node, &c, &f->err), 0);
}

static void expect_values(const struct pare_value *v, const double *want)
{
    for (int64_t i = 0; i < pare_numel(&v->t); i++)
        assert_float_equal(pare_get(&v->t, i), want[i], 1e-5);
}

/* The batch (1, 3), (5, 4) has means 3 and 3.5, and variances 8 and 0.5 divided by count - 1. */
static void test_running_moments(void **state)
{
    struct one_op f;

    (void)state;
    op_begin(&f, "BatchNormalization", 15);
    set_attrs(&f, "momentum=0.75;epsilon=0");
    op_in(&f, PARE_F32, "2,2", LIST(1, 3, 5, 4));
    for (int i = 0; i < 4; i++)
        op_in(&f, PARE_F32, "2", i == 1 ? LIST(0, 0) : i == 2 ? LIST(7, -1) : LIST(2, 2));
    forward_in_training(&f);
    expect_values(f.in[3], LIST(0.75 * 7 + 0.25 * 3, 0.75 * -1 + 0.25 * 3.5));
    expect_values(f.in[4], LIST(0.75 * 2 + 0.25 * 8, 0.75 * 2 + 0.25 * 0.5));
    expect_values(f.out[0], LIST(-2, -2, 2, 2));
    op_end(&f);
}

/* One value has no variance: the running variance is kept.  Without values, both moments are. */
static void test_running_moments_of_one_or_no_value(void **state)
{
    struct one_op f;

    (void)state;
    for (int n = 0; n < 2; n++) {
        op_begin(&f, "BatchNormalization", 9);
        set_attrs(&f, "momentum=0.75");
        op_in(&f, PARE_F32, n ? "1,2" : "0,2", LIST(1, 3));
        for (int i = 0; i < 4; i++)
            op_in(&f, PARE_F32, "2", i == 2 ? LIST(7, -1) : LIST(2, 2));
        forward_in_training(&f);
        expect_values(f.in[3], n ? LIST(5.5, 0) : LIST(7, -1));
        expect_values(f.in[4], LIST(2, 2));
        op_end(&f);
    }
}

static void test_gradients_of_layer_norm(void **state)
{
    static const struct {
        const char *x, *scale, *bias, *attrs;
        int n_out;
    } c[] = {
        { "3,4", "4", "4", NULL, 1 },          { "2,3,4", "3,4", NULL, "axis=1;epsilon=0.01", 1 },
        { "2,3,4", "4", "3,1", "axis=-2", 1 }, { "2,2,3", "", "1", "axis=0", 1 },
        { "3,5", "5", "5", NULL, 3 }, /* mean and inverse deviation are used, too */
        { "0,5", "5", "5", NULL, 1 },
    };

    (void)state;
    for (size_t i = 0; i < COUNT(c); i++) {
        struct one_op f;

        op_begin(&f, "LayerNormalization", 17);
        set_attrs(&f, c[i].attrs);
        f.node.n_out = c[i].n_out;
        grad_in(&f, c[i].x, -1, 2);
        grad_in(&f, c[i].scale, 0.5, 1.5);
        if (c[i].bias)
            grad_in(&f, c[i].bias, -1, 1);
        grad_check(&f);
    }
}

/* Only the mean has a gradient: scale and B get 0. */
static void test_gradients_of_layer_norm_mean(void **state)
{
    struct grad_opts o = { .skip_out = 5 };
    struct one_op f;

    (void)state;
    op_begin(&f, "LayerNormalization", 17);
    f.node.n_out = 3;
    grad_in(&f, "3,4", -1, 2);
    grad_in(&f, "4", 0.5, 1.5);
    grad_check_with(&f, &o);
}

static void test_gradients_of_group_norm(void **state)
{
    static const struct {
        const char *type;
        int version;
        const char *x, *scale, *attrs;
    } c[] = {
        { "InstanceNormalization", 13, "2,3,4", "3", NULL },
        { "InstanceNormalization", 13, "1,2,2,3", "2", "epsilon=0.01" },
        { "InstanceNormalization", 13, "0,2,2,3", "2", NULL },
        { "GroupNormalization", 18, "2,4,3", "2", "num_groups=2" },
        { "GroupNormalization", 21, "2,4,2,2", "4", "num_groups=2;epsilon=0.01" },
        { "GroupNormalization", 21, "2,3,4", "3", "num_groups=1" },
    };

    (void)state;
    for (size_t i = 0; i < COUNT(c); i++) {
        struct one_op f;

        op_begin(&f, c[i].type, c[i].version);
        set_attrs(&f, c[i].attrs);
        grad_in(&f, c[i].x, -1, 2);
        grad_in(&f, c[i].scale, 0.5, 1.5);
        grad_in(&f, c[i].scale, -1, 1);
        grad_check(&f);
    }
}

/* ---- interpolation -------------------------------------------------------------------------- */

/* Positions inside a (3, 4) image, near its border and outside, all between elements. */
static void test_gradients_of_grid_sample(void **state)
{
    static const char *const attrs[] = {
        "mode=linear;padding_mode=zeros",
        "mode=linear;padding_mode=border",
        "mode=linear;padding_mode=reflection",
        "mode=linear;padding_mode=zeros;align_corners=1",
        "mode=cubic;padding_mode=zeros",
        "mode=cubic;padding_mode=reflection",
        "mode=nearest;padding_mode=border",
        "mode=linear;padding_mode=reflection;align_corners=1",
    };
    static const double position[] = {
        0.7, 1.3, 2.4, 0.3, 1.3, -0.7, 3.3, 2.3, -2.3, 4.7, 6.4, -4.2
    };

    (void)state;
    for (size_t i = 0; i < COUNT(attrs); i++) {
        bool centers = strstr(attrs[i], "align_corners") != NULL;
        double grid[COUNT(position)];
        struct one_op f;

        for (size_t k = 0; k < COUNT(position); k++) {
            double size = k % 2 ? 3 : 4;

            grid[k] = centers ? 2 * position[k] / (size - 1) - 1 : (2 * position[k] + 1) / size - 1;
        }
        op_begin(&f, "GridSample", 20);
        set_attrs(&f, attrs[i]);
        grad_in(&f, "1,2,3,4", -1, 1);
        op_in(&f, PARE_F32, "1,2,3,2", grid);
        grad_check(&f);
    }
}

static void test_gradients_of_roi_align(void **state)
{
    static const char *const attrs[] = {
        "output_height=2;output_width=3;sampling_ratio=2",
        "output_height=2;output_width=2;spatial_scale=0.5",
        "output_height=2;output_width=2;mode=max;sampling_ratio=2",
        "output_height=1;output_width=2;mode=max;coordinate_transformation_mode=output_half_pixel",
    };
    struct grad_opts o = { .skip = 2 };

    (void)state;
    for (size_t i = 0; i < COUNT(attrs); i++) {
        struct one_op f;

        op_begin(&f, "RoiAlign", 16);
        set_attrs(&f, attrs[i]);
        grad_in_distinct(&f, "2,1,4,5", 0.3);
        op_in(&f, PARE_F32, "3,4", LIST(0.2, 0.4, 3.1, 3.7, 1, 1, 4.3, 2.9, -1, -2, 8, 9));
        op_in(&f, PARE_I64, "3", LIST(1, 0, 1));
        grad_check_with(&f, &o);
    }
}

/* ---- Dropout ------------------------------------------------------------------------------- */

static void test_gradients_of_dropout(void **state)
{
    struct grad_opts train = { .train = true, .skip = 2 }, run = { .skip = 2 };
    struct one_op f;

    (void)state;
    for (int i = 0; i < 4; i++) {
        op_begin(&f, "Dropout", i < 3 ? 13 : 10);
        if (i == 3)
            op_attr(&f, "ratio", "0.25");
        grad_in(&f, "4,5", -1, 1);
        if (i < 3)
            op_in(&f, PARE_F32, "", LIST(0.25));
        if (i == 2)
            op_in(&f, PARE_BOOL, "", LIST(1));
        f.node.n_out = 1 + i % 2;
        grad_check_with(&f, i % 2 ? &train : &run);
    }
}

/* In training, Dropout of a graph exported for inference is active: it removes a quarter, different
 * elements in each step, and scales the others to keep the expected value. */
static void test_dropout_in_training(void **state)
{
    struct pare_ctx c = { .threads = 1, .train = true };
    int64_t kept = 0, same = 0;
    struct pare_rng rng;
    struct one_op f;
    float *first;

    (void)state;
    op_begin(&f, "Dropout", 13);
    grad_in(&f, "100,100", 1, 2);
    op_in(&f, PARE_F32, "", LIST(0.25));
    op_in(&f, PARE_BOOL, "", LIST(0));
    assert_int_equal(op_run(&f), 0);
    assert_memory_equal(f.out[0]->t.data, f.in[0]->t.data, 10000 * sizeof(float));
    pare_rng_init(&rng, 1);
    c.scratch = f.scratch, c.results = f.arena, c.rng = &rng;
    assert_int_equal(pare_node_forward(&f.node, &c, &f.err), 0);
    first = pare_alloc(f.arena, 10000, sizeof(*first));
    memcpy(first, f.out[0]->t.data, 10000 * sizeof(float));
    assert_int_equal(pare_node_forward(&f.node, &c, &f.err), 0);
    for (int i = 0; i < 10000; i++) {
        kept += first[i] != 0;
        same += (first[i] != 0) == (pare_f32(&f.out[0]->t)[i] != 0);
        if (first[i] != 0)
            assert_float_equal(first[i], pare_f32(&f.in[0]->t)[i] * 4 / 3, 1e-6);
    }
    assert_in_range(kept, 7300, 7700); /* 7500 with a deviation of 43 */
    assert_in_range(same, 6000, 6500); /* 6250, if the two are independent */
    op_end(&f);
}

/* The backward pass uses the mask of the forward pass, whatever the generator's state; a node with
 * training_mode set draws the same mask again if none was saved. */
static void test_dropout_backward_uses_the_same_mask(void **state)
{
    struct grad_opts train = { .train = true, .skip = 2 }, run = { .skip = 2 };

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct pare_rng other;
        struct grad_run g;
        struct pare_ctx c;
        struct one_op f;

        op_begin(&f, "Dropout", 13);
        grad_in(&f, "10,10", 1, 2);
        op_in(&f, PARE_F32, "", LIST(0.5));
        op_in(&f, PARE_BOOL, "", LIST(1));
        grad_begin(&g, &f, i ? &run : &train);
        grad_forward(&g);
        c = grad_ctx(&g);
        pare_rng_init(&other, 99);
        c.rng = i ? NULL : &other;
        f.node.save = i ? NULL : f.node.save;
        assert_int_equal(f.node.op->backward(&f.node, &c, &f.err), 0);
        for (int k = 0; k < 100; k++) {
            bool kept = pare_f32(&f.out[0]->t)[k] != 0;
            float gy = pare_f32(&f.out[0]->grad)[k];

            assert_true(pare_f32(&f.in[0]->grad)[k] == (kept ? 2 * gy : 0));
        }
        op_end(&f);
    }
}

/* The backward pass in training needs the mask that forward() saved. */
static void test_dropout_backward_needs_the_mask(void **state)
{
    struct grad_opts o = { .train = true };
    struct grad_run g;
    struct pare_ctx c;
    struct one_op f;

    (void)state;
    op_begin(&f, "Dropout", 10);
    grad_in(&f, "4", 1, 2);
    grad_begin(&g, &f, &o);
    c = grad_ctx(&g);
    f.node.save = NULL;
    assert_int_not_equal(f.node.op->backward(&f.node, &c, &f.err), 0);
    assert_string_equal(f.err.msg, "the mask of the forward pass is missing");
    op_end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients_of_conv),
        cmocka_unit_test(test_gradients_of_conv_transpose),
        cmocka_unit_test(test_gradients_of_conv_with_itself),
        cmocka_unit_test(test_gradients_of_pools),
        cmocka_unit_test(test_gradients_of_max_pool_with_indices),
        cmocka_unit_test(test_gradients_of_max_unpool),
        cmocka_unit_test(test_first_maximum_gets_the_gradient),
        cmocka_unit_test(test_gradients_of_norms_of_zero),
        cmocka_unit_test(test_gradients_of_norms_of_one_input),
        cmocka_unit_test(test_gradients_of_batch_norm),
        cmocka_unit_test(test_running_moments),
        cmocka_unit_test(test_running_moments_of_one_or_no_value),
        cmocka_unit_test(test_gradients_of_layer_norm),
        cmocka_unit_test(test_gradients_of_layer_norm_mean),
        cmocka_unit_test(test_gradients_of_group_norm),
        cmocka_unit_test(test_gradients_of_grid_sample),
        cmocka_unit_test(test_gradients_of_roi_align),
        cmocka_unit_test(test_gradients_of_dropout),
        cmocka_unit_test(test_dropout_in_training),
        cmocka_unit_test(test_dropout_backward_uses_the_same_mask),
        cmocka_unit_test(test_dropout_backward_needs_the_mask),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

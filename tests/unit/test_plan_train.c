/* test_plan_train.c - training with the fast kernels: gradients of the plain kernels, the same
 * bytes in each run, shared memory. */
#include "train_rig.h"

static void compare(build_fn *build, const char *name, const int64_t chw[3], double tol)
{
    struct training_step fast, plain;

    step_run(&fast, make_network(build, name, chw), chw, false, "2");
    step_run(&plain, make_network(build, name, chw), chw, true, "1");
    assert_true(fabs(fast.score.loss - plain.score.loss) < 1e-5 * fabs(plain.score.loss));
    for (int i = 0; i < plain.trainer->n_params; i++) {
        double d = relative_error(&fast.trainer->grad[i], &plain.trainer->grad[i]);

        if (!(d < tol))
            fail_msg("%s: the gradient of '%s' is off by %g", name, plain.trainer->name[i], d);
    }
    for (int i = 0; i < plain.trainer->n_state; i++)
        assert_true(relative_error(&fast.trainer->state[i].t, &plain.trainer->state[i].t) < 1e-5);
    step_free(&fast);
    step_free(&plain);
}

static struct pare_flow conv_bn(struct pare_net *n, struct pare_flow x, const char *name,
                                int64_t out, int64_t kernel)
{
    struct pare_conv c = { .out = out, .kernel = kernel, .pad = kernel / 2 };
    char norm[32];

    snprintf(norm, sizeof(norm), "%s.norm", name);
    return pare_net_batch_norm(n, pare_net_conv(n, x, name, c), norm);
}

/* Every way in which a normalization takes what follows it; 20 and 24 channels fill no block. */
static struct pare_flow norms(struct pare_net *n, struct pare_flow x)
{
    struct pare_flow y, z;

    x = pare_net_relu(n, pare_net_batch_norm(n, x, "start"), "start.relu"); /* row-major */
    x = pare_net_relu(n, conv_bn(n, x, "a", 20, 3), "a.relu");
    y = pare_net_sum(n, conv_bn(n, x, "b", 20, 3), x, "b.sum");
    x = pare_net_relu(n, y, "b.relu");                          /* x is needed again */
    x = pare_net_sum(n, x, conv_bn(n, x, "c", 20, 3), "c.sum"); /* no activation */
    x = pare_net_relu6(n, conv_bn(n, x, "d", 24, 1), "d.relu6");
    y = conv_bn(n, x, "e", 24, 1);
    z = conv_bn(n, x, "f", 24, 3);
    x = pare_net_relu(n, pare_net_sum(n, y, z, "f.sum"), "f.relu"); /* the sum may be in place */
    x = pare_net_relu6(n, pare_net_sum(n, conv_bn(n, x, "g", 24, 1), x, "g.sum"), "g.relu6");
    y = pare_net_apply(n, x, "Sigmoid", "g.gate");
    y.value = pare_builder_node(n->make, "Mul", "g.mul", x.value, y.value, NULL);
    y = pare_net_sum(n, y, y, "g.twice");
    x = pare_net_max_pool(n, y, "pool", 2);
    return pare_net_linear(n, pare_net_flatten(n, x, "flatten"), "fc", n->classes);
}

/* Elementwise operators that can and cannot write over what they read. */
static struct pare_flow maps(struct pare_net *n, struct pare_flow x)
{
    struct pare_conv c = { .out = 16, .kernel = 3, .pad = 1, .bias = true };
    struct pare_flow y;

    x = pare_net_relu(n, pare_net_conv(n, x, "a", c), "a.relu");
    y = pare_net_apply(n, x, "Tanh", "b");
    y = pare_net_apply(n, pare_net_apply(n, y, "Neg", "b.neg"), "Softplus", "c");
    x = pare_net_sum(n, y, pare_net_apply(n, x, "Sigmoid", "d"), "d.sum");
    x = pare_net_apply(n, x, "Exp", "e");
    y.value = pare_builder_node(n->make, "Div", "e.div", pare_builder_number(n->make, "two", 2),
                                x.value, NULL);
    y.value = pare_builder_node(n->make, "Sub", "e.sub", y.value,
                                pare_builder_number(n->make, "one", 1), NULL);
    for (int i = 0; i < 2; i++) { /* there and back, to where the sum has been already */
        y = pare_net_apply(n, y, "Transpose", i ? "e.back" : "e.there");
        pare_builder_ints(n->make, "perm", 4, (int64_t[]){ 3, 2, 1, 0 });
    }
    x = pare_net_sum(n, x, y, "e.sum");
    x = pare_net_relu(n, pare_net_conv(n, x, "f", c), "f.relu");
    x = pare_net_apply(n, pare_net_apply(n, x, "Identity", "g"), "Relu", "h");
    y = pare_net_apply(n, pare_net_flatten(n, x, "flatten"), "Sigmoid", "i");
    y = pare_net_linear(n, pare_net_relu(n, y, "i.relu"), "fc1", 12);
    return pare_net_linear(n, pare_net_relu(n, y, "fc1.relu"), "fc2", n->classes);
}

/* Convolutions with 3x3 filters and many channels, with and without padding; a value that two of
 * them read; channels that fill no block. */
static struct pare_flow filters(struct pare_net *n, struct pare_flow x)
{
    struct pare_conv c = { .out = 48, .kernel = 3, .pad = 1, .bias = true };
    struct pare_flow y;

    x = pare_net_apply(n, pare_net_conv(n, x, "a", c), "Tanh", "a.tanh");
    c.out = 36;
    y = pare_net_conv(n, x, "b", c);
    x = pare_net_apply(n, pare_net_sum(n, pare_net_conv(n, x, "c", c), y, "c.sum"), "Tanh", "d");
    c.pad = 0;
    c.bias = false;
    x = pare_net_apply(n, pare_net_conv(n, x, "e", c), "Tanh", "e.tanh");
    c.pad = 2;
    x = pare_net_conv(n, x, "f", c);
    return pare_net_linear(n, pare_net_flatten(n, x, "flatten"), "fc", n->classes);
}

static void test_winograd(void **state)
{
    int64_t chw[3] = { 40, 22, 21 };
    struct training_step t;

    (void)state;
    step_run(&t, make_network(filters, "filters", chw), chw, false, "2");
    expect_kernel(t.trainer->plan[0], "conv_winograd_train", 5);
    step_free(&t);
    compare(filters, "filters", chw, 1e-4);
}

static void test_norms(void **state)
{
    (void)state;
    compare(norms, "norms", (int64_t[]){ 3, 9, 7 }, 1e-3);
    compare(norms, "norms, even", (int64_t[]){ 16, 8, 8 }, 1e-3);
}

static void test_maps(void **state)
{
    (void)state;
    compare(maps, "maps", (int64_t[]){ 3, 9, 7 }, 1e-4);
}

static void test_networks(void **state)
{
    (void)state;
    compare(NULL, "lenet", (int64_t[]){ 1, 28, 28 }, 1e-4);
    compare(NULL, "resnet20", (int64_t[]){ 3, 16, 16 }, 5e-3);
    compare(NULL, "vit-tiny", (int64_t[]){ 3, 32, 32 }, 1e-3);
}

/* Whatever the first step left in memory, the second does the same. */
static void test_again(void **state)
{
    int64_t chw[3] = { 3, 9, 7 };
    struct training_step t[2];

    (void)state;
    for (int i = 0; i < 2; i++)
        step_run(&t[i], make_network(norms, "norms", chw), chw, false, "2");
    assert_int_equal(pare_trainer_gradient(t[1].trainer, &t[1].x, &t[1].y, &t[1].score, &err), 0);
    for (int i = 0; i < t[0].trainer->n_params; i++)
        assert_memory_equal(t[0].trainer->grad[i].data, t[1].trainer->grad[i].data,
                            (size_t)pare_numel(&t[0].trainer->grad[i]) * sizeof(float));
    step_free(&t[0]);
    step_free(&t[1]);
}

/* The plan keeps only what the backward pass reads: a network of stages of equal size needs the
 * inputs of convolutions and normalizations, and little more. */
static struct pare_flow stages(struct pare_net *n, struct pare_flow x)
{
    for (int i = 0; i < 6; i++) {
        char name[16];

        snprintf(name, sizeof(name), "s%d", i);
        x = conv_bn(n, x, name, 16, 3);
        x = pare_net_relu(n, x, pare_net_name(n, "r%d", i));
    }
    x = pare_net_average(n, x, "average");
    return pare_net_linear(n, pare_net_flatten(n, x, "flatten"), "fc", n->classes);
}

static void test_memory(void **state)
{
    int64_t chw[3] = { 16, 64, 64 }; /* kernels' working memory is small against that */
    size_t one = BATCH * 16 * 64 * 64 * sizeof(float);
    struct training_step t;

    (void)state;
    step_run(&t, make_network(stages, "stages", chw), chw, false, "1");
    /* Per stage: the convolution's input and the normalization's. */
    assert_in_range(t.trainer->plan[0]->memory_bytes, 12 * one, 14 * one + one / 2);
    step_free(&t);
}

/* Steps with plain kernels leak no memory either. */
static void test_no_growth(void **state)
{
    int64_t chw[3] = { 16, 32, 32 };
    struct pare_mark m;
    struct training_step t;

    (void)state;
    step_run(&t, make_network(stages, "stages", chw), chw, true, "1");
    m = pare_mark(t.trainer->plan[0]->scratch);
    assert_int_equal(pare_trainer_gradient(t.trainer, &t.x, &t.y, &t.score, &err), 0);
    assert_ptr_equal(pare_mark(t.trainer->plan[0]->scratch).block, m.block);
    assert_int_equal(pare_mark(t.trainer->plan[0]->scratch).used, m.used);
    step_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_norms),     cmocka_unit_test(test_maps),
        cmocka_unit_test(test_networks),  cmocka_unit_test(test_winograd),
        cmocka_unit_test(test_again),     cmocka_unit_test(test_memory),
        cmocka_unit_test(test_no_growth),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

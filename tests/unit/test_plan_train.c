/* test_plan_train.c - training with fast kernels: gradients against reference kernels,
 * bit-identical steps, memory of plans. */
#include "train_rig.h"

static void compare_with_reference(build_fn *build, const char *name, const int64_t chw[3],
                                   double tol)
{
    struct training_step fast, reference;

    step_run(&fast, make_network(build, name, chw), chw, false, "2");
    step_run(&reference, make_network(build, name, chw), chw, true, "1");
    assert_true(fabs(fast.score.loss - reference.score.loss) < 1e-5 * fabs(reference.score.loss));
    for (int i = 0; i < reference.trainer->n_params; i++) {
        double d = relative_error(&fast.trainer->grad[i], &reference.trainer->grad[i]);

        if (!(d < tol))
            fail_msg("%s: the gradient of '%s' has a relative error of %g", name,
                     reference.trainer->name[i], d);
    }
    for (int i = 0; i < reference.trainer->n_state; i++)
        assert_true(relative_error(&fast.trainer->state[i].t, &reference.trainer->state[i].t) <
                    1e-5);
    step_free(&fast);
    step_free(&reference);
}

static struct pare_flow conv_and_norm(struct pare_net *n, struct pare_flow x, const char *name,
                                      int64_t out, int64_t kernel)
{
    struct pare_conv c = { .out = out, .kernel = kernel, .pad = kernel / 2 };
    char norm[32];

    snprintf(norm, sizeof(norm), "%s.norm", name);
    return pare_net_batch_norm(n, pare_net_conv(n, x, name, c), norm);
}

/* Normalizations with every kind of fused successor; 20 and 24 channels are not whole blocks. */
static struct pare_flow norm_network(struct pare_net *n, struct pare_flow x)
{
    struct pare_flow y, z;

    x = pare_net_relu(n, pare_net_batch_norm(n, x, "start"), "start.relu"); /* row-major */
    x = pare_net_relu(n, conv_and_norm(n, x, "a", 20, 3), "a.relu");
    y = pare_net_sum(n, conv_and_norm(n, x, "b", 20, 3), x, "b.sum");
    x = pare_net_relu(n, y, "b.relu");                                /* x has a second consumer */
    x = pare_net_sum(n, x, conv_and_norm(n, x, "c", 20, 3), "c.sum"); /* no activation */
    x = pare_net_relu6(n, conv_and_norm(n, x, "d", 24, 1), "d.relu6");
    y = conv_and_norm(n, x, "e", 24, 1);
    z = conv_and_norm(n, x, "f", 24, 3);
    x = pare_net_relu(n, pare_net_sum(n, y, z, "f.sum"), "f.relu"); /* the sum can be in place */
    x = pare_net_relu6(n, pare_net_sum(n, conv_and_norm(n, x, "g", 24, 1), x, "g.sum"), "g.relu6");
    y = pare_net_apply(n, x, "Sigmoid", "g.gate");
    y.value = pare_builder_node(n->make, "Mul", "g.mul", x.value, y.value, NULL);
    y = pare_net_sum(n, y, y, "g.twice");
    x = pare_net_max_pool(n, y, "pool", 2);
    return pare_net_linear(n, pare_net_flatten(n, x, "flatten"), "fc", n->classes);
}

/* Elementwise operators that can and cannot work in place. */
static struct pare_flow map_network(struct pare_net *n, struct pare_flow x)
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
    for (int i = 0; i < 2; i++) { /* two Transposes that cancel, into memory that the sum used */
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
 * them read; channels that are not whole blocks. */
static struct pare_flow winograd_network(struct pare_net *n, struct pare_flow x)
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

static void test_gradients_of_winograd(void **state)
{
    int64_t chw[3] = { 40, 22, 21 };
    struct training_step t;

    (void)state;
    step_run(&t, make_network(winograd_network, "filters", chw), chw, false, "2");
    expect_kernel(t.trainer->plan[0], "conv_winograd_train", 5);
    step_free(&t);
    compare_with_reference(winograd_network, "filters", chw, 1e-4);
}

static void test_gradients_of_normalizations(void **state)
{
    (void)state;
    compare_with_reference(norm_network, "norms", (int64_t[]){ 3, 9, 7 }, 1e-3);
    compare_with_reference(norm_network, "norms, even", (int64_t[]){ 16, 8, 8 }, 1e-3);
}

static void test_gradients_of_elementwise(void **state)
{
    (void)state;
    compare_with_reference(map_network, "maps", (int64_t[]){ 3, 9, 7 }, 1e-4);
}

static void test_gradients_of_zoo_networks(void **state)
{
    (void)state;
    compare_with_reference(NULL, "lenet", (int64_t[]){ 1, 28, 28 }, 1e-4);
    /* With 16 x 16 pixels a ReLU input is so close to 0 that its sign depends on rounding. */
    compare_with_reference(NULL, "resnet20", (int64_t[]){ 3, 20, 20 }, 1e-4);
    compare_with_reference(NULL, "vit-tiny", (int64_t[]){ 3, 32, 32 }, 1e-3);
}

/* A second step gives the same gradients, whatever the first one left in memory. */
static void test_second_step_is_bit_identical(void **state)
{
    int64_t chw[3] = { 3, 9, 7 };
    struct training_step t[2];

    (void)state;
    for (int i = 0; i < 2; i++)
        step_run(&t[i], make_network(norm_network, "norms", chw), chw, false, "2");
    assert_int_equal(pare_trainer_gradient(t[1].trainer, &t[1].x, &t[1].y, &t[1].score, &err), 0);
    for (int i = 0; i < t[0].trainer->n_params; i++)
        assert_memory_equal(t[0].trainer->grad[i].data, t[1].trainer->grad[i].data,
                            (size_t)pare_numel(&t[0].trainer->grad[i]) * sizeof(float));
    step_free(&t[0]);
    step_free(&t[1]);
}

/* The plan keeps only what the backward pass reads: a network of stages of equal size needs the
 * inputs of convolutions and normalizations, and little more. */
static struct pare_flow equal_stages(struct pare_net *n, struct pare_flow x)
{
    for (int i = 0; i < 6; i++) {
        char name[16];

        snprintf(name, sizeof(name), "s%d", i);
        x = conv_and_norm(n, x, name, 16, 3);
        x = pare_net_relu(n, x, pare_net_name(n, "r%d", i));
    }
    x = pare_net_average(n, x, "average");
    return pare_net_linear(n, pare_net_flatten(n, x, "flatten"), "fc", n->classes);
}

static void test_training_memory(void **state)
{
    int64_t chw[3] = { 16, 64, 64 }; /* large compared with the kernels' scratch memory */
    size_t one = BATCH * 16 * 64 * 64 * sizeof(float);
    struct training_step t;

    (void)state;
    step_run(&t, make_network(equal_stages, "stages", chw), chw, false, "1");
    /* Per stage: the convolution's input and the normalization's; two gradients; scratch memory. */
    assert_in_range(t.trainer->plan[0]->memory_bytes, 12 * one, 14 * one + one / 2);
    step_free(&t);
}

/* Steps with reference kernels use no additional memory. */
static void test_steps_do_not_leak(void **state)
{
    int64_t chw[3] = { 16, 32, 32 };
    struct pare_mark m;
    struct training_step t;

    (void)state;
    step_run(&t, make_network(equal_stages, "stages", chw), chw, true, "1");
    m = pare_mark(t.trainer->plan[0]->scratch);
    assert_int_equal(pare_trainer_gradient(t.trainer, &t.x, &t.y, &t.score, &err), 0);
    assert_ptr_equal(pare_mark(t.trainer->plan[0]->scratch).block, m.block);
    assert_int_equal(pare_mark(t.trainer->plan[0]->scratch).used, m.used);
    step_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients_of_normalizations),
        cmocka_unit_test(test_gradients_of_elementwise),
        cmocka_unit_test(test_gradients_of_zoo_networks),
        cmocka_unit_test(test_gradients_of_winograd),
        cmocka_unit_test(test_second_step_is_bit_identical),
        cmocka_unit_test(test_training_memory),
        cmocka_unit_test(test_steps_do_not_leak),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

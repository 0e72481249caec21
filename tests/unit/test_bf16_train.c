/* test_bf16_train.c - training with products of bf16: gradients, and what a checkpoint checks. */
#include "train_rig.h"

/* 3x3, strided and 1x1 convolutions. */
static struct pare_flow convolutions(struct pare_net *n, struct pare_flow x)
{
    x = pare_net_conv(n, x, "a", (struct pare_conv){ .out = 32, .kernel = 3, .pad = 1 });
    x = pare_net_apply(n, x, "Tanh", "a.tanh");
    x = pare_net_conv(n, x, "b",
                      (struct pare_conv){ .out = 48, .kernel = 3, .pad = 1, .bias = true });
    x = pare_net_apply(n, x, "Tanh", "b.tanh");
    x = pare_net_conv(n, x, "c",
                      (struct pare_conv){ .out = 64, .kernel = 3, .stride = 2, .pad = 1 });
    x = pare_net_apply(n, x, "Tanh", "c.tanh");
    x = pare_net_conv(n, x, "d", (struct pare_conv){ .out = 32, .kernel = 1, .bias = true });
    x = pare_net_apply(n, x, "Tanh", "d.tanh");
    return pare_net_linear(n, pare_net_flatten(n, x, "flatten"), "last", n->classes);
}

/* One step in this precision. */
static void run_step(struct training_step *t, const char *network, const int64_t chw[3],
                     enum pare_precision precision, const char *threads)
{
    build_fn *build = strcmp(network, "convolutions") ? NULL : convolutions;

    step_prepare(t, make_network(build, network, chw), chw, threads);
    t->setup->trainer.precision = precision;
    if (pare_trainer_new(t->model, &t->setup->trainer, &t->trainer, &err) ||
        pare_trainer_gradient(t->trainer, &t->x, &t->y, &t->score, &err))
        fail_msg("%s", err.msg);
}

/* All gradients together, as one vector. */
static double gradient_error(const struct training_step *a, const struct training_step *b)
{
    double off = 0, all = 0;

    for (int i = 0; i < b->trainer->n_params; i++)
        for (int64_t k = 0; k < pare_numel(&b->trainer->grad[i]); k++) {
            double x = (double)pare_f32(&a->trainer->grad[i])[k],
                   y = (double)pare_f32(&b->trainer->grad[i])[k];

            off += (x - y) * (x - y);
            all += y * y;
        }
    return sqrt(off / all);
}

/* Gradients of bf16 differ from those of float32, by a few percent at most, and do not depend on
 * the number of threads. */
static void check_network(const char *network, const int64_t chw[3], double most)
{
    struct training_step exact, one, two;

    run_step(&exact, network, chw, PARE_PRECISION_F32, "1");
    run_step(&one, network, chw, PARE_PRECISION_BF16, "1");
    run_step(&two, network, chw, PARE_PRECISION_BF16, "2");
    assert_true(fabs(one.score.loss - exact.score.loss) < 0.02 * exact.score.loss);
    if (!(gradient_error(&one, &exact) < most && gradient_error(&one, &exact) > 1e-4))
        fail_msg("%s: relative error of the gradients %g", network, gradient_error(&one, &exact));
    assert_true(gradient_error(&two, &one) < most);
    step_free(&exact);
    step_free(&one);
    step_free(&two);
}

static void test_gradients(void **state)
{
    (void)state;
    check_network("vit-tiny", (int64_t[]){ 3, 32, 32 }, 0.02);
    check_network("convolutions", (int64_t[]){ 16, 13, 12 }, 0.02);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

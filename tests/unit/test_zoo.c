/* test_zoo.c - every network of the zoo: size, names, initial weights; it runs and trains. */
#include <setjmp.h>
#include <stdarg.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/arena.h"
#include "base/rng.h"
#include "graph/layer.h"
#include "onnx/builder.h"
#include "tensor/tensor.h"
#include "train/train_options.h"
#include "zoo/zoo.h"

static struct pare_err err;

static struct pare_model *make_network(const char *name, int64_t c, int64_t side, int64_t classes)
{
    struct pare_model *m;
    int64_t chw[3] = { c, side, side };

    if (pare_model_new(name, chw, classes, 7, &m, &err))
        fail_msg("%s", err.msg);
    return m;
}

static int64_t count_params(const struct pare_model *m)
{
    int64_t n = 0;

    for (int i = 0; i < m->graph->n_values; i++) {
        const struct pare_value *v = m->graph->value[i];

        if (v->flags & PARE_V_CONST && v->t.dtype == PARE_F32 && v->t.rank &&
            !strstr(v->name, ".running_"))
            n += pare_numel(&v->t);
    }
    return n;
}

/* The numbers are those of the PyTorch modules. */
static void test_parameters_match_pytorch(void **state)
{
    static const struct {
        const char *name;
        int64_t c, side, classes, params;
    } net[] = {
        { "lenet", 1, 28, 10, 431080 },         { "mlp", 1, 28, 10, 235146 },
        { "resnet20", 3, 32, 10, 272474 },      { "resnet18-cifar", 3, 32, 10, 11173962 },
        { "vgg16-cifar", 3, 32, 10, 14728266 }, { "mobilenetv2-cifar", 3, 32, 10, 2236682 },
        { "vit-tiny", 3, 224, 1000, 5717416 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(net) / sizeof(*net); i++) {
        struct pare_model *m = make_network(net[i].name, net[i].c, net[i].side, net[i].classes);

        assert_int_equal(count_params(m), net[i].params);
        pare_model_free(m);
    }
}

/* torchvision's mobilenet_v2(width_mult=0.5, num_classes=10); channels are multiples of 8. */
static void test_mobilenet_scales_in_steps_of_eight(void **state)
{
    struct pare_network_opts o = { .c = 3, .h = 32, .w = 32, .classes = 10, .width = 0.5 };
    const struct pare_network *net;
    struct pare_model *m;

    (void)state;
    assert_int_equal(pare_find_network("mobilenetv2-cifar", &net, &err), 0);
    assert_int_equal(pare_network_make(net, &o, &m, &err), 0);
    assert_int_equal(count_params(m), 700490);
    for (int i = 0; i < m->graph->n_values; i++) {
        const struct pare_value *v = m->graph->value[i];

        if (v->flags & PARE_V_CONST && v->t.rank == 4)
            assert_int_equal(v->t.dim[0] % 8, 0);
    }
    pare_model_free(m);
}

static const struct pare_value *find_weight(const struct pare_model *m, const char *name)
{
    const struct pare_value *v = pare_graph_find(m->graph, name);

    if (!v || !v->t.data)
        fail_msg("the model has no '%s'", name);
    return v;
}

static void compute_moments(const struct pare_value *v, double *mean, double *std, double *largest)
{
    int64_t n = pare_numel(&v->t);
    double s = 0, q = 0;

    *largest = 0;
    for (int64_t i = 0; i < n; i++) {
        double x = (double)pare_f32(&v->t)[i];

        s += x;
        q += x * x;
        *largest = fabs(x) > *largest ? fabs(x) : *largest;
    }
    *mean = s / (double)n;
    *std = sqrt(q / (double)n - *mean * *mean);
}

static void test_initial_weight_distribution(void **state)
{
    struct pare_model *m = make_network("lenet", 1, 28, 10);
    double mean, std, largest;

    (void)state;
    compute_moments(find_weight(m, "fc1.weight"), &mean, &std, &largest); /* uniform, fan_in 800 */
    assert_true(largest <= 1 / sqrt(800) && largest > 0.999 / sqrt(800));
    assert_true(fabs(mean) < 1e-3 && fabs(std * sqrt(2400) - 1) < 0.01);
    compute_moments(find_weight(m, "conv1.bias"), &mean, &std, &largest);
    assert_true(largest <= 0.2 && largest > 0.1);
    pare_model_free(m);

    m = make_network("resnet20", 3, 32, 10);
    compute_moments(find_weight(m, "layer3.2.conv2.weight"), &mean, &std, &largest);
    assert_true(fabs(mean) < 2e-3 && fabs(std / sqrt(2.0 / (64 * 9)) - 1) < 0.02);
    assert_true(pare_f32(&find_weight(m, "layer2.0.downsample.1.weight")->t)[5] == 1.0f);
    assert_true(pare_f32(&find_weight(m, "bn1.running_var")->t)[15] == 1.0f);
    pare_model_free(m);
}

static void test_same_seed_gives_the_same_model(void **state)
{
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_model *m[2] = { make_network("resnet20", 3, 32, 10),
                                make_network("resnet20", 3, 32, 10) };
    void *bytes[2];
    size_t len[2];

    (void)state;
    for (int i = 0; i < 2; i++)
        assert_int_equal(pare_model_pack(m[i], a, &bytes[i], &len[i], &err), 0);
    assert_int_equal(len[0], len[1]);
    assert_memory_equal(bytes[0], bytes[1], len[0]);
    pare_model_free(m[1]);
    if (pare_model_parse(bytes[0], len[0], NULL, &m[1], &err)) /* a packed model can be parsed */
        fail_msg("%s", err.msg);
    assert_int_equal(count_params(m[1]), count_params(m[0]));
    pare_model_free(m[0]);
    pare_model_free(m[1]);
    pare_arena_free(a);
}

/* Steps on the same random images: outputs are finite, and the loss falls. */
static void check_training(const char *name, int64_t side)
{
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_model *m = make_network(name, 3, side, 10);
    struct pare_given set[] = { { "optimizer", "sgd" }, { "threads", "1" } };
    struct pare_train_options *s;
    struct pare_trainer *t;
    struct pare_tensor x, y, out;
    struct pare_score score[3];
    struct pare_rng rng;

    pare_rng_init(&rng, 5);
    assert_int_equal(pare_train_options_make(set, 2, false, a, &s, &err), 0);
    assert_int_equal(pare_tensor_new(a, &x, PARE_F32, 4, (int64_t[]){ 4, 3, side, side }, &err), 0);
    assert_int_equal(pare_tensor_new(a, &y, PARE_I64, 1, (int64_t[]){ 4 }, &err), 0);
    for (int64_t i = 0; i < pare_numel(&x); i++)
        pare_f32_mut(&x)[i] = (float)pare_rng_normal(&rng);
    for (int64_t i = 0; i < 4; i++)
        pare_i64_mut(&y)[i] = i * 3 % 10;
    if (pare_trainer_new(m, &s->trainer, &t, &err))
        fail_msg("%s: %s", name, err.msg);
    for (int i = 0; i < 3; i++) {
        if (pare_trainer_forward(t, &x, &out, &err) || pare_trainer_loss(t, &y, &score[i], &err) ||
            pare_trainer_backward(t, &err) || pare_trainer_update(t, 0.005, &err))
            fail_msg("%s: %s", name, err.msg);
        assert_true(out.rank == 2 && out.dim[0] == 4 && out.dim[1] == 10);
    }
    assert_true(isfinite(score[2].loss) && score[2].loss < score[0].loss);
    pare_trainer_free(t);
    pare_model_free(m);
    pare_arena_free(a);
}

static void test_networks_train(void **state)
{
    (void)state;
    for (int i = 0; pare_networks[i]; i++)
        check_training(pare_networks[i]->name, pare_networks[i]->least > 16 ? 32 : 16);
}

static void test_layer_names(void **state)
{
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_model *m = make_network("mobilenetv2-cifar", 3, 32, 10);
    struct pare_layer_info *list;
    int n, found = 0;

    (void)state;
    assert_int_equal(pare_layers(a, m->graph, &list, &n, &err), 0);
    for (int i = 0; i < n; i++)
        found += !strcmp(list[i].name, "features.17.conv.1.0") ||
                 !strcmp(list[i].name, "classifier.1");
    assert_int_equal(found, 2);
    pare_model_free(m);
    pare_arena_free(a);
}

static void expect_error(const char *name, int64_t c, int64_t h, int64_t w, int64_t classes,
                         const char *why)
{
    struct pare_model *m;
    int64_t chw[3] = { c, h, w };

    assert_int_not_equal(pare_model_new(name, chw, classes, 0, &m, &err), 0);
    assert_null(m);
    if (!strstr(err.msg, why))
        fail_msg("expected '%s' in: %s", why, err.msg);
}

static void test_wrong_arguments_are_errors(void **state)
{
    (void)state;
    expect_error("lenett", 1, 28, 28, 10, "did you mean 'lenet'");
    expect_error("lenet", 0, 28, 28, 10, "is out of range");
    expect_error("lenet", 1, 3, 28, 10, "at least 4 x 4");
    expect_error("vgg16-cifar", 3, 28, 28, 10, "at least 32 x 32");
    expect_error("mlp", 1, 28, 28, 0, "0 classes");
}

/* The builder reports the first error and ignores later calls. */
static void test_builder_reports_the_first_error(void **state)
{
    struct pare_builder *k;
    struct pare_model *m;
    struct pare_tensor t;

    (void)state;
    assert_int_equal(pare_builder_new("x", &k, &err), 0);
    assert_null(pare_builder_weight(k, "w", 2, (int64_t[]){ -1, 3 }, &t));
    assert_null(t.data);
    assert_null(pare_builder_node(k, "Relu", "y", "w", NULL));
    pare_builder_int(k, "axis", 1);
    pare_builder_output(k, "z", 1, (int64_t[]){ 3 });
    assert_int_not_equal(pare_builder_done(k, &m, &err), 0);
    assert_null(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parameters_match_pytorch),
        cmocka_unit_test(test_mobilenet_scales_in_steps_of_eight),
        cmocka_unit_test(test_initial_weight_distribution),
        cmocka_unit_test(test_same_seed_gives_the_same_model),
        cmocka_unit_test(test_networks_train),
        cmocka_unit_test(test_layer_names),
        cmocka_unit_test(test_wrong_arguments_are_errors),
        cmocka_unit_test(test_builder_reports_the_first_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_fold_bn.c - convolutions quantized with the following BatchNormalization folded:
 * gradients and running moments against PyTorch (tools/golden_quant.py), and the exported file. */
#include "golden_quant.h"

#include <unistd.h>

#include "quant/conv_bn_quant.h"
#include "quant/qscale.h"

#define LEARN "optimizer=adam lr=2e-3 batch=32 threads=1 seed=1 valid=none "

/* ---- one step against PyTorch ---------------------------------------------------------------- */

static struct pare_flow one_conv(struct pare_net *n, struct pare_flow x)
{
    struct pare_conv c = { .out = 5, .kernel = 3, .pad = 1, .bias = true };

    return pare_net_batch_norm(n, pare_net_conv(n, x, "conv", c), "bn");
}

/* Parameters and running moments: names in the golden file and in the model. */
static const struct {
    const char *file, *grad, *after, *model;
} params[] = {
    { "weight", "dweight", NULL, "conv.weight" },    { "bias", NULL, NULL, "conv.bias" },
    { "gamma", "dgamma", NULL, "bn.weight" },        { "beta", "dbeta", NULL, "bn.bias" },
    { "mean", NULL, "new_mean", "bn.running_mean" }, { "var", NULL, "new_var", "bn.running_var" },
};
#define N_PARAMS (sizeof(params) / sizeof(*params))

struct step {
    struct pare_model *model;
    struct pare_trainer *trainer;
    struct pare_compression *compression;
};

static void open_step(struct step *s, struct golden *g, const char *name, const char *quantizer,
                      bool reference)
{
    static const struct pare_network net = { .name = "one", .build = one_conv };
    struct pare_network_opts no = { .c = 3, .h = 6, .w = 6, .classes = 10, .seed = 1 };
    const int64_t *how = pare_i64(find_array(g, name, "how"));
    struct pare_trainer_opts to = { .threads = 2, .reference = reference };
    struct pare_compression_opts ro = { .quantizer = quantizer, .threads = 2 };
    char config[256];

    snprintf(config, sizeof(config),
             "[{\"quant_types\": [\"weight\"], \"op_types\": [\"Conv2d\"], \"quant_bits\": %d, "
             "\"quant_dtype\": \"int\", \"quant_scheme\": \"per_%s_symmetric\"}]",
             (int)how[0], how[1] ? "tensor" : "channel");
    ro.config = config;
    ok(pare_network_make(&net, &no, &s->model, &rig_err));
    for (size_t i = 0; i < N_PARAMS; i++)
        memcpy(rig_weight(s->model, params[i].model)->data,
               find_array(g, name, params[i].file)->data,
               (size_t)pare_numel(find_array(g, name, params[i].file)) * sizeof(float));
    ok(pare_find_loss("mse", &to.loss, &rig_err));
    ok(pare_find_optimizer("sgd", &to.optimizer, &rig_err));
    to.loss_conf = pare_alloc(g->arena, to.loss->conf_size + 1, 1);
    to.optimizer_conf = pare_alloc(g->arena, to.optimizer->conf_size + 1, 1);
    ok(pare_trainer_new(s->model, &to, &s->trainer, &rig_err));
    ok(pare_compression_new(s->model, &ro, &s->compression, &rig_err));
    ok(pare_compression_attach(s->compression, s->trainer, NULL, 4, &rig_err));
    ok(pare_compression_compress(s->compression, &rig_err));
}

static void close_step(struct step *s)
{
    pare_trainer_free(s->trainer);
    pare_compression_free(s->compression);
    pare_model_free(s->model);
}

static void check_step(struct golden *g, const char *name, const char *quantizer, bool reference)
{
    struct pare_tensor *scale = find_array(g, name, "scale"), *gy = find_array(g, name, "gy"), out;
    struct step s;

    open_step(&s, g, name, quantizer, reference);
    if (scale) { /* not the initial one */
        *pare_f32_mut(pare_layer_scale(pare_compression_layer(s.compression, 0), PARE_WEIGHT, 1,
                                       &rig_err)) = *pare_f32_mut(scale);
        ok(pare_compression_write_weights(s.compression, &rig_err));
    }
    ok(pare_trainer_forward(s.trainer, find_array(g, name, "x"), &out, &rig_err));
    expect_close(name, "y", &out, find_array(g, name, "y"), 2e-5);
    memcpy(pare_plan_out_grad(s.trainer->plan[s.trainer->at]), gy->data,
           (size_t)pare_numel(gy) * sizeof(float));
    ok(pare_trainer_backward(s.trainer, &rig_err));
    for (size_t i = 0; i < N_PARAMS; i++) {
        int p = pare_trainer_param(s.trainer, params[i].model);

        if (params[i].grad)
            expect_close(name, params[i].grad, &s.trainer->grad[p],
                         find_array(g, name, params[i].grad), 5e-5);
        if (params[i].after)
            expect_close(name, params[i].after, rig_weight(s.model, params[i].model),
                         find_array(g, name, params[i].after), 1e-5);
    }
    if (find_array(g, name, "ds"))
        expect_close(name, "ds",
                     pare_layer_learn(pare_compression_layer(s.compression, 0), "weight_scale",
                                      &rig_err),
                     find_array(g, name, "ds"), 1e-4);
    close_step(&s);
}

static void test_steps_match_pytorch(void **state)
{
    static const char *const names[] = { "qat|channels8", "qat|channels3", "qat|whole4",
                                         "qat|small", "lsq|whole4" };
    struct golden g = { .arena = pare_arena_new(1 << 16) };

    (void)state;
    ok(pare_npz_read(g.arena, "golden/fold_bn.npz", &g.file, &g.n, &rig_err));
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        for (int reference = 0; reference < 2; reference++)
            check_step(&g, names[i], names[i][0] == 'q' ? "qat" : "lsq", reference);
    pare_arena_free(g.arena);
}

/* ---- running moments ------------------------------------------------------------------------- */

#define WEIGHTS(bits, more)                                                        \
    "[{\"quant_types\": [\"weight\"], \"op_types\": [\"Conv2d\", \"Linear\"], "    \
    "\"quant_dtype\": \"int\", \"quant_scheme\": \"per_channel_symmetric\", " more \
    "\"quant_bits\": " bits "}]"

static void expect_same_moments(struct pare_model *a, struct pare_model *b, double tolerance)
{
    static const char *const names[] = { "bn1.running_mean", "bn1.running_var", "bn2.running_mean",
                                         "bn2.running_var" };

    for (int i = 0; i < 4; i++) {
        struct pare_tensor *x = rig_weight(a, names[i]), *y = rig_weight(b, names[i]);

        if (tolerance > 0)
            expect_close(names[i], "moments", x, y, tolerance);
        else
            assert_memory_equal(x->data, y->data, (size_t)pare_numel(x) * sizeof(float));
    }
}

/* A model without quantization that has the quantized weights gets bit-identical moments. */
static void test_moments_match_the_convolution(void **state)
{
    struct job q = job_open(rig_model("small"), "qat", WEIGHTS("4", ""), NULL, LEARN);
    struct job f = job_open(rig_model("small"), NULL, NULL, NULL, LEARN);
    static const char *const names[] = { "conv1.weight", "conv2.weight", "fc1.weight",
                                         "fc2.weight" };
    struct pare_tensor x, y;

    (void)state;
    for (int i = 0; i < 4; i++)
        memcpy(rig_weight(f.model, names[i])->data, rig_weight(q.model, names[i])->data,
               (size_t)pare_numel(rig_weight(q.model, names[i])) * sizeof(float));
    ok(pare_training_next(q.training, &x, &y, &rig_err));
    for (int i = 0; i < 3; i++) {
        ok(pare_training_forward(q.training, &x, 1, NULL, &rig_err));
        ok(pare_training_forward(f.training, &x, 1, NULL, &rig_err));
    }
    expect_same_moments(q.model, f.model, 0);
    job_close(&q);
    job_close(&f);
}

/* With 16 bits, quantization changes almost nothing: training follows float training. */
static void test_moments_follow_float_training(void **state)
{
    const char *train = "optimizer=sgd lr=0.01 batch=32 threads=1 seed=1 valid=none epochs=1";
    struct job q = job_open(rig_model("small"), "qat", WEIGHTS("16", ""), NULL, train);
    struct job f = job_open(rig_model("small"), NULL, NULL, NULL, train);

    (void)state;
    ok(pare_training_run(q.training, NULL, NULL, &rig_err));
    ok(pare_training_run(f.training, NULL, NULL, &rig_err));
    expect_same_moments(q.model, f.model, 0.02);
    expect_close("conv2", "weight", rig_weight(q.model, "conv2.weight"),
                 rig_weight(f.model, "conv2.weight"), 0.02);
    job_close(&q);
    job_close(&f);
}

/* Before quant_start_step the weights are not quantized. */
static void test_start_step_delays_quantization(void **state)
{
    struct job q = job_open(rig_model("small"), "qat", WEIGHTS("4", "\"quant_start_step\": 1000, "),
                            NULL, LEARN);
    struct job f = job_open(rig_model("small"), NULL, NULL, NULL, LEARN);

    (void)state;
    assert_non_null(rig_layer(q.compression, "conv1")->quant->norm);
    assert_memory_equal(rig_weight(q.model, "conv1.weight")->data,
                        rig_weight(f.model, "conv1.weight")->data, 8 * 9 * sizeof(float));
    job_close(&q);
    job_close(&f);
}

/* ---- files ----------------------------------------------------------------------------------- */

static int count_nodes(const struct pare_model *m, const char *type)
{
    int n = 0;

    for (int i = 0; i < m->graph->n_nodes; i++)
        n += !strcmp(m->graph->node[i]->type, type);
    return n;
}

static void run_model(const struct pare_model *m, const struct pare_tensor *x, float *to)
{
    struct pare_plan_opts o = { .threads = 1, .in = x, .batch = x->dim[0] };
    struct pare_tensor out;
    struct pare_plan *p;

    ok(pare_plan_make(m, &o, &p, &rig_err));
    ok(pare_plan_execute(p, x, &out, &rig_err));
    memcpy(to, out.data, (size_t)pare_numel(&out) * sizeof(float));
    pare_plan_free(p);
}

/* Compares outputs of the model and of the exported file; they may differ by `most` times the
 * largest output. */
static void compare_with_file(struct job *j, double most, bool all_integers)
{
    struct pare_export e = { .onnx = NULL };
    struct pare_tensor x, y;
    struct pare_model *file;
    float out[2][32 * 10];
    double size = 0, off = 0;
    char path[64];

    snprintf(path, sizeof(path), "/tmp/pare-fold-%d.onnx", (int)getpid());
    e.onnx = path;
    ok(pare_compression_export(j->compression, &e, &rig_err));
    ok(pare_model_load(path, &file, &rig_err));
    ok(pare_training_next(j->training, &x, &y, &rig_err));
    run_model(j->model, &x, out[0]);
    run_model(file, &x, out[1]);
    for (int i = 0; i < 320; i++) {
        size = fmax(size, fabs((double)out[0][i]));
        off = fmax(off, fabs((double)out[0][i] - (double)out[1][i]));
    }
    if (!(off <= most * size))
        fail_msg("outputs of the file differ by %g, of %g", off, size);
    assert_int_equal(count_nodes(file, "BatchNormalization"), 0);
    assert_int_equal(pare_graph_find(file->graph, "conv2.weight_quantized")->t.dtype, PARE_I8);
    if (all_integers)
        assert_int_equal(pare_graph_find(file->graph, "conv2.bias_quantized")->t.dtype, PARE_I32);
    pare_model_free(file);
    unlink(path);
}

static void test_file_of_quantized_weights(void **state)
{
    struct job j = job_open(rig_model("small"), "qat", WEIGHTS("8", ""), NULL, LEARN "epochs=2");

    (void)state;
    ok(pare_training_run(j.training, NULL, NULL, &rig_err));
    compare_with_file(&j, 1e-5, false);
    job_close(&j);
}

/* Inputs and outputs are quantized, too, outputs of folded convolutions after the normalization.
 * Model and file compute the same integers except for rounding of ties. */
static void test_file_of_quantized_activations(void **state)
{
    const char *config =
        "[{\"quant_types\": [\"weight\", \"input\", \"output\"], \"op_types\": [\"Conv2d\", "
        "\"Linear\"], \"quant_bits\": 8, \"quant_dtype\": {\"weight\": \"int\"}, "
        "\"quant_scheme\": {\"weight\": \"per_channel_symmetric\"}}]";
    static const char *const quantizers[] = { "qat", "lsq_plus" };

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct job j = job_open(rig_model("small"), quantizers[i], config, NULL, LEARN "epochs=2");

        ok(pare_training_run(j.training, NULL, NULL, &rig_err));
        compare_with_file(&j, 0.03, true);
        job_close(&j);
    }
}

/* Channels with a scale of 0 or with zero weights are not quantized. */
static void test_channels_without_weights(void **state)
{
    struct pare_model *m = rig_model("small");
    struct job j;

    (void)state;
    pare_f32_mut(rig_weight(m, "bn1.weight"))[2] = 0;
    pare_f32_mut(rig_weight(m, "bn1.weight"))[3] = -0.8f;
    memset(pare_f32_mut(rig_weight(m, "conv1.weight")) + 4 * 9, 0, 9 * sizeof(float));
    j = job_open(m, "qat", WEIGHTS("8", ""), NULL, LEARN "epochs=1 limit=256");
    assert_memory_equal(pare_f32(rig_weight(m, "conv1.weight")) + 2 * 9,
                        pare_f32(&rig_layer(j.compression, "conv1")->w) + 2 * 9, 9 * sizeof(float));
    compare_with_file(&j, 1e-5, false);
    ok(pare_training_run(j.training, NULL, NULL, &rig_err));
    compare_with_file(&j, 1e-5, false);
    job_close(&j);
}

static void test_batch_norms_that_are_not_folded(void **state)
{
    const char *norms = "[{\"quant_types\": [\"weight\"], \"quant_bits\": 8, \"op_types\": "
                        "[\"Conv2d\", \"BatchNorm2d\"], \"quant_dtype\": \"int\"}]";
    struct job j = job_open(rig_model("small"), "qat", WEIGHTS("8", ""), "fold_bn=0", LEARN);

    (void)state;
    assert_null(rig_layer(j.compression, "conv1")->quant->norm);
    job_close(&j);
    j = job_open(rig_model("small"), "qat", norms, NULL,
                 LEARN); /* norms are quantized separately */
    assert_null(rig_layer(j.compression, "conv1")->quant->norm);
    job_close(&j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_match_pytorch),
        cmocka_unit_test(test_moments_match_the_convolution),
        cmocka_unit_test(test_moments_follow_float_training),
        cmocka_unit_test(test_start_step_delays_quantization),
        cmocka_unit_test(test_file_of_quantized_weights),
        cmocka_unit_test(test_file_of_quantized_activations),
        cmocka_unit_test(test_channels_without_weights),
        cmocka_unit_test(test_batch_norms_that_are_not_folded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

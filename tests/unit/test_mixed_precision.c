/* test_mixed_precision.c - mixed precision meets the accuracy bound with few changes of the right
 * layers. */
#include "quant_rig.h"

#include <unistd.h>

#include "onnx/model.h"
#include "train/train.h"

#define LEARN "optimizer=adam lr=2e-3 batch=32 threads=1 seed=1 "
#define CONFIG(bits)                                                                       \
    "[{\"quant_types\": [\"weight\", \"input\"], \"op_types\": [\"Conv2d\", \"Linear\"], " \
    "\"quant_dtype\": {\"weight\": \"int\"}, \"quant_bits\": " bits "}]"
#define MLP(bits)                                                                               \
    "[{\"quant_types\": [\"weight\", \"input\"], \"op_types\": [\"Linear\"], \"quant_dtype\": " \
    "{\"weight\": \"int\"}, \"quant_bits\": " bits "}]"
#define WEIGHTS                                                                 \
    "[{\"quant_types\": [\"weight\"], \"op_types\": [\"Conv2d\", \"Linear\"], " \
    "\"quant_bits\": 8, \"quant_dtype\": \"int\"}]"

/* Trained networks, packed in memory: one with normalizations, whose statistics would change in
 * quantized training, and one without. */
static struct pare_arena *arena;
static struct net {
    const char *name;
    void *bytes;
    size_t len;
    double accuracy;
} nets[2] = { { .name = "small" }, { .name = "mlp" } };
#define float_accuracy nets[0].accuracy

static int setup(void **state)
{
    (void)state;
    arena = pare_arena_new(1 << 16);
    for (struct net *n = nets; n < nets + 2; n++) {
        struct job j = job_open(rig_model(n->name), NULL, NULL, NULL, LEARN "epochs=6");

        ok(pare_training_run(j.training, NULL, NULL, &rig_err));
        n->accuracy = rig_accuracy(j.training);
        ok(pare_model_pack(j.model, arena, &n->bytes, &n->len, &rig_err));
        job_close(&j);
    }
    return nets[0].accuracy > 0.93 && nets[1].accuracy > 0.93 ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    pare_arena_free(arena);
    return 0;
}

static struct pare_model *trained_model(int net)
{
    struct pare_model *m;

    ok(pare_model_parse(nets[net].bytes, nets[net].len, NULL, &m, &rig_err));
    return m;
}

static int evaluate_accuracy(void *user, double *value, struct pare_err *err)
{
    const struct job *j = user;

    (void)err;
    *value = rig_accuracy(j->training);
    return 0;
}

/* ---- with measured accuracy ------------------------------------------------------------------ */

static void check_report(struct job *j, const struct pare_budget_report *p, double least)
{
    int kept = 0, below = -1;

    assert_true(p->met && p->accuracy >= least);
    for (int i = 0; i < p->n_steps; i++) {
        const struct pare_budget_step *s = &p->step[i];

        assert_true(s->holds == (s->accuracy >= least));
        if (s->holds)
            kept = s->changes;
        else if (s->changes > below)
            below = s->changes;
    }
    assert_int_equal(below, kept - 1); /* one change fewer was tried and is not enough */
    for (int i = 0; i < p->n_layers; i++) {
        const struct pare_layer *l = rig_layer(j->compression, p->layer[i].name);

        for (int k = 0; k < PARE_QUANT_SITES; k++)
            assert_int_equal(p->layer[i].bits[k],
                             l->quant->quantized[k] ? l->quant->site[k].bits : 0);
        assert_true(p->layer[i].noise_db < 60);
    }
}

/* The accuracy of the exported file. */
static double accuracy_of_file(struct job *j)
{
    char path[64];
    struct pare_export files = { .onnx = path };
    struct pare_eval_opts o = { .threads = 1, .loss = j->training->setup->trainer.loss };
    struct pare_model *m;
    struct pare_eval e;

    o.loss_conf = j->training->setup->trainer.loss_conf;
    snprintf(path, sizeof(path), "/tmp/pare-budget-%d.onnx", (int)getpid());
    ok(pare_compression_export(j->compression, &files, &rig_err));
    ok(pare_model_load(path, &m, &rig_err));
    ok(pare_evaluate_model(m, j->training->data[1], &o, arena, &e, &rig_err));
    pare_model_free(m);
    unlink(path);
    return (double)e.top1 / (double)e.n;
}

/* Starts from too few bits, after calibration or (network 1) some training. */
static void check_target(int net, const char *quantizer, const char *config, const char *settings,
                         double drop)
{
    struct pare_budget b = { .evaluate = evaluate_accuracy };
    struct pare_budget_report p;
    struct job j = job_open(trained_model(net), quantizer, config, settings,
                            LEARN "epochs=1 lr=1e-5");

    if (net == 1)
        ok(pare_training_run(j.training, NULL, NULL, &rig_err));
    b.user = &j;
    b.least = nets[net].accuracy - drop;
    assert_true(rig_accuracy(j.training) < b.least); /* otherwise nothing would change */
    ok(pare_compression_mixed_precision(j.compression, &b, &p, &rig_err));
    assert_true(p.n_layers > 0);
    check_report(&j, &p, b.least);
    assert_true(rig_accuracy(j.training) == p.accuracy);
    assert_true(accuracy_of_file(&j) >= b.least - 0.01);
    job_close(&j);
}

static void test_target_is_met_after_calibration(void **state)
{
    (void)state;
    check_target(0, "ptq", CONFIG("2"), NULL, 0.01);
    check_target(0, "ptq", CONFIG("2"), "observer=mse", 0.005);
    check_target(0, "ptq", CONFIG("3"), "observer=entropy", 0);
}

static void test_target_is_met_after_training(void **state)
{
    (void)state;
    check_target(1, "qat", MLP("2"), NULL, 0.01);
    check_target(1, "lsq", MLP("2"), NULL, 0.01);
    check_target(1, "lsq_plus", MLP("2"), NULL, 0.01);
}

/* ---- search ---------------------------------------------------------------------------------- */

/* A metric that requires a number of changes, or a layer to be float. */
struct requirement {
    struct job *j;
    int changes, evaluated;
    const char *layer;
};

static int count_float_layers(const struct pare_compression *r)
{
    int n = 0;

    for (int i = 0; i < r->n_layers; i++)
        n += !r->layer[i].quant->quantized[PARE_WEIGHT];
    return n;
}

static int evaluate_requirement(void *user, double *value, struct pare_err *err)
{
    struct requirement *w = user;

    (void)err;
    w->evaluated++;
    *value = w->layer ? !rig_layer(w->j->compression, w->layer)->quant->quantized[PARE_WEIGHT]
                      : count_float_layers(w->j->compression) >= w->changes;
    return 0;
}

/* From 8 bits the only change is to float: 0 to 4 layers become float. */
static void test_fewest_layers_become_float(void **state)
{
    (void)state;
    for (int k = 0; k <= 4; k++) {
        struct job j = job_open(trained_model(0), "ptq", WEIGHTS, NULL, LEARN);
        struct requirement w = { .j = &j, .changes = k };
        struct pare_budget b = { .least = 0.5, .evaluate = evaluate_requirement, .user = &w };
        struct pare_budget_report p;

        ok(pare_compression_mixed_precision(j.compression, &b, &p, &rig_err));
        assert_true(p.met);
        assert_int_equal(count_float_layers(j.compression), k);
        assert_int_equal(p.n_layers, k);
        assert_true(w.evaluated <= 5);
        for (int i = 1; i < k; i++) /* worst first */
            assert_true(p.layer[i - 1].noise_db <= p.layer[i].noise_db);
        for (int i = 0; i < 4; i++) { /* weights of float layers are bit-identical */
            struct pare_layer *l = pare_compression_layer(j.compression, i);
            size_t n = (size_t)pare_numel(&l->w) * sizeof(float);
            bool same = !memcmp(l->w.data, l->weight->t.data, n);

            assert_true(same == !l->quant->quantized[PARE_WEIGHT]);
        }
        job_close(&j);
    }
}

/* The most sensitive layer becomes float first: one of its weights is so large that all others of
 * the tensor become 0, but the input of that weight is always 0. */
static void test_most_sensitive_layer_becomes_float(void **state)
{
    static const char *const quantizers[] = { "ptq", "naive" };

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct pare_model *m = trained_model(0);
        struct pare_budget b = { .evaluate = evaluate_accuracy };
        struct pare_budget_report p;
        struct pare_tensor *w;
        struct job j;

        w = rig_weight(m, "fc2.weight");
        pare_f32_mut(rig_weight(m, "fc1.bias"))[3] = -1e6f; /* always 0 after the ReLU */
        pare_f32_mut(w)[3] = 1e4f;
        j = job_open(m, quantizers[i], WEIGHTS, NULL, LEARN "epochs=0");
        b.user = &j;
        b.least = float_accuracy - 0.05;
        assert_true(rig_accuracy(j.training) < 0.5);
        ok(pare_compression_mixed_precision(j.compression, &b, &p, &rig_err));
        check_report(&j, &p, b.least);
        assert_int_equal(p.n_layers, 1);
        assert_string_equal(p.layer[0].name, "fc2");
        assert_int_equal(p.layer[0].asked[PARE_WEIGHT], 8);
        assert_int_equal(p.layer[0].bits[PARE_WEIGHT], 0);
        assert_true(accuracy_of_file(&j) >= b.least);
        job_close(&j);
    }
}

static int evaluate_to_zero(void *user, double *value, struct pare_err *err)
{
    (void)user;
    (void)err;
    *value = 0;
    return 0;
}

/* A bound that cannot be met changes nothing. */
static void test_unreachable_target_changes_nothing(void **state)
{
    struct job j = job_open(trained_model(0), "ptq", CONFIG("2"), NULL, LEARN);
    struct pare_budget b = { .least = 0.5, .evaluate = evaluate_to_zero };
    struct pare_tensor before, *w = &pare_compression_layer(j.compression, 1)->weight->t;
    struct pare_budget_report p;
    double a = rig_accuracy(j.training);

    (void)state;
    ok(pare_tensor_new(arena, &before, PARE_F32, w->rank, w->dim, &rig_err));
    memcpy(before.data, w->data, (size_t)pare_numel(w) * sizeof(float));
    ok(pare_compression_mixed_precision(j.compression, &b, &p, &rig_err));
    assert_false(p.met);
    assert_int_equal(p.n_layers, 0);
    assert_int_equal(p.step[p.n_steps - 1].changes, 4 * 3); /* 4 bits, 8 bits, float */
    for (int i = 0; i < 4; i++)
        assert_int_equal(pare_compression_layer(j.compression, i)->quant->site[PARE_INPUT].bits, 2);
    assert_memory_equal(before.data, w->data, (size_t)pare_numel(w) * sizeof(float));
    assert_true(rig_accuracy(j.training) == a);
    job_close(&j);
}

static void test_wrong_calls_are_errors(void **state)
{
    struct pare_compression_opts o = { .quantizer = "naive", .config = WEIGHTS };
    struct pare_budget b = { .least = 0.5, .evaluate = evaluate_to_zero };
    struct pare_budget_report p;
    struct pare_compression *r;
    struct pare_model *m = trained_model(0);

    (void)state;
    ok(pare_compression_new(m, &o, &r, &rig_err));
    assert_int_equal(pare_compression_mixed_precision(r, &b, &p, &rig_err),
                     PARE_ECONFIG); /* before compress */
    ok(pare_compression_compress(r, &rig_err));
    assert_int_equal(pare_compression_mixed_precision(r, &b, &p, &rig_err), PARE_ECONFIG);
    assert_non_null(strstr(rig_err.msg, "needs data"));
    pare_compression_free(r);
    pare_model_free(m);
}

/* Scales that were exported after mixed precision give the same model. */
static void test_exported_scales_give_the_same_model(void **state)
{
    struct pare_export files = { .calibration = "budget.json.tmp" };
    struct job j = job_open(trained_model(0), "ptq", CONFIG("2"), NULL, LEARN), k;
    struct pare_compression_opts o = { .quantizer = "ptq", .config = CONFIG("2"), .threads = 1 };
    struct pare_budget b = { .evaluate = evaluate_accuracy, .user = &j };
    struct pare_budget_report p;
    int raised = 0;

    (void)state;
    b.least = nets[0].accuracy - 0.01;
    ok(pare_compression_mixed_precision(j.compression, &b, &p, &rig_err));
    for (int s = 0; s < PARE_QUANT_SITES; s++) /* one layer is float */
        j.compression->layer[2].quant->quantized[s] = false;
    ok(pare_compression_write_weights(j.compression, &rig_err));
    ok(pare_compression_export(j.compression, &files, &rig_err));
    k = (struct job){ .model = trained_model(0) };
    ok(pare_compression_new(k.model, &o, &k.compression, &rig_err));
    ok(pare_compression_calibrate(k.compression, files.calibration, &rig_err));
    ok(pare_compression_compress(k.compression, &rig_err));
    for (int i = 0; i < 4; i++) {
        const struct pare_layer *l = pare_compression_layer(j.compression, i),
                                *m = pare_compression_layer(k.compression, i);

        raised += l->quant->site[PARE_WEIGHT].bits != 2;
        for (int s = 0; s < PARE_QUANT_SITES; s++) {
            assert_int_equal(l->quant->quantized[s], m->quant->quantized[s]);
            if (l->quant->quantized[s])
                assert_int_equal(l->quant->site[s].bits, m->quant->site[s].bits);
        }
        assert_memory_equal(l->weight->t.data, m->weight->t.data,
                            (size_t)pare_numel(&l->w) * sizeof(float));
    }
    assert_true(raised > 0);
    pare_compression_free(k.compression);
    o.config = CONFIG("3"); /* another config does not match the file */
    ok(pare_compression_new(k.model, &o, &k.compression, &rig_err));
    assert_int_equal(pare_compression_calibrate(k.compression, files.calibration, &rig_err),
                     PARE_ECONFIG);
    job_close(&k);
    job_close(&j);
    remove(files.calibration);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exported_scales_give_the_same_model),
        cmocka_unit_test(test_target_is_met_after_calibration),
        cmocka_unit_test(test_target_is_met_after_training),
        cmocka_unit_test(test_fewest_layers_become_float),
        cmocka_unit_test(test_most_sensitive_layer_becomes_float),
        cmocka_unit_test(test_unreachable_target_changes_nothing),
        cmocka_unit_test(test_wrong_calls_are_errors),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}

/* test_pruner_train.c - pruners that need training, on the digits: the sparsity is exact, training
 * continues, and the accuracy is kept. */
#include "prune_rig.h"

#include "prune/sparsity_schedule.h"

#define LEARN "optimizer=adam lr=2e-3 batch=32 threads=1 seed=1"
#define CONFIG(s, types) "[{\"sparsity\": " s ", \"op_types\": [" types "]}]"

/* A trained network, packed in memory. */
struct packed_model {
    void *bytes;
    size_t len;
};

static struct pare_arena *arena;
static struct packed_model small, lenet;

struct job {
    struct pare_model *model;
    struct pare_training *training;
    struct pare_compression *compression;
    int64_t epoch, steps;
};

static void job_epoch(struct job *j, int64_t most)
{
    struct pare_tensor x, y, out;
    double loss;

    ok(pare_training_update_epoch(j->training, j->epoch++, &rig_err));
    for (int64_t i = 0; i < most; i++) {
        ok(pare_training_next(j->training, &x, &y, &rig_err));
        if (!x.data)
            return;
        ok(pare_training_forward(j->training, &x, 1, &out, &rig_err));
        ok(pare_training_loss(j->training, &y, &loss, &rig_err));
        assert_true(isfinite(loss));
        ok(pare_training_backward(j->training, &rig_err));
        ok(pare_training_optimize(j->training, &rig_err));
        ok(pare_training_step(j->training, &rig_err));
        j->steps++;
    }
}

static void job_epochs(struct job *j, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        job_epoch(j, INT64_MAX);
}

static void job_begin(struct job *j, const struct packed_model *f, const char *pruner,
                      const char *config, const char *settings)
{
    memset(j, 0, sizeof(*j));
    ok(pare_model_parse(f->bytes, f->len, NULL, &j->model, &rig_err));
    ok(pare_training_open(j->model, "digits", LEARN, &j->training, &rig_err));
    j->compression = rig_compression(j->model, pruner, config, settings);
    ok(pare_compression_follow(j->compression, j->training, &rig_err));
    ok(pare_compression_compress(j->compression, &rig_err));
}

static void job_open(struct job *j, const char *pruner, const char *config, const char *settings)
{
    job_begin(j, &small, pruner, config, settings);
}

/* Trains for as long as the pruner needs, and starts the next epoch. */
static void job_train(struct job *j)
{
    int64_t epochs, steps;

    ok(pare_compression_length(j->compression, &epochs, &steps, &rig_err));
    job_epochs(j, epochs);
    while (j->steps < steps)
        job_epoch(j, steps - j->steps);
    ok(pare_training_update_epoch(j->training, j->epoch, &rig_err));
}

static void job_close(struct job *j)
{
    pare_training_free(j->training);
    pare_compression_free(j->compression);
    pare_model_free(j->model);
}

static void train_network(const char *network, struct packed_model *f)
{
    struct job j = { .model = rig_model(network) };

    ok(pare_training_open(j.model, "digits", LEARN, &j.training, &rig_err));
    job_epochs(&j, 6);
    assert_true(rig_accuracy(j.training) > 0.9);
    ok(pare_model_pack(j.model, arena, &f->bytes, &f->len, &rig_err));
    job_close(&j);
}

static int setup(void **state)
{
    (void)state;
    arena = pare_arena_new(1 << 16);
    train_network("small", &small);
    train_network("lenet", &lenet);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    pare_arena_free(arena);
    return 0;
}

/* Exactly int(n * sparsity) of n units are removed. */
static void expect_sparsity(struct pare_compression *r, double sparsity)
{
    for (int i = 0; i < pare_compression_layers(r); i++) {
        struct pare_layer *l = pare_compression_layer(r, i);
        const struct pare_units *u = pare_layer_units(l);
        int64_t size = pare_numel(pare_layer_weight(l)) / u->n;

        if (rig_removed(l) != (int64_t)((double)u->n * sparsity) * size)
            fail_msg("layer %s: %lld of %lld weights are removed, expected a fraction of %g",
                     pare_layer_name(l), (long long)rig_removed(l),
                     (long long)pare_numel(pare_layer_weight(l)), sparsity);
    }
}

/* The model's weights are weight * mask, and training changes the remaining ones. */
static void expect_training_continues(struct job *j, double least)
{
    struct pare_layer *l = pare_compression_layer(j->compression, 0);
    int64_t n = pare_numel(pare_layer_weight(l)), removed = rig_removed(l), changed = 0;
    float *before = pare_alloc(arena, (size_t)n, sizeof(float));
    const uint8_t *mask = pare_layer_mask(l)->data;

    memcpy(before, pare_layer_weight(l)->data, (size_t)n * sizeof(float));
    job_epochs(j, 2);
    assert_int_equal(rig_removed(l), removed);
    for (int64_t i = 0; i < n; i++) {
        assert_true(pare_f32(&l->weight->t)[i] == (mask[i] ? pare_f32(&l->w)[i] : 0));
        changed += pare_f32(&l->w)[i] != before[i];
    }
    assert_true(changed > 0);
    if (!(rig_accuracy(j->training) >= least))
        fail_msg("accuracy is %.3f, expected at least %.3f", rig_accuracy(j->training), least);
}

/* ---- statistics ----------------------------------------------------------------------------- */

static void test_taylor(void **state)
{
    struct job j;

    (void)state;
    job_open(&j, "taylor", "[{\"sparsity\": 0.5, \"op_names\": [\"conv1\", \"conv2\", \"fc1\"]}]",
             "training_steps=30");
    job_epoch(&j, 29);
    expect_sparsity(j.compression, 0);
    job_epoch(&j, 1);
    expect_sparsity(j.compression, 0.5);
    expect_training_continues(&j, 0.8);
    job_close(&j);
}

static void test_apoz_and_mean_rank(void **state)
{
    static const char *const pruner[] = { "apoz", "mean_rank" };

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct job j;

        job_open(&j, pruner[i], CONFIG("0.5", "\"Conv2d\""), "training_steps=5");
        expect_sparsity(j.compression, 0.5);
        assert_null(j.compression->collectors);
        expect_training_continues(&j, 0.85);
        job_close(&j);
    }
}

/* Penalized scales end smaller than others; half of all channels are removed. */
static void test_slim(void **state)
{
    static const char *const settings[] = { "training_epochs=2 scale=0",
                                            "training_epochs=2 scale=0.01" };
    double sum[2] = { 0, 0 };

    (void)state;
    for (int i = 0; i < 2; i++) {
        int64_t removed = 0;
        struct job j;

        job_open(&j, "slim", CONFIG("0.5", "\"BatchNorm2d\""), settings[i]);
        job_epochs(&j, 2);
        expect_sparsity(j.compression, 0);
        ok(pare_training_update_epoch(j.training, 2, &rig_err));
        for (int k = 0; k < pare_compression_layers(j.compression); k++) {
            struct pare_layer *l = pare_compression_layer(j.compression, k);

            removed += rig_removed(l);
            for (int64_t c = 0; c < pare_numel(pare_layer_weight(l)); c++)
                sum[i] += (double)fabsf(pare_f32(pare_layer_weight(l))[c]);
        }
        assert_int_equal(removed, 12);
        expect_training_continues(&j, 0.8);
        job_close(&j);
    }
    assert_true(sum[1] < 0.97 * sum[0]);
}

/* The penalty is in the loss that is reported. */
static void test_slim_penalty_is_in_the_loss(void **state)
{
    struct pare_tensor x, y, out;
    double loss[2];

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct job j;

        job_open(&j, "slim", CONFIG("0.5", "\"BatchNorm2d\""), i ? "scale=1" : "scale=0");
        ok(pare_training_update_epoch(j.training, 0, &rig_err));
        ok(pare_training_next(j.training, &x, &y, &rig_err));
        ok(pare_training_forward(j.training, &x, 1, &out, &rig_err));
        ok(pare_training_loss(j.training, &y, &loss[i], &rig_err));
        for (int k = 0; i && k < 2; k++)
            for (int64_t c = 0; c < pare_layer_units(pare_compression_layer(j.compression, k))->n;
                 c++)
                loss[0] += (double)fabsf(
                    pare_f32(pare_layer_weight(pare_compression_layer(j.compression, k)))[c]);
        job_close(&j);
    }
    expect_near(loss[1], loss[0], 1e-5);
}

/* ---- schedules ------------------------------------------------------------------------------ */

static void test_schedule_by_iterations(void **state)
{
    static const struct {
        const char *pruner;
        pare_curve *curve;
    } c[] = { { "agp", pare_sparsity_cubic }, { "linear", pare_sparsity_linear } };

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct job j;

        job_open(&j, c[i].pruner, CONFIG("0.8", "\"default\""),
                 "total_iteration=3 epochs_per_iteration=2");
        for (int64_t e = 0; e < 8; e++) {
            job_epoch(&j, e < 2 ? 3 : 20);
            expect_sparsity(j.compression, pare_sparsity_times(c[i].curve, 0.8, e / 2, 3));
        }
        expect_training_continues(&j, 0.85);
        job_close(&j);
    }
}

/* NNI's older keys: every second epoch from 1 to 5. */
static void test_schedule_by_epochs(void **state)
{
    const struct pare_epochs p = { 0.2, 0.8, 1, 6, 2 };
    struct job j;
    int64_t epochs, steps;

    (void)state;
    job_open(
        &j, "agp",
        "[{\"initial_sparsity\": 0.2, \"final_sparsity\": 0.8, \"start_epoch\": 1, \"end_epoch\": "
        "6, \"frequency\": 2, \"op_types\": [\"default\"]}]",
        NULL);
    ok(pare_compression_length(j.compression, &epochs, &steps, &rig_err));
    assert_int_equal(epochs, 6);
    for (int64_t e = 0; e < 7; e++) {
        job_epoch(&j, 10);
        expect_sparsity(j.compression,
                        e ? pare_sparsity_epochs(&p, pare_sparsity_cubic, 1 + (e - 1) / 2 * 2) : 0);
    }
    job_close(&j);
}

static void test_schedule_by_steps(void **state)
{
    struct job j;
    int64_t epochs, steps;

    (void)state;
    job_open(&j, "agp", CONFIG("0.8", "\"default\""), "interval_steps=10 total_times=4");
    ok(pare_compression_length(j.compression, &epochs, &steps, &rig_err));
    assert_int_equal(epochs, 0);
    assert_int_equal(steps, 40);
    for (int i = 1; i <= 4; i++) {
        job_epoch(&j, 9);
        expect_sparsity(j.compression, pare_sparsity_times(pare_sparsity_cubic, 0.8, i - 1, 4));
        job_epoch(&j, 1);
        expect_sparsity(j.compression, pare_sparsity_times(pare_sparsity_cubic, 0.8, i, 4));
    }
    expect_training_continues(&j, 0.8);
    job_close(&j);
}

/* Base pruners that need steps or batches observe new ones for each mask. */
static void test_schedule_with_base_pruners(void **state)
{
    static const char *const settings[] = { "base=l1", "base=fpgm", "base=taylor training_steps=5",
                                            "base=apoz training_steps=5", "base=random" };
    char text[128];

    (void)state;
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        struct job j;

        snprintf(text, sizeof(text), "%s total_iteration=2", settings[i]);
        job_open(&j, "linear", CONFIG("0.5", "\"Conv2d\""), text);
        for (int e = 0; e <= 2; e++) {
            job_epoch(&j, 12);
            expect_sparsity(j.compression, 0.25 * e);
        }
        assert_true(rig_accuracy(j.training) > 0.2);
        job_close(&j);
    }
}

static void test_wrong_settings_are_errors(void **state)
{
    static const struct {
        const char *pruner, *config, *settings, *message;
    } c[] = {
        { "agp",
          "[{\"initial_sparsity\": 0.9, \"final_sparsity\": 0.8, \"op_types\": [\"default\"]}]",
          NULL, "initial_sparsity 0.9 is more than final_sparsity 0.8" },
        { "linear",
          "[{\"final_sparsity\": 0.8, \"end_epoch\": 3, \"frequency\": 3, \"op_types\": "
          "[\"default\"]}]",
          NULL, "end_epoch must be at least 4" },
        { "movement", CONFIG("0.5", "\"default\""), "warm_up_step=5 cool_down_beginning_step=5",
          "expected more than warm_up_step" },
        { "movement", CONFIG("0.5", "\"default\""), "training_steps=5", "at least cool_down" },
        { "apoz",
          "[{\"sparsity\": 0.5, \"op_types\": [\"Conv2d\"], \"granularity\": \"in_channel\"}]",
          NULL, "use granularity out_channel or head" },
        { "fpgm", "[{\"sparsity\": 0.5, \"op_types\": [\"Conv2d\"], \"granularity\": \"element\"}]",
          NULL, "not single weights" },
        { "nm", "[{\"n\": 3, \"m\": 2, \"op_types\": [\"Conv2d\"]}]", NULL, "n is 3" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
        struct pare_model *m;
        struct pare_training *training;
        struct pare_compression *r;

        ok(pare_model_parse(small.bytes, small.len, NULL, &m, &rig_err));
        ok(pare_training_open(m, "digits", LEARN, &training, &rig_err));
        r = rig_compression(m, c[i].pruner, c[i].config, c[i].settings);
        ok(pare_compression_follow(r, training, &rig_err));
        assert_int_equal(pare_compression_compress(r, &rig_err), PARE_ECONFIG);
        if (!strstr(rig_err.msg, c[i].message))
            fail_msg("\"%s\", expected \"%s\"", rig_err.msg, c[i].message);
        pare_training_free(training);
        pare_compression_free(r);
        pare_model_free(m);
    }
}

/* ---- batches of the caller ------------------------------------------------------------------- */

/* A training without a data set takes batches; agp prunes only if its hooks are called, and an
 * export before that is refused. */
static void test_own_batches(void **state)
{
    static float pixel[32 * 64];
    static int64_t label[32];
    struct pare_training_opts o = { .size = sizeof(o), .settings = LEARN " epochs=4" };
    struct pare_export files = { .size = sizeof(files), .masks = "own-batches.npz" };
    struct pare_tensor x = { PARE_F32, 4, { 32, 1, 8, 8 }, pixel }, out;
    struct pare_tensor y = { PARE_I64, 1, { 32 }, label }, none;
    struct pare_epoch_result r;
    struct job j = { 0 };
    double loss[2];

    (void)state;
    for (int i = 0; i < 32 * 64; i++)
        pixel[i] = (float)(i * 7919 % 101) / 101 + (float)(i / 64 % 4 == i % 4);
    for (int i = 0; i < 32; i++)
        label[i] = i % 4;
    o.epoch_steps = 10;
    ok(pare_model_parse(small.bytes, small.len, NULL, &j.model, &rig_err));
    ok(pare_training_new(j.model, &o, &j.training, &rig_err));
    assert_int_not_equal(pare_training_next(j.training, &none, &none, &rig_err), 0);
    assert_non_null(strstr(rig_err.msg, "the training has no data set"));
    assert_int_not_equal(pare_training_run(j.training, NULL, NULL, &rig_err), 0);
    assert_int_not_equal(pare_training_validate(j.training, &r, &rig_err), 0);
    j.compression = rig_compression(j.model, "agp", CONFIG("0.5", "\"default\""),
                                    "total_iteration=3");
    ok(pare_compression_follow(j.compression, j.training, &rig_err));
    ok(pare_compression_compress(j.compression, &rig_err));
    assert_int_not_equal(pare_compression_export(j.compression, &files, &rig_err), 0);
    assert_non_null(strstr(rig_err.msg, "agp has masked nothing yet"));
    for (int i = 0; i < 40; i++) {
        if (i % 10 == 0)
            ok(pare_training_update_epoch(j.training, i / 10, &rig_err));
        ok(pare_training_forward(j.training, &x, 1, &out, &rig_err));
        ok(pare_training_loss(j.training, &y, &loss[i > 0], &rig_err));
        ok(pare_training_backward(j.training, &rig_err));
        ok(pare_training_optimize(j.training, &rig_err));
        ok(pare_training_step(j.training, &rig_err));
    }
    assert_true(loss[1] < loss[0] / 2);
    expect_sparsity(j.compression, 0.5);
    ok(pare_compression_export(j.compression, &files, &rig_err));
    job_close(&j);
    remove(files.masks);
}

/* ---- the other pruners ----------------------------------------------------------------------- */

/* After each iteration the weights are reset to their initial values. */
static void test_lottery_ticket(void **state)
{
    struct pare_model *first;
    struct job j;

    (void)state;
    ok(pare_model_parse(small.bytes, small.len, NULL, &first, &rig_err));
    job_open(&j, "lottery_ticket", CONFIG("0.8", "\"default\""), "prune_iterations=3");
    for (int e = 0; e <= 4; e++) {
        ok(pare_training_update_epoch(j.training, e, &rig_err));
        expect_sparsity(j.compression, pare_sparsity_rounds(0.8, e < 3 ? e : 3, 3));
        for (int i = 0; i < pare_compression_layers(j.compression) && e < 4; i++) {
            struct pare_layer *l = pare_compression_layer(j.compression, i);

            assert_memory_equal(pare_layer_weight(l)->data,
                                rig_weight(first, l->weight->name)->data,
                                (size_t)pare_numel(pare_layer_weight(l)) * sizeof(float));
        }
        j.epoch = e;
        if (e < 4)
            job_epoch(&j, 20);
    }
    expect_training_continues(&j, 0.85);
    job_close(&j);
    pare_model_free(first);
}

/* With rho > 0, the removed weights are smaller. */
static void test_admm(void **state)
{
    double cut[2];

    (void)state;
    for (int i = 0; i < 2; i++) {
        double removed = 0, all = 0;
        struct job j;

        job_open(&j, "admm",
                 i ? "[{\"sparsity\": 0.8, \"op_types\": [\"default\"], \"rho\": 0.1}]"
                   : "[{\"sparsity\": 0.8, \"op_types\": [\"default\"], \"rho\": 0}]",
                 "iterations=3 training_epochs=1");
        job_epochs(&j, 3);
        expect_sparsity(j.compression, 0);
        ok(pare_training_update_epoch(j.training, 3, &rig_err));
        expect_sparsity(j.compression, 0.8);
        for (int k = 0; k < pare_compression_layers(j.compression); k++) {
            struct pare_layer *l = pare_compression_layer(j.compression, k);

            for (int64_t c = 0; c < pare_numel(&l->w); c++) {
                double square = pow((double)pare_f32(&l->w)[c], 2);

                all += square;
                removed += ((uint8_t *)l->mask.data)[c] ? 0 : square;
            }
        }
        cut[i] = removed / all;
        expect_training_continues(&j, 0.85);
        job_close(&j);
    }
    assert_true(cut[1] < 0.8 * cut[0]);
}

/* Scores are trained until step 60; until then removed weights may return. */
static void test_movement(void **state)
{
    static const char *const config[] = {
        CONFIG("0.8", "\"default\""),
        "[{\"sparsity\": 0.5, \"op_types\": [\"Conv2d\"], \"granularity\": \"out_channel\"}]"
    };

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct pare_layer *l;
        int64_t back = 0;
        uint8_t *old;
        struct job j;

        job_open(&j, "movement", config[i],
                 "warm_up_step=10 cool_down_beginning_step=40 training_steps=60");
        l = pare_compression_layer(j.compression, 1);
        old = pare_alloc(arena, (size_t)pare_numel(&l->w), 1);
        job_epoch(&j, 10);
        expect_sparsity(j.compression, 0);
        for (int s = 11; s <= 60; s++) {
            memcpy(old, l->mask.data, (size_t)pare_numel(&l->w));
            job_epoch(&j, 1);
            expect_sparsity(j.compression, pare_sparsity_window(s, 10, 40) * (i ? 0.5 : 0.8));
            for (int64_t k = 0; k < pare_numel(&l->w); k++)
                back += !old[k] && ((uint8_t *)l->mask.data)[k];
        }
        assert_true(i || back > 0);
        expect_training_continues(&j, 0.8);
        job_close(&j);
    }
}

static void test_soft_movement(void **state)
{
    struct job j;

    (void)state;
    job_open(&j, "movement", CONFIG("0.5", "\"default\""),
             "movement_mode=soft warm_up_step=10 cool_down_beginning_step=50 regular_scale=1");
    job_train(&j);
    for (int i = 0; i < pare_compression_layers(j.compression); i++) {
        struct pare_layer *l = pare_compression_layer(j.compression, i);
        const float *s = pare_f32(
            pare_layer_buffer(l, "score", PARE_F32, 1, &pare_layer_units(l)->n, &rig_err));

        assert_true(rig_removed(l) > 0 && rig_removed(l) < pare_numel(&l->w));
        for (int64_t k = 0; k < pare_numel(&l->w); k++)
            assert_int_equal(((uint8_t *)l->mask.data)[k], s[k] > 0);
    }
    expect_training_continues(&j, 0.8);
    job_close(&j);
}

/* Settings for a short training. */
static const char *short_settings(const char *pruner)
{
    static const char *const all[][2] = { { "agp", "total_iteration=2" },
                                          { "linear", "total_iteration=2" },
                                          { "lottery_ticket", "prune_iterations=2" },
                                          { "admm", "iterations=2 training_epochs=1" },
                                          { "movement", "cool_down_beginning_step=30" },
                                          { "slim", "training_epochs=1" } };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (!strcmp(all[i][0], pruner))
            return all[i][1];
    return NULL;
}

/* Every pruner must finish; slim on a model with batch normalization, which LeNet lacks. */
static void test_every_pruner(void **state)
{
    (void)state;
    for (int i = 0; pare_pruners[i]; i++) {
        const char *name = pare_pruners[i]->name;
        bool slim_one = !strcmp(name, "slim");
        int64_t removed = 0, all = 0;
        struct job j;

        job_begin(&j, slim_one ? &small : &lenet, name,
                  slim_one ? CONFIG("0.5", "\"BatchNorm2d\"")
                           : "[{\"sparsity\": 0.5, \"op_names\": [\"conv1\", \"conv2\", \"fc1\"]}]",
                  short_settings(name));
        job_train(&j);
        for (int k = 0; k < pare_compression_layers(j.compression); k++) {
            removed += rig_removed(pare_compression_layer(j.compression, k));
            all += pare_numel(pare_layer_weight(pare_compression_layer(j.compression, k)));
        }
        if (removed * 2 < all - all / 50 || removed * 2 > all + all / 50)
            fail_msg("%s: %lld of %lld weights are removed, expected half", name,
                     (long long)removed, (long long)all);
        job_epochs(&j, 1);
        if (!(rig_accuracy(j.training) > (slim_one ? 0.6 : 0.85)))
            fail_msg("%s: accuracy is %.3f", name, rig_accuracy(j.training));
        job_close(&j);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_taylor),
        cmocka_unit_test(test_apoz_and_mean_rank),
        cmocka_unit_test(test_slim),
        cmocka_unit_test(test_slim_penalty_is_in_the_loss),
        cmocka_unit_test(test_schedule_by_iterations),
        cmocka_unit_test(test_schedule_by_epochs),
        cmocka_unit_test(test_schedule_by_steps),
        cmocka_unit_test(test_schedule_with_base_pruners),
        cmocka_unit_test(test_wrong_settings_are_errors),
        cmocka_unit_test(test_lottery_ticket),
        cmocka_unit_test(test_own_batches),
        cmocka_unit_test(test_admm),
        cmocka_unit_test(test_movement),
        cmocka_unit_test(test_soft_movement),
        cmocka_unit_test(test_every_pruner),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}

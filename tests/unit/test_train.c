/* test_train.c - the training loop: convergence, determinism, early stop, resume, freezing. */
#include <setjmp.h>
#include <stdarg.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/arena.h"
#include "graph/graph.h"
#include "train/train_options.h"

static struct pare_err err;
static char dir[64];

static int setup(void **state)
{
    (void)state;
    snprintf(dir, sizeof(dir), "/tmp/pare-train-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    return rmdir(dir);
}

/* A training of a small network on digits. */
struct job {
    struct pare_arena *arena;
    struct pare_model *model;
    struct pare_train_options *setup;
    struct pare_data *data[2];
    struct pare_trainer *trainer;
    struct pare_train_result result;
    struct pare_epoch last;
    volatile int stop;
    int64_t stop_after; /* batches; 0: never */
    int64_t batches, epochs;
};

static void on_batch(void *user, const struct pare_train_status *p)
{
    struct job *j = user;

    assert_true(p->batch >= 1 && p->batch <= p->batches);
    j->batches++;
    if (j->stop_after && j->batches == j->stop_after)
        j->stop = 1;
}

static void on_epoch(void *user, const struct pare_epoch *e)
{
    struct job *j = user;

    j->last = *e;
    j->epochs++;
}

static int job_open(struct job *j, const char *network, const char *settings)
{
    struct pare_given *g;
    int n;

    j->arena = pare_arena_new(1 << 16);
    assert_int_equal(pare_model_new(network, (int64_t[]){ 1, 8, 8 }, 10, 1, &j->model, &err), 0);
    PARE_TRY(pare_given_split(settings, j->arena, &g, &n, &err));
    PARE_TRY(pare_train_options_make(g, n, false, j->arena, &j->setup, &err));
    PARE_TRY(pare_train_options_data(j->setup, j->model, "digits", NULL, j->data, &err));
    j->setup->train.user = j;
    j->setup->train.on_batch = on_batch;
    j->setup->train.on_epoch = on_epoch;
    j->setup->train.stop = &j->stop;
    return pare_trainer_new(j->model, &j->setup->trainer, &j->trainer, &err);
}

static int job_run(struct job *j)
{
    return pare_train(j->trainer, j->data[0], j->data[1], &j->setup->train, &j->result, &err);
}

static void job_close(struct job *j)
{
    pare_trainer_free(j->trainer);
    pare_data_free(j->data[0]);
    pare_data_free(j->data[1]);
    pare_model_free(j->model);
    pare_arena_free(j->arena);
}

static void job_open_and_run(struct job *j, const char *network, const char *settings)
{
    if (job_open(j, network, settings) || job_run(j))
        fail_msg("%s", err.msg);
}

static void expect_same_weights(const struct pare_model *a, const struct pare_model *b)
{
    for (int i = 0; i < a->graph->n_values; i++) {
        const struct pare_value *v = a->graph->value[i], *w = b->graph->value[i];

        if (v->flags & PARE_V_CONST && v->t.dtype == PARE_F32)
            assert_memory_equal(v->t.data, w->t.data, (size_t)pare_numel(&v->t) * sizeof(float));
    }
}

#define QUICK "optimizer=adam lr=2e-3 batch=32 threads=1 seed=1 "

static void test_training_converges(void **state)
{
    static const char *const network[] = { "lenet", "mlp" };

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct job j = { 0 };

        job_open_and_run(&j, network[i], QUICK "epochs=12 schedule=onecycle lr=1e-2");
        assert_true(j.result.best >= 0.97);
        assert_int_equal(j.epochs, 12);
        assert_int_equal(j.result.steps, 12 * 45);
        job_close(&j);
    }
}

static void test_training_is_deterministic(void **state)
{
    struct job a = { 0 }, b = { 0 }, c = { 0 };

    (void)state;
    job_open_and_run(&a, "lenet", QUICK "epochs=2 limit=200 pad=1");
    job_open_and_run(&b, "lenet", QUICK "epochs=2 limit=200 pad=1 prefetch=false");
    expect_same_weights(a.model, b.model);
    job_open_and_run(&c, "lenet", QUICK "epochs=2 limit=200 pad=1 seed=2");
    assert_true(c.last.train.loss != a.last.train.loss);
    job_close(&a);
    job_close(&b);
    job_close(&c);
}

/* Stopped twice in the middle of an epoch, with every kind of state. */
static void test_resume_is_exact(void **state)
{
    static const char settings[] = QUICK
        "epochs=3 limit=200 pad=1 schedule=cosine clip_norm=1 patience=5 %s%s";
    char path[96], text[256];
    struct job whole = { 0 };

    (void)state;
    snprintf(path, sizeof(path), "%s/k.safetensors", dir);
    snprintf(text, sizeof(text), settings, "", "");
    job_open_and_run(&whole, "lenet", text);
    snprintf(text, sizeof(text), settings, "resume checkpoint=", path);
    for (int64_t at = 4; at <= 9; at += 5) {
        struct job j = { .stop_after = at };

        job_open_and_run(&j, "lenet", text);
        assert_true(j.result.stopped);
        job_close(&j);
    }
    struct job rest = { 0 };

    job_open_and_run(&rest, "lenet", text);
    assert_false(rest.result.stopped);
    assert_int_equal(rest.result.steps, whole.result.steps);
    assert_true(rest.last.train.loss == whole.last.train.loss);
    assert_true(rest.last.top1 == whole.last.top1 && rest.result.best == whole.result.best);
    expect_same_weights(whole.model, rest.model);
    job_close(&rest);
    job_close(&whole);

    struct job other = { 0 };

    snprintf(text, sizeof(text), QUICK "epochs=3 resume checkpoint=%s", path);
    assert_int_equal(job_open(&other, "mlp", text), 0);
    assert_int_not_equal(job_run(&other), 0); /* another model's checkpoint */
    assert_non_null(strstr(err.msg, "k.safetensors"));
    job_close(&other);
    unlink(path);
}

static void test_keep_best_and_patience(void **state)
{
    struct job j = { 0 };
    struct pare_eval e;
    struct pare_eval_opts o = { .threads = 1 };

    (void)state;
    job_open_and_run(&j, "mlp", "optimizer=adam lr=0.3 epochs=50 patience=2 threads=1 limit=200");
    assert_true(j.result.epochs < 50);
    o.loss = j.setup->trainer.loss;
    o.loss_conf = j.setup->trainer.loss_conf;
    assert_int_equal(pare_evaluate_model(j.model, j.data[1], &o, j.arena, &e, &err), 0);
    assert_true((double)e.top1 / (double)e.n == j.result.best);
    job_close(&j);
}

static void test_frozen_parameters_do_not_change(void **state)
{
    struct job j = { 0 }, bad = { 0 };
    struct pare_model *fresh;
    int same = 0, other = 0;

    (void)state;
    assert_int_equal(pare_model_new("lenet", (int64_t[]){ 1, 8, 8 }, 10, 1, &fresh, &err), 0);
    job_open_and_run(&j, "lenet", QUICK "epochs=1 limit=64 freeze=conv*,fc1.weight");
    for (int i = 0; i < fresh->graph->n_values; i++) {
        const struct pare_value *v = fresh->graph->value[i], *w = j.model->graph->value[i];

        if (!(v->flags & PARE_V_CONST))
            continue;
        if (memcmp(v->t.data, w->t.data, (size_t)pare_numel(&v->t) * sizeof(float)))
            other++;
        else
            same++;
    }
    assert_int_equal(same, 5);
    assert_int_equal(other, 3);
    assert_int_not_equal(job_open(&bad, "lenet", QUICK "freeze=conv9"), 0);
    assert_non_null(strstr(err.msg, "conv9"));
    job_close(&j);
    job_close(&bad);
    pare_model_free(fresh);
}

static void test_infinite_loss_is_an_error(void **state)
{
    struct job j = { 0 };

    (void)state;
    assert_int_equal(job_open(&j, "lenet", "lr=1e9 threads=1 epochs=2"), 0);
    assert_int_not_equal(job_run(&j), 0);
    assert_non_null(strstr(err.msg, "node '"));
    assert_non_null(strstr(err.msg, "not finite"));
    assert_non_null(strstr(err.msg, "epoch"));
    job_close(&j);
}

static void test_training_with_a_teacher(void **state)
{
    struct job teacher = { 0 }, student = { 0 };
    char path[96], text[256];

    (void)state;
    snprintf(path, sizeof(path), "%s/t.onnx", dir);
    job_open_and_run(&teacher, "lenet", QUICK "epochs=4");
    assert_int_equal(pare_model_save(teacher.model, path, NULL, &err), 0);
    snprintf(text, sizeof(text), QUICK "epochs=4 teacher=%s alpha=0 beta=1 temperature=2", path);
    assert_int_equal(job_open(&student, "mlp", text), 0);
    student.setup->trainer.teacher = teacher.model;
    pare_trainer_free(student.trainer);
    assert_int_equal(pare_trainer_new(student.model, &student.setup->trainer, &student.trainer,
                                      &err),
                     0);
    assert_int_equal(job_run(&student), 0);
    assert_true(student.result.best > 0.85); /* without labels */
    job_close(&student);
    job_close(&teacher);
    unlink(path);
}

static void expect_error(const char *settings, const char *why)
{
    struct job j = { 0 };

    assert_int_not_equal(job_open(&j, "mlp", settings), 0);
    if (!strstr(err.msg, why))
        fail_msg("expected '%s' in: %s", why, err.msg);
    job_close(&j);
}

static void test_wrong_settings_are_errors(void **state)
{
    (void)state;
    expect_error("momentun=1", "did you mean 'momentum'");
    expect_error("optimizer=adam nesterov",
                 "belongs to the optimizer 'sgd', but the optimizer is 'adam'");
    expect_error("temperature=2", "teacher, which is not used");
    expect_error("optimizer=rmsprop teacher=x alpha=0.5", "optimizer-alpha");
    expect_error("optimizer=sdg", "did you mean 'sgd'");
    expect_error("loss=huh", "huh");
    expect_error("lr=fast", "'fast', must be a number");
    expect_error("epochs=-1", "must be in");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_training_converges),
        cmocka_unit_test(test_training_is_deterministic),
        cmocka_unit_test(test_resume_is_exact),
        cmocka_unit_test(test_keep_best_and_patience),
        cmocka_unit_test(test_frozen_parameters_do_not_change),
        cmocka_unit_test(test_infinite_loss_is_an_error),
        cmocka_unit_test(test_training_with_a_teacher),
        cmocka_unit_test(test_wrong_settings_are_errors),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}

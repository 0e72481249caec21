/* test_compress.c - a compression during training: masks follow steps, weights are kept, resume is
 * exact. */
#include <setjmp.h>
#include <stdarg.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/arena.h"
#include "compress/registry.h"
#include "compress/compression.h"
#include "train/training.h"

static struct pare_err err;
static const int64_t digits[3] = { 1, 8, 8 };

#define OK(call)                     \
    do {                             \
        int rc_ = (call);            \
        if (rc_)                     \
            fail_msg("%s", err.msg); \
    } while (0)

struct job {
    struct pare_model *model;
    struct pare_training *learn;
    struct pare_compression *run;
};

static struct job open_job(const char *pruner, const char *config, const char *settings,
                           const char *train)
{
    struct job j = { 0 };
    struct pare_compression_opts o = { .pruner = pruner, .config = config, .settings = settings };

    OK(pare_model_new("mlp", digits, 10, 1, &j.model, &err));
    OK(pare_training_open(j.model, "digits", train, &j.learn, &err));
    OK(pare_compression_new(j.model, &o, &j.run, &err));
    OK(pare_compression_follow(j.run, j.learn, &err));
    return j;
}

static void close_job(struct job *j)
{
    pare_compression_free(j->run);
    pare_training_free(j->learn);
    pare_model_free(j->model);
}

static double zeros(const struct pare_tensor *t)
{
    double n = 0;

    for (int64_t i = 0; i < pare_numel(t); i++)
        n += pare_f32(t)[i] == 0;
    return n / (double)pare_numel(t);
}

/* The model is masked at once; the weights themselves are unchanged. */
static void test_not_destructive(void **state)
{
    struct job j = open_job("level", "[{\"sparsity\": 0.5, \"op_types\": [\"default\"]}]", NULL,
                            "epochs=1 limit=64 lr=0.1 seed=1");
    struct pare_layer *l = pare_compression_layer(j.run, 0);
    float *before;
    int64_t n = pare_numel(pare_layer_weight(l));

    (void)state;
    before = malloc((size_t)n * sizeof(float));
    memcpy(before, pare_layer_weight(l)->data, (size_t)n * sizeof(float));
    OK(pare_compression_compress(j.run, &err));
    assert_memory_equal(before, pare_layer_weight(l)->data, (size_t)n * sizeof(float));
    assert_true(zeros(pare_layer_weight(l)) < 0.01);
    assert_true(fabs(zeros(&l->weight->t) - 0.5) < 1e-3);
    OK(pare_training_run(j.learn, NULL, NULL, &err));
    for (int64_t i = 0; i < n;
         i++) { /* masked weights are unchanged, the others have their product */
        bool kept = ((uint8_t *)l->mask.data)[i];
        float w = pare_f32(pare_layer_weight(l))[i];

        assert_true(pare_f32(&l->weight->t)[i] == (kept ? w : 0));
        if (!kept)
            assert_true(w == before[i]);
    }
    free(before);
    close_job(&j);
}

/* When a mask is 1 again, the old weight returns. */
static void test_regrow(void **state)
{
    struct job j = open_job("level", "[{\"sparsity\": 0.9, \"op_names\": [\"fc1\"]}]", NULL,
                            "epochs=1 limit=64 lr=0 seed=1");
    struct pare_layer *l = pare_compression_layer(j.run, 0);

    (void)state;
    assert_int_equal(pare_compression_layers(j.run), 1);
    OK(pare_compression_compress(j.run, &err));
    assert_true(zeros(&l->weight->t) > 0.89);
    memset(l->mask.data, 1, (size_t)pare_numel(&l->mask));
    OK(pare_compression_write_weights(j.run, &err));
    assert_true(zeros(&l->weight->t) < 0.01);
    close_job(&j);
}

/* ---- collectors -------------------------------------------------------------------- */

struct seen {
    int calls;
    int64_t in[4], out[4];
    int remove; /* id of a collector that removes itself after a forward pass; 0: none */
};

static int collect(struct pare_layer *l, const struct pare_tensor *in,
                   const struct pare_tensor *out, void *user, struct pare_err *e)
{
    struct seen *s = user;
    int i = pare_layer_index(l);

    s->calls++;
    s->in[i] = in->dim[in->rank - 1];
    s->out[i] = out->dim[out->rank - 1];
    assert_int_equal(in->dim[0], out->dim[0]);
    if (s->remove && i == pare_compression_layers(pare_layer_compression(l)) - 1)
        return pare_remove_collector(pare_layer_compression(l), s->remove, e);
    return 0;
}

static void one_step(struct job *j)
{
    struct pare_tensor x, y, out;
    double loss;

    OK(pare_training_next(j->learn, &x, &y, &err));
    OK(pare_training_forward(j->learn, &x, 1, &out, &err));
    OK(pare_training_loss(j->learn, &y, &loss, &err));
    OK(pare_training_backward(j->learn, &err));
    OK(pare_training_optimize(j->learn, &err));
    OK(pare_training_step(j->learn, &err));
}

static void test_collectors(void **state)
{
    struct job j = open_job("level", "[{\"sparsity\": 0.5, \"op_types\": [\"Linear\"]}]", NULL,
                            "epochs=1 limit=256 lr=0.01 seed=1 batch=32");
    struct seen a = { 0 }, b = { 0 };
    int first, second, n = pare_compression_layers(j.run);

    (void)state;
    OK(pare_compression_compress(j.run, &err));
    one_step(&j); /* a plan without collectors */
    OK(pare_add_collector(j.run, collect, &a, &first, &err));
    assert_int_equal(first, 1);
    OK(pare_add_collector(j.run, collect, &b, &second, &err));
    assert_int_equal(second, 2);
    b.remove = second;
    one_step(&j);
    assert_int_equal(a.calls, n);
    assert_int_equal(b.calls, n);
    assert_int_equal(a.in[0], 64);
    assert_int_equal(a.out[n - 1], 10);
    for (int i = 1; i < n; i++)
        assert_int_equal(a.in[i], a.out[i - 1]);
    one_step(&j);
    assert_int_equal(a.calls, 2 * n);
    assert_int_equal(b.calls, n);
    OK(pare_remove_collector(j.run, first, &err));
    one_step(&j);
    assert_int_equal(a.calls, 2 * n);
    assert_int_equal(pare_remove_collector(j.run, first, &err), PARE_ECONFIG);
    assert_non_null(strstr(err.msg, "1 is not a valid collector id"));
    close_job(&j);
}

static void test_forward_only(void **state)
{
    struct job j = open_job("level", "[{\"sparsity\": 0.5, \"op_types\": [\"Linear\"]}]", NULL,
                            "epochs=1 limit=100 lr=0.01 seed=1 batch=32");
    struct seen a = { 0 };
    int id;

    (void)state;
    OK(pare_add_collector(j.run, collect, &a, &id, &err));
    OK(pare_compression_forward(j.run, 5, &err)); /* more batches than an epoch has */
    assert_int_equal(a.calls, 5 * pare_compression_layers(j.run));
    assert_int_equal(pare_compression_steps(j.run), 0);
    close_job(&j);
}

/* ---- buffers and state ------------------------------------------------------------- */

static void test_buffers(void **state)
{
    struct job j = open_job("level", "[{\"sparsity\": 0.5, \"op_types\": [\"Linear\"]}]", NULL,
                            "epochs=1 limit=64 seed=1");
    struct pare_layer *l = pare_compression_layer(j.run, 0), *k = pare_compression_layer(j.run, 1);
    int64_t three = 3, four = 4;
    struct pare_tensor *b = pare_layer_buffer(l, "seen", PARE_F32, 1, &three, &err);

    (void)state;
    assert_non_null(b);
    pare_f32(b)[1] = 7;
    assert_ptr_equal(pare_layer_buffer(l, "seen", PARE_F32, 1, &three, &err), b);
    b = pare_layer_buffer(k, "seen", PARE_F32, 1, &three, &err);
    assert_true(pare_f32(b)[1] == 0); /* each layer has a separate buffer */
    assert_null(pare_layer_buffer(l, "seen", PARE_F32, 1, &four, &err));
    assert_null(pare_compression_layer(j.run, 99));
    close_job(&j);
}

/* One Adam step moves by the learning rate against the gradient's sign; two with the same gradient
 * by twice that. */
static void test_adam(void **state)
{
    struct job j = open_job("level", "[{\"sparsity\": 0.5, \"op_types\": [\"Linear\"]}]", NULL,
                            "epochs=1 limit=64 seed=1");
    struct pare_layer *l = pare_compression_layer(j.run, 0);
    int64_t two = 2;
    struct pare_tensor *s = pare_layer_buffer(l, "score", PARE_F32, 1, &two, &err);
    float g[2] = { 3, -0.5f };

    (void)state;
    OK(pare_layer_adam(l, "score", g, 0.01, &err));
    OK(pare_layer_adam(l, "score", g, 0.01, &err));
    assert_true(fabs((double)pare_f32(s)[0] + 0.02) < 1e-6);
    assert_true(fabs((double)pare_f32(s)[1] - 0.02) < 1e-6);
    assert_int_equal(pare_layer_adam(l, "nothing", g, 0.01, &err), PARE_ECONFIG);
    close_job(&j);
}

/* ---- bit-identical resume -------------------------------------------------------------------- */

static bool stop_after_two(void *user, const struct pare_epoch_result *r)
{
    (void)user;
    return r->epoch < 1;
}

/* Movement has scores with moments, masks that change at every step and a loss term. */
static void resume_with(const char *pruner, const char *settings)
{
    const char *config = "[{\"sparsity\": 0.6, \"op_types\": [\"Linear\"]}]";
    char path[64], train[256];
    struct job a, b;

    snprintf(path, sizeof(path), "/tmp/pare-compress-%d.safetensors", (int)getpid());
    snprintf(train, sizeof(train),
             "epochs=4 limit=256 batch=64 seed=3 threads=1 optimizer=adam valid=none checkpoint=%s "
             "resume",
             path);
    a = open_job(pruner, config, settings, train);
    OK(pare_compression_compress(a.run, &err));
    OK(pare_training_run(a.learn, NULL, NULL, &err));
    unlink(path);
    b = open_job(pruner, config, settings, train);
    OK(pare_compression_compress(b.run, &err));
    OK(pare_training_run(b.learn, stop_after_two, NULL, &err));
    close_job(&b);
    b = open_job(pruner, config, settings, train);
    OK(pare_compression_compress(b.run, &err));
    OK(pare_training_run(b.learn, NULL, NULL, &err));
    for (int i = 0; i < pare_compression_layers(a.run); i++) {
        struct pare_layer *x = pare_compression_layer(a.run, i),
                          *y = pare_compression_layer(b.run, i);
        size_t n = (size_t)pare_numel(&x->mask);

        assert_memory_equal(x->mask.data, y->mask.data, n);
        assert_memory_equal(x->weight->t.data, y->weight->t.data, n * sizeof(float));
        assert_memory_equal(x->w.data, y->w.data, n * sizeof(float));
    }
    unlink(path);
    close_job(&a);
    close_job(&b);
}

static void test_resume(void **state)
{
    (void)state;
    resume_with("level", NULL);
    resume_with("movement", "warm_up_step=2 cool_down_beginning_step=10");
    resume_with("agp", "total_iteration=3");
    resume_with("lottery_ticket", "prune_iterations=3");
}

/* ---- rejected uses --------------------------------------------------------------------------- */

static void refuse(const char *pruner, const char *config, const char *settings, const char *says)
{
    struct pare_compression_opts o = { .pruner = pruner, .config = config, .settings = settings };
    struct pare_model *m;
    struct pare_compression *r;
    int rc;

    OK(pare_model_new("mlp", digits, 10, 1, &m, &err));
    rc = pare_compression_new(m, &o, &r, &err);
    if (!rc)
        rc = pare_compression_compress(r, &err);
    if (!rc)
        fail_msg("%s with %s was not refused", pruner, config);
    if (!strstr(err.msg, says))
        fail_msg("'%s' does not say '%s'", err.msg, says);
    pare_compression_free(r);
    pare_model_free(m);
}

static void test_refused(void **state)
{
    const char *all = "[{\"sparsity\": 0.5, \"op_types\": [\"default\"]}]";

    (void)state;
    refuse("levle", all, NULL, "level");
    refuse("level", all, "mood=global", "mode");
    refuse("level", all, "base=l1", "does not use a base pruner");
    refuse("agp", all, "base=linear", "cannot be used as a base");
    refuse("level", "[{\"sparsty\": 0.5, \"op_types\": [\"default\"]}]", NULL, "sparsity");
    refuse("level", "[{\"sparsity\": 1.5, \"op_types\": [\"default\"]}]", NULL, "sparsity");
    refuse("level", "[{\"sparsity\": 0.5, \"op_names\": [\"fc9\"]}]", NULL, "fc");
    refuse("level", "[{\"exclude\": true, \"op_types\": [\"default\"]}]", NULL,
           "nothing would change");
    refuse("level", "[{\"op_types\": [\"default\"]}]", NULL, "no sparsity");
    refuse("level", "[{\"sparsity\": 0.5, \"total_sparsity\": 0.5, \"op_types\": [\"default\"]}]",
           NULL, "only one");
    refuse("taylor", all, NULL, "--data");
    refuse("slim", all, NULL, "BatchNorm");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_not_destructive), cmocka_unit_test(test_regrow),
        cmocka_unit_test(test_collectors),      cmocka_unit_test(test_forward_only),
        cmocka_unit_test(test_buffers),         cmocka_unit_test(test_adam),
        cmocka_unit_test(test_resume),          cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_compress.c - a compression during training: masks, stored weights, collectors, buffers,
 * exact resume. */
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
#include "speedup/speedup.h"
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
    struct pare_training *training;
    struct pare_compression *compression;
};

static struct job open_job(const char *pruner, const char *config, const char *settings,
                           const char *train)
{
    struct job j = { 0 };
    struct pare_compression_opts o = { .pruner = pruner, .config = config, .settings = settings };

    OK(pare_model_new("mlp", digits, 10, 1, &j.model, &err));
    OK(pare_training_open(j.model, "digits", train, &j.training, &err));
    OK(pare_compression_new(j.model, &o, &j.compression, &err));
    OK(pare_compression_follow(j.compression, j.training, &err));
    return j;
}

static void close_job(struct job *j)
{
    pare_compression_free(j->compression);
    pare_training_free(j->training);
    pare_model_free(j->model);
}

static double fraction_of_zeros(const struct pare_tensor *t)
{
    double n = 0;

    for (int64_t i = 0; i < pare_numel(t); i++)
        n += pare_f32(t)[i] == 0;
    return n / (double)pare_numel(t);
}

/* The model's weights are masked immediately; the stored weights do not change. */
static void test_masking_keeps_weights(void **state)
{
    struct job j = open_job("level", "[{\"sparsity\": 0.5, \"op_types\": [\"default\"]}]", NULL,
                            "epochs=1 limit=64 lr=0.1 seed=1");
    struct pare_layer *l = pare_compression_layer(j.compression, 0);
    float *before;
    int64_t n = pare_numel(pare_layer_weight(l));

    (void)state;
    before = malloc((size_t)n * sizeof(float));
    memcpy(before, pare_layer_weight(l)->data, (size_t)n * sizeof(float));
    OK(pare_compression_compress(j.compression, &err));
    assert_memory_equal(before, pare_layer_weight(l)->data, (size_t)n * sizeof(float));
    assert_true(fraction_of_zeros(pare_layer_weight(l)) < 0.01);
    assert_true(fabs(fraction_of_zeros(&l->weight->t) - 0.5) < 1e-3);
    OK(pare_training_run(j.training, NULL, NULL, &err));
    for (int64_t i = 0; i < n; i++) { /* training does not change masked weights */
        bool kept = ((uint8_t *)l->mask.data)[i];
        float w = pare_f32(pare_layer_weight(l))[i];

        assert_true(pare_f32(&l->weight->t)[i] == (kept ? w : 0));
        if (!kept)
            assert_true(w == before[i]);
    }
    free(before);
    close_job(&j);
}

/* When a mask element is 1 again, the stored weight is restored. */
static void test_unmasked_weights_return(void **state)
{
    struct job j = open_job("level", "[{\"sparsity\": 0.9, \"op_names\": [\"fc1\"]}]", NULL,
                            "epochs=1 limit=64 lr=0 seed=1");
    struct pare_layer *l = pare_compression_layer(j.compression, 0);

    (void)state;
    assert_int_equal(pare_compression_layers(j.compression), 1);
    OK(pare_compression_compress(j.compression, &err));
    assert_true(fraction_of_zeros(&l->weight->t) > 0.89);
    memset(l->mask.data, 1, (size_t)pare_numel(&l->mask));
    OK(pare_compression_write_weights(j.compression, &err));
    assert_true(fraction_of_zeros(&l->weight->t) < 0.01);
    close_job(&j);
}

/* ---- collectors -------------------------------------------------------------------- */

struct collected {
    int calls;
    int64_t in[4], out[4];
    int remove; /* id of a collector that removes itself after a forward pass; 0: none */
};

static int collect(struct pare_layer *l, const struct pare_tensor *in,
                   const struct pare_tensor *out, void *user, struct pare_err *e)
{
    struct collected *s = user;
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

    OK(pare_training_next(j->training, &x, &y, &err));
    OK(pare_training_forward(j->training, &x, 1, &out, &err));
    OK(pare_training_loss(j->training, &y, &loss, &err));
    OK(pare_training_backward(j->training, &err));
    OK(pare_training_optimize(j->training, &err));
    OK(pare_training_step(j->training, &err));
}

static void test_collectors_are_called_and_removed(void **state)
{
    struct job j = open_job("level", "[{\"sparsity\": 0.5, \"op_types\": [\"Linear\"]}]", NULL,
                            "epochs=1 limit=256 lr=0.01 seed=1 batch=32");
    struct collected a = { 0 }, b = { 0 };
    int first, second, n = pare_compression_layers(j.compression);

    (void)state;
    OK(pare_compression_compress(j.compression, &err));
    one_step(&j); /* a plan without collectors */
    OK(pare_add_collector(j.compression, collect, &a, &first, &err));
    assert_int_equal(first, 1);
    OK(pare_add_collector(j.compression, collect, &b, &second, &err));
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
    OK(pare_remove_collector(j.compression, first, &err));
    one_step(&j);
    assert_int_equal(a.calls, 2 * n);
    assert_int_equal(pare_remove_collector(j.compression, first, &err), PARE_ECONFIG);
    assert_non_null(strstr(err.msg, "1 is not a valid collector id"));
    close_job(&j);
}

static void test_forward_runs_collectors_only(void **state)
{
    struct job j = open_job("level", "[{\"sparsity\": 0.5, \"op_types\": [\"Linear\"]}]", NULL,
                            "epochs=1 limit=100 lr=0.01 seed=1 batch=32");
    struct collected a = { 0 };
    int id;

    (void)state;
    OK(pare_add_collector(j.compression, collect, &a, &id, &err));
    OK(pare_compression_forward(j.compression, 5, &err)); /* more batches than an epoch has */
    assert_int_equal(a.calls, 5 * pare_compression_layers(j.compression));
    assert_int_equal(pare_compression_steps(j.compression), 0);
    close_job(&j);
}

/* ---- buffers and state ------------------------------------------------------------- */

static void test_buffers_belong_to_layers(void **state)
{
    struct job j = open_job("level", "[{\"sparsity\": 0.5, \"op_types\": [\"Linear\"]}]", NULL,
                            "epochs=1 limit=64 seed=1");
    struct pare_layer *l = pare_compression_layer(j.compression, 0),
                      *k = pare_compression_layer(j.compression, 1);
    int64_t three = 3, four = 4;
    struct pare_tensor *b = pare_layer_buffer(l, "seen", PARE_F32, 1, &three, &err);

    (void)state;
    assert_non_null(b);
    pare_f32_mut(b)[1] = 7;
    assert_ptr_equal(pare_layer_buffer(l, "seen", PARE_F32, 1, &three, &err), b);
    b = pare_layer_buffer(k, "seen", PARE_F32, 1, &three, &err);
    assert_true(pare_f32(b)[1] == 0); /* each layer has a separate buffer */
    assert_null(pare_layer_buffer(l, "seen", PARE_F32, 1, &four, &err));
    assert_null(pare_compression_layer(j.compression, 99));
    close_job(&j);
}

/* One Adam step moves by the learning rate against the gradient's sign; two with the same gradient
 * by twice that. */
static void test_adam_on_a_buffer(void **state)
{
    struct job j = open_job("level", "[{\"sparsity\": 0.5, \"op_types\": [\"Linear\"]}]", NULL,
                            "epochs=1 limit=64 seed=1");
    struct pare_layer *l = pare_compression_layer(j.compression, 0);
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

static bool stop_after_two_epochs(void *user, const struct pare_epoch_result *r)
{
    (void)user;
    return r->epoch < 1;
}

/* Stopping after two epochs and resuming gives the same masks and weights as no stop. */
static void expect_exact_resume(const char *pruner, const char *settings)
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
    OK(pare_compression_compress(a.compression, &err));
    OK(pare_training_run(a.training, NULL, NULL, &err));
    unlink(path);
    b = open_job(pruner, config, settings, train);
    OK(pare_compression_compress(b.compression, &err));
    OK(pare_training_run(b.training, stop_after_two_epochs, NULL, &err));
    close_job(&b);
    b = open_job(pruner, config, settings, train);
    OK(pare_compression_compress(b.compression, &err));
    OK(pare_training_run(b.training, NULL, NULL, &err));
    for (int i = 0; i < pare_compression_layers(a.compression); i++) {
        struct pare_layer *x = pare_compression_layer(a.compression, i),
                          *y = pare_compression_layer(b.compression, i);
        size_t n = (size_t)pare_numel(&x->mask);

        assert_memory_equal(x->mask.data, y->mask.data, n);
        assert_memory_equal(x->weight->t.data, y->weight->t.data, n * sizeof(float));
        assert_memory_equal(x->w.data, y->w.data, n * sizeof(float));
    }
    unlink(path);
    close_job(&a);
    close_job(&b);
}

static void test_resume_is_exact(void **state)
{
    (void)state;
    expect_exact_resume("level", NULL);
    /* movement: scores with moments, masks that change at every step, and a loss term */
    expect_exact_resume("movement", "warm_up_step=2 cool_down_beginning_step=10");
    expect_exact_resume("agp", "total_iteration=3");
    expect_exact_resume("lottery_ticket", "prune_iterations=3");
}

/* ---- errors ---------------------------------------------------------------------------------- */

static void expect_error(const char *pruner, const char *config, const char *settings,
                         const char *expected)
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
    if (!strstr(err.msg, expected))
        fail_msg("expected '%s' in: %s", expected, err.msg);
    pare_compression_free(r);
    pare_model_free(m);
}

static void test_wrong_options_are_errors(void **state)
{
    const char *all = "[{\"sparsity\": 0.5, \"op_types\": [\"default\"]}]";

    (void)state;
    expect_error("levle", all, NULL, "level");
    expect_error("level", all, "mod=global", "mode");
    expect_error("level", all, "base=l1", "does not use a base pruner");
    expect_error("agp", all, "base=linear", "cannot be used as a base");
    expect_error("level", "[{\"sparsty\": 0.5, \"op_types\": [\"default\"]}]", NULL, "sparsity");
    expect_error("level", "[{\"sparsity\": 1.5, \"op_types\": [\"default\"]}]", NULL, "sparsity");
    expect_error("level", "[{\"sparsity\": 0.5, \"op_names\": [\"fc9\"]}]", NULL, "fc");
    expect_error("level", "[{\"exclude\": true, \"op_types\": [\"default\"]}]", NULL,
                 "nothing would change");
    expect_error("level", "[{\"op_types\": [\"default\"]}]", NULL, "no sparsity");
    expect_error("level",
                 "[{\"sparsity\": 0.5, \"total_sparsity\": 0.5, \"op_types\": [\"default\"]}]",
                 NULL, "only one");
    expect_error("taylor", all, NULL, "--data");
    expect_error("slim", all, NULL, "BatchNorm");
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Without training, weights and masks are in pages of files, not in Pare's own memory, and graphs
 * for other sizes are freed before the two models are measured. */
static void test_pruning_without_training_keeps_weights_in_pages(void **state)
{
    struct pare_compression_opts o = { .pruner = "l1",
                                       .config = "[{\"sparsity\": 0.5, \"op_types\": "
                                                 "[\"default\"]}]",
                                       .final = true };
    struct pare_speedup_opts so = { .threads = 1 };
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_speedup_graphs graphs;
    struct pare_speedup_report r;
    struct pare_model *m, *small;
    struct pare_compression *c;
    char path[] = "/tmp/pare-test-XXXXXX";
    size_t before, bytes = 0;

    (void)state;
    close(mkstemp(path));
    OK(pare_model_new("mlp", (int64_t[]){ 1, 64, 64 }, 10, 1, &m, &err));
    OK(pare_model_save(m, path, NULL, &err));
    pare_model_free(m);
    OK(pare_model_load(path, &m, &err));
    before = pare_memory_used();
    OK(pare_compression_new(m, &o, &c, &err));
    OK(pare_compression_compress(c, &err));
    for (int i = 0; i < pare_compression_layers(c); i++)
        bytes += 5 * (size_t)pare_numel(pare_layer_weight(pare_compression_layer(c, i)));
    assert_true(bytes > (size_t)4 << 20);
    assert_in_range(pare_memory_used() - before, 1, bytes / 2); /* buffers of the algorithm */
    assert_true(pare_compression_zeros(c) > 0);
    OK(pare_speedup_run(m, &so, a, &small, &r, &graphs, &err));
    assert_true(r.verified && r.params_left < r.params);
    assert_null(graphs.before->other[0]);
    assert_null(graphs.after->other[0]);
    pare_arena_free(graphs.arena);
    pare_model_free(small);
    pare_compression_free(c);
    pare_model_free(m);
    pare_arena_free(a);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_masking_keeps_weights),
        cmocka_unit_test(test_unmasked_weights_return),
        cmocka_unit_test(test_collectors_are_called_and_removed),
        cmocka_unit_test(test_forward_runs_collectors_only),
        cmocka_unit_test(test_buffers_belong_to_layers),
        cmocka_unit_test(test_adam_on_a_buffer),
        cmocka_unit_test(test_resume_is_exact),
        cmocka_unit_test(test_wrong_options_are_errors),
        cmocka_unit_test(test_pruning_without_training_keeps_weights_in_pages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_pruner_resume.c - a stopped training resumes with the same masks, targets, scores and
 * statistics, and ends as if it had not been stopped. */
#include "prune_rig.h"

#include <stdlib.h>
#include <unistd.h>

static char dir[64], path[96];

static int setup(void **state)
{
    (void)state;
    snprintf(dir, sizeof(dir), "/tmp/pare-resume-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof(path), "%s/c.safetensors", dir);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(dir);
}

struct job {
    struct pare_model *model;
    struct pare_training *training;
    struct pare_compression *compression;
    int64_t left; /* epochs until the training stops */
};

struct resume_case {
    const char *pruner, *settings;
    bool norm, near; /* near: only the sparsity is compared, as statistics use other batches */
};

static bool stop_at_zero(void *user, const struct pare_epoch_result *r)
{
    struct job *j = user;

    (void)r;
    return --j->left != 0;
}

static void job_run(struct job *j, const struct resume_case *h, const char *more, int64_t left)
{
    char settings[256];

    *j = (struct job){ .model = rig_model("small"), .left = left };
    snprintf(settings, sizeof(settings),
             "optimizer=adam lr=2e-3 batch=32 threads=1 seed=1 valid=none epochs=4 %s", more);
    ok(pare_training_open(j->model, "digits", settings, &j->training, &rig_err));
    j->compression =
        rig_compression(j->model, h->pruner,
                        h->norm ? "[{\"sparsity\": 0.5, \"op_types\": [\"BatchNorm2d\"]}]"
                                : "[{\"sparsity\": 0.5, \"op_types\": [\"Conv2d\", \"Linear\"]}]",
                        h->settings);
    ok(pare_compression_follow(j->compression, j->training, &rig_err));
    ok(pare_compression_compress(j->compression, &rig_err));
    ok(pare_training_run(j->training, stop_at_zero, j, &rig_err));
}

static void job_close(struct job *j)
{
    pare_training_free(j->training);
    pare_compression_free(j->compression);
    pare_model_free(j->model);
}

static void compare_jobs(const struct resume_case *h, struct job *a, struct job *b)
{
    assert_int_equal(a->compression->n_layers, b->compression->n_layers);
    for (int i = 0; i < a->compression->n_layers; i++) {
        struct pare_layer *l = &a->compression->layer[i], *m = &b->compression->layer[i];
        size_t n = (size_t)pare_numel(&l->w);

        if (rig_removed(l) != rig_removed(m))
            fail_msg("%s: %lld weights of %s are removed, expected %lld", h->pruner,
                     (long long)rig_removed(m), l->info.name, (long long)rig_removed(l));
        assert_true(rig_removed(l) > 0 || h->norm);
        if (!h->near && (memcmp(l->mask.data, m->mask.data, n) ||
                         memcmp(l->w.data, m->w.data, n * sizeof(float)) ||
                         memcmp(l->weight->t.data, m->weight->t.data, n * sizeof(float))))
            fail_msg("%s: layer %s differs from a training without a stop", h->pruner,
                     l->info.name);
    }
}

static void test_resume_gives_the_same_result(void **state)
{
    static const struct resume_case all[] = {
        { "level", NULL, false, false },
        { "l1", NULL, false, false }, /* with its normalizations */
        { "agp", "total_iteration=3 base=l1", false, false },
        { "random", NULL, false, false },
        { "taylor", "training_steps=60", false, false },
        { "agp", "total_iteration=3", false, false },
        { "agp", "interval_steps=30 total_times=4", false, false },
        { "agp", "total_iteration=3 base=random", false, false },
        { "linear", "total_iteration=3 base=taylor training_steps=50", false, false },
        { "linear", "total_iteration=2 base=apoz training_steps=50", false, true },
        { "lottery_ticket", "prune_iterations=3", false, false },
        { "admm", "iterations=3 training_epochs=1", false, false },
        { "movement", "warm_up_step=10 cool_down_beginning_step=80 training_steps=100", false,
          false },
        { "slim", "training_epochs=3", true, false },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct job whole, first, rest;
        char more[160];

        job_run(&whole, &all[i], "", 0);
        snprintf(more, sizeof(more), "checkpoint=%s", path);
        job_run(&first, &all[i], more, 1);
        job_close(&first);
        snprintf(more, sizeof(more), "checkpoint=%s resume", path);
        job_run(&rest, &all[i], more, 0);
        compare_jobs(&all[i], &whole, &rest);
        job_close(&whole);
        job_close(&rest);
        unlink(path);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_resume_gives_the_same_result) };

    return cmocka_run_group_tests(tests, setup, teardown);
}

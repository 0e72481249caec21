/* test_recalibrate.c - running statistics become the average over batches, for any momentum; errors
 * leave them as they were; fine-tuning keeps removed channels 0. */
#include "prune_rig.h"

#include "train/recalibrate.h"

enum { BATCH = 32, BATCHES = 5 };

static struct pare_training *open_digits(struct pare_model *m)
{
    struct pare_training *t;

    ok(pare_training_open(m, "digits", "batch=32 threads=1 seed=3 valid=none", &t, &rig_err));
    return t;
}

/* Mean and unbiased variance of channel c, averaged over the first batches. */
static void expect_moments(struct pare_model *m, struct pare_training *t)
{
    const struct pare_tensor *w = rig_weight(m, "conv1.weight"), *b = rig_weight(m, "conv1.bias");
    const struct pare_tensor *mean = rig_weight(m, "bn1.running_mean");
    const struct pare_tensor *var = rig_weight(m, "bn1.running_var");
    struct pare_loader_opts o = { .train = true, .batch = BATCH, .seed = 3 };
    double sum[8] = { 0 }, spread[8] = { 0 };
    struct pare_loader *l;

    ok(pare_loader_new(t->data[0], &o, &l, &rig_err));
    for (int i = 0; i < BATCHES; i++) {
        const struct pare_batch *d;

        ok(pare_loader_next(l, &d, &rig_err));
        for (int c = 0; c < 8; c++) {
            double s = 0, q = 0, n = BATCH * 64.0;

            for (int k = 0; k < BATCH * 64; k++) {
                const float *x = pare_f32(&d->x) + k / 64 * 64;
                int r = k % 64 / 8, p = k % 8;
                double y = (double)pare_f32(b)[c];

                for (int e = 0; e < 9; e++) {
                    int u = r + e / 3 - 1, v = p + e % 3 - 1;

                    if (u >= 0 && u < 8 && v >= 0 && v < 8)
                        y += (double)x[u * 8 + v] * (double)pare_f32(w)[c * 9 + e];
                }
                s += y;
                q += y * y;
            }
            sum[c] += s / n / BATCHES;
            spread[c] += (q - s * s / n) / (n - 1) / BATCHES;
        }
    }
    pare_loader_free(l);
    for (int c = 0; c < 8; c++) {
        expect_near((double)pare_f32(mean)[c], sum[c], 1e-5);
        expect_near((double)pare_f32(var)[c], spread[c], 1e-5);
    }
}

static void test_statistics_are_averages_of_batches(void **state)
{
    struct pare_model *m = rig_model("small");
    float weight = pare_f32(rig_weight(m, "conv2.weight"))[7];
    struct pare_training *t;
    int64_t done;

    (void)state;
    pare_f32_mut(rig_weight(m, "bn1.running_mean"))[3] = 100; /* forgotten */
    t = open_digits(m);
    ok(pare_training_recalibrate(t, BATCHES, &done, &rig_err));
    assert_int_equal(done, BATCHES);
    expect_moments(m, t);
    assert_true(pare_f32(rig_weight(m, "conv2.weight"))[7] == weight);
    ok(pare_training_recalibrate(t, 1000000, &done, &rig_err));
    assert_int_equal(done, t->data[0]->n / BATCH); /* all full batches */
    pare_training_free(t);
    pare_model_free(m);
}

static bool cancel(void *user, const struct pare_progress *p)
{
    (void)user;
    return p->done < 2;
}

static void test_canceled_run_changes_nothing(void **state)
{
    struct pare_model *m = rig_model("small");
    const struct pare_recalibrate_opts o = { .batches = 9, .progress = cancel };
    struct pare_training *t;
    float before;
    int64_t done;

    (void)state;
    before = pare_f32(rig_weight(m, "bn2.running_var"))[3];
    t = open_digits(m);
    assert_int_equal(pare_recalibrate(t->trainer, t->data[0], &o, &done, &rig_err), PARE_ECANCEL);
    assert_true(pare_f32(rig_weight(m, "bn2.running_var"))[3] == before);
    pare_training_free(t);
    pare_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_statistics_are_averages_of_batches),
        cmocka_unit_test(test_canceled_run_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

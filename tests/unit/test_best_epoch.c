/* test_best_epoch.c - the best epoch of a training that a pruner follows has the final masks. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <string.h>

#include <cmocka.h>

#include <pare/compress.h>
#include <pare/session.h>

#define EPOCHS 8

static struct pare_err err;

#define OK(call)                     \
    do {                             \
        if (call)                    \
            fail_msg("%s", err.msg); \
    } while (0)

/* Accuracies by epoch. */
static bool note(void *user, const struct pare_epoch_result *r)
{
    ((double *)user)[r->epoch] = r->valid_accuracy;
    return true;
}

/* Train while the pruner works; the accuracy of the model, and of each epoch. */
static double prune(struct pare_model *m, const struct pare_compression_opts *o, double *accuracy)
{
    struct pare_compression *c;
    struct pare_training *t;
    struct pare_epoch_result r;

    OK(pare_training_open(m, "digits", "epochs=8 threads=1 seed=1", &t, &err));
    OK(pare_compression_new(m, o, &c, &err));
    OK(pare_compression_follow(c, t, &err));
    OK(pare_compression_compress(c, &err));
    OK(pare_training_run(t, note, accuracy, &err));
    OK(pare_training_validate(t, &r, &err));
    pare_training_free(t);
    pare_compression_free(c);
    return r.valid_accuracy;
}

static void test_best_epoch_is_one_with_final_masks(void **state)
{
    static const struct {
        const char *pruner, *settings;
        int from; /* first epoch with final masks */
    } c[] = { { "agp", "total_iteration=4", 5 },
              { "linear", "total_iteration=4", 5 },
              { "taylor", "training_steps=60", 2 } };
    double accuracy[EPOCHS];

    (void)state;
    for (size_t i = 0; i < sizeof(c) / sizeof(*c); i++) {
        struct pare_compression_opts o = { .pruner = c[i].pruner,
                                           .config = "[{\"sparsity\": 0.97, \"op_types\": "
                                                     "[\"Linear\"], \"op_names\": [\"fc1\"]}]",
                                           .settings = c[i].settings };
        struct pare_model *m;
        double best = 0, is;

        OK(pare_model_new("mlp", (int64_t[]){ 1, 8, 8 }, 10, 1, &m, &err));
        is = prune(m, &o, accuracy);
        for (int k = c[i].from; k < EPOCHS; k++)
            best = accuracy[k] > best ? accuracy[k] : best;
        assert_true(is == best);
        pare_model_free(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_best_epoch_is_one_with_final_masks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

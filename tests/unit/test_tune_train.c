/* test_tune_train.c - training plans that try kernels: the gradients stay, choices are written
 * and followed. */
#include "train_rig.h"

#include <unistd.h>

static const int64_t chw[3] = { 40, 13, 14 };

static struct pare_flow filters(struct pare_net *n, struct pare_flow x)
{
    struct pare_conv c = { .out = 48, .kernel = 3, .pad = 1, .bias = true };

    x = pare_net_apply(n, pare_net_conv(n, x, "a", c), "Tanh", "a.tanh");
    c.out = 36;
    x = pare_net_apply(n, pare_net_conv(n, x, "b", c), "Tanh", "b.tanh");
    x = pare_net_conv(n, x, "c", c);
    return pare_net_linear(n, pare_net_flatten(n, x, "flatten"), "fc", n->classes);
}

static void gradients(struct trial *t, bool tune, const char *choices, int code)
{
    int rc;

    start(t, make(filters, "filters", chw), chw, false, "2");
    pare_trainer_free(t->trainer);
    t->setup->trainer.tune = tune;
    t->setup->trainer.choices = choices;
    assert_int_equal(pare_trainer_new(t->model, &t->setup->trainer, &t->trainer, &err), 0);
    rc = pare_trainer_gradient(t->trainer, &t->x, &t->y, &t->score, &err);
    if (rc != code)
        fail_msg("%d, not %d: %s", rc, code, err.msg);
}

static void close_to(struct trial *a, struct trial *b)
{
    for (int i = 0; i < b->trainer->n_params; i++)
        assert_true(distance(&a->trainer->grad[i], &b->trainer->grad[i]) < 1e-4);
}

/* All lines of the list say this kernel. */
static void rewrite(const char *file, const char *kernel)
{
    char line[8192], all[65536] = "";
    FILE *f = fopen(file, "r");
    int n = 0;

    assert_non_null(f);
    while (fgets(line, sizeof(line), f)) {
        char *tab = strchr(line, '\t');
        size_t used = strlen(all);

        if (*line != '#')
            n++;
        assert_true(*line == '#' || strstr(line, "gradients "));
        snprintf(all + used, sizeof(all) - used, "%s%s", *line == '#' ? "" : kernel,
                 *line == '#' ? line : tab);
    }
    fclose(f);
    assert_int_equal(n, 3);
    f = fopen(file, "w");
    assert_non_null(f);
    fputs(all, f);
    fclose(f);
}

static void test_tuned(void **state)
{
    char file[] = "tune-train-XXXXXX";
    struct trial plain, tuned, listed;
    int fd = mkstemp(file);

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    unlink(file);
    start(&plain, make(filters, "filters", chw), chw, true, "1");
    gradients(&tuned, true, file, 0);
    assert_int_equal(tuned.trainer->plan[0]->tuned.layers, 3);
    assert_int_equal(tuned.trainer->plan[0]->tuned.measured, 3);
    close_to(&tuned, &plain);

    rewrite(file, "conv_train");
    gradients(&listed, false, file, 0);
    uses(listed.trainer->plan[0], "conv_train", 3);
    assert_int_equal(listed.trainer->plan[0]->tuned.listed, 3);
    assert_int_equal(listed.trainer->plan[0]->tuned.runs, 0);
    close_to(&listed, &plain);
    end(&listed);

    rewrite(file, "conv_columns"); /* what is behind it then has another layout, not in the list */
    gradients(&listed, false, file, 0);
    uses(listed.trainer->plan[0], "conv_columns", 1);
    close_to(&listed, &plain);
    end(&listed);

    rewrite(file, "conv_panel"); /* it cannot train */
    gradients(&listed, false, file, PARE_ECONFIG);
    assert_non_null(strstr(err.msg, "'conv_panel' is chosen for node 'a', which it cannot run"));
    end(&listed);
    unlink(file);
    end(&tuned);
    end(&plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_tuned) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

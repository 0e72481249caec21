/* test_cost_table.c - cost tables: groups, layers, fits to times of an injected timer, files. */
#include <setjmp.h>
#include <stdarg.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/arena.h"
#include "graph/layer.h"
#include "plan/plan.h"
#include "search/cost_samples.h"
#include "search/cost_table.h"
#include "speedup/speedup.h"

#define FIXED 5.0
#define ALPHA 1.25

static struct pare_err err;

static struct pare_model *make_network(const char *name, int64_t c, int64_t side)
{
    struct pare_model *m;
    int64_t chw[3] = { c, side, side };

    if (pare_model_new(name, chw, 10, 7, &m, &err))
        fail_msg("%s", err.msg);
    return m;
}

/* A microsecond for each step with weights, and one for 1000 multiply-accumulates. */
static int pretend(void *user, struct pare_plan *p, double *step_us, double *total_us)
{
    const struct pare_plan *inner = pare_plan_inner(p);
    double sum = 0;

    (void)user;
    for (int i = 0; i < inner->n_steps; i++) {
        double macs = inner->step[i]->node ? pare_node_macs(inner->step[i]->node) : 0;

        step_us[i] = macs > 0 ? 1 + macs / 1000 : 0;
        sum += step_us[i];
    }
    *total_us = FIXED + ALPHA * sum;
    return 0;
}

static struct pare_cost_table *measure(struct pare_model *m, struct pare_arena *a,
                                       const struct pare_cost_opts *more)
{
    struct pare_cost_opts o = *more;
    struct pare_cost_table *t;

    o.threads = 1;
    o.untuned = true;
    o.seconds = 600;
    if (!o.read_table)
        o.timer = pretend;
    if (pare_cost_table_measure(m, &o, a, &t, &err))
        fail_msg("%s", err.msg);
    return t;
}

static const struct pare_cost_layer *find(const struct pare_cost_table *t, const char *name)
{
    for (int i = 0; i < t->n_layers; i++)
        if (!strcmp(t->layer[i].name, name))
            return &t->layer[i];
    fail_msg("there is no layer %s", name);
    return NULL;
}

static void full_counts(const struct pare_cost_table *t, int64_t *count)
{
    for (int i = 0; i < t->n_groups; i++)
        count[i] = t->group[i].full;
}

/* ---- groups and layers ----------------------------------------------------------------------- */

static void test_groups_of_residual_network(void **state)
{
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_model *m = make_network("resnet20", 3, 32);
    struct pare_cost_table *t = measure(m, a,
                                        &(struct pare_cost_opts){ .formats = 1u << PARE_COST_F32,
                                                                  .models = 3 });
    const struct pare_cost_layer *first = find(t, "layer1.0.conv1"),
                                 *second = find(t, "layer1.0.conv2"), *stem = find(t, "conv1");

    (void)state;
    assert_int_equal(t->n_groups, 12); /* three of stages, nine inside of blocks */
    assert_int_equal(t->n_layers, 22);
    assert_int_equal(stem->in_group, -1);
    assert_int_equal(stem->out_group, first->in_group);
    assert_int_equal(stem->out_group, second->out_group);
    assert_int_equal(first->out_group, second->in_group);
    assert_int_not_equal(first->in_group, first->out_group);
    assert_int_equal(t->group[first->in_group].n_layers, 4); /* the stem and three blocks */
    assert_int_equal(t->group[find(t, "layer3.0.conv1")->out_group].n_choices, 9);
    assert_int_equal(t->group[first->out_group].choice[0], 0); /* the block is its shortcut */
    assert_int_equal(t->group[first->out_group].choice[1], 8);
    assert_int_equal(t->group[first->out_group].choice[2], 16);
    assert_int_equal(t->group[first->in_group].choice[0], 8);
    assert_string_equal(first->key, find(t, "layer1.1.conv1")->key);
    assert_string_not_equal(first->key, second->key); /* an addition follows */
    pare_model_free(m);
    pare_arena_free(a);
}

static int count_nodes(const struct pare_model *m, const char *type)
{
    int n = 0;

    for (int i = 0; i < m->graph->n_nodes; i++)
        n += !type || !strcmp(m->graph->node[i]->type, type);
    return n;
}

/* Convolutions, normalizations, activation and addition of a block without channels are gone. */
static void test_removed_branch_leaves_the_shortcut(void **state)
{
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_model *m = make_network("resnet20", 3, 32), *masked, *small;
    struct pare_cost_table *t = measure(m, a,
                                        &(struct pare_cost_opts){ .formats = 1u << PARE_COST_F32,
                                                                  .models = 3 });
    struct pare_cost_units u = { 0 };
    struct pare_speedup_opts so = { .threads = 1 };
    struct pare_speedup_report r;
    int64_t count[16];
    struct pare_cost all, less;

    (void)state;
    full_counts(t, count);
    all = pare_cost_predict(t, count, NULL);
    count[find(t, "layer2.1.conv1")->out_group] = 0;
    less = pare_cost_predict(t, count, NULL);
    assert_int_equal((int64_t)(all.macs - less.macs), 2 * 32 * 32 * 9 * 16 * 16);
    assert_true(less.bytes < all.bytes - 2 * 32 * 32 * 9 * 4);
    if (pare_model_duplicate(m, &masked, &err) || pare_cost_find_units(masked, a, &u, &err) ||
        pare_cost_zero(masked, &u, count, &err) || pare_speedup(masked, &so, a, &small, &r, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(count_nodes(m, "Conv") - count_nodes(small, "Conv"), 2);
    assert_int_equal(count_nodes(m, "Add") - count_nodes(small, "Add"), 1);
    assert_true(r.max_rel < 1e-4);
    assert_true(fabs(less.bytes / pare_model_message_bytes(small) - 1) < 0.02);
    pare_model_free(small);
    pare_model_free(masked);
    pare_model_free(m);
    pare_arena_free(a);
}

/* Of inverted residuals, those with a shortcut; of a chain none. */
static void test_only_residual_branches_have_no_channels(void **state)
{
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_model *m = make_network("mobilenetv2-cifar", 3, 32),
                      *chain = make_network("vgg7", 3, 32);
    struct pare_cost_table t = { .arena = a, .batch = 1, .threads = 1, .formats = 1 };
    struct pare_cost_table c = t;
    int n = 0;

    (void)state;
    if (pare_cost_space(m, &t, &err) || pare_cost_space(chain, &c, &err))
        fail_msg("%s", err.msg);
    for (int g = 0; g < t.n_groups; g++)
        n += t.group[g].choice[0] == 0;
    assert_int_equal(n, count_nodes(m, "Add"));
    for (int g = 0; g < c.n_groups; g++)
        assert_true(c.group[g].choice[0] > 0);
    if (pare_cost_check_branches(m, &t, &err))
        fail_msg("%s", err.msg);
    for (int g = 0; g < t.n_groups; g++)
        n -= t.group[g].choice[0] == 0;
    assert_int_equal(n, 0);
    pare_model_free(m);
    pare_model_free(chain);
    pare_arena_free(a);
}

static void test_flattened_channels_count_several_times(void **state)
{
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_model *m = make_network("lenet", 1, 28);
    struct pare_cost_table *t = measure(m, a,
                                        &(struct pare_cost_opts){ .formats = 1u << PARE_COST_F32,
                                                                  .models = 2 });
    int64_t count[16];

    (void)state;
    for (int i = 0; i < t->n_layers; i++) {
        const struct pare_cost_layer *l = &t->layer[i];

        full_counts(t, count);
        assert_int_equal(pare_cost_axis_count(&l->in, count), l->cin);
        assert_int_equal(pare_cost_axis_count(&l->out, count), l->cout);
        if (!i || strcmp(t->layer[i - 1].name, "conv2") != 0)
            continue;
        assert_int_equal(l->in.times[0], l->cin / t->layer[i - 1].cout);
        count[l->in_group] = 8;
        assert_int_equal(pare_cost_axis_count(&l->in, count), 8 * l->in.times[0]);
    }
    pare_model_free(m);
    pare_arena_free(a);
}

/* ---- times ----------------------------------------------------------------------------------- */

static void test_fit_recovers_the_timer(void **state)
{
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_model *m = make_network("lenet", 1, 28), *small;
    struct pare_cost_table *t = measure(m, a,
                                        &(struct pare_cost_opts){ .formats = 1u << PARE_COST_F32,
                                                                  .models = 24 });
    int64_t count[16];
    struct pare_cost c;
    double macs;

    (void)state;
    full_counts(t, count);
    macs = pare_cost_predict(t, count, NULL).macs;
    assert_true(fabs(t->alpha / ALPHA - 1) < 0.02);
    assert_true(t->error_median < 0.01 && t->error_worst < 0.05);
    for (int i = 0; i < t->n_groups; i++) /* perhaps not measured */
        count[i] = t->group[i].choice[t->group[i].n_choices / 2];
    c = pare_cost_predict(t, count, NULL);
    assert_true(c.macs < macs);
    assert_true(fabs(c.us / (FIXED + ALPHA * (t->n_layers + c.macs / 1000)) - 1) < 0.05);
    if (pare_cost_build(m, t, count, NULL, &small, &err))
        fail_msg("%s", err.msg);
    assert_true(fabs(c.bytes / pare_model_message_bytes(small) - 1) < 0.02);
    pare_cost_refit(t, c.us, 2 * c.us);
    assert_true(fabs(pare_cost_predict(t, count, NULL).us / (2 * c.us) - 1) < 1e-6);
    pare_model_free(small);
    pare_model_free(m);
    pare_arena_free(a);
}

static void test_int8_layers_are_smaller(void **state)
{
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_model *m = make_network("lenet", 1, 28), *small;
    struct pare_cost_table *t = measure(m, a, &(struct pare_cost_opts){ .models = 10 });
    enum pare_cost_format f[8] = { PARE_COST_F32, PARE_COST_INT8, PARE_COST_INT8, PARE_COST_F32 };
    int64_t count[16];
    struct pare_cost c;

    (void)state;
    full_counts(t, count);
    for (int i = 0; i < t->n_layers; i++)
        assert_int_equal(t->layer[i].formats, 3);
    c = pare_cost_predict(t, count, f);
    assert_true(c.bytes < 0.5 * pare_cost_predict(t, count, NULL).bytes);
    if (pare_cost_build(m, t, count, f, &small, &err))
        fail_msg("%s", err.msg);
    assert_true(fabs(c.bytes / pare_model_message_bytes(small) - 1) < 0.02);
    pare_model_free(small);
    pare_model_free(m);
    pare_arena_free(a);
}

/* ---- samples and files ----------------------------------------------------------------------- */

static void test_interpolation_is_exact_at_samples(void **state)
{
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_cost_samples s = { .arena = a };
    const struct pare_cost_curve *c;

    (void)state;
    for (int i = 8; i <= 64; i += 28)
        for (int o = 8; o <= 64; o += 28) {
            struct pare_cost_sample x = { i, o, 2 + 0.01 * i * o, 1 };

            assert_int_equal(pare_cost_samples_add(&s, "k", "int8", &x, &err), 0);
        }
    pare_cost_samples_fit(&s);
    c = pare_cost_samples_find(&s, "k", "int8");
    assert_null(pare_cost_samples_find(&s, "k", "float32"));
    assert_true(fabs(pare_cost_curve_at(c, 36, 64) - (2 + 0.01 * 36 * 64)) < 1e-9);
    assert_true(fabs(pare_cost_curve_at(c, 48, 16) / (2 + 0.01 * 48 * 16) - 1) < 0.01);
    pare_arena_free(a);
}

static void test_bad_lines_are_errors_with_their_number(void **state)
{
    static const char good[] =
        "{\"key\": \"k\", \"cin\": 8, \"cout\": 8, \"format\": \"int8\", \"us\": 1.5}\n";
    static const char *const bad[] = {
        "[]",
        "{\"key\": \"k\"}",
        "{\"key\": \"k\", \"cin\": -1, \"cout\": 8, \"format\": \"int8\", \"us\": 1}",
        "{\"key\": \"k\", \"cin\": 8, \"cout\": 1e30, \"format\": \"int8\", \"us\": 1}",
        "{\"key\": \"k\", \"cin\": 8, \"cout\": 8, \"format\": \"int8\", \"us\": -1}",
        "{\"key\": \"\", \"cin\": 8, \"cout\": 8, \"format\": \"int8\", \"us\": 1}",
        "{\"key\": \"k\", \"cin\": 8, \"cout\": 8, \"format\": 8, \"us\": 1}",
        "{\"key\"",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct pare_arena *a = pare_arena_new(1 << 14);
        struct pare_cost_samples s = { .arena = a };
        const char *text = pare_sprintf(a, "%s\n%s", good, bad[i]);

        assert_int_equal(pare_cost_samples_parse(&s, good, strlen(good), &err), 0);
        assert_int_not_equal(pare_cost_samples_parse(&s, text, strlen(text), &err), 0);
        assert_non_null(strstr(err.msg, "line 3")); /* the second one is empty */
        pare_arena_free(a);
    }
}

static void test_table_survives_save_and_load(void **state)
{
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct pare_model *m = make_network("lenet", 1, 28), *other = make_network("resnet20", 3, 32);
    char path[] = "/tmp/pare-times-XXXXXX";
    int fd = mkstemp(path);
    struct pare_cost_table *t, *read, *none;
    int64_t count[16];

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    t = measure(m, a,
                &(struct pare_cost_opts){ .formats = 1u << PARE_COST_F32,
                                          .models = 6,
                                          .write_table = path });
    read = measure(m, a,
                   &(struct pare_cost_opts){ .formats = 1u << PARE_COST_F32, .read_table = path });
    for (int i = 0; i < t->n_groups; i++)
        count[i] = t->group[i].choice[0];
    assert_true(
        fabs(pare_cost_predict(t, count, NULL).us / pare_cost_predict(read, count, NULL).us - 1) <
        1e-5);
    assert_true(
        fabs(pare_cost_predict(t, count, NULL).bytes / pare_cost_predict(read, count, NULL).bytes -
             1) < 1e-5);
    assert_int_not_equal(
        pare_cost_table_measure(other, &(struct pare_cost_opts){ .threads = 1, .read_table = path },
                                a, &none, &err),
        0);
    assert_non_null(strstr(err.msg, "has no times of layer"));
    unlink(path);
    pare_model_free(other);
    pare_model_free(m);
    pare_arena_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_groups_of_residual_network),
        cmocka_unit_test(test_flattened_channels_count_several_times),
        cmocka_unit_test(test_fit_recovers_the_timer),
        cmocka_unit_test(test_int8_layers_are_smaller),
        cmocka_unit_test(test_removed_branch_leaves_the_shortcut),
        cmocka_unit_test(test_only_residual_branches_have_no_channels),
        cmocka_unit_test(test_interpolation_is_exact_at_samples),
        cmocka_unit_test(test_bad_lines_are_errors_with_their_number),
        cmocka_unit_test(test_table_survives_save_and_load),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

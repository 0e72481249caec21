/* test_pruner_score.c - every pruner's scores of random weights against tools/golden_prune.py. */
#include "prune_rig.h"

#include "prune/activation_stats.h"
#include "prune/pairwise_distance.h"
#include "prune/unit_walk.h"
#include "io/npz.h"
#include "tensor/tensor.h"

static struct pare_arena *arena;
static struct pare_named *file;
static int n_file;

static int setup(void **state)
{
    (void)state;
    arena = pare_arena_new(1 << 16);
    ok(pare_npz_read(arena, "golden/prune_score.npz", &file, &n_file, &rig_err));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    pare_arena_free(arena);
    return 0;
}

static struct pare_tensor *find_array(const char *prefix, const char *case_name)
{
    char full[128];

    snprintf(full, sizeof(full), "%s%s", prefix, case_name);
    for (int i = 0; i < n_file; i++)
        if (!strcmp(file[i].name, full))
            return &file[i].t;
    fail_msg("the file has no %s", full);
    return NULL;
}

/* The name of a case: "l1|out_channel|conv". */
struct case_name {
    char part[3][32];
};

static struct case_name parse_case_name(const char *text)
{
    struct case_name n = { { { 0 } } };

    if (sscanf(text, "%31[^|]|%31[^|]|%31s", n.part[0], n.part[1], n.part[2]) != 3)
        n.part[0][0] = 0;
    return n;
}

/* The granularity of a case, as in golden_prune.py. */
static struct pare_grain grain_of_case(const struct case_name *n)
{
    static const struct {
        const char *weight;
        int64_t block[3];
        int n, out, in;
    } all[] = {
        { "conv", { 1, 3 }, 2, 0, 1 },    { "conv1x1", { 3, 1, 1 }, 3, 0, 1 },
        { "conv1d", { 2, 5 }, 2, 0, 1 },  { "transposed", { 2, 3, 3 }, 3, 1, 0 },
        { "linear", { 4, 5 }, 2, 0, 1 },  { "linear_t", { 5, 4 }, 2, 1, 0 },
        { "near", { 2, 5, 5 }, 3, 0, 1 }, { "many", { 37, 7 }, 2, 0, 1 },
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (!strcmp(all[i].weight, n->part[2]))
            return (struct pare_grain){ .name = n->part[1],
                                        .block = { all[i].block, all[i].n },
                                        .out_axis = all[i].out,
                                        .in_axis = all[i].in };
    fail_msg("unknown weight %s", n->part[2]);
    return (struct pare_grain){ 0 };
}

static void expect_close(const char *case_name, const float *got, const struct pare_tensor *want,
                         double rel)
{
    for (int64_t i = 0; i < pare_numel(want); i++)
        if (!(fabs((double)got[i] - pare_get(want, i)) <= rel * fabs(pare_get(want, i)) + rel / 10))
            fail_msg("%s: element %lld is %.9g, expected %.9g", case_name, (long long)i,
                     (double)got[i], pare_get(want, i));
}

/* A copy of the i-th gradient of a weight. */
static struct pare_tensor copy_gradient(const char *weight, int i)
{
    const struct pare_tensor *all = find_array("g.", weight), *w = find_array("w.", weight);
    struct pare_tensor g;

    ok(pare_tensor_new(arena, &g, PARE_F32, w->rank, w->dim, &rig_err));
    memcpy(g.data, pare_f32(all) + i * pare_numel(w), (size_t)pare_numel(w) * sizeof(float));
    return g;
}

static void test_scores_of_weights(void **state)
{
    int seen = 0;

    (void)state;
    for (int i = 0; i < n_file; i++) {
        struct case_name n = parse_case_name(file[i].name);
        struct pare_grain g;
        struct pruner_rig f;

        if (strcmp(n.part[0], "l1") && strcmp(n.part[0], "l2") && strcmp(n.part[0], "fpgm"))
            continue;
        g = grain_of_case(&n);
        pruner_rig_open(&f, n.part[0], NULL, find_array("w.", n.part[2]), &g);
        assert_int_equal(f.layer_prune.units.n, pare_numel(&file[i].t));
        expect_close(file[i].name, pruner_rig_score(&f), &file[i].t, 1e-5);
        pruner_rig_close(&f);
        seen++;
    }
    assert_int_equal(seen, 3 * 8 * 3 + 2 * 2);
}

static void test_taylor(void **state)
{
    int seen = 0;

    (void)state;
    for (int i = 0; i < n_file; i++) {
        struct case_name n = parse_case_name(file[i].name);
        struct pare_grain g;
        struct pruner_rig f;

        if (strcmp(n.part[0], "taylor"))
            continue;
        g = grain_of_case(&n);
        pruner_rig_open(&f, "taylor", "training_steps=3", find_array("w.", n.part[2]), &g);
        for (int k = 0; k < 3; k++) {
            struct pare_tensor grad = copy_gradient(n.part[2], k);

            assert_int_equal(f.p->pruner->score(&f.compression, &f.layer, f.score, &rig_err),
                             PARE_NOT_YET);
            pruner_rig_step(&f, &grad);
        }
        expect_close(file[i].name, pruner_rig_score(&f), &file[i].t, 1e-5);
        f.optim.step++; /* later queries restart the statistics */
        assert_int_equal(f.p->pruner->score(&f.compression, &f.layer, f.score, &rig_err),
                         PARE_NOT_YET);
        pruner_rig_close(&f);
        seen++;
    }
    assert_int_equal(seen, 3 * 8 + 2);
}

/* "movement|..." and "soft|...": scores learned in three steps. */
static void test_movement(void **state)
{
    int seen = 0;

    (void)state;
    for (int i = 0; i < n_file; i++) {
        struct case_name n = parse_case_name(file[i].name);
        bool soft = !strcmp(n.part[0], "soft");
        struct pare_grain g;
        struct pruner_rig f;

        if (!soft && strcmp(n.part[0], "movement"))
            continue;
        g = grain_of_case(&n);
        pruner_rig_open(
            &f, "movement",
            soft ? "movement_mode=soft regular_scale=2 warm_up_step=1 cool_down_beginning_step=4"
                 : NULL,
            find_array("w.", n.part[2]), &g);
        ok(f.p->start(&f.compression, &rig_err));
        for (int k = 0; k < 3; k++) {
            struct pare_tensor grad = copy_gradient(n.part[2], k);

            pruner_rig_step(&f, &grad);
        }
        expect_close(file[i].name, pruner_rig_score(&f), &file[i].t, 2e-5);
        pruner_rig_close(&f);
        seen++;
    }
    assert_int_equal(seen, 2 * (3 * 8 + 2));
}

/* Two iterations, as in golden_prune.py. */
static void test_admm(void **state)
{
    int seen = 0;

    (void)state;
    for (int i = 0; i < n_file; i++) {
        struct case_name n = parse_case_name(file[i].name);
        const char *key = strchr(file[i].name, '|');
        struct pare_tensor w, grad;
        struct pare_grain g;
        float *z, *u;
        struct pruner_rig f;

        if (strcmp(n.part[0], "admm.z"))
            continue;
        g = grain_of_case(&n);
        w = copy_gradient(n.part[2], 0);
        memcpy(w.data, find_array("w.", n.part[2])->data, (size_t)pare_numel(&w) * sizeof(float));
        pruner_rig_open(&f, "admm", "rho=0.125 iterations=3 training_epochs=1", &w, &g);
        f.layer_prune.sparsity = 0.6;
        ok(f.p->start(&f.compression, &rig_err));
        z = pare_f32_mut(pare_layer_buffer(&f.layer, "z", PARE_F32, w.rank, w.dim, &rig_err));
        u = pare_f32_mut(pare_layer_buffer(&f.layer, "u", PARE_F32, w.rank, w.dim, &rig_err));
        for (int e = 0; e < 3; e++) {
            ok(f.p->on_epoch(&f.compression, e, &rig_err));
            for (int64_t k = 0; e == 1 && k < pare_numel(&w); k++)
                pare_f32_mut(&w)[k] = 0.5f * pare_f32(&w)[k] + 0.25f * z[k];
        }
        grad = copy_gradient(n.part[2], 0);
        memset(grad.data, 0, (size_t)pare_numel(&w) * sizeof(float));
        pruner_rig_step(&f, &grad);
        expect_close(file[i].name, z, &file[i].t, 1e-5);
        expect_close(file[i].name, u, find_array("admm.u", key), 1e-5);
        expect_close(file[i].name, pare_f32(&grad), find_array("admm.g", key), 1e-5);
        assert_int_equal(f.p->pruner->score(&f.compression, &f.layer, f.score, &rig_err),
                         PARE_NOT_YET);
        pruner_rig_close(&f);
        seen++;
    }
    assert_int_equal(seen, 8);
}

static void test_apoz_and_mean_rank(void **state)
{
    int seen = 0;

    (void)state;
    for (int i = 0; i < n_file; i++) {
        struct case_name n = parse_case_name(file[i].name);
        const struct pare_tensor *x;
        double sum[64] = { 0 }, zeros[64] = { 0 };
        int axis = strcmp(n.part[2], "linear_t") ? 1 : 2;
        float got[64];

        if (strcmp(n.part[0], "apoz") && strcmp(n.part[0], "mean_rank"))
            continue;
        x = find_array("x.", n.part[2]);
        pare_activation_stats_add(x, axis, pare_activation_find(n.part[1]), sum, zeros);
        for (int64_t c = 0; c < x->dim[axis]; c++) {
            double count = (double)(pare_numel(x) / x->dim[axis]);

            got[c] = (float)(strcmp(n.part[0], "apoz") ? sum[c] / count : 1 - zeros[c] / count);
        }
        expect_close(file[i].name, got, &file[i].t, 2e-5);
        seen++;
    }
    assert_int_equal(seen, 3 * 3 * 2);
    assert_null(pare_activation_find("tanh"));
}

/* ---- helpers of pruners ---------------------------------------------------------------------- */

/* The walk visits every element once, in order, with the unit of its position. */
static void test_unit_walk(void **state)
{
    static const int64_t block[][4] = { { 1, 1, 1, 1 }, { 1, 6, 2, 3 }, { 4, 1, 2, 3 },
                                        { 4, 6, 2, 3 }, { 2, 3, 1, 1 }, { 2, 1, 2, 1 },
                                        { 1, 2, 1, 3 }, { 4, 6, 1, 1 }, { 1, 1, 2, 3 } };
    static const int64_t dim[] = { 4, 6, 2, 3 };

    (void)state;
    for (size_t c = 0; c < sizeof(block) / sizeof(block[0]); c++) {
        struct pare_units u = { .rank = 4, .n = 1 };
        struct pare_unit_walk w;
        int64_t at = 0;

        for (int k = 0; k < 4; k++) {
            u.block[k] = block[c][k];
            u.grid[k] = dim[k] / block[c][k];
            u.n *= u.grid[k];
        }
        for (pare_unit_walk_begin(&w, &u); w.len; pare_unit_walk_next(&w)) {
            assert_int_equal(w.at, at);
            for (int64_t i = 0; i < w.len; i++, at++) {
                int64_t rest = at, unit = 0, index[4];

                for (int k = 3; k >= 0; k--, rest /= dim[k + 1])
                    index[k] = rest % dim[k] / block[c][k];
                for (int k = 0; k < 4; k++)
                    unit = unit * u.grid[k] + index[k];
                assert_int_equal(w.unit + i * w.step, unit);
            }
        }
        assert_int_equal(at, 4 * 6 * 2 * 3);
    }
}

/* A few vectors; and 300, of which many are almost equal, against differences in float64:
 * distances by products would have no correct digit. */
static void test_pairwise_distances(void **state)
{
    double few[3], sum[300];
    float row[3][2] = { { 0, 0 }, { 3, 4 }, { 6, 8 } };
    float *x = pare_alloc(arena, 300 * 64, sizeof(float));

    (void)state;
    ok(pare_pairwise_distances(row[0], 3, 2, few, arena, &rig_err));
    expect_near(few[0], 15, 1e-6);
    expect_near(few[1], 10, 1e-6);
    expect_near(few[2], 15, 1e-6);
    for (int i = 0; i < 300; i++)
        for (int k = 0; k < 64; k++)
            x[i * 64 + k] = (float)(1000 + (k * 37 + i / 3) % 11 + (i % 3) * 1e-3);
    ok(pare_pairwise_distances(x, 300, 64, sum, arena, &rig_err));
    for (int i = 0; i < 300; i++) {
        double want = 0;

        for (int j = 0; j < 300; j++) {
            double square = 0;

            for (int k = 0; k < 64; k++)
                square += pow((double)x[i * 64 + k] - (double)x[j * 64 + k], 2);
            want += sqrt(square);
        }
        expect_near(sum[i], want, 1e-5 * want);
    }
}

/* N:M masks against values computed by hand, with a remainder, along both axes. */
static void test_n_of_m_masks(void **state)
{
    float row[] = { 1, -4, 3, 2, 5, 5, 5, 5, 1, -2, 9 };
    static const uint8_t two_four[] = { 0, 1, 1, 0, 0, 0, 1, 1, 0, 1, 1 };
    static const uint8_t one_three[] = { 0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 1 };
    float thin[12] = { 1, 2, 3, 4, 5, 6, 6, 5, 4, 3, 2, 1 };
    static const uint8_t columns[] = { 0, 0, 0, 1, 1, 1, 1, 1, 1, 0, 0, 0 };
    struct pare_tensor w = { PARE_F32, 2, { 1, 11 }, row }, v = { PARE_F32, 2, { 4, 3 }, thin };
    struct pare_grain g = { .name = "element", .out_axis = 0, .in_axis = 1 };
    struct pruner_rig f;

    (void)state;
    pruner_rig_open(&f, "nm", NULL, &w, &g);
    ok(f.p->pruner->calc_mask(&f.compression, &f.layer, &rig_err));
    assert_memory_equal(f.layer.mask.data, two_four, 11);
    pruner_rig_close(&f);
    pruner_rig_open(&f, "nm", "n=1 m=3", &w, &g);
    ok(f.p->pruner->calc_mask(&f.compression, &f.layer, &rig_err));
    assert_memory_equal(f.layer.mask.data, one_three, 11);
    pruner_rig_close(&f);
    g.in_axis = 0;
    pruner_rig_open(&f, "nm", "n=2 m=4", &v, &g);
    ok(f.p->pruner->calc_mask(&f.compression, &f.layer, &rig_err));
    assert_memory_equal(f.layer.mask.data, columns, 12);
    pruner_rig_close(&f);
    pruner_rig_open(&f, "nm", "n=5 m=4", &w, &g);
    assert_int_equal(f.p->pruner->calc_mask(&f.compression, &f.layer, &rig_err), PARE_ECONFIG);
    pruner_rig_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scores_of_weights),  cmocka_unit_test(test_taylor),
        cmocka_unit_test(test_movement),           cmocka_unit_test(test_admm),
        cmocka_unit_test(test_apoz_and_mean_rank), cmocka_unit_test(test_unit_walk),
        cmocka_unit_test(test_pairwise_distances), cmocka_unit_test(test_n_of_m_masks),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}

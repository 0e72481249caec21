/* test_rank_groups.c - channels of all layers ranked together: comparable scores, the least share
 * of a layer, isomorphic layers, coupled channels. */
#include "prune_rig.h"
#include "speedup_rig.h"

enum { C = 8, LAYERS = 4 };

/* Two layers in a row, whose filters differ by a factor, and two that are added. */
static struct pare_model *make(void)
{
    struct net n = net_new(3);
    const char *x = net_image(&n), *y[2];

    for (int i = 0; i < 2; i++)
        x = net_relu(&n, net_bn(&n, net_conv(&n, x, ALL, i ? C : 3, C, 3), C));
    for (int i = 0; i < 2; i++)
        y[i] = net_bn(&n, net_conv(&n, x, ALL, C, C, i ? 1 : 3), C);
    x = net_relu(&n, net_add(&n, y[0], y[1]));
    x = build_node(&n.b, "GlobalAveragePool", NAMES(x), NOTHING);
    x = build_node(&n.b, "Flatten", NAMES(x), NOTHING);
    build_output(&n.b, net_gemm(&n, x, ALL, C, 4));
    return build_model(&n.b);
}

/* The L1 norm of filter c of layer i is size[i] * (1 + c). */
static struct pare_compression *prune(struct pare_model *m, const char *settings, const float *size)
{
    struct pare_compression *r =
        rig_compression(m, "l1", "[{\"sparsity\": 0.5, \"op_types\": [\"Conv2d\"]}]", settings);

    assert_int_equal(pare_compression_layers(r), LAYERS);
    for (int i = 0; i < LAYERS; i++) {
        const struct pare_tensor *w = &r->layer[i].w;
        int64_t each = pare_numel(w) / w->dim[0];

        for (int64_t k = 0; k < pare_numel(w); k++)
            pare_f32_mut(w)[k] = size[i] * (float)(1 + k / each) / (float)each;
    }
    ok(pare_compression_compress(r, &rig_err));
    return r;
}

static int kept(struct pare_compression *r, int i)
{
    int64_t each = pare_numel(&r->layer[i].w) / C;

    return C - (int)(pare_mask_zeros(&r->layer[i].mask) / each);
}

static void test_scores_are_comparable(void **state)
{
    static const float size[LAYERS] = { 1, 100, 1, 1 };
    static const char *const how[] = { "mean", "max", "lamp" };

    (void)state;
    for (int i = -1; i < 3; i++) {
        struct pare_model *m = make();
        struct pare_compression *r;
        char settings[80], a[64], b[64];

        snprintf(settings, sizeof(settings), "mode=global_aware normalize=%s",
                 i < 0 ? "none" : how[i]);
        r = prune(m, settings, size);
        if (i < 0) {
            assert_int_equal(kept(r, 1), C);
            assert_true(kept(r, 0) <= 1);
        } else {
            assert_string_equal(rig_kept(&r->layer[0].mask, a), rig_kept(&r->layer[1].mask, b));
            assert_in_range(kept(r, 0), 2, 6);
        }
        assert_string_equal(rig_kept(&r->layer[2].mask, a), rig_kept(&r->layer[3].mask, b));
        pare_compression_free(r);
        pare_model_free(m);
    }
}

/* Layers 2 and 3 have small filters: by themselves they keep half, with the others nothing or the
 * least that is allowed. */
static void test_limits_and_isomorphic_layers(void **state)
{
    static const float size[LAYERS] = { 100, 100, 1, 1 };
    static const struct {
        const char *settings;
        int kept;
    } all[] = {
        { "mode=global_aware normalize=none min_keep=0.75", 6 },
        { "mode=global_aware normalize=none min_keep=0.25", 2 },
        { "mode=global_aware normalize=none isomorphic=true", 4 },
        { "mode=dependency_aware", 4 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        struct pare_model *m = make();
        struct pare_compression *r = prune(m, all[i].settings, size);

        if (kept(r, 2) != all[i].kept || kept(r, 3) != all[i].kept)
            fail_msg("%s: %d and %d channels are kept, expected %d", all[i].settings, kept(r, 2),
                     kept(r, 3), all[i].kept);
        pare_compression_free(r);
        pare_model_free(m);
    }
}

/* The same settings without dependency groups. */
static void test_layers_are_ranked_together(void **state)
{
    static const float size[LAYERS] = { 1, 100, 1, 1 };
    struct pare_model *m = make();
    struct pare_compression *r = prune(m, "mode=global normalize=mean min_keep=0.5", size);
    char a[64], b[64];

    (void)state;
    for (int i = 0; i < LAYERS; i++)
        assert_int_equal(kept(r, i), C / 2);
    assert_string_equal(rig_kept(&r->layer[0].mask, a), rig_kept(&r->layer[1].mask, b));
    pare_compression_free(r);
    r = prune(m, "mode=global min_keep=0.25", size);
    assert_true(kept(r, 1) > kept(r, 0));
    assert_int_equal(kept(r, 0), 2);
    pare_compression_free(r);
    pare_model_free(m);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, make_pool, drop_pool)
    const struct CMUnitTest tests[] = {
        T(test_scores_are_comparable),
        T(test_limits_and_isomorphic_layers),
        T(test_layers_are_ranked_together),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

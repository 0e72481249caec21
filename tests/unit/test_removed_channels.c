/* test_removed_channels.c - a removed channel is 0 after normalizations and added constants, too,
 * so that speedup keeps nothing of it; masks survive training, checkpoints and mask files. */
#include "prune_rig.h"
#include "speedup_rig.h"

#include <pare/session.h>
#include <unistd.h>

enum { C = 8 };

struct outcome {
    struct pare_model *m, *masked, *small;
    struct pare_speedup_report r;
};

/* Prune and shrink; fails unless both models compute the same. */
static struct outcome shrink(struct net *n, const char *y, const char *settings, const char *config)
{
    struct pare_prune_opts o = { .pruner = "l1", .settings = settings, .config = config };
    struct outcome x;
    struct pare_err err;

    build_output(&n->b, y);
    x.m = build_model(&n->b);
    o.sparsity = config ? 0 : 0.5;
    if (pare_prune(x.m, &o, &x.masked, NULL, &err) ||
        pare_speedup(x.masked, &(struct pare_speedup_opts){ .threads = 1 }, pool, &x.small, &x.r,
                     &err))
        fail_msg("%s", err.msg);
    assert_true(x.r.verified);
    return x;
}

static int64_t channels(const struct outcome *x, int i)
{
    struct speedup_result s = { x->m, x->small, x->r };

    return speedup_out_channels(&s, i);
}

static void drop(struct outcome *x)
{
    pare_model_free(x->small);
    pare_model_free(x->masked);
    pare_model_free(x->m);
}

static void expect(struct net *n, const char *y, const char *settings, int count,
                   const int64_t *out)
{
    struct outcome x = shrink(n, y, settings, NULL);

    for (int i = 0; i < count; i++)
        if (channels(&x, i) != out[i])
            fail_msg("layer %d keeps %lld channels, expected %lld", i, (long long)channels(&x, i),
                     (long long)out[i]);
    drop(&x);
}
#define HALVED(n, y, settings, ...) expect(n, y, settings, INTS(__VA_ARGS__))

static const char *scaled(struct net *n, const char *type, const char *x)
{
    struct bin attrs = strcmp(type, "GroupNormalization") ? NOTHING : at_int("num_groups", C / 2);
    const char *scale = CONST(n, 1, 0.4f, C), *bias = CONST(n, 0.3f, 0.1f, C);

    return build_node(&n->b, type, NAMES(x, scale, bias), attrs);
}

/* Padded convolutions: a constant cannot become a bias, a carrier must be kept. */
static void test_normalized_channels_need_no_carrier(void **state)
{
    (void)state;
    for (int keep = 0; keep < 2; keep++) {
        struct net n = net_new(3);
        const char *x = net_block(&n, net_block(&n, net_image(&n), ALL, 3, C), ALL, C, C);
        const char *set = keep ? "keep_constants=true" : NULL;

        HALVED(&n, net_conv(&n, x, ALL, C, 4, 3), set, C / 2 + keep);
    }
}

static void test_other_normalizations_are_masked(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct net n = net_new(4);
        const char *x = net_conv(&n, net_image(&n), ALL, 3, C, 3);

        n.b.opset = i ? 21 : 17;
        x = net_relu(&n, scaled(&n, i ? "GroupNormalization" : "InstanceNormalization", x));
        HALVED(&n, net_conv(&n, x, ALL, C, 4, 3), "mode=dependency_aware", C / 2, 4);
    }
}

/* x + a per channel, PRelu, a sum of both: 0 remains 0. */
static void test_added_constants_are_masked(void **state)
{
    struct net n = net_new(5);
    const char *x = net_conv(&n, net_image(&n), ALL, 3, C, 3), *y;

    (void)state;
    x = net_add(&n, x, CONST(&n, 1, 0.3f, C, 1, 1));
    x = build_node(&n.b, "PRelu", NAMES(x, CONST(&n, 0.2f, 0.1f, C, 1, 1)), NOTHING);
    y = build_node(&n.b, "Mul", NAMES(CONST(&n, 1, 0.3f, C, 1, 1), x), NOTHING);
    x = build_node(&n.b, "Sub", NAMES(x, CONST(&n, 1, 0.3f, 1, C, 1, 1)), NOTHING);
    x = build_node(&n.b, "MaxPool", NAMES(net_add(&n, x, y)), at_ints("kernel_shape", INTS(2, 2)));
    HALVED(&n, net_conv(&n, x, ALL, C, 4, 3), NULL, C / 2, 4);
}

/* A stream that two blocks write to, normalized before it is read. */
static void test_residual_stream_is_halved(void **state)
{
    struct net n = net_new(6);
    const char *x = net_conv(&n, net_image(&n), ALL, 3, C, 3), *y;

    (void)state;
    for (int i = 0; i < 2; i++) {
        y = net_conv(&n, net_relu(&n, net_bn(&n, x, C)), ALL, C, 12, 3);
        y = net_conv(&n, net_relu(&n, net_bn(&n, y, 12)), ALL, 12, C, 3);
        x = net_add(&n, x, net_bn(&n, y, C));
    }
    x = net_conv(&n, net_relu(&n, net_bn(&n, x, C)), ALL, C, 4, 3);
    HALVED(&n, x, "mode=dependency_aware", C / 2, 6, C / 2, 6, C / 2, 4);
}

/* With and without dependency groups: the bias of a depthwise filter without input is masked. */
static void test_depthwise_layers_lose_the_channels(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct net n = net_new(7);
        const char *x = net_relu(&n, net_bn(&n, net_conv(&n, net_image(&n), ALL, 3, C, 1), C));
        struct outcome o;

        x = net_relu(&n, net_bn(&n, net_grouped_conv(&n, x, ALL, C, 1, 3), C));
        x = net_conv(&n, x, ALL, C, 4, 3);
        o = shrink(&n, x, i ? "mode=dependency_aware" : "mode=normal", NULL);
        assert_true(channels(&o, 0) <= C / 2);
        assert_int_equal(channels(&o, 0), channels(&o, 1));
        drop(&o);
    }
}

/* Masked with the convolution before it; one that is excluded is kept. */
static void test_normalizations_follow_unless_excluded(void **state)
{
    static const char *const config[] = {
        "[{\"sparsity\": 0.5, \"op_names\": [\"re:c.*\"]}]",
        "[{\"sparsity\": 0.5, \"op_names\": [\"re:c.*\"]},"
        " {\"exclude\": true, \"op_types\": [\"BatchNorm2d\"]}]",
    };

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct pare_model *m = rig_model("small");
        struct pare_compression *r;
        char text[64];

        r = rig_compression(m, "l1", i ? config[1] : config[0], NULL);
        assert_int_equal(pare_compression_layers(r), 2);
        assert_int_equal(r->n_hidden, i ? 0 : 2);
        ok(pare_compression_compress(r, &rig_err));
        for (int k = 0; k < r->n_hidden; k++) {
            const struct pare_layer *l = &r->layer[2 + k];
            char of[64];

            assert_string_equal(l->info.name, k ? "bn2" : "bn1");
            rig_kept(&r->layer[k].mask, of);
            assert_string_equal(rig_kept(&l->mask, text), of);
            assert_string_equal(rig_kept(&l->bias_mask, text), of);
        }
        pare_compression_free(r);
        pare_model_free(m);
    }
}

/* One normalization after two convolutions, which are pruned separately. */
static void test_normalization_used_twice(void **state)
{
    struct net n = net_new(8);
    const char *x = net_image(&n), *p[4], *y[2];
    struct pare_compression *r;
    struct pare_model *m;
    int both = 0;

    (void)state;
    for (int i = 0; i < 4; i++)
        p[i] = CONST(&n, i == 3 ? 1 : 0.3f, 0.2f, C);
    for (int i = 0; i < 2; i++)
        y[i] = build_node(&n.b, "BatchNormalization",
                          NAMES(net_conv(&n, x, ALL, 3, C, 3), p[0], p[1], p[2], p[3]), NOTHING);
    x = build_node(&n.b, "Concat", NAMES(y[0], y[1]), at_int("axis", 1));
    build_output(&n.b, net_conv(&n, net_relu(&n, x), ALL, 2 * C, 4, 3));
    m = build_model(&n.b);
    r = rig_compression(m, "l1", "[{\"sparsity\": 0.5, \"op_types\": [\"Conv2d\"]}]", NULL);
    ok(pare_compression_compress(r, &rig_err));
    assert_int_equal(r->n_hidden, 1);
    for (int i = 0; i < C; i++) {
        bool gone = true;

        for (int k = 0; k < 2; k++)
            gone &= !((uint8_t *)r->layer[k].mask.data)[i * 27];
        both += gone;
        assert_int_equal(((uint8_t *)r->layer[r->n_layers - 1].mask.data)[i], !gone);
    }
    assert_true(both > 0 && both < C / 2);
    pare_compression_free(r);
    pare_model_free(m);
}

static double largest(const struct pare_tensor *t, const struct pare_tensor *mask)
{
    double most = 0;

    for (int64_t i = 0; i < pare_numel(t); i++)
        if (!((const uint8_t *)mask->data)[i])
            most = fmax(most, fabs((double)pare_f32(t)[i]));
    return most;
}

static void test_masks_are_kept_in_training_and_files(void **state)
{
    char path[] = "/tmp/pare-removed-XXXXXX.npz";
    struct pare_model *m = rig_model("small"), *again = rig_model("small");
    struct pare_training *t;
    struct pare_compression *r;
    int fd = mkstemps(path, 4);

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    ok(pare_training_open(m, "digits", "optimizer=adam lr=2e-3 threads=1 epochs=1 valid=none", &t,
                          &rig_err));
    r = rig_compression(m, "l1", "[{\"sparsity\": 0.5, \"op_types\": [\"Conv2d\"]}]", NULL);
    ok(pare_compression_follow(r, t, &rig_err));
    ok(pare_compression_compress(r, &rig_err));
    ok(pare_training_run(t, NULL, NULL, &rig_err));
    assert_int_equal(r->n_hidden, 2);
    for (int i = 2; i < 4; i++) {
        assert_int_equal(pare_mask_zeros(&r->layer[i].mask), i == 2 ? 4 : 8);
        assert_true(largest(&r->layer[i].weight->t, &r->layer[i].mask) == 0);
        assert_true(largest(&r->layer[i].bias->t, &r->layer[i].bias_mask) == 0);
    }
    ok(pare_compression_export(r, &(struct pare_export){ .masks = path }, &rig_err));
    ok(pare_apply_masks(again, path, &rig_err));
    assert_true(largest(rig_weight(again, "bn1.bias"), &r->layer[2].bias_mask) == 0);
    assert_true(largest(rig_weight(again, "bn2.weight"), &r->layer[3].mask) == 0);
    unlink(path);
    pare_training_free(t);
    pare_compression_free(r);
    pare_model_free(m);
    pare_model_free(again);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, make_pool, drop_pool)
    const struct CMUnitTest tests[] = {
        T(test_normalized_channels_need_no_carrier),
        T(test_other_normalizations_are_masked),
        T(test_added_constants_are_masked),
        T(test_residual_stream_is_halved),
        T(test_depthwise_layers_lose_the_channels),
        T(test_normalizations_follow_unless_excluded),
        T(test_normalization_used_twice),
        T(test_masks_are_kept_in_training_and_files),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

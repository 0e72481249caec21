/* test_dependency_groups.c - dependency-aware pruning: layers of a group lose the same channels.
 *
 * Dependency groups of NNI's tests, and its cases N28, N29 and N31.
 */
#include "prune_rig.h"

#include "prune/dependency_groups.h"
#include "graph/keep_sets.h"
#include "graph/pattern/pattern.h"

#define ALL(s) "[{\"sparsity\": " s ", \"op_types\": [\"Conv2d\"]}]"

/* ---- networks ------------------------------------------------------------------------------- */

static struct pare_flow conv(struct pare_net *n, struct pare_flow x, const char *name, int64_t out,
                             int64_t group)
{
    return pare_net_conv(n, x, name,
                         (struct pare_conv){ .out = out, .kernel = 3, .pad = 1, .group = group });
}

static struct pare_flow concat(struct pare_net *n, struct pare_flow a, struct pare_flow b, int axis,
                               const char *name)
{
    struct pare_flow y = a;

    y.value = pare_builder_node(n->make, "Concat", name, a.value, b.value, NULL);
    y.c = axis == 1 ? a.c + b.c : a.c;
    pare_builder_int(n->make, "axis", axis);
    return y;
}

/* Two convolutions of x, concatenated. */
static struct pare_flow two_convs(struct pare_net *n, struct pare_flow x, const int64_t out[2],
                                  int axis, const char *const name[3])
{
    struct pare_flow a = conv(n, x, name[0], out[0], 1), b = conv(n, x, name[1], out[1], 1);

    return concat(n, a, b, axis, name[2]);
}
#define TWO(n, x, out1, out2, axis, ...) \
    two_convs(n, x, (int64_t[]){ out1, out2 }, axis, (const char *const[]){ __VA_ARGS__ })

static struct pare_flow classify(struct pare_net *n, struct pare_flow x)
{
    x = pare_net_flatten(n, pare_net_average(n, x, "pool"), "flatten");
    return pare_net_linear(n, x, "fc", n->classes);
}

/* Case N28: a sum of a grouped convolution and another one. */
static struct pare_flow simple(struct pare_net *n, struct pare_flow x)
{
    struct pare_flow a;

    x = pare_net_relu(n, conv(n, x, "conv1", 16, 1), "relu1");
    a = conv(n, x, "conv2", 32, 4);
    x = pare_net_sum(n, a, conv(n, x, "conv3", 32, 1), "add");
    x = pare_net_linear(n, pare_net_flatten(n, x, "flatten"), "fc1", 100);
    return pare_net_linear(n, x, "fc2", n->classes);
}

/* Case N29: a concatenation along the batch axis ties the channels, and so does the sum (NNI
 * considers the two concatenations independent); along the channel axis it does not. */
static struct pare_flow cat_batch(struct pare_net *n, struct pare_flow x)
{
    struct pare_flow a = TWO(n, x, 8, 8, 0, "conv1", "conv2", "cat1"),
                     b = TWO(n, x, 8, 8, 0, "conv3", "conv4", "cat2");

    return classify(n, pare_net_sum(n, a, b, "add"));
}

static struct pare_flow cat_channels(struct pare_net *n, struct pare_flow x)
{
    return classify(n, TWO(n, x, 8, 8, 1, "conv1", "conv2", "cat"));
}

/* A concatenation added to a convolution: each operand is tied to a part of the convolution. */
static struct pare_flow cat_sum(struct pare_net *n, struct pare_flow x)
{
    struct pare_flow a;

    a = TWO(n, x, 8, 4, 1, "conv1", "conv2", "cat");
    return classify(n, pare_net_sum(n, a, conv(n, x, "conv3", 12, 1), "add"));
}

static struct pare_flow cat_self(struct pare_net *n, struct pare_flow x)
{
    x = conv(n, x, "conv1", 8, 1);
    return classify(n, conv(n, concat(n, x, x, 1, "cat"), "conv2", 6, 1));
}

/* Channel shuffle: channel i of the first half becomes a neighbor of channel i of the second. */
static struct pare_flow shuffle(struct pare_net *n, struct pare_flow x)
{
    static const int64_t halves[] = { -1, 2, 4, 8, 8 }, perm[] = { 0, 2, 1, 3, 4 },
                         back[] = { -1, 8, 8, 8 };

    x = TWO(n, x, 4, 4, 1, "conv1", "conv2", "cat");
    x.value = pare_builder_node(n->make, "Reshape", "split", x.value,
                                pare_builder_shape(n->make, "shape1", 5, halves), NULL);
    x.value = pare_builder_node(n->make, "Transpose", "transpose", x.value, NULL);
    pare_builder_ints(n->make, "perm", 5, perm);
    x.value = pare_builder_node(n->make, "Reshape", "back", x.value,
                                pare_builder_shape(n->make, "shape2", 4, back), NULL);
    return classify(n, conv(n, x, "conv3", 4, 1));
}

static struct pare_model *make_network(struct pare_flow (*build)(struct pare_net *,
                                                                 struct pare_flow))
{
    struct pare_network net = { .name = "made", .build = build };
    struct pare_network_opts o = { .c = 1, .h = 8, .w = 8, .classes = 10, .seed = 7 };
    struct pare_model *m;

    ok(pare_network_make(&net, &o, &m, &rig_err));
    return m;
}

static struct pare_compression *prune_dependency_aware(struct pare_model *m, const char *config)
{
    struct pare_compression *r = rig_compression(m, "l1", config, "mode=dependency_aware");

    ok(pare_compression_compress(r, &rig_err));
    return r;
}

static void free_both(struct pare_compression *r, struct pare_model *m)
{
    pare_compression_free(r);
    pare_model_free(m);
}

/* ---- dependency groups ---------------------------------------------------------------------- */

/* Expects these dependency groups, "a b, c d"; groups of one layer are not listed. */
static void expect_groups(struct pare_compression *r, const char *want)
{
    const struct pare_dependency_groups *d;
    char text[2048] = "";

    ok(pare_compression_groups(r, &d, &rig_err));
    for (int i = 0; i < d->n; i++)
        for (int k = 0; k < d->list[i].n_layers && d->list[i].n_layers > 1; k++)
            snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s",
                     k       ? " "
                     : *text ? ", "
                             : "",
                     r->layer[d->list[i].layer[k]].info.name);
    assert_string_equal(text, want);
}

static void test_groups_of_small_networks(void **state)
{
    static const struct {
        struct pare_flow (*build)(struct pare_net *, struct pare_flow);
        const char *sets;
    } nets[] = {
        { simple, "conv1 conv1 conv1 conv1, conv2 conv2 conv2 conv2 conv3 conv3 conv3 conv3" },
        { cat_batch, "conv1 conv2 conv3 conv4" },
        { cat_channels, "" },
        { cat_sum, "conv1 conv3, conv2 conv3" },
        { cat_self, "" },
        { shuffle, "" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(nets) / sizeof(*nets); i++) {
        struct pare_model *m = make_network(nets[i].build);
        struct pare_compression *r = prune_dependency_aware(m, ALL("0.5"));

        expect_groups(r, nets[i].sets);
        free_both(r, m);
    }
}

static void test_groups_of_zoo_networks(void **state)
{
    static const struct {
        const char *net, *sets;
    } nets[] = {
        { "lenet", "" },
        { "vgg16-cifar", "" },
        { "resnet18-cifar",
          "conv1 layer1.0.conv2 layer1.1.conv2, layer2.0.conv2 layer2.0.downsample.0 "
          "layer2.1.conv2, layer3.0.conv2 layer3.0.downsample.0 layer3.1.conv2, layer4.0.conv2 "
          "layer4.0.downsample.0 layer4.1.conv2" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(nets) / sizeof(*nets); i++) {
        struct pare_model *m;
        struct pare_network_opts o = { .c = 3, .h = 32, .w = 32, .classes = 10, .seed = 1 };
        const struct pare_network *net;
        struct pare_compression *r;

        ok(pare_find_network(nets[i].net, &net, &rig_err));
        ok(pare_network_make(net, &o, &m, &rig_err));
        r = prune_dependency_aware(m, ALL("0.7"));
        expect_groups(r, nets[i].sets);
        for (int k = 0; k < r->n_layers; k++) {
            int64_t n = r->layer[k].w.dim[0];

            assert_int_equal(rig_removed(&r->layer[k]) / (pare_numel(&r->layer[k].w) / n),
                             (int64_t)((double)n * 0.7));
        }
        free_both(r, m);
    }
}

/* ---- masks ---------------------------------------------------------------------------------- */

/* Number of channels of a layer that remain if every channel that a mask keeps is kept. */
static int64_t remaining_channels(struct pare_compression *r, const char *layer)
{
    struct pare_layer *l = rig_layer(r, layer);
    struct pare_graph *g = pare_graph_clone(r->scratch, r->graph, &rig_err);
    struct pare_keep_sets *k;
    int64_t n;

    assert_non_null(g);
    ok(pare_graph_canonical_axes(g, &rig_err));
    ok(pare_keep_sets_new(r->scratch, g, &k, &rig_err));
    for (int i = 0; i < r->n_layers; i++) {
        const struct pare_layer *x = &r->layer[i];
        int64_t size = pare_numel(&x->w) / x->w.dim[0];
        uint8_t *keep = pare_keep_axis(k, g->value[x->info.weight->id], 0);

        for (int64_t c = 0; c < x->w.dim[0]; c++)
            keep[c] |= ((const uint8_t *)x->mask.data)[c * size];
    }
    ok(pare_keep_sets_solve(k, &rig_err));
    n = pare_keep_sets_count(k, g->value[l->info.weight->id], 0);
    return n;
}

static void test_groups_lose_the_same_channels(void **state)
{
    struct pare_model *m = make_network(simple);
    struct pare_compression *r = prune_dependency_aware(m, ALL("0.75"));
    char a[64], b[64];

    (void)state;
    assert_string_equal(rig_kept(pare_layer_mask(rig_layer(r, "conv2")), a),
                        rig_kept(pare_layer_mask(rig_layer(r, "conv3")), b));
    assert_int_equal(rig_removed(rig_layer(r, "conv1")), 12 * 9);
    assert_int_equal(rig_removed(rig_layer(r, "conv2")), 24 * 4 * 9);
    assert_int_equal(remaining_channels(r, "conv1"), 4);
    assert_int_equal(remaining_channels(r, "conv2"), 8);
    assert_int_equal(remaining_channels(r, "conv3"), 8);
    free_both(r, m);
}

/* Everything a mask removes can be removed from the model, through any operator. */
static void test_all_masked_channels_are_removable(void **state)
{
    static struct pare_flow (*const build[])(struct pare_net *,
                                             struct pare_flow) = { cat_batch, cat_channels, cat_sum,
                                                                   cat_self, shuffle };

    (void)state;
    for (size_t i = 0; i < sizeof(build) / sizeof(*build); i++) {
        struct pare_model *m = make_network(build[i]);
        struct pare_compression *r = prune_dependency_aware(m, ALL("0.5"));

        for (int k = 0; k < r->n_layers; k++)
            if (remaining_channels(r, r->layer[k].info.name) != r->layer[k].w.dim[0] / 2)
                fail_msg("network %d: %d channels of %s remain, expected half", (int)i,
                         (int)remaining_channels(r, r->layer[k].info.name), r->layer[k].info.name);
        free_both(r, m);
    }
}

/* The smallest sparsity of a dependency group applies to all its layers; sums of scores decide. */
static void test_smallest_sparsity_and_summed_scores(void **state)
{
    struct pare_model *m = make_network(cat_batch);
    struct pare_compression *r;

    (void)state;
    rig_fill_channels(m, "conv1.weight", 1, 1);  /* 1 2 3 ... 8 */
    rig_fill_channels(m, "conv2.weight", 9, -1); /* 9 8 7 ... 2 */
    rig_weight(m, "conv1.weight");
    pare_f32_mut(rig_weight(m, "conv2.weight"))[3 * 9] = 0;
    pare_f32_mut(rig_weight(m, "conv2.weight"))[5 * 9] = -1;
    r = prune_dependency_aware(
        m, "[{\"sparsity\": 0.25, \"op_names\": [\"conv1\"]}, {\"sparsity\": 0.5, \"op_names\": "
           "[\"conv2\"]}]");
    rig_expect_kept(r, "conv1", "11101011");
    rig_expect_kept(r, "conv2", "11101011");
    free_both(r, m);
}

/* A pruner that computes its masks itself is rejected. */
static void test_pruners_with_own_masks_are_refused(void **state)
{
    struct pare_model *m = make_network(cat_batch);
    struct pare_compression *r = rig_compression(
        m, "nm", "[{\"op_types\": [\"Conv2d\"], \"sparsity\": 0.5}]", "mode=dependency_aware");

    (void)state;
    assert_int_not_equal(pare_compression_compress(r, &rig_err), 0);
    free_both(r, m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_groups_of_small_networks),
        cmocka_unit_test(test_groups_of_zoo_networks),
        cmocka_unit_test(test_groups_lose_the_same_channels),
        cmocka_unit_test(test_all_masked_channels_are_removable),
        cmocka_unit_test(test_smallest_sparsity_and_summed_scores),
        cmocka_unit_test(test_pruners_with_own_masks_are_refused),
    };

    return cmocka_run_group_tests_name("dependency_groups", tests, NULL, NULL);
}

/* test_prune_recurrent.c - channel pruning of recurrent layers: masks of whole states, and their
 * removal. */
#include "speedup_rig.h"

#include <math.h>
#include <unistd.h>

#include <pare/session.h>

#include "compress/compression.h"

enum { T = 4, B = 2, I = 6, H = 8 };

struct cell {
    const char *type;
    int gates, dirs;
    bool reverse;  /* with one direction */
    int64_t reset; /* linear_before_reset */
    bool peep;
    bool last; /* only the state after the last step is used */
    bool no_bias;
    bool layout;      /* the batch is the first axis */
    const char *lens; /* lengths of the sequences */
    struct bin attrs; /* more attributes */
    const char *h0, *c0;
};

/* Rows (dirs, gates, H) whose size grows with the state, or falls. */
static const char *rows(struct net *n, const struct cell *c, int64_t times, int rank, int64_t cols,
                        bool falls)
{
    int64_t dim[3] = { c->dirs, times * H, cols };
    struct pare_tensor t = net_random(n, 0, 1, rank, dim);

    for (int64_t i = 0; i < pare_numel(&t); i++) {
        int64_t h = i / (rank == 3 ? cols : 1) % H;
        float v = pare_f32(&t)[i];

        v = v < 0 ? v - 1 : v + 1; /* between 1 and 2 */
        pare_f32_mut(&t)[i] = 0.02f * v * (float)(falls ? 6 * (H - h) : 2 * h + 1);
    }
    return build_floats(&n->b, rank, dim, pare_f32(&t));
}

/* (T, B, in) to (T, B, dirs * H), or to (dirs, B, H) with `last`. */
static const char *add_cell(struct net *n, const char *x, const struct cell *c, int64_t in,
                            bool falls)
{
    const char *arg[8] = { x,
                           rows(n, c, c->gates, 3, in, false),
                           rows(n, c, c->gates, 3, H, falls),
                           c->no_bias ? "" : rows(n, c, 2 * c->gates, 2, 1, false),
                           c->lens ? c->lens : "",
                           c->h0 ? c->h0 : "",
                           c->c0 ? c->c0 : "",
                           "" },
               *y[2];
    struct bin attrs = CAT(at_int("hidden_size", H),
                           at_text("direction", c->dirs == 2 ? "bidirectional"
                                                : c->reverse ? "reverse"
                                                             : "forward"),
                           c->attrs);

    if (c->peep)
        arg[7] = rows(n, c, 3, 2, 1, true);
    if (c->reset)
        attrs = CAT(attrs, at_int("linear_before_reset", c->reset));
    if (c->layout)
        attrs = CAT(attrs, at_int("layout", 1));
    build_node_outs(&n->b, c->type,
                    c->peep   ? 8
                    : c->c0   ? 7
                    : c->h0   ? 6
                    : c->lens ? 5
                              : 4,
                    arg, attrs, 2, y);
    if (c->last)
        return y[1];
    x = c->layout ? y[0]
                  : build_node(&n->b, "Transpose", NAMES(y[0]), at_ints("perm", INTS(0, 2, 1, 3)));
    return build_node(&n->b, "Reshape", NAMES(x, build_ints(&n->b, INTS(0, 0, c->dirs * H))),
                      NOTHING);
}

static const char *linear(struct net *n, const char *x, int64_t in, int64_t out)
{
    const char *y = build_node(&n->b, "MatMul", NAMES(x, CONST(n, 0, 0.6f, in, out)), NOTHING);

    return net_add(n, y, CONST(n, 0.2f, 0.5f, out));
}

/* An input of free length and batch, one recurrent layer, and a linear one. */
static struct pare_model *one_layer(const struct cell *c, bool falls)
{
    struct net n = net_new(3);
    const char *x = build_input(&n.b, PARE_F32, INTS(-1, -1, I));

    x = add_cell(&n, x, c, I, falls);
    build_output(&n.b, linear(&n, x, c->last ? H : c->dirs * H, 3));
    return build_model(&n.b);
}

static struct pare_compression *prune(struct pare_model *m, const char *pruner, const char *types,
                                      const char *settings)
{
    const char *config = pare_sprintf(pool, "[{\"sparsity\": 0.5, \"op_types\": [%s]%s}]", types,
                                      strcmp(pruner, "level")
                                          ? ""
                                          : ", \"granularity\": \"out_channel\"");
    struct pare_compression_opts o = { .pruner = pruner,
                                       .config = config,
                                       .settings = settings,
                                       .threads = 1,
                                       .seed = 1 };
    struct pare_compression *c = NULL;
    struct pare_err err;

    if (pare_compression_new(m, &o, &c, &err) || pare_compression_compress(c, &err))
        fail_msg("%s", err.msg);
    return c;
}

/* Masked elements: all of the states that state 0 .. H - 1 of `gone` says, in all gates. */
static void expect_states(const struct pare_tensor *mask, const bool *gone)
{
    int64_t cols = mask->rank == 3 ? mask->dim[2] : 1;

    for (int64_t i = 0; i < pare_numel(mask); i++)
        if (((const uint8_t *)mask->data)[i] != !gone[i / cols % H])
            fail_msg("element %lld: %d", (long long)i, ((const uint8_t *)mask->data)[i]);
}

/* The masks of W, R and the bias agree; returns the removed states. */
static void expect_masks(struct pare_compression *c, int first, bool gone[H])
{
    struct pare_layer *w = pare_compression_layer(c, first);
    struct pare_layer *r = pare_compression_layer(c, first + 1);
    const uint8_t *mask = pare_layer_mask(w)->data;
    int64_t cols = pare_layer_mask(w)->dim[2], n = 0;

    assert_string_equal(pare_layer_name(r), pare_sprintf(pool, "%s.R", pare_layer_name(w)));
    for (int64_t h = 0; h < H; h++)
        n += gone[h] = !mask[h * cols];
    assert_int_equal(n, H / 2);
    expect_states(pare_layer_mask(w), gone);
    expect_states(pare_layer_mask(r), gone);
    if (pare_layer_bias_mask(w))
        expect_states(pare_layer_bias_mask(w), gone);
    assert_null(pare_layer_bias_mask(r));
}

/* The masked states are removed, and nothing else changes. */
static void expect_removed(struct pare_model *m, int layers)
{
    struct pare_speedup_opts o = { .threads = 1 };
    struct speedup_result s = { .before = m };
    struct pare_err err;

    if (pare_speedup(m, &o, pool, &s.after, &s.r, &err))
        fail_msg("%s", err.msg);
    assert_true(s.r.verified);
    for (int i = 0; i < layers; i++)
        assert_int_equal(speedup_out_channels(&s, i), H / 2);
    pare_model_free(s.after);
}

static const struct cell cells[] = {
    { "LSTM", .gates = 4, .dirs = 1 },
    { "LSTM", .gates = 4, .dirs = 1, .reverse = true, .peep = true },
    { "LSTM", .gates = 4, .dirs = 2, .no_bias = true },
    { "LSTM", .gates = 4, .dirs = 2, .last = true },
    { "GRU", .gates = 3, .dirs = 1, .reset = 1 },
    { "GRU", .gates = 3, .dirs = 2 },
    { "RNN", .gates = 1, .dirs = 1 },
    { "RNN", .gates = 1, .dirs = 2, .last = true },
    { "LSTM", .gates = 4, .dirs = 2, .layout = true },
};

enum { CELLS = sizeof(cells) / sizeof(cells[0]) };

/* The lower half of the states has the smaller weights. */
static void test_masks_and_removal(void **state)
{
    static const bool lower[H] = { 1, 1, 1, 1 };

    (void)state;
    for (int i = 0; i < CELLS; i++) {
        struct pare_model *m = one_layer(&cells[i], false);
        struct pare_compression *c = prune(m, "l1", pare_sprintf(pool, "\"%s\"", cells[i].type),
                                           NULL);
        bool gone[H];

        expect_masks(c, 0, gone);
        assert_memory_equal(gone, lower, sizeof(gone));
        pare_compression_free(c);
        expect_removed(m, 1);
        pare_model_free(m);
    }
}

/* W is smaller for low states and R for high ones by more, so that both decide. */
static void test_both_weights_decide(void **state)
{
    static const bool upper[H] = { 0, 0, 0, 0, 1, 1, 1, 1 };

    (void)state;
    for (int i = 0; i < CELLS; i++) {
        struct pare_model *m = one_layer(&cells[i], true);
        struct pare_compression *c = prune(m, "l1", pare_sprintf(pool, "\"%s\"", cells[i].type),
                                           NULL);
        bool gone[H];

        expect_masks(c, 0, gone);
        assert_memory_equal(gone, upper, sizeof(gone));
        pare_compression_free(c);
        pare_model_free(m);
    }
}

/* All pruners of channels and all modes mask the same states in W, R and the bias. */
static void test_pruners_and_modes(void **state)
{
    static const char *const pruner[] = { "l1", "l2", "fpgm", "level" };
    static const char *const mode[] = { NULL, "mode=dependency_aware", "mode=global" };

    (void)state;
    for (int i = 0; i < CELLS; i++)
        for (int p = 0; p < 4; p++)
            for (int k = 0; k < 3; k++) {
                struct pare_model *m = one_layer(&cells[i], false);
                struct pare_compression *c = prune(m, pruner[p],
                                                   pare_sprintf(pool, "\"%s\"", cells[i].type),
                                                   mode[k]);
                bool gone[H];

                expect_masks(c, 0, gone);
                pare_compression_free(c);
                pare_model_free(m);
            }
}

/* A tensor of zeros for two layers in two directions, of a batch that is read from the input, and a
 * slice for each layer, as PyTorch writes it. */
static void zero_states(struct net *n, const char *x, struct cell *a, struct cell *b)
{
    const char *size = build_node(&n->b, "Shape", NAMES(x), NOTHING), *all, *first, *rest;

    size = build_node(&n->b, "Gather", NAMES(size, build_ints(&n->b, INTS(1))), NOTHING);
    size = build_node(&n->b, "Concat",
                      NAMES(build_ints(&n->b, INTS(4)), size, build_ints(&n->b, INTS(H))),
                      at_int("axis", 0));
    all = build_node(&n->b, "ConstantOfShape", NAMES(size), NOTHING);
    first = build_node(&n->b, "Slice",
                       NAMES(all, build_ints(&n->b, INTS(0)), build_ints(&n->b, INTS(2)),
                             build_ints(&n->b, INTS(0))),
                       NOTHING);
    rest = build_node(&n->b, "Slice",
                      NAMES(all, build_ints(&n->b, INTS(2)), build_ints(&n->b, INTS(4)),
                            build_ints(&n->b, INTS(0))),
                      NOTHING);
    a->h0 = a->c0 = first;
    b->h0 = rest;
}

/* Stacked bidirectional layers with initial states of zeros: the states of each are chosen
 * separately, and the input channels of the second are those of the first. */
static void test_stacked_layers(void **state)
{
    struct cell a = cells[2], b = cells[5];

    (void)state;
    for (int aware = 0; aware < 2; aware++) {
        struct net n = net_new(5);
        const char *x = build_input(&n.b, PARE_F32, INTS(-1, -1, I));
        struct pare_compression *c;
        struct pare_model *m;
        bool first[H], second[H];

        zero_states(&n, x, &a, &b);
        x = add_cell(&n, x, &a, I, false);
        x = add_cell(&n, x, &b, 2 * H, true);
        build_output(&n.b, linear(&n, x, 2 * H, 3));
        m = build_model(&n.b);
        c = prune(m, "l1", "\"LSTM\", \"GRU\"", aware ? "mode=dependency_aware" : NULL);
        expect_masks(c, 0, first);
        expect_masks(c, 2, second);
        pare_compression_free(c);
        expect_removed(m, 2);
        pare_model_free(m);
    }
}

/* Short sequences: results after their end are 0. */
static void test_sequence_lengths(void **state)
{
    struct net n = net_new(3);
    const char *x = build_input(&n.b, PARE_F32, INTS(T, B, I));
    const int32_t lens[B] = { 3, 2 };
    struct cell c = cells[3];
    struct pare_compression *p;
    struct pare_model *m;
    bool gone[H];

    (void)state;
    c.last = false;
    c.lens = build_const(&n.b, PARE_I32, 1, (int64_t[]){ B }, lens);
    x = add_cell(&n, x, &c, I, false);
    build_output(&n.b, linear(&n, x, 2 * H, 3));
    m = build_model(&n.b);
    p = prune(m, "l1", "\"LSTM\"", NULL);
    expect_masks(p, 0, gone);
    pare_compression_free(p);
    expect_removed(m, 1);
    pare_model_free(m);
}

/* Columns of an embedding that no state reads are removed with those of W. */
static void test_unread_columns_of_an_embedding(void **state)
{
    struct net n = net_new(3);
    const char *ids = build_input(&n.b, PARE_I64, INTS(-1, -1)), *x, *w, *y[2];
    struct pare_speedup_opts o = { .threads = 1 };
    struct speedup_result s;
    struct pare_err err;

    (void)state;
    x = build_node(&n.b, "Gather", NAMES(CONST(&n, 0, 1, 9, I), ids), NOTHING);
    w = WEIGHT(&n, FRONT, 2, 1, 3 * H, I);
    build_node_outs(&n.b, "GRU", NAMES(x, w, CONST(&n, 0, 0.5f, 1, 3 * H, H)),
                    at_int("hidden_size", H), 2, y);
    build_output(&n.b, linear(&n, y[1], H, 3));
    s.before = build_model(&n.b);
    if (pare_speedup(s.before, &o, pool, &s.after, &s.r, &err))
        fail_msg("%s", err.msg);
    assert_true(s.r.verified);
    assert_int_equal(s.r.params - s.r.params_left, 9 * I / 2 + 3 * H * I / 2);
    speedup_free(&s);
}

/* ---- layers that are skipped ---------------------------------------------------------------- */

/* The only layer cannot be pruned by channels: the error says why. */
static void expect_error(struct pare_model *m, const char *type, const char *why)
{
    struct pare_compression_opts o = {
        .pruner = "l1",
        .config = pare_sprintf(pool, "[{\"sparsity\": 0.5, \"op_types\": [\"%s\"]}]", type),
    };
    struct pare_compression *c = NULL;
    struct pare_err err;

    assert_int_not_equal(pare_compression_new(m, &o, &c, &err), 0);
    if (!strstr(err.msg, why))
        fail_msg("%s", err.msg);
    pare_model_free(m);
}

static struct bin activations(int n, const char *const *name)
{
    struct bin list = NOTHING;

    for (int i = 0; i < n; i++)
        list = CAT(list, text(9, name[i]));
    return msg(5, CAT(text(1, "activations"), list, num(20, 8)));
}

static void test_activations_that_do_not_keep_zero(void **state)
{
    struct cell c = cells[0];
    const char *const sigmoid[] = { "Sigmoid", "Sigmoid", "Tanh" };
    const char *const relu[] = { "Sigmoid", "Relu", "Tanh" };
    struct pare_compression *p;
    struct pare_model *m;

    (void)state;
    c.attrs = activations(3, sigmoid);
    expect_error(one_layer(&c, false), "LSTM", "its activations do not map 0 to 0");
    c.attrs = CAT(activations(3, relu), at_float("clip", 2), at_int("input_forget", 1));
    m = one_layer(&c, false);
    p = prune(m, "l1", "\"LSTM\"", NULL);
    pare_compression_free(p);
    expect_removed(m, 1);
    pare_model_free(m);
}

static void test_initial_states_that_are_not_zero(void **state)
{
    struct cell c = { "GRU", .gates = 3, .dirs = 1 };

    (void)state;
    for (int input = 0; input < 2; input++) {
        struct net n = net_new(3);
        const char *x = build_input(&n.b, PARE_F32, INTS(T, B, I));

        c.h0 = input ? build_input(&n.b, PARE_F32, INTS(1, B, H)) : CONST(&n, 0.5f, 0.3f, 1, B, H);
        x = add_cell(&n, x, &c, I, false);
        build_output(&n.b, linear(&n, x, H, 3));
        expect_error(build_model(&n.b), "GRU", "its initial state is not a constant 0");
    }
}

/* Two layers with different W and the same R. */
static void test_shared_recurrent_weight(void **state)
{
    struct net n = net_new(3);
    const char *x = build_input(&n.b, PARE_F32, INTS(T, B, I)), *r, *y[2], *z[2];
    struct cell c = { "RNN", .gates = 1, .dirs = 1 };

    (void)state;
    r = rows(&n, &c, 1, 3, H, false);
    build_node_outs(&n.b, "RNN", NAMES(x, rows(&n, &c, 1, 3, I, false), r),
                    at_int("hidden_size", H), 2, y);
    build_node_outs(&n.b, "RNN", NAMES(x, rows(&n, &c, 1, 3, I, true), r), at_int("hidden_size", H),
                    2, z);
    build_output(&n.b, linear(&n, net_add(&n, y[1], z[1]), H, 3));
    expect_error(build_model(&n.b), "RNN", "is also used by");
}

/* A recurrent layer has no heads. */
static void test_heads_are_refused(void **state)
{
    struct pare_model *m = one_layer(&cells[0], false);
    struct pare_compression_opts o = {
        .pruner = "l1",
        .config = "[{\"sparsity\": 0.5, \"op_types\": [\"LSTM\"], \"granularity\": \"head\", "
                  "\"heads\": 4}]",
    };
    struct pare_compression *c = NULL;
    struct pare_err err;

    (void)state;
    assert_int_not_equal(pare_compression_new(m, &o, &c, &err), 0);
    assert_non_null(strstr(err.msg, "a recurrent layer has no heads"));
    pare_model_free(m);
}

/* ---- other ---------------------------------------------------------------------------------- */

/* Masks in a file, applied to the original model. */
static void test_masks_in_a_file(void **state)
{
    char path[] = "/tmp/pare-masks-XXXXXX.npz";
    struct pare_model *m = one_layer(&cells[1], false), *fresh;
    struct pare_compression *c = prune(m, "l2", "\"LSTM\"", NULL);
    struct pare_export e = { .masks = path };
    struct pare_err err;
    int fd = mkstemps(path, 4);

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    if (pare_compression_export(c, &e, &err))
        fail_msg("%s", err.msg);
    pare_compression_free(c);
    fresh = one_layer(&cells[1], false);
    if (pare_apply_masks(fresh, path, &err))
        fail_msg("%s", err.msg);
    for (int i = 0; i < m->graph->n_values; i++) {
        const struct pare_value *v = m->graph->value[i];

        if (v->flags & PARE_V_CONST && !v->maker && v->t.dtype == PARE_F32) {
            const struct pare_value *w = pare_graph_find(fresh->graph, v->name);
            struct pare_value a = *v, b = *w;

            assert_int_equal(pare_value_load(pool, &a, &err), 0);
            assert_int_equal(pare_value_load(pool, &b, &err), 0);
            assert_memory_equal(a.t.data, b.t.data, (size_t)pare_numel(&v->t) * sizeof(float));
        }
    }
    expect_removed(fresh, 1);
    pare_model_free(fresh);
    pare_model_free(m);
    unlink(path);
}

/* Layers that end a body keep masked channels, and the report counts them and says so. */
static void test_masked_layers_in_bodies(void **state)
{
    struct net n = net_new(3), then = net_new(4), other = net_new(5);
    const char *x = build_input(&n.b, PARE_F32, INTS(T, B, I)), *y[2];
    const char *yes = build_input(&n.b, PARE_BOOL, INTS(1));
    struct pare_speedup_opts o = { .threads = 1 };
    struct speedup_result s;
    struct pare_err err;
    int found = 0;

    (void)state;
    then.b.prefix = "t";
    other.b.prefix = "e";
    build_node_outs(&then.b, "GRU",
                    NAMES(x, WEIGHT(&then, FRONT, 1, 1, 3 * H, I),
                          CONST(&then, 0, 0.5f, 1, 3 * H, H)),
                    at_int("hidden_size", H), 2, y);
    build_output(&then.b, y[1]);
    build_node_outs(&other.b, "RNN",
                    NAMES(x, WEIGHT(&other, HALF, 1, 1, H, I), WEIGHT(&other, HALF, 1, 1, H, H)),
                    at_int("hidden_size", H), 2, y);
    build_output(&other.b, y[1]);
    x = build_node(&n.b, "If", NAMES(yes),
                   CAT(at_graph("then_branch", &then.b), at_graph("else_branch", &other.b)));
    build_output(&n.b, linear(&n, x, H, 3));
    s.before = build_model(&n.b);
    if (pare_speedup(s.before, &o, pool, &s.after, &s.r, &err))
        fail_msg("%s", err.msg);
    for (int i = 0; i < s.r.n_layers; i++) {
        const struct pare_speedup_layer *l = &s.r.layer[i];
        bool rnn = !strcmp(l->type, "RNN");

        if (!rnn && strcmp(l->type, "GRU"))
            continue;
        found++;
        assert_int_equal(l->out, H);
        assert_int_equal(l->out_left, H);
        assert_int_equal(l->empty, rnn ? H / 2 : 0); /* R of the GRU has weights */
        assert_true(rnn ? !strcmp(l->why, "the body's output") : !l->why);
    }
    assert_int_equal(found, 2);
    speedup_free(&s);
}

/* Single weights: W and R each lose half, and biases none, since every state keeps weights. */
static void test_single_weights(void **state)
{
    struct pare_model *m = one_layer(&cells[0], false);
    struct pare_compression_opts o = {
        .pruner = "level",
        .config = "[{\"sparsity\": 0.5, \"op_types\": [\"LSTM\"]}]",
    };
    struct pare_compression *c = NULL;
    struct pare_err err;

    (void)state;
    if (pare_compression_new(m, &o, &c, &err) || pare_compression_compress(c, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(pare_compression_layers(c), 2);
    for (int i = 0; i < 2; i++) {
        struct pare_layer *l = pare_compression_layer(c, i);

        assert_int_equal(pare_mask_zeros(pare_layer_mask(l)), pare_numel(pare_layer_mask(l)) / 2);
    }
    pare_compression_free(c);
    pare_model_free(m);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, make_pool, drop_pool)
    const struct CMUnitTest tests[] = {
        TEST(test_masks_and_removal),
        TEST(test_both_weights_decide),
        TEST(test_pruners_and_modes),
        TEST(test_stacked_layers),
        TEST(test_sequence_lengths),
        TEST(test_unread_columns_of_an_embedding),
        TEST(test_activations_that_do_not_keep_zero),
        TEST(test_initial_states_that_are_not_zero),
        TEST(test_shared_recurrent_weight),
        TEST(test_heads_are_refused),
        TEST(test_masks_in_a_file),
        TEST(test_masked_layers_in_bodies),
        TEST(test_single_weights),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

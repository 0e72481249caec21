/* test_speedup_rnn.c - speedup of recurrent layers, Einsum and float16. */
#include "speedup_rig.h"

#include <unistd.h>

#include "io/npz.h"

enum { T = 4, B = 2, I = 6, H = 8 };

struct rnn {
    const char *type;
    int gates, dirs;
    int64_t reset;    /* linear_before_reset */
    bool start, peep; /* initial states, peepholes */
    int which;        /* states that have weights */
};

/* Rows (dirs, gates, H), 0 except for the states of `which`. */
static const char *masked_rows(struct net *n, const struct rnn *r, int64_t times, int rank,
                               int64_t cols)
{
    int64_t dim[3] = { r->dirs, times * H, cols };
    struct pare_tensor t = net_random(n, 0, 0.6f, rank, dim);

    for (int64_t i = 0; i < pare_numel(&t); i++)
        if (!net_keeps(r->which, i / (rank == 3 ? cols : 1) % H, H))
            pare_f32_mut(&t)[i] = 0;
    return build_floats(&n->b, rank, dim, pare_f32(&t));
}

/* Initial states, 0 where there are no weights. */
static const char *initial_states(struct net *n, const struct rnn *r)
{
    int64_t dim[3] = { r->dirs, B, H };
    struct pare_tensor t = net_random(n, 0, 0.6f, 3, dim);

    for (int64_t i = 0; i < pare_numel(&t); i++)
        if (!net_keeps(r->which, i % H, H))
            pare_f32_mut(&t)[i] = 0;
    return build_floats(&n->b, 3, dim, pare_f32(&t));
}

/* (T, B, in) to (T, B, dirs * H). */
static const char *add_recurrent(struct net *n, const char *x, const struct rnn *r, int64_t in)
{
    bool lstm = !strcmp(r->type, "LSTM");
    const char *arg[8] = { x,
                           masked_rows(n, r, r->gates, 3, in),
                           masked_rows(n, r, r->gates, 3, H),
                           masked_rows(n, r, 2 * r->gates, 2, 1),
                           "",
                           "",
                           "",
                           "" },
               *y[1];
    struct bin attrs = CAT(at_int("hidden_size", H),
                           at_text("direction", r->dirs == 2 ? "bidirectional" : "forward"));

    if (r->start)
        arg[5] = initial_states(n, r);
    if (r->start && lstm)
        arg[6] = initial_states(n, r);
    if (r->peep)
        arg[7] = masked_rows(n, r, 3, 2, 1);
    if (r->reset)
        attrs = CAT(attrs, at_int("linear_before_reset", r->reset));
    build_node_outs(&n->b, r->type, r->peep ? 8 : r->start ? 6 + lstm : 4, arg, attrs, 1, y);
    x = build_node(&n->b, "Transpose", NAMES(y[0]), at_ints("perm", INTS(0, 2, 1, 3)));
    return build_node(&n->b, "Reshape", NAMES(x, build_ints(&n->b, INTS(T, B, r->dirs * H))),
                      NOTHING);
}

static const char *linear(struct net *n, const char *x, int which, int64_t in, int64_t out)
{
    const char *w = WEIGHT(n, which, 1, in, out), *b = net_bias(n, which, out);

    return net_add(n, build_node(&n->b, "MatMul", NAMES(x, w), NOTHING), b);
}

/* Half of the states are removed in all directions, and half of the input channels. */
static void check_half(struct rnn r)
{
    struct net n = net_new(1);
    const char *x = build_input(&n.b, PARE_F32, INTS(T, B, I));

    n.zero_bias = true;
    x = linear(&n, x, HALF, I, 10);
    x = add_recurrent(&n, x, &r, 10);
    EXPECT(&n, linear(&n, x, ALL, r.dirs * H, 3), 5, H / 2, 3);
}

static void test_lstm(void **state)
{
    (void)state;
    check_half((struct rnn){ "LSTM", 4, 1, 0, false, false, HALF });
    check_half((struct rnn){ "LSTM", 4, 1, 0, true, false, FRONT });
    check_half((struct rnn){ "LSTM", 4, 2, 0, false, true, HALF });
    check_half((struct rnn){ "LSTM", 4, 2, 0, true, true, BACK });
}

static void test_gru(void **state)
{
    (void)state;
    check_half((struct rnn){ "GRU", 3, 1, 0, false, false, HALF });
    check_half((struct rnn){ "GRU", 3, 1, 1, true, false, FRONT });
    check_half((struct rnn){ "GRU", 3, 2, 0, true, false, HALF });
    check_half((struct rnn){ "GRU", 3, 2, 1, false, false, BACK });
}

static void test_rnn(void **state)
{
    (void)state;
    check_half((struct rnn){ "RNN", 1, 1, 0, false, false, HALF });
    check_half((struct rnn){ "RNN", 1, 2, 0, true, false, FRONT });
}

/* Two recurrent layers in sequence. */
static void test_stacked_layers(void **state)
{
    struct net n = net_new(2);
    struct rnn a = { "LSTM", 4, 2, 0, false, false, HALF },
               b = { "GRU", 3, 1, 1, true, false, BACK };
    const char *x = build_input(&n.b, PARE_F32, INTS(T, B, I));

    (void)state;
    n.zero_bias = true;
    x = add_recurrent(&n, add_recurrent(&n, x, &a, I), &b, 2 * H);
    EXPECT(&n, linear(&n, x, ALL, H, 3), H / 2, H / 2, 3);
}

/* States with weights that neither a consumer nor another state reads. */
static void test_unread_states(void **state)
{
    struct net n = net_new(3);
    const char *x = build_input(&n.b, PARE_F32, INTS(T, B, I)), *w, *r, *b, *y[1];

    (void)state;
    w = CONST(&n, 0, 0.5f, 1, 4 * H, I);
    r = WEIGHT(&n, HALF, 2, 1, 4 * H, H);
    b = CONST(&n, 0, 0.5f, 1, 8 * H);
    build_node_outs(&n.b, "LSTM", NAMES(x, w, r, b), at_int("hidden_size", H), 1, y);
    w = WEIGHT(&n, HALF, 0, H, 3);
    EXPECT(&n, build_node(&n.b, "MatMul", NAMES(y[0], w), NOTHING), H / 2, 3);
}

/* With a bias the states change, so that none is removed. */
static void test_states_with_bias_are_kept(void **state)
{
    struct net n = net_new(4);
    const char *x = build_input(&n.b, PARE_F32, INTS(T, B, I)), *w, *r, *b, *y[1];
    struct rnn half = { "LSTM", 4, 1, 0, false, false, HALF };

    (void)state;
    w = masked_rows(&n, &half, 4, 3, I);
    r = masked_rows(&n, &half, 4, 3, H);
    b = CONST(&n, 0.1f, 0.5f, 1, 8 * H);
    build_node_outs(&n.b, "LSTM", NAMES(x, w, r, b), at_int("hidden_size", H), 1, y);
    EXPECT(&n, linear(&n, y[0], ALL, H, 3), H, 3);
}

/* Masks from a file, by the names of the constants: two of eight states. */
static void test_masked_states(void **state)
{
    char path[] = "/tmp/pare-masks-XXXXXX";
    struct net n = net_new(9);
    struct rnn all = { "GRU", 3, 1, 0, true, false, ALL };
    const char *x = build_input(&n.b, PARE_F32, INTS(T, B, I));
    struct pare_speedup_opts o = { .threads = 1 };
    struct pare_named mask[8];
    struct pare_model *m;
    struct pare_err err;
    struct speedup_result s;
    int k = 0, fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    build_output(&n.b, linear(&n, add_recurrent(&n, x, &all, I), ALL, H, 3));
    m = build_model(&n.b);
    for (int i = 0; i < m->graph->n_nodes; i++)
        for (int j = 1; j < 6 && !strcmp(m->graph->node[i]->type, "GRU"); j++) {
            const struct pare_value *v = m->graph->node[i]->in[j];
            int64_t cols = v && j < 3 ? v->t.dim[2] : 1;

            if (!v)
                continue;
            mask[k] = (struct pare_named){ .name = v->name };
            mask[k].t = build_tensor(PARE_U8, v->t.rank, v->t.dim);
            for (int64_t e = 0; e < pare_numel(&v->t); e++)
                ((uint8_t *)mask[k].t.data)[e] = e / cols % H >= 2;
            k++;
        }
    assert_int_equal(k, 4);
    assert_int_equal(pare_npz_write(path, mask, k, &err), 0);
    if (pare_apply_masks(m, path, &err) || pare_speedup(m, &o, pool, &s.after, &s.r, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(speedup_out_channels(&s, 0), H - 2);
    s.before = m;
    speedup_free(&s);
    unlink(path);
}

/* ---- Einsum ---------------------------------------------------------------------------------- */

static const char *add_einsum(struct net *n, const char *equation, const char *a, const char *b)
{
    return build_node(&n->b, "Einsum", NAMES(a, b), at_text("equation", equation));
}

/* Matrix products with the weight on either side, transposed or not. */
static void test_einsum_as_matrix_product(void **state)
{
    struct net n = net_new(5);
    const char *x = build_input(&n.b, PARE_F32, INTS(T, B, I));

    (void)state;
    x = add_einsum(&n, "bsd,dh->bsh", x, WEIGHT(&n, HALF, 1, I, 10));
    x = net_relu(&n, net_add(&n, x, CONST(&n, 0.2f, 0.3f, 10)));
    x = add_einsum(&n, "hd,bsd->bhs", WEIGHT(&n, FRONT, 0, 8, 10), x);
    x = build_node(&n.b, "Sigmoid", NAMES(x), NOTHING);
    x = add_einsum(&n, "...hs,ho->...so", x, WEIGHT(&n, ALL, 1, 8, 5));
    EXPECT(&n, linear(&n, x, ALL, 5, 3), 3);
}

/* Checks the removed channels by the number of remaining parameters. */
static void test_einsum_parameters(void **state)
{
    struct net n = net_new(6);
    const char *x = build_input(&n.b, PARE_F32, INTS(T, B, I));
    struct speedup_result s;

    (void)state;
    x = add_einsum(&n, "bsd,dh->bsh", x, WEIGHT(&n, HALF, 1, I, 10));
    x = add_einsum(&n, "hd,bsd->bsh", WEIGHT(&n, FRONT, 0, 8, 10), x);
    build_output(&n.b, add_einsum(&n, "bsd,dh->bsh", x, WEIGHT(&n, ALL, 1, 8, 3)));
    s = net_speedup(&n);
    assert_int_equal(s.r.params, I * 10 + 10 * 8 + 8 * 3);
    assert_int_equal(s.r.params_left, I * 5 + 5 * 4 + 4 * 3);
    speedup_free(&s);
}

/* Heads in a separate axis, as JAX writes attention: two of four are removed. */
static void test_einsum_heads(void **state)
{
    struct net n = net_new(7);
    const char *x = build_input(&n.b, PARE_F32, INTS(B, 5, I)), *q, *k, *v, *a;
    struct speedup_result s;

    (void)state;
    q = add_einsum(&n, "bsd,dhk->bshk", x, WEIGHT(&n, FRONT, 1, I, 4, 3));
    k = add_einsum(&n, "bsd,dhk->bshk", x, WEIGHT(&n, FRONT, 1, I, 4, 3));
    v = add_einsum(&n, "bsd,dhk->bshk", x, WEIGHT(&n, FRONT, 1, I, 4, 3));
    a = build_node(&n.b, "Softmax", NAMES(add_einsum(&n, "bqhk,bshk->bhqs", q, k)),
                   at_int("axis", -1));
    a = add_einsum(&n, "bhqs,bshk->bqhk", a, v);
    build_output(&n.b, add_einsum(&n, "bqhk,hkd->bqd", a, WEIGHT(&n, ALL, 1, 4, 3, I)));
    s = net_speedup(&n);
    assert_int_equal(s.r.params, 4 * I * 12);
    assert_int_equal(s.r.params_left, 4 * I * 6);
    speedup_free(&s);
}

/* ---- float16 --------------------------------------------------------------------------------- */

static const char *add_half_const(struct net *n, struct pare_tensor t)
{
    struct pare_tensor h = build_tensor(PARE_F16, t.rank, t.dim);
    struct pare_err err;

    assert_int_equal(pare_convert(PARE_F16, h.data, PARE_F32, t.data, pare_numel(&t), &err), 0);
    return build_const(&n->b, PARE_F16, t.rank, t.dim, h.data);
}

static const char *add_half_conv(struct net *n, const char *x, int which, int64_t in, int64_t out,
                                 int64_t K)
{
    struct pare_tensor w = net_random(n, 0, 0.6f, INTS(out, in, K, K));
    struct pare_tensor b = net_random(n, 0.2f, 0.5f, INTS(out));
    const char *wn, *bn;

    for (int64_t i = 0; i < pare_numel(&w); i++)
        if (!net_keeps(which, i / (in * K * K), out))
            pare_f32_mut(&w)[i] = 0;
    wn = add_half_const(n, w);
    bn = add_half_const(n, b);
    return build_node(&n->b, "Conv", NAMES(x, wn, bn),
                      at_ints("pads", INTS(K / 2, K / 2, K / 2, K / 2)));
}

/* Constants are folded into float16 biases and carriers, and a branch into a float16 operand. */
static void test_float16(void **state)
{
    struct net n = net_new(8);
    const char *x = build_input(&n.b, PARE_F16, INTS(2, 3, 9, 8)), *y;
    struct speedup_result s;

    (void)state;
    x = net_relu(&n, add_half_conv(&n, x, HALF, 3, 8, 3));
    x = net_relu(&n, add_half_conv(&n, x, HALF, 8, 8, 1));
    y = add_half_conv(&n, net_relu(&n, add_half_conv(&n, x, ALL, 8, 8, 3)), NONE, 8, 8, 3);
    x = net_add(&n, x, y);
    build_output(&n.b, add_half_conv(&n, x, ALL, 8, 4, 3));
    s = net_speedup(&n);
    assert_int_equal(speedup_out_channels(&s, 0), 4);
    assert_int_equal(speedup_out_channels(&s, 1), 5);
    assert_int_equal(speedup_out_channels(&s, 2), 0);
    assert_int_equal(speedup_out_channels(&s, 3), 0);
    for (int i = 0; i < s.after->graph->n_values; i++) {
        const struct pare_value *v = s.after->graph->value[i];

        if (v->flags & PARE_V_CONST && !v->maker)
            assert_int_equal(v->t.dtype, PARE_F16);
    }
    speedup_free(&s);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, make_pool, drop_pool)
    const struct CMUnitTest tests[] = {
        TEST(test_lstm),
        TEST(test_gru),
        TEST(test_rnn),
        TEST(test_stacked_layers),
        TEST(test_unread_states),
        TEST(test_states_with_bias_are_kept),
        TEST(test_einsum_as_matrix_product),
        TEST(test_einsum_parameters),
        TEST(test_einsum_heads),
        TEST(test_float16),
        TEST(test_masked_states),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

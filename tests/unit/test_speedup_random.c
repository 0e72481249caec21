/* test_speedup_random.c - speedup of random networks with random zero channels gives the same
 * results.
 *
 * Environment: PARE_GRAPHS is the number of networks, PARE_SEED the first seed; PARE_DUMP names a
 * file to which the last masked model is written.
 */
#include "random_graph_more.h"

#include <pare/compress.h>

#include "onnx/model.h"

static struct {
    int smaller, recurrent, grouped, whole, gone;
    double parameters, left;
} totals;

static uint64_t env_number(const char *name, uint64_t absent)
{
    const char *s = getenv(name);

    return s ? strtoull(s, NULL, 10) : absent;
}

/* A recurrent layer of any kind, in one direction or both; a third
 * of them have initial states. */
static void rg_rnn(struct rg *g)
{
    static const char *const types[] = { "RNN", "GRU", "LSTM" };
    int kind = (int)rg_int(g, 0, 2), x = rg_pick(g, 3, 3);
    int64_t gates = (int64_t[]){ 1, 3, 4 }[kind], H = rg_int(g, 1, 9), D = rg_int(g, 1, 2);
    const char *in[7] = { NULL, NULL, NULL, NULL, "", "", "" }, *out[1];
    struct rg_value v;
    struct bin attrs;

    if (x < 0)
        return;
    v = g->v[x];
    if (v.dim[0] > 12 || v.dim[2] > 64 || v.dim[0] * v.dim[1] * D * H > g->limit)
        return;
    in[0] = rg_name(g, x);
    in[1] = rg_const(g, 3, (int64_t[]){ D, gates * H, v.dim[2] }, 0, 1 / sqrtf((float)v.dim[2]));
    in[2] = rg_const(g, 3, (int64_t[]){ D, gates * H, H }, 0, 1 / sqrtf((float)H));
    in[3] = rg_const(g, 2, (int64_t[]){ D, 2 * gates * H }, 0, 0.5f);
    if (rg_chance(g, 33))
        in[5] = rg_const(g, 3, (int64_t[]){ D, v.dim[1], H }, 0, 0.5f);
    if (*in[5] && kind == 2)
        in[6] = rg_const(g, 3, (int64_t[]){ D, v.dim[1], H }, 0, 0.5f);
    attrs = CAT(at_int("hidden_size", H),
                at_text("direction", D == 2 ? "bidirectional" : "forward"));
    if (kind == 1 && rg_chance(g, 50))
        attrs = CAT(attrs, at_int("linear_before_reset", 1));
    build_node_outs(&g->b, types[kind], kind == 2 ? 7 : 6, in, attrs, 1, out);
    totals.recurrent++;
    rg_add(g, out[0], 4, (int64_t[]){ v.dim[0], D, v.dim[1], H });
}

/* A Conv or ConvTranspose of 2 to 4 groups, whose masks can differ. */
static void rg_grouped_conv(struct rg *g)
{
    int x = rg_pick(g, 3, 4);
    int64_t G, M, C, one[4] = { 1, 1, 1, 1 };
    bool back = rg_chance(g, 30);
    struct rg_value v;
    const char *w;

    if (x < 0)
        return;
    v = g->v[x];
    C = v.dim[1];
    for (G = rg_int(g, 2, 4); G > 1 && C % G; G--)
        ;
    M = G * rg_int(g, 2, 6);
    v.dim[1] = M;
    if (G < 2 || rg_numel(&v) > g->limit)
        return;
    one[0] = back ? C : M;
    one[1] = back ? M / G : C / G;
    w = rg_const(g, v.rank, one, 0, 1.5f / sqrtf((float)(C / G)));
    rg_add(g,
           build_node(&g->b, back ? "ConvTranspose" : "Conv",
                      NAMES(rg_name(g, x), w, rg_const(g, 1, &M, 0, 1)), at_int("group", G)),
           v.rank, v.dim);
}

/* x times a constant matrix, as an Einsum. */
static void rg_einsum(struct rg *g)
{
    int x = rg_pick(g, 3, 3), kind = (int)rg_int(g, 0, 2);
    int64_t N = rg_int(g, 1, 20), K;
    const char *w;
    struct rg_value v;

    if (x < 0)
        return;
    v = g->v[x];
    K = v.dim[2];
    w = rg_const(g, 2, kind == 1 ? (int64_t[]){ N, K } : (int64_t[]){ K, N }, 0,
                 1.5f / sqrtf((float)K));
    v.dim[2] = N;
    if (rg_numel(&v) > g->limit)
        return;
    if (kind == 1)
        w = build_node(&g->b, "Einsum", NAMES(w, rg_name(g, x)),
                       at_text("equation", "hd,bsd->bsh"));
    else
        w = build_node(&g->b, "Einsum", NAMES(rg_name(g, x), w),
                       at_text("equation", kind ? "...d,dh->...h" : "bsd,dh->bsh"));
    rg_add(g, w, 3, v.dim);
}

/* More convolutions than rg_make() has, and a consumer for most values whose channels can be
 * removed. */
static void make_network(struct rg *g, uint64_t seed)
{
    static void (*const piece[])(struct rg *) = {
        rg_conv,         rg_conv,        rg_conv,
        rg_conv,         rg_conv,        rg_residual,
        rg_residual,     rg_residual,    rg_squeeze_excite,
        rg_activation,   rg_norm,        rg_norm,
        rg_pool,         rg_pad_pool,    rg_reduce,
        rg_view,         rg_transpose,   rg_shuffle,
        rg_slice,        rg_split,       rg_concat,
        rg_concat,       rg_shape_chain, rg_resize,
        rg_pad,          rg_linear,      rg_linear,
        rg_matmul,       rg_softmax,     rg_layer_norm,
        rg_broadcast,    rg_combine,     rg_rnn,
        rg_rnn,          rg_einsum,      rg_grouped_conv,
        rg_grouped_conv,
    };
    int count, n;

    memset(g, 0, sizeof(*g));
    pare_rng_init(&g->r, seed);
    g->b.opset = (int)(int64_t[]){ 13, 17, 18 }[rg_int(g, 0, 2)];
    rg_inputs(g);
    count = (int)rg_int(g, 2, 16);
    for (int i = 0; i < count && g->n < RG_VALUES - 40; i++)
        piece[rg_int(g, 0, (int)(sizeof(piece) / sizeof(*piece)) - 1)](g);
    n = g->n;
    for (int i = g->n_in; i < n && g->n < RG_VALUES - 24; i++)
        if (!g->v[i].uses && g->v[i].rank >= 3 && g->v[i].rank <= 5 && rg_numel(&g->v[i]) &&
            rg_chance(g, 80))
            rg_conv_to(g, i, rg_int(g, 1, 4), true);
    rg_outputs(g);
}

static bool is_grouped(const struct pare_node *n)
{
    struct pare_linear l;

    return n->op->linear(n, &l) && l.groups > 1 && l.groups < n->in[0]->t.dim[l.x_axis];
}

/* Sets index i of an axis to 0. */
static void clear_index(const struct pare_tensor *t, int axis, int64_t i)
{
    int64_t inner = 1, n = pare_numel(t);

    for (int k = axis + 1; k < t->rank; k++)
        inner *= t->dim[k];
    for (int64_t at = 0; at < n; at++)
        if (at / inner % t->dim[axis] == i)
            pare_f32_mut(t)[at] = 0;
}

/* Sets state h of every gate to 0; `axis` of v is (gates, H). */
static void clear_state(struct pare_model *m, struct pare_value *v, int axis, int64_t H, int64_t h)
{
    struct pare_err err;

    if (!v || v->maker || !(v->flags & PARE_V_CONST))
        return;
    assert_int_equal(pare_model_own(m, v, &err), 0);
    for (int64_t i = h; i < v->t.dim[axis]; i += H)
        clear_index(&v->t, axis, i);
}

/* Masks states of a recurrent layer: the weights that produce them, sometimes those that read
 * them. */
static void mask_states(struct rg *g, struct pare_model *m, struct pare_node *n)
{
    int64_t H = n->in[2]->t.dim[2];

    for (int64_t h = 0; h < H; h++) {
        if (rg_chance(g, 50))
            continue;
        clear_state(m, n->in[1], 1, H, h);
        clear_state(m, n->in[2], 1, H, h);
        if (rg_chance(g, 80))
            clear_state(m, n->in[3], 1, H, h);
        for (int k = 5; k < n->n_in; k++)
            if (rg_chance(g, 80))
                clear_state(m, n->in[k], 2, H, h);
        if (rg_chance(g, 20))
            clear_state(m, n->in[2], 2, H, h);
    }
}

/* Masks channels of one axis, with the same pattern in every layer or at random, and sometimes the
 * bias. */
static void mask_layer(struct rg *g, struct pare_model *m, struct pare_node *n, int pattern)
{
    struct pare_value *w = n->in[1], *b = n->n_in > 2 ? n->in[2] : NULL;
    struct pare_err err;
    int axis[2], all = rg_chance(g, 8);

    n->op->axes(n, &axis[0], &axis[1]);
    axis[0] = axis[rg_chance(g, 20)];
    if (axis[0] < 0 || w->t.rank < 2 || !(w->flags & PARE_V_CONST) || w->t.dtype != PARE_F32 ||
        w->maker || rg_chance(g, 25))
        return;
    assert_int_equal(pare_model_own(m, w, &err), 0);
    totals.whole += all;
    totals.grouped += n->op->shrink && pare_numel(&w->t) && is_grouped(n);
    for (int64_t i = 0; i < w->t.dim[axis[0]]; i++) {
        if (!all && (pattern ? i % 3 >= pattern : rg_chance(g, 50)))
            continue;
        clear_index(&w->t, axis[0], i);
        if (!b || b->t.rank != 1 || b->t.dim[0] != w->t.dim[axis[0]] || b->maker ||
            rg_chance(g, 50) || !(b->flags & PARE_V_CONST))
            continue;
        assert_int_equal(pare_model_own(m, b, &err), 0);
        clear_index(&b->t, 0, i);
    }
}

static void check_network(uint64_t seed)
{
    static struct rg g;
    struct pare_mark mark = pare_mark(pool);
    struct pare_speedup_opts o = { .threads = 1, .seed = seed };
    struct pare_speedup_report r;
    struct pare_model *m, *small;
    struct pare_err err;
    int pattern;

    make_network(&g, seed);
    m = build_model(&g.b);
    pattern = (int)rg_int(&g, 0, 2);
    for (int i = 0; i < m->graph->n_nodes; i++) {
        struct pare_node *n = m->graph->node[i];

        if (n->op && n->op->linear && n->op->axes && n->n_in > 1)
            mask_layer(&g, m, n, pattern);
        else if (n->op && n->op->needed_channels && rg_chance(&g, 70))
            mask_states(&g, m, n);
    }
    o.round_to = rg_chance(&g, 10) ? 4 : 1;
    if (getenv("PARE_DUMP"))
        pare_model_save(m, getenv("PARE_DUMP"), NULL, &err);
    if (pare_speedup(m, &o, pool, &small, &r, &err))
        fail_msg("seed %llu: %s", (unsigned long long)seed, err.msg);
    for (int i = 0; i < r.n_layers; i++)
        totals.gone += r.layer[i].gone;
    totals.smaller += r.params_left < r.params;
    totals.parameters += (double)r.params;
    totals.left += (double)r.params_left;
    pare_model_free(small);
    pare_model_free(m);
    pare_reset(pool, mark);
}

static void test_random_networks(void **state)
{
    uint64_t first = env_number("PARE_SEED", 1), count = env_number("PARE_GRAPHS", 2000);

    (void)state;
    for (uint64_t seed = first; seed < first + count; seed++)
        check_network(seed);
    print_message("%d of %llu networks are smaller; %.0f%% of all parameters are left\n",
                  totals.smaller, (unsigned long long)count, 100 * totals.left / totals.parameters);
    print_message("%d recurrent layers, %d masked in groups, %d as a whole, %d removed\n",
                  totals.recurrent, totals.grouped, totals.whole, totals.gone);
    if (count < 1000)
        return;
    assert_true(totals.smaller > (int)count / 3);
    assert_true(totals.recurrent > 50 && totals.grouped > 50 && totals.whole > 50 &&
                totals.gone > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_random_networks, make_pool, drop_pool),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_speedup_free.c - speedup of random networks with free dimensions: the smaller model equals
 * the masked one at sizes that the analysis did not use.
 *
 *     test_speedup_free [--count N] [--seed N] [--dump FILE] [-v]
 * One network in a hundred may be refused.  Speedup itself verifies only one in ten, because that
 * takes longer than everything else.  Three networks in sixteen are the body of an If, two that of
 * a Loop.  `make test-graphs` runs 5,000 networks.
 */
#include "free_graph_bodies.h"

#include <pare/compress.h>

#include "onnx/model.h"
#include "op/op.h"

#include "graph/free_dims.h"

enum { OUTPUTS = 64, SHAPES = 3, REASONS = 16, TEXT = 512 };

static struct {
    uint64_t count, seed;
    const char *dump;
    bool verbose;
} args = { 200, 1, NULL, false };

static struct {
    int smaller, unchanged, refused, wrong;
    int bodies, smaller_bodies; /* networks that are bodies; those of them that are smaller */
    int aware, disagree; /* layers pruned by dependency groups; those that keep masked channels */
    double parameters, left;
    char reason[REASONS][TEXT]; /* messages of refusals, without names and numbers */
    int times[REASONS];
} totals;

static void count_refusal(const char *msg)
{
    char text[TEXT];
    size_t n = 0;
    bool name = false;
    int k = 0;

    for (const char *c = msg; *c && n + 1 < sizeof(text); c++) {
        if (*c == '\'')
            name = !name;
        else if (!name && (*c < '0' || *c > '9'))
            text[n++] = *c;
    }
    text[n] = 0;
    while (k < REASONS - 1 && totals.times[k] && strcmp(totals.reason[k], text) != 0)
        k++;
    memcpy(totals.reason[k], text, n + 1);
    totals.times[k]++;
    totals.refused++;
}

static void clear_index(const struct pare_tensor *t, int axis, int64_t i)
{
    int64_t inner = 1, n = pare_numel(t);

    for (int k = axis + 1; k < t->rank; k++)
        inner *= t->dim[k];
    for (int64_t at = 0; at < n; at++)
        if (at / inner % t->dim[axis] == i)
            pare_f32_mut(t)[at] = 0;
}

/* Masks half of the output or input channels of a layer, and sometimes its bias. */
static void mask_layer(struct fg *g, struct pare_model *m, struct pare_node *n)
{
    struct pare_value *w = n->in[1], *b = n->n_in > 2 ? n->in[2] : NULL;
    struct pare_err err;
    int axis[2], side = fg_chance(g, 20);
    bool same = fg_chance(g, 50);

    n->op->axes(n, &axis[0], &axis[1]);
    if (axis[side] < 0 || w->t.rank < 2 || !(w->flags & PARE_V_CONST) || w->maker ||
        w->t.dtype != PARE_F32 || fg_chance(g, 20))
        return;
    assert_int_equal(pare_model_own(m, w, &err), 0);
    for (int64_t i = 0; i < w->t.dim[axis[side]]; i++) {
        if (same ? i % 2 : fg_chance(g, 50))
            continue;
        clear_index(&w->t, axis[side], i);
        if (side || !b || b->t.rank != 1 || b->maker || !(b->flags & PARE_V_CONST) ||
            fg_chance(g, 40))
            continue;
        assert_int_equal(pare_model_own(m, b, &err), 0);
        clear_index(&b->t, 0, i);
    }
}

/* Whether the analysis of free dimensions used this size of the axis of the first input. */
static bool is_analyzed(const struct pare_graph *g, int axis, int64_t size)
{
    bool found = g->in[0]->t.dim[axis] == size;

    for (int i = 0; i < PARE_OTHER_SIZES; i++)
        found |= g->other[i] && g->other[i]->in[0]->t.dim[axis] == size;
    return found;
}

/* Inputs of random sizes that the analysis did not use. */
static void random_inputs(struct fg *g, const struct pare_graph *analyzed, struct pare_tensor *x)
{
    int rank = g->kind == FG_IMAGE ? 4 : 3;
    int64_t dim[4] = { 0 };

    for (int i = 0; i < rank; i++)
        do
            dim[i] = g->fixed[i] >= 0 ? g->fixed[i] : i ? fg_int(g, 9, 33) : fg_int(g, 1, 5);
        while (g->fixed[i] < 0 && is_analyzed(analyzed, i, dim[i]));
    x[0] = build_tensor(PARE_F32, rank, dim);
    for (int64_t i = 0; i < pare_numel(&x[0]); i++)
        pare_f32_mut(&x[0])[i] = (float)(2 * pare_rng_uniform(&g->r) - 1);
    if (!g->ids)
        return;
    x[1] = build_tensor(PARE_I64, 2, dim);
    for (int64_t i = 0; i < pare_numel(&x[1]); i++)
        ((int64_t *)x[1].data)[i] = fg_int(g, 0, FG_IDS - 1);
}

static struct pare_plan *make_and_run(const struct pare_model *m, const struct pare_tensor *x,
                                      struct pare_tensor *y, int n, struct pare_err *err)
{
    struct pare_plan_opts o = { .threads = 1, .in = x, .n_in = m->n_in };
    struct pare_plan *p = NULL;

    if (pare_plan_new(m, &o, &p, err))
        return NULL;
    if (!pare_plan_run(p, x, m->n_in, y, n, err))
        return p;
    pare_plan_free(p);
    return NULL;
}

/* The difference, as text; NULL: none. */
static const char *describe_difference(const struct pare_tensor *a, const struct pare_tensor *b)
{
    char ta[PARE_SHAPE_TEXT], tb[PARE_SHAPE_TEXT];
    double most = 0, off = 0;

    if (!pare_same_shape(a, b))
        return pare_sprintf(pool, "%s, expected %s", pare_shape_text(b, tb, sizeof(tb)),
                            pare_shape_text(a, ta, sizeof(ta)));
    for (int64_t i = 0; i < pare_numel(a); i++) {
        double d = fabs(pare_get(a, i) - pare_get(b, i));

        most = fmax(most, fabs(pare_get(a, i)));
        off = d <= off ? off : d; /* also NaN */
    }
    return off <= 1e-3 * most + 1e-5 ? NULL
                                     : pare_sprintf(pool, "different by %g of %g", off, most);
}

static void check_random_shape(struct fg *g, uint64_t seed, const struct pare_model *m,
                               const struct pare_model *small, const struct pare_graph *analyzed)
{
    struct pare_tensor x[2], y[2][OUTPUTS];
    struct pare_plan *p[2] = { NULL, NULL };
    const struct pare_io *io;
    struct pare_err err;
    char buf[PARE_SHAPE_TEXT];
    int n = pare_model_outputs(m, &io);

    assert_true(n <= OUTPUTS);
    random_inputs(g, analyzed, x);
    p[0] = make_and_run(m, x, y[0], n, &err);
    if (!p[0])
        fail_msg("seed %llu: the masked model: %s", (unsigned long long)seed, err.msg);
    p[1] = make_and_run(small, x, y[1], n, &err);
    if (!p[1]) {
        totals.wrong++;
        print_error("seed %llu at %s: the smaller model does not run: %s\n",
                    (unsigned long long)seed, pare_shape_text(&x[0], buf, sizeof(buf)), err.msg);
    }
    for (int i = 0; i < n && p[1]; i++) {
        const char *what = describe_difference(&y[0][i], &y[1][i]);

        if (!what)
            continue;
        totals.wrong++;
        print_error("seed %llu at %s: output %d is %s\n", (unsigned long long)seed,
                    pare_shape_text(&x[0], buf, sizeof(buf)), i, what);
        break;
    }
    pare_plan_free(p[0]);
    pare_plan_free(p[1]);
}

static void mask_graph(struct fg *g, struct pare_model *m, const struct pare_graph *in)
{
    const struct pare_graph *body;

    for (int i = 0; i < in->n_nodes; i++) {
        struct pare_node *n = in->node[i];

        if (n->op && n->op->linear && n->op->axes && n->n_in > 1)
            mask_layer(g, m, n);
        for (int b = 0; (body = pare_node_body(n, b, NULL)) != NULL; b++)
            mask_graph(g, m, body);
    }
}

/* The model with masks: for one in four, half of all channels by dependency groups, if the pruner
 * finds a layer; else at random. */
static struct pare_model *make_masked(struct fg *g, uint64_t seed)
{
    const struct pare_prune_opts o = { .pruner = "l1",
                                       .sparsity = 0.5,
                                       .settings = "mode=dependency_aware" };
    struct pare_model *m = build_model(&g->b), *masked = NULL;
    struct pare_prune_report r;
    struct pare_err err;

    if (seed % 4 == 0 && !pare_prune(m, &o, &masked, &r, &err)) {
        pare_model_free(m);
        return masked;
    }
    mask_graph(g, m, m->graph);
    return m;
}

/* After pruning by dependency groups, layers agree on which channels to remove. */
static void count_disagreements(uint64_t seed, const struct pare_speedup_report *r)
{
    for (int i = 0; i < r->n_layers && seed % 4 == 0; i++) {
        totals.aware += r->layer[i].empty > 0;
        totals.disagree += r->layer[i].coupled;
        if (r->layer[i].coupled && args.verbose)
            print_message("seed %llu: layer '%s' keeps %lld of %lld channels, %lld are masked\n",
                          (unsigned long long)seed, r->layer[i].name,
                          (long long)r->layer[i].out_left, (long long)r->layer[i].out,
                          (long long)r->layer[i].empty);
    }
}

enum into { MAIN, IF, LOOP };

/* Where the network is.  Those of seed % 4 == 0 are pruned by dependency groups. */
static enum into body_of(uint64_t seed)
{
    return seed % 8 == 5 || seed % 16 == 4 ? IF : seed % 8 == 7 ? LOOP : MAIN;
}

static void check_network(uint64_t seed)
{
    static struct fg g;
    struct pare_mark mark = pare_mark(pool);
    struct pare_speedup_opts o = { .threads = 1, .seed = seed, .unverified = seed % 10 != 0 };
    struct pare_speedup_report r;
    struct pare_model *m, *small = NULL;
    struct pare_graph *analyzed;
    const struct pare_io *io;
    enum into into = body_of(seed);
    struct pare_err err;

    fg_make(&g, seed);
    if (into == IF)
        fg_into_if(&g);
    if (into == LOOP)
        fg_into_loop(&g);
    m = make_masked(&g, seed);
    if (args.dump)
        pare_model_save(m, args.dump, NULL, &err);
    if (pare_speedup(m, &o, pool, &small, &r, &err)) {
        count_refusal(err.msg);
        if (args.verbose)
            print_message("seed %llu is refused: %s\n", (unsigned long long)seed, err.msg);
    } else {
        count_disagreements(seed, &r);
        totals.smaller += r.params_left < r.params;
        totals.bodies += into != MAIN;
        totals.smaller_bodies += into != MAIN && r.params_left < r.params;
        totals.unchanged += r.params_left == r.params;
        totals.parameters += (double)r.params;
        totals.left += (double)r.params_left;
        pare_model_inputs(m, &io);
        assert_int_equal(pare_graph_infer_free(pool, m->graph, io, NULL, &analyzed, &err), 0);
        for (int i = 0; i < SHAPES; i++)
            check_random_shape(&g, seed, m, small, analyzed);
        pare_model_free(small);
    }
    pare_model_free(m);
    pare_reset(pool, mark);
}

static void test_random_networks(void **state)
{
    (void)state;
    for (uint64_t seed = args.seed; seed < args.seed + args.count; seed++)
        check_network(seed);
    print_message(
        "%llu networks: %d are smaller, %d are unchanged, %.0f%% of all parameters are left; "
        "%d are refused, %d are wrong\n",
        (unsigned long long)args.count, totals.smaller, totals.unchanged,
        100 * totals.left / totals.parameters, totals.refused, totals.wrong);
    print_message("%d layers are pruned by dependency groups, %d of them keep masked channels\n",
                  totals.aware, totals.disagree);
    print_message("%d networks are bodies, %d of them are smaller\n", totals.bodies,
                  totals.smaller_bodies);
    for (int k = 0; k < REASONS && totals.times[k]; k++)
        print_message("%6d refused: %s\n", totals.times[k], totals.reason[k]);
    assert_int_equal(totals.wrong, 0);
    assert_true((uint64_t)totals.refused * 100 <= args.count);
    if (args.count < 100)
        return;
    assert_true((uint64_t)totals.smaller * 2 > args.count);
    assert_true(totals.smaller_bodies * 2 > totals.bodies);
    assert_true(totals.disagree * 8 < totals.aware);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_random_networks, make_pool, drop_pool),
    };

    if (getenv("PARE_GRAPHS"))
        args.count = strtoull(getenv("PARE_GRAPHS"), NULL, 10);
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--count") && i + 1 < argc)
            args.count = strtoull(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--seed") && i + 1 < argc)
            args.seed = strtoull(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--dump") && i + 1 < argc)
            args.dump = argv[++i];
        else
            args.verbose = true;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}

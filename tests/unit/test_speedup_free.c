/* test_speedup_free.c - speedup of random networks with free dimensions: the smaller model equals
 * the masked one at sizes that the analysis never saw.
 *
 *     test_speedup_free [--count N] [--seed N] [--dump FILE] [-v]
 * A network that is refused counts as such; one in eight may be.  Only one in ten is verified by
 * speedup itself, which takes longer than everything else.
 */
#include "free_graph.h"

#include <pare/compress.h>

#include "onnx/model.h"
#include "op/op.h"

enum { OUTPUTS = 64, SHAPES = 3 };

static struct {
    uint64_t count, seed;
    const char *dump;
    bool verbose;
} args = { 100, 1, NULL, false };

static struct {
    int smaller, refused, wrong;
    double parameters, left;
} seen;

static void clear(const struct pare_tensor *t, int axis, int64_t i)
{
    int64_t inner = 1, n = pare_numel(t);

    for (int k = axis + 1; k < t->rank; k++)
        inner *= t->dim[k];
    for (int64_t at = 0; at < n; at++)
        if (at / inner % t->dim[axis] == i)
            pare_f32(t)[at] = 0;
}

/* Half of the output channels, or of the input channels, of a layer; its bias perhaps, too. */
static void mask(struct fg *g, struct pare_model *m, struct pare_node *n)
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
        clear(&w->t, axis[side], i);
        if (side || !b || b->t.rank != 1 || b->maker || !(b->flags & PARE_V_CONST) ||
            fg_chance(g, 40))
            continue;
        assert_int_equal(pare_model_own(m, b, &err), 0);
        clear(&b->t, 0, i);
    }
}

static struct pare_tensor random_input(struct fg *g)
{
    int rank = g->kind == FG_IMAGE ? 4 : 3;
    int64_t dim[4] = { 0 };
    struct pare_tensor t;

    for (int i = 0; i < rank; i++)
        dim[i] = g->fixed[i] >= 0 ? g->fixed[i] : i == 0 ? fg_int(g, 1, 4) : fg_int(g, 9, 45);
    t = build_tensor(PARE_F32, rank, dim);
    for (int64_t i = 0; i < pare_numel(&t); i++)
        pare_f32(&t)[i] = (float)(2 * pare_rng_uniform(&g->r) - 1);
    return t;
}

static struct pare_plan *run(const struct pare_model *m, const struct pare_tensor *x,
                             struct pare_tensor *y, int n, struct pare_err *err)
{
    struct pare_plan_opts o = { .threads = 1, .in = x, .n_in = 1 };
    struct pare_plan *p = NULL;

    if (pare_plan_new(m, &o, &p, err))
        return NULL;
    if (!pare_plan_run(p, x, 1, y, n, err))
        return p;
    pare_plan_free(p);
    return NULL;
}

/* What differs, as text; NULL: nothing. */
static const char *compare(const struct pare_tensor *a, const struct pare_tensor *b)
{
    char ta[PARE_SHAPE_TEXT], tb[PARE_SHAPE_TEXT];
    double most = 0, off = 0;

    if (!pare_same_shape(a, b))
        return pare_sprintf(pool, "%s, not %s", pare_shape_text(b, tb, sizeof(tb)),
                            pare_shape_text(a, ta, sizeof(ta)));
    for (int64_t i = 0; i < pare_numel(a); i++) {
        double d = fabs(pare_get(a, i) - pare_get(b, i));

        most = fmax(most, fabs(pare_get(a, i)));
        off = d <= off ? off : d; /* and NAN */
    }
    return off <= 1e-3 * most + 1e-5 ? NULL : pare_sprintf(pool, "off by %g of %g", off, most);
}

static void check_shape(struct fg *g, uint64_t seed, const struct pare_model *m,
                        const struct pare_model *small)
{
    struct pare_tensor x = random_input(g), y[2][OUTPUTS];
    struct pare_plan *p[2] = { NULL, NULL };
    const struct pare_io *io;
    struct pare_err err;
    char buf[PARE_SHAPE_TEXT];
    int n = pare_model_outputs(m, &io);

    assert_true(n <= OUTPUTS);
    p[0] = run(m, &x, y[0], n, &err);
    if (!p[0])
        fail_msg("seed %llu: the masked model: %s", (unsigned long long)seed, err.msg);
    p[1] = run(small, &x, y[1], n, &err);
    if (!p[1]) {
        seen.wrong++;
        print_error("seed %llu at %s: the smaller model does not run: %s\n",
                    (unsigned long long)seed, pare_shape_text(&x, buf, sizeof(buf)), err.msg);
    }
    for (int i = 0; i < n && p[1]; i++) {
        const char *what = compare(&y[0][i], &y[1][i]);

        if (!what)
            continue;
        seen.wrong++;
        print_error("seed %llu at %s: output %d is %s\n", (unsigned long long)seed,
                    pare_shape_text(&x, buf, sizeof(buf)), i, what);
        break;
    }
    pare_plan_free(p[0]);
    pare_plan_free(p[1]);
}

static void check(uint64_t seed)
{
    static struct fg g;
    struct pare_mark mark = pare_mark(pool);
    struct pare_speedup_opts o = { .threads = 1, .seed = seed, .unverified = seed % 10 != 0 };
    struct pare_speedup_report r;
    struct pare_model *m, *small = NULL;
    struct pare_err err;

    fg_make(&g, seed);
    m = build_model(&g.b);
    for (int i = 0; i < m->graph->n_nodes; i++) {
        struct pare_node *n = m->graph->node[i];

        if (n->op && n->op->linear && n->op->axes && n->n_in > 1)
            mask(&g, m, n);
    }
    if (args.dump)
        pare_model_save(m, args.dump, NULL, &err);
    if (pare_speedup(m, &o, pool, &small, &r, &err)) {
        seen.refused++;
        if (args.verbose)
            print_message("seed %llu is refused: %s\n", (unsigned long long)seed, err.msg);
    } else {
        seen.smaller += r.params_left < r.params;
        seen.parameters += (double)r.params;
        seen.left += (double)r.params_left;
        for (int i = 0; i < SHAPES; i++)
            check_shape(&g, seed, m, small);
        pare_model_free(small);
    }
    pare_model_free(m);
    pare_reset(pool, mark);
}

static void random_graphs(void **state)
{
    (void)state;
    for (uint64_t seed = args.seed; seed < args.seed + args.count; seed++)
        check(seed);
    print_message("%llu graphs: %d got smaller, %.0f%% of all parameters are left; %d are refused, "
                  "%d are wrong\n",
                  (unsigned long long)args.count, seen.smaller, 100 * seen.left / seen.parameters,
                  seen.refused, seen.wrong);
    assert_int_equal(seen.wrong, 0);
    assert_true((uint64_t)seen.refused * 8 <= args.count);
    assert_true((uint64_t)seen.smaller * 2 > args.count);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(random_graphs, make_pool, drop_pool),
    };

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

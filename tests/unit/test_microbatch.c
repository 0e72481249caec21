/* test_microbatch.c - micro-batches give the results of the whole batch, and models that mix batch
 * items are refused.
 *
 * Environment: PARE_GRAPHS is the number of random networks, PARE_SEED the first seed.
 */
#include "random_graph_more.h"
#include "small_net.h"

#include <stdio.h>
#include <unistd.h>

#include "plan/batch/microbatch.h"
#include "plan/tune/tune.h"
#include "tensor/compare.h"
#include "zoo/zoo.h"

enum { BATCH = 6, MOST_OUT = RG_VALUES + 2 };

/* ---- graphs of x (N, 4, 6) and t (N, 3) ----------------------------------------------------- */

NETWORK(convolution)
{
    const char *w = random_weight(n, INTS(8, 4, 3)), *y;

    y = NODE("Relu", NAMES(NODE("Conv", NAMES(n->x, w), at_ints("pads", INTS(1, 1)))), NOTHING);
    y = NODE("Flatten", NAMES(NODE("GlobalAveragePool", NAMES(y), NOTHING)), NOTHING);
    return NODE("Gemm", NAMES(y, random_weight(n, INTS(8, 5))), NOTHING);
}

/* Sequence first, as in PyTorch's attention: rows are (steps * items). */
NETWORK(sequence_first)
{
    const char *y = NODE("Transpose", NAMES(n->x), at_ints("perm", INTS(1, 0, 2)));

    y = NODE("Reshape", NAMES(y, LIST(-1, 6)), NOTHING);
    y = NODE("Gemm", NAMES(y, random_weight(n, INTS(6, 6))), NOTHING);
    y = NODE("Reshape", NAMES(y, LIST(4, -1, 6)), NOTHING);
    return NODE("Transpose", NAMES(y), at_ints("perm", INTS(1, 0, 2)));
}

/* (items * heads) first, products of two computed matrices, Softmax over the last axis. */
NETWORK(heads)
{
    const char *q = NODE("Reshape", NAMES(n->x, LIST(-1, 2, 6)), NOTHING);
    const char *k = NODE("Transpose", NAMES(q), at_ints("perm", INTS(0, 2, 1)));
    const char *a = NODE("Softmax", NAMES(NODE("MatMul", NAMES(q, k), NOTHING)),
                         at_int("axis", -1));

    return NODE("Reshape", NAMES(NODE("MatMul", NAMES(a, q), NOTHING), LIST(-1, 4, 6)), NOTHING);
}

static const char *batch_size(struct net *n)
{
    return NODE("Gather", NAMES(NODE("Shape", NAMES(n->x), NOTHING), LIST(0)), NOTHING);
}

/* One token, expanded to all items. */
NETWORK(class_token)
{
    const char *shape = NODE("Concat", NAMES(batch_size(n), LIST(1, 6)), at_int("axis", 0));
    const char *token = NODE("Expand", NAMES(random_weight(n, INTS(1, 1, 6)), shape), NOTHING);

    return NODE("Concat", NAMES(token, n->x), at_int("axis", 1));
}

NETWORK(two_inputs)
{
    const char *t = NODE("Unsqueeze", NAMES(n->t, LIST(2)), NOTHING);
    const char *y = NODE("Slice", NAMES(n->x, LIST(1), LIST(4), LIST(1)), NOTHING);

    return NODE("Add", NAMES(NODE("Mul", NAMES(y, t), NOTHING), random_weight(n, INTS(3, 1))),
                NOTHING);
}

NETWORK(flattened)
{
    return NODE("Reshape", NAMES(n->x, LIST(-1)), NOTHING);
}

NETWORK(mean_of_items)
{
    const char *m = NODE("ReduceMean", NAMES(n->x), at_ints("axes", INTS(0)));

    return NODE("Sub", NAMES(n->x, m), NOTHING);
}

NETWORK(softmax_of_items)
{
    return NODE("Softmax", NAMES(n->x), at_int("axis", 0));
}

NETWORK(sums_of_items)
{
    return NODE("CumSum", NAMES(n->x, LIST(0)), NOTHING);
}

NETWORK(twice)
{
    return NODE("Concat", NAMES(n->x, n->x), at_int("axis", 0));
}

NETWORK(one_item)
{
    const char *y = NODE("Gather", NAMES(n->x, LIST(1)), at_int("axis", 0));

    return NODE("Add", NAMES(n->x, y), NOTHING);
}

NETWORK(without_first)
{
    return NODE("Slice", NAMES(n->x, LIST(1), LIST(100), LIST(0)), NOTHING);
}

NETWORK(items_last)
{
    return NODE("Transpose", NAMES(n->t), at_ints("perm", INTS(1, 0)));
}

NETWORK(pairs_of_items)
{
    return NODE("MatMul", NAMES(n->t, items_last(n)), NOTHING);
}

NETWORK(moments_of_the_batch)
{
    const char *c = random_weight(n, INTS(4)), *y[3];

    build_node_outs(&n->b, "BatchNormalization", NAMES(n->x, c, c, c, c),
                    at_int("training_mode", 1), 3, y);
    return y[0];
}

NETWORK(divided_by_batch)
{
    const char *size = NODE("Cast", NAMES(batch_size(n)), at_int("to", 1));

    return NODE("Div", NAMES(n->x, size), NOTHING);
}

/* A range of constant length whose start depends on the batch. */
NETWORK(range_by_batch)
{
    const char *from = NODE("Div", NAMES(batch_size(n), LIST(3)), NOTHING);
    const char *to = NODE("Add", NAMES(from, LIST(2)), NOTHING);

    return NODE("Slice", NAMES(n->x, from, to, LIST(1)), NOTHING);
}

NETWORK(constant_by_item)
{
    return NODE("Add", NAMES(n->t, random_weight(n, INTS(BATCH, 1))), NOTHING);
}

/* A copy in inference. */
NETWORK(dropout)
{
    return NODE("Dropout", NAMES(n->x, build_scalar(&n->b, 0.5f)), NOTHING);
}

NETWORK(dropout_trains)
{
    const char *yes = build_const(&n->b, PARE_BOOL, 0, NULL, (uint8_t[]){ 1 });

    return NODE("Dropout", NAMES(n->x, build_scalar(&n->b, 0.5f), yes), NOTHING);
}

NETWORK(dynamic)
{
    const char *at = NODE("NonZero", NAMES(NODE("Relu", NAMES(n->t), NOTHING)), NOTHING);

    return NODE("Transpose", NAMES(at), NOTHING);
}

NETWORK(items_reversed)
{
    return NODE("Slice", NAMES(n->x, LIST(-1), LIST(-100), LIST(0), LIST(-1)), NOTHING);
}

static const struct {
    const char *name;
    const char *(*make)(struct net *n);
    bool independent; /* no result depends on another item of the batch */
} nets[] = {
    { "convolution", convolution, true },
    { "sequence first", sequence_first, true },
    { "heads", heads, true },
    { "class token", class_token, true },
    { "two inputs", two_inputs, true },
    { "flattened", flattened, true },
    { "dropout", dropout, true },
    { "dropout trains", dropout_trains, false },
    { "mean of items", mean_of_items, false },
    { "softmax of items", softmax_of_items, false },
    { "sums of items", sums_of_items, false },
    { "twice", twice, false },
    { "one item", one_item, false },
    { "without first", without_first, false },
    { "items last", items_last, false },
    { "pairs of items", pairs_of_items, false },
    { "moments of the batch", moments_of_the_batch, false },
    { "divided by batch", divided_by_batch, false },
    { "range by batch", range_by_batch, false },
    { "constant by item", constant_by_item, false },
    { "dynamic", dynamic, false },
    { "items reversed", items_reversed, false },
};

/* ---- whole batch and micro-batches --------------------------------------------------------- */

struct data {
    const struct pare_model *m;
    const char *name;
    struct pare_tensor in[RG_INPUTS], want[MOST_OUT];
    int n_in, n_out;
};

static void run_whole_batch(struct data *d)
{
    struct pare_plan_opts o = { .threads = 1, .in = d->in };
    struct pare_tensor out[MOST_OUT];
    struct pare_plan *p;
    struct pare_err err;

    if (pare_plan_build(d->m, &(struct pare_plan_build){ .opts = &o }, &p, &err) ||
        pare_plan_execute(p, d->in, out, &err))
        fail_msg("%s: %s", d->name, err.msg);
    assert_null(p->microbatch);
    d->n_out = p->graph->n_out;
    for (int i = 0; i < d->n_out; i++)
        d->want[i] = build_copy(&out[i]);
    pare_plan_free(p);
}

static void compare_with_whole(const struct data *d, const struct pare_tensor *out, int64_t items,
                               int threads)
{
    struct pare_err err;

    for (int i = 0; i < d->n_out; i++) {
        double largest = 0;

        for (int64_t k = 0; k < pare_numel(&d->want[i]); k++)
            largest = fmax(largest, fabs(pare_get(&d->want[i], k)));
        if (pare_tensor_compare(&out[i], &d->want[i],
                                (struct pare_tolerance){ 1e-5, 1e-5 * largest + 1e-6 }, &err))
            fail_msg("%s, micro-batches of %lld, %d threads: output %d: %s", d->name,
                     (long long)items, threads, i, err.msg);
    }
}

/* A run reads nothing of an earlier run and allocates no memory. */
static void run_microbatches(const struct data *d, struct pare_plan *p, int64_t items, int threads)
{
    struct pare_tensor out[MOST_OUT];
    struct pare_err err;

    for (int i = 0; i < p->microbatch->n; i++)
        memset(p->microbatch->plan[i]->memory, 0xff, p->microbatch->plan[i]->memory_bytes);
    pare_oom_countdown = 1 << 30;
    if (pare_plan_execute(p, d->in, out, &err))
        fail_msg("%s, micro-batches of %lld, %d threads: %s", d->name, (long long)items, threads,
                 err.msg);
    assert_int_equal(pare_oom_countdown, 1 << 30);
    pare_oom_countdown = 0;
    compare_with_whole(d, out, items, threads);
}

/* Runs in micro-batches of `items` and compares; returns false if the plan is refused. */
static bool check_microbatches(const struct data *d, int64_t items, int threads)
{
    struct pare_plan_opts o = { .threads = threads, .in = d->in };
    struct pare_plan *p;
    struct pare_err err;
    int rc = pare_plan_build(d->m, &(struct pare_plan_build){ .opts = &o, .microbatch = items }, &p,
                             &err);

    if (rc == PARE_EUNSUPPORTED)
        return false;
    if (rc)
        fail_msg("%s: %s", d->name, err.msg);
    assert_non_null(p->microbatch);
    for (int again = 0; again < 2; again++)
        run_microbatches(d, p, items, threads);
    pare_plan_free(p);
    return true;
}

/* ---- tests ------------------------------------------------------------------------------- */

static void make_net(struct data *d, int i, struct net *n, int64_t batch)
{
    net_begin(n, (uint64_t)i + 1, 0.5f);
    n->x = build_input(&n->b, PARE_F32, INTS(-1, 4, 6));
    n->t = build_input(&n->b, PARE_F32, INTS(-1, 3));
    build_output(&n->b, nets[i].make(n));
    *d = (struct data){ .m = build_model(&n->b), .name = nets[i].name, .n_in = 2 };
    d->in[0] = build_tensor(PARE_F32, INTS(batch, 4, 6));
    d->in[1] = build_tensor(PARE_F32, INTS(batch, 3));
    for (int k = 0; k < 2; k++)
        rg_fill(&n->r, &d->in[k], 1);
}

static void test_microbatches_of_small_networks(void **state)
{
    static struct net n;
    struct data d;

    (void)state;
    for (size_t i = 0; i < sizeof(nets) / sizeof(*nets); i++) {
        make_net(&d, (int)i, &n, BATCH);
        run_whole_batch(&d);
        for (int64_t items = 1; items < BATCH; items++)
            for (int threads = 1; threads <= 3; threads++)
                if (check_microbatches(&d, items, threads) !=
                    (nets[i].independent && BATCH % items == 0))
                    fail_msg("%s, micro-batches of %lld: %s", d.name, (long long)items,
                             nets[i].independent ? "refused" : "accepted");
        pare_model_free((struct pare_model *)(uintptr_t)d.m);
    }
}

/* Seven items on two threads. */
static void test_batch_of_7_on_2_threads(void **state)
{
    static struct net n;
    struct data d;

    (void)state;
    for (int i = 0; nets[i].independent; i++) { /* the independent ones come first */
        make_net(&d, i, &n, 7);
        run_whole_batch(&d);
        assert_true(check_microbatches(&d, 1, 2));
        assert_false(check_microbatches(&d, 2, 2));
        pare_model_free((struct pare_model *)(uintptr_t)d.m);
    }
}

static void test_microbatches_of_zoo_networks(void **state)
{
    (void)state;
    for (int i = 0; pare_networks[i]; i++) {
        struct pare_network_opts o = { .c = 3, .classes = 10, .seed = 1 };
        struct data d = { .name = pare_networks[i]->name, .n_in = 1 };
        struct pare_model *m;
        struct pare_rng r;
        struct pare_err err;
        int runs = 0;

        o.h = o.w = pare_networks[i]->least > 32 ? pare_networks[i]->least : 32;
        if (pare_network_make(pare_networks[i], &o, &m, &err))
            fail_msg("%s", err.msg);
        d.m = m;
        d.in[0] = build_tensor(PARE_F32, INTS(4, 3, o.h, o.w));
        pare_rng_init(&r, 1);
        rg_fill(&r, &d.in[0], 1);
        run_whole_batch(&d);
        runs += check_microbatches(&d, 1, 2);
        runs += check_microbatches(&d, 2, 1);
        if (runs != 2)
            fail_msg("%s cannot be run in micro-batches", d.name);
        pare_model_free(m);
    }
}

static uint64_t env_number(const char *name, uint64_t absent)
{
    const char *s = getenv(name);

    return s ? strtoull(s, NULL, 10) : absent;
}

static void test_microbatches_of_random_networks(void **state)
{
    uint64_t first = env_number("PARE_SEED", 1), count = env_number("PARE_GRAPHS", 400);
    static struct rg g;
    int independent = 0, batches = 0;

    (void)state;
    for (uint64_t seed = first; seed < first + count; seed++) {
        struct pare_mark m = pare_mark(pool);
        struct data d = { .name = pare_sprintf(pool, "seed %llu", (unsigned long long)seed) };
        struct pare_model *model;

        rg_make(&g, seed);
        d.m = model = build_model(&g.b);
        d.n_in = g.n_in;
        for (int i = 0; i < g.n_in; i++) {
            d.in[i] = build_tensor(PARE_F32, g.in[i].rank, g.in[i].dim);
            rg_fill(&g.r, &d.in[i], 1.5f);
        }
        if (d.in[0].dim[0] > 1) {
            run_whole_batch(&d);
            batches++;
            independent += check_microbatches(&d, 1, 2);
        }
        pare_model_free(model);
        pare_reset(pool, m);
    }
    print_message("%d of %d random networks with a batch ran in micro-batches\n", independent,
                  batches);
    assert_true(independent > 0 || count < 100);
}

/* Gather of a table by input indices: a wrong index is an error when its item runs. */
static struct pare_model *make_lookup(struct net *n)
{
    net_begin(n, 1, 0.5f);
    n->x = build_input(&n->b, PARE_I64, INTS(-1, 2));
    build_output(&n->b, NODE("Gather", NAMES(random_weight(n, INTS(10, 3)), n->x), NOTHING));
    return build_model(&n->b);
}

static void test_microbatch_errors(void **state)
{
    static struct net n;
    struct pare_model *m = make_lookup(&n);
    struct pare_tensor x = build_tensor(PARE_I64, INTS(BATCH, 2)), out;
    struct pare_plan_opts o = { .threads = 2, .in = &x };
    struct pare_plan *p[2];
    struct pare_err err[2];

    (void)state;
    assert_int_equal(pare_plan_build(m, &(struct pare_plan_build){ .opts = &o }, &p[0], &err[0]),
                     0);
    assert_int_equal(pare_plan_build(m, &(struct pare_plan_build){ .opts = &o, .microbatch = 1 },
                                     &p[1], &err[1]),
                     0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pare_plan_execute(p[i], &x, &out, &err[i]), 0);
    pare_i64_mut(&x)[2] = pare_i64_mut(&x)[9] = 11;
    for (int i = 0; i < 2; i++)
        assert_int_not_equal(pare_plan_execute(p[i], &x, &out, &err[i]), 0);
    assert_int_equal(err[0].code, err[1].code);
    assert_string_equal(err[0].msg, err[1].msg);
    pare_i64_mut(&x)[2] = pare_i64_mut(&x)[9] = 1;
    assert_int_equal(pare_plan_execute(p[1], &x, &out, &err[1]), 0);
    x.dim[0]--;
    assert_int_equal(pare_plan_execute(p[1], &x, &out, &err[1]), PARE_ESHAPE);
    for (int i = 0; i < 2; i++)
        pare_plan_free(p[i]);
    pare_model_free(m);
}

/* The second plan shares the packed weights of the first. */
static void test_microbatches_share_weights(void **state)
{
    static struct net n;
    struct pare_tensor x = build_tensor(PARE_F32, INTS(4, 64, 8, 8));
    struct pare_plan_opts o = { .threads = 2, .in = &x };
    struct pare_plan *p;
    struct pare_model *m;
    struct pare_err err;
    const char *y;

    (void)state;
    net_begin(&n, 1, 0.5f);
    y = build_input(&n.b, PARE_F32, INTS(-1, 64, 8, 8));
    y = build_node(&n.b, "Conv", NAMES(y, random_weight(&n, INTS(256, 64, 3, 3))), NOTHING);
    y = build_node(&n.b, "Conv", NAMES(y, random_weight(&n, INTS(256, 256, 1, 1))), NOTHING);
    y = build_node(&n.b, "Conv", NAMES(y, random_weight(&n, INTS(256, 256, 2, 2))), NOTHING);
    y = build_node(&n.b, "Flatten", NAMES(y), NOTHING);
    y = build_node(&n.b, "Gemm", NAMES(y, random_weight(&n, INTS(6400, 100))), NOTHING);
    build_output(&n.b, y);
    m = build_model(&n.b);
    assert_int_equal(pare_plan_build(m, &(struct pare_plan_build){ .opts = &o, .microbatch = 2 },
                                     &p, &err),
                     0);
    assert_int_equal(p->microbatch->n, 2);
    assert_true(pare_arena_bytes(p->microbatch->plan[0]->arena) > (size_t)4 << 20);
    assert_true(pare_arena_bytes(p->microbatch->plan[1]->arena) < (size_t)1 << 20);
    pare_plan_free(p);
    pare_model_free(m);
}

static void write_choice(const char *path, const char *key, const char *name)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    fprintf(f, "%s\t%s\n", name, key);
    fclose(f);
}

/* Large enough for tuning to try micro-batches. */
static struct pare_model *make_large_network(struct net *n, struct pare_tensor *x)
{
    const char *y;

    net_begin(n, 1, 0.5f);
    y = build_input(&n->b, PARE_F32, INTS(-1, 32, 12, 12));
    y = NODE("Conv", NAMES(y, random_weight(n, INTS(64, 32, 3, 3))), NOTHING);
    y = NODE("Relu", NAMES(y), NOTHING);
    build_output(&n->b, NODE("Flatten", NAMES(y), NOTHING));
    *x = build_tensor(PARE_F32, INTS(BATCH, 32, 12, 12));
    return build_model(&n->b);
}

/* The tuning cache determines the micro-batch; tuning records its choice there. */
static void test_microbatch_tuning_cache(void **state)
{
    static struct net n;
    char path[] = "/tmp/pare_microbatch_XXXXXX", key[PARE_TUNE_KEY];
    struct pare_tensor x;
    struct pare_model *m = make_large_network(&n, &x);
    struct pare_plan_opts o = { .threads = 2, .choices = path, .in = &x };
    struct pare_plan *p;
    struct pare_err err;
    int64_t items;
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(pare_plan_make(m, &o, &p, &err), 0);
    assert_true(pare_tune_batch_key(p, key));
    pare_plan_free(p);
    for (items = 1; items <= 3; items++) {
        write_choice(path, key, pare_sprintf(pool, "parts_of_%d", (int)items));
        assert_int_equal(pare_plan_make(m, &o, &p, &err), 0);
        assert_non_null(p->microbatch);
        assert_int_equal(p->microbatch->items, items);
        assert_int_equal(p->microbatch->n, 2);
        pare_plan_free(p);
    }
    write_choice(path, key, "whole");
    assert_int_equal(pare_plan_make(m, &o, &p, &err), 0);
    assert_null(p->microbatch);
    pare_plan_free(p);
    write_choice(path, key, "parts_of_4");
    assert_int_equal(pare_plan_make(m, &o, &p, &err), PARE_ECONFIG);
    assert_non_null(strstr(err.msg, "'parts_of_4' is listed for a batch of 6"));
    unlink(path);
    o.tune = true;
    assert_int_equal(pare_plan_make(m, &o, &p, &err), 0);
    assert_non_null(p->microbatch); /* possibly with one micro-batch */
    items = p->microbatch->items;
    pare_plan_free(p);
    o.tune = false;
    assert_int_equal(pare_plan_make(m, &o, &p, &err), 0);
    assert_int_equal(p->microbatch ? p->microbatch->items : BATCH, items);
    assert_int_equal(p->tuned.runs, 0);
    pare_plan_free(p);
    unlink(path);
    pare_model_free(m);
}

/* Each allocation fails once. */
static void test_out_of_memory(void **state)
{
    static struct net n;
    struct pare_tensor x;
    struct pare_model *m = make_large_network(&n, &x);
    struct pare_plan_opts o = { .threads = 2, .in = &x };
    int fails = 0, tuned = 0;

    (void)state;
    for (int at = 1; build_plan_fails(m, &o, 2, -at, &fails); at++)
        ;
    assert_true(fails > 50);
    o.tune = true;
    for (int at = 1; at < 3 * fails; at += 7) /* every seventh, to save time */
        build_plan_fails(m, &o, 0, -at, &tuned);
    assert_true(tuned > 0);
    pare_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_microbatches_of_small_networks, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_batch_of_7_on_2_threads, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_microbatches_of_zoo_networks, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_microbatches_of_random_networks, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_microbatch_errors, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_microbatches_share_weights, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_microbatch_tuning_cache, make_pool, drop_pool),
        cmocka_unit_test_setup_teardown(test_out_of_memory, make_pool, drop_pool),
    };

    return cmocka_run_group_tests_name("microbatch", tests, NULL, NULL);
}

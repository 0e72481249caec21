/* test_reconstruct.c - reconstruction of a pruned model: outputs are closer, zeros stay, several
 * inputs and outputs, the same bytes twice, a cancel or a rate that is too high leave the model. */
#include "make_model.h"

#include <math.h>

#include "base/arena.h"
#include "base/rng.h"
#include "compress/reconstruct.h"

#include <pare/data.h>

enum { ITEMS = 96, C = 4, SIDE = 6, SIZE = C * SIDE * SIDE, WIDE = 10 };

static struct pare_err err;
static struct pare_data *data;

static void ok(int rc)
{
    if (rc)
        fail_msg("%s", err.msg);
}

static const char *weight(struct build *b, int rank, const int64_t *dim, uint64_t seed, float plus)
{
    struct pare_tensor t = build_tensor(PARE_F32, rank, dim);
    struct pare_rng rng;

    pare_rng_init(&rng, seed);
    for (int64_t i = 0; i < pare_numel(&t); i++)
        pare_f32_mut(&t)[i] = plus + 0.3f * (float)pare_rng_normal(&rng);
    return build_floats(b, rank, dim, pare_f32(&t));
}

/* Two inputs of any batch size, a convolution with a batch normalization, two outputs. */
static struct pare_model *network(void)
{
    struct build b = { .opset = 13 };
    const char *in = build_input(&b, PARE_F32, 4, (int64_t[]){ -1, C, SIDE, SIDE });
    const char *more = build_input(&b, PARE_F32, 2, (int64_t[]){ -1, WIDE }), *y;

    y = build_node(&b, "Conv", NAMES(in, weight(&b, 4, (int64_t[]){ 8, C, 3, 3 }, 1, 0)),
                   at_ints("pads", 4, (int64_t[]){ 1, 1, 1, 1 }));
    y = build_node(&b, "BatchNormalization",
                   NAMES(y, weight(&b, 1, (int64_t[]){ 8 }, 6, 1),
                         weight(&b, 1, (int64_t[]){ 8 }, 7, 0),
                         weight(&b, 1, (int64_t[]){ 8 }, 8, 0),
                         weight(&b, 1, (int64_t[]){ 8 }, 9, 2)),
                   NOTHING);
    y = build_node(&b, "Flatten", NAMES(build_node(&b, "Relu", NAMES(y), NOTHING)), NOTHING);
    y = build_node(&b, "MatMul",
                   NAMES(y, weight(&b, 2, (int64_t[]){ 8 * SIDE * SIDE, WIDE }, 10, 0)), NOTHING);
    y = build_node(&b, "Relu", NAMES(build_node(&b, "Add", NAMES(y, more), NOTHING)), NOTHING);
    build_output(&b, build_node(&b, "MatMul",
                                NAMES(y, weight(&b, 2, (int64_t[]){ WIDE, 5 }, 11, 0)), NOTHING));
    build_output(&b, build_node(&b, "MatMul",
                                NAMES(y, weight(&b, 2, (int64_t[]){ WIDE, 3 }, 12, 0)), NOTHING));
    return build_model(&b);
}

static int setup(void **state)
{
    struct pare_input in[2] = { { .t = { 0 } }, { .t = { 0 } } };
    struct pare_arrays a = { .n = ITEMS, .input = in, .n_inputs = 2, .batch = 8 };
    struct pare_model *m;
    struct pare_rng rng;

    (void)state;
    pool = pare_arena_new(1 << 16);
    m = network();
    in[0].t = build_tensor(PARE_F32, 4, (int64_t[]){ ITEMS, C, SIDE, SIDE });
    in[1].t = build_tensor(PARE_F32, 2, (int64_t[]){ ITEMS, WIDE });
    pare_rng_init(&rng, 3);
    for (int k = 0; k < 2; k++) {
        in[k].name = pare_strdup(pool, m->graph->in[k]->name);
        for (int64_t i = 0; i < pare_numel(&in[k].t); i++)
            pare_f32_mut(&in[k].t)[i] = (float)pare_rng_normal(&rng);
    }
    ok(pare_data_from_arrays(&a, &data, &err));
    pare_model_free(m);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    pare_data_free(data);
    pare_arena_free(pool);
    return 0;
}

/* Every second weight of convolutions and products becomes 0. */
static void prune(struct pare_model *m)
{
    for (int i = 0; i < m->graph->n_nodes; i++) {
        struct pare_value *v = m->graph->node[i]->n_in > 1 ? m->graph->node[i]->in[1] : NULL;

        if (!v || v->maker || v->t.rank < 2 || !(v->flags & PARE_V_CONST))
            continue;
        ok(pare_model_own(m, v, &err));
        for (int64_t k = 0; k < pare_numel(&v->t); k += 2)
            pare_f32_mut(&v->t)[k] = 0;
    }
}

/* Constants of floats that differ; *woken: those that are 0 in a and not in b. */
static int64_t differences(struct pare_model *a, struct pare_model *b, int64_t *woken)
{
    int64_t n = 0;

    *woken = 0;
    for (int i = 0; i < a->graph->n_values; i++) {
        struct pare_value *v = a->graph->value[i], *u = pare_graph_find(b->graph, v->name);

        if (!(v->flags & PARE_V_CONST) || v->t.dtype != PARE_F32 || v->maker)
            continue;
        for (int64_t k = 0; k < pare_numel(&v->t); k++) {
            n += pare_f32(&v->t)[k] != pare_f32(&u->t)[k];
            *woken += v->t.rank > 1 && pare_f32(&v->t)[k] == 0 && pare_f32(&u->t)[k] != 0;
        }
    }
    return n;
}

struct trial {
    struct pare_model *dense, *m;
    struct pare_held_out held;
    struct pare_reconstruct r;
    double before;
};

static void begin(struct trial *t)
{
    struct pare_output_distance d;

    *t = (struct trial){ .dense = network(), .m = network() };
    prune(t->m);
    t->held = (struct pare_held_out){ .dense = t->dense, .data = data, .threads = 1 };
    pare_held_out_divide(&t->held, 1024);
    ok(pare_held_out_compare(&t->held, t->m, &d, &err));
    t->before = pare_output_cost(&d);
    t->r = (struct pare_reconstruct){ .model = t->m,
                                      .teacher = t->dense,
                                      .data = data,
                                      .held = &t->held,
                                      .steps = 60,
                                      .rate = 1e-2,
                                      .keep_zeros = true,
                                      .recalibrate = 4,
                                      .threads = 1 };
}

static void end(struct trial *t)
{
    pare_model_free(t->m);
    pare_model_free(t->dense);
}

static double cost_of(struct trial *t)
{
    struct pare_output_distance d;

    ok(pare_held_out_compare(&t->held, t->m, &d, &err));
    return pare_output_cost(&d);
}

static void test_outputs_are_closer_and_zeros_stay(void **state)
{
    struct trial t, again;
    struct pare_model *pruned = network();
    int64_t woken;

    (void)state;
    prune(pruned);
    begin(&t);
    ok(pare_reconstruct(&t.r, &err));
    assert_true(t.r.kept_step > 0);
    assert_true(t.r.cost < 0.7 * t.before);
    assert_true(cost_of(&t) == t.r.cost);
    assert_true(differences(pruned, t.m, &woken) > 100);
    assert_int_equal(woken, 0);
    begin(&again);
    ok(pare_reconstruct(&again.r, &err));
    assert_int_equal(differences(t.m, again.m, &woken), 0);
    end(&again);
    end(&t);
    pare_model_free(pruned);
}

static void test_a_frozen_parameter_stays(void **state)
{
    struct trial t;
    const char *name;
    struct pare_tensor was;

    (void)state;
    begin(&t);
    name = t.m->graph->node[0]->in[1]->name;
    was = build_tensor(PARE_F32, 4, t.m->graph->node[0]->in[1]->t.dim);
    memcpy(was.data, t.m->graph->node[0]->in[1]->t.data, (size_t)pare_numel(&was) * 4);
    t.r.freeze = &name;
    t.r.n_freeze = 1;
    ok(pare_reconstruct(&t.r, &err));
    assert_true(t.r.kept_step > 0);
    assert_memory_equal(was.data, t.m->graph->node[0]->in[1]->t.data, (size_t)pare_numel(&was) * 4);
    end(&t);
}

static bool cancel(void *user, const struct pare_progress *p)
{
    int *calls = user;

    return strcmp(p->what, "reconstruct") != 0 || p->done < 40 || ++*calls < 1;
}

static void test_failures_leave_the_model(void **state)
{
    struct trial t;
    struct pare_model *pruned = network();
    int64_t woken;
    int calls = 0;

    (void)state;
    prune(pruned);
    begin(&t);
    t.r.rate = 1e30;
    ok(pare_reconstruct(&t.r, &err));
    assert_int_equal(t.r.kept_step, 0);
    assert_int_equal(differences(pruned, t.m, &woken), 0);
    t.r.rate = 1e-9; /* nothing is better before the cancel */
    t.r.progress = cancel;
    t.r.user = &calls;
    assert_int_equal(pare_reconstruct(&t.r, &err), PARE_ECANCEL);
    assert_int_equal(calls, 1);
    assert_true(cost_of(&t) <= t.before);
    end(&t);
    pare_model_free(pruned);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_outputs_are_closer_and_zeros_stay),
        TEST(test_a_frozen_parameter_stays),
        TEST(test_failures_leave_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_param_layout.c - training with blocked filters computes the same bits as with row-major
 * ones. */
#include "train_rig.h"

#include "backend/conv/blocked_filters.h"
#include "train/param_layout.h"

static const int64_t chw[3] = { 3, 15, 14 };

/* Convolutions of all kinds.  "twice.weight" has two consumers. */
static struct pare_flow filters(struct pare_net *n, struct pare_flow x)
{
    struct pare_conv c = { .out = 32, .kernel = 3, .pad = 1, .bias = true };
    struct pare_flow a, b;

    x = pare_net_relu(n, pare_net_conv(n, x, "first", c), "first.relu");
    c.out = 48;
    x = pare_net_relu(n, pare_net_conv(n, x, "wino", c), "wino.relu");
    c = (struct pare_conv){ .out = 64, .kernel = 1 };
    x = pare_net_batch_norm(n, pare_net_conv(n, x, "one", c), "one.bn");
    c = (struct pare_conv){ .out = 32, .kernel = 3, .pad = 1, .stride = 2 };
    x = pare_net_relu(n, pare_net_conv(n, x, "down", c), "down.relu");
    c = (struct pare_conv){ .out = 32, .kernel = 3, .pad = 1, .group = 2 };
    x = pare_net_relu(n, pare_net_conv(n, x, "grouped", c), "grouped.relu");
    c = (struct pare_conv){ .out = 36, .kernel = 3, .pad = 1 };
    a = pare_net_relu(n, pare_net_conv(n, x, "odd", c), "odd.relu");
    c.out = 32;
    a = pare_net_conv(n, a, "odd_back", c);
    b = x;
    x = pare_net_sum(n, a, b, "sum");
    pare_net_uniform(n, "twice.weight", 4, (int64_t[]){ 32, 32, 1, 1 }, 0.1);
    x.value = pare_builder_node(n->make, "Conv", "twice.a", x.value, "twice.weight", NULL);
    x.value = pare_builder_node(n->make, "Conv", "twice.b", x.value, "twice.weight", NULL);
    c = (struct pare_conv){ .out = 64, .kernel = 3, .bias = true };
    x = pare_net_conv(n, x, "last", c);
    return pare_net_linear(n, pare_net_flatten(n, x, "flatten"), "fc", n->classes);
}

static bool may_be_blocked(const char *name)
{
    static const char *const list[] = { "wino.weight", "one.weight", "down.weight", "last.weight" };

    for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++)
        if (!strcmp(name, list[i]))
            return true;
    return false;
}

static void expect_same_bits(const float *a, const float *b, int64_t n, const char *what,
                             const char *name)
{
    if (memcmp(a, b, (size_t)n * sizeof(float)))
        fail_msg("%s of '%s' differs", what, name);
}

/* Expects the same parameters, gradients, weights of the model and optimizer state. */
static void expect_same_trainers(const struct pare_trainer *a, const struct pare_trainer *b)
{
    for (int i = 0; i < a->n_params; i++) {
        int64_t n = pare_numel(&a->param[i].value);
        const char *name = a->name[i];

        expect_same_bits(pare_f32(&a->param[i].value), pare_f32(&b->param[i].value), n, "the value",
                         name);
        expect_same_bits(pare_f32(&a->grad[i]), pare_f32(&b->grad[i]), n, "the gradient", name);
        expect_same_bits(pare_f32(&pare_graph_find(a->model->graph, name)->t),
                         pare_f32(&pare_graph_find(b->model->graph, name)->t), n,
                         "the model's weight", name);
        for (int k = 0; k < PARE_OPTIM_SLOTS; k++)
            if (a->optim->slot[i][k])
                expect_same_bits(a->optim->slot[i][k], b->optim->slot[i][k], n, "the state", name);
    }
}

static void open_step(struct training_step *t, const char *optimizer, const char *threads,
                      const char *const *without)
{
    struct pare_given set[] = { { "optimizer", optimizer }, { "threads", threads } };

    step_prepare(t, make_network(filters, "filters", chw), chw, threads);
    assert_int_equal(pare_train_options_make(set, 2, false, t->arena, &t->setup, &err), 0);
    t->setup->trainer.without = without;
    assert_int_equal(pare_trainer_new(t->model, &t->setup->trainer, &t->trainer, &err), 0);
}

/* A step; every third batch is smaller, like the last one of an epoch. */
static void run_step(struct training_step *t, int i)
{
    struct pare_tensor x = t->x, y = t->y;

    x.dim[0] = y.dim[0] = i % 3 == 2 ? BATCH - 1 : BATCH;
    if (pare_trainer_gradient(t->trainer, &x, &y, &t->score, &err) ||
        pare_trainer_update(t->trainer, 1e-2, &err))
        fail_msg("%s", err.msg);
}

static int count_blocked(const struct pare_trainer *t)
{
    int n = 0;

    for (int i = 0; i < t->n_params; i++) {
        if (t->blocked.param[i] && !may_be_blocked(t->name[i]))
            fail_msg("'%s' is blocked, expected row-major", t->name[i]);
        n += t->blocked.param[i];
    }
    return n;
}

/* Do the values of a blocked parameter differ, as they do while it is blocked? */
static bool values_differ(const struct pare_trainer *a, const struct pare_trainer *b)
{
    int i = pare_trainer_param(a, "wino.weight");

    return memcmp(a->param[i].value.data, b->param[i].value.data,
                  (size_t)pare_numel(&a->param[i].value) * sizeof(float)) != 0;
}

static void compare_layouts(const char *optimizer, const char *threads, const char *const *without,
                            int least)
{
    struct training_step a, b;

    open_step(&a, optimizer, threads, without);
    open_step(&b, optimizer, threads, without);
    for (int i = 0; i < 8; i++) {
        pare_trainer_block_params(b.trainer, i != 6); /* with one row-major step in between */
        run_step(&a, i);
        run_step(&b, i);
        assert_true(a.score.loss == b.score.loss);
        if (i == 5)
            assert_int_equal(b.trainer->n_plans, 2);
        if (i % 4 == 3) {
            assert_true(count_blocked(b.trainer) >= least);
            assert_true(values_differ(a.trainer, b.trainer) || !least);
            pare_trainer_block_params(b.trainer, false);
            expect_same_trainers(a.trainer, b.trainer);
        }
    }
    pare_trainer_block_params(b.trainer, false);
    expect_same_trainers(a.trainer, b.trainer);
    step_free(&a);
    step_free(&b);
}

static void test_blocked_training_of_all_kernels(void **state)
{
    static const char *const direct[] = { "conv_winograd_train", "conv_im2col", NULL };
    static const char *const no_direct[] = { "conv_train", "conv_im2col", NULL };

    (void)state;
    compare_layouts("sgd", "1", NULL, 4);
    compare_layouts("sgd", "2", NULL, 4);
    compare_layouts("adam", "1", NULL, 4);
    compare_layouts("adamw", "2", direct, 4);
    compare_layouts("rmsprop", "1", no_direct, 1); /* the others use reference kernels */
}

/* Masks that change during training. */
static void test_masks_of_blocked_parameters(void **state)
{
    uint8_t *mask[2];
    struct training_step t[2];
    struct pare_rng r;

    (void)state;
    for (int k = 0; k < 2; k++)
        open_step(&t[k], "sgd", "2", NULL);
    for (int i = 0; i < 7; i++) {
        const char *const names[] = { "wino.weight", "down.weight" };
        static uint8_t zeros[2][2][64 * 64 * 9];

        if (i % 3 == 0) { /* new masks */
            pare_trainer_block_params(t[1].trainer, false);
            for (int k = 0; k < 2; k++) {
                pare_rng_init(&r, (uint64_t)i);
                for (int m = 0; m < 2; m++) {
                    struct pare_tensor value;

                    mask[m] = zeros[k][m];
                    for (size_t j = 0; j < sizeof(zeros[0][0]); j++)
                        mask[m][j] = pare_rng_uniform(&r) < 0.5;
                    assert_int_equal(pare_trainer_mask(t[k].trainer, names[m], mask[m], &value,
                                                       &err),
                                     0);
                }
                pare_trainer_refresh(t[k].trainer);
            }
            pare_trainer_block_params(t[1].trainer, true);
        }
        for (int k = 0; k < 2; k++)
            run_step(&t[k], i);
    }
    assert_true(t[1].trainer->blocked.now);
    pare_trainer_block_params(t[1].trainer, false);
    expect_same_trainers(t[0].trainer, t[1].trainer);
    for (int k = 0; k < 2; k++)
        step_free(&t[k]);
}

/* After an error, a freed trainer leaves the model row-major. */
static void test_model_is_row_major_after_an_error(void **state)
{
    struct training_step a, b;
    struct pare_tensor bad;

    (void)state;
    open_step(&a, "sgd", "1", NULL);
    open_step(&b, "sgd", "1", NULL);
    pare_trainer_block_params(b.trainer, true);
    run_step(&a, 0);
    run_step(&b, 0);
    bad = b.x;
    bad.dim[1]++;
    assert_int_not_equal(pare_trainer_forward(b.trainer, &bad, NULL, &err), 0);
    pare_trainer_free(b.trainer);
    b.trainer = NULL;
    for (int i = 0; i < a.trainer->n_params; i++)
        expect_same_bits(pare_f32(&pare_graph_find(a.model->graph, a.trainer->name[i])->t),
                         pare_f32(&pare_graph_find(b.model->graph, a.trainer->name[i])->t),
                         pare_numel(&a.trainer->param[i].value), "the model's weight",
                         a.trainer->name[i]);
    step_free(&a);
    step_free(&b);
}

static int expect_row_major(void *user, struct pare_trainer *t, int64_t step, struct pare_err *e)
{
    (void)user;
    (void)step;
    (void)e;
    assert_false(t->blocked.now); /* a hook sees row-major parameters */
    return 0;
}

static bool reads_nothing(void *user)
{
    (void)user;
    return false;
}

static int note_blocked(void *user, struct pare_trainer *t, int64_t step, struct pare_err *e)
{
    (void)e;
    (void)step;
    *(bool *)user |= t->blocked.now;
    return 0;
}

/* The training loop with validation: a hook that reads parameters, one that does not, none. */
static void test_training_loops_with_hooks(void **state)
{
    static const char settings[] = "optimizer=adam epochs=2 batch=50 lr=0.01 seed=3 threads=2 "
                                   "holdout=0.1";
    struct pare_given *given;
    struct pare_model *model[3];
    struct pare_data *data[2];
    struct pare_trainer *t[3];
    struct pare_arena *arena = pare_arena_new(1 << 16);
    bool seen = false;
    int n;

    (void)state;
    assert_int_equal(pare_given_split(settings, arena, &given, &n, &err), 0);
    for (int k = 0; k < 3; k++) {
        struct pare_train_result result;
        struct pare_train_options *s;

        assert_int_equal(pare_model_new("resnet20", (int64_t[]){ 1, 8, 8 }, 10, 1, &model[k], &err),
                         0);
        if (pare_train_options_make(given, n, false, arena, &s, &err) ||
            pare_train_options_data(s, model[k], "digits", NULL, data, &err))
            fail_msg("%s", err.msg);
        if (k == 0)
            s->trainer.hooks.after_step = expect_row_major;
        if (k == 1) {
            s->trainer.hooks = (struct pare_hooks){ .user = &seen,
                                                    .after_step = note_blocked,
                                                    .looks = reads_nothing };
        }
        s->train.max_steps = 40;
        assert_int_equal(pare_trainer_new(model[k], &s->trainer, &t[k], &err), 0);
        if (pare_train(t[k], data[0], data[1], &s->train, &result, &err))
            fail_msg("%s", err.msg);
        assert_false(t[k]->blocked.now);
        pare_data_free(data[0]);
        pare_data_free(data[1]);
    }
    assert_true(seen);
    expect_same_trainers(t[0], t[1]);
    expect_same_trainers(t[0], t[2]);
    for (int k = 0; k < 3; k++) {
        pare_trainer_free(t[k]);
        pare_model_free(model[k]);
    }
    pare_arena_free(arena);
}

static void test_filter_conversion(void **state)
{
    enum { O = 16, I = 24, H = 3, W = 2 };
    struct pare_tensor shape = { .dtype = PARE_F32, .rank = 4, .dim = { O, I, H, W } };
    static float x[O * I * H * W], y[O * I * H * W], z[O * I * H * W];
    static uint8_t a[O * I * H * W], b[O * I * H * W], c[O * I * H * W];
    struct pare_filters f = { .shape = &shape, .block = 8, .threads = 2, .size = sizeof(float) };

    (void)state;
    assert_true(pare_filters_fit(&shape, 8));
    assert_false(pare_filters_fit(&shape, 16));
    for (int i = 0; i < O * I * H * W; i++) {
        x[i] = (float)i;
        a[i] = (uint8_t)(i * 7 % 251);
    }
    pare_filters_convert(&f, x, y);
    f.size = 1;
    pare_filters_convert(&f, a, b);
    for (int o = 0; o < O; o++)
        for (int i = 0; i < I; i++)
            for (int k = 0; k < H * W; k++) {
                int from = (o * I + i) * H * W + k;
                int to = ((o / 8 * (I / 8) + i / 8) * H * W + k) * 64 + i % 8 * 8 + o % 8;

                assert_true(y[to] == x[from]);
                assert_int_equal(b[to], a[from]);
            }
    f.to_row_major = true;
    pare_filters_convert(&f, b, c);
    f.size = sizeof(float);
    pare_filters_convert(&f, y, z);
    assert_memory_equal(a, c, sizeof(a));
    assert_memory_equal(x, z, sizeof(x));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_filter_conversion),
        cmocka_unit_test(test_blocked_training_of_all_kernels),
        cmocka_unit_test(test_masks_of_blocked_parameters),
        cmocka_unit_test(test_model_is_row_major_after_an_error),
        cmocka_unit_test(test_training_loops_with_hooks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

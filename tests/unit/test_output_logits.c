/* test_output_logits.c - losses of models that end in Softmax, LogSoftmax or Sigmoid. */
#include "make_model.h"

#include <stdio.h>

#include "graph/output_logits.h"
#include "train/train.h"
#include "train/train_options.h"

static struct pare_err err;

/* Two linear layers with an activation between them; `last` (NULL: none) is the last operator. */
static struct pare_model *make_network(const char *last, int64_t axis, int opset)
{
    static float w[3 * 8], v[8 * 4];
    struct build b = { .opset = opset };
    const char *x;

    for (int i = 0; i < 24; i++)
        w[i] = 0.1f * (float)(i * 7 % 11 - 5);
    for (int i = 0; i < 32; i++)
        v[i] = 0.1f * (float)(i * 5 % 13 - 6);
    x = build_input(&b, PARE_F32, 2, (int64_t[]){ -1, 3 });
    x = build_node(&b, "MatMul", NAMES(x, build_floats(&b, 2, (int64_t[]){ 3, 8 }, w)), NOTHING);
    x = build_node(&b, "Tanh", NAMES(x), NOTHING);
    x = build_node(&b, "MatMul", NAMES(x, build_floats(&b, 2, (int64_t[]){ 8, 4 }, v)), NOTHING);
    if (last)
        x = build_node(&b, last, NAMES(x), axis != 99 ? at_int("axis", axis) : NOTHING);
    build_output(&b, x);
    return build_model(&b);
}

/* Trains a few steps; returns the last loss, and a copy of the first weight. */
static double train_steps(struct pare_model *m, const char *settings, struct pare_model *teacher,
                          float *weight)
{
    struct pare_tensor x = build_tensor(PARE_F32, 2, (int64_t[]){ 5, 3 });
    struct pare_tensor y = build_tensor(PARE_I64, 1, (int64_t[]){ 5 });
    struct pare_tensor z = build_tensor(PARE_F32, 2, (int64_t[]){ 5, 4 });
    struct pare_train_options *s;
    struct pare_trainer *t;
    struct pare_given *g;
    struct pare_score score = { 0 };
    int n;

    for (int i = 0; i < 15; i++)
        pare_f32_mut(&x)[i] = 0.3f * (float)(i % 7 - 3);
    for (int i = 0; i < 5; i++)
        pare_i64_mut(&y)[i] = i % 4;
    for (int i = 0; i < 20; i++)
        pare_f32_mut(&z)[i] = (float)(i % 3 == 0);
    assert_int_equal(pare_given_split(settings, pool, &g, &n, &err), 0);
    assert_int_equal(pare_train_options_make(g, n, teacher != NULL, pool, &s, &err), 0);
    s->trainer.teacher = teacher;
    assert_int_equal(pare_trainer_new(m, &s->trainer, &t, &err), 0);
    for (int i = 0; i < 4; i++) {
        bool classes = s->trainer.loss->labels == PARE_LABELS_CLASS;

        if (pare_trainer_gradient(t, &x, classes ? &y : &z, &score, &err) ||
            pare_trainer_update(t, 0.5, &err))
            fail_msg("%s", err.msg);
    }
    memcpy(weight, t->param[0].value.data, 24 * sizeof(float));
    pare_trainer_free(t);
    return score.loss;
}

/* Training a model with the last operator is bit-identical to training without it. */
static void compare_trainings(const char *last, const char *settings, bool distill)
{
    struct pare_model *without_last = make_network(NULL, 99, 13), *m = make_network(last, 99, 13);
    struct pare_model *teachers[2] = { distill ? make_network(NULL, 99, 13) : NULL,
                                       distill ? make_network(last, 99, 13) : NULL };
    float w[2][24];
    double loss[2] = { train_steps(without_last, settings, teachers[0], w[0]),
                       train_steps(m, settings, teachers[1], w[1]) };

    assert_true(loss[0] == loss[1]);
    assert_memory_equal(w[0], w[1], sizeof(w[0]));
    for (int i = 0; i < 2; i++)
        pare_model_free(teachers[i]);
    pare_model_free(without_last);
    pare_model_free(m);
}

static void test_training_uses_logits(void **state)
{
    (void)state;
    compare_trainings("Softmax", "loss=cross_entropy optimizer=sgd", false);
    compare_trainings("LogSoftmax", "loss=cross_entropy optimizer=sgd", false);
    compare_trainings("Sigmoid", "loss=bce optimizer=sgd", false);
    compare_trainings("Softmax", "loss=cross_entropy optimizer=sgd beta=2 temperature=3", true);
}

static bool has_logits(const char *last, int64_t axis, int opset, unsigned flags)
{
    struct pare_model *m = make_network(last, axis, opset);
    struct pare_graph *g = pare_graph_clone(pool, m->graph, &err);
    bool yes;

    assert_non_null(g);
    pare_graph_bind(g, 2);
    assert_int_equal(pare_graph_infer(g, false, &err), 0);
    yes = pare_graph_logits(g, flags, NULL) != NULL;
    pare_model_free(m);
    return yes;
}

static void test_which_outputs_have_logits(void **state)
{
    (void)state;
    assert_true(has_logits("Softmax", 1, 13, PARE_OP_SOFTMAX));
    assert_true(has_logits("Softmax", -1, 13, PARE_OP_SOFTMAX));
    assert_true(has_logits("Softmax", 99, 11, PARE_OP_SOFTMAX));
    assert_false(has_logits("Softmax", 0, 13, PARE_OP_SOFTMAX)); /* over the batch */
    assert_false(has_logits("Softmax", 0, 11, PARE_OP_SOFTMAX));
    assert_false(has_logits("Softmax", 1, 13, PARE_OP_SIGMOID));
    assert_false(has_logits("Sigmoid", 99, 13, PARE_OP_SOFTMAX));
    assert_false(has_logits("Softmax", 1, 13, 0));
    assert_false(has_logits(NULL, 99, 13, PARE_OP_SOFTMAX | PARE_OP_SIGMOID));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_training_uses_logits),
        cmocka_unit_test(test_which_outputs_have_logits),
    };

    return cmocka_run_group_tests(tests, make_pool, drop_pool);
}

/* train_rig.h - fixture for tests of training: one step of a network made for a test. */
#ifndef TRAIN_RIG_H
#define TRAIN_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/arena.h"
#include "train/train_options.h"
#include "zoo/zoo_layers.h"

static struct pare_err err;

#define BATCH 3

/* A batch, and the results of one training step. */
struct training_step {
    struct pare_arena *arena;
    struct pare_model *model;
    struct pare_train_options *setup;
    struct pare_trainer *trainer;
    struct pare_tensor x, y;
    struct pare_score score;
};

/* Stands for the reference kernels in step_run_without(). */
static const char *const reference_only[] = { "", NULL };

typedef struct pare_flow build_fn(struct pare_net *n, struct pare_flow x);

static inline struct pare_model *make_network(build_fn *build, const char *name,
                                              const int64_t chw[3])
{
    struct pare_net n = { .classes = 10 };
    struct pare_flow x = { .c = chw[0], .h = chw[1], .w = chw[2] };
    struct pare_model *m;

    if (!build) {
        if (pare_model_new(name, chw, 10, 3, &m, &err))
            fail_msg("%s", err.msg);
        return m;
    }
    assert_int_equal(pare_builder_new(name, &n.make, &err), 0);
    pare_rng_init(&n.rng, 3);
    x.value = pare_builder_input(n.make, "input", 4, (int64_t[]){ -1, x.c, x.h, x.w });
    x = build(&n, x);
    pare_builder_output(n.make, "output", 2, (int64_t[]){ -1, x.c });
    if (pare_builder_done(n.make, &m, &err))
        fail_msg("%s", err.msg);
    return m;
}

/* Adds noise to vectors, so that scales and shifts of normalizations are not the identity. */
static inline void randomize_vectors(struct pare_model *m)
{
    struct pare_rng r;

    pare_rng_init(&r, 11);
    for (int i = 0; i < m->graph->n_values; i++) {
        struct pare_value *v = m->graph->value[i];

        if (!(v->flags & PARE_V_CONST) || v->t.dtype != PARE_F32 || v->t.rank != 1 ||
            strstr(v->name, ".running_"))
            continue;
        assert_int_equal(pare_model_own(m, v, &err), 0);
        for (int64_t k = 0; k < pare_numel(&v->t); k++)
            pare_f32_mut(&v->t)[k] += 0.3f * (float)pare_rng_normal(&r);
    }
}

/* Everything except the trainer, so that the caller can still change its options. */
static inline void step_prepare(struct training_step *t, struct pare_model *m, const int64_t chw[3],
                                const char *threads)
{
    struct pare_given set[] = { { "optimizer", "sgd" }, { "threads", threads } };
    struct pare_rng r;

    memset(t, 0, sizeof(*t));
    t->arena = pare_arena_new(1 << 16);
    t->model = m;
    randomize_vectors(m);
    pare_rng_init(&r, 5);
    assert_int_equal(pare_train_options_make(set, 2, false, t->arena, &t->setup, &err), 0);
    assert_int_equal(pare_tensor_new(t->arena, &t->x, PARE_F32, 4,
                                     (int64_t[]){ BATCH, chw[0], chw[1], chw[2] }, &err),
                     0);
    assert_int_equal(pare_tensor_new(t->arena, &t->y, PARE_I64, 1, (int64_t[]){ BATCH }, &err), 0);
    for (int64_t i = 0; i < pare_numel(&t->x); i++)
        pare_f32_mut(&t->x)[i] = (float)pare_rng_normal(&r);
    for (int64_t i = 0; i < BATCH; i++)
        pare_i64_mut(&t->y)[i] = i * 3 % 10;
}

static inline void step_run_without(struct training_step *t, struct pare_model *m,
                                    const int64_t chw[3], const char *const *without,
                                    const char *threads)
{
    step_prepare(t, m, chw, threads);
    t->setup->trainer.reference = without == reference_only;
    t->setup->trainer.without = without == reference_only ? NULL : without;
    if (pare_trainer_new(m, &t->setup->trainer, &t->trainer, &err) ||
        pare_trainer_gradient(t->trainer, &t->x, &t->y, &t->score, &err))
        fail_msg("%s", err.msg);
}

static inline void step_run(struct training_step *t, struct pare_model *m, const int64_t chw[3],
                            bool reference, const char *threads)
{
    step_run_without(t, m, chw, reference ? reference_only : NULL, threads);
}

static inline void step_free(struct training_step *t)
{
    pare_trainer_free(t->trainer);
    pare_model_free(t->model);
    pare_arena_free(t->arena);
}

/* |a - b| / (|b| + 1e-3) over all elements: some gradients are zero except for rounding. */
static inline double relative_error(const struct pare_tensor *a, const struct pare_tensor *b)
{
    double off = 0, all = 0;

    for (int64_t i = 0; i < pare_numel(b); i++) {
        double x = (double)pare_f32(a)[i], y = (double)pare_f32(b)[i];

        off += (x - y) * (x - y);
        all += y * y;
    }
    return sqrt(off) / (sqrt(all) + 1e-3);
}

/* Expects at least `least` steps with this kernel. */
static inline void expect_kernel(const struct pare_plan *p, const char *kernel, int least)
{
    int n = 0;

    for (int i = 0; i < p->n_steps; i++)
        n += !strcmp(p->step[i]->kernel->name, kernel);
    if (n < least)
        fail_msg("the plan has %d steps of %s, expected at least %d", n, kernel, least);
}

#endif

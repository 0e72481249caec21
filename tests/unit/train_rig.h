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
struct trial {
    struct pare_arena *arena;
    struct pare_model *model;
    struct pare_train_options *setup;
    struct pare_trainer *trainer;
    struct pare_tensor x, y;
    struct pare_score score;
};

/* An empty list of kernels. */
static const char *const plain_only[] = { "", NULL };

typedef struct pare_flow build_fn(struct pare_net *n, struct pare_flow x);

static inline struct pare_model *make(build_fn *build, const char *name, const int64_t chw[3])
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

/* Makes scales and shifts of normalizations differ from the identity. */
static inline void disturb(struct pare_model *m)
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
            pare_f32(&v->t)[k] += 0.3f * (float)pare_rng_normal(&r);
    }
}

/* Everything but the trainer, whose options may still be changed. */
static inline void begin(struct trial *t, struct pare_model *m, const int64_t chw[3],
                         const char *threads)
{
    struct pare_given set[] = { { "optimizer", "sgd" }, { "threads", threads } };
    struct pare_rng r;

    memset(t, 0, sizeof(*t));
    t->arena = pare_arena_new(1 << 16);
    t->model = m;
    disturb(m);
    pare_rng_init(&r, 5);
    assert_int_equal(pare_train_options_make(set, 2, false, t->arena, &t->setup, &err), 0);
    assert_int_equal(pare_tensor_new(t->arena, &t->x, PARE_F32, 4,
                                     (int64_t[]){ BATCH, chw[0], chw[1], chw[2] }, &err),
                     0);
    assert_int_equal(pare_tensor_new(t->arena, &t->y, PARE_I64, 1, (int64_t[]){ BATCH }, &err), 0);
    for (int64_t i = 0; i < pare_numel(&t->x); i++)
        pare_f32(&t->x)[i] = (float)pare_rng_normal(&r);
    for (int64_t i = 0; i < BATCH; i++)
        pare_i64(&t->y)[i] = i * 3 % 10;
}

static inline void start_without(struct trial *t, struct pare_model *m, const int64_t chw[3],
                                 const char *const *without, const char *threads)
{
    begin(t, m, chw, threads);
    t->setup->trainer.reference = without == plain_only;
    t->setup->trainer.without = without == plain_only ? NULL : without;
    if (pare_trainer_new(m, &t->setup->trainer, &t->trainer, &err) ||
        pare_trainer_gradient(t->trainer, &t->x, &t->y, &t->score, &err))
        fail_msg("%s", err.msg);
}

static inline void start(struct trial *t, struct pare_model *m, const int64_t chw[3],
                         bool reference, const char *threads)
{
    start_without(t, m, chw, reference ? plain_only : NULL, threads);
}

static inline void end(struct trial *t)
{
    pare_trainer_free(t->trainer);
    pare_model_free(t->model);
    pare_arena_free(t->arena);
}

/* |a - b| / |b| over all elements; some gradients are zero but for rounding. */
static inline double distance(const struct pare_tensor *a, const struct pare_tensor *b)
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
static inline void uses(const struct pare_plan *p, const char *kernel, int least)
{
    int n = 0;

    for (int i = 0; i < p->n_steps; i++)
        n += !strcmp(p->step[i]->kernel->name, kernel);
    if (n < least)
        fail_msg("%d steps of %s, not %d", n, kernel, least);
}

#endif

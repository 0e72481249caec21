/* model_race.c - latency of two models, measured in alternation. */
#include "model_race.h"

#include <stdlib.h>

#include "../base/arena.h"
#include "../base/clock.h"
#include "../plan/plan.h"
#include "../speedup/speedup.h"
#include "../tensor/tensor.h"

#define WARM_UP 3
#define MAX_RUNS 2000
#define MIN_RUNS 9
#define BURST \
    4 /* runs of a model in a row; the first one, with the other's data in the caches, does
                * not count */

struct runner {
    struct pare_plan *plan[2];
    struct pare_tensor *in, *out;
    double t[2][MAX_RUNS];
};

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static int make_inputs(const struct pare_model *m, const struct pare_race *o, struct pare_arena *a,
                       struct runner *r, struct pare_err *err)
{
    const struct pare_graph *g = r->plan[0]->graph;
    struct pare_sample s = { .arena = a, .n = m->n_in };

    pare_model_inputs(m, &s.io);
    s.in = r->in = pare_alloc(a, (size_t)m->n_in + 1, sizeof(*r->in));
    s.given = pare_alloc(a, (size_t)m->n_in + 1, sizeof(*s.given));
    r->out = pare_alloc(a, (size_t)m->n_out + 1, sizeof(*r->out));
    if (!r->in || !s.given || !r->out)
        return pare_no_memory(err, "to measure");
    for (int i = 0; i < m->n_in; i++) {
        r->in[i] = g->in[i]->t;
        r->in[i].data = NULL;
        PARE_TRY(pare_tensor_alloc(a, &r->in[i], err));
    }
    return pare_sample_fill(&s, g, o->seed, err);
}

static int run_one(struct runner *r, int i, double *t, struct pare_err *err)
{
    double start = pare_now();

    PARE_TRY(pare_plan_execute(r->plan[i], r->in, r->out, err));
    *t = pare_now() - start;
    return 0;
}

static int run_alternately(struct runner *r, struct pare_race *o, struct pare_err *err)
{
    double ignored, start;

    for (int i = 0; i < 2 * WARM_UP; i++)
        PARE_TRY(run_one(r, i % 2, &ignored, err));
    start = pare_now();
    for (o->runs = 0; o->runs + BURST <= MAX_RUNS; o->runs += BURST - 1) {
        if (o->runs >= MIN_RUNS && pare_now() - start >= o->seconds)
            break;
        for (int i = 0; i < 2; i++) {
            PARE_TRY(run_one(r, i, &ignored, err));
            for (int k = 0; k < BURST - 1; k++)
                PARE_TRY(run_one(r, i, &r->t[i][o->runs + k], err));
        }
    }
    for (int i = 0; i < 2; i++) {
        qsort(r->t[i], (size_t)o->runs, sizeof(double), by_size);
        o->us[i] = r->t[i][o->runs / 10] * 1e6;
    }
    return 0;
}

int pare_race_run(const struct pare_model *first, const struct pare_model *second,
                  struct pare_race *o, struct pare_err *err)
{
    struct pare_plan_opts po = { .threads = o->threads,
                                 .batch = o->batch > 0 ? o->batch : 1,
                                 .tune = true,
                                 .cache = o->cache };
    struct pare_arena *a = pare_arena_new(1 << 16);
    struct runner *r = a ? pare_alloc(a, 1, sizeof(*r)) : NULL;
    int rc = r ? 0 : pare_no_memory(err, "to measure");

    if (!rc)
        rc = pare_plan_new(first, &po, &r->plan[0], err);
    if (!rc)
        rc = pare_plan_new(second, &po, &r->plan[1], err);
    if (!rc)
        rc = make_inputs(first, o, a, r, err);
    if (!rc)
        rc = run_alternately(r, o, err);
    if (r) {
        pare_plan_free(r->plan[0]);
        pare_plan_free(r->plan[1]);
    }
    pare_arena_free(a);
    return rc;
}

/* model_race.c - latency of two models, measured in alternation. */
#include "model_race.h"

#include <stdlib.h>
#include <string.h>

#include "../base/arena.h"
#include "../base/clock.h"
#include "../plan/plan.h"
#include "../speedup/speedup.h"
#include "../tensor/tensor.h"

#define WARM_UP 3
#define MAX_RUNS 6000
#define MIN_RUNS 9
#define BURST \
    4 /* runs of a model in a row; the first one, with the other's data in the caches, does
                * not count */
#define EXTENSIONS 4 /* of the time, while the two halves of the runs disagree */
#define AGREE 1.05   /* factor between the ratios of the halves that counts as agreement */

struct runner {
    struct pare_plan *plan[2];
    struct pare_tensor *in, *out;
    double t[2][MAX_RUNS], sorted[MAX_RUNS];
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

static double low_percentile(struct runner *r, int i, int from, int n)
{
    memcpy(r->sorted, &r->t[i][from], (size_t)n * sizeof(double));
    qsort(r->sorted, (size_t)n, sizeof(double), by_size);
    return r->sorted[n / 10];
}

/* Do the first and the second half of the runs give the same ratio? */
static bool is_stable(struct runner *r, int runs)
{
    int half = runs / 2;
    double first = low_percentile(r, 1, 0, half) / low_percentile(r, 0, 0, half);
    double second = low_percentile(r, 1, half, half) / low_percentile(r, 0, half, half);

    return first < AGREE * second && second < AGREE * first;
}

static int run_alternately(struct runner *r, struct pare_race *o, struct pare_err *err)
{
    double ignored, start, wall, cpu;
    int extended = 0;

    for (int i = 0; i < 2 * WARM_UP; i++)
        PARE_TRY(run_one(r, i % 2, &ignored, err));
    start = wall = pare_now();
    cpu = pare_thread_now();
    for (o->runs = 0; o->runs + BURST <= MAX_RUNS; o->runs += BURST - 1) {
        if (o->runs >= MIN_RUNS && pare_now() - start >= o->seconds) {
            if (extended++ >= EXTENSIONS || is_stable(r, o->runs))
                break;
            start = pare_now();
        }
        for (int i = 0; i < 2; i++) {
            PARE_TRY(run_one(r, i, &ignored, err));
            for (int k = 0; k < BURST - 1; k++)
                PARE_TRY(run_one(r, i, &r->t[i][o->runs + k], err));
        }
    }
    o->cpu_share = (pare_thread_now() - cpu) / (pare_now() - wall);
    for (int i = 0; i < 2; i++)
        o->us[i] = low_percentile(r, i, 0, o->runs) * 1e6;
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

/* budget_shapes.c - decide channels and formats: solve, measure models of the solution's shapes,
 * refine. */
#include <math.h>
#include <string.h>

#include "budget_run.h"

#include "../base/arena.h"

#define ROUNDS 8 /* models that are built for timing, before and after candidates are scored */
#define RACE_SECONDS 0.8
#define NEAR 1.04    /* parts of a limit within which a measurement is repeated */
#define TIGHTER 0.97 /* of the limit, after its solution was measured to exceed it */

/* ---- assignments ----------------------------------------------------------------------------- */

int pare_assignment_new(const struct pare_budget_search *s, struct pare_assignment *x,
                        struct pare_err *err)
{
    x->count = pare_alloc(s->arena, (size_t)s->table->n_groups + 1, sizeof(*x->count));
    x->format = pare_alloc(s->arena, (size_t)s->table->n_layers + 1, sizeof(*x->format));
    return x->count && x->format ? 0 : pare_no_memory(err, "for a search");
}

bool pare_assignment_same(const struct pare_budget_search *s, const struct pare_assignment *x,
                          const struct pare_assignment *y)
{
    const struct pare_cost_table *t = s->table;

    return !memcmp(x->count, y->count, (size_t)t->n_groups * sizeof(*x->count)) &&
           !memcmp(x->format, y->format, (size_t)t->n_layers * sizeof(*x->format));
}

void pare_assignment_copy(const struct pare_budget_search *s, const struct pare_assignment *from,
                          struct pare_assignment *to)
{
    const struct pare_cost_table *t = s->table;

    memcpy(to->count, from->count, (size_t)t->n_groups * sizeof(*to->count));
    memcpy(to->format, from->format, (size_t)t->n_layers * sizeof(*to->format));
}

void pare_budget_absolute(const struct pare_budget_run *w, const double part[PARE_BUDGET_KINDS],
                          double limit[PARE_BUDGET_KINDS])
{
    for (int k = 0; k < PARE_BUDGET_KINDS; k++)
        limit[k] = fmin(part[k] * w->dense[k], w->limits.absolute[k]);
}

/* ---- times ----------------------------------------------------------------------------------- */

struct shapes {
    struct pare_budget_run *w;
    const double *limit;
    bool measured; /* latency is limited, and can be measured */
    struct pare_candidate_shape *pool;
    int n;
    bool feasible;
};

/* Latency of a model of these shapes; near the limit the lower one of two measurements.  The table
 * is fitted to it. */
static int time_shapes(struct shapes *z, struct pare_candidate_shape *y, struct pare_err *err)
{
    struct pare_budget_run *w = z->w;
    double dense = w->dense[PARE_BUDGET_LATENCY];
    double part, again, limit = z->limit[PARE_BUDGET_LATENCY] / dense;
    struct pare_model *model;
    int rc;

    PARE_TRY(pare_cost_build(w->s.model, w->s.table, y->x.count, y->x.format, &model, err));
    rc = pare_budget_race(w, model, RACE_SECONDS, &part, err);
    if (!rc && part > limit && part < NEAR * limit) {
        rc = pare_budget_race(w, model, 2 * RACE_SECONDS, &again, err);
        part = rc ? part : fmin(part, again);
    }
    pare_model_free(model);
    if (rc)
        return rc;
    y->us = part * dense;
    pare_budget_say(w, pare_sprintf(w->s.arena,
                                    "shapes: latency %.3f, predicted %.3f; expected loss %.4g",
                                    part, y->cost[PARE_BUDGET_LATENCY] / dense, y->score));
    pare_cost_refit_format(w->s.table, y->x.count, y->x.format, y->us);
    return 0;
}

static bool holds(const struct shapes *z, const struct pare_candidate_shape *y)
{
    return !z->measured || (y->us > 0 && y->us <= z->limit[PARE_BUDGET_LATENCY]);
}

/* Of the measured ones, the best that holds the latency, else the fastest. */
static int choose(const struct shapes *z)
{
    int best = 0;

    for (int i = 1; i < z->n; i++) {
        const struct pare_candidate_shape *x = &z->pool[i], *y = &z->pool[best];
        bool faster = x->us > 0 && (!(y->us > 0) || x->us < y->us);

        if (holds(z, x) ? !holds(z, y) || x->score < y->score : !holds(z, y) && faster)
            best = i;
    }
    return best;
}

/* Solve, and measure a model of the solution's shapes; then the table is fitted to the measurement
 * and solved again, until the solution is one that was measured and holds the latency. */
static int solve_and_measure(struct shapes *z, double *aim, struct pare_err *err)
{
    struct pare_budget_run *w = z->w;
    int k;

    for (int round = 0; round < 2 * ROUNDS && z->n < ROUNDS; round++) {
        struct pare_candidate_shape *y = &z->pool[z->n];
        struct pare_alloc_result result;
        double goal[PARE_BUDGET_KINDS];

        memcpy(goal, z->limit, sizeof(goal));
        goal[PARE_BUDGET_LATENCY] *= *aim;
        PARE_TRY(pare_assignment_new(&w->s, &y->x, err));
        PARE_TRY(pare_budget_solve(&w->s, goal, &y->x, &result, err));
        z->feasible = result.feasible;
        for (k = 0; k < z->n && !pare_assignment_same(&w->s, &y->x, &z->pool[k].x); k++)
            continue;
        if (k == z->n) {
            y->us = 0;
            y->score = result.error;
            memcpy(y->cost, result.cost, sizeof(y->cost));
            z->n++;
            if (!z->measured)
                return 0;
            PARE_TRY(time_shapes(z, y, err));
        } else if (!holds(z, &z->pool[k]))
            *aim *= TIGHTER;
        else
            break;
        if (!result.feasible && !holds(z, &z->pool[k]))
            break; /* what was expected to exceed the limit, does */
    }
    return 0;
}

/* Measure candidates from the best score on, until one holds. */
static int measure_best(struct shapes *z, struct pare_err *err)
{
    for (int round = 0; round < ROUNDS; round++) {
        int best = -1;

        for (int i = 0; i < z->n; i++)
            if ((holds(z, &z->pool[i]) || !(z->pool[i].us > 0)) &&
                (best < 0 || z->pool[i].score < z->pool[best].score))
                best = i;
        if (best < 0 || z->pool[best].us > 0)
            return 0;
        PARE_TRY(time_shapes(z, &z->pool[best], err));
    }
    return 0;
}

int pare_budget_shapes(struct pare_budget_run *w, const double *limit, double *aim, int trials,
                       struct pare_budget_trial *t, struct pare_err *err)
{
    struct shapes z = { .w = w,
                        .limit = limit,
                        .measured = isfinite(limit[PARE_BUDGET_LATENCY]) &&
                                    pare_budget_is_measured(w),
                        .pool = pare_alloc(w->s.arena, PARE_BUDGET_POOL, sizeof(*z.pool)) };
    double goal[PARE_BUDGET_KINDS];
    int k;

    if (!z.pool)
        return pare_no_memory(err, "for a search");
    PARE_TRY(solve_and_measure(&z, aim, err));
    t->feasible = z.feasible;
    memcpy(goal, limit, sizeof(goal));
    goal[PARE_BUDGET_LATENCY] *= *aim;
    if (z.feasible && trials > 0)
        PARE_TRY(pare_budget_refine(w, goal, trials, z.pool, &z.n, err));
    if (z.feasible && trials > 0 && z.measured)
        PARE_TRY(measure_best(&z, err));
    k = choose(&z);
    pare_assignment_copy(&w->s, &z.pool[k].x, &t->x);
    memcpy(t->predicted, z.pool[k].cost, sizeof(t->predicted));
    memcpy(t->cost, z.pool[k].cost, sizeof(t->cost));
    if (z.measured)
        t->cost[PARE_BUDGET_LATENCY] = z.pool[k].us;
    return 0;
}

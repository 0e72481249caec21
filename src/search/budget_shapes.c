/* budget_shapes.c - decide channels and formats: solve, measure models of the solution's shapes,
 * refine. */
#include <math.h>
#include <string.h>

#include "budget_run.h"

#include "../base/arena.h"

#define ROUNDS 8 /* models that are built for timing, before and after candidates are scored */
#define RACE_SECONDS 0.8
#define NEAR 1.04    /* parts of a limit within which a measurement is repeated */
#define ALMOST 1.1   /* of the best score, up to which real models are compared */
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

static bool is_finalist(const struct pare_budget_run *w, const struct pare_candidate_shape *y)
{
    for (int i = 0; i < w->n_finalists; i++)
        if (w->finalist[i].x.count == y->x.count)
            return true;
    return false;
}

/* The best that holds the latency, else the fastest; not one of the finalists.  -1: none. */
static int choose(const struct shapes *z)
{
    int best = -1;

    for (int i = 0; i < z->n; i++) {
        const struct pare_candidate_shape *x = &z->pool[i], *y = &z->pool[best < 0 ? i : best];
        bool faster = x->us > 0 && (!(y->us > 0) || x->us < y->us);

        if (is_finalist(z->w, x))
            continue;
        if (best < 0 ||
            (holds(z, x) ? !holds(z, y) || x->score < y->score : !holds(z, y) && faster))
            best = i;
    }
    return best;
}

/* Those that hold the latency and whose score is almost the best one. */
static void choose_finalists(const struct shapes *z, int most)
{
    struct pare_budget_run *w = z->w;

    w->n_finalists = 0;
    while (w->n_finalists < most) {
        int k = choose(z);

        if (k < 0 || (w->n_finalists && (!holds(z, &z->pool[k]) || !holds(z, &w->finalist[0]) ||
                                         z->pool[k].score > ALMOST * w->finalist[0].score)))
            break;
        w->finalist[w->n_finalists++] = z->pool[k];
    }
}

/* The candidate of the pool with the same shapes; z->n: none. */
static int find_known(const struct shapes *z, const struct pare_assignment *x)
{
    int k = 0;

    while (k < z->n && !pare_assignment_same(&z->w->s, x, &z->pool[k].x))
        k++;
    return k;
}

/* One round: solve; what is new is added and measured.  *at: the solution's number. */
static int solve_once(struct shapes *z, double aim, int *at, bool *feasible, struct pare_err *err)
{
    struct pare_budget_run *w = z->w;
    struct pare_candidate_shape *y = &z->pool[z->n];
    struct pare_alloc_result result;
    double goal[PARE_BUDGET_KINDS];

    memcpy(goal, z->limit, sizeof(goal));
    goal[PARE_BUDGET_LATENCY] *= aim;
    if (!y->x.count)
        PARE_TRY(pare_assignment_new(&w->s, &y->x, err));
    PARE_TRY(pare_budget_solve(&w->s, goal, &y->x, &result, err));
    *feasible = result.feasible;
    *at = find_known(z, &y->x);
    if (*at < z->n)
        return 0;
    y->us = 0;
    y->score = result.error;
    memcpy(y->cost, result.cost, sizeof(y->cost));
    z->n++;
    return z->measured ? time_shapes(z, y, err) : 0;
}

/* Solve, and measure a model of the solution's shapes; then the table is fitted to the measurement
 * and solved again, until the solution is one that was measured and holds the latency. */
static int solve_and_measure(struct shapes *z, double *aim, struct pare_err *err)
{
    int from = z->n, at, before;
    bool fitted[PARE_BUDGET_POOL] = { false }; /* the table, to what other solvers found */

    for (int round = 0; round < 2 * ROUNDS && z->n < from + ROUNDS && z->n < PARE_BUDGET_POOL;
         round++) {
        before = z->n;
        PARE_TRY(solve_once(z, *aim, &at, &z->feasible, err));
        if (!z->measured)
            return 0;
        if (at < before && holds(z, &z->pool[at]))
            return 0;
        if (at < from && !fitted[at])
            pare_cost_refit_format(z->w->s.table, z->pool[at].x.count, z->pool[at].x.format,
                                   z->pool[at].us);
        else if (at < before)
            *aim *= TIGHTER;
        fitted[at] = true;
        if (!z->feasible && !holds(z, &z->pool[at]))
            return 0; /* what was expected to exceed the limit, does */
    }
    return 0;
}

/* What every other solver answers by itself, from the same times on. */
static int ask_other_solvers(struct shapes *z, const double *scale, struct pare_err *err)
{
    static const char *const names[] = { "uniform", "fastnas", "halp", "spdy", NULL };
    struct pare_budget_search *s = &z->w->s;
    double kept[PARE_COST_FORMATS];
    bool feasible = z->feasible;
    int rc = 0;

    memcpy(kept, s->table->scale, sizeof(kept));
    for (int i = 0; names[i] && !rc; i++) {
        double aim = PARE_BUDGET_MARGIN;

        memcpy(s->table->scale, scale, sizeof(kept));
        s->solver = names[i];
        rc = solve_and_measure(z, &aim, err);
    }
    s->solver = NULL;
    z->feasible = feasible;
    memcpy(s->table->scale, kept, sizeof(kept));
    return rc;
}

/* Measure candidates from the best score on, until enough of them hold or the next is worse. */
static int measure_best(struct shapes *z, struct pare_err *err)
{
    for (int round = 0; round < ROUNDS; round++) {
        double first = INFINITY;
        int best = -1, held = 0;

        for (int i = 0; i < z->n; i++)
            if (!(z->pool[i].us > 0) && (best < 0 || z->pool[i].score < z->pool[best].score))
                best = i;
        for (int i = 0; i < z->n && best >= 0; i++)
            if (z->pool[i].us > 0 && holds(z, &z->pool[i])) {
                first = fmin(first, z->pool[i].score);
                held += z->pool[i].score <= z->pool[best].score;
            }
        if (best < 0 || held >= PARE_BUDGET_FINALISTS || z->pool[best].score > ALMOST * first)
            return 0;
        PARE_TRY(time_shapes(z, &z->pool[best], err));
    }
    return 0;
}

void pare_budget_take(const struct pare_budget_run *w, const struct pare_candidate_shape *y,
                      struct pare_budget_trial *t)
{
    pare_assignment_copy(&w->s, &y->x, &t->x);
    memcpy(t->predicted, y->cost, sizeof(t->predicted));
    memcpy(t->cost, y->cost, sizeof(t->cost));
    if (y->us > 0)
        t->cost[PARE_BUDGET_LATENCY] = y->us;
}

int pare_budget_shapes(struct pare_budget_run *w, const double *limit, double *aim, int trials,
                       struct pare_budget_trial *t, struct pare_err *err)
{
    struct shapes z = { .w = w,
                        .limit = limit,
                        .measured = isfinite(limit[PARE_BUDGET_LATENCY]) &&
                                    pare_budget_is_measured(w),
                        .pool = pare_alloc(w->s.arena, PARE_BUDGET_POOL, sizeof(*z.pool)) };
    double scale[PARE_COST_FORMATS];

    if (!z.pool)
        return pare_no_memory(err, "for a search");
    memcpy(scale, w->s.table->scale, sizeof(scale));
    PARE_TRY(solve_and_measure(&z, aim, err));
    t->feasible = z.feasible;
    if (z.feasible && trials > 0) {
        PARE_TRY(ask_other_solvers(&z, scale, err));
        PARE_TRY(pare_budget_refine(w, limit, *aim, trials, z.pool, &z.n, err));
    }
    if (z.feasible && trials > 0 && z.measured)
        PARE_TRY(measure_best(&z, err));
    choose_finalists(&z, z.feasible && trials > 0 ? PARE_BUDGET_FINALISTS : 1);
    pare_budget_take(w, &w->finalist[0], t);
    return 0;
}

/* budget_refine.c - candidates within a limit, scored by their real loss.
 *
 * Expected losses of groups and layers add up only approximately.  As in SPDY (Frantar, Alistarh
 * 2022), coefficients multiply them: each vector of coefficients has its own solution, and the real
 * loss of the solution decides.  Candidates are the solutions of all solvers (budget_shapes.c),
 * those of random coefficients, those of the best coefficients with a few of them drawn again, and
 * the best candidate with a few of its groups changed.
 */
#include <math.h>
#include <string.h>

#include "budget_run.h"

#include "../base/arena.h"
#include "../base/clock.h"
#include "../base/rng.h"

#define LEAST_TRIALS 6
#define MOST_TRIALS 32
#define WORK 4e9      /* MACs of one run, times candidates */
#define PATIENCE 10   /* candidates without a gain, after which the search ends */
#define FREE_GROUPS 3 /* of a change of the best candidate */
#define SPREAD 4.0    /* coefficients are between 1 / SPREAD and SPREAD */
#define GAIN 0.995    /* of the best score, that a better one is below */
#define REPEATS 4     /* draws for each candidate, since many give known ones */

struct refine {
    struct pare_budget_run *w;
    const double *limit;
    struct pare_candidate_shape *pool;
    int *n, best, trials, idle, done;
    double *times, *best_times; /* by group, then by layer */
    int64_t *pinned;
    struct pare_rng rng;
    double start;
};

int pare_budget_effort(const struct pare_budget_run *w)
{
    double n = WORK / fmax(w->dense[PARE_BUDGET_MACS], 1);

    return w->s.o->search_seconds > 0 ? PARE_BUDGET_POOL
                                      : (int)fmin(fmax(n, LEAST_TRIALS), MOST_TRIALS);
}

int pare_budget_trials(const struct pare_budget_run *w)
{
    bool other = w->s.o->solver && strcmp(w->s.o->solver, "lagrange") != 0;

    return w->s.o->search_seconds < 0 || other ? 0 : pare_budget_effort(w);
}

/* Is it time to end?  An interrupted search ends at the same candidate. */
static int ends(struct refine *r, bool *end, struct pare_err *err)
{
    double seconds = r->w->s.o->search_seconds, over;

    *end = r->done >= r->trials || *r->n >= PARE_BUDGET_POOL ||
           (!(seconds > 0) && r->idle >= PATIENCE);
    if (*end || !(seconds > 0))
        return 0;
    if (!pare_journal_next(&r->w->s.journal, &over, 1)) {
        over = pare_now() - r->start >= seconds;
        PARE_TRY(pare_journal_add(&r->w->s.journal, &over, 1, err));
    }
    *end = over > 0;
    return 0;
}

static void tell(const struct refine *r)
{
    struct pare_budget_run *w = r->w;
    const struct pare_candidate_shape *y = &r->pool[r->best];
    double spent = pare_now() - r->start, seconds = w->s.o->search_seconds;
    double left = seconds > 0 ? seconds - spent : spent / r->done * (r->trials - r->done);

    pare_budget_say(w, pare_sprintf(w->s.arena,
                                    "candidate %d: loss %.4g, latency %.3f predicted; %s, at most "
                                    "%.0f s left",
                                    r->done, y->score,
                                    y->cost[PARE_BUDGET_LATENCY] / w->dense[PARE_BUDGET_LATENCY],
                                    pare_budget_elapsed(w), fmax(left, 0)));
}

static int score(struct refine *r, int i, bool *better, struct pare_err *err)
{
    *better = false;
    PARE_TRY(pare_budget_score(&r->w->s, &r->pool[i].x, &r->pool[i].score, err));
    r->done++;
    r->idle++;
    if (r->best >= 0 && !(r->pool[i].score < GAIN * r->pool[r->best].score))
        return 0;
    *better = true;
    r->best = i;
    r->idle = 0;
    tell(r);
    return 0;
}

/* Solve with the coefficients, pins and solver that are set, and score what is new. */
static int consider(struct refine *r, bool *known, bool *better, struct pare_err *err)
{
    struct pare_budget_search *s = &r->w->s;
    struct pare_candidate_shape *y = &r->pool[*r->n];
    struct pare_alloc_result result;
    int k;

    *better = *known = false;
    if (!y->x.count)
        PARE_TRY(pare_assignment_new(s, &y->x, err));
    PARE_TRY(pare_budget_solve(s, r->limit, &y->x, &result, err));
    for (k = 0; k < *r->n && !pare_assignment_same(s, &y->x, &r->pool[k].x); k++)
        continue;
    *known = k < *r->n || !result.feasible;
    if (*known)
        return 0;
    y->us = 0;
    memcpy(y->cost, result.cost, sizeof(y->cost));
    return score(r, (*r->n)++, better, err);
}

/* ---- candidates ------------------------------------------------------------------------------ */

static double draw(struct refine *r)
{
    return exp((2 * pare_rng_uniform(&r->rng) - 1) * log(SPREAD));
}

static int number(struct refine *r, int n)
{
    return (int)fmin(pare_rng_uniform(&r->rng) * n, n - 1);
}

/* All coefficients, or a tenth of the best ones, anew. */
static int by_coefficients(struct refine *r, bool all, bool *known, struct pare_err *err)
{
    const struct pare_cost_table *t = r->w->s.table;
    int n = t->n_groups + t->n_layers, again = n / 10 > 1 ? n / 10 : 1;
    bool better;
    int rc;

    memcpy(r->times, r->best_times, (size_t)n * sizeof(*r->times));
    for (int i = 0; i < (all ? n : again); i++)
        r->times[all ? i : number(r, n)] = draw(r);
    r->w->s.times = r->times;
    rc = consider(r, known, &better, err);
    r->w->s.times = NULL;
    if (!rc && better)
        memcpy(r->best_times, r->times, (size_t)n * sizeof(*r->times));
    return rc;
}

/* One group of the best candidate gets the next count below or above, a few others are free to make
 * up for it, and the rest stays. */
static int by_change(struct refine *r, bool *known, struct pare_err *err)
{
    const struct pare_cost_table *t = r->w->s.table;
    const int64_t *count = r->pool[r->best].x.count;
    int at = number(r, t->n_groups), k = 0, up = number(r, 2);
    bool better;
    int rc;

    memcpy(r->pinned, count, (size_t)t->n_groups * sizeof(*r->pinned));
    for (int i = 0; i < FREE_GROUPS; i++)
        r->pinned[number(r, t->n_groups)] = -1;
    while (k < t->group[at].n_choices - 1 && t->group[at].choice[k] != count[at])
        k++;
    k = up && k < t->group[at].n_choices - 1 ? k + 1 : k ? k - 1 : k;
    r->pinned[at] = t->group[at].choice[k];
    r->w->s.pinned = r->pinned;
    rc = consider(r, known, &better, err);
    r->w->s.pinned = NULL;
    return rc;
}

static int draw_candidates(struct refine *r, struct pare_err *err)
{
    int random = (r->trials - r->done) / 4, misses = 0;

    for (int i = 0; misses < REPEATS * PATIENCE; i++) {
        bool known, end;

        PARE_TRY(ends(r, &end, err));
        if (end)
            break;
        if (i % 2 || !r->w->s.channels)
            PARE_TRY(by_coefficients(r, r->done < random, &known, err));
        else
            PARE_TRY(by_change(r, &known, err));
        misses = known ? misses + 1 : 0;
    }
    return 0;
}

int pare_budget_refine(struct pare_budget_run *w, const double *limit, double aim, int trials,
                       struct pare_candidate_shape *pool, int *n, struct pare_err *err)
{
    double goal[PARE_BUDGET_KINDS];
    size_t all = (size_t)(w->s.table->n_groups + w->s.table->n_layers) + 1;
    struct refine r = { .w = w,
                        .limit = goal,
                        .pool = pool,
                        .n = n,
                        .best = -1,
                        .trials = trials,
                        .times = pare_alloc(w->s.arena, all, sizeof(double)),
                        .best_times = pare_alloc(w->s.arena, all, sizeof(double)),
                        .pinned = pare_alloc(w->s.arena, all, sizeof(int64_t)),
                        .start = pare_now() };
    bool better;

    memcpy(goal, limit, sizeof(goal));
    goal[PARE_BUDGET_LATENCY] *= aim;
    if (!r.times || !r.best_times || !r.pinned)
        return pare_no_memory(err, "for a search");
    for (size_t i = 0; i < all; i++)
        r.best_times[i] = 1;
    pare_rng_init(&r.rng, w->s.o->seed);
    for (int i = 0; i < *n; i++) /* those that were measured to exceed the limit are out */
        if (pool[i].us > 0 && pool[i].us > limit[PARE_BUDGET_LATENCY])
            pool[i].score = INFINITY;
        else
            PARE_TRY(score(&r, i, &better, err));
    if (!w->s.table->n_groups && !w->s.int8)
        return 0;
    return r.best >= 0 && w->s.table->n_groups ? draw_candidates(&r, err) : 0;
}

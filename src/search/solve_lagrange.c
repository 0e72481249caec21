/* solve_lagrange.c - budget allocation by Lagrange multipliers and exact variable elimination.
 *
 * For multipliers m the relaxed problem, minimize error + m * cost, is solved by elimination, or
 * approximately by iterated conditional modes if the tables would be too large.  One budget: m is
 * found on the lower convex hull of (cost, error), where each step is the slope between the best
 * assignments on either side of the limit; like bisection, but it ends at the exact slope.  Several
 * budgets: one after the other, three sweeps, then subgradient steps.  The gap that remains is
 * closed by local search and by branch and bound.
 *
 * H. Everett, Generalized Lagrange multiplier method, 1963; M. L. Fisher, The Lagrangian relaxation
 * method for solving integer programming problems, 1981.
 */
#include <math.h>
#include <string.h>

#include "../base/arena.h"
#include "branch_bound.h"
#include "local_search.h"

#define SWEEPS 3
#define HULL_STEPS 60
#define SUBGRADIENT_STEPS 150
#define SUBGRADIENT_IDLE 6

struct dual {
    struct pare_alloc_state *s;
    struct pare_elim e;
    struct pare_elim_tables t;
    struct pare_alloc_weights w, best_w; /* multipliers: current, with the best bound */
    double bound;                        /* the best */
    int *at, *best, *scratch;            /* assignments */
    struct pare_alloc_sums best_sum;     /* of best */
    bool hopeless;                       /* one budget alone cannot be met */
};

static void offer(struct dual *d, const int *choice, const struct pare_alloc_sums *sum)
{
    if (!pare_alloc_better(d->s, sum, &d->best_sum))
        return;
    d->best_sum = *sum;
    memcpy(d->best, choice, (size_t)d->s->p->n_vars * sizeof(*choice));
}

/* Minimize the relaxed problem with weights w; d->at is the assignment. */
static void relax(struct dual *d, const struct pare_alloc_weights *w, struct pare_alloc_sums *sum)
{
    const struct pare_alloc_problem *p = d->s->p;
    double bound;

    if (d->e.exact) {
        pare_elim_run(&d->e, w, &d->t);
        pare_elim_best(&d->e, &d->t, d->at);
    } else {
        pare_alloc_modes(d->s, w, d->at, d->scratch);
    }
    pare_alloc_sum(d->s, d->at, sum);
    offer(d, d->at, sum);
    if (!d->e.exact || w->error <= 0)
        return;
    bound = d->t.least;
    for (int b = 0; b < p->n_budgets; b++)
        if (w->cost[b] > 0)
            bound -= w->cost[b] * (p->limit[b] - p->fixed[b]);
    if (bound > d->bound) {
        d->bound = bound;
        d->best_w = *w;
    }
}

/* Error plus all weighted costs but that of b. */
static double rest(const struct dual *d, const struct pare_alloc_sums *sum, int b)
{
    double x = sum->error;

    for (int k = 0; k < d->s->p->n_budgets; k++)
        if (k != b)
            x += d->w.cost[k] * sum->cost[k];
    return x;
}

/* The multiplier of budget b, the others fixed: the slope of the hull at the limit. */
static void fit_multiplier(struct dual *d, int b)
{
    struct pare_alloc_weights only = { 0 };
    struct pare_alloc_sums low, high, x; /* above the limit; within it; between */
    double limit = d->s->p->limit[b];

    d->w.cost[b] = 0;
    if (isinf(limit))
        return;
    relax(d, &d->w, &low);
    if (low.cost[b] <= limit)
        return;
    only.cost[b] = 1;
    relax(d, &only, &high);
    if (high.cost[b] > limit + 1e-11 * d->s->scale[b])
        d->hopeless = true;
    if (high.cost[b] >= low.cost[b] || d->hopeless)
        return;
    for (int i = 0; i < HULL_STEPS; i++) {
        double slope = (rest(d, &high, b) - rest(d, &low, b)) / (low.cost[b] - high.cost[b]);
        double line = rest(d, &high, b) + slope * high.cost[b];

        d->w.cost[b] = slope > 0 ? slope : 0;
        relax(d, &d->w, &x);
        if (rest(d, &x, b) + slope * x.cost[b] >= line - 1e-12 * (fabs(line) + 1e-300))
            return;
        if (x.cost[b] > limit)
            low = x;
        else
            high = x;
    }
}

/* The excess of budget b, relative to its limit; 0 if neither the excess nor the multiplier is
 * positive, because then the multiplier stays 0. */
static double excess(const struct dual *d, const struct pare_alloc_sums *x, int b)
{
    double over = (x->cost[b] - d->s->p->limit[b]) / d->s->scale[b];

    return isfinite(over) && (over > 0 || d->w.cost[b] > 0) ? over : 0;
}

/* Polyak's steps along the excess, for several budgets, where single coordinates get stuck; a step
 * is halved whenever the bound has not grown for a while. */
static void subgradient(struct dual *d)
{
    double part = 1;
    int idle = 0;

    d->w = d->best_w;
    for (int i = 0; i < SUBGRADIENT_STEPS && pare_alloc_feasible(d->s, &d->best_sum); i++) {
        double norm = 0, bound = d->bound, gap;
        struct pare_alloc_sums x;

        relax(d, &d->w, &x);
        idle = d->bound > bound ? 0 : idle + 1;
        if (idle == SUBGRADIENT_IDLE) {
            d->w = d->best_w;
            part /= 2;
            idle = 0;
            continue;
        }
        for (int b = 0; b < d->s->p->n_budgets; b++)
            norm += excess(d, &x, b) * excess(d, &x, b);
        gap = d->best_sum.error - d->bound;
        if (!(norm > 0) || !(gap > 0))
            return;
        for (int b = 0; b < d->s->p->n_budgets; b++)
            d->w.cost[b] = fmax(0, d->w.cost[b] +
                                       part * gap / norm * excess(d, &x, b) / d->s->scale[b]);
    }
}

/* Fill from an assignment after repair, and keep the better one. */
static void improve(struct dual *d, const int *from)
{
    struct pare_alloc_sums sum;

    memmove(d->scratch, from, (size_t)d->s->p->n_vars * sizeof(*from));
    pare_alloc_repair(d->s, d->scratch);
    pare_alloc_fill(d->s, d->scratch);
    pare_alloc_sum(d->s, d->scratch, &sum);
    offer(d, d->scratch, &sum);
}

/* Assignments with small costs, for problems whose multipliers give nothing feasible. */
static void try_cheap(struct dual *d)
{
    const struct pare_alloc_problem *p = d->s->p;
    struct pare_alloc_weights w = { 0 };
    struct pare_alloc_sums sum;

    for (int b = 0; b < p->n_budgets; b++)
        w.cost[b] = isfinite(p->limit[b]) ? 1 / d->s->scale[b] : 0;
    relax(d, &w, &sum);
    improve(d, d->at);
    for (int b = 0; b < p->n_budgets; b++)
        if (d->best_sum.cost[b] > p->limit[b])
            w.cost[b] *= 4;
    relax(d, &w, &sum);
    improve(d, d->at);
}

static int search(struct dual *d, struct pare_err *err)
{
    struct pare_alloc_sums sum;
    int sweeps = d->s->p->n_budgets > 1 ? SWEEPS : 1;
    bool done;

    relax(d, &d->w, &sum);
    if (d->e.exact && pare_alloc_feasible(d->s, &sum)) { /* of all assignments the best */
        d->s->optimal = true;
        return 0;
    }
    for (int i = 0; i < sweeps && !d->hopeless; i++)
        for (int b = 0; b < d->s->p->n_budgets && !d->hopeless; b++)
            fit_multiplier(d, b);
    if (!d->hopeless)
        improve(d, d->at); /* what the last multipliers gave */
    if (!pare_alloc_feasible(d->s, &d->best_sum))
        try_cheap(d);
    improve(d, d->best);
    if (!d->e.exact || d->hopeless)
        return 0;
    if (d->s->p->n_budgets > 1) {
        subgradient(d);
        improve(d, d->best);
    }
    PARE_TRY(pare_alloc_branch(&d->e, &d->best_w, d->best, &done, err));
    pare_alloc_sum(d->s, d->best, &d->best_sum);
    d->s->optimal = done && pare_alloc_feasible(d->s, &d->best_sum);
    return 0;
}

static int solve(struct pare_alloc_state *s, int *choice, struct pare_err *err)
{
    size_t n = (size_t)s->p->n_vars + 1;
    struct dual d = { .s = s, .bound = -INFINITY };

    d.w.error = d.best_w.error = 1;
    d.at = pare_alloc(s->arena, n, sizeof(int));
    d.scratch = pare_alloc(s->arena, n, sizeof(int));
    d.best = choice;
    if (!d.at || !d.scratch)
        return pare_no_memory(err, "for a budget");
    PARE_TRY(pare_elim_init(&d.e, s, err));
    if (d.e.exact)
        PARE_TRY(pare_elim_tables_init(&d.e, &d.t, err));
    pare_alloc_sum(s, choice, &d.best_sum);
    PARE_TRY(search(&d, err));
    s->width = d.e.width;
    s->exact_steps = d.e.exact;
    pare_alloc_sum(s, choice, &d.best_sum);
    s->bound = s->optimal ? d.best_sum.error : d.bound;
    return 0;
}

const struct pare_alloc_solver pare_alloc_solver_lagrange = {
    .name = "lagrange",
    .solve = solve,
};

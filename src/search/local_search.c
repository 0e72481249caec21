/* local_search.c - repair of violated budgets and filling of what is left of them. */
#include "local_search.h"

#include <math.h>

#include "../base/arena.h"

/* A reduction that counts, relative to the sum. */
#define EPSILON 1e-12
/* Moves that one search evaluates: a limit of time, for problems with hundreds of variables. */
#define MOST_OFFERS 5000000

/* A search for the best move. */
struct scan {
    const struct pare_alloc_state *s;
    int *choice;
    struct pare_alloc_sums now;
    double violation; /* of now */
    bool repair;      /* reduce the violation; false: the error, within the limits */
    struct pare_alloc_move best;
    double value; /* of the best: smaller is better */
    int64_t offers;
};

static void add_sums(struct pare_alloc_sums *a, const struct pare_alloc_sums *d)
{
    a->forbidden += d->forbidden;
    a->error += d->error;
    for (int b = 0; b < PARE_BUDGETS; b++)
        a->cost[b] += d->cost[b];
}

/* Increase of the costs relative to the limits. */
static double relative_cost(const struct pare_alloc_state *s, const struct pare_alloc_sums *d)
{
    double sum = 0;

    for (int b = 0; b < s->p->n_budgets; b++)
        if (isfinite(s->p->limit[b]))
            sum += d->cost[b] / s->scale[b];
    return sum;
}

/* Error added per violation removed.  A violation that vanishes counts only as far as needed. */
static double repair_value(const struct scan *x, const struct pare_alloc_sums *d,
                           const struct pare_alloc_sums *after)
{
    double gain = x->violation - pare_alloc_violation(x->s, after);

    if (after->forbidden < x->now.forbidden)
        return -INFINITY;
    if (after->forbidden > x->now.forbidden || gain <= EPSILON * x->violation)
        return INFINITY;
    return d->error > 0 ? d->error / gain : d->error * gain;
}

/* Singles: error per cost.  Pairs: the error, because their cost may be of any sign. */
static double fill_value(const struct scan *x, const struct pare_alloc_move *m,
                         const struct pare_alloc_sums *d, const struct pare_alloc_sums *after)
{
    double cost = relative_cost(x->s, d);

    if (d->error >= -EPSILON * (1e-300 + fabs(x->now.error)) || !pare_alloc_feasible(x->s, after))
        return INFINITY;
    if (m->var[1] >= 0)
        return d->error;
    return d->error / (cost > 1e-9 ? cost : 1e-9);
}

static void offer(struct scan *x, const struct pare_alloc_move *m)
{
    struct pare_alloc_sums d, after = x->now;
    double value;

    x->offers++;
    pare_alloc_change(x->s, x->choice, m, &d);
    add_sums(&after, &d);
    value = x->repair ? repair_value(x, &d, &after) : fill_value(x, m, &d, &after);
    if (value < x->value) {
        x->value = value;
        x->best = *m;
    }
}

static bool scan_singles(struct scan *x)
{
    x->value = INFINITY;
    for (int v = 0; v < x->s->p->n_vars; v++)
        for (int c = 0; c < x->s->p->vars[v].n; c++)
            if (c != x->choice[v])
                offer(x, &(struct pare_alloc_move){ { v, -1 }, { c, 0 } });
    return x->value < INFINITY;
}

static bool scan_pairs(struct scan *x)
{
    const struct pare_alloc_var *vars = x->s->p->vars;

    x->value = INFINITY;
    for (int v = 0; v < x->s->p->n_vars && x->offers < MOST_OFFERS; v++)
        for (int u = v + 1; u < x->s->p->n_vars; u++)
            for (int c = 0; c < vars[v].n; c++)
                for (int k = 0; k < vars[u].n && c != x->choice[v]; k++)
                    if (k != x->choice[u])
                        offer(x, &(struct pare_alloc_move){ { v, u }, { c, k } });
    return x->value < INFINITY;
}

static void search(const struct pare_alloc_state *s, int *choice, bool repair)
{
    struct scan x = { .s = s, .choice = choice, .repair = repair };

    while (x.offers < MOST_OFFERS) {
        pare_alloc_sum(s, choice, &x.now);
        x.violation = pare_alloc_violation(s, &x.now);
        if (pare_alloc_feasible(s, &x.now) == repair || (!scan_singles(&x) && !scan_pairs(&x)))
            return;
        pare_alloc_apply(choice, &x.best);
    }
}

void pare_alloc_repair(const struct pare_alloc_state *s, int *choice)
{
    search(s, choice, true);
}

void pare_alloc_fill(const struct pare_alloc_state *s, int *choice)
{
    search(s, choice, false);
}

/* solve_spdy.c - budget allocation by dynamic programming over variables with separate costs.
 *
 * The rule of SPDY (Frantar, Alistarh 2022): each variable has its cost with the others dense, and
 * the sum over variables is kept within the budget by a table of 10,000 buckets.  Here the costs of
 * neighbors multiply, so the sum of separate savings is scaled to the true saving of the most
 * compressed assignment, and the largest budget whose true cost holds is found by bisection.
 */
#include <math.h>

#include "../base/arena.h"
#include "separate_costs.h"

#define BUCKETS 10000
#define ROUNDS 16

/* Scale the separate costs so that their sum is right for the most compressed assignment. */
static void scale_costs(const struct pare_alloc_state *s, struct pare_separate *t, int *last, int b)
{
    struct pare_alloc_sums dense, most;
    double sum = 0, scale;

    pare_alloc_sum(s, last, &dense);
    for (int v = 0; v < s->p->n_vars; v++) {
        last[v] = s->p->vars[v].n - 1;
        sum += t->cost[t->first[v] + last[v]];
    }
    pare_alloc_sum(s, last, &most);
    scale = (most.cost[b] - dense.cost[b]) / sum;
    for (int i = 0; scale > 0 && isfinite(scale) && i < t->first[s->p->n_vars]; i++)
        t->cost[i] *= scale;
}

static int solve(struct pare_alloc_state *s, int *choice, struct pare_err *err)
{
    int b = pare_alloc_tightest(s), *last;
    struct pare_alloc_sums dense, now;
    struct pare_separate t;
    double low = 0, high = 0; /* changes of the cost: too small or just right; too large */

    last = pare_alloc(s->arena, (size_t)s->p->n_vars + 1, sizeof(*last));
    if (!last)
        return pare_no_memory(err, "for a budget");
    pare_alloc_sum(s, choice, &dense);
    if (pare_alloc_feasible(s, &dense) || b < 0)
        return pare_alloc_ensure(s, choice, err);
    PARE_TRY(pare_separate_init(s, &t, err));
    pare_separate_costs(s, &t, choice, b);
    scale_costs(s, &t, last, b);
    for (int v = 0; v < s->p->n_vars; v++)
        low += t.cost[t.first[v] + last[v]];
    for (int i = 0; i < ROUNDS; i++) {
        double middle = i ? (low + high) / 2 : s->p->limit[b] - dense.cost[b];

        PARE_TRY(pare_separate_knapsack(s, &t, middle, BUCKETS, choice, err));
        pare_alloc_sum(s, choice, &now);
        if (pare_alloc_feasible(s, &now))
            low = middle;
        else
            high = middle;
    }
    PARE_TRY(pare_separate_knapsack(s, &t, low, BUCKETS, choice, err));
    return pare_alloc_ensure(s, choice, err);
}

const struct pare_alloc_solver pare_alloc_solver_spdy = {
    .name = "spdy",
    .solve = solve,
};

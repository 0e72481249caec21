/* solve_halp.c - budget allocation by knapsacks in steps, with costs linearized in each.
 *
 * The rule of HALP (Shen et al. 2022): in each step every variable has the cost that it would have
 * with the others as they are, a knapsack takes more compressed choices until the step's budget
 * holds, and the budget of the steps falls exponentially from the dense cost to the limit.  More
 * steps follow until the true cost holds.
 */
#include <math.h>

#include "../base/arena.h"
#include "separate_costs.h"

#define BUCKETS 2000
#define STEPS 10
#define MORE_STEPS 20

/* The budget of step i of STEPS. */
static double step_budget(double dense, double limit, int i)
{
    double part = i < STEPS ? (double)i / STEPS : 1;

    return dense > 0 && limit > 0 ? dense * pow(limit / dense, part)
                                  : dense + (limit - dense) * part;
}

/* Choices are not taken back: forbid those before the present one. */
static void forbid_returns(const struct pare_alloc_state *s, struct pare_separate *t,
                           const int *choice)
{
    for (int v = 0; v < s->p->n_vars; v++)
        for (int c = 0; c < choice[v]; c++)
            t->error[t->first[v] + c] = INFINITY;
}

static int solve(struct pare_alloc_state *s, int *choice, struct pare_err *err)
{
    int b = pare_alloc_tightest(s);
    struct pare_alloc_sums dense, now;
    struct pare_separate t;

    pare_alloc_sum(s, choice, &dense);
    now = dense;
    if (pare_alloc_feasible(s, &dense) || b < 0)
        return pare_alloc_ensure(s, choice, err);
    PARE_TRY(pare_separate_init(s, &t, err));
    for (int i = 1; i <= STEPS + MORE_STEPS; i++) {
        double budget = step_budget(dense.cost[b], s->p->limit[b], i);

        if (i > STEPS && now.cost[b] <= s->p->limit[b]) /* another budget does not hold */
            budget = now.cost[b] - 0.05 * fabs(s->p->limit[b]);
        pare_separate_costs(s, &t, choice, b);
        forbid_returns(s, &t, choice);
        PARE_TRY(pare_separate_knapsack(s, &t, budget - now.cost[b], BUCKETS, choice, err));
        pare_alloc_sum(s, choice, &now);
        if (pare_alloc_feasible(s, &now))
            break;
    }
    return pare_alloc_ensure(s, choice, err);
}

const struct pare_alloc_solver pare_alloc_solver_halp = {
    .name = "halp",
    .solve = solve,
};

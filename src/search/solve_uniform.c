/* solve_uniform.c - budget allocation by the same relative level of all variables. */
#include <math.h>

#include "../base/arena.h"
#include "separate_costs.h"

/* Levels from dense to the most compressed. */
#define LEVELS 200

/* The choice nearest to a level that is not forbidden, toward dense. */
static void take(const struct pare_alloc_state *s, const struct pare_separate *t, double level,
                 int *choice)
{
    for (int v = 0; v < s->p->n_vars; v++) {
        int c = (int)floor(level * (s->p->vars[v].n - 1) + 0.5);

        while (c > 0 && isinf(t->error[t->first[v] + c]))
            c--;
        choice[v] = c;
    }
}

static int solve(struct pare_alloc_state *s, int *choice, struct pare_err *err)
{
    struct pare_separate t;

    PARE_TRY(pare_separate_init(s, &t, err));
    for (int i = 0; i <= LEVELS; i++) {
        struct pare_alloc_sums sum;

        take(s, &t, (double)i / LEVELS, choice);
        pare_alloc_sum(s, choice, &sum);
        if (pare_alloc_feasible(s, &sum))
            return 0;
    }
    return pare_alloc_ensure(s, choice, err);
}

const struct pare_alloc_solver pare_alloc_solver_uniform = {
    .name = "uniform",
    .solve = solve,
};

/* solve_fastnas.c - budget allocation by one threshold for the error of every single choice.
 *
 * The rule of FastNAS (NVIDIA ModelOpt): each variable takes its cheapest choice whose error, with
 * the others dense, is at most a threshold; the smallest threshold whose true costs hold is found
 * by bisection.  Error curves are made monotone first.
 */
#include <math.h>
#include <stdlib.h>

#include "../base/arena.h"
#include "separate_costs.h"

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* Running maximum from dense on, except for forbidden choices. */
static void make_monotone(const struct pare_alloc_state *s, struct pare_separate *t)
{
    for (int v = 0; v < s->p->n_vars; v++) {
        double most = -INFINITY;

        for (int i = t->first[v]; i < t->first[v + 1]; i++)
            if (isfinite(t->error[i]))
                most = t->error[i] = fmax(most, t->error[i]);
    }
}

/* Choices for a threshold; true if all limits hold. */
static bool take(const struct pare_alloc_state *s, const struct pare_separate *t, double threshold,
                 int *choice)
{
    struct pare_alloc_sums sum;

    for (int v = 0; v < s->p->n_vars; v++) {
        const double *cost = t->cost + t->first[v], *error = t->error + t->first[v];

        choice[v] = 0;
        for (int c = 1; c < s->p->vars[v].n; c++)
            if (error[c] <= threshold && (cost[c] < cost[choice[v]] || isinf(error[choice[v]])))
                choice[v] = c;
    }
    pare_alloc_sum(s, choice, &sum);
    return pare_alloc_feasible(s, &sum);
}

static int solve(struct pare_alloc_state *s, int *choice, struct pare_err *err)
{
    int b = pare_alloc_tightest(s), low = -1, high, n;
    struct pare_alloc_sums dense;
    struct pare_separate t;
    double *level;

    pare_alloc_sum(s, choice, &dense);
    if (pare_alloc_feasible(s, &dense) || b < 0)
        return pare_alloc_ensure(s, choice, err);
    PARE_TRY(pare_separate_init(s, &t, err));
    pare_separate_costs(s, &t, choice, b);
    make_monotone(s, &t);
    level = pare_alloc(s->arena, (size_t)t.first[s->p->n_vars] + 1, sizeof(*level));
    if (!level)
        return pare_no_memory(err, "for a budget");
    n = 0;
    for (int i = 0; i < t.first[s->p->n_vars]; i++)
        if (isfinite(t.error[i]))
            level[n++] = t.error[i];
    qsort(level, (size_t)n, sizeof(*level), compare_doubles);
    for (high = n - 1; high - low > 1;) {
        int middle = low + (high - low) / 2;

        if (take(s, &t, level[middle], choice))
            high = middle;
        else
            low = middle;
    }
    take(s, &t, n ? level[high] : 0, choice);
    return pare_alloc_ensure(s, choice, err);
}

const struct pare_alloc_solver pare_alloc_solver_fastnas = {
    .name = "fastnas",
    .solve = solve,
};

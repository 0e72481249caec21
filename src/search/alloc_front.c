/* alloc_front.c - assignments from dense to cheapest: the front of error and one cost. */
#include <math.h>
#include <string.h>

#include "../base/arena.h"
#include "solver.h"

/* Cells of a factor. */
static int64_t count_cells(const struct pare_alloc_problem *p, const struct pare_alloc_factor *f)
{
    int64_t n = 1;

    for (int k = 0; k < f->n_vars; k++)
        n *= p->vars[f->var[k]].n;
    return n;
}

/* The factors with the cost of a budget as error; forbidden cells stay forbidden. */
static int cost_as_error(const struct pare_alloc_problem *p, int b, struct pare_arena *arena,
                         const struct pare_alloc_factor **factors, struct pare_err *err)
{
    struct pare_alloc_factor *copy;

    copy = pare_alloc(arena, (size_t)p->n_factors + 1, sizeof(*copy));
    if (!copy)
        return pare_no_memory(err, "for the factors of a front");
    for (int f = 0; f < p->n_factors; f++) {
        const struct pare_alloc_factor *from = &p->factors[f];
        int64_t cells = count_cells(p, from);
        double *error = pare_alloc(arena, (size_t)cells, sizeof(*error));

        if (!error)
            return pare_no_memory(err, "for the factors of a front");
        for (int64_t i = 0; i < cells; i++)
            error[i] = from->error && isinf(from->error[i]) ? INFINITY
                       : from->cost[b]                      ? from->cost[b][i]
                                                            : 0;
        copy[f] = *from;
        copy[f].error = error;
    }
    *factors = copy;
    return 0;
}

/* The smallest cost that the other limits admit; if none does, that of the smallest violation. */
static int cheapest(const struct pare_alloc_problem *p, int b, struct pare_arena *arena,
                    int *choice, double *cost, struct pare_err *err)
{
    struct pare_alloc_problem only = *p;
    struct pare_alloc_result r;

    only.limit[b] = INFINITY;
    PARE_TRY(cost_as_error(p, b, arena, &only.factors, err));
    PARE_TRY(pare_alloc_solve(&only, NULL, arena, choice, &r, err));
    *cost = r.cost[b] + 1e-12 * fabs(r.cost[b]); /* sums of another order may differ */
    return 0;
}

static int solve_all(const struct pare_alloc_problem *p, const struct pare_alloc_front *f,
                     struct pare_arena *arena, struct pare_err *err)
{
    size_t row = (size_t)p->n_vars;
    struct pare_alloc_problem at = *p;
    struct pare_alloc_result dense;
    double least;

    memset(f->choice, 0, row * sizeof(*f->choice));
    PARE_TRY(pare_alloc_evaluate(p, f->choice, arena, &dense, err));
    PARE_TRY(cheapest(p, f->budget, arena, f->choice, &least, err));
    for (int i = 0; i < f->n; i++) {
        double part = (double)i / (f->n - 1);

        at.limit[f->budget] = i == f->n - 1
                                  ? least
                                  : dense.cost[f->budget] + part * (least - dense.cost[f->budget]);
        PARE_TRY(pare_alloc_solve(&at, NULL, arena, f->choice + (size_t)i * row, &f->r[i], err));
    }
    for (int i = f->n - 2; i >= 0; i--) /* a cheaper one that is better fits here, too */
        if (f->r[i + 1].feasible && (!f->r[i].feasible || f->r[i + 1].error < f->r[i].error)) {
            f->r[i] = f->r[i + 1];
            memcpy(f->choice + (size_t)i * row, f->choice + (size_t)(i + 1) * row,
                   row * sizeof(*f->choice));
        }
    return 0;
}

int pare_alloc_front(const struct pare_alloc_problem *p, const struct pare_alloc_front *f,
                     struct pare_arena *arena, struct pare_err *err)
{
    struct pare_mark mark = pare_mark(arena);
    int rc;

    if (f->n < 2 || f->budget < 0 || f->budget >= p->n_budgets)
        return pare_fail(err, PARE_ECONFIG, "a front of %d assignments over budget %d of %d", f->n,
                         f->budget, p->n_budgets);
    rc = solve_all(p, f, arena, err);
    pare_reset(arena, mark);
    return rc;
}

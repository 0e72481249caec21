/* solver.c - budget allocation: the list of solvers and their results. */
#include "solver.h"

#include <math.h>
#include <string.h>

#include "../base/arena.h"
#include "alloc_state.h"

#define SOLVER(name, help) extern const struct pare_alloc_solver pare_alloc_solver_##name;
#include "solvers.def"
#undef SOLVER

static const struct pare_alloc_solver *const solvers[] = {
#define SOLVER(name, help) &pare_alloc_solver_##name,
#include "solvers.def"
#undef SOLVER
};

const char pare_alloc_solver_list[] =
#define SOLVER(name, help) "|" #name
#include "solvers.def"
#undef SOLVER
    ;

const char pare_alloc_solver_help[] = "how to choose within the budgets"
#define SOLVER(name, help) "; " #name ": " help
#include "solvers.def"
#undef SOLVER
    ;

static const struct pare_alloc_solver *find_solver(const char *name)
{
    for (size_t i = 0; i < sizeof(solvers) / sizeof(*solvers); i++)
        if (!strcmp(solvers[i]->name, name))
            return solvers[i];
    return NULL;
}

static void fill_result(const struct pare_alloc_state *s, const int *choice,
                        struct pare_alloc_result *r)
{
    struct pare_alloc_sums sum;

    pare_alloc_sum(s, choice, &sum);
    *r = (struct pare_alloc_result){
        .error = sum.forbidden ? INFINITY : sum.error,
        .feasible = pare_alloc_feasible(s, &sum),
        .optimal = s->optimal,
        .bound = s->bound,
        .width = s->width,
        .exact_steps = s->exact_steps,
    };
    memcpy(r->cost, sum.cost, sizeof(r->cost));
}

static int solve(const struct pare_alloc_problem *p, const struct pare_alloc_solver *solver,
                 struct pare_arena *arena, int *choice, struct pare_alloc_result *r,
                 struct pare_err *err)
{
    struct pare_alloc_state s;

    PARE_TRY(pare_alloc_state_init(&s, p, arena, err));
    memset(choice, 0, (size_t)p->n_vars * sizeof(*choice));
    PARE_TRY(solver->solve(&s, choice, err));
    fill_result(&s, choice, r);
    return 0;
}

int pare_alloc_solve(const struct pare_alloc_problem *p, const char *solver,
                     struct pare_arena *arena, int *choice, struct pare_alloc_result *r,
                     struct pare_err *err)
{
    const struct pare_alloc_solver *found = find_solver(solver ? solver : "lagrange");
    struct pare_mark mark = pare_mark(arena);
    int rc;

    if (!found)
        return pare_fail(err, PARE_ECONFIG, "solver '%s' is unknown, must be %s", solver,
                         PARE_ALLOC_SOLVERS);
    rc = solve(p, found, arena, choice, r, err);
    pare_reset(arena, mark);
    return rc;
}

static int check_choices(const struct pare_alloc_problem *p, const int *choice,
                         struct pare_err *err)
{
    for (int v = 0; v < p->n_vars; v++)
        if (choice[v] < 0 || choice[v] >= p->vars[v].n)
            return pare_fail(err, PARE_ECONFIG, "variable %d has choice %d, must be in [0, %d]", v,
                             choice[v], p->vars[v].n - 1);
    return 0;
}

int pare_alloc_evaluate(const struct pare_alloc_problem *p, const int *choice,
                        struct pare_arena *arena, struct pare_alloc_result *r, struct pare_err *err)
{
    struct pare_mark mark = pare_mark(arena);
    struct pare_alloc_state s;
    int rc = pare_alloc_state_init(&s, p, arena, err);

    if (!rc)
        rc = check_choices(p, choice, err);
    if (!rc)
        fill_result(&s, choice, r);
    pare_reset(arena, mark);
    return rc;
}

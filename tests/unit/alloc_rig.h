/* alloc_rig.h - fixture for tests of budget allocation: random networks and brute force. */
#ifndef PARE_TESTS_ALLOC_RIG_H
#define PARE_TESTS_ALLOC_RIG_H

#include "arena_rig.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "search/solver.h"

/* ---- problems -------------------------------------------------------------------------------- */

#define MOST_VARS 256
#define MOST_FACTORS 512

static const char *const names[] = { "lagrange", "fastnas", "halp", "spdy", "uniform" };

struct rig {
    struct pare_alloc_problem p;
    struct pare_alloc_var var[MOST_VARS];
    struct pare_alloc_factor factor[MOST_FACTORS];
    struct pare_rng rng;
    int choice[MOST_VARS];
    struct pare_alloc_result r;
};

static inline void begin(struct rig *r, uint64_t seed, int n_budgets)
{
    memset(r, 0, sizeof(*r));
    pare_rng_init(&r->rng, seed);
    r->p.vars = r->var;
    r->p.factors = r->factor;
    r->p.n_budgets = n_budgets;
}

static inline double uniform(struct rig *r, double low, double high)
{
    return low + (high - low) * pare_rng_uniform(&r->rng);
}

static inline int add_var(struct rig *r, int n)
{
    assert_true(r->p.n_vars < MOST_VARS);
    r->var[r->p.n_vars] = (struct pare_alloc_var){ "v", n };
    return r->p.n_vars++;
}

static inline int cells(const struct rig *r, const struct pare_alloc_factor *f)
{
    int n = 1;

    for (int k = 0; k < f->n_vars; k++)
        n *= r->var[f->var[k]].n;
    return n;
}

/* A factor whose tables are 0. */
static inline struct pare_alloc_factor *add_factor(struct rig *r, int n, const int *var)
{
    struct pare_alloc_factor *f = &r->factor[r->p.n_factors++];
    int *copy = pare_alloc(arena, (size_t)n + 1, sizeof(*copy));

    assert_true(r->p.n_factors <= MOST_FACTORS);
    memcpy(copy, var, (size_t)n * sizeof(*var));
    f->n_vars = n;
    f->var = copy;
    f->error = pare_alloc(arena, (size_t)cells(r, f), sizeof(double));
    for (int b = 0; b < r->p.n_budgets; b++)
        f->cost[b] = pare_alloc(arena, (size_t)cells(r, f), sizeof(double));
    return f;
}

static inline double *error_of(struct pare_alloc_factor *f)
{
    return (double *)(uintptr_t)f->error;
}

static inline double *cost_of(struct pare_alloc_factor *f, int b)
{
    return (double *)(uintptr_t)f->cost[b];
}

/* A set of channels: an error that grows with what is removed, mostly. */
static inline int add_set(struct rig *r, int n)
{
    int v = add_var(r, n);
    double *e = error_of(add_factor(r, 1, &v)), scale = uniform(r, 0.1, 1);

    for (int c = 1; c < n; c++)
        e[c] = scale * pow((double)c / n, uniform(r, 1.2, 2.5)) * uniform(r, 0.8, 1.25);
    return v;
}

/* A layer: its time is that of its channels and its format, with a staircase and noise. */
static inline void add_layer(struct rig *r, int in, int out, int format)
{
    int var[3] = { in, out, format }, n_in = r->var[in].n, n_out = r->var[out].n;
    struct pare_alloc_factor *f = add_factor(r, 3, var);
    static const double speed[] = { 1, 0.41, 0.8, 0.3 }, bits[] = { 32, 8, 4, 9 };
    double work = uniform(r, 0.5, 3), noise = uniform(r, 0.01, 0.1);

    for (int a = 0; a < n_in; a++)
        for (int b = 0; b < n_out; b++)
            for (int k = 0; k < r->var[format].n; k++) {
                int cell = (a * n_out + b) * r->var[format].n + k;
                double kept = (1 - (double)a / (n_in + 1)) * (1 - (double)b / (n_out + 1));

                error_of(f)[cell] = noise * k * k * kept;
                cost_of(f, 0)[cell] = work * (0.05 + kept * speed[k % 4]) * uniform(r, 0.95, 1.05);
                if (r->p.n_budgets > 1)
                    cost_of(f, 1)[cell] = work * kept * bits[k % 4];
                if (r->p.n_budgets > 2)
                    cost_of(f, 2)[cell] = work * kept;
            }
}

/* A chain of layers, each with a format; ends are fixed. */
static inline void chain(struct rig *r, int n_sets, int choices, int formats)
{
    int last = add_var(r, 1);

    for (int i = 0; i <= n_sets; i++) {
        int next = i < n_sets ? add_set(r, choices) : add_var(r, 1);

        add_layer(r, last, next, add_var(r, formats));
        last = next;
    }
}

/* Stages of blocks with an inner set each; all blocks of a stage share the stage's set. */
static inline void residual(struct rig *r, int stages, int blocks, int choices, int formats)
{
    int last = add_set(r, choices);

    add_layer(r, add_var(r, 1), last, add_var(r, formats));
    for (int s = 0; s < stages; s++) {
        int stage = s ? add_set(r, choices) : last;

        for (int b = 0; b < blocks; b++) {
            int inner = add_set(r, choices);

            add_layer(r, b ? stage : last, inner, add_var(r, formats));
            add_layer(r, inner, stage, add_var(r, formats));
        }
        last = stage;
    }
    add_layer(r, last, add_var(r, 1), add_var(r, formats));
}

/* ---- brute force ---------------------------------------------------------------------------- */

static inline bool next_choice(const struct rig *r, int *choice)
{
    for (int v = r->p.n_vars - 1; v >= 0; v--) {
        if (++choice[v] < r->var[v].n)
            return true;
        choice[v] = 0;
    }
    return false;
}

static inline void sum_all(const struct rig *r, const int *choice, double *error, double *cost)
{
    *error = 0;
    for (int b = 0; b < r->p.n_budgets; b++)
        cost[b] = r->p.fixed[b];
    for (int i = 0; i < r->p.n_factors; i++) {
        const struct pare_alloc_factor *f = &r->factor[i];
        int cell = 0;

        for (int k = 0; k < f->n_vars; k++)
            cell = cell * r->var[f->var[k]].n + choice[f->var[k]];
        *error += f->error ? f->error[cell] : 0;
        for (int b = 0; b < r->p.n_budgets; b++)
            cost[b] += f->cost[b] ? f->cost[b][cell] : 0;
    }
}

/* All assignments at once, so that many limits can be tried. */
struct table {
    int n;
    double *error, *cost[PARE_BUDGETS];
};

static inline void list_all(const struct rig *r, struct table *t)
{
    int choice[MOST_VARS] = { 0 }, n = 1;

    for (int v = 0; v < r->p.n_vars; v++)
        n *= r->var[v].n;
    t->n = n;
    t->error = pare_alloc(arena, (size_t)n, sizeof(double));
    for (int b = 0; b < r->p.n_budgets; b++)
        t->cost[b] = pare_alloc(arena, (size_t)n, sizeof(double));
    for (int i = 0; i < n; i++) {
        double cost[PARE_BUDGETS];

        sum_all(r, choice, &t->error[i], cost);
        for (int b = 0; b < r->p.n_budgets; b++)
            t->cost[b][i] = cost[b];
        next_choice(r, choice);
    }
}

/* The least error within the limits; infinity: none. */
static inline double least_error(const struct rig *r, const struct table *t)
{
    double least = INFINITY;

    for (int i = 0; i < t->n; i++) {
        bool fits = true;

        for (int b = 0; b < r->p.n_budgets; b++)
            fits = fits && t->cost[b][i] <= r->p.limit[b];
        if (fits && t->error[i] < least)
            least = t->error[i];
    }
    return least;
}

static inline double smallest(const double *x, int n)
{
    double least = x[0];

    for (int i = 1; i < n; i++)
        least = x[i] < least ? x[i] : least;
    return least;
}

static inline void solve(struct rig *r, const char *solver)
{
    double error, cost[PARE_BUDGETS];

    assert_int_equal(pare_alloc_solve(&r->p, solver, arena, r->choice, &r->r, &err), 0);
    sum_all(r, r->choice, &error, cost);
    if (isfinite(error))
        assert_true(fabs(error - r->r.error) <= 1e-12 * fabs(error));
    for (int b = 0; b < r->p.n_budgets; b++) {
        assert_true(fabs(cost[b] - r->r.cost[b]) <= 1e-12 * fabs(cost[b]));
        if (r->r.feasible)
            assert_true(r->r.cost[b] <= r->p.limit[b]);
    }
}

/* Random limits against brute force: returns how many of n are equal; none is worse by 1%. */
static inline int count_equal(struct rig *r, int n)
{
    struct table t;
    int equal = 0;

    list_all(r, &t);
    for (int i = 0; i < n; i++) {
        double best;

        for (int b = 0; b < r->p.n_budgets; b++) {
            double low = smallest(t.cost[b], t.n);

            r->p.limit[b] = uniform(r, low, low + 0.9 * (t.cost[b][0] - low));
        }
        best = least_error(r, &t);
        solve(r, NULL);
        assert_int_equal(r->r.feasible, isfinite(best));
        if (!isfinite(best)) {
            equal++;
            continue;
        }
        assert_true(r->r.error <= best + 0.01 * fabs(best) + 1e-12);
        assert_true(r->r.bound <= best + 1e-9 * fabs(best));
        if (r->r.optimal)
            assert_true(r->r.error <= best + 1e-9 * fabs(best));
        equal += r->r.error <= best + 1e-9 * fabs(best);
    }
    return equal;
}

#endif

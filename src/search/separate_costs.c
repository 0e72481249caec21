/* separate_costs.c - errors and costs of each variable alone, and a knapsack over them. */
#include "separate_costs.h"

#include <math.h>
#include <string.h>

#include "../base/arena.h"
#include "local_search.h"

int pare_separate_init(const struct pare_alloc_state *s, struct pare_separate *t,
                       struct pare_err *err)
{
    int n = s->p->n_vars, *dense = pare_alloc(s->arena, (size_t)n + 1, sizeof(*dense));
    size_t rows;

    t->first = pare_alloc(s->arena, (size_t)n + 1, sizeof(*t->first));
    if (!dense || !t->first)
        return pare_no_memory(err, "for separate costs");
    for (int v = 0; v < n; v++)
        t->first[v + 1] = t->first[v] + s->p->vars[v].n;
    rows = (size_t)t->first[n];
    t->error = pare_alloc(s->arena, rows + 1, sizeof(*t->error));
    t->cost = pare_alloc(s->arena, rows + 1, sizeof(*t->cost));
    if (!t->error || !t->cost)
        return pare_no_memory(err, "for separate costs");
    for (int v = 0; v < n; v++)
        for (int c = 0; c < s->p->vars[v].n; c++)
            t->error[t->first[v] + c] = pare_alloc_single_error(s, dense, v, c);
    return 0;
}

void pare_separate_costs(const struct pare_alloc_state *s, struct pare_separate *t, int *center,
                         int b)
{
    for (int v = 0; v < s->p->n_vars; v++)
        for (int c = 0; c < s->p->vars[v].n; c++) {
            struct pare_alloc_move m = { { v, -1 }, { c, 0 } };
            struct pare_alloc_sums d;

            pare_alloc_change(s, center, &m, &d);
            t->cost[t->first[v] + c] = d.cost[b];
        }
}

/* ---- knapsack -------------------------------------------------------------------------------- */

struct knapsack {
    const struct pare_separate *t;
    int n_buckets;
    double bucket;        /* cost of one */
    double *least, *next; /* (n_buckets + 1) the least error with at most k buckets */
    int *taken;           /* (n_vars, n_buckets + 1) choices; -1: none */
};

/* The allowed choice with the smallest cost. */
static int cheapest(const struct pare_separate *t, int v)
{
    int n = t->first[v + 1] - t->first[v], best = -1;

    for (int c = 0; c < n; c++)
        if (isfinite(t->error[t->first[v] + c]) &&
            (best < 0 || t->cost[t->first[v] + c] < t->cost[t->first[v] + best]))
            best = c;
    return best < 0 ? 0 : best;
}

/* Buckets of a choice more than those of the cheapest. */
static int64_t buckets(const struct knapsack *k, int v, int c, int cheap)
{
    const double *cost = k->t->cost + k->t->first[v];
    double n = ceil((cost[c] - cost[cheap]) / k->bucket - 1e-9);

    return n > k->n_buckets ? k->n_buckets + 1 : n > 0 ? (int64_t)n : 0;
}

static void add_variable(struct knapsack *k, int v)
{
    int n = k->t->first[v + 1] - k->t->first[v], cheap = cheapest(k->t, v);
    int *taken = k->taken + (int64_t)v * (k->n_buckets + 1);
    double *swap = k->least;

    for (int j = 0; j <= k->n_buckets; j++) {
        k->next[j] = INFINITY;
        taken[j] = -1;
    }
    for (int c = 0; c < n; c++) {
        double error = k->t->error[k->t->first[v] + c];
        int64_t used = buckets(k, v, c, cheap);

        if (!isfinite(error))
            continue;
        for (int64_t j = used; j <= k->n_buckets; j++)
            if (k->least[j - used] + error < k->next[j]) {
                k->next[j] = k->least[j - used] + error;
                taken[j] = c;
            }
    }
    k->least = k->next;
    k->next = swap;
}

static void read_choices(const struct knapsack *k, int n_vars, int *choice)
{
    int64_t left = k->n_buckets;

    for (int v = n_vars - 1; v >= 0; v--) {
        int cheap = cheapest(k->t, v), c = k->taken[(int64_t)v * (k->n_buckets + 1) + left];

        choice[v] = c < 0 ? cheap : c;
        left -= c < 0 ? 0 : buckets(k, v, c, cheap);
    }
}

int pare_separate_knapsack(const struct pare_alloc_state *s, const struct pare_separate *t,
                           double budget, int n_buckets, int *choice, struct pare_err *err)
{
    struct knapsack k = { .t = t, .n_buckets = n_buckets };
    struct pare_mark mark = pare_mark(s->arena);
    size_t n = (size_t)n_buckets + 1;

    for (int v = 0; v < s->p->n_vars; v++) {
        choice[v] = cheapest(t, v);
        budget -= t->cost[t->first[v] + choice[v]];
    }
    if (!(budget > 0) || isinf(budget))
        return 0;
    k.bucket = budget / n_buckets;
    k.least = pare_alloc(s->arena, n, sizeof(double));
    k.next = pare_alloc(s->arena, n, sizeof(double));
    k.taken = pare_alloc_raw(s->arena, n * ((size_t)s->p->n_vars + 1), sizeof(int));
    if (!k.least || !k.next || !k.taken)
        return pare_no_memory(err, "for a knapsack");
    for (int v = 0; v < s->p->n_vars; v++)
        add_variable(&k, v);
    read_choices(&k, s->p->n_vars, choice);
    pare_reset(s->arena, mark);
    return 0;
}

/* ---- limits ----------------------------------------------------------------------------- */

extern const struct pare_alloc_solver pare_alloc_solver_lagrange;

static bool holds(const struct pare_alloc_state *s, const int *choice)
{
    struct pare_alloc_sums sum;

    pare_alloc_sum(s, choice, &sum);
    return pare_alloc_feasible(s, &sum);
}

int pare_alloc_ensure(struct pare_alloc_state *s, int *choice, struct pare_err *err)
{
    pare_alloc_repair(s, choice);
    if (holds(s, choice))
        return 0;
    for (int v = 0; v < s->p->n_vars; v++)
        choice[v] = s->p->vars[v].n - 1;
    pare_alloc_repair(s, choice);
    if (holds(s, choice))
        return 0;
    memset(choice, 0, (size_t)s->p->n_vars * sizeof(*choice));
    PARE_TRY(pare_alloc_solver_lagrange.solve(s, choice, err));
    s->optimal = s->exact_steps = false; /* of the limits, not of this solver */
    s->bound = -INFINITY;
    s->width = -1;
    return 0;
}

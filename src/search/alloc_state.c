/* alloc_state.c - a checked allocation problem with its adjacency: sums, moves and violations. */
#include "alloc_state.h"

#include <math.h>
#include <string.h>

#include "../base/arena.h"

/* Cells of one factor; larger tables are a mistake of the caller. */
#define MOST_CELLS ((int64_t)1 << 26)

static int check_table(const struct pare_alloc_problem *p, int f, int64_t cells,
                       struct pare_err *err)
{
    const struct pare_alloc_factor *a = &p->factors[f];

    for (int64_t i = 0; a->error && i < cells; i++)
        if (isnan(a->error[i]) || a->error[i] == -INFINITY)
            return pare_fail(err, PARE_ECONFIG, "factor %d has an error of %g", f, a->error[i]);
    for (int b = 0; b < p->n_budgets; b++)
        for (int64_t i = 0; a->cost[b] && i < cells; i++)
            if (!isfinite(a->cost[b][i]))
                return pare_fail(err, PARE_ECONFIG, "factor %d has a cost of %g, must be finite", f,
                                 a->cost[b][i]);
    return 0;
}

static int fill_term(struct pare_alloc_state *s, int f, struct pare_err *err)
{
    const struct pare_alloc_factor *a = &s->p->factors[f];
    struct pare_alloc_term *t = &s->term[f];

    if (a->n_vars < 0 || a->n_vars > PARE_FACTOR_VARS)
        return pare_fail(err, PARE_ECONFIG, "factor %d has %d variables, at most %d are supported",
                         f, a->n_vars, PARE_FACTOR_VARS);
    t->cells = 1;
    for (int i = a->n_vars - 1; i >= 0; i--) {
        int k = 0;

        if (a->var[i] < 0 || a->var[i] >= s->p->n_vars)
            return pare_fail(err, PARE_ECONFIG, "factor %d has variable %d of %d", f, a->var[i],
                             s->p->n_vars);
        while (k < t->n && t->var[k] != a->var[i])
            k++;
        if (k == t->n)
            t->var[t->n++] = a->var[i];
        t->stride[k] += t->cells;
        if (t->cells > MOST_CELLS / s->p->vars[a->var[i]].n)
            return pare_fail(err, PARE_ELIMIT, "factor %d has more than %lld cells", f,
                             (long long)MOST_CELLS);
        t->cells *= s->p->vars[a->var[i]].n;
    }
    return check_table(s->p, f, t->cells, err);
}

/* Counting sort: first[v + 1] is the start of v while the list is filled, then its end. */
static void list_factors(struct pare_alloc_state *s)
{
    for (int f = 0; f < s->p->n_factors; f++)
        for (int k = 0; k < s->term[f].n; k++)
            s->first[s->term[f].var[k] + 2]++;
    for (int v = 0; v < s->p->n_vars; v++)
        s->first[v + 2] += s->first[v + 1];
    for (int f = 0; f < s->p->n_factors; f++)
        for (int k = 0; k < s->term[f].n; k++)
            s->list[s->first[s->term[f].var[k] + 1]++] = f;
}

static int check_limits(struct pare_alloc_state *s, struct pare_err *err)
{
    const struct pare_alloc_problem *p = s->p;

    if (p->n_vars < 0 || p->n_vars > PARE_ALLOC_VARS || p->n_factors < 0)
        return pare_fail(err, PARE_ELIMIT, "%d variables, at most %d are supported", p->n_vars,
                         PARE_ALLOC_VARS);
    if (p->n_budgets < 0 || p->n_budgets > PARE_BUDGETS)
        return pare_fail(err, PARE_ECONFIG, "%d budgets, at most %d are supported", p->n_budgets,
                         PARE_BUDGETS);
    for (int b = 0; b < p->n_budgets; b++) {
        if (!(p->limit[b] > -INFINITY) || !isfinite(p->fixed[b]))
            return pare_fail(err, PARE_ECONFIG, "budget %d is %g with a fixed cost of %g", b,
                             p->limit[b], p->fixed[b]);
        s->scale[b] = p->limit[b] != 0 && isfinite(p->limit[b]) ? fabs(p->limit[b]) : 1;
    }
    for (int v = 0; v < p->n_vars; v++) {
        if (p->vars[v].n < 1)
            return pare_fail(err, PARE_ECONFIG, "variable %d '%s' has %d choices, must have one", v,
                             p->vars[v].name ? p->vars[v].name : "", p->vars[v].n);
        s->most = p->vars[v].n > s->most ? p->vars[v].n : s->most;
    }
    return 0;
}

int pare_alloc_state_init(struct pare_alloc_state *s, const struct pare_alloc_problem *p,
                          struct pare_arena *arena, struct pare_err *err)
{
    size_t n = (size_t)(p->n_factors > 0 ? p->n_factors : 0);

    *s = (struct pare_alloc_state){ .p = p, .arena = arena, .bound = -INFINITY, .width = -1 };
    PARE_TRY(check_limits(s, err));
    s->term = pare_alloc(arena, n + 1, sizeof(*s->term));
    s->first = pare_alloc(arena, (size_t)p->n_vars + 2, sizeof(*s->first));
    s->list = pare_alloc(arena, n * PARE_FACTOR_VARS + 1, sizeof(*s->list));
    if (!s->term || !s->first || !s->list)
        return pare_no_memory(err, "for the factors of a budget");
    for (int f = 0; f < p->n_factors; f++)
        PARE_TRY(fill_term(s, f, err));
    list_factors(s);
    return 0;
}

/* ---- sums ---------------------------------------------------------------------------------- */

int64_t pare_alloc_cell(const struct pare_alloc_term *t, const int *choice)
{
    int64_t i = 0;

    for (int k = 0; k < t->n; k++)
        i += choice[t->var[k]] * t->stride[k];
    return i;
}

static void add_cell(const struct pare_alloc_problem *p, int f, int64_t cell, int sign,
                     struct pare_alloc_sums *sum)
{
    const struct pare_alloc_factor *a = &p->factors[f];

    if (a->error && isinf(a->error[cell]))
        sum->forbidden += sign;
    else if (a->error)
        sum->error += sign * a->error[cell];
    for (int b = 0; b < p->n_budgets; b++)
        if (a->cost[b])
            sum->cost[b] += sign * a->cost[b][cell];
}

void pare_alloc_sum(const struct pare_alloc_state *s, const int *choice,
                    struct pare_alloc_sums *sum)
{
    *sum = (struct pare_alloc_sums){ 0 };
    for (int b = 0; b < s->p->n_budgets; b++)
        sum->cost[b] = s->p->fixed[b];
    for (int f = 0; f < s->p->n_factors; f++)
        add_cell(s->p, f, pare_alloc_cell(&s->term[f], choice), 1, sum);
}

static bool has_var(const struct pare_alloc_term *t, int v)
{
    for (int k = 0; k < t->n; k++)
        if (t->var[k] == v)
            return true;
    return false;
}

/* Add or subtract the factors of the variables of the move, each once. */
static void add_neighbors(const struct pare_alloc_state *s, const int *choice,
                          const struct pare_alloc_move *m, int sign, struct pare_alloc_sums *d)
{
    for (int k = 0; k < 2 && m->var[k] >= 0; k++)
        for (int i = s->first[m->var[k]]; i < s->first[m->var[k] + 1]; i++) {
            const struct pare_alloc_term *t = &s->term[s->list[i]];

            if (!k || !has_var(t, m->var[0]))
                add_cell(s->p, s->list[i], pare_alloc_cell(t, choice), sign, d);
        }
}

void pare_alloc_change(const struct pare_alloc_state *s, int *choice,
                       const struct pare_alloc_move *m, struct pare_alloc_sums *d)
{
    struct pare_alloc_move back = *m;

    *d = (struct pare_alloc_sums){ 0 };
    for (int k = 0; k < 2 && m->var[k] >= 0; k++)
        back.to[k] = choice[m->var[k]];
    add_neighbors(s, choice, m, -1, d);
    pare_alloc_apply(choice, m);
    add_neighbors(s, choice, m, 1, d);
    pare_alloc_apply(choice, &back);
}

void pare_alloc_apply(int *choice, const struct pare_alloc_move *m)
{
    for (int k = 0; k < 2 && m->var[k] >= 0; k++)
        choice[m->var[k]] = m->to[k];
}

double pare_alloc_violation(const struct pare_alloc_state *s, const struct pare_alloc_sums *sum)
{
    double v = 0;

    for (int b = 0; b < s->p->n_budgets; b++)
        if (sum->cost[b] > s->p->limit[b])
            v += (sum->cost[b] - s->p->limit[b]) / s->scale[b];
    return v;
}

bool pare_alloc_feasible(const struct pare_alloc_state *s, const struct pare_alloc_sums *sum)
{
    for (int b = 0; b < s->p->n_budgets; b++)
        if (sum->cost[b] > s->p->limit[b])
            return false;
    return !sum->forbidden;
}

bool pare_alloc_better(const struct pare_alloc_state *s, const struct pare_alloc_sums *a,
                       const struct pare_alloc_sums *b)
{
    double va = pare_alloc_violation(s, a), vb = pare_alloc_violation(s, b);

    if (a->forbidden != b->forbidden)
        return a->forbidden < b->forbidden;
    if (va != vb)
        return va < vb;
    return a->error < b->error;
}

int pare_alloc_tightest(const struct pare_alloc_state *s)
{
    struct pare_alloc_sums dense = { 0 };
    double most = -INFINITY;
    int best = -1;

    for (int b = 0; b < s->p->n_budgets; b++)
        dense.cost[b] = s->p->fixed[b];
    for (int f = 0; f < s->p->n_factors; f++)
        add_cell(s->p, f, 0, 1, &dense);
    for (int b = 0; b < s->p->n_budgets; b++) {
        double over = (dense.cost[b] - s->p->limit[b]) / s->scale[b];

        if (over > most || best < 0) {
            most = over;
            best = b;
        }
    }
    return best;
}

double pare_alloc_single_error(const struct pare_alloc_state *s, int *dense, int v, int c)
{
    struct pare_alloc_move m = { { v, -1 }, { c, 0 } };
    struct pare_alloc_sums d;

    pare_alloc_change(s, dense, &m, &d);
    return d.forbidden > 0 ? INFINITY : d.error;
}

/* branch_bound.c - enumeration of all assignments that can be better than a known one, with the
 * messages of the elimination as bounds. */
#include "branch_bound.h"

#include <math.h>
#include <string.h>

#include "../base/arena.h"

/* Partial assignments per call, over all rounds. */
#define MOST_NODES 1000000
/* Rounds: only assignments within 1/64, 1/16, 1/4 and all of the gap, because a depth-first search
 * that runs out of time should have tried the best ones. */
#define FIRST_ROUND (1.0 / 64)
/* Sums of different order differ by rounding. */
#define ROUNDING 1e-11

/* Sets of bounds: the Lagrangian, the error, each cost. */
#define SETS (2 + PARE_BUDGETS)

struct depth {
    double bound[SETS]; /* of the assignment up to here */
    double *sum;        /* (SETS, choices of the variable) */
    int *order;         /* (choices) by the Lagrangian */
};

struct branch {
    const struct pare_elim *e;
    int n_sets;
    struct pare_elim_tables t[SETS];
    double limit[SETS], slack[SETS]; /* a bound may be up to limit, with rounding */
    double gap;                      /* allowed part of the Lagrangian's gap */
    double right;                    /* w * limit, without fixed costs */
    struct depth *depth;             /* (n_vars + 1) */
    int *at, *best;                  /* assignments: current, best */
    double error;                    /* of the best; infinity: none */
    int64_t nodes;
    bool cut; /* out of nodes */
};

static int prepare(struct branch *x, const struct pare_alloc_weights *w, struct pare_err *err)
{
    const struct pare_alloc_state *s = x->e->s;
    struct pare_alloc_weights set[SETS] = { *w, { .error = 1 } };

    x->n_sets = 2 + s->p->n_budgets;
    for (int k = 0; k < x->n_sets; k++) {
        if (k >= 2)
            set[k].cost[k - 2] = 1;
        PARE_TRY(pare_elim_tables_init(x->e, &x->t[k], err));
        pare_elim_run(x->e, &set[k], &x->t[k]);
    }
    for (int b = 0; b < s->p->n_budgets; b++) {
        x->limit[2 + b] = s->p->limit[b] - s->p->fixed[b];
        x->slack[2 + b] = ROUNDING * (fabs(s->p->limit[b]) + fabs(s->p->fixed[b]));
        if (w->cost[b] > 0)
            x->right += w->cost[b] * x->limit[2 + b];
    }
    x->depth = pare_alloc(s->arena, (size_t)s->p->n_vars + 1, sizeof(*x->depth));
    x->at = pare_alloc(s->arena, (size_t)s->p->n_vars + 1, sizeof(*x->at));
    if (!x->depth || !x->at)
        return pare_no_memory(err, "for a search");
    for (int i = 0; i < s->p->n_vars; i++) {
        size_t n = (size_t)s->p->vars[x->e->step[i].var].n;

        x->depth[i].sum = pare_alloc(s->arena, n * SETS, sizeof(double));
        x->depth[i].order = pare_alloc(s->arena, n, sizeof(int));
        if (!x->depth[i].sum || !x->depth[i].order)
            return pare_no_memory(err, "for a search");
    }
    return 0;
}

/* Bounds follow from the best error so far. */
static void update_limits(struct branch *x)
{
    double all = x->error + x->right, least = x->t[0].least;

    x->limit[1] = x->error;
    x->slack[1] = -ROUNDING * fabs(x->error);
    x->limit[0] = least + x->gap * (all - least);
    x->slack[0] = ROUNDING * (fabs(least) + (isfinite(all) ? fabs(all) : 0));
    if (!isfinite(x->error))
        x->slack[1] = 0;
}

static bool pruned(const struct branch *x, const double *bound)
{
    for (int k = 0; k < x->n_sets; k++)
        if (bound[k] > x->limit[k] + x->slack[k] || isinf(bound[k]))
            return true;
    return bound[1] >= x->limit[1] + x->slack[1];
}

/* Bounds of all choices at this depth, and their order: smallest Lagrangian first, then smallest
 * choice. */
static void expand(struct branch *x, int i)
{
    const struct pare_elim_step *st = &x->e->step[i];
    int n = x->e->s->p->vars[st->var].n, message = x->e->s->p->n_factors + st->var;
    int64_t cell = pare_elim_cell(x->e, st, x->at);
    struct depth *d = &x->depth[i];

    for (int k = 0; k < x->n_sets; k++) {
        double *sum = d->sum + k * n, rest = d->bound[k] - x->t[k].table[message][cell];

        pare_elim_sums(x->e, st, &x->t[k], x->at, sum);
        for (int c = 0; c < n; c++)
            sum[c] += rest;
    }
    for (int c = 0; c < n; c++) {
        int j = c;

        for (; j > 0 && d->sum[d->order[j - 1]] > d->sum[c]; j--)
            d->order[j] = d->order[j - 1];
        d->order[j] = c;
    }
}

static void accept(struct branch *x)
{
    const struct pare_alloc_state *s = x->e->s;
    struct pare_alloc_sums sum;

    pare_alloc_sum(s, x->at, &sum);
    if (!pare_alloc_feasible(s, &sum) || sum.error >= x->error)
        return;
    x->error = sum.error;
    memcpy(x->best, x->at, (size_t)s->p->n_vars * sizeof(*x->best));
    update_limits(x);
}

/* Assign the variable of step i, then those before it. */
static void descend(struct branch *x, int i)
{
    struct depth *d;
    int v, n;

    if (i < 0) {
        accept(x);
        return;
    }
    d = &x->depth[i];
    v = x->e->step[i].var;
    n = x->e->s->p->vars[v].n;
    expand(x, i);
    for (int j = 0; j < n && !x->cut; j++) {
        double bound[SETS];

        x->at[v] = d->order[j];
        for (int k = 0; k < x->n_sets; k++)
            bound[k] = d->sum[k * n + d->order[j]];
        if (pruned(x, bound))
            continue;
        if (++x->nodes > MOST_NODES)
            x->cut = true;
        else if (i > 0)
            memcpy(x->depth[i - 1].bound, bound, sizeof(bound));
        if (!x->cut)
            descend(x, i - 1);
    }
}

int pare_alloc_branch(const struct pare_elim *e, const struct pare_alloc_weights *w, int *choice,
                      bool *done, struct pare_err *err)
{
    int n = e->s->p->n_vars;
    struct branch x = { .e = e, .best = choice, .error = INFINITY };
    struct pare_alloc_sums sum;

    *done = false;
    PARE_TRY(prepare(&x, w, err));
    pare_alloc_sum(e->s, choice, &sum);
    if (pare_alloc_feasible(e->s, &sum))
        x.error = sum.error;
    for (x.gap = FIRST_ROUND; x.gap <= 1 && !x.cut; x.gap *= 4) {
        double bound[SETS] = { 0 };

        update_limits(&x);
        for (int k = 0; k < x.n_sets; k++)
            bound[k] = x.t[k].least;
        if (n > 0)
            memcpy(x.depth[n - 1].bound, bound, sizeof(bound));
        if (!pruned(&x, bound))
            descend(&x, n - 1);
    }
    *done = !x.cut;
    return 0;
}

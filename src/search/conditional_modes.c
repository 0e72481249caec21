/* conditional_modes.c - iterated conditional modes: each variable takes its best choice for those
 * of the others, for factor graphs whose elimination needs tables that are too large. */
#include "local_search.h"

#include <math.h>
#include <string.h>

#include "../base/rng.h"

#define STARTS 8
#define SWEEPS 100

/* A change of the weighted sum; forbidden factors first. */
struct delta {
    int forbidden;
    double value;
};

static struct delta weighted(const struct pare_alloc_state *s, const struct pare_alloc_weights *w,
                             const struct pare_alloc_sums *d)
{
    double value = w->error * d->error;

    for (int b = 0; b < s->p->n_budgets; b++)
        value += w->cost[b] * d->cost[b];
    return (struct delta){ d->forbidden, value };
}

static bool less(struct delta a, struct delta b)
{
    return a.forbidden != b.forbidden ? a.forbidden < b.forbidden : a.value < b.value;
}

/* Apply the move if it reduces the sum. */
static bool try_move(const struct pare_alloc_state *s, const struct pare_alloc_weights *w,
                     int *choice, const struct pare_alloc_move *m, double tolerance)
{
    struct pare_alloc_sums d;

    pare_alloc_change(s, choice, m, &d);
    if (!less(weighted(s, w, &d), (struct delta){ 0, -tolerance }))
        return false;
    pare_alloc_apply(choice, m);
    return true;
}

static bool move_singles(const struct pare_alloc_state *s, const struct pare_alloc_weights *w,
                         int *choice, double tolerance)
{
    bool moved = false;

    for (int v = 0; v < s->p->n_vars; v++)
        for (int c = 0; c < s->p->vars[v].n; c++)
            if (c != choice[v])
                moved |= try_move(s, w, choice, &(struct pare_alloc_move){ { v, -1 }, { c, 0 } },
                                  tolerance);
    return moved;
}

/* Pairs of variables of one factor. */
static bool move_pairs(const struct pare_alloc_state *s, const struct pare_alloc_weights *w,
                       int *choice, double tolerance)
{
    bool moved = false;

    for (int f = 0; f < s->p->n_factors; f++)
        for (int i = 0; i < s->term[f].n; i++)
            for (int j = 0; j < i; j++) {
                int v = s->term[f].var[i], u = s->term[f].var[j];

                for (int c = 0; c < s->p->vars[v].n; c++)
                    for (int k = 0; k < s->p->vars[u].n; k++)
                        moved |= try_move(s, w, choice,
                                          &(struct pare_alloc_move){ { v, u }, { c, k } },
                                          tolerance);
            }
    return moved;
}

static struct delta descend(const struct pare_alloc_state *s, const struct pare_alloc_weights *w,
                            int *choice)
{
    struct pare_alloc_sums sum;
    double tolerance;

    pare_alloc_sum(s, choice, &sum);
    tolerance = 1e-12 * fabs(weighted(s, w, &sum).value) + 1e-300;
    for (int i = 0; i < SWEEPS; i++)
        if (!move_singles(s, w, choice, tolerance) && !move_pairs(s, w, choice, tolerance))
            break;
    pare_alloc_sum(s, choice, &sum);
    return weighted(s, w, &sum);
}

void pare_alloc_modes(const struct pare_alloc_state *s, const struct pare_alloc_weights *w,
                      int *choice, int *scratch)
{
    struct delta best = descend(s, w, choice);
    struct pare_rng rng;

    pare_rng_init(&rng, 1);
    for (int start = 1; start < STARTS; start++) {
        struct delta found;

        for (int v = 0; v < s->p->n_vars; v++) {
            int n = s->p->vars[v].n;

            if (start <= 2)
                scratch[v] = start == 1 ? 0 : n - 1;
            else
                scratch[v] = (int)pare_rng_below(&rng, (uint64_t)n);
        }
        found = descend(s, w, scratch);
        if (less(found, best)) {
            best = found;
            memcpy(choice, scratch, (size_t)s->p->n_vars * sizeof(*choice));
        }
    }
}

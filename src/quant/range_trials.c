/* range_trials.c - choose the range of each quantized tensor among those of several observers, by
 * the error that each makes at the model's outputs.
 *
 * The squared error of the tensor itself is not the measure: the observer mse has the least by
 * construction, but clipping a few large values can cost more at the outputs than many small
 * errors.  Nor is the error with all tensors quantized: it is too large to be a sum of independent
 * parts, and it depends on the few items.  So a few items run through the model with one tensor
 * quantized and all others float, for each range of each tensor.  These errors are small and nearly
 * independent, so that each tensor takes the range with the least error.  Passes are limited: the
 * tensors whose ranges differ most are tried, and the others take the observer with the least sum
 * of errors over these.
 */
#include "range_trials.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../base/arena.h"
#include "quant_check.h"

#define NEAR 1.02  /* ratio of ranges that count as the same */
#define BETTER 0.9 /* times the noise of the observer for all: less replaces it */

struct trials {
    struct pare_compression *r;
    struct pare_range_trial *t;
    int n;
    pare_set_range_fn *set;
    bool (*was)[PARE_QUANT_SITES];
    int *order;              /* of tensors: those whose ranges differ most first */
    int best;                /* observer with the least sum of noise over the tried tensors */
    int at, observer, tried; /* position in `order`, observer, passes */
    int passes;              /* at most */
};

/* ---- ranges ---------------------------------------------------------------------------------- */

static double reach(const struct pare_range_trial *t, int k)
{
    return (double)(t->hi[k] > 0 ? t->hi[k] : 0) - (double)(t->lo[k] < 0 ? t->lo[k] : 0);
}

static bool near(double a, double b)
{
    return a <= b * NEAR && b <= a * NEAR;
}

static void find_equal(struct pare_range_trial *t)
{
    for (int k = 0; k < PARE_OBSERVERS; k++) {
        t->like[k] = k;
        for (int i = k - 1; i >= 0; i--)
            if (near(reach(t, k), reach(t, i)) && near((double)t->hi[k], (double)t->hi[i]))
                t->like[k] = t->like[i];
    }
}

/* The ratio of the largest range to the smallest. */
static double spread(const struct pare_range_trial *t)
{
    double lo = INFINITY, hi = 0;

    for (int k = 0; k < PARE_OBSERVERS; k++) {
        lo = reach(t, k) < lo ? reach(t, k) : lo;
        hi = reach(t, k) > hi ? reach(t, k) : hi;
    }
    return lo > 0 ? hi / lo : 0;
}

static void sort_by_spread(struct trials *s)
{
    for (int i = 0; i < s->n; i++) {
        int k = i;

        for (; k > 0 && spread(&s->t[s->order[k - 1]]) < spread(&s->t[i]); k--)
            s->order[k] = s->order[k - 1];
        s->order[k] = i;
    }
}

/* ---- points ---------------------------------------------------------------------------------- */

/* Quantizes only the points of one tensor, or all; place -1: all. */
static void enable(struct trials *s, int place)
{
    for (int i = 0; i < s->r->n_layers * PARE_QUANT_SITES; i++) {
        struct pare_layer *l = &s->r->layer[i / PARE_QUANT_SITES], *of = l;
        enum pare_quant_site site = (enum pare_quant_site)(i % PARE_QUANT_SITES), of_site = site;

        if (site != PARE_WEIGHT)
            pare_layer_twin(l, site, &of, &of_site);
        l->quant->quantized[site] = s->was[l->index][site] &&
                                    (place < 0 ||
                                     of->index * PARE_QUANT_SITES + (int)of_site == place);
    }
}

static int set_all(struct trials *s, int observer, struct pare_err *err)
{
    enable(s, -1);
    for (int i = 0; i < s->n; i++) {
        int k = observer < 0 ? s->t[i].best : observer;

        PARE_TRY(s->set(s->r, s->t[i].place, s->t[i].lo[k], s->t[i].hi[k], err));
    }
    return 0;
}

static int set_one(struct trials *s, struct pare_err *err)
{
    const struct pare_range_trial *t = &s->t[s->order[s->at]];

    enable(s, t->place);
    return s->set(s->r, t->place, t->lo[s->observer], t->hi[s->observer], err);
}

/* ---- passes ---------------------------------------------------------------------------------- */

static void choose(struct trials *s, struct pare_range_trial *t)
{
    double least;

    t->best = t->like[s->best];
    least = BETTER * t->noise[t->best];
    for (int k = 0; k < PARE_OBSERVERS; k++)
        if (t->noise[k] < least) {
            least = t->noise[k];
            t->best = k;
        }
}

/* The next single tensor and observer; false: none is left. */
static bool next_single(struct trials *s)
{
    for (; s->at < s->n; s->at++, s->observer = -1) {
        const struct pare_range_trial *t = &s->t[s->order[s->at]];

        if (s->observer < 0 && s->tried + PARE_OBSERVERS > s->passes)
            return false;
        while (++s->observer < PARE_OBSERVERS)
            if (t->like[s->observer] == s->observer && !near(spread(t), 1)) {
                s->tried++;
                return true;
            }
    }
    return false;
}

/* Prepares the next pass. */
static int next(void *user, const struct pare_output_error *last, bool *more, struct pare_err *err)
{
    struct trials *s = user;

    if (last)
        s->t[s->order[s->at]].noise[s->observer] = last->noise;
    *more = next_single(s);
    return *more ? set_one(s, err) : 0;
}

/* The observer with the least sum of noise over the tensors that were tried. */
static void find_best(struct trials *s)
{
    double sum[PARE_OBSERVERS] = { 0 };

    for (int i = 0; i < s->n; i++)
        for (int k = 0; k < PARE_OBSERVERS; k++)
            if (isfinite(s->t[i].noise[s->t[i].like[k]]))
                sum[k] += s->t[i].noise[s->t[i].like[k]];
    for (int k = 0; k < PARE_OBSERVERS; k++)
        if (sum[k] < sum[s->best])
            s->best = k;
}

int pare_choose_ranges(struct pare_compression *r, struct pare_range_trial *t, int n,
                       struct pare_trial_budget budget, pare_set_range_fn *set,
                       struct pare_err *err)
{
    struct pare_arena *a = pare_arena_new(1 << 12);
    struct trials s = { .r = r,
                        .t = t,
                        .n = n,
                        .set = set,
                        .best = 2,
                        .observer = -1,
                        .passes = budget.passes };
    int rc = 0;

    s.was = a ? pare_alloc(a, (size_t)r->n_layers, sizeof(*s.was)) : NULL;
    s.order = s.was ? pare_alloc(a, (size_t)n + 1, sizeof(*s.order)) : NULL;
    if (!s.order) {
        pare_arena_free(a);
        return pare_no_memory(err, "to choose ranges");
    }
    for (int i = 0; i < r->n_layers; i++)
        memcpy(s.was[i], r->layer[i].quant->quantized, sizeof(r->layer[i].quant->quantized));
    for (int i = 0; i < n; i++) {
        find_equal(&t[i]);
        for (int k = 0; k < PARE_OBSERVERS; k++)
            t[i].noise[k] = INFINITY;
        t[i].best = t[i].like[s.best];
    }
    sort_by_spread(&s);
    rc = pare_output_trials(r, budget.items, next, &s, err);
    find_best(&s);
    for (int i = 0; i < n; i++)
        choose(&s, &t[i]);
    if (!rc)
        rc = set_all(&s, -1, err);
    enable(&s, -1);
    pare_arena_free(a);
    return rc;
}

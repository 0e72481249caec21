/* range_trials.c - choose the range of each quantized tensor among those of several observers, by
 * the error that each makes at the model's outputs.
 *
 * The squared error of the tensor itself is not the measure: the observer mse has the least by
 * construction, but clipping a few large values can cost more at the outputs than many small
 * errors.  Nor is the error at the outputs with one tensor quantized: sums of such errors are far
 * from the error of all, so that the choice was worse than the best single observer on new items.
 * So a few items run through the model with all tensors in the ranges of one observer, for each
 * observer, and the one with the least error is taken for all.  Then the tensors are divided into
 * groups, those whose ranges differ most first, and each group as a whole tries the other
 * observers.  Clipping has to make the error clearly smaller: on new items, values beyond the
 * range are more frequent than on those that it was chosen with.
 */
#include "range_trials.h"

#include <math.h>
#include <string.h>

#include "../base/arena.h"
#include "quant_check.h"

#define NEAR 1.02  /* ratio of ranges that count as the same */
#define BETTER 0.8 /* times the noise so far, or that of the whole range: less replaces it */
#define GROUPS 2   /* of tensors */

struct trials {
    struct pare_compression *r;
    struct pare_range_trial *t;
    int n;
    pare_set_range_fn *set;
    bool (*was)[PARE_QUANT_SITES];
    int *order;                   /* of tensors: those whose ranges differ most first */
    double noise[PARE_OBSERVERS]; /* with one observer for all */
    double least;                 /* with the choice so far */
    int group, observer;          /* of this pass; group -1: all tensors */
    int better;                   /* observer that is better for the group so far; -1: none */
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

/* Quantizes inputs and outputs only, or all that was quantized before. */
static void enable(struct trials *s, bool all)
{
    for (int i = 0; i < s->r->n_layers; i++) {
        struct pare_layer_quant *q = s->r->layer[i].quant;

        memcpy(q->quantized, s->was[i], sizeof(q->quantized));
        q->quantized[PARE_WEIGHT] &= all;
    }
}

static bool in_group(const struct trials *s, int position)
{
    return s->group < 0 || (int64_t)position * GROUPS / s->n == s->group;
}

/* The ranges of this pass: the chosen ones, except for the group. */
static int set_ranges(struct trials *s, struct pare_err *err)
{
    for (int i = 0; i < s->n; i++) {
        const struct pare_range_trial *t = &s->t[s->order[i]];
        int k = in_group(s, i) ? s->observer : t->best;

        PARE_TRY(s->set(s->r, t->place, t->lo[k], t->hi[k], err));
    }
    return 0;
}

/* ---- passes ---------------------------------------------------------------------------------- */

/* Does the observer change a range of the group? */
static bool changes_any(const struct trials *s)
{
    for (int i = 0; i < s->n; i++) {
        const struct pare_range_trial *t = &s->t[s->order[i]];

        if (in_group(s, i) && (!near(reach(t, s->observer), reach(t, t->best)) ||
                               !near((double)t->hi[s->observer], (double)t->hi[t->best])))
            return true;
    }
    return false;
}

/* The choice of the group, or of all tensors. */
static void end_group(struct trials *s)
{
    for (int k = 0; k < PARE_OBSERVERS && s->group < 0; k++)
        if (s->noise[k] < (k && !s->better ? BETTER : 1) * s->least) {
            s->least = s->noise[k];
            s->better = k;
        }
    for (int i = 0; i < s->n && s->better >= 0; i++)
        if (in_group(s, i))
            s->t[s->order[i]].best = s->better;
    s->better = -1;
    s->observer = -1;
    s->group++;
}

static void take_noise(struct trials *s, double noise)
{
    if (s->group < 0)
        s->noise[s->observer] = noise;
    else if (noise < (s->better < 0 ? BETTER : 1) * s->least) {
        s->least = noise;
        s->better = s->observer;
    }
}

/* Prepares the next pass. */
static int next(void *user, const struct pare_output_error *last, bool *more, struct pare_err *err)
{
    struct trials *s = user;

    if (last)
        take_noise(s, last->cost);
    for (;; end_group(s)) {
        *more = s->group < GROUPS;
        if (!*more)
            return 0;
        while (++s->observer < PARE_OBSERVERS)
            if (s->group < 0 || changes_any(s))
                return set_ranges(s, err);
    }
}

int pare_choose_ranges(struct pare_compression *r, struct pare_range_trial *t, int n, int64_t items,
                       pare_set_range_fn *set, struct pare_err *err)
{
    struct pare_arena *a = pare_arena_new(1 << 12);
    struct trials s = { .r = r,
                        .t = t,
                        .n = n,
                        .set = set,
                        .least = INFINITY,
                        .group = -1,
                        .observer = -1,
                        .better = -1 };
    int rc = 0;

    s.was = a ? pare_alloc(a, (size_t)r->n_layers, sizeof(*s.was)) : NULL;
    s.order = s.was ? pare_alloc(a, (size_t)n + 1, sizeof(*s.order)) : NULL;
    if (!s.order) {
        pare_arena_free(a);
        return pare_no_memory(err, "to choose ranges");
    }
    for (int i = 0; i < r->n_layers; i++)
        memcpy(s.was[i], r->layer[i].quant->quantized, sizeof(r->layer[i].quant->quantized));
    for (int i = 0; i < n; i++)
        t[i].best = 0;
    sort_by_spread(&s);
    enable(&s, false);
    rc = pare_output_trials(r, items, (1 + GROUPS) * PARE_OBSERVERS, next, &s, err);
    s.group = GROUPS; /* no group: the chosen ranges */
    if (!rc)
        rc = set_ranges(&s, err);
    enable(&s, true);
    pare_arena_free(a);
    return rc;
}

/* budget_score.c - real losses of assignments: scores of candidates, and sensitivities of groups.
 *
 * The second-order estimates of budget_curves.c are of each group alone, at the original's weights.
 * Where a layer loses many of its channels they are several times too low, by another factor for
 * each group.  A few real losses of each group, after a quick repair, correct that.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "budget_search.h"

#include "../base/arena.h"
#include "../compress/repair.h"
#include "../data/data.h"
#include "../pipeline/finetune.h"
#include "../train/recalibrate.h"

#define FITTED 256 /* items of a quick repair */
#define SCORED 512 /* items that follow them, of a score */
#define PASSES 8   /* over the items */
#define FLOPS 2e9  /* multiplications per Gram of a quick repair */
#define BATCHES 8  /* of re-estimated statistics */
#define LEAST 1e-7 /* loss of a group that loses nothing */

static bool is_noise(const struct pare_budget_search *s)
{
    return s->o->sensitivity && !strcmp(s->o->sensitivity, "noise");
}

double pare_budget_loss(const struct pare_budget_search *s, const struct pare_output_distance *d)
{
    return is_noise(s) || isnan(d->divergence) ? d->noise : d->divergence;
}

void pare_budget_score_items(const struct pare_budget_search *s, struct pare_held_out *h)
{
    int64_t n = s->rest->n;

    *h = (struct pare_held_out){ .dense = s->model, .data = s->rest, .threads = s->o->threads };
    h->fitted = n / 2 < FITTED ? n / 2 : FITTED;
    h->items = n - h->fitted < SCORED ? n - h->fitted : SCORED;
}

/* ---- quick models ---------------------------------------------------------------------------- */

struct quick {
    struct pare_budget_search *s;
    struct pare_model *m; /* channels that are removed are 0 */
    struct pare_held_out held;
    double best;
};

static int measure(struct quick *q, struct pare_err *err)
{
    struct pare_output_distance d;

    PARE_TRY(pare_held_out_compare(&q->held, q->m, &d, err));
    q->best = fmin(q->best, pare_budget_loss(q->s, &d));
    return 0;
}

/* Least squares, then new statistics; the better one counts. */
static int repair(struct quick *q, struct pare_finetune *f, struct pare_err *err)
{
    struct pare_budget_search *s = q->s;
    struct pare_repair r = { .dense = s->model,
                             .data = s->rest,
                             .items = q->held.fitted,
                             .passes = PASSES,
                             .flops = FLOPS,
                             .threads = s->o->threads };
    struct pare_recalibrate_opts ro = { .batches = BATCHES, .seed = s->o->seed };
    int64_t done = 0;

    PARE_TRY(pare_finetune_options(f, err));
    PARE_TRY(pare_finetune_open(f, err));
    ro.batch = f->options->train.batch;
    PARE_TRY(pare_repair(q->m, &r, NULL, err));
    PARE_TRY(measure(q, err));
    PARE_TRY(pare_recalibrate(f->trainer, s->rest, &ro, &done, err));
    PARE_TRY(pare_correct_statistics(q->m, &r, err));
    return done || r.corrected ? measure(q, err) : 0;
}

static int score_channels(struct pare_budget_search *s, const int64_t *count, double *score,
                          struct pare_err *err)
{
    char settings[64];
    struct pare_tuning tuning = { s->rest, NULL, settings, NULL };
    struct quick q = { .s = s, .best = INFINITY };
    struct pare_finetune f;
    int rc;

    snprintf(settings, sizeof(settings), "seed=%llu threads=%d", (unsigned long long)s->o->seed,
             s->o->threads);
    pare_budget_score_items(s, &q.held);
    PARE_TRY(pare_model_duplicate(s->model, &q.m, err));
    rc = pare_cost_zero(q.m, &s->units, count, err);
    if (!rc)
        rc = pare_finetune_new(q.m, &tuning, &f, err);
    if (!rc) {
        rc = repair(&q, &f, err);
        pare_finetune_close(&f);
        pare_arena_free(f.arena);
    }
    pare_model_free(q.m);
    *score = q.best;
    return rc;
}

/* ---- scores ---------------------------------------------------------------------------------- */

/* Noise of all layers in int8, as expected. */
static double whole_noise(const struct pare_budget_search *s)
{
    double sum = 0;

    for (int l = 0; l < s->table->n_layers; l++)
        if (s->table->layer[l].formats & 1u << PARE_COST_INT8)
            sum += s->noise[l];
    return sum;
}

/* What turns the expected noise into a real loss. */
static double noise_times(const struct pare_budget_search *s)
{
    double sum = whole_noise(s);

    return s->rounded >= 0 && sum > 0 ? s->rounded / sum : 1;
}

int pare_budget_score(struct pare_budget_search *s, const struct pare_assignment *x, double *score,
                      struct pare_err *err)
{
    const struct pare_cost_table *t = s->table;
    double times = noise_times(s);
    bool full = true;

    if (pare_journal_next(&s->journal, score, 1))
        return 0;
    *score = 0;
    for (int g = 0; g < t->n_groups; g++)
        full &= x->count[g] >= t->group[g].full;
    if (!full)
        PARE_TRY(score_channels(s, x->count, score, err));
    for (int l = 0; l < t->n_layers && x->format; l++) {
        const struct pare_cost_layer *y = &t->layer[l];
        int64_t in = pare_cost_axis_count(&y->in, x->count);
        int64_t out = pare_cost_axis_count(&y->out, x->count);

        if (x->format[l] == PARE_COST_INT8)
            *score += times * s->noise[l] * (double)(in * out) / (double)(y->cin * y->cout);
    }
    return pare_journal_add(&s->journal, score, 1, err);
}

/* ---- sensitivities --------------------------------------------------------------------------- */

/* Of the choices from `first` to `last`, the i-th of `points` that are spread over them. */
static int spread(int first, int last, int points, int i)
{
    return points < 2 ? (first + last + 1) / 2 : first + i * (last - first) / (points - 1);
}

/* Factors between those of measured choices, by the logarithm of the count. */
static void scale_curve(const struct pare_cost_group *g, int first, const double *factor,
                        double *error)
{
    for (int k = first; k < g->n_choices - 1; k++) {
        int low = k, high = k;
        double part;

        while (low > first && !(factor[low] > 0))
            low--;
        while (high < g->n_choices - 2 && !(factor[high] > 0))
            high++;
        low = factor[low] > 0 ? low : high;
        high = factor[high] > 0 ? high : low;
        part = low == high ? 0
                           : log((double)g->choice[k] / (double)g->choice[low]) /
                                 log((double)g->choice[high] / (double)g->choice[low]);
        error[k] *= exp((1 - part) * log(factor[low]) + part * log(factor[high]));
    }
}

/* Errors do not decrease with fewer channels. */
static void make_monotone(const struct pare_cost_group *g, double *error)
{
    for (int k = g->n_choices - 2; k >= 0; k--)
        error[k] = fmax(error[k], error[k + 1]);
}

static int measure_choice(struct pare_budget_search *s, int at, int k, int64_t *count,
                          double *factor, struct pare_err *err)
{
    const struct pare_cost_group *g = &s->table->group[at];
    struct pare_assignment x = { count, NULL };
    double real;

    count[at] = g->choice[k];
    PARE_TRY(pare_budget_score(s, &x, &real, err));
    count[at] = g->full;
    s->error[at][k] = fmax(s->error[at][k], LEAST);
    *factor = fmax(real, LEAST) / s->error[at][k];
    return 0;
}

/* A branch that is removed has a loss of its own; the curve of the counts above 0 does not
 * extend to it. */
static int measure_group(struct pare_budget_search *s, int at, int points, int64_t *count,
                         struct pare_err *err)
{
    const struct pare_cost_group *g = &s->table->group[at];
    double factor[PARE_COST_CHOICES] = { 0 };
    int first = g->choice[0] == 0, last = g->n_choices - 2, below = last - first + 1;
    int n = points < below ? points : below;

    if (last < 0 || !isfinite(s->error[at][0]))
        return 0;
    if (first)
        PARE_TRY(measure_choice(s, at, 0, count, &factor[0], err));
    for (int i = 0; i < n; i++) {
        int k = spread(first, last, n, i);

        PARE_TRY(measure_choice(s, at, k, count, &factor[k], err));
    }
    if (first)
        s->error[at][0] *= factor[0];
    if (n > 0)
        scale_curve(g, first, factor, s->error[at]);
    make_monotone(g, s->error[at]);
    return 0;
}

/* What a removed branch costs is known from real losses alone. */
static void keep_branches(struct pare_budget_search *s)
{
    for (int g = 0; g < s->table->n_groups; g++)
        if (s->table->group[g].choice[0] == 0)
            s->error[g][0] = INFINITY;
}

int pare_budget_losses(struct pare_budget_search *s, int points, struct pare_err *err)
{
    const struct pare_cost_table *t = s->table;
    double times = noise_times(s);
    int64_t *count;

    if (points < 1)
        keep_branches(s);
    if (s->o->sensitivity && !strcmp(s->o->sensitivity, "fisher"))
        return 0;
    count = pare_alloc(s->arena, (size_t)t->n_groups + 1, sizeof(*count));
    if (!count)
        return pare_no_memory(err, "for error curves");
    for (int l = 0; l < t->n_layers; l++)
        s->noise[l] *= times;
    for (int g = 0; g < t->n_groups; g++)
        count[g] = t->group[g].full;
    for (int g = 0; g < t->n_groups && s->channels && points > 0; g++)
        PARE_TRY(measure_group(s, g, points, count, err));
    return 0;
}

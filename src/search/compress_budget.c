/* compress_budget.c - pare_compress_budget(): the search for a model within a budget. */
#include <math.h>
#include <string.h>

#include "budget_search.h"
#include "model_race.h"
#include "runner.h"

#include "../base/arena.h"
#include "../base/clock.h"
#include "../base/sized.h"
#include "../compress/held_out.h"
#include "../data/data.h"

#define HELD_PART 10   /* 1 / HELD_PART of the items of the data decide */
#define HELD_MOST 5000 /* items */
#define ROUNDS 8       /* models that are built for timing, for one limit */
#define REAL_ROUNDS 3  /* models that are built in full, for one limit */
#define RACE_SECONDS 0.8
#define MARGIN \
    0.985            /* of the latency limit, that the first model aims at, and of a limit that a
                      * model exceeded */
#define NEAR 1.04    /* parts of a limit within which a measurement is repeated */
#define TIGHTER 0.97 /* of the limit, after its solution was measured to exceed it */
#define BISECTIONS 6 /* limits that are tried for a bound of the accuracy alone */

/* A model that was built in full. */
struct trial {
    struct pare_model *model;
    struct pare_assignment x;
    double cost[PARE_BUDGET_KINDS], predicted[PARE_BUDGET_KINDS];
    double accuracy;           /* on the held-out items; -1: none */
    struct pare_paired paired; /* the same; n is 0: none */
    struct pare_output_distance d;
    bool budget_met, drop_met;
    bool feasible; /* the solver expects that the limits hold */
};

struct search {
    struct pare_budget_search s;
    struct pare_compress_budget_report *r;
    struct pare_budget_limits limits;
    double dense[PARE_BUDGET_KINDS]; /* costs of the original; latency in microseconds */
    double accuracy;                 /* of the original on the held-out items; -1: none */
    double start;
    struct trial best;
    struct pare_runner runner; /* with o->runner */
};

static void say(const struct search *w, const char *line)
{
    if (w->s.o->say && line)
        w->s.o->say(w->s.o->user, line);
}

static const char *elapsed(const struct search *w)
{
    return pare_sprintf(w->s.arena, "%.0f s", pare_now() - w->start);
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Items that decide are never fitted to. */
static int divide(struct search *w, struct pare_err *err)
{
    struct pare_data *data = w->s.o->data;
    int64_t n = data->n / HELD_PART;

    n = n > HELD_MOST ? HELD_MOST : n < 1 ? 1 : n;
    if (data->n < 2)
        return pare_fail(err, PARE_ECONFIG, "the data set has %lld items, and a search needs more",
                         (long long)data->n);
    PARE_TRY(pare_data_part(data, n, true, &w->s.held, err));
    return pare_data_part(data, n, false, &w->s.rest, err);
}

static int accuracy_of(struct search *w, const struct pare_model *m, double *accuracy,
                       struct pare_err *err)
{
    struct pare_evaluate_opts eo = { .threads = w->s.o->threads };
    struct pare_metrics metrics = { 0 };

    if (pare_journal_next(&w->s.journal, accuracy, 1))
        return 0;
    *accuracy = -1;
    if (w->s.held->y.data) {
        PARE_TRY(pare_evaluate(m, w->s.held, &eo, &metrics, err));
        *accuracy = metrics.top1;
    }
    return pare_journal_add(&w->s.journal, accuracy, 1, err);
}

/* Does the data have class labels, so that predictions can be compared one by one? */
static bool has_classes(const struct pare_data *d)
{
    return d->y.data && d->y.rank == 1 && d->y.dtype == PARE_I64 && d->classes > 1;
}

/* Predictions on the held-out items against the original's. */
static int pairs_of(struct search *w, const struct pare_model *m, struct pare_paired *p,
                    struct pare_err *err)
{
    struct pare_paired_opts po = { .threads = w->s.o->threads, .confidence = w->s.o->confidence };
    double x[10];

    *p = (struct pare_paired){ .worst = -1 };
    if (!has_classes(w->s.held) || w->accuracy < 0)
        return 0;
    if (!pare_journal_next(&w->s.journal, x, 10)) {
        PARE_TRY(pare_compare_paired(m, w->s.model, w->s.held, &po, p, err));
        memcpy(x,
               (const double[]){ (double)p->n, (double)p->right, (double)p->b, (double)p->d,
                                 p->drop, p->error, p->bound, (double)p->worst, p->worst_drop,
                                 p->class_bound },
               sizeof(x));
        return pare_journal_add(&w->s.journal, x, 10, err);
    }
    *p = (struct pare_paired){ .n = (int64_t)x[0],
                               .right = (int64_t)x[1],
                               .b = (int64_t)x[2],
                               .d = (int64_t)x[3],
                               .drop = x[4],
                               .error = x[5],
                               .bound = x[6],
                               .worst = (int64_t)x[7],
                               .worst_drop = x[8],
                               .class_bound = x[9] };
    return 0;
}

static int distance_of(struct search *w, const struct pare_model *m, struct pare_output_distance *d,
                       struct pare_err *err)
{
    struct pare_held_out h = { .dense = w->s.model,
                               .data = w->s.held,
                               .items = w->s.held->n,
                               .threads = w->s.o->threads };
    double x[3];

    if (!pare_journal_next(&w->s.journal, x, 3)) {
        PARE_TRY(pare_held_out_compare(&h, m, d, err));
        memcpy(x, (const double[]){ d->noise, d->divergence, d->loss }, sizeof(x));
        return pare_journal_add(&w->s.journal, x, 3, err);
    }
    *d = (struct pare_output_distance){ x[0], x[1], x[2] };
    return 0;
}

/* Is latency measured?  Times of another device alone cannot be. */
static bool is_measured(const struct search *w)
{
    return w->s.o->runner || !w->s.o->table;
}

static int measure_layers(struct search *w, struct pare_err *err)
{
    const struct pare_compress_budget_opts *o = w->s.o;
    struct pare_cost_opts co = { .batch = o->batch,
                                 .threads = o->threads,
                                 .seconds = o->seconds,
                                 .formats = 1u << PARE_COST_F32 |
                                            (w->s.int8 ? 1u << PARE_COST_INT8 : 0),
                                 .seed = o->seed,
                                 .cache = o->cache,
                                 .read_table = o->table,
                                 .progress = o->progress,
                                 .user = o->user };
    bool known = false;
    const char *kept = o->table ? NULL : pare_journal_file(&w->s.journal, "times.jsonl", &known);
    struct pare_cost whole;
    int64_t *count;

    if (o->runner && !o->table)
        pare_runner_cost_opts(&w->runner, &co);
    if (kept && !known) {
        co.write_table = kept;
        PARE_TRY(pare_runner_error(&w->runner,
                                   pare_cost_table_measure(w->s.model, &co, w->s.arena, &w->s.table,
                                                           err),
                                   err));
        co.write_table = NULL;
    }
    if (kept) /* the numbers of the file have fewer digits */
        co.read_table = kept;
    PARE_TRY(pare_runner_error(
        &w->runner, pare_cost_table_measure(w->s.model, &co, w->s.arena, &w->s.table, err), err));
    count = pare_alloc(w->s.arena, (size_t)w->s.table->n_groups + 1, sizeof(*count));
    if (!count)
        return pare_no_memory(err, "for a search");
    for (int g = 0; g < w->s.table->n_groups; g++)
        count[g] = w->s.table->group[g].full;
    whole = pare_cost_predict(w->s.table, count, NULL);
    w->dense[PARE_BUDGET_LATENCY] = whole.us;
    w->dense[PARE_BUDGET_SIZE] = pare_model_message_bytes(w->s.model);
    w->dense[PARE_BUDGET_MACS] = whole.macs;
    return accuracy_of(w, w->s.model, &w->accuracy, err);
}

/* ---- one limit ------------------------------------------------------------------------------- */

static int open_assignment(struct search *w, struct pare_assignment *x, struct pare_err *err)
{
    const struct pare_cost_table *t = w->s.table;

    x->count = pare_alloc(w->s.arena, (size_t)t->n_groups + 1, sizeof(*x->count));
    x->format = pare_alloc(w->s.arena, (size_t)t->n_layers + 1, sizeof(*x->format));
    return x->count && x->format ? 0 : pare_no_memory(err, "for a search");
}

/* Latency relative to the original's, in the same race. */
static int race(struct search *w, const struct pare_model *m, double seconds, double *part,
                struct pare_err *err)
{
    struct pare_race r = { .batch = w->s.o->batch,
                           .threads = w->s.o->threads,
                           .seconds = seconds,
                           .cache = w->s.o->cache,
                           .seed = 1 };

    w->r->rounds++;
    if (pare_journal_next(&w->s.journal, part, 1))
        return 0;
    PARE_TRY(w->s.o->runner ? pare_runner_race(&w->runner, m, seconds, r.us, err)
                            : pare_race_run(w->s.model, m, &r, err));
    *part = r.us[1] / r.us[0];
    return pare_journal_add(&w->s.journal, part, 1, err);
}

/* Limits in the units of the cost table.  A part of the latency is one of the table's own time of
 * the original, so that a fast or slow moment of the machine cancels. */
static void absolute_limits(const struct search *w, const double part[PARE_BUDGET_KINDS],
                            double limit[PARE_BUDGET_KINDS])
{
    for (int k = 0; k < PARE_BUDGET_KINDS; k++)
        limit[k] = fmin(part[k] * w->dense[k], w->limits.absolute[k]);
}

/* An assignment that was measured. */
struct tried {
    struct pare_assignment x;
    double predicted[PARE_BUDGET_KINDS], us, error;
};

static bool same_assignment(const struct search *w, const struct pare_assignment *x,
                            const struct pare_assignment *y)
{
    const struct pare_cost_table *t = w->s.table;

    return !memcmp(x->count, y->count, (size_t)t->n_groups * sizeof(*x->count)) &&
           !memcmp(x->format, y->format, (size_t)t->n_layers * sizeof(*x->format));
}

static void copy_assignment(const struct search *w, const struct pare_assignment *from,
                            struct pare_assignment *to)
{
    const struct pare_cost_table *t = w->s.table;

    memcpy(to->count, from->count, (size_t)t->n_groups * sizeof(*to->count));
    memcpy(to->format, from->format, (size_t)t->n_layers * sizeof(*to->format));
}

/* Latency of a model of these shapes; near the limit the lower one of two measurements. */
static int time_shapes(struct search *w, double most, struct tried *y, struct pare_err *err)
{
    struct pare_model *model;
    double part, again, limit = most / w->dense[PARE_BUDGET_LATENCY];
    int rc;

    PARE_TRY(pare_cost_build(w->s.model, w->s.table, y->x.count, y->x.format, &model, err));
    rc = race(w, model, RACE_SECONDS, &part, err);
    if (!rc && part > limit && part < NEAR * limit) {
        rc = race(w, model, 2 * RACE_SECONDS, &again, err);
        part = rc ? part : fmin(part, again);
    }
    pare_model_free(model);
    if (rc)
        return rc;
    y->us = part * w->dense[PARE_BUDGET_LATENCY];
    say(w,
        pare_sprintf(w->s.arena, "shapes: latency %.3f, predicted %.3f; expected loss %.4g", part,
                     y->predicted[PARE_BUDGET_LATENCY] / w->dense[PARE_BUDGET_LATENCY], y->error));
    return 0;
}

/* Of the measured ones, the best that holds the latency, else the fastest. */
static int choose_tried(const struct tried *y, int n, double limit)
{
    int best = 0;

    for (int i = 1; i < n; i++) {
        bool holds = y[i].us <= limit, held = y[best].us <= limit;

        if (holds ? !held || y[i].error < y[best].error : !held && y[i].us < y[best].us)
            best = i;
    }
    return best;
}

/* Solve, and measure a model of the solution's shapes; then the table is fitted to the measurement
 * and solved again, until the solution is one that was measured and holds the latency.  aim: the
 * factor of the latency limit that the solver gets; it is kept for the next call. */
static int find_shapes(struct search *w, const double *limit, double *aim, struct trial *t,
                       struct pare_err *err)
{
    struct tried y[ROUNDS];
    const double most = limit[PARE_BUDGET_LATENCY];
    int n = 0, k;

    for (int round = 0; round < 2 * ROUNDS && n < ROUNDS; round++) {
        double goal[PARE_BUDGET_KINDS];
        struct pare_alloc_result result;

        memcpy(goal, limit, sizeof(goal));
        goal[PARE_BUDGET_LATENCY] *= *aim;
        PARE_TRY(pare_budget_solve(&w->s, goal, &t->x, &result, err));
        memcpy(t->predicted, result.cost, sizeof(t->predicted));
        memcpy(t->cost, result.cost, sizeof(t->cost));
        t->feasible = result.feasible;
        if (!isfinite(most) || !is_measured(w))
            return 0;
        for (k = 0; k < n && !same_assignment(w, &t->x, &y[k].x); k++)
            continue;
        if (k == n) {
            y[n] = (struct tried){ .error = result.error };
            PARE_TRY(open_assignment(w, &y[n].x, err));
            copy_assignment(w, &t->x, &y[n].x);
            memcpy(y[n].predicted, result.cost, sizeof(y[n].predicted));
            PARE_TRY(time_shapes(w, most, &y[n++], err));
        } else if (y[k].us > most)
            *aim *= TIGHTER;
        else
            break;
        pare_cost_refit_format(w->s.table, t->x.count, t->x.format, y[k].us);
        if (!result.feasible)
            break;
    }
    k = choose_tried(y, n, most);
    copy_assignment(w, &y[k].x, &t->x);
    memcpy(t->predicted, y[k].predicted, sizeof(t->predicted));
    memcpy(t->cost, y[k].predicted, sizeof(t->cost));
    t->cost[PARE_BUDGET_LATENCY] = y[k].us;
    return 0;
}

static void close_trial(struct trial *t)
{
    pare_model_free(t->model);
    t->model = NULL;
}

/* By the confidence bounds if one is asked for, else by what the held-out items lose. */
static bool holds_bounds(const struct search *w, const struct trial *t)
{
    const struct pare_compress_budget_opts *o = w->s.o;
    bool sure = o->confidence > 0 && t->paired.n;
    double drop = sure ? t->paired.bound : w->accuracy - t->accuracy;
    double worst = sure ? t->paired.class_bound : t->paired.worst_drop;

    if (o->max_drop > 0 && (w->accuracy < 0 || 100 * drop > o->max_drop))
        return false;
    return !(o->class_drop > 0) || (t->paired.n && 100 * worst <= o->class_drop);
}

static void tell(struct search *w, const struct trial *t)
{
    struct pare_arena *a = w->s.arena;
    const char *drop = t->paired.n ? pare_sprintf(a, ", drop %.2f points (standard error %.2f)",
                                                  100 * t->paired.drop, 100 * t->paired.error)
                       : w->accuracy >= 0 ? pare_sprintf(a, ", drop %.2f points",
                                                         100 * (w->accuracy - t->accuracy))
                                          : "";

    say(w,
        pare_sprintf(a, "model: latency %.3f, size %.3f, MACs %.3f of the original's%s%s; %s",
                     t->cost[0] / w->dense[0], t->cost[1] / w->dense[1], t->cost[2] / w->dense[2],
                     drop, t->budget_met ? "" : ", beyond the budget", elapsed(w)));
}

/* Costs, accuracy and distance of a model that was built in full. */
static int assess(struct search *w, const double *limit, struct trial *t, struct pare_err *err)
{
    struct pare_cost c = pare_cost_predict(w->s.table, t->x.count, t->x.format);
    double part = 0;

    if (!is_measured(w))
        t->cost[PARE_BUDGET_LATENCY] = c.us;
    else {
        PARE_TRY(race(w, t->model, 2 * RACE_SECONDS, &part, err));
        t->cost[PARE_BUDGET_LATENCY] = part * w->dense[PARE_BUDGET_LATENCY];
    }
    t->cost[PARE_BUDGET_SIZE] = pare_model_message_bytes(t->model);
    t->cost[PARE_BUDGET_MACS] = c.macs;
    PARE_TRY(pairs_of(w, t->model, &t->paired, err));
    t->accuracy = t->paired.n ? (double)t->paired.right / (double)t->paired.n : -1;
    if (!t->paired.n)
        PARE_TRY(accuracy_of(w, t->model, &t->accuracy, err));
    PARE_TRY(distance_of(w, t->model, &t->d, err));
    t->budget_met = true;
    for (int k = 0; k < PARE_BUDGET_KINDS; k++)
        t->budget_met &= t->cost[k] <= limit[k];
    t->drop_met = holds_bounds(w, t);
    tell(w, t);
    return 0;
}

/* The model for these parts of the original's costs. */
static int try_limit(struct search *w, const double part[PARE_BUDGET_KINDS], struct trial *t,
                     struct pare_err *err)
{
    double limit[PARE_BUDGET_KINDS], limit_now[PARE_BUDGET_KINDS], aim = MARGIN;

    absolute_limits(w, part, limit);
    memcpy(limit_now, limit, sizeof(limit));
    PARE_TRY(open_assignment(w, &t->x, err));
    for (int i = 0; i < REAL_ROUNDS; i++) {
        PARE_TRY(find_shapes(w, limit_now, &aim, t, err));
        close_trial(t);
        PARE_TRY(pare_budget_build(&w->s, &t->x, w->s.o->finetune, &t->model, err));
        PARE_TRY(assess(w, limit, t, err));
        if (t->budget_met || !t->feasible)
            break;
        limit_now[PARE_BUDGET_LATENCY] *= fmin(1, MARGIN * limit[0] / t->cost[0]);
    }
    return 0;
}

/* ---- the search ------------------------------------------------------------------------------ */

static void keep(struct search *w, struct trial *t)
{
    close_trial(&w->best);
    w->best = *t;
    t->model = NULL;
}

/* The fastest model that keeps the bound: bisection of the logarithm of the latency. */
static int fastest(struct search *w, struct pare_err *err)
{
    double part[PARE_BUDGET_KINDS] = { INFINITY, INFINITY, INFINITY }, low = 0.02, high = 1;
    int most = w->s.o->finetune > 0 ? 3 : BISECTIONS;

    for (int i = 0; i < most; i++) {
        struct trial t = { 0 };
        int rc;

        part[PARE_BUDGET_LATENCY] = i || w->s.o->finetune > 0 ? sqrt(low * high) : 0.25;
        rc = try_limit(w, part, &t, err);
        if (!rc && (t.drop_met || !w->best.model)) {
            if (t.drop_met)
                high = part[PARE_BUDGET_LATENCY];
            if (!w->best.model || !w->best.drop_met || t.cost[0] < w->best.cost[0])
                keep(w, &t);
        }
        if (!rc && !t.drop_met && w->best.model && !w->best.drop_met && t.accuracy >= 0 &&
            t.model && t.accuracy > w->best.accuracy)
            keep(w, &t);
        if (!t.drop_met)
            low = part[PARE_BUDGET_LATENCY];
        close_trial(&t);
        if (rc)
            return rc;
    }
    return 0;
}

/* The shapes alone. */
static int predict(struct search *w, struct pare_err *err)
{
    double limit[PARE_BUDGET_KINDS], aim = MARGIN;
    struct trial *t = &w->best;

    absolute_limits(w, w->limits.part, limit);
    PARE_TRY(open_assignment(w, &t->x, err));
    PARE_TRY(find_shapes(w, limit, &aim, t, err));
    t->accuracy = -1;
    t->d.noise = t->d.divergence = NAN;
    t->budget_met = t->drop_met = true;
    for (int k = 0; k < PARE_BUDGET_KINDS; k++)
        t->budget_met &= t->cost[k] <= limit[k];
    return 0;
}

static int run(struct search *w, struct pare_err *err)
{
    say(w, "stage 1 of 3: times of layers");
    PARE_TRY(measure_layers(w, err));
    say(w, pare_sprintf(w->s.arena, "stage 2 of 3: expected increase of the loss; %s", elapsed(w)));
    PARE_TRY(pare_budget_errors(&w->s, err));
    say(w, pare_sprintf(w->s.arena, "stage 3 of 3: models; %s", elapsed(w)));
    if (w->s.o->dry_run)
        return predict(w, err);
    if (!w->s.o->budget)
        return fastest(w, err);
    return try_limit(w, w->limits.part, &w->best, err);
}

static int report(struct search *w, struct pare_err *err)
{
    struct pare_compress_budget_report *r = w->r;
    const struct pare_cost_table *t = w->s.table;
    double limit[PARE_BUDGET_KINDS];

    absolute_limits(w, w->limits.part, limit);
    for (int k = 0; k < PARE_BUDGET_KINDS; k++)
        r->cost[k] = (struct pare_budget_cost){ w->dense[k], w->best.cost[k], w->best.predicted[k],
                                                limit[k] };
    r->n_layers = t->n_layers;
    r->layer = pare_alloc(w->s.arena, (size_t)t->n_layers + 1, sizeof(*r->layer));
    if (!r->layer)
        return pare_no_memory(err, "for the report");
    for (int i = 0; i < t->n_layers; i++)
        r->layer[i] = (struct pare_compressed_layer){
            .name = t->layer[i].name,
            .format = pare_cost_format_names[w->best.x.format[i]],
            .in = t->layer[i].cin,
            .in_left = pare_cost_axis_count(&t->layer[i].in, w->best.x.count),
            .out = t->layer[i].cout,
            .out_left = pare_cost_axis_count(&t->layer[i].out, w->best.x.count)
        };
    r->held = w->s.held->n;
    r->held_before = w->accuracy;
    r->held_after = w->best.accuracy;
    r->snr = pare_held_out_db(w->best.d.noise);
    r->divergence = w->best.d.divergence;
    r->budget_met = true; /* the search for the fastest model has tighter limits of its own */
    for (int k = 0; k < PARE_BUDGET_KINDS; k++)
        r->budget_met &= w->best.cost[k] <= limit[k];
    r->drop_met = w->best.drop_met;
    r->paired = w->best.paired;
    if (w->best.model && has_classes(w->s.o->valid ? w->s.o->valid : w->s.held))
        PARE_TRY(pare_compare_paired(w->best.model, w->s.model,
                                     w->s.o->valid ? w->s.o->valid : w->s.held,
                                     &(struct pare_paired_opts){ .threads = w->s.o->threads },
                                     &r->final, err));
    if (!w->s.o->valid || !w->best.model)
        return 0;
    PARE_TRY(pare_evaluate(w->s.model, w->s.o->valid, NULL, &r->before, err));
    return pare_evaluate(w->best.model, w->s.o->valid, NULL, &r->after, err);
}

static int check(const struct pare_compress_budget_opts *o, struct pare_err *err)
{
    if (!o->data)
        return pare_fail(err, PARE_ECONFIG, "compression to a budget needs a data set");
    if (!(o->confidence >= 0 && o->confidence < 1))
        return pare_fail(err, PARE_ECONFIG, "a confidence must be between 0 and 1, but is %g",
                         o->confidence);
    if (!o->budget && !(o->max_drop > 0))
        return pare_fail(err, PARE_ECONFIG, "neither a budget nor a largest drop is given");
    if (!o->budget && !o->data->y.data)
        return pare_fail(err, PARE_ECONFIG,
                         "the data set has no labels, so that a drop of the accuracy is not known: "
                         "give a budget");
    if (!o->budget && o->dry_run)
        return pare_fail(err, PARE_ECONFIG,
                         "the drop of a model that is not built is not known: give a budget to "
                         "predict what it keeps");
    return pare_budget_check_methods(o->methods, err);
}

int pare_compress_budget(struct pare_model *model, const struct pare_compress_budget_opts *opts,
                         struct pare_arena *a, struct pare_model **out,
                         struct pare_compress_budget_report *r, struct pare_err *err)
{
    PARE_ERR(err);
    struct pare_compress_budget_opts o;
    struct search w = { .s = { .o = &o, .arena = a, .model = model }, .r = r, .start = pare_now() };
    int rc;

    *out = NULL;
    *r = (struct pare_compress_budget_report){ .held_before = -1, .held_after = -1 };
    PARE_TRY(pare_sized_copy(&o, sizeof(o), opts, err));
    PARE_TRY(check(&o, err));
    PARE_TRY(pare_budget_limits_parse(o.budget, &w.limits, err));
    w.s.channels = pare_budget_has_method(o.methods, "channels");
    w.s.int8 = pare_budget_has_method(o.methods, "int8");
    PARE_TRY(pare_budget_resume(&w.s, err));
    rc = divide(&w, err);
    w.runner = (struct pare_runner){ .base = model, .batch = o.batch, .threads = o.threads };
    if (!rc && o.runner)
        rc = pare_runner_open(&w.runner, o.runner, err);
    if (!rc)
        rc = run(&w, err);
    if (!rc)
        rc = report(&w, err);
    if (!rc) {
        *out = w.best.model;
        w.best.model = NULL;
    }
    close_trial(&w.best);
    pare_runner_close(&w.runner);
    pare_data_free(w.s.held);
    pare_data_free(w.s.rest);
    return rc;
}

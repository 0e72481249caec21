/* compress_budget.c - pare_compress_budget(): the search for a model within a budget. */
#include <math.h>
#include <string.h>

#include "budget_run.h"

#include "../base/arena.h"
#include "../base/clock.h"
#include "../base/sized.h"
#include "../compress/held_out.h"
#include "../data/data.h"

#define HELD_PART 10   /* 1 / HELD_PART of the items of the data decide */
#define HELD_MOST 5000 /* items */
#define REAL_ROUNDS 3  /* models that are built in full, for one limit */
#define RACE_SECONDS 1.6
#define NEAR 1.04     /* parts of a limit within which a measurement is repeated */
#define FITTED 2048   /* items of the data that full models are fitted to, at most */
#define COMPARED 1024 /* items that follow them, of the loss of a finalist */
#define POINTS 3      /* counts of a group whose real loss is measured */

/* ---- opening --------------------------------------------------------------------------------- */

/* Items that decide are never fitted to. */
static int divide(struct pare_budget_run *w, struct pare_err *err)
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

static int measure_layers(struct pare_budget_run *w, struct pare_err *err)
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
    return pare_budget_accuracy(w, w->s.model, &w->accuracy, err);
}

static void close_trial(struct pare_budget_trial *t)
{
    pare_model_free(t->model);
    t->model = NULL;
}

/* By the confidence bounds if one is asked for, else by what the held-out items lose. */
static bool holds_bounds(const struct pare_budget_run *w, const struct pare_budget_trial *t)
{
    const struct pare_compress_budget_opts *o = w->s.o;
    bool sure = o->confidence > 0 && t->paired.n;
    double drop = sure ? t->paired.bound : w->accuracy - t->accuracy;
    double worst = sure ? t->paired.class_bound : t->paired.worst_drop;

    if (o->max_drop > 0 && (w->accuracy < 0 || 100 * drop > o->max_drop))
        return false;
    return !(o->class_drop > 0) || (t->paired.n && 100 * worst <= o->class_drop);
}

static void tell(struct pare_budget_run *w, const struct pare_budget_trial *t)
{
    struct pare_arena *a = w->s.arena;
    const char *drop = t->paired.n ? pare_sprintf(a, ", drop %.2f points (standard error %.2f)",
                                                  100 * t->paired.drop, 100 * t->paired.error)
                       : w->accuracy >= 0 ? pare_sprintf(a, ", drop %.2f points",
                                                         100 * (w->accuracy - t->accuracy))
                                          : "";

    pare_budget_say(
        w,
        pare_sprintf(a, "model: latency %.3f, size %.3f, MACs %.3f of the original's%s%s; %s",
                     t->cost[0] / w->dense[0], t->cost[1] / w->dense[1], t->cost[2] / w->dense[2],
                     drop, t->budget_met ? "" : ", beyond the budget", pare_budget_elapsed(w)));
}

/* Latency of a model that was built in full; near the limit the lower one of two measurements. */
static int time_model(struct pare_budget_run *w, double limit, struct pare_budget_trial *t,
                      struct pare_err *err)
{
    double dense = w->dense[PARE_BUDGET_LATENCY], part, again;

    PARE_TRY(pare_budget_race(w, t->model, RACE_SECONDS, &part, err));
    if (part * dense > limit && part * dense < NEAR * limit) {
        PARE_TRY(pare_budget_race(w, t->model, RACE_SECONDS, &again, err));
        part = fmin(part, again);
    }
    t->cost[PARE_BUDGET_LATENCY] = part * dense;
    t->cpu_share = w->cpu_share;
    return 0;
}

/* Costs, accuracy and distance of a model that was built in full. */
static int assess(struct pare_budget_run *w, const double *limit, struct pare_budget_trial *t,
                  struct pare_err *err)
{
    struct pare_cost c = pare_cost_predict(w->s.table, t->x.count, t->x.format);

    if (!pare_budget_is_measured(w))
        t->cost[PARE_BUDGET_LATENCY] = c.us;
    else
        PARE_TRY(time_model(w, limit[PARE_BUDGET_LATENCY], t, err));
    t->cost[PARE_BUDGET_SIZE] = pare_model_message_bytes(t->model);
    t->cost[PARE_BUDGET_MACS] = c.macs;
    PARE_TRY(pare_budget_pairs(w, t->model, &t->paired, err));
    t->accuracy = t->paired.n ? (double)t->paired.right / (double)t->paired.n : -1;
    if (!t->paired.n)
        PARE_TRY(pare_budget_accuracy(w, t->model, &t->accuracy, err));
    PARE_TRY(pare_budget_distance(w, t->model, &t->d, err));
    t->budget_met = true;
    for (int k = 0; k < PARE_BUDGET_KINDS; k++)
        t->budget_met &= t->cost[k] <= limit[k];
    t->drop_met = holds_bounds(w, t);
    tell(w, t);
    return 0;
}

/* The loss of a real model, on items after those that repair and rounding are fitted to. */
static int real_loss(struct pare_budget_run *w, const struct pare_model *m, double *loss,
                     struct pare_err *err)
{
    int64_t n = w->s.rest->n, fitted = n / 2 < FITTED ? n / 2 : FITTED;
    struct pare_held_out h = { .dense = w->s.model,
                               .data = w->s.rest,
                               .fitted = fitted,
                               .items = n - fitted < COMPARED ? n - fitted : COMPARED,
                               .threads = w->s.o->threads };
    struct pare_output_distance d;

    if (pare_journal_next(&w->s.journal, loss, 1))
        return 0;
    PARE_TRY(pare_held_out_compare(&h, m, &d, err));
    *loss = pare_budget_loss(&w->s, &d);
    return pare_journal_add(&w->s.journal, loss, 1, err);
}

/* Scores are approximate: of the finalists, the one whose model loses least before training. */
static int build_best(struct pare_budget_run *w, struct pare_budget_trial *t, struct pare_err *err)
{
    double best = INFINITY, loss;
    bool trains = w->s.o->finetune > 0;

    for (int i = 0; i < w->n_finalists && w->n_finalists > 1; i++) {
        struct pare_model *m;
        int rc;

        PARE_TRY(pare_budget_build(&w->s, &w->finalist[i].x, 0, &m, err));
        rc = real_loss(w, m, &loss, err);
        if (!rc && (i == 0 || loss < best)) {
            best = loss;
            pare_budget_take(w, &w->finalist[i], t);
            close_trial(t);
            t->model = m;
            m = NULL;
        }
        pare_model_free(m);
        if (rc)
            return rc;
        pare_budget_say(w,
                        pare_sprintf(w->s.arena, "finalist %d: loss %.4g, of the real model %.4g",
                                     i + 1, w->finalist[i].score, loss));
    }
    if (t->model && !trains)
        return 0;
    close_trial(t);
    return pare_budget_build(&w->s, &t->x, w->s.o->finetune, &t->model, err);
}

/* The model for these parts of the original's costs. */
static int try_limit(struct pare_budget_run *w, const double part[PARE_BUDGET_KINDS], int trials,
                     struct pare_budget_trial *t, struct pare_err *err)
{
    double limit[PARE_BUDGET_KINDS], limit_now[PARE_BUDGET_KINDS], aim = PARE_BUDGET_MARGIN;

    pare_budget_absolute(w, part, limit);
    memcpy(limit_now, limit, sizeof(limit));
    PARE_TRY(pare_assignment_new(&w->s, &t->x, err));
    for (int i = 0; i < REAL_ROUNDS; i++) {
        PARE_TRY(pare_budget_shapes(w, limit_now, &aim, i ? (trials + 3) / 4 : trials, t, err));
        close_trial(t);
        PARE_TRY(build_best(w, t, err));
        PARE_TRY(assess(w, limit, t, err));
        if (t->budget_met || !t->feasible)
            break;
        limit_now[PARE_BUDGET_LATENCY] *= fmin(1, PARE_BUDGET_MARGIN * limit[0] / t->cost[0]);
    }
    return 0;
}

/* ---- the search ------------------------------------------------------------------------------ */

static void keep(struct pare_budget_run *w, struct pare_budget_trial *t)
{
    close_trial(&w->best);
    w->best = *t;
    t->model = NULL;
}

/* The fastest model that keeps the bound: bisection of the logarithm of the latency. */
static int fastest(struct pare_budget_run *w, struct pare_err *err)
{
    double part[PARE_BUDGET_KINDS] = { INFINITY, INFINITY, INFINITY }, low = 0.02, high = 1;
    int most = pare_budget_looks(w);
    int trials = (pare_budget_trials(w) + 2) / 3;

    for (int i = 0; i < most; i++) {
        struct pare_budget_trial t = { 0 };
        int rc;

        part[PARE_BUDGET_LATENCY] = i || w->s.o->finetune > 0 ? sqrt(low * high) : 0.25;
        rc = try_limit(w, part, trials, &t, err);
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
static int predict(struct pare_budget_run *w, struct pare_err *err)
{
    double limit[PARE_BUDGET_KINDS], aim = PARE_BUDGET_MARGIN;
    struct pare_budget_trial *t = &w->best;
    int trials = pare_budget_trials(w);

    pare_budget_absolute(w, w->limits.part, limit);
    PARE_TRY(pare_assignment_new(&w->s, &t->x, err));
    PARE_TRY(pare_budget_shapes(w, limit, &aim, trials, t, err));
    t->accuracy = -1;
    t->d.noise = t->d.divergence = NAN;
    t->budget_met = t->drop_met = true;
    for (int k = 0; k < PARE_BUDGET_KINDS; k++)
        t->budget_met &= t->cost[k] <= limit[k];
    return 0;
}

/* Counts of each group whose real loss is measured, by the work that this is. */
static int loss_points(const struct pare_budget_run *w)
{
    int most = pare_budget_effort(w), n = w->s.table->n_groups;

    return n > most ? 0 : POINTS * n <= most ? POINTS : 2;
}

static int run(struct pare_budget_run *w, struct pare_err *err)
{
    pare_budget_say(w, "stage 1 of 3: times of layers");
    PARE_TRY(measure_layers(w, err));
    pare_budget_say(w, pare_sprintf(w->s.arena, "stage 2 of 3: expected increase of the loss; %s",
                                    pare_budget_elapsed(w)));
    PARE_TRY(pare_budget_errors(&w->s, err));
    PARE_TRY(pare_budget_losses(&w->s, loss_points(w), err));
    pare_budget_say(w,
                    pare_sprintf(w->s.arena, "stage 3 of 3: models; %s", pare_budget_elapsed(w)));
    if (w->s.o->dry_run)
        return predict(w, err);
    if (!w->s.o->budget)
        return fastest(w, err);
    return try_limit(w, w->limits.part, pare_budget_trials(w), &w->best, err);
}

static int report(struct pare_budget_run *w, struct pare_err *err)
{
    struct pare_compress_budget_report *r = w->r;
    const struct pare_cost_table *t = w->s.table;
    double limit[PARE_BUDGET_KINDS];

    pare_budget_absolute(w, w->limits.part, limit);
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
    r->cpu_share = w->best.cpu_share;
    if (w->best.model && pare_budget_has_classes(w->s.o->valid ? w->s.o->valid : w->s.held))
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
    if (o->confidence > 0 && !pare_budget_has_classes(o->data))
        return pare_fail(
            err, PARE_ECONFIG,
            "a confidence is one of predictions, and the data set has no class labels");
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
    struct pare_budget_run w = { .s = { .o = &o, .arena = a, .model = model },
                                 .r = r,
                                 .start = pare_now() };
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

/* budget_measure.c - latency, accuracy and outputs of a model, which the journal may know. */
#include <math.h>
#include <string.h>

#include "budget_run.h"
#include "model_race.h"

#include "../base/arena.h"
#include "../base/clock.h"
#include "../compress/held_out.h"
#include "../data/data.h"

void pare_budget_say(const struct pare_budget_run *w, const char *line)
{
    if (w->s.o->say && line)
        w->s.o->say(w->s.o->user, line);
}

const char *pare_budget_elapsed(const struct pare_budget_run *w)
{
    return pare_sprintf(w->s.arena, "%.0f s", pare_now() - w->start);
}

int pare_budget_accuracy(struct pare_budget_run *w, const struct pare_model *m, double *accuracy,
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
bool pare_budget_has_classes(const struct pare_data *d)
{
    return d->y.data && d->y.rank == 1 && d->y.dtype == PARE_I64 && d->classes > 1;
}

#define BISECTIONS 6 /* limits that are tried for a bound of the accuracy alone */
#define TRAINED 3    /* the same, if each model is trained */

int pare_budget_looks(const struct pare_budget_run *w)
{
    return w->s.o->budget ? 1 : w->s.o->finetune > 0 ? TRAINED : BISECTIONS;
}

/* Predictions on the held-out items against the original's. */
int pare_budget_pairs(struct pare_budget_run *w, const struct pare_model *m, struct pare_paired *p,
                      struct pare_err *err)
{
    const double sure = w->s.o->confidence;
    struct pare_paired_opts po = {
        .threads = w->s.o->threads,
        .confidence = sure > 0 ? 1 - (1 - sure) / pare_budget_looks(w) : 0,
    };
    double x[10];

    *p = (struct pare_paired){ .worst = -1 };
    if (!pare_budget_has_classes(w->s.held) || w->accuracy < 0)
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

int pare_budget_distance(struct pare_budget_run *w, const struct pare_model *m,
                         struct pare_output_distance *d, struct pare_err *err)
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
bool pare_budget_is_measured(const struct pare_budget_run *w)
{
    return w->s.o->runner || !w->s.o->table;
}

/* Latency relative to the original's, in the same race. */
int pare_budget_race(struct pare_budget_run *w, const struct pare_model *m, double seconds,
                     double *part, struct pare_err *err)
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
    w->cpu_share = r.cpu_share;
    return pare_journal_add(&w->s.journal, part, 1, err);
}

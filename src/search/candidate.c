/* candidate.c - a candidate of a search: mask a copy of the model, evaluate it on held-out items,
 * restore it. */
#include <math.h>
#include <string.h>

#include "search.h"

#include "../base/arena.h"
#include "../base/clock.h"
#include "../compress/method.h"
#include "../train/recalibrate.h"

#define NOTHING 1e-6 /* a sparsity that leaves the layer as it is */

const char *pare_candidate_config(const struct pare_search *s, const double *sparsity)
{
    return pare_candidate_config_with(s, sparsity, "");
}

const char *pare_candidate_config_with(const struct pare_search *s, const double *sparsity,
                                       const char *more)
{
    const char **entry = pare_alloc(s->arena, (size_t)s->n_layers + 1, sizeof(*entry)), *all;
    int n = 0;

    for (int i = 0; i < s->n_layers && entry; i++) {
        const struct pare_search_layer *l = &s->layer[i];
        const char *name = pare_json_quoted(s->arena, l->name);
        double v = sparsity[l->part];

        if (v < NOTHING)
            continue;
        entry[n] = name ? pare_sprintf(s->arena,
                                       "{\"sparsity\": %.6f, \"op_types\": [\"%s\"], "
                                       "\"op_names\": [%s]%s}",
                                       v < 0.999999 ? v : 0.999999, l->type, name, more)
                        : NULL;
        if (!entry[n++])
            entry = NULL;
    }
    all = entry ? pare_join(s->arena, entry, n, ", ") : NULL;
    return all ? pare_sprintf(s->arena, "[%s]", all) : NULL;
}

int pare_candidate_open(struct pare_search *s, const double *sparsity, struct pare_compression **c,
                        struct pare_err *err)
{
    const struct pare_train_options *t = s->job->tune.options;
    struct pare_compression_opts o = { .pruner = s->o->base_algo,
                                       .given = s->given,
                                       .n_given = s->n_given,
                                       .registry = s->job->o.registry,
                                       .config = pare_candidate_config(s, sparsity),
                                       .seed = (uint64_t)t->c.seed,
                                       .threads = (int)t->c.threads };
    int rc;

    *c = NULL;
    if (!o.config)
        return pare_no_memory(err, "for a search");
    if (!strcmp(o.config, "[]"))
        return 0;
    PARE_TRY(pare_compression_open(&pare_method_prune, s->model, &o, NULL, c, err));
    rc = pare_compression_compress(*c, err);
    if (rc) {
        pare_candidate_close(*c);
        *c = NULL;
    }
    return rc;
}

int pare_candidate_apply(struct pare_search *s, const double *sparsity, struct pare_err *err)
{
    struct pare_compression *c;

    PARE_TRY(pare_candidate_open(s, sparsity, &c, err));
    pare_compression_free(c);
    return 0;
}

void pare_candidate_close(struct pare_compression *c)
{
    if (!c)
        return;
    pare_compression_restore(c);
    pare_compression_free(c);
}

int pare_candidate_measure(struct pare_search *s, const struct pare_model *m, double *performance,
                           struct pare_err *err)
{
    struct pare_finetune f = s->job->tune;
    struct pare_metric_value v;
    struct pare_metrics all;

    f.data[1] = s->held;
    f.progress = NULL;
    PARE_TRY(pare_finetune_evaluate(&f, m, &all, err));
    if (!strcmp(s->o->optimize_mode, "minimize")) {
        *performance = all.loss;
        return 0;
    }
    v = pare_metrics_main(&all);
    if (v.lower_is_better)
        return pare_fail(err, PARE_ECONFIG,
                         "metric %s is better if it is lower: use optimize_mode=minimize, which "
                         "minimizes the loss",
                         v.name);
    *performance = v.value;
    return 0;
}

bool pare_search_better(const struct pare_search *s, double a, double b)
{
    return isnan(a) || isnan(b) ? !isnan(a) : pare_search_worse(s, a, b) < 0;
}

double pare_search_worse(const struct pare_search *s, double a, double b)
{
    return strcmp(s->o->optimize_mode, "minimize") ? b - a : a - b;
}

int pare_search_progress(struct pare_search *s, struct pare_err *err)
{
    struct pare_progress p = { "search", s->tried, s->most > s->tried ? s->most : s->tried,
                               pare_now() - s->start };

    if (s->job->o.progress && !s->job->o.progress(s->job->o.user, &p))
        return pare_fail(err, PARE_ECANCEL, "the search was canceled");
    return 0;
}

/* The fraction of the resource that the candidate's masks remove, without coupled inputs: what NNI
 * writes into its history. */
static double overall(const struct pare_search *s, const double *sparsity)
{
    double all = 0, gone = 0;

    for (int i = 0; i < s->n; i++) {
        all += s->weight[i];
        gone += s->weight[i] * sparsity[i];
    }
    return all > 0 ? gone / all : 0;
}

bool pare_search_has_statistics(const struct pare_search *s)
{
    const struct pare_finetune *f = &s->job->tune;

    return f->trainer && f->options->c.recalibrate > 0 && pare_recalibrate_count(f->trainer);
}

int pare_search_tune(struct pare_search *s, struct pare_model *m, int64_t steps,
                     struct pare_err *err)
{
    const struct pare_short_tuning t = { .of = &s->job->tune,
                                         .model = m,
                                         .data = s->rest,
                                         .steps = steps,
                                         .low_rate = true, /* as for quantization */
                                         .recalibrate = true };

    return pare_short_tuning(&t, err);
}

/* A copy of the masked model with new statistics of its normalizations: with the old ones, every
 * candidate would be about as bad. */
static int measure_copy(struct pare_search *s, double *performance, struct pare_err *err)
{
    struct pare_model *copy;
    int rc;

    PARE_TRY(pare_model_duplicate(s->model, &copy, err));
    rc = pare_search_tune(s, copy, 0, err);
    if (!rc)
        rc = pare_candidate_measure(s, copy, performance, err);
    pare_model_free(copy);
    return rc;
}

static int measure(struct pare_search *s, const double *sparsity, double *performance,
                   struct pare_err *err)
{
    struct pare_compression *c;
    int rc;

    PARE_TRY(pare_candidate_open(s, sparsity, &c, err));
    rc = pare_search_has_statistics(s) ? measure_copy(s, performance, err)
                                       : pare_candidate_measure(s, s->model, performance, err);
    pare_candidate_close(c);
    return rc;
}

int pare_candidate_score(struct pare_search *s, const double *sparsity, double *performance,
                         struct pare_err *err)
{
    struct pare_history_row row = { .sparsity = overall(s, sparsity),
                                    .config = pare_candidate_config(s, sparsity) };
    bool found;

    if (!row.config)
        return pare_no_memory(err, "for a search");
    PARE_TRY(pare_search_progress(s, err));
    PARE_TRY(pare_history_find(&s->history, row.config, performance, &found, err));
    if (!found) {
        PARE_TRY(measure(s, sparsity, &row.performance, err));
        *performance = row.performance = pare_history_round(row.performance);
        PARE_TRY(pare_history_add(&s->history, &row, err));
    }
    s->tried++;
    return 0;
}

int pare_candidate_try(struct pare_search *s, const double *sparsity, double *performance,
                       struct pare_err *err)
{
    PARE_TRY(pare_candidate_score(s, sparsity, performance, err));
    if (isnan(s->best[0]) || pare_search_better(s, *performance, s->best_performance)) {
        memcpy(s->best, sparsity, (size_t)s->n * sizeof(*sparsity));
        s->best_performance = *performance;
    }
    return 0;
}

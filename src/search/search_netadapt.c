/* search_netadapt.c - netadapt: prune one layer at a time, the one that costs the least accuracy.
 * Yang et al., "NetAdapt: platform-aware neural network adaptation for mobile applications", 2018.
 *
 * In each iteration every part in turn is pruned so far that the model loses a given fraction of
 * the resource, fine-tuned for some steps and evaluated; the best one is kept.  NNI derives the
 * sparsity from the layers next in its list; here it is what speedup really removes.
 */
#include <math.h>
#include <string.h>

#include "search.h"

#include "../base/arena.h"

#define SMALLEST 1e-3 /* fraction of the resource of an iteration, before the search gives up */

struct opts {
    struct pare_search_opts common; /* first */
    double sparsity_per_iteration;
    int64_t finetune_steps;
};

/* clang-format off */
static const struct pare_opt opts[] = {
    PARE_SEARCH_OPTS,
    PARE_FLOAT("sparsity_per_iteration", offsetof(struct opts, sparsity_per_iteration),
               "fraction of the resource to remove in each iteration", 0.05, 1e-3, 0.9),
    PARE_INT("finetune_steps", offsetof(struct opts, finetune_steps),
             "steps of fine-tuning before a candidate is evaluated; 0: none", 50, 0, 1e9),
    PARE_OPT_END
};
/* clang-format on */

struct adaptation {
    struct pare_search *s;
    const struct opts *o;
    double *now, *next, *step; /* by part */
    double gone;               /* fraction of the resource */
    double *kept;              /* the best candidate of this iteration */
    double performance;
    struct pare_model *model; /* of the best candidate; NULL: known from the history */
};

/* A pruned and fine-tuned copy of the current model. */
static int make(struct adaptation *a, const double *sparsity, struct pare_model **m,
                struct pare_err *err)
{
    struct pare_search *s = a->s;
    struct pare_model *current = s->model;
    int rc = pare_model_duplicate(current, m, err);

    if (rc)
        return rc;
    s->model = *m;
    rc = pare_candidate_apply(s, sparsity, err);
    s->model = current;
    if (!rc && (a->o->finetune_steps || pare_search_has_statistics(s)))
        rc = pare_search_tune(s, *m, a->o->finetune_steps, err);
    if (rc) {
        pare_model_free(*m);
        *m = NULL;
    }
    return rc;
}

/* Candidates that the history has are not made, unless one of them is the best. */
static int try_part(struct adaptation *a, double aim, struct pare_err *err)
{
    struct pare_search *s = a->s;
    struct pare_history_row row = { .sparsity = aim, .config = pare_candidate_config(s, a->next) };
    struct pare_model *m = NULL;
    bool found;
    int rc = 0;

    if (!row.config)
        return pare_no_memory(err, "for a search");
    PARE_TRY(pare_search_progress(s, err));
    PARE_TRY(pare_history_find(&s->history, row.config, &row.performance, &found, err));
    if (!found) {
        PARE_TRY(make(a, a->next, &m, err));
        rc = pare_candidate_measure(s, m, &row.performance, err);
        row.performance = pare_history_round(row.performance);
        if (!rc)
            rc = pare_history_add(&s->history, &row, err);
    }
    s->tried++;
    if (!rc && (isnan(a->performance) || pare_search_better(s, row.performance, a->performance))) {
        struct pare_model *old = a->model;

        a->performance = row.performance;
        memcpy(a->kept, a->next, (size_t)s->n * sizeof(*a->kept));
        a->model = m;
        m = old;
    }
    pare_model_free(m);
    return rc;
}

/* *any: a part can still be pruned that far. */
static int iterate(struct adaptation *a, double aim, bool *any, struct pare_err *err)
{
    struct pare_search *s = a->s;

    *any = false;
    a->performance = NAN;
    for (int i = 0; i < s->n; i++) {
        bool reached;

        memset(a->step, 0, (size_t)s->n * sizeof(*a->step));
        a->step[i] = 1;
        PARE_TRY(pare_search_reach(s, a->now, a->step, aim, a->next, &reached, err));
        if (!reached)
            continue;
        *any = true;
        PARE_TRY(try_part(a, aim, err));
    }
    if (!*any)
        return 0;
    if (!a->model)
        PARE_TRY(make(a, a->kept, &a->model, err));
    pare_model_free(s->model);
    s->model = a->model;
    a->model = NULL;
    memcpy(a->now, a->kept, (size_t)s->n * sizeof(*a->now));
    s->best_performance = a->performance;
    return pare_search_gone(s, a->now, &a->gone, err);
}

static int adapt(struct adaptation *a, struct pare_err *err)
{
    struct pare_search *s = a->s;
    double step = a->o->sparsity_per_iteration;

    PARE_TRY(pare_search_gone(s, a->now, &a->gone, err));
    s->most = s->n * (int64_t)ceil(s->target / step);
    while (a->gone < s->target - SMALLEST) {
        bool any;

        PARE_TRY(iterate(a, fmin(a->gone + step, s->target), &any, err));
        if (any)
            continue;
        step /= 2;
        if (step < SMALLEST)
            return pare_fail(err, PARE_ECONFIG,
                             "no layer can be pruned further at %.1f%% of the resource removed, "
                             "%.1f%% are asked for",
                             100 * a->gone, 100 * s->target);
    }
    memcpy(s->best, a->now, (size_t)s->n * sizeof(*s->best));
    return 0;
}

static int run(struct pare_search *s, struct pare_err *err)
{
    size_t n = (size_t)s->n + 1;
    struct adaptation a = { .s = s,
                            .o = (const struct opts *)s->o,
                            .now = pare_alloc(s->arena, n, sizeof(double)),
                            .next = pare_alloc(s->arena, n, sizeof(double)),
                            .step = pare_alloc(s->arena, n, sizeof(double)),
                            .kept = pare_alloc(s->arena, n, sizeof(double)) };
    int rc;

    if (!a.now || !a.next || !a.step || !a.kept)
        return pare_no_memory(err, "for a search");
    rc = adapt(&a, err);
    pare_model_free(a.model);
    if (!rc) {
        s->found = s->model;
        s->model = NULL;
    }
    return rc;
}

const struct pare_search_kind pare_search_netadapt = {
    .algorithm = PARE_SEARCH_ALGORITHM(
        "netadapt", "Prune one layer at a time, always the one that costs the least accuracy.",
        opts, struct opts),
    .run = run,
};

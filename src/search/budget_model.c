/* budget_model.c - the real model of an assignment: channels removed and the rest repaired, trained
 * with the original as teacher, rounded. */
#include <stdio.h>
#include <string.h>

#include "budget_search.h"

#include "../base/arena.h"
#include "../compress/config.h"
#include "../compress/wrap.h"
#include "../pipeline/finetune.h"
#include "../pipeline/repair_choice.h"
#include "../speedup/speedup.h"

/* The rate is the best of 0.001 to 0.006 on held-out training items: layers are repaired
 * already. */
#define TRAINING "optimizer=adam lr=0.001 schedule=cosine "

static const char *common_settings(const struct pare_budget_search *s, struct pare_arena *a,
                                   const char *more)
{
    return pare_sprintf(a, "seed=%llu threads=%d %s%s", (unsigned long long)s->o->seed,
                        s->o->threads, more, s->o->train ? s->o->train : "");
}

/* ---- channels -------------------------------------------------------------------------------- */

/* What is closest to the original on items of the data that were not fitted to: least squares, new
 * statistics of normalizations, or both.  A training that follows re-estimates statistics. */
static int repair(struct pare_budget_search *s, struct pare_model *m, bool trained,
                  struct pare_finetune *f, struct pare_err *err)
{
    struct pare_repair_choice c = { .model = m,
                                    .dense = s->model,
                                    .data = s->rest,
                                    .fit = true,
                                    .corrects = true,
                                    .threads = s->o->threads };

    PARE_TRY(pare_finetune_options(f, err));
    PARE_TRY(pare_finetune_open(f, err));
    c.trainer = f->trainer;
    c.recalibrate = (struct pare_recalibrate_opts){ .batches = trained ? 0
                                                                       : f->options->c.recalibrate,
                                                    .batch = f->options->train.batch,
                                                    .seed = s->o->seed,
                                                    .progress = s->o->progress,
                                                    .user = s->o->user };
    return pare_repair_choose(&c, err);
}

/* Zero the least important channels, and repair. */
static int prune(struct pare_budget_search *s, const struct pare_assignment *x,
                 struct pare_model *m, struct pare_arena *a, struct pare_err *err)
{
    struct pare_tuning tuning = { s->rest, NULL, common_settings(s, a, ""), NULL };
    struct pare_finetune f;
    int rc;

    PARE_TRY(pare_cost_zero(m, &s->units, x->count, err));
    PARE_TRY(pare_finetune_new(m, &tuning, &f, err));
    rc = repair(s, m, s->o->finetune > 0, &f, err);
    pare_finetune_close(&f);
    pare_arena_free(f.arena);
    return rc;
}

/* *out is a new model; with all channels a copy. */
static int remove_channels(struct pare_budget_search *s, const struct pare_assignment *x,
                           struct pare_arena *a, struct pare_model **out, struct pare_err *err)
{
    struct pare_speedup_opts shrink = { .threads = s->o->threads,
                                        .seed = s->o->seed,
                                        .progress = s->o->progress,
                                        .progress_user = s->o->user };
    struct pare_speedup_report r;
    struct pare_model *copy;
    bool full = true;
    int rc;

    for (int g = 0; g < s->table->n_groups; g++)
        full &= x->count[g] >= s->table->group[g].full;
    PARE_TRY(pare_model_duplicate(s->model, &copy, err));
    if (full) {
        *out = copy;
        return 0;
    }
    rc = prune(s, x, copy, a, err);
    if (!rc)
        rc = pare_speedup(copy, &shrink, a, out, &r, err);
    pare_model_free(copy);
    return rc;
}

/* ---- training -------------------------------------------------------------------------------- */

static int distill(struct pare_budget_search *s, struct pare_model *small, int64_t epochs,
                   struct pare_arena *a, struct pare_err *err)
{
    char number[32];
    struct pare_given given[] = { { "epochs", number }, { "checkpoint", NULL }, { "resume", "1" } };
    bool exists;
    struct pare_training_opts to = { .data = s->rest,
                                     .given = given,
                                     .settings = common_settings(s, a, TRAINING),
                                     .teacher = s->model,
                                     .progress = s->o->progress,
                                     .user = s->o->user };
    struct pare_training *training;
    int rc;

    snprintf(number, sizeof(number), "%lld", (long long)epochs);
    given[1].text = pare_journal_file(&s->journal,
                                      pare_sprintf(a, "training-%d.ckpt", s->journal.models),
                                      &exists);
    to.n_given = given[1].text ? exists ? 3 : 2 : 1;
    PARE_TRY(pare_training_new(small, &to, &training, err));
    rc = pare_training_run(training, NULL, NULL, err);
    pare_training_free(training);
    return rc;
}

/* ---- formats --------------------------------------------------------------------------------- */

static int quantize(struct pare_budget_search *s, const struct pare_assignment *x,
                    struct pare_model *m, struct pare_arena *a, struct pare_model **out,
                    struct pare_err *err)
{
    struct pare_quantize_opts q = { .preset = "int8",
                                    .tuning = { s->rest, NULL, NULL, NULL },
                                    .fold = true,
                                    .progress = s->o->progress,
                                    .user = s->o->user };
    struct pare_model *folded;
    struct pare_rules rules;
    struct pare_graph *g;
    bool mixed = false;
    int rc;

    /* Options of the training may have epochs: those were trained. */
    q.tuning.settings = pare_sprintf(a, "seed=%llu threads=%d", (unsigned long long)s->o->seed,
                                     s->o->threads);
    if (!q.tuning.settings)
        return pare_no_memory(err, "for a model");

    for (int i = 0; i < s->table->n_layers; i++)
        mixed |= x->format[i] == PARE_COST_F32 && s->table->layer[i].formats & 1u << PARE_COST_INT8;
    if (!mixed)
        return pare_quantize(m, &q, out, NULL, err);
    PARE_TRY(pare_model_fold(m, &folded, err));
    rc = pare_model_shapes(folded, a, &g, err);
    if (!rc)
        rc = pare_cost_rules(s->table, x->format, g, a, &rules, err);
    if (!rc) {
        q.preset = NULL;
        q.quantizer = "ptq";
        q.rule = rules.rule;
        q.n_rules = rules.n;
        rc = pare_quantize(folded, &q, out, NULL, err);
    }
    pare_model_free(folded);
    return rc;
}

static int build(struct pare_budget_search *s, const struct pare_assignment *x, int64_t epochs,
                 struct pare_arena *a, struct pare_model **out, struct pare_err *err)
{
    struct pare_model *small;
    bool any = false;
    int rc;

    PARE_TRY(remove_channels(s, x, a, &small, err));
    rc = epochs > 0 ? distill(s, small, epochs, a, err) : 0;
    for (int i = 0; i < s->table->n_layers; i++)
        any |= x->format[i] != PARE_COST_F32;
    if (!any && !rc) {
        *out = small;
        return 0;
    }
    if (!rc)
        rc = quantize(s, x, small, a, out, err);
    pare_model_free(small);
    return rc;
}

/* A model of the folder, which gives the same bytes whether the search was interrupted or not. */
static int take_saved(struct pare_budget_search *s, const char *path, bool exists,
                      struct pare_model **m, struct pare_err *err)
{
    int rc = exists ? 0 : pare_model_save(*m, path, NULL, err);

    pare_model_free(*m);
    *m = NULL;
    s->journal.models++;
    return rc ? rc : pare_model_load(path, m, err);
}

int pare_budget_build(struct pare_budget_search *s, const struct pare_assignment *x, int64_t epochs,
                      struct pare_model **out, struct pare_err *err)
{
    struct pare_arena *a = pare_arena_new(1 << 16);
    const char *path;
    bool exists;
    int rc = 0;

    *out = NULL;
    if (!a)
        return pare_no_memory(err, "for a model");
    path = pare_journal_file(&s->journal, pare_sprintf(a, "model-%d.onnx", s->journal.models),
                             &exists);
    if (!exists)
        rc = build(s, x, epochs, a, out, err);
    if (!rc && path)
        rc = take_saved(s, path, exists, out, err);
    pare_arena_free(a);
    return rc;
}

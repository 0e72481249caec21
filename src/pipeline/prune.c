/* prune.c - pare_prune(): masks by any pruner, fine-tuning, evaluation, removal of channels. */
#include <math.h>
#include <string.h>

#include "pipeline.h"
#include "short_tuning.h"

#include "../base/arena.h"
#include "../base/sized.h"
#include "../compress/method.h"
#include "../compress/wrap.h"
#include "../prune/default_rules.h"
#include "../prune/prune_method.h"
#include "../prune/prune_state.h"

#define NONE (-1)       /* a sparsity that is not given */
#define TRIAL_STEPS 100 /* at most, */
#define TRIAL_PART 8    /* and this part of an epoch */

const char *pare_prune_pruner(const struct pare_prune_opts *o)
{
    return o->pruner ? o->pruner : o->speedup ? "l1" : "level";
}

/* ---- opening --------------------------------------------------------------------------------- */

static const char *given_text(const struct pare_given *g, int n, const char *name)
{
    for (int i = n - 1; i >= 0; i--)
        if (!strcmp(g[i].name, name))
            return g[i].text;
    return NULL;
}

static const char *base_of(const struct pare_prune_job *j)
{
    const char *base = given_text(j->given, j->n_given, "base");

    return base ? base : "level";
}

/* The mode for coupled channels, if the pruner, or its base, ranks output channels; else NULL.
 * Errors of outputs are comparable between layers, other scores are not. */
static const char *channel_mode(const struct pare_prune_job *j, const char *pruner)
{
    const struct pare_algorithm *p;
    struct pare_err err;
    bool errors;

    if (pare_find_pruner(j->o.registry, pruner, &p, &err))
        return NULL; /* opening reports that there is no such pruner */
    if (p->flags & PARE_USES_BASE && pare_find_pruner(j->o.registry, base_of(j), &p, &err))
        return NULL;
    errors = p->flags & PARE_USES_GRAMS;
    if (!p->pruner || p->pruner->calc_mask || (p->pruner->mode && !errors) ||
        !p->pruner->granularity || strcmp(p->pruner->granularity, "out_channel") != 0)
        return NULL;
    return errors ? "global_aware" : "dependency_aware";
}

/* Whether the pruner, or its base, ranks single weights by magnitude. */
static bool ranks_magnitudes(const struct pare_prune_job *j, const char *pruner)
{
    const struct pare_algorithm *p;
    struct pare_err err;

    if (pare_find_pruner(j->o.registry, pruner, &p, &err))
        return false;
    if (p->flags & PARE_USES_BASE && pare_find_pruner(j->o.registry, base_of(j), &p, &err))
        return false;
    return p->pruner && p->flags & PARE_MAGNITUDE;
}

/* The mode if none is given; NULL: the pruner's.  A sparsity without a config_list is one of the
 * whole model, so that weights of all layers are ranked together; in a config_list it is one of
 * each layer, as in NNI. */
static const char *default_mode(const struct pare_prune_job *j, const char *pruner)
{
    const char *mode = j->o.speedup ? channel_mode(j, pruner) : NULL;

    if (mode)
        return mode;
    return !j->o.config && !j->o.rule && ranks_magnitudes(j, pruner) ? "global" : NULL;
}

/* All options in one list.  Channels are removed only where all layers that are coupled can spare
 * them: speedup ranks those together, and takes a base pruner that masks channels. */
static int join_options(struct pare_prune_job *j, struct pare_err *err)
{
    const char *pruner = pare_prune_pruner(&j->o), *mode;
    const struct pare_algorithm *p;
    struct pare_given *all, *set;
    int n;

    PARE_TRY(pare_find_pruner(j->o.registry, pruner, &p, err));
    PARE_TRY(pare_given_join(j->given, j->n_given, j->o.settings, j->tune.arena, &set, &n, err));
    all = pare_alloc(j->tune.arena, (size_t)n + 2, sizeof(*all));
    if (!all)
        return pare_no_memory(err, "for the options");
    memcpy(all, set, (size_t)n * sizeof(*all));
    if (j->o.speedup && p->flags & PARE_USES_BASE && !given_text(all, n, "base"))
        all[n++] = (struct pare_given){ "base", "l1" };
    j->given = all;
    j->n_given = n;
    j->o.settings = NULL;
    mode = given_text(all, n, "mode") ? NULL : default_mode(j, pruner);
    if (mode)
        all[j->n_given++] = (struct pare_given){ "mode", mode };
    return 0;
}

/* A sparsity alone: all layers that the pruner handles, or its base where it has one.  *g: the
 * graph with shapes that this needs, for wrapping the layers; NULL: it needs none. */
static int make_rules(const struct pare_prune_job *j, struct pare_compression_opts *co,
                      struct pare_graph **g, struct pare_err *err)
{
    const struct pare_prune_opts *o = &j->o;
    const struct pare_algorithm *p;
    struct pare_rules rules;

    *g = NULL;
    co->config = o->config;
    co->rule = o->rule;
    co->n_rules = o->n_rules;
    if (o->config || o->rule)
        return 0;
    if (o->sparsity < 0)
        return pare_fail(err, PARE_ECONFIG, "neither a sparsity nor a config_list is given");
    PARE_TRY(pare_find_pruner(o->registry, co->pruner, &p, err));
    if (p->flags & PARE_USES_BASE)
        PARE_TRY(pare_find_pruner(o->registry, base_of(j), &p, err));
    PARE_TRY(
        pare_at(err, pare_model_shapes(j->tune.model, j->tune.arena, g, err), "%s", j->tune.path));
    PARE_TRY(pare_at(err, pare_default_rules(*g, p, o->sparsity, j->tune.arena, &rules, err), "%s",
                     j->tune.path));
    co->rule = rules.rule;
    co->n_rules = rules.n;
    return 0;
}

static bool is_search(const struct pare_prune_job *j)
{
    const struct pare_algorithm *p;
    struct pare_err ignored;

    return !j->searched &&
           !pare_find_pruner(j->o.registry, pare_prune_pruner(&j->o), &p, &ignored) &&
           pare_is_search(p);
}

int pare_prune_open(struct pare_prune_job *j, struct pare_err *err)
{
    struct pare_finetune *f = &j->tune;
    bool data = pare_finetune_has_data(f);
    struct pare_compression_opts co = {
        .pruner = pare_prune_pruner(&j->o),
        .settings = j->o.settings,
        .registry = j->o.registry,
        .final = !data,
        .seed = data ? (uint64_t)f->options->c.seed : 0,
        .threads = data ? (int)f->options->c.threads : 0,
    };
    struct pare_graph *g;

    if (is_search(j))
        return pare_search_check(j, err);
    PARE_TRY(join_options(j, err));
    co.given = j->given;
    co.n_given = j->n_given;
    PARE_TRY(make_rules(j, &co, &g, err));
    PARE_TRY(pare_compression_open(&pare_method_prune, f->model, &co, g, &j->compression, err));
    pare_compression_share_with(j->compression, f->dist);
    pare_compression_on_progress(j->compression, j->o.progress, j->o.user);
    return data ? pare_compression_attach(j->compression, f->trainer, f->data[0],
                                          f->options->train.batch, err)
                : 0;
}

void pare_prune_close(struct pare_prune_job *j)
{
    pare_compression_free(j->compression);
    pare_finetune_close(&j->tune);
    pare_model_free(j->dense);
    pare_model_free(j->found);
    j->compression = NULL;
    j->dense = j->found = NULL;
}

/* ---- work ----------------------------------------------------------------------------------- */

/* Does the pruner, or its base, fit the weights that are left? */
static bool fits(const struct pare_prune_job *j)
{
    const struct pare_compression *c = j->compression;

    return c->algorithm[pare_compression_ranker(c)]->pruner->fit != NULL;
}

static bool is_tuned(const struct pare_prune_job *j)
{
    return pare_finetune_given(&j->tune, "epochs") && j->tune.options->c.epochs > 0;
}

/* Whether a removed unit is a channel, so that the layers after it can be fitted to what is
 * left. */
static bool removes_channels(struct pare_compression *c)
{
    for (int i = 0; i < pare_compression_layers(c); i++) {
        const struct pare_layer *l = pare_compression_layer(c, i);
        const char *unit = l->prune->goal.granularity;
        struct pare_pruned_layer p;

        pare_layer_pruned(l, &p);
        if (p.channels >= 0 || (unit && !strcmp(unit, "in_channel")))
            return true;
    }
    return false;
}

/* Whether least squares are tried: always for channels; for single weights, if asked for; not after
 * a pruner that has done it. */
static bool repairs(const struct pare_prune_job *j)
{
    if (j->o.repair == PARE_REPAIR_OFF || fits(j))
        return false;
    return j->o.repair == PARE_REPAIR_ON || removes_channels(j->compression);
}

/* Does the pruner train for its own sake, so that the model is not the original any more?  Some run
 * a few steps to score channels. */
static int trains(const struct pare_prune_job *j, bool *yes, struct pare_err *err)
{
    const struct pare_algorithm *p;
    int64_t epochs, steps;

    PARE_TRY(pare_find_pruner(j->o.registry, pare_prune_pruner(&j->o), &p, err));
    PARE_TRY(pare_compression_length(j->compression, &epochs, &steps, err));
    *yes = !(p->flags & PARE_ONE_SHOT) || p->flags & PARE_USES_BASE || epochs > 0;
    return 0;
}

/* Train a copy as the fine-tuning that follows begins. */
static int try_tuning(void *user, struct pare_model *copy, struct pare_err *err)
{
    struct pare_prune_job *j = user;
    const struct pare_short_tuning s = { .of = &j->tune,
                                         .model = copy,
                                         .data = j->tune.data[0],
                                         .steps = j->choice.trial_steps,
                                         .constant = true,
                                         .progress = j->o.progress,
                                         .user = j->o.user };

    return pare_short_tuning(&s, err);
}

/* Repaired weights may be large, and a training that removal alone would survive diverges. */
static void add_trial(struct pare_prune_job *j)
{
    struct pare_repair_choice *c = &j->choice;
    int64_t steps = pare_finetune_epoch_steps(&j->tune) / TRIAL_PART;

    if (!is_tuned(j) || !c->fit || steps < 1)
        return;
    c->trial = try_tuning;
    c->trial_user = j;
    c->trial_steps = steps < TRIAL_STEPS ? steps : TRIAL_STEPS;
}

/* Repair without training: what is closest to the original is kept.  Training re-estimates the
 * statistics of normalizations anyway. */
static int repair(struct pare_prune_job *j, struct pare_err *err)
{
    struct pare_finetune *f = &j->tune;
    const struct pare_train_options *s = f->options;
    struct pare_repair_choice *c = &j->choice;
    bool own;

    PARE_TRY(trains(j, &own, err));
    *c = (struct pare_repair_choice){ .model = f->model,
                                      .dense = j->dense,
                                      .compression = j->compression,
                                      .trainer = f->trainer,
                                      .data = f->data[0],
                                      .recalibrate = { .batches = is_tuned(j) ? 0
                                                                              : s->c.recalibrate,
                                                       .batch = s->train.batch,
                                                       .seed = (uint64_t)s->c.seed,
                                                       .progress = j->o.progress,
                                                       .user = j->o.user },
                                      .fit = !own && repairs(j),
                                      .corrects = !own && j->o.repair != PARE_REPAIR_OFF,
                                      .reconstruct = j->o.reconstruct ? &j->reconstruct : NULL,
                                      .dist = f->dist,
                                      .threads = (int)s->c.threads };
    if (!c->fit && !c->reconstruct &&
        !(f->trainer && c->recalibrate.batches && pare_recalibrate_count(f->trainer)))
        return 0;
    add_trial(j);
    PARE_TRY(pare_repair_choose(c, err));
    j->recalibrated = c->estimated;
    j->repaired = true;
    return 0;
}

static int mask(struct pare_prune_job *j, struct pare_err *err)
{
    bool own;

    if (pare_finetune_has_data(&j->tune))
        PARE_TRY(pare_model_duplicate(j->tune.model, &j->dense, err));
    else if (j->o.repair == PARE_REPAIR_ON || j->o.reconstruct)
        return pare_fail(err, PARE_ECONFIG, "%s needs data: use --data",
                         j->o.reconstruct ? "reconstruction" : "repair");
    PARE_TRY(pare_compression_compress(j->compression, err));
    if (j->o.repair != PARE_REPAIR_ON || pare_compression_zeros(j->compression))
        return 0;
    PARE_TRY(trains(j, &own, err));
    if (own || is_tuned(j))
        return pare_fail(err, PARE_ECONFIG,
                         "pruner '%s' prunes while the model trains, and repair needs channels "
                         "that are removed before that: use l1, l2, fpgm or another pruner "
                         "without training",
                         pare_prune_pruner(&j->o));
    return 0;
}

/* After the masks, and before any fine-tuning. */
static int repair_masked(struct pare_prune_job *j, struct pare_err *err)
{
    struct pare_finetune *f = &j->tune;

    if (!pare_compression_zeros(j->compression))
        return 0;
    PARE_TRY(pare_finetune_evaluate(f, f->model, &j->masked, err));
    return repair(j, err);
}

/* After the step that made the masks: the steps before it served the scores alone. */
static int repair_first_masks(void *user, struct pare_err *err)
{
    struct pare_prune_job *j = user;

    PARE_TRY(pare_compression_rewind(j->compression, err));
    return repair_masked(j, err);
}

/* A pruner that observes a few steps makes its masks when the fine-tuning has begun. */
static int prepare_repair(struct pare_prune_job *j, struct pare_err *err)
{
    struct pare_compression *c = j->compression;
    bool own;

    PARE_TRY(trains(j, &own, err));
    if (own || j->repaired || !is_tuned(j) || !j->tune.trainer || !repairs(j))
        return 0;
    PARE_TRY(pare_compression_remember(c, err));
    c->masked = repair_first_masks;
    c->masked_user = j;
    return 0;
}

/* After training: masks that it made, of a model that is still the original. */
static int finish(struct pare_prune_job *j, struct pare_err *err)
{
    struct pare_finetune *f = &j->tune;
    int64_t done = 0;
    bool own;

    if (is_tuned(j) || j->repaired || f->result.stopped || !pare_compression_zeros(j->compression))
        return 0;
    PARE_TRY(trains(j, &own, err));
    if (!own || j->o.reconstruct)
        return repair_masked(j, err);
    PARE_TRY(pare_finetune_recalibrate(f, j->o.progress, j->o.user, &done, err));
    j->recalibrated = done > 0;
    return 0;
}

int pare_prune_work(struct pare_prune_job *j, struct pare_err *err)
{
    struct pare_finetune *f = &j->tune;

    if (is_search(j)) {
        PARE_TRY(pare_search_check(j, err));
        PARE_TRY(pare_finetune_evaluate(f, f->model, &j->before, err));
        PARE_TRY(pare_search_run(j, err));
    }
    PARE_TRY(pare_prune_open(j, err));
    if (!j->searched)
        PARE_TRY(pare_finetune_evaluate(f, f->model, &j->before, err));
    PARE_TRY(mask(j, err));
    if (pare_finetune_has_data(f)) {
        PARE_TRY(repair_masked(j, err));
        PARE_TRY(pare_finetune_schedule(f, j->compression, &j->trained, err));
        PARE_TRY(prepare_repair(j, err));
        if (j->trained)
            PARE_TRY(j->train(j->user, f, err));
        PARE_TRY(finish(j, err));
        if (j->trained || j->recalibrated || j->choice.kept)
            PARE_TRY(pare_finetune_evaluate(f, f->model, &j->after, err));
    }
    if (!pare_compression_zeros(j->compression))
        return pare_fail(err, PARE_ECONFIG,
                         "no weights were removed, so nothing is written: the sparsity is too low "
                         "for these layers, or the pruner needs more training steps");
    return 0;
}

const struct pare_metrics *pare_prune_result(const struct pare_prune_job *j)
{
    return j->trained || j->recalibrated || j->choice.kept ? &j->after : &j->masked;
}

/* ---- estimates ------------------------------------------------------------------------------ */

static int try_masks(struct pare_prune_job *j, const char *pruner, bool options,
                     struct pare_err *err)
{
    struct pare_compression_opts co = { .registry = j->o.registry, .final = true };
    struct pare_graph *g;
    int rc;

    co.pruner = pare_prune_pruner(&j->o);
    PARE_TRY(make_rules(j, &co, &g, err));
    co.pruner = pruner;
    if (options) {
        co.given = j->given;
        co.n_given = j->n_given;
        co.settings = j->o.settings;
    }
    rc = pare_compression_open(&pare_method_prune, j->tune.model, &co, g, &j->compression, err);
    if (!rc)
        rc = pare_compression_compress(j->compression, err);
    if (!rc && !pare_compression_zeros(j->compression))
        rc = pare_fail(err, PARE_EUNSUPPORTED, "pruner '%s' needs data", pruner);
    pare_compression_free(j->compression);
    j->compression = NULL;
    return rc;
}

int pare_prune_estimate(struct pare_prune_job *j, struct pare_err *err)
{
    const char *name = pare_prune_pruner(&j->o);
    const struct pare_algorithm *p;

    if (is_search(j)) { /* about as many weights are removed, from other layers */
        PARE_TRY(pare_search_check(j, err));
        j->o.pruner = name = pare_search_base(j);
        return try_masks(j, name, false, err);
    }
    PARE_TRY(pare_find_pruner(j->o.registry, name, &p, err));
    PARE_TRY(join_options(j, err));
    if (!(p->flags & (PARE_USES_BASE | PARE_NEEDS_DATA | PARE_NEEDS_STEPS)) &&
        !try_masks(j, name, true, err))
        return 0;
    if (p->flags & PARE_USES_BASE)
        PARE_TRY(pare_find_pruner(j->o.registry, base_of(j), &p, err));
    return try_masks(j,
                     p->pruner->granularity && strcmp(p->pruner->granularity, "element") != 0
                         ? "l1"
                         : "level",
                     false, err);
}

/* ---- <pare/compress.h> ---------------------------------------------------------------------- */

static int train(void *user, struct pare_finetune *f, struct pare_err *err)
{
    const struct pare_prune_job *j = user;

    return pare_finetune_train_with(f, j->o.progress, j->o.user, err);
}

static int shrink(struct pare_prune_job *j, struct pare_model **out, struct pare_prune_report *r,
                  struct pare_err *err)
{
    struct pare_speedup_report s;
    struct pare_speedup_opts o;

    PARE_TRY(pare_sized_copy(&o, sizeof(o), j->o.shrink, err));
    o.size = sizeof(o);
    if (!o.progress) {
        o.progress = j->o.progress;
        o.progress_user = j->o.user;
    }
    PARE_TRY(pare_speedup(j->tune.model, &o, j->tune.arena, out, &s, err));
    r->params = s.params;
    r->params_left = s.params_left;
    r->macs = s.macs;
    r->macs_left = s.macs_left;
    return 0;
}

static void count_weights(struct pare_compression *c, struct pare_prune_report *r)
{
    for (int i = 0; i < pare_compression_layers(c); i++) {
        const struct pare_tensor *w = pare_layer_weight(pare_compression_layer(c, i));

        r->weights += w ? pare_numel(w) : 0;
    }
    r->zeros = pare_compression_zeros(c);
}

_Static_assert(sizeof(((struct pare_prune_report *)0)->repair_db) ==
                   PARE_WAY_RECONSTRUCTION * sizeof(double),
               "one ratio for each way before reconstruction");

static int run(struct pare_prune_job *j, struct pare_model **out, struct pare_prune_report *r,
               struct pare_err *err)
{
    struct pare_finetune *f = &j->tune;

    if (pare_finetune_has_data(f)) {
        PARE_TRY(pare_finetune_options(f, err));
        PARE_TRY(pare_finetune_open(f, err));
    }
    PARE_TRY(pare_prune_work(j, err));
    r->before = j->before;
    r->masked = j->masked;
    r->after = *pare_prune_result(j);
    for (int i = 0; i < PARE_WAY_RECONSTRUCTION && j->repaired; i++)
        r->repair_db[i] = j->choice.db[i];
    if (j->repaired)
        r->reconstruct_db = j->choice.db[PARE_WAY_RECONSTRUCTION];
    r->repair_kept = j->repaired ? pare_repair_way_name(j->choice.kept) : NULL;
    r->repaired = j->choice.fitted;
    count_weights(j->compression, r);
    PARE_TRY(pare_finetune_check_drop(f, &r->before, &r->after, err));
    if (j->o.speedup)
        return shrink(j, out, r, err);
    pare_model_retain(f->model);
    *out = f->model;
    return 0;
}

int pare_prune(struct pare_model *model, const struct pare_prune_opts *opts,
               struct pare_model **out, struct pare_prune_report *report, struct pare_err *err)
{
    PARE_ERR(err);
    struct pare_prune_report ignored, *r = report ? report : &ignored;
    struct pare_prune_job j = { .train = train };
    int rc;

    *out = NULL;
    *r = (struct pare_prune_report){ .macs = -1,
                                     .macs_left = -1,
                                     .repair_db = { NAN, NAN, NAN, NAN, NAN },
                                     .reconstruct_db = NAN };
    PARE_TRY(pare_sized_copy(&j.o, sizeof(j.o), opts, err));
    if (j.o.reconstruct)
        PARE_TRY(pare_sized_copy(&j.reconstruct, sizeof(j.reconstruct), j.o.reconstruct, err));
    if (!(j.o.sparsity > 0))
        j.o.sparsity = NONE;
    PARE_TRY(pare_finetune_new(model, &j.o.tuning, &j.tune, err));
    j.user = &j;
    rc = run(&j, out, r, err);
    pare_prune_close(&j);
    pare_arena_free(j.tune.arena);
    return rc;
}

/* compress_model.c - pare_compress(): the whole program on one screen. */
#include <stdio.h>
#include <string.h>

#include "compress_presets.h"
#include "pipeline.h"

#include "../base/arena.h"
#include "../base/sized.h"
#include "../train/accuracy_drop.h"

/* Remove channels, all of the same dependency group together, and repair what is left. */
static int prune(struct pare_model *model, const struct pare_compress_preset *t,
                 const struct pare_compress_opts *o, struct pare_model **small,
                 struct pare_prune_report *report, struct pare_err *err)
{
    char settings[64];
    struct pare_speedup_opts shrink = { .threads = o->threads, .seed = o->seed };
    struct pare_prune_opts p = { .pruner = t->pruner,
                                 .sparsity = t->sparsity,
                                 .settings = t->dependency_aware ? "mode=dependency_aware" : NULL,
                                 .tuning = { o->data, NULL, settings, NULL },
                                 .speedup = true,
                                 .shrink = &shrink,
                                 .progress = o->progress,
                                 .user = o->user };

    snprintf(settings, sizeof(settings), "seed=%llu threads=%d", (unsigned long long)o->seed,
             o->threads);
    return pare_prune(model, &p, small, report, err);
}

/* Fine-tune the smaller model with the original as its teacher. */
static int distill(struct pare_model *small, struct pare_model *teacher,
                   const struct pare_compress_preset *t, const char *settings,
                   const struct pare_compress_opts *o, struct pare_err *err)
{
    struct pare_training_opts to = { .data = o->data,
                                     .valid = o->valid,
                                     .given = t->distill,
                                     .n_given = t->n_distill,
                                     .settings = settings,
                                     .teacher = teacher,
                                     .progress = o->progress,
                                     .user = o->user };
    struct pare_training *training;
    int rc;

    PARE_TRY(pare_training_new(small, &to, &training, err));
    rc = pare_training_run(training, NULL, NULL, err);
    pare_training_free(training);
    return rc;
}

static int quantize(struct pare_model *model, const char *preset, const char *settings,
                    const struct pare_compress_opts *o, struct pare_model **out,
                    struct pare_quantize_report *report, struct pare_err *err)
{
    struct pare_quantize_opts q = { .preset = preset,
                                    .tuning = { o->data, o->valid, settings, NULL },
                                    .progress = o->progress,
                                    .user = o->user };

    return pare_quantize(model, &q, out, report, err);
}

static int compress(struct pare_model *model, const struct pare_compress_preset *t,
                    const struct pare_compress_opts *o, struct pare_model **out,
                    struct pare_compress_report *report, struct pare_arena *a, struct pare_err *err)
{
    const char *common = pare_sprintf(a, "seed=%llu threads=%d %s", (unsigned long long)o->seed,
                                      o->threads, o->train ? o->train : "");
    struct pare_prune_report pruned = { .macs = -1, .macs_left = -1 };
    struct pare_quantize_report quantized;
    struct pare_model *copy = NULL, *small = NULL;
    int rc = common ? pare_model_duplicate(model, &copy, err)
                    : pare_no_memory(err, "for the options");

    if (!rc && o->valid)
        rc = pare_evaluate(model, o->valid, NULL, &report->before, err);
    if (!rc && t->pruner)
        rc = prune(copy, t, o, &small, &pruned, err);
    if (!rc && small)
        rc = distill(small, model, t, common, o, err);
    if (!rc)
        rc = quantize(small ? small : copy, t->quantize, common, o, out, &quantized, err);
    if (!rc) {
        report->after = quantized.after;
        report->params = pruned.params;
        report->params_left = pruned.params_left;
        report->macs = pruned.macs;
        report->macs_left = pruned.macs_left;
        rc = pare_accuracy_drop_check(o->max_drop > 0 ? o->max_drop : -1, &report->before,
                                      &report->after, err);
    }
    if (rc) {
        pare_model_free(*out);
        *out = NULL;
    }
    pare_model_free(small);
    pare_model_free(copy);
    return rc;
}

int pare_compress(struct pare_model *model, const struct pare_compress_opts *opts,
                  struct pare_model **out, struct pare_compress_report *report,
                  struct pare_err *err)
{
    PARE_ERR(err);
    struct pare_compress_report ignored, *r = report ? report : &ignored;
    struct pare_compress_opts o;
    const struct pare_compress_preset *t;
    struct pare_arena *a;
    int rc;

    *out = NULL;
    *r = (struct pare_compress_report){ .macs = -1, .macs_left = -1 };
    PARE_TRY(pare_sized_copy(&o, sizeof(o), opts, err));
    t = pare_compress_preset(o.preset ? o.preset : "balanced");
    if (!t || !t->quantize)
        return pare_fail(err, PARE_ECONFIG, "preset is '%s', must be one of " PARE_COMPRESS_RECIPES,
                         o.preset);
    if (!o.data)
        return pare_fail(err, PARE_ECONFIG, "compression needs a data set");
    a = pare_arena_new(1 << 12);
    if (!a)
        return pare_no_memory(err, "for the options");
    rc = compress(model, t, &o, out, r, a, err);
    pare_arena_free(a);
    return rc;
}

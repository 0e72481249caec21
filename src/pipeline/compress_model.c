/* compress_model.c - pare_compress(): the whole program on one screen. */
#include <string.h>

#include "pipeline.h"

#include "../base/arena.h"
#include "../base/sized.h"

static const struct recipe {
    const char *name;
    double sparsity;      /* of channels; 0: not pruned */
    const char *finetune; /* options of the training after pruning */
} recipes[] = {
    { "tiny", 0.75, "epochs=15 optimizer=adam schedule=cosine" },
    { "balanced", 0.5, "epochs=5 optimizer=adam schedule=cosine" },
    { "int8", 0, NULL },
};

static const struct recipe *find_recipe(const char *name)
{
    for (size_t i = 0; i < sizeof(recipes) / sizeof(*recipes); i++)
        if (!strcmp(recipes[i].name, name))
            return &recipes[i];
    return NULL;
}

/* Remove channels, all of the same dependency group together. */
static int prune(struct pare_model *model, const struct recipe *r,
                 const struct pare_compress_opts *o, struct pare_model **small,
                 struct pare_prune_report *report, struct pare_err *err)
{
    struct pare_prune_opts p = { .pruner = "l1",
                                 .sparsity = r->sparsity,
                                 .settings = "mode=dependency_aware",
                                 .speedup = true,
                                 .shrink = { .threads = o->threads, .seed = o->seed } };

    return pare_prune(model, &p, small, report, err);
}

/* Fine-tune the smaller model with the original as its teacher. */
static int distill(struct pare_model *small, struct pare_model *teacher, const char *settings,
                   const struct pare_compress_opts *o, struct pare_err *err)
{
    struct pare_training_opts t = { .data = o->data,
                                    .valid = o->valid,
                                    .settings = settings,
                                    .teacher = teacher,
                                    .progress = o->progress,
                                    .user = o->user };
    struct pare_training *training;
    int rc;

    PARE_TRY(pare_training_new(small, &t, &training, err));
    rc = pare_training_run(training, NULL, NULL, err);
    pare_training_free(training);
    return rc;
}

static int quantize(struct pare_model *model, const char *settings,
                    const struct pare_compress_opts *o, struct pare_model **out,
                    struct pare_quantize_report *report, struct pare_err *err)
{
    struct pare_quantize_opts q = { .preset = "int8",
                                    .tuning = { o->data, o->valid, settings, NULL },
                                    .keep_zeros = true,
                                    .progress = o->progress,
                                    .user = o->user };

    return pare_quantize(model, &q, out, report, err);
}

static int compress(struct pare_model *model, const struct recipe *r,
                    const struct pare_compress_opts *o, struct pare_model **out,
                    struct pare_compress_report *report, struct pare_arena *a, struct pare_err *err)
{
    const char *common = pare_sprintf(a, "seed=%llu threads=%d %s", (unsigned long long)o->seed,
                                      o->threads, o->train ? o->train : "");
    const char *tune = pare_sprintf(a, "%s %s", r->finetune ? r->finetune : "", common);
    struct pare_prune_report pruned = { .macs = -1, .macs_left = -1 };
    struct pare_quantize_report quantized;
    struct pare_model *copy = NULL, *small = NULL;
    int rc = common && tune ? pare_model_duplicate(model, &copy, err)
                            : pare_no_memory(err, "for the options");

    if (!rc && o->valid)
        rc = pare_evaluate(model, o->valid, NULL, &report->before, err);
    if (!rc && r->sparsity > 0)
        rc = prune(copy, r, o, &small, &pruned, err);
    if (!rc && small)
        rc = distill(small, model, tune, o, err);
    if (!rc)
        rc = quantize(small ? small : copy, common, o, out, &quantized, err);
    if (!rc) {
        report->after = quantized.after;
        report->params = pruned.params;
        report->params_left = pruned.params_left;
        report->macs = pruned.macs;
        report->macs_left = pruned.macs_left;
    }
    pare_model_free(small);
    pare_model_free(copy);
    return rc;
}

int pare_compress(struct pare_model *model, const struct pare_compress_opts *opts,
                  struct pare_model **out, struct pare_compress_report *report,
                  struct pare_err *err)
{
    struct pare_compress_report ignored, *r = report ? report : &ignored;
    struct pare_compress_opts o;
    const struct recipe *recipe;
    struct pare_arena *a;
    int rc;

    *out = NULL;
    *r = (struct pare_compress_report){ .macs = -1, .macs_left = -1 };
    PARE_TRY(pare_sized_copy(&o, sizeof(o), opts, err));
    recipe = find_recipe(o.preset ? o.preset : "balanced");
    if (!recipe)
        return pare_fail(err, PARE_ECONFIG, "preset is '%s', must be tiny, balanced or int8",
                         o.preset);
    if (!o.data)
        return pare_fail(err, PARE_ECONFIG, "compression needs a data set");
    a = pare_arena_new(1 << 12);
    if (!a)
        return pare_no_memory(err, "for the options");
    rc = compress(model, recipe, &o, out, r, a, err);
    pare_arena_free(a);
    return rc;
}

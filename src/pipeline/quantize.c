/* quantize.c - pare_quantize(): fold, calibrate or train, mixed precision, write integers. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pipeline.h"

#include "../base/arena.h"
#include "../base/sized.h"
#include "../compress/method.h"
#include "../compress/wrap.h"
#include "../onnx/fold_norm.h"
#include "../plan/batch/free_batch.h"
#include "../quant/conv_bn_quant.h"
#include "../quant/export_qdq.h"
#include "../quant/presets.h"
#include "../quant/quant_check.h"
#include "../quant/quant_method.h"

const char *const *pare_quantize_presets(void)
{
    return pare_preset_names;
}

/* ---- folding -------------------------------------------------------------------------------- */

/* Fold before quantization: if requested, or with a preset that folds, unless the quantizer folds
 * BatchNormalization itself during training. */
static bool folds_first(const struct pare_quantize_job *j)
{
    const struct pare_quantize_opts *o = &j->o;
    const struct pare_preset *p;
    const struct pare_algorithm *q;
    struct pare_err err;

    if (o->fold || !o->preset || pare_find_preset(o->preset, &p, &err) || !p->folds)
        return o->fold;
    return !o->quantizer || pare_find_quantizer(o->registry, o->quantizer, &q, &err) ||
           !pare_needs_bn_folding(q, j->given, j->n_given);
}

int pare_model_fold(struct pare_model *model, struct pare_model **out, struct pare_err *err)
{
    PARE_ERR(err);
    int n;

    PARE_TRY(pare_model_fold_norm(model, out, &n, err));
    if (!*out) {
        pare_model_retain(model);
        *out = model;
    }
    return 0;
}

/* Is one of the words "name=value"?  "rounding_items=64" is not about "rounding". */
static bool is_set(const char *settings, const char *name)
{
    size_t len = strlen(name);

    for (const char *p = settings; p && *p; p += strcspn(p, " \t\n"), p += *p != 0)
        if (!strncmp(p, name, len) && p[len] == '=')
            return true;
    return false;
}

bool pare_quantize_is_given(const struct pare_quantize_job *j, const char *name)
{
    for (int i = 0; i < j->n_given; i++)
        if (!strcmp(j->given[i].name, name))
            return true;
    return is_set(j->o.settings, name);
}

/* Equalization needs adjacent layers, and bias correction needs biases: both fold.  A correction
 * that was not asked for takes the biases that there are. */
int pare_quantize_fold(struct pare_quantize_job *j, struct pare_err *err)
{
    struct pare_quant_settings q;
    struct pare_option_group shared = { "quantization", NULL, pare_quant_options, &q };
    struct pare_model *folded;

    PARE_TRY(pare_option_group_fill(&shared, j->given, j->n_given, j->tune.arena, err));
    if (!folds_first(j) && !q.equalize &&
        !(q.bias_correction && pare_quantize_is_given(j, "bias_correction")))
        return 0;
    PARE_TRY(pare_at(err, pare_model_fold(j->tune.model, &folded, err), "%s", j->tune.path));
    if (folded != j->tune.model)
        j->tune.model = j->folded = folded;
    else
        pare_model_free(folded);
    return 0;
}

/* ---- opening -------------------------------------------------------------------------------- */

int pare_quantize_check_training(const struct pare_quantize_job *j, bool *untrained,
                                 struct pare_err *err)
{
    const struct pare_algorithm *q;

    *untrained = false;
    if (!j->o.quantizer || j->load_calibration || pare_finetune_given(&j->tune, "epochs"))
        return 0;
    PARE_TRY(pare_find_quantizer(j->o.registry, j->o.quantizer, &q, err));
    *untrained = q->flags & PARE_TRAINED;
    if (!*untrained || !pare_finetune_has_data(&j->tune))
        return 0;
    return pare_fail(err, PARE_ECONFIG,
                     "quantizer '%s' learns in training: set the number of epochs (--epochs 3; 0: "
                     "quantize without training), or use ptq, which calibrates",
                     q->name);
}

bool pare_quantize_trains(const struct pare_quantize_job *j)
{
    const struct pare_algorithm *q = NULL;
    struct pare_err err;

    if (j->o.quantizer && pare_find_quantizer(j->o.registry, j->o.quantizer, &q, &err))
        return true; /* opening reports that there is no such quantizer */
    return pare_finetune_given(&j->tune, "epochs") ||
           (q && (q->length || q->flags & PARE_NEEDS_STEPS));
}

/* The quantizer and config_list of the preset, or those that are given.  *g: the graph with shapes
 * that this needs, for wrapping the layers; NULL: it needs none. */
static int make_rules(struct pare_quantize_job *j, struct pare_compression_opts *co,
                      struct pare_graph **g, struct pare_err *err)
{
    const struct pare_quantize_opts *o = &j->o;
    struct pare_rules rules;
    const char *usual;

    *g = NULL;
    co->quantizer = o->quantizer;
    co->config = o->config;
    co->rule = o->rule;
    co->n_rules = o->n_rules;
    if (!o->preset)
        return 0;
    PARE_TRY(
        pare_at(err, pare_model_shapes(j->tune.model, j->tune.arena, g, err), "%s", j->tune.path));
    PARE_TRY(pare_at(err, pare_preset(o->preset, *g, j->tune.arena, &usual, &rules, err), "%s",
                     j->tune.path));
    co->quantizer = o->quantizer ? o->quantizer : usual;
    co->rule = rules.rule;
    co->n_rules = rules.n;
    j->note = rules.note;
    return 0;
}

static int open_quantizer(struct pare_model *m, const struct pare_compression_opts *co,
                          struct pare_graph *g, struct pare_compression **c, struct pare_err *err)
{
    if (!co->quantizer) /* reports the error */
        return pare_compression_new(m, co, c, err);
    return pare_compression_open(&pare_method_quant, m, co, g, c, err);
}

/* Scales of smoothed inputs make some weights of a row much larger than the others, which then are
 * rounded to few levels: the data decides how. */
#define SMOOTHED "rounding=gptq rounding_toward=layer rounding_passes=1"

/* Settings of the preset; of preset int8 those for smoothed inputs. */
static const char *preset_settings(const struct pare_quantize_job *j)
{
    const char *own = pare_preset_settings(j->o.preset);
    const struct pare_preset *p;
    struct pare_err err;

    if (own || !j->smoothed || !j->o.preset || pare_find_preset(j->o.preset, &p, &err))
        return own;
    if (!p->quantizer || strcmp(p->quantizer, "ptq") != 0)
        return NULL;
    return j->smoothed_items ? pare_sprintf(j->tune.arena, SMOOTHED " rounding_items=%lld",
                                            (long long)j->smoothed_items)
                             : SMOOTHED;
}

/* The settings of the preset, then those that are given, unless these are about the same. */
static int join_settings(const struct pare_quantize_job *j, const char **settings,
                         struct pare_err *err)
{
    const char *own = preset_settings(j), *end = own ? strchr(own, '=') : NULL;
    char name[64];

    *settings = j->o.settings;
    if (!end || j->o.quantizer)
        return 0;
    snprintf(name, sizeof(name), "%.*s", (int)(end - own), own);
    if (pare_quantize_is_given(j, name))
        return 0;
    *settings = *settings ? pare_sprintf(j->tune.arena, "%s %s", own, *settings) : own;
    return *settings ? 0 : pare_no_memory(err, "for the options");
}

static int open_compression(struct pare_quantize_job *j, struct pare_err *err)
{
    struct pare_finetune *f = &j->tune;
    bool data = pare_finetune_has_data(f);
    struct pare_compression_opts co = {
        .given = j->given,
        .n_given = j->n_given,
        .registry = j->o.registry,
        .keep_zeros = j->o.keep_zeros,
        .seed = data ? (uint64_t)f->options->c.seed : 0,
        .threads = data ? (int)f->options->c.threads : 0,
    };
    struct pare_graph *g;

    PARE_TRY(join_settings(j, &co.settings, err));
    PARE_TRY(make_rules(j, &co, &g, err));
    PARE_TRY(open_quantizer(f->model, &co, g, &j->compression, err));
    if (j->load_calibration)
        PARE_TRY(pare_compression_calibrate(j->compression, j->load_calibration, err));
    pare_compression_share_with(j->compression, f->dist);
    pare_compression_on_progress(j->compression, j->o.progress, j->o.user);
    if (!data)
        return 0;
    return f->observe
               ? pare_compression_use_data(j->compression, f->data[0], f->options->train.batch, err)
               : pare_compression_attach(j->compression, f->trainer, f->data[0],
                                         f->options->train.batch, err);
}

int pare_quantize_open(struct pare_quantize_job *j, struct pare_err *err)
{
    return pare_quantize_is_half(j) ? 0 : open_compression(j, err);
}

void pare_quantize_close(struct pare_quantize_job *j)
{
    pare_compression_free(j->compression);
    pare_finetune_close(&j->tune);
    pare_model_free(j->smoothed);
    pare_model_free(j->folded);
    j->compression = NULL;
    j->folded = j->smoothed = NULL;
}

/* ---- work ----------------------------------------------------------------------------------- */

/* Evaluate the fake-quantized model and collect the quantization noise. */
static int evaluate_fake_quant(struct pare_quantize_job *j, struct pare_err *err)
{
    int rc;

    pare_quant_measure_noise(j->compression, true);
    rc = pare_finetune_evaluate(&j->tune, j->tune.model, &j->rounded, err);
    pare_quant_measure_noise(j->compression, false);
    return rc ? rc : pare_quant_merge_noise(j->compression, err);
}

/* The first process writes; the others read the file when it is complete. */
static int write_file(struct pare_quantize_job *j, const struct pare_export *files,
                      struct pare_err *err)
{
    if (!pare_dist_rank(j->tune.dist))
        PARE_TRY(pare_compression_export(j->compression, files, err));
    return pare_dist_barrier(j->tune.dist, err);
}

/* The quantized model: loaded from its file, or in memory when it has none. */
static int load_result(struct pare_quantize_job *j, struct pare_model **m, struct pare_err *err)
{
    const struct pare_load_opts *how = &j->tune.model->how;

    return j->files.onnx ? pare_model_load_with(j->files.onnx, how, m, err)
                         : pare_qdq_model(j->compression, &j->files, m, err);
}

static int evaluate_result(struct pare_quantize_job *j, struct pare_err *err)
{
    struct pare_model *m;
    int rc = 0;

    PARE_TRY(load_result(j, &m, err));
    j->bytes_after = pare_model_file_bytes(m);
    if (pare_finetune_has_data(&j->tune) && j->tune.options->data.batch != 1)
        rc = pare_model_try_batch_of_all(m, err);
    if (!rc)
        rc = pare_finetune_evaluate(&j->tune, m, &j->after, err);
    pare_model_free(m);
    return rc;
}

/* Accuracy of the fake-quantized model; if that suffices, the lower one of it and of the integer
 * model, which may differ. */
static int accuracy(void *user, double *value, struct pare_err *err)
{
    struct pare_quantize_job *j = user;
    struct pare_export only = { .onnx = j->files.onnx,
                                .qoperator = j->files.qoperator,
                                .nbits = j->files.nbits,
                                .dynamic = j->files.dynamic };
    struct pare_metrics r;

    PARE_TRY(pare_finetune_evaluate(&j->tune, j->tune.model, &r, err));
    *value = pare_metrics_share(&r);
    if (*value < j->least)
        return 0;
    if (only.onnx)
        PARE_TRY(write_file(j, &only, err));
    PARE_TRY(evaluate_result(j, err));
    *value = fmin(pare_metrics_share(&j->after), *value);
    return 0;
}

static void on_step(void *user, const struct pare_budget_step *s)
{
    const struct pare_quantize_job *j = user;

    if (j->on_step)
        j->on_step(j->user, s);
}

static int meet_budget(struct pare_quantize_job *j, struct pare_err *err)
{
    struct pare_budget b = { .evaluate = accuracy, .on_step = on_step, .user = j };
    struct pare_budget_report *p = &j->budget;
    double was;

    if (!j->before.n)
        return pare_fail(err, PARE_ECONFIG,
                         "--accuracy-drop needs validation data: specify --valid");
    was = pare_metrics_share(&j->before);
    if (!(was >= 0))
        return pare_fail(err, PARE_ECONFIG,
                         "--accuracy-drop needs a metric in percent, but the task is %s; compare "
                         "outputs with 'pare eval --against' instead",
                         j->before.task);
    /* Accuracies are quotients: allow for a rounding error at the bound. */
    b.least = j->least = was - j->o.max_drop - 1e-12;
    PARE_TRY(pare_compression_mixed_precision(j->compression, &b, p, err));
    if (p->met)
        return 0;
    return pare_fail(err, PARE_ECONFIG,
                     "accuracy is %.2f%% even with all layers float, %.2f points below "
                     "%.2f%%; --accuracy-drop allows %g, so nothing is written",
                     100 * p->step[p->n_steps - 1].accuracy,
                     100 * (was - p->step[p->n_steps - 1].accuracy), 100 * was,
                     100 * j->o.max_drop);
}

/* Everything before the result is written. */
static int work(struct pare_quantize_job *j, struct pare_err *err)
{
    struct pare_finetune *f = &j->tune;

    PARE_TRY(pare_finetune_evaluate(f, f->model, &j->before, err));
    PARE_TRY(pare_quantize_smooth(j, err));
    if (!j->compression) {
        PARE_TRY(pare_quantize_open(j, err));
        PARE_TRY(pare_compression_compress(j->compression, err));
    }
    if (!pare_finetune_has_data(f))
        return pare_quant_check(j->compression, true, err);
    PARE_TRY(pare_finetune_schedule(f, j->compression, &j->trained, err));
    if (j->trained)
        PARE_TRY(j->train(j->user, f, err));
    if (j->o.max_drop >= 0)
        PARE_TRY(meet_budget(j, err));
    if (j->trained)
        return evaluate_fake_quant(j, err);
    PARE_TRY(pare_quant_check(j->compression, j->o.max_drop < 0, err));
    return pare_finetune_evaluate(f, f->model, &j->rounded, err);
}

/* Convert to half precision, write the file, evaluate it. */
static int work_half(struct pare_quantize_job *j, struct pare_err *err)
{
    struct pare_model *m;
    int rc = 0;

    PARE_TRY(pare_finetune_evaluate(&j->tune, j->tune.model, &j->before, err));
    PARE_TRY(pare_quantize_half(j, &m, err));
    if (!pare_dist_rank(j->tune.dist))
        rc = pare_model_save(m, j->files.onnx, NULL, err);
    pare_model_free(m);
    if (!rc)
        rc = pare_dist_barrier(j->tune.dist, err);
    return rc ? rc : evaluate_result(j, err);
}

int pare_quantize_work(struct pare_quantize_job *j, struct pare_err *err)
{
    if (pare_quantize_is_half(j))
        return work_half(j, err);
    PARE_TRY(work(j, err));
    PARE_TRY(write_file(j, &j->files, err));
    return evaluate_result(j, err);
}

/* ---- estimates ------------------------------------------------------------------------------ */

int pare_quantize_estimate(struct pare_quantize_job *j, double *saved, struct pare_err *err)
{
    struct pare_compression_opts co = { .registry = j->o.registry };
    struct pare_compression *c;
    struct pare_graph *g;

    if (pare_quantize_is_half(j)) {
        *saved = pare_half_saved(j->tune.model);
        return 0;
    }
    PARE_TRY(make_rules(j, &co, &g, err));
    PARE_TRY(open_quantizer(j->tune.model, &co, g, &c, err));
    *saved = 0;
    for (int i = 0; i < pare_compression_layers(c); i++) {
        const struct pare_layer *l = pare_compression_layer(c, i);
        const struct pare_quant *q = pare_layer_quant(l, PARE_WEIGHT);

        if (q)
            *saved += (double)pare_numel(pare_layer_weight(l)) * (4 - (double)q->bits / 8);
    }
    pare_compression_free(c);
    return 0;
}

/* ---- <pare/compress.h> ---------------------------------------------------------------------- */

static int train(void *user, struct pare_finetune *f, struct pare_err *err)
{
    const struct pare_quantize_job *j = user;

    return pare_finetune_train_with(f, j->o.progress, j->o.user, err);
}

static void count_sites(struct pare_compression *c, struct pare_quantize_report *r)
{
    for (int i = 0; i < pare_compression_layers(c); i++) {
        int n = 0;

        for (int site = 0; site < PARE_QUANT_SITES; site++)
            n += pare_layer_quant(pare_compression_layer(c, i), (enum pare_quant_site)site) != NULL;
        r->layers += n > 0;
        r->tensors += n;
    }
}

static void report_check(const struct pare_compression *c, struct pare_quantize_report *r)
{
    struct pare_quantize_check k;

    pare_compression_checked(c, &k);
    r->left_float = k.left_float;
    r->snr_db = k.snr_db;
    r->cosine = k.cosine;
    for (int i = 0; i < k.n_worst; i++) {
        snprintf(r->worst[i], sizeof(r->worst[i]), "%s", k.worst[i].layer);
        r->worst_db[i] = k.worst[i].snr_db;
    }
}

static int run(struct pare_quantize_job *j, struct pare_model **out, struct pare_quantize_report *r,
               struct pare_err *err)
{
    struct pare_finetune *f = &j->tune;
    bool untrained;

    if (!j->o.preset && !j->o.config && !j->o.rule)
        return pare_fail(err, PARE_ECONFIG, "neither a preset nor a config_list is given");
    PARE_TRY(pare_quantize_check_training(j, &untrained, err));
    PARE_TRY(pare_quantize_fold(j, err));
    f->observe = !pare_quantize_trains(j);
    if (pare_finetune_has_data(f)) {
        PARE_TRY(pare_finetune_options(f, err));
        PARE_TRY(pare_finetune_open(f, err));
    }
    if (pare_quantize_is_half(j)) {
        PARE_TRY(pare_finetune_evaluate(f, f->model, &j->before, err));
        PARE_TRY(pare_quantize_half(j, out, err));
        r->layers = (int)j->half.weights;
        r->tensors = (int)j->half.weights;
        r->snr_db = r->cosine = NAN;
    } else {
        PARE_TRY(work(j, err));
        count_sites(j->compression, r);
        report_check(j->compression, r);
        PARE_TRY(load_result(j, out, err));
    }
    r->before = j->before;
    PARE_TRY(pare_finetune_evaluate(f, *out, &r->after, err));
    return pare_finetune_check_drop(f, &r->before, &r->after, err);
}

int pare_quantize(struct pare_model *model, const struct pare_quantize_opts *opts,
                  struct pare_model **out, struct pare_quantize_report *report,
                  struct pare_err *err)
{
    PARE_ERR(err);
    struct pare_quantize_report ignored, *r = report ? report : &ignored;
    struct pare_quantize_job j = { .train = train };
    int rc;

    *out = NULL;
    *r = (struct pare_quantize_report){ 0 };
    PARE_TRY(pare_sized_copy(&j.o, sizeof(j.o), opts, err));
    if (!(j.o.max_drop > 0))
        j.o.max_drop = -1;
    j.files = (struct pare_export){
        .qoperator = j.o.qoperator,
        .nbits = j.o.nbits,
        .dynamic = j.o.dynamic || pare_preset_is_dynamic(j.o.preset),
    };
    PARE_TRY(pare_finetune_new(model, &j.o.tuning, &j.tune, err));
    j.tune.quantized = true;
    j.user = &j;
    rc = run(&j, out, r, err);
    pare_quantize_close(&j);
    pare_arena_free(j.tune.arena);
    if (rc) {
        pare_model_free(*out);
        *out = NULL;
    }
    return rc;
}

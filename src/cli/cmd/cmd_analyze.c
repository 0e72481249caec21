/* cmd_analyze.c - pare analyze: per-layer cost, pruning sensitivity and quantization error. */
#include <string.h>

#include <jansson.h>

#include "../job/data_inputs.h"
#include "../job/model_intake.h"
#include "../job/plugins.h"
#include "../print/progress_line.h"
#include "../print/analyze_print.h"
#include "../job/input.h"
#include "../output_paths.h"
#include "../job/train_job.h"
#include "../../base/arena.h"
#include "../../onnx/model.h"

struct analyze {
    const char *data, *split, *pruner, *set, *early_stop, *csv;
    double early_stop_value;
    struct pare_floats sparsities;
    struct pare_ints bits;
    struct pare_strs layers, plugin, shape;
    int64_t samples;
    bool full, weights_only, json, quiet;
};

static const struct pare_opt analyze_opts[] = {
    PARE_TEXT("data", offsetof(struct analyze, data), "SET",
              "evaluate on this set: digits, fashion-mnist, a file or a folder", NULL),
    PARE_CHOICE("split", offsetof(struct analyze, split), "part of the set to use", "test",
                "train|val|test"),
    PARE_TEXTS("layers", offsetof(struct analyze, layers), "NAME",
               "analyze only this layer: a name, or re: and a regular expression"),
    PARE_FLOATS("sparsities", offsetof(struct analyze, sparsities),
                "sensitivity: increasing fractions of weights to remove (default: 0.1 to 0.9)", 0,
                1),
    PARE_TEXT("pruner", offsetof(struct analyze, pruner), "NAME",
              "sensitivity: pruner that selects the weights, see 'pare list pruners'", "l1"),
    PARE_TEXT("set", offsetof(struct analyze, set), "SETTINGS",
              "settings of that pruner: \"name=value name=value\"", NULL),
    PARE_TEXTS("plugin", offsetof(struct analyze, plugin), "FILE",
               "load more pruners from this shared object"),
    PARE_CHOICE("early-stop", offsetof(struct analyze, early_stop),
                "stop with a layer when the metric is below (minimize) or above (maximize) "
                "--early-stop-value, or has dropped or raised by more than it from the model's own",
                "none", "none|minimize|maximize|dropped|raised"),
    PARE_FLOAT("early-stop-value", offsetof(struct analyze, early_stop_value),
               "threshold of --early-stop", 0, PARE_NO_MIN, PARE_NO_MAX),
    PARE_INTS("bits", offsetof(struct analyze, bits),
              "quantization: bit widths to try (default: 8,4)", 2, 16),
    PARE_FLAG("weights-only", offsetof(struct analyze, weights_only),
              "quantization: do not quantize inputs of layers", 0),
    PARE_INT("samples", offsetof(struct analyze, samples), "quantization: number of items to run",
             32, 1, 1 << 20),
    PARE_FLAG("full", offsetof(struct analyze, full),
              "count: include biases, normalizations, pooling and resizing", 0),
    PARE_TEXTS("shape", offsetof(struct analyze, shape), "NAME=N,N,...",
               "shape of an input, such as x=1,3,224,224, or size of a free dimension: batch=8"),
    PARE_TEXT("csv", offsetof(struct analyze, csv), "FILE", "also write the table to FILE as CSV",
              NULL),
    PARE_FLAG("json", offsetof(struct analyze, json), "print the result as JSON", 0),
    PARE_FLAG("quiet", offsetof(struct analyze, quiet), "print no progress", 0),
    PARE_OPT_END
};

/* State of one call. */
struct job {
    struct pare_cli *c;
    const struct analyze *o;
    struct pare_train_options *setup;
    struct pare_model *m;
    struct pare_data *data;
};

/* Print {"file": ..., "data": ...} merged with the members of `found`. */
static int print_json(const struct job *j, json_t *found, struct pare_err *err)
{
    json_t *all = json_pack("{s:o}", "file", pare_json_text(j->c->arg[1]));

    if (all && j->data)
        json_object_set_new(all, "data", pare_json_text(j->data->name));
    if (!all || !found || json_object_update(all, found)) {
        json_decref(all);
        all = NULL;
    }
    json_decref(found);
    return pare_json_result(j->c, all, err);
}

/* ---- count --------------------------------------------------------------------------- */

static int count(struct job *j, struct pare_err *err)
{
    struct pare_shape_args args = { .shape = j->o->shape, .lenient = true };
    struct pare_count_opts co = { .full = j->o->full };
    struct pare_inputs in = { 0 };
    struct pare_count_report n;

    PARE_TRY(pare_inputs_shape(j->c, j->m, &args, &in, err));
    co.in = in.t;
    co.n_in = in.n;
    PARE_TRY(pare_analyze_count(j->m, &co, j->c->arena, &n, err));
    if (j->o->json)
        return print_json(j, json_pack("{s:o}", "count", pare_count_json(&n, j->o->full)), err);
    pare_count_print(&n, j->c->arena);
    return 0;
}

/* ---- sensitivity ---------------------------------------------------------------------- */

static void print_progress(void *user, const struct pare_sensitivity *s, int item)
{
    (void)user;
    fprintf(stderr, "%d/%d  %s at %g: %.4f\n", item + 1, s->n_layers * s->n_sparsities,
            s->name[item / s->n_sparsities], s->sparsity[item % s->n_sparsities], s->metric[item]);
}

static int print_sensitivity(const struct job *j, const struct pare_sensitivity_report *s,
                             const struct pare_metric_value *metric, struct pare_err *err)
{
    if (j->o->csv && !pare_dist_rank(j->c->dist))
        PARE_TRY(pare_sensitivity_csv(s, j->o->csv, err));
    if (j->o->json)
        return print_json(j, pare_sensitivity_json(s, j->o->pruner, metric), err);
    pare_sensitivity_print(s, j->c->arena, metric);
    return 0;
}

/* A list that ends with NULL; NULL: the option is not given. */
static int layer_list(const struct job *j, const char *const **list, struct pare_err *err)
{
    const struct pare_strs *l = &j->o->layers;
    const char **v = l->n ? pare_alloc(j->c->arena, (size_t)l->n + 1, sizeof(*v)) : NULL;

    if (l->n && !v)
        return pare_no_memory(err, "for the options");
    for (int i = 0; i < l->n; i++)
        v[i] = l->v[i];
    *list = v;
    return 0;
}

static int sensitivity(struct job *j, struct pare_err *err)
{
    const struct analyze *o = j->o;
    struct pare_sensitivity_opts so = {
        .pruner = o->pruner,
        .settings = o->set,
        .sparsity = o->sparsities.n ? o->sparsities.v : NULL,
        .n_sparsities = o->sparsities.n,
        .early_stop = o->early_stop,
        .early_stop_value = o->early_stop_value,
        .threads = j->setup->trainer.threads,
    };
    struct pare_analysis x = {
        .dist = j->c->dist,
        .loss = j->setup->trainer.loss,
        .loss_conf = j->setup->trainer.loss_conf,
        .task = j->setup->goal.task,
        .metric = j->setup->goal.metric,
        .say = o->quiet || pare_dist_rank(j->c->dist) ? NULL : print_progress,
    };
    struct pare_registry *registry = pare_registry_new(err);
    struct pare_sensitivity_report s;
    int rc = registry ? layer_list(j, &so.layers, err) : err->code;

    if (!rc)
        rc = pare_plugins_load(j->c, registry, &o->plugin, err);
    so.registry = registry;
    if (!rc)
        rc = pare_sensitivity_analysis(j->m, j->data, &so, &x, j->c->arena, &s, err);
    if (!rc)
        rc = print_sensitivity(j, &s, &x.measured, err);
    pare_registry_free(registry);
    return rc;
}

/* ---- quantization --------------------------------------------------------------------- */

/* The first items of the set, or random inputs. */
static int fill_inputs(struct job *j, struct pare_loader **loader, struct pare_tensor **in,
                       struct pare_err *err)
{
    struct pare_shape_args args = { .batch = j->o->samples, .shape = j->o->shape };
    struct pare_loader_opts lo = { .batch = j->o->samples };
    const struct pare_batch *b;
    struct pare_inputs own = { 0 };
    const struct pare_io *io;

    if (!j->data) {
        PARE_TRY(pare_inputs_shape(j->c, j->m, &args, &own, err));
        *in = own.t;
        return pare_inputs_fill(j->c, &own, 0, err);
    }
    lo.n_inputs = pare_model_inputs(j->m, &io);
    if (lo.n_inputs > 0)
        lo.input = io;
    if (lo.n_inputs > 0 && io[0].rank > 0 && io[0].dim[0] > 0)
        lo.batch = io[0].dim[0];
    PARE_TRY(pare_loader_new(j->data, &lo, loader, err));
    PARE_TRY(pare_loader_next(*loader, &b, err));
    if (!b)
        return pare_fail(err, PARE_ECONFIG, "'%s' has no items", j->data->name);
    *in = b->in;
    return 0;
}

static int print_errors(const struct job *j, const struct pare_quant_error_report *r,
                        struct pare_err *err)
{
    if (j->o->csv && !pare_dist_rank(j->c->dist))
        PARE_TRY(pare_quant_error_csv(r, j->o->csv, err));
    if (j->o->json)
        return print_json(j, pare_quant_error_json(r, j->o->weights_only), err);
    pare_quant_error_print(r, j->c->arena);
    return 0;
}

static int quantization(struct job *j, struct pare_err *err)
{
    const struct analyze *o = j->o;
    struct pare_progress_line line;
    struct pare_quant_error_opts qo = {
        .bits = o->bits.n ? o->bits.v : NULL,
        .n_bits = o->bits.n,
        .weights_only = o->weights_only,
        .threads = j->setup->trainer.threads,
        .progress = pare_progress_line_show,
        .user = &line,
    };
    struct pare_loader *loader = NULL;
    struct pare_quant_error_report r;
    struct pare_tensor *in = NULL;
    int rc = layer_list(j, &qo.layers, err);

    if (!rc)
        rc = fill_inputs(j, &loader, &in, err);
    pare_progress_line_start(&line, o->quiet || pare_dist_rank(j->c->dist));
    if (!rc)
        rc = pare_quant_error_analysis(j->m, in, &qo, j->c->dist, j->c->arena, &r, err);
    pare_progress_line_end(&line);
    if (!rc)
        rc = print_errors(j, &r, err);
    pare_loader_free(loader);
    return rc;
}

/* ---- the command ---------------------------------------------------------------------- */

static const struct analysis {
    const char *name;
    bool needs_data, takes_data;
    int (*run)(struct job *j, struct pare_err *err);
} analyses[] = {
    { "count", false, false, count },
    { "sensitivity", true, true, sensitivity },
    { "quantization", false, true, quantization },
};

static const char *word(int i)
{
    return i < (int)(sizeof(analyses) / sizeof(*analyses)) ? analyses[i].name : NULL;
}

static int find_analysis(struct pare_cli *c, const struct analysis **what, struct pare_err *err)
{
    const struct analyze *o = c->opts;

    *what = NULL;
    for (size_t i = 0; i < sizeof(analyses) / sizeof(*analyses); i++)
        if (!strcmp(analyses[i].name, c->arg[0]))
            *what = &analyses[i];
    if (!*what)
        return pare_misuse(c, err,
                           "unknown analysis '%s': expected count, sensitivity or quantization",
                           c->arg[0]);
    if ((*what)->needs_data && !o->data)
        return pare_misuse(c, err, "%s needs --data", c->arg[0]);
    if (!(*what)->takes_data && (o->data || o->csv))
        return pare_misuse(c, err, "%s takes neither --data nor --csv", c->arg[0]);
    return 0;
}

/* Model and data, and whether they fit. */
static int open_job(struct job *j, const struct analysis *what, struct pare_err *err)
{
    const struct analyze *o = j->o;

    j->c->widen = true;
    PARE_TRY(pare_cli_load(j->c, j->c->arg[1], &j->m, err));
    PARE_TRY(pare_output_paths_model(j->c, j->m, NULL, err));
    if (o->data) {
        struct pare_data_request r = { .spec = o->data, .split = o->split };

        r.n_io = pare_model_inputs(j->m, &r.io);
        PARE_TRY(pare_cli_data_open(j->c, &r, &j->setup->data, o->quiet, &j->data, err));
        PARE_TRY(pare_at(err,
                         what->needs_data
                             ? pare_train_options_goal(j->setup, j->m, j->data, err)
                             : pare_model_fits_items(j->m, j->data, &j->setup->goal, err),
                         "%s", j->c->arg[1]));
        pare_data_note(j->c, j->data);
        if (what->needs_data)
            pare_task_note(j->c, j->setup);
    }
    return 0;
}

static int work(struct pare_cli *c, bool run, struct pare_err *err)
{
    struct job j = { .c = c, .o = c->opts };
    const struct analysis *what;
    int rc = find_analysis(c, &what, err);

    if (rc)
        return rc;
    rc = pare_train_options_eval(c->given, c->n_given, c->arena, &j.setup, err);
    if (rc) {
        c->usage = rc != PARE_ENOMEM;
        return rc;
    }
    if (!j.setup->trainer.threads)
        j.setup->trainer.threads = pare_dist_threads(c->dist);
    rc = open_job(&j, what, err);
    if (!rc && run)
        rc = pare_at(err, what->run(&j, err), "%s", c->arg[1]);
    pare_data_free(j.data);
    pare_model_free(j.m);
    return rc;
}

static int cmd_analyze_check(struct pare_cli *c, struct pare_err *err)
{
    return work(c, false, err);
}

static int cmd_analyze_run(struct pare_cli *c, struct pare_err *err)
{
    return work(c, true, err);
}

const struct pare_command pare_command_analyze = {
    .name = "analyze",
    .doc = "Report per-layer cost and sensitivity to pruning or quantization.",
    .usage = "[options] count|sensitivity|quantization MODEL",
    .more = "count         parameters and multiply-accumulates of each layer for one item,\n"
            "              counted as in NNI; 'pare inspect' counts everything\n"
            "sensitivity   prune one layer at a time to each sparsity and evaluate the model\n"
            "              on --data; MODEL itself is not changed\n"
            "quantization  quantize weights and inputs of one layer at a time:\n"
            "              signal-to-noise ratio of its weights, its output and the model's\n"
            "              output, on --data or on random inputs",
    .example = "pare analyze sensitivity model.onnx --data digits\n"
               "pare analyze quantization model.onnx --data digits --bits 8,4",
    .first = (const char *const[]){ "data", "layers", "sparsities", "bits", "json", NULL },
    .opts = analyze_opts,
    .size = sizeof(struct analyze),
    .min_args = 2,
    .max_args = 2,
    .writes = (const char *const[]){ "csv", NULL },
    .run = cmd_analyze_run,
    .check = cmd_analyze_check,
    .groups = pare_eval_option_groups,
    .word = word,
    .shared = true,
};

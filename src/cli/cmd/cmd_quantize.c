/* cmd_quantize.c - pare quantize: quantize with any quantizer, with or without training. */
#include <string.h>

#include <jansson.h>

#include "../output_paths.h"
#include "../print/quantize_print.h"
#include "../../base/arena.h"
#include "../../compress/export.h"
#include "../../quant/conv_bn_quant.h"
#include "../../quant/presets.h"
#include "../../compress/registry.h"
#include "../../compress/default_rules.h"
#include "../../onnx/fold_norm.h"

struct quantize {
    const char *quantizer, *config, *preset, *data, *valid, *output, *model_out, *format, *set;
    const char *calibration, *load_calibration;
    struct pare_strs plugin;
    struct pare_ints input_shape;
    double accuracy_drop; /* percentage points; below 0: not given */
    bool fold, keep_zeros, json, quiet;
};

static const struct pare_opt quantize_opts[] = {
    PARE_CHOICE("preset", offsetof(struct quantize, preset),
                "quantize to int8, weights only to int8, or weights to 4 bits", NULL, PARE_PRESETS),
    PARE_TEXT("quantizer", offsetof(struct quantize, quantizer), "NAME",
              "quantization algorithm, see 'pare list quantizers'", NULL),
    PARE_TEXT("config", offsetof(struct quantize, config), "FILE",
              "use this config_list: a JSON file, or the JSON itself", NULL),
    PARE_TEXT("data", offsetof(struct quantize, data), "SET",
              "calibrate or train on this set: digits, fashion-mnist, a file or a folder", NULL),
    PARE_TEXT("valid", offsetof(struct quantize, valid), "SET",
              "validate on this set; none: do not validate (default: the test part of --data)",
              NULL),
    PARE_TEXT("output", offsetof(struct quantize, output), "FILE",
              "write the quantized model to FILE (default: MODEL-quantized.onnx)", NULL),
    PARE_CHOICE("format", offsetof(struct quantize, format),
                "qdq: QuantizeLinear/DequantizeLinear pairs; qoperator: QLinearConv and other "
                "integer operators; nbits: MatMulNBits",
                "qdq", "qdq|qoperator|nbits"),
    PARE_TEXT("model-out", offsetof(struct quantize, model_out), "FILE",
              "also write the fake-quantized parameters to FILE: .pth, .safetensors or .npz", NULL),
    PARE_TEXT("calibration", offsetof(struct quantize, calibration), "FILE",
              "write scales and ranges to FILE as JSON", NULL),
    PARE_TEXT("load-calibration", offsetof(struct quantize, load_calibration), "FILE",
              "read scales and ranges from FILE instead of calibrating", NULL),
    PARE_INTS("input-shape", offsetof(struct quantize, input_shape),
              "fix the input's shape in the written model", 1, 1e12),
    PARE_FLAG("fold", offsetof(struct quantize, fold),
              "fold batch normalizations into convolutions first; preset int8, equalize and "
              "bias_correction do so anyway",
              0),
    PARE_FLAG("keep-zeros", offsetof(struct quantize, keep_zeros),
              "keep zero weights zero, so that a pruned model stays pruned", 0),
    PARE_FLOAT("accuracy-drop", offsetof(struct quantize, accuracy_drop),
               "allow at most this drop in accuracy, in percentage points: give sensitive layers "
               "more bits or leave them float",
               -1, 0, 100),
    PARE_TEXTS("plugin", offsetof(struct quantize, plugin), "FILE",
               "load more quantizers from this shared object"),
    PARE_TEXT("set", offsetof(struct quantize, set), "SETTINGS",
              "settings of a plugin's quantizer: \"name=value name=value\"", NULL),
    PARE_FLAG("json", offsetof(struct quantize, json), "print the result as JSON", 0),
    PARE_FLAG("quiet", offsetof(struct quantize, quiet), "print no progress", 0),
    PARE_OPT_END
};

/* State of one call. */
struct job {
    struct pare_train_job train; /* without --data, only model and output are used */
    struct pare_registry *registry;
    struct pare_compression *run;
    struct pare_export files;
    struct pare_quantize_summary summary;
    const char *settings;
    struct pare_model *unfolded; /* the model as loaded, if batch norms were folded; or NULL */
};

/* ---- setup --------------------------------------------------------------------------------- */

/* The options of all quantizers and of training. */
static int quantize_groups(struct pare_arena *a, struct pare_option_group **part, int *n,
                           struct pare_err *err)
{
    struct pare_algorithm_options own = { .kind = "quantizer" };

    PARE_TRY(pare_quantize_option_groups(a, NULL, &own.part, &own.n, err));
    return pare_compress_option_groups(a, &own, part, n, err);
}

static int check_choice(struct pare_cli *c, struct pare_err *err)
{
    const struct quantize *o = c->opts;

    if (o->preset && o->config)
        return pare_misuse(c, err, "use either --preset or --config, not both");
    if (!o->preset && !o->config)
        return pare_misuse(c, err, "specify --preset (for example int8) or --config");
    if (!o->preset && !o->quantizer)
        return pare_misuse(c, err, "specify --quantizer; 'pare list quantizers' lists them");
    if (o->accuracy_drop >= 0 && !o->data)
        return pare_misuse(c, err, "--accuracy-drop needs --data to measure the accuracy");
    return 0;
}

static int check_files(struct pare_cli *c, struct job *j, struct pare_err *err)
{
    const struct quantize *o = c->opts;

    j->train.output = o->output ? o->output : pare_default_output(c->arena, c->arg[0], "quantized");
    if (!j->train.output)
        return pare_no_memory(err, "for a file name");
    j->files = (struct pare_export){ .onnx = j->train.output,
                                     .model = o->model_out,
                                     .calibration = o->calibration,
                                     .qoperator = !strcmp(o->format, "qoperator"),
                                     .nbits = !strcmp(o->format, "nbits"),
                                     .input_shape = o->input_shape.v,
                                     .input_rank = o->input_shape.n };
    PARE_TRY(pare_export_check(&j->files, err));
    PARE_TRY(pare_output_path_check(c, j->train.output, err));
    if (o->model_out)
        PARE_TRY(pare_output_path_check(c, o->model_out, err));
    return o->calibration ? pare_output_path_check(c, o->calibration, err) : 0;
}

/* Size of the model's files, external data included. */
static double bytes_of(const struct pare_model *m)
{
    double n = 0;

    for (const struct pare_pages *p = m->pages; p; p = p->next)
        n += p->scratch ? 0 : (double)p->len;
    return n;
}

/* Batch norms are folded with --fold, and for preset int8 unless the quantizer folds them itself
 * while it trains. */
static bool folds_first(const struct quantize *o, const struct job *j)
{
    const struct pare_quantizer *q;
    struct pare_err err;

    if (o->fold || !o->preset || strcmp(o->preset, "int8") != 0)
        return o->fold;
    return !o->quantizer || pare_find_quantizer(j->registry, o->quantizer, &q, &err) ||
           !pare_needs_bn_folding(q, j->settings);
}

/* Equalization needs adjacent layers and bias correction needs biases, so both fold, too. */
static int open_model(struct pare_cli *c, struct job *j, struct pare_err *err)
{
    const struct quantize *o = c->opts;
    struct pare_quant_settings q;
    struct pare_option_group shared = { "quantization", NULL, pare_quant_options, &q };
    struct pare_model *folded;
    int n;

    PARE_TRY(pare_model_load(c->arg[0], &j->train.model, err));
    PARE_TRY(pare_output_paths_model(c, j->train.model, j->train.output, err));
    j->summary.bytes_before = bytes_of(j->train.model);
    PARE_TRY(pare_option_group_fill(&shared, c->given, c->n_given, c->arena, err));
    if (!folds_first(o, j) && !q.equalize && !q.bias_correction)
        return 0;
    PARE_TRY(pare_at(err, pare_model_fold_norm(j->train.model, &folded, &n, err), "%s", c->arg[0]));
    if (folded) {
        j->unfolded = j->train.model;
        j->train.model = folded;
    }
    return 0;
}

/* The model is trained if --epochs is given or the quantizer needs training steps. */
static bool trains(const struct pare_cli *c, const struct job *j)
{
    const struct quantize *o = c->opts;
    const struct pare_quantizer *q = NULL;
    struct pare_err err;

    if (o->quantizer && pare_find_quantizer(j->registry, o->quantizer, &q, &err))
        return true; /* the unknown name is reported later */
    return pare_given_text(c, "epochs") ||
           (q && (q->base.length || q->base.flags & PARE_NEEDS_STEPS));
}

static int open_job(struct pare_cli *c, struct job *j, struct pare_err *err)
{
    const struct quantize *o = c->opts;
    struct pare_algorithm_options own = { .kind = "quantizer", .set = o->set };

    PARE_TRY(check_choice(c, err));
    j->registry = pare_registry_new(err);
    if (!j->registry)
        return err->code;
    for (int i = 0; i < o->plugin.n; i++)
        PARE_TRY(pare_plugin_load(j->registry, o->plugin.v[i], err));
    PARE_TRY(pare_quantize_option_groups(c->arena, NULL, &own.part, &own.n, err));
    PARE_TRY(pare_split_options(c, &own, &j->train, &j->settings, err));
    PARE_TRY(check_files(c, j, err));
    PARE_TRY(open_model(c, j, err));
    j->train.looks = !trains(c, j);
    return o->data ? pare_train_job_open(c, &j->train, err) : 0;
}

static int open_run(struct pare_cli *c, struct job *j, struct pare_err *err)
{
    const struct quantize *o = c->opts;
    struct pare_train_job *t = &j->train;
    struct pare_compression_opts ro = {
        .quantizer = o->quantizer,
        .config = o->config,
        .settings = j->settings,
        .registry = j->registry,
        .keep_zeros = o->keep_zeros,
        .seed = o->data ? (uint64_t)t->setup->c.seed : 0,
        .threads = o->data ? (int)t->setup->c.threads : 0,
    };
    struct pare_rules rules;
    const char *usual;

    if (o->preset) {
        PARE_TRY(pare_at(err, pare_preset(o->preset, t->model, c->arena, &usual, &rules, err), "%s",
                         c->arg[0]));
        ro.quantizer = o->quantizer ? o->quantizer : usual;
        ro.rule = rules.rule;
        ro.n_rules = rules.n;
    }
    PARE_TRY(pare_compression_new(t->model, &ro, &j->run, err));
    if (o->load_calibration)
        PARE_TRY(pare_compression_calibrate(j->run, o->load_calibration, err));
    j->run->dist = c->dist;
    if (!o->data)
        return 0;
    return t->looks ? pare_compression_use_data(j->run, t->data[0], t->setup->train.batch, err)
                    : pare_compression_attach(j->run, t->trainer, t->data[0], t->setup->train.batch,
                                              err);
}

/* ---- run ----------------------------------------------------------------------------------- */

/* Evaluate the fake-quantized model and measure the quantization noise of each tensor. */
static int evaluate_fake_quant(struct job *j, struct pare_err *err)
{
    int rc;

    j->run->measure = true;
    rc = pare_evaluate_job(&j->train, j->train.model, &j->summary.rounded, err);
    j->run->measure = false;
    return rc ? rc : pare_compression_merge_noise(j->run, err);
}

/* The first process writes, the others wait until the file exists. */
static int write_file(struct job *j, const struct pare_export *files, struct pare_err *err)
{
    if (!pare_dist_rank(j->run->dist))
        PARE_TRY(pare_compression_export(j->run, files, err));
    return pare_dist_wait(j->run->dist, err);
}

/* Evaluate the written model. */
static int evaluate_file(struct job *j, struct pare_err *err)
{
    struct pare_model *m;
    int rc;

    PARE_TRY(pare_model_load(j->files.onnx, &m, err));
    j->summary.bytes_after = bytes_of(m);
    rc = pare_evaluate_job(&j->train, m, &j->summary.after, err);
    pare_model_free(m);
    return rc;
}

/* Accuracy of the fake-quantized model; if it is high enough, the lower of that and the accuracy of
 * the written model. */
static int accuracy(void *user, double *value, struct pare_err *err)
{
    struct job *j = user;
    struct pare_export only = { .onnx = j->files.onnx, .qoperator = j->files.qoperator };
    struct pare_evaluation r = { .done = false };

    PARE_TRY(pare_evaluate_job(&j->train, j->train.model, &r, err));
    *value = r.top1;
    if (r.top1 < j->summary.least)
        return 0;
    PARE_TRY(write_file(j, &only, err));
    PARE_TRY(evaluate_file(j, err));
    *value = j->summary.after.top1 < r.top1 ? j->summary.after.top1 : r.top1;
    return 0;
}

static void print_step(void *user, const struct pare_budget_step *s)
{
    const struct job *j = user;

    if (!j->train.quiet)
        pare_budget_print(&j->summary, s, j->train.json ? stderr : stdout);
}

static int meet_budget(struct pare_cli *c, struct job *j, struct pare_err *err)
{
    const struct quantize *o = c->opts;
    struct pare_budget b = { .evaluate = accuracy, .on_step = print_step, .user = j };
    struct pare_budget_report *p = &j->summary.budget;

    if (!j->summary.before.done)
        return pare_fail(err, PARE_ECONFIG,
                         "--accuracy-drop needs validation data: specify --valid");
    /* 1e-12: both are quotients of counts, so equal values may differ in the last bit. */
    j->summary.drop = o->accuracy_drop;
    b.least = j->summary.least = j->summary.before.top1 - o->accuracy_drop / 100 - 1e-12;
    PARE_TRY(pare_compression_mixed_precision(j->run, &b, p, err));
    if (p->met)
        return 0;
    return pare_fail(err, PARE_ECONFIG,
                     "accuracy is %.2f%% even with all layers float, %.2f points below %.2f%%; "
                     "--accuracy-drop allows %g, so nothing is written",
                     100 * p->step[p->n_steps - 1].accuracy,
                     100 * (j->summary.before.top1 - p->step[p->n_steps - 1].accuracy),
                     100 * j->summary.before.top1, o->accuracy_drop);
}

static int work(struct pare_cli *c, struct job *j, struct pare_err *err)
{
    const struct quantize *o = c->opts;

    if (o->data)
        PARE_TRY(pare_evaluate_job(&j->train, j->train.model, &j->summary.before, err));
    PARE_TRY(open_run(c, j, err));
    PARE_TRY(pare_compression_compress(j->run, err));
    if (o->data) {
        PARE_TRY(pare_compress_train(c, &j->train, j->run, &j->summary.trained, err));
        if (o->accuracy_drop >= 0)
            PARE_TRY(meet_budget(c, j, err));
        PARE_TRY(evaluate_fake_quant(j, err));
    }
    PARE_TRY(write_file(j, &j->files, err));
    return evaluate_file(j, err);
}

static struct job job_of(const struct quantize *o)
{
    return (struct job){ .summary = { .drop = -1 },
                         .train = { .data_name = o->data,
                                    .valid_name = o->valid,
                                    .json = o->json,
                                    .quiet = o->quiet } };
}

static void close_job(struct job *j)
{
    pare_compression_free(j->run);
    pare_train_job_close(&j->train);
    pare_model_free(j->unfolded);
    pare_registry_free(j->registry);
}

static int check(struct pare_cli *c, struct pare_err *err)
{
    struct job j = job_of(c->opts);
    int rc = open_job(c, &j, err);

    if (!rc)
        rc = open_run(c, &j, err);
    close_job(&j);
    return rc;
}

/* Estimate the file size: quantized weights take their bits instead of 32. */
static int estimate(struct pare_cli *c, struct pare_estimate *g, struct pare_err *err)
{
    const struct quantize *o = c->opts;
    struct pare_compression_opts ro = { .quantizer = o->quantizer, .config = o->config };
    struct pare_rules rules;
    const char *usual;
    struct pare_compression *r;

    PARE_TRY(check_choice(c, err));
    if (o->preset) {
        PARE_TRY(pare_preset(o->preset, g->model, c->arena, &usual, &rules, err));
        ro.quantizer = o->quantizer ? o->quantizer : usual;
        ro.rule = rules.rule;
        ro.n_rules = rules.n;
    }
    PARE_TRY(pare_compression_new(g->model, &ro, &r, err));
    for (int i = 0; i < r->n_layers; i++)
        if (r->layer[i].quantized[PARE_WEIGHT])
            g->bytes -= (double)pare_numel(&r->layer[i].w) *
                        (4 - (double)r->layer[i].quant[PARE_WEIGHT].bits / 8);
    pare_compression_free(r);
    return 0;
}

static int run(struct pare_cli *c, struct pare_err *err)
{
    const struct quantize *o = c->opts;
    struct job j = job_of(o);
    int rc = open_job(c, &j, err);

    if (!rc)
        rc = work(c, &j, err);
    pare_train_progress_end(&j.train.progress);
    if (!rc && !pare_dist_rank(c->dist)) {
        j.summary.run = j.run;
        j.summary.files = &j.files;
        j.summary.history = j.train.progress.history;
        rc = o->json ? pare_quantize_json(c, &j.summary, err)
                     : pare_quantize_print(&j.summary, c->arena, o->quiet, err);
    }
    close_job(&j);
    return rc;
}

const struct pare_command pare_command_quantize = {
    .name = "quantize",
    .doc = "Quantize weights and activations of a model.",
    .usage = "[options] MODEL --preset int8 --data SET [-o FILE]",
    .more = "Presets: int8 quantizes weights, inputs and outputs of convolutions and linear\n"
            "layers to 8 bits; it needs --data for calibration.  int8-weights and w4 quantize\n"
            "only weights: w4 uses 4 bits for linear layers, with a scale for each 64 inputs\n"
            "(--group-size), and 8 bits for the others.\n"
            "For anything else, give a config_list (--config) and a --quantizer:\n"
            "  [{\"quant_types\": [\"weight\", \"input\"],\n"
            "    \"quant_bits\": {\"weight\": 4, \"input\": 8},\n"
            "    \"op_types\": [\"Conv2d\", \"Linear\"]},\n"
            "   {\"exclude\": true, \"op_names\": [\"fc\"]}]\n"
            "'pare inspect' prints the names and types of layers, 'pare help quantizer NAME'\n"
            "the keys and settings of a quantizer.\n"
            "With --data, the model is evaluated before and after; --epochs N trains it with\n"
            "fake-quantized values.  --accuracy-drop 0.5 then gives the most sensitive layers\n"
            "more bits, or leaves them float, until the accuracy drops by at most 0.5 points.\n"
            "The training options are those of 'pare train'.",
    .opts = quantize_opts,
    .size = sizeof(struct quantize),
    .min_args = 1,
    .max_args = 1,
    .writes = (const char *const[]){ "output", "model-out", "calibration", "checkpoint", NULL },
    .run = run,
    .check = check,
    .estimate = estimate,
    .groups = quantize_groups,
    .shared = true,
};

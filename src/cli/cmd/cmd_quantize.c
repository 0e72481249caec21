/* cmd_quantize.c - pare quantize: quantize with any quantizer, with or without training. */
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "../output_paths.h"
#include "../print/quantize_print.h"
#include "../print/screen.h"
#include "../../base/arena.h"
#include "../../compress/export.h"
#include "../../quant/presets.h"
#include "../../quant/quant_method.h"

struct quantize {
    const char *quantizer, *config, *preset, *data, *valid, *output, *model_out, *format, *set;
    const char *calibration, *load_calibration, *compute;
    struct pare_strs plugin;
    struct pare_ints input_shape;
    double accuracy_drop; /* percentage points; below 0: not given */
    bool fold, keep_zeros, json, quiet;
};

static const struct pare_opt quantize_opts[] = {
    PARE_CHOICE("preset", offsetof(struct quantize, preset), "what to quantize, and to which type",
                NULL, PARE_PRESETS),
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
                "integer operators; nbits: MatMulNBits; dynamic: DynamicQuantizeLinear and "
                "MatMulInteger (default: qdq; with preset int8-dynamic: dynamic)",
                NULL, "qdq|qoperator|nbits|dynamic"),
    PARE_CHOICE("compute", offsetof(struct quantize, compute),
                "presets fp16 and bf16: compute in half precision, or only store weights in it "
                "(default: half with fp16, float with bf16)",
                NULL, "half|float"),
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
    struct pare_compress_job common; /* first */
    struct pare_quantize_job quantize;
    struct pare_quantize_summary summary;
    bool untrained; /* the quantizer learns in training, of which there is none */
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

/* Half precision has neither scales nor a quantizer. */
static int check_half(struct pare_cli *c, struct pare_err *err)
{
    const struct quantize *o = c->opts;

    if (!pare_half_preset(o->preset))
        return o->compute ? pare_misuse(c, err, "--compute is for presets fp16 and bf16") : 0;
    if (o->quantizer || o->format || o->calibration || o->load_calibration || o->model_out ||
        o->input_shape.n || o->accuracy_drop >= 0)
        return pare_misuse(c, err,
                           "preset %s converts to half precision and takes neither a quantizer nor "
                           "--format, --calibration, --load-calibration, --model-out, "
                           "--input-shape or --accuracy-drop",
                           o->preset);
    return 0;
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
    return check_half(c, err);
}

static int check_files(struct pare_cli *c, struct job *j, struct pare_err *err)
{
    const struct quantize *o = c->opts;
    struct pare_export *files = &j->quantize.files;

    j->common.train.output = o->output ? o->output
                                       : pare_default_output(c->arena, c->arg[0], "quantized");
    if (!j->common.train.output)
        return pare_no_memory(err, "for a file name");
    *files = (struct pare_export){ .onnx = j->common.train.output,
                                   .model = o->model_out,
                                   .calibration = o->calibration,
                                   .qoperator = o->format && !strcmp(o->format, "qoperator"),
                                   .nbits = o->format && !strcmp(o->format, "nbits"),
                                   .dynamic = o->format && !strcmp(o->format, "dynamic"),
                                   .input_shape = o->input_shape.v,
                                   .input_rank = o->input_shape.n };
    if (!o->format)
        files->dynamic = pare_preset_is_dynamic(o->preset);
    PARE_TRY(pare_export_check(files, err));
    PARE_TRY(pare_output_path_check(c, j->common.train.output, err));
    if (o->model_out)
        PARE_TRY(pare_output_path_check(c, o->model_out, err));
    return o->calibration ? pare_output_path_check(c, o->calibration, err) : 0;
}

static int open_job(struct pare_compress_job *common, struct pare_err *err)
{
    struct job *j = (struct job *)common;
    struct pare_cli *c = common->c;
    const struct quantize *o = c->opts;
    struct pare_algorithm_options own = { .kind = "quantizer" };
    struct pare_given *given;

    PARE_TRY(check_choice(c, err));
    PARE_TRY(pare_compress_job_plugins(&j->common, &o->plugin, err));
    PARE_TRY(pare_quantize_option_groups(c->arena, NULL, &own.part, &own.n, err));
    PARE_TRY(pare_split_options(c, &own, &j->quantize.tune, &given, &j->quantize.n_given, err));
    j->quantize.given = given;
    j->quantize.o.registry = j->common.registry;
    PARE_TRY(check_files(c, j, err));
    PARE_TRY(pare_quantize_check_training(&j->quantize, &j->untrained, err));
    PARE_TRY(pare_train_job_load(c, &j->common.train, err));
    j->summary.bytes_before = pare_model_file_bytes(j->common.train.model);
    PARE_TRY(pare_quantize_fold(&j->quantize, err));
    j->quantize.tune.observe = !pare_quantize_trains(&j->quantize);
    return o->data ? pare_train_job_open(c, &j->common.train, err) : 0;
}

/* ---- run ----------------------------------------------------------------------------------- */

static void print_step(void *user, const struct pare_budget_step *s)
{
    struct job *j = user;

    pare_progress_line_end(&j->common.line);
    j->summary.before = j->quantize.before;
    j->summary.least = j->quantize.least;
    if (!j->common.train.quiet)
        pare_budget_print(&j->summary, s, j->common.train.json ? stderr : stdout);
}

static void init_job(struct job *j, const struct quantize *o)
{
    *j = (struct job){
        .quantize = { .o = { .preset = o->preset,
                             .quantizer = o->quantizer,
                             .config = o->config,
                             .settings = o->set,
                             .fold = o->fold,
                             .compute = o->compute,
                             .keep_zeros = o->keep_zeros,
                             .max_drop = o->accuracy_drop < 0 ? -1 : o->accuracy_drop / 100,
                             .progress = pare_progress_line_show,
                             .user = &j->common.line },
                      .tune = { .data_name = o->data,
                                .valid_name = o->valid,
                                .self_teaching = true,
                                .quantized = true },
                      .train = pare_compress_train,
                      .user = &j->common,
                      .load_calibration = o->load_calibration,
                      .on_step = print_step },
        .common.train = { .tune = &j->quantize.tune, .json = o->json, .quiet = o->quiet },
        .summary = { .drop = o->accuracy_drop < 0 ? -1 : o->accuracy_drop },
    };
}

static int wrap(struct pare_compress_job *common, struct pare_err *err)
{
    return pare_quantize_open(&((struct job *)common)->quantize, err);
}

/* With --max-drop the model is written to its file when its accuracy is known to suffice. */
static int publish(struct job *j, const char *trial, const char *output, struct pare_err *err)
{
    const char *data = pare_sprintf(j->common.c->arena, "%s.data", trial);
    struct pare_model *m;
    int rc;

    PARE_TRY(pare_model_load_with(trial, &j->quantize.tune.model->how, &m, err));
    rc = pare_model_save(m, output, NULL, err);
    pare_model_free(m);
    if (!rc) {
        unlink(trial);
        if (data)
            unlink(data);
    }
    return rc;
}

static int work(struct pare_compress_job *common, struct pare_err *err)
{
    struct job *j = (struct job *)common;
    struct pare_quantize_job *q = &j->quantize;
    const char *output = q->files.onnx, *trial = output;
    bool limited = q->tune.options && q->tune.options->c.max_drop >= 0;

    if (limited)
        trial = pare_default_output(common->c->arena, output, "best");
    if (!trial)
        return pare_no_memory(err, "for a file name");
    q->files.onnx = trial;
    PARE_TRY(pare_quantize_work(q, err));
    PARE_TRY(pare_train_job_drop(
        common->c, &common->train, &q->before, &q->after,
        q->trained
            ? "more --epochs, more bits or --accuracy-drop keep more of it"
            : "--epochs 3 trains with quantized values, --accuracy-drop 1 keeps layers float",
        err));
    if (!limited || common->train.over.code)
        return 0;
    q->files.onnx = output;
    return pare_dist_rank(common->c->dist) ? 0 : publish(j, trial, output, err);
}

static void close_job(struct pare_compress_job *common)
{
    pare_quantize_close(&((struct job *)common)->quantize);
}

/* The size of the model if its weights were quantized. */
static int estimate(struct pare_cli *c, struct pare_estimate *g, struct pare_err *err)
{
    struct job j;
    double saved;

    PARE_TRY(check_choice(c, err));
    init_job(&j, c->opts);
    j.quantize.tune.model = g->model;
    j.quantize.tune.arena = c->arena;
    j.quantize.tune.path = c->arg[0];
    PARE_TRY(pare_quantize_estimate(&j.quantize, &saved, err));
    g->bytes -= saved;
    return 0;
}

static int print_result(struct pare_compress_job *common, struct pare_err *err)
{
    struct job *j = (struct job *)common;
    struct pare_cli *c = common->c;
    const struct quantize *o = c->opts;
    struct pare_quantize_summary *s = &j->summary;

    if (j->untrained && !c->in_recipe) {
        pare_put_warning();
        fprintf(stderr,
                "quantizer %s learns in training, and was not trained: use --data SET --epochs 3\n",
                o->quantizer);
    }
    s->compression = j->quantize.compression;
    s->files = &j->quantize.files;
    s->before = j->quantize.before;
    s->rounded = j->quantize.rounded;
    s->after = j->quantize.after;
    s->bytes_after = j->quantize.bytes_after;
    s->trained = j->quantize.trained;
    s->note = j->quantize.note;
    s->smoothed = j->quantize.smoothed_layers;
    s->smoothed_choice = j->quantize.smoothed_choice;
    s->history = j->common.train.progress.history;
    s->least = j->quantize.least;
    s->budget = j->quantize.budget;
    if (pare_quantize_is_half(&j->quantize)) {
        s->half = &j->quantize.half;
        return o->json ? pare_half_json(c, s, err) : pare_half_print(s, o->quiet);
    }
    return o->json ? pare_quantize_json(c, s, err)
                   : pare_quantize_print(s, c->arena, o->quiet, err);
}

static const struct pare_compress_steps steps = { open_job, wrap,         work,
                                                  NULL,     print_result, close_job };

static int cmd_quantize_check(struct pare_cli *c, struct pare_err *err)
{
    struct job j;

    init_job(&j, c->opts);
    return pare_compress_job_check(c, &steps, &j.common, err);
}

static int cmd_quantize_run(struct pare_cli *c, struct pare_err *err)
{
    struct job j;

    init_job(&j, c->opts);
    return pare_compress_job_run(c, &steps, &j.common, err);
}

const struct pare_command pare_command_quantize = {
    .name = "quantize",
    .doc = "Quantize weights and activations of a model.",
    .usage = "[options] MODEL --preset int8 --data SET [-o FILE]",
    .more = "Presets: int8 quantizes weights, inputs and outputs of convolutions and linear\n"
            "layers to 8 bits; it needs --data for calibration.  int8-dynamic quantizes\n"
            "weights, and inputs at run time by their own range.  int8-weights and w4\n"
            "quantize only weights: w4 uses 4 bits for linear layers, with a scale for each 64\n"
            "inputs (--group-size), and 8 bits for the others.  fp16 and bf16 convert to half\n"
            "precision; inputs and outputs stay float32.\n"
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
    .example = "pare quantize model.onnx --preset int8 --data digits\n"
               "pare quantize model.onnx --preset int8-weights",
    .first = (const char *const[]){ "preset", "data", "epochs", "accuracy-drop", "output", NULL },
    .opts = quantize_opts,
    .size = sizeof(struct quantize),
    .min_args = 1,
    .max_args = 1,
    .writes = (const char *const[]){ "output", "model-out", "calibration", "checkpoint", NULL },
    .run = cmd_quantize_run,
    .check = cmd_quantize_check,
    .estimate = estimate,
    .groups = quantize_groups,
    .shared = true,
};

/* cmd_quantize.c - pare quantize: integers by any quantizer, with training where it needs it. */
#include <string.h>

#include <jansson.h>

#include "../output_paths.h"
#include "../view/quantize_view.h"
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
    double accuracy_drop; /* below 0: not given */
    bool fold, keep_zeros, json, quiet;
};

static const struct pare_opt quantize_opts[] = {
    PARE_CHOICE("preset", offsetof(struct quantize, preset),
                "the usual: 8-bit integers, only weights, 4-bit weights", NULL, PARE_PRESETS),
    PARE_TEXT("quantizer", offsetof(struct quantize, quantizer), "NAME",
              "the algorithm, see 'pare list quantizers'", NULL),
    PARE_TEXT("config", offsetof(struct quantize, config), "FILE",
              "a config_list: a JSON file, or the text itself", NULL),
    PARE_TEXT("data", offsetof(struct quantize, data), "SET",
              "learn or calibrate with this set: digits, fashion-mnist, or a file or "
              "folder",
              NULL),
    PARE_TEXT("valid", offsetof(struct quantize, valid), "SET",
              "validate with this set; none: not at all", NULL),
    PARE_TEXT("output", offsetof(struct quantize, output), "FILE",
              "where to write the quantized model; default NAME-quantized.onnx", NULL),
    PARE_CHOICE("format", offsetof(struct quantize, format),
                "QuantizeLinear and DequantizeLinear; QLinearConv and the like; MatMulNBits", "qdq",
                "qdq|qoperator|nbits"),
    PARE_TEXT("model-out", offsetof(struct quantize, model_out), "FILE",
              "write the rounded state here: .pth, .safetensors or .npz", NULL),
    PARE_TEXT("calibration", offsetof(struct quantize, calibration), "FILE",
              "write scales and ranges here, as JSON", NULL),
    PARE_TEXT("load-calibration", offsetof(struct quantize, load_calibration), "FILE",
              "take scales and ranges from this file", NULL),
    PARE_INTS("input-shape", offsetof(struct quantize, input_shape),
              "fix the input's shape in the written model", 1, 1e12),
    PARE_FLAG(
        "fold", offsetof(struct quantize, fold),
        "first fold batch normalizations into convolutions, as preset int8 does, and equalize "
        "and bias_correction",
        0),
    PARE_FLAG("keep-zeros", offsetof(struct quantize, keep_zeros),
              "weights that are 0 stay 0, so that a pruned model stays pruned", 0),
    PARE_FLOAT(
        "accuracy-drop", offsetof(struct quantize, accuracy_drop),
        "points of accuracy that may be lost: layers that cost more get more bits, or stay float",
        -1, 0, 100),
    PARE_TEXTS("plugin", offsetof(struct quantize, plugin), "FILE",
               "a shared object with more quantizers"),
    PARE_TEXT("set", offsetof(struct quantize, set), "SETTINGS",
              "settings of a plugin's quantizer: \"name=value name=value\"", NULL),
    PARE_FLAG("json", offsetof(struct quantize, json), "print the result as JSON", 0),
    PARE_FLAG("quiet", offsetof(struct quantize, quiet), "print no progress", 0),
    PARE_OPT_END
};

/* Everything of one call. */
struct job {
    struct pare_train_job teach; /* without data only model and output are used */
    struct pare_registry *registry;
    struct pare_compression *run;
    struct pare_export files;
    struct pare_quantize_view view;
    const char *settings;
    struct pare_model *unfolded; /* or NULL */
};

/* ---- before -------------------------------------------------------------------------------- */

/* Options of training and of all quantizers. */
static int quantize_parts(struct pare_arena *a, struct pare_option_group **part, int *n,
                          struct pare_err *err)
{
    struct pare_own own = { .kind = "quantizer" };

    PARE_TRY(pare_quantize_option_groups(a, NULL, &own.part, &own.n, err));
    return pare_own_option_groups(a, &own, part, n, err);
}

static int check_choice(struct pare_cli *c, struct pare_err *err)
{
    const struct quantize *o = c->opts;

    if (o->preset && o->config)
        return pare_misuse(c, err, "--preset is short for a config_list, so give one of the two");
    if (!o->preset && !o->config)
        return pare_misuse(c, err, "say how: --preset int8, or a --config");
    if (!o->preset && !o->quantizer)
        return pare_misuse(c, err, "which --quantizer? 'pare list quantizers' lists them");
    if (o->accuracy_drop >= 0 && !o->data)
        return pare_misuse(c, err, "--accuracy-drop needs --data, to see what is lost");
    return 0;
}

static int check_files(struct pare_cli *c, struct job *j, struct pare_err *err)
{
    const struct quantize *o = c->opts;

    j->teach.output = o->output ? o->output : pare_default_output(c->arena, c->arg[0], "quantized");
    if (!j->teach.output)
        return pare_no_memory(err, "for a name");
    j->files = (struct pare_export){ .onnx = j->teach.output,
                                     .model = o->model_out,
                                     .calibration = o->calibration,
                                     .qoperator = !strcmp(o->format, "qoperator"),
                                     .nbits = !strcmp(o->format, "nbits"),
                                     .input_shape = o->input_shape.v,
                                     .input_rank = o->input_shape.n };
    PARE_TRY(pare_export_check(&j->files, err));
    PARE_TRY(pare_check_output(c, j->teach.output, err));
    if (o->model_out)
        PARE_TRY(pare_check_output(c, o->model_out, err));
    return o->calibration ? pare_check_output(c, o->calibration, err) : 0;
}

/* What the model's files hold, weights beside it included. */
static double bytes_of(const struct pare_model *m)
{
    double n = 0;

    for (const struct pare_pages *p = m->pages; p; p = p->next)
        n += p->scratch ? 0 : (double)p->len;
    return n;
}

/* Normalizations go before all else: as asked for, or with preset int8 unless the quantizer folds
 * them itself while it trains. */
static bool folds_first(const struct quantize *o, const struct job *j)
{
    const struct pare_quantizer *q;
    struct pare_err err;

    if (o->fold || !o->preset || strcmp(o->preset, "int8") != 0)
        return o->fold;
    return !o->quantizer || pare_find_quantizer(j->registry, o->quantizer, &q, &err) ||
           !pare_needs_bn_folding(q, j->settings);
}

/* Equalization needs layers side by side, and corrections need biases: both fold. */
static int open_model(struct pare_cli *c, struct job *j, struct pare_err *err)
{
    const struct quantize *o = c->opts;
    struct pare_quant_settings q;
    struct pare_option_group shared = { "quantization", NULL, pare_quant_options, &q };
    struct pare_model *folded;
    int n;

    PARE_TRY(pare_model_load(c->arg[0], &j->teach.model, err));
    PARE_TRY(pare_output_paths_model(c, j->teach.model, j->teach.output, err));
    j->view.bytes_before = bytes_of(j->teach.model);
    PARE_TRY(pare_option_group_fill(&shared, c->given, c->n_given, c->arena, err));
    if (!folds_first(o, j) && !q.equalize && !q.bias_correction)
        return 0;
    PARE_TRY(pare_at(err, pare_model_fold_norm(j->teach.model, &folded, &n, err), "%s", c->arg[0]));
    if (folded) {
        j->unfolded = j->teach.model;
        j->teach.model = folded;
    }
    return 0;
}

/* Nothing is trained but where it is asked for, or the algorithm itself wants it. */
static bool trains(const struct pare_cli *c, const struct job *j)
{
    const struct quantize *o = c->opts;
    const struct pare_quantizer *q = NULL;
    struct pare_err err;

    if (o->quantizer && pare_find_quantizer(j->registry, o->quantizer, &q, &err))
        return true; /* which says so itself */
    return pare_given_text(c, "epochs") ||
           (q && (q->base.length || q->base.flags & PARE_NEEDS_STEPS));
}

static int open_job(struct pare_cli *c, struct job *j, struct pare_err *err)
{
    const struct quantize *o = c->opts;
    struct pare_own own = { .kind = "quantizer", .set = o->set };

    PARE_TRY(check_choice(c, err));
    j->registry = pare_registry_new(err);
    if (!j->registry)
        return err->code;
    for (int i = 0; i < o->plugin.n; i++)
        PARE_TRY(pare_plugin_load(j->registry, o->plugin.v[i], err));
    PARE_TRY(pare_quantize_option_groups(c->arena, NULL, &own.part, &own.n, err));
    PARE_TRY(pare_divide(c, &own, &j->teach, &j->settings, err));
    PARE_TRY(check_files(c, j, err));
    PARE_TRY(open_model(c, j, err));
    j->teach.looks = !trains(c, j);
    return o->data ? pare_train_job_open(c, &j->teach, err) : 0;
}

static int open_run(struct pare_cli *c, struct job *j, struct pare_err *err)
{
    const struct quantize *o = c->opts;
    struct pare_train_job *t = &j->teach;
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

/* ---- the work ------------------------------------------------------------------------------ */

/* The rounded model; what rounding takes away is summed up on the way. */
static int judge_rounded(struct job *j, struct pare_err *err)
{
    int rc;

    j->run->measure = true;
    rc = pare_evaluate_job(&j->teach, j->teach.model, &j->view.rounded, err);
    j->run->measure = false;
    return rc ? rc : pare_compression_merge_noise(j->run, err);
}

/* By the first of several processes; the others read it only when it is there. */
static int write_file(struct job *j, const struct pare_export *files, struct pare_err *err)
{
    if (!pare_dist_rank(j->run->dist))
        PARE_TRY(pare_compression_export(j->run, files, err));
    return pare_dist_wait(j->run->dist, err);
}

/* The file of integers, as anybody would read it. */
static int judge_file(struct job *j, struct pare_err *err)
{
    struct pare_model *m;
    int rc;

    PARE_TRY(pare_model_load(j->files.onnx, &m, err));
    j->view.bytes_after = bytes_of(m);
    rc = pare_evaluate_job(&j->teach, m, &j->view.after, err);
    pare_model_free(m);
    return rc;
}

/* Of the rounded model; when that is good enough, of the file of integers, which may be another. */
static int accuracy(void *user, double *value, struct pare_err *err)
{
    struct job *j = user;
    struct pare_export only = { .onnx = j->files.onnx, .qoperator = j->files.qoperator };
    struct pare_evaluation r = { .done = false };

    PARE_TRY(pare_evaluate_job(&j->teach, j->teach.model, &r, err));
    *value = r.top1;
    if (r.top1 < j->view.least)
        return 0;
    PARE_TRY(write_file(j, &only, err));
    PARE_TRY(judge_file(j, err));
    *value = j->view.after.top1 < r.top1 ? j->view.after.top1 : r.top1;
    return 0;
}

static void say_step(void *user, const struct pare_budget_step *s)
{
    const struct job *j = user;

    if (!j->teach.quiet)
        pare_budget_say(&j->view, s, j->teach.json ? stderr : stdout);
}

static int meet_budget(struct pare_cli *c, struct job *j, struct pare_err *err)
{
    const struct quantize *o = c->opts;
    struct pare_budget b = { .judge = accuracy, .say = say_step, .user = j };
    struct pare_budget_report *p = &j->view.budget;

    if (!j->view.before.done)
        return pare_fail(err, PARE_ECONFIG,
                         "--accuracy-drop needs data to validate with, give a --valid");
    /* Counts are divided, so that what is just at the bound may differ in its last bit. */
    j->view.drop = o->accuracy_drop;
    b.least = j->view.least = j->view.before.top1 - o->accuracy_drop / 100 - 1e-12;
    PARE_TRY(pare_compression_mixed_precision(j->run, &b, p, err));
    if (p->met)
        return 0;
    return pare_fail(err, PARE_ECONFIG,
                     "accuracy is %.2f%% even with all layers float, that is %.2f points below "
                     "%.2f%%; --accuracy-drop allows %g, so nothing is written",
                     100 * p->step[p->n_steps - 1].accuracy,
                     100 * (j->view.before.top1 - p->step[p->n_steps - 1].accuracy),
                     100 * j->view.before.top1, o->accuracy_drop);
}

static int work(struct pare_cli *c, struct job *j, struct pare_err *err)
{
    const struct quantize *o = c->opts;

    if (o->data)
        PARE_TRY(pare_evaluate_job(&j->teach, j->teach.model, &j->view.before, err));
    PARE_TRY(open_run(c, j, err));
    PARE_TRY(pare_compression_compress(j->run, err));
    if (o->data) {
        PARE_TRY(pare_compress_train(c, &j->teach, j->run, &j->view.trained, err));
        if (o->accuracy_drop >= 0)
            PARE_TRY(meet_budget(c, j, err));
        PARE_TRY(judge_rounded(j, err));
    }
    PARE_TRY(write_file(j, &j->files, err));
    return judge_file(j, err);
}

static struct job job_of(const struct quantize *o)
{
    return (struct job){ .view = { .drop = -1 },
                         .teach = { .data_name = o->data,
                                    .valid_name = o->valid,
                                    .json = o->json,
                                    .quiet = o->quiet } };
}

static void close_job(struct job *j)
{
    pare_compression_free(j->run);
    pare_train_job_close(&j->teach);
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

/* Weights of so many bits instead of floats. */
static int guess(struct pare_cli *c, struct pare_guess *g, struct pare_err *err)
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
    pare_view_end(&j.teach.view);
    if (!rc && !pare_dist_rank(c->dist)) {
        j.view.run = j.run;
        j.view.files = &j.files;
        j.view.history = j.teach.view.history;
        rc = o->json ? pare_quantize_json(c, &j.view, err)
                     : pare_quantize_print(&j.view, c->arena, o->quiet, err);
    }
    close_job(&j);
    return rc;
}

const struct pare_command pare_command_quantize = {
    .name = "quantize",
    .doc = "Turn numbers of a model into integers by any quantizer.",
    .usage = "[options] MODEL --preset int8 --data SET [-o OUTPUT]",
    .more =
        "Presets: int8 has 8-bit weights, inputs and outputs of convolutions and linear layers;\n"
        "it needs --data to see their ranges.  int8-weights and w4 round only weights, w4 those\n"
        "of linear layers to 4 bits, a scale for each 64 inputs (--group-size), others to 8.\n"
        "All else is said by a config_list (--config) and a --quantizer:\n"
        "  [{\"quant_types\": [\"weight\", \"input\"],\n"
        "    \"quant_bits\": {\"weight\": 4, \"input\": 8},\n"
        "    \"op_types\": [\"Conv2d\", \"Linear\"]},\n"
        "   {\"exclude\": true, \"op_names\": [\"fc\"]}]\n"
        "'pare inspect' prints names and types of layers, 'pare help quantizer NAME' the keys and\n"
        "settings of a quantizer.  With --data the model is judged before and after; --epochs N\n"
        "trains it with rounded numbers.  --accuracy-drop 0.5 then looks for the layers that cost\n"
        "most and gives them more bits, or leaves them float, until what is lost is no more.  The\n"
        "options of training are those of 'pare train'.",
    .opts = quantize_opts,
    .size = sizeof(struct quantize),
    .min_args = 1,
    .max_args = 1,
    .writes = (const char *const[]){ "output", "model-out", "calibration", "checkpoint", NULL },
    .run = run,
    .check = check,
    .guess = guess,
    .parts = quantize_parts,
    .shared = true,
};

/* cmd_quantize.c - pare quantize: integers by any quantizer, with training where it needs it. */
#include <string.h>

#include <jansson.h>

#include "quantize_view.h"
#include "../base/arena.h"
#include "../compress/export.h"
#include "../compress/preset.h"
#include "../compress/pruners.h"
#include "../onnx/fold_norm.h"

struct quantize {
    const char *quantizer, *config, *preset, *data, *valid, *output, *model_out, *format, *set;
    const char *calibration, *load_calibration;
    struct pare_strs plugin;
    struct pare_ints input_shape;
    bool fold, json, quiet;
};

#define OPTION(name, field, help, def, choices)                                                \
    {                                                                                          \
        name, help, PARE_OPT_STR, offsetof(struct quantize, field), 0, PARE_ANY, def, choices, \
            false                                                                              \
    }

static const struct pare_opt quantize_opts[] = {
    OPTION("preset", preset, "the usual: 8-bit integers, only weights, 4-bit weights", NULL,
           PARE_PRESETS),
    OPTION("quantizer", quantizer, "the algorithm, see 'pare list quantizers'", NULL, NULL),
    OPTION("config", config, "a config_list: a JSON file, or the text itself", NULL, NULL),
    OPTION("data", data,
           "learn or calibrate with this set: digits, fashion-mnist, or a file or "
           "folder",
           NULL, NULL),
    OPTION("valid", valid, "validate with this set; none: not at all", NULL, NULL),
    OPTION("output", output, "where to write the quantized model; default NAME-quantized.onnx",
           NULL, NULL),
    OPTION("format", format, "QuantizeLinear and DequantizeLinear, or QLinearConv and the like",
           "qdq", "qdq|qoperator"),
    OPTION("model-out", model_out, "write the rounded state here: .pth, .safetensors or .npz", NULL,
           NULL),
    OPTION("calibration", calibration, "write scales and ranges here, as JSON", NULL, NULL),
    OPTION("load-calibration", load_calibration, "take scales and ranges from this file", NULL,
           NULL),
    { "input-shape", "fix the input's shape in the written model", PARE_OPT_INTS,
      offsetof(struct quantize, input_shape), 0, 1, 1e12, NULL, NULL, false },
    { "fold", "first fold batch normalizations into convolutions, as preset int8 does",
      PARE_OPT_BOOL, offsetof(struct quantize, fold), 0, 0, 1, NULL, NULL, false },
    { "plugin", "a shared object with more quantizers", PARE_OPT_STRS,
      offsetof(struct quantize, plugin), 0, PARE_ANY, NULL, NULL, false },
    OPTION("set", set, "settings of a plugin's quantizer: \"name=value name=value\"", NULL, NULL),
    { "json", "print the result as JSON", PARE_OPT_BOOL, offsetof(struct quantize, json), 0, 0, 1,
      NULL, NULL, false },
    { "quiet", "print no progress", PARE_OPT_BOOL, offsetof(struct quantize, quiet), 0, 0, 1, NULL,
      NULL, false },
    PARE_OPT_END
};

/* Everything of one call. */
struct job {
    struct pare_teach teach; /* without data only model and output are used */
    struct pare_registry *registry;
    struct pare_run *run;
    struct pare_export files;
    struct pare_quantize_view view;
    const char *settings;
    struct pare_model *unfolded; /* or NULL */
    struct pare_arena *folding;  /* what the folded model refers to */
};

/* ---- before -------------------------------------------------------------------------------- */

/* Options of training and of all quantizers. */
static int quantize_parts(struct pare_arena *a, struct pare_part **part, int *n,
                          struct pare_err *err)
{
    struct pare_own own = { .kind = "quantizer" };

    PARE_TRY(pare_quantize_parts(a, NULL, &own.part, &own.n, err));
    return pare_own_parts(a, &own, part, n, err);
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
    return 0;
}

static int check_files(struct pare_cli *c, struct job *j, struct pare_err *err)
{
    const struct quantize *o = c->opts;

    j->teach.output = o->output ? o->output : pare_default_output(c->arena, c->arg[0], "quantized");
    if (!j->teach.output)
        return pare_fail(err, PARE_ENOMEM, "no memory for a name");
    j->files = (struct pare_export){ .onnx = j->teach.output,
                                     .model = o->model_out,
                                     .calibration = o->calibration,
                                     .qoperator = !strcmp(o->format, "qoperator"),
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
        n += (double)p->len;
    return n;
}

static int open_model(struct pare_cli *c, struct job *j, struct pare_err *err)
{
    const struct quantize *o = c->opts;
    struct pare_model *folded;
    int n;

    PARE_TRY(pare_model_load(c->arg[0], &j->teach.model, err));
    j->view.bytes_before = bytes_of(j->teach.model);
    if (!o->fold && !(o->preset && !strcmp(o->preset, "int8")))
        return 0;
    j->folding = pare_arena_new(1 << 16);
    if (!j->folding)
        return pare_fail(err, PARE_ENOMEM, "no memory for the model");
    PARE_TRY(pare_at(err, pare_model_fold_norm(j->teach.model, j->folding, &folded, &n, err), "%s",
                     c->arg[0]));
    if (folded) {
        j->unfolded = j->teach.model;
        j->teach.model = folded;
    }
    return 0;
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
    PARE_TRY(pare_quantize_parts(c->arena, NULL, &own.part, &own.n, err));
    PARE_TRY(pare_divide(c, &own, &j->teach, &j->settings, err));
    PARE_TRY(check_files(c, j, err));
    PARE_TRY(open_model(c, j, err));
    return o->data ? pare_teach_open(c, &j->teach, err) : 0;
}

static int open_run(struct pare_cli *c, struct job *j, struct pare_err *err)
{
    const struct quantize *o = c->opts;
    struct pare_teach *t = &j->teach;
    struct pare_run_opts ro = {
        .quantizer = o->quantizer,
        .config = o->config,
        .settings = j->settings,
        .registry = j->registry,
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
    PARE_TRY(pare_run_new(t->model, &ro, &j->run, err));
    if (o->load_calibration)
        PARE_TRY(pare_run_calibrate(j->run, o->load_calibration, err));
    return o->data ? pare_run_attach(j->run, t->trainer, t->data[0], t->setup->train.batch, err)
                   : 0;
}

/* ---- the work ------------------------------------------------------------------------------ */

/* The rounded model; what rounding takes away is summed up on the way. */
static int judge_rounded(struct job *j, struct pare_err *err)
{
    int rc;

    j->run->measure = true;
    rc = pare_judge(&j->teach, j->teach.model, &j->view.rounded, err);
    j->run->measure = false;
    return rc;
}

/* The file of integers, as anybody would read it. */
static int judge_file(struct job *j, struct pare_err *err)
{
    struct pare_model *m;
    int rc;

    PARE_TRY(pare_model_load(j->files.onnx, &m, err));
    j->view.bytes_after = bytes_of(m);
    rc = pare_judge(&j->teach, m, &j->view.after, err);
    pare_model_free(m);
    return rc;
}

static int work(struct pare_cli *c, struct job *j, struct pare_err *err)
{
    const struct quantize *o = c->opts;

    if (o->data)
        PARE_TRY(pare_judge(&j->teach, j->teach.model, &j->view.before, err));
    PARE_TRY(open_run(c, j, err));
    PARE_TRY(pare_run_compress(j->run, err));
    if (o->data) {
        PARE_TRY(pare_compress_train(c, &j->teach, j->run, &j->view.trained, err));
        PARE_TRY(judge_rounded(j, err));
    }
    PARE_TRY(pare_run_export(j->run, &j->files, err));
    return judge_file(j, err);
}

static struct job job_of(const struct quantize *o)
{
    return (struct job){ .teach = { .data_name = o->data,
                                    .valid_name = o->valid,
                                    .json = o->json,
                                    .quiet = o->quiet } };
}

static void close_job(struct job *j)
{
    pare_run_free(j->run);
    pare_teach_close(&j->teach);
    pare_model_free(j->unfolded);
    pare_arena_free(j->folding);
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
    struct pare_run_opts ro = { .quantizer = o->quantizer, .config = o->config };
    struct pare_rules rules;
    const char *usual;
    struct pare_run *r;

    PARE_TRY(check_choice(c, err));
    if (o->preset) {
        PARE_TRY(pare_preset(o->preset, g->model, c->arena, &usual, &rules, err));
        ro.quantizer = o->quantizer ? o->quantizer : usual;
        ro.rule = rules.rule;
        ro.n_rules = rules.n;
    }
    PARE_TRY(pare_run_new(g->model, &ro, &r, err));
    for (int i = 0; i < r->n_layers; i++)
        if (r->layer[i].quantized[PARE_WEIGHT])
            g->bytes -= (double)pare_numel(&r->layer[i].w) *
                        (4 - (double)r->layer[i].quant[PARE_WEIGHT].bits / 8);
    pare_run_free(r);
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
    if (!rc) {
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
        "it needs --data to see their ranges.  int8-weights and w4 round only weights.\n"
        "All else is said by a config_list (--config) and a --quantizer:\n"
        "  [{\"quant_types\": [\"weight\", \"input\"],\n"
        "    \"quant_bits\": {\"weight\": 4, \"input\": 8},\n"
        "    \"op_types\": [\"Conv2d\", \"Linear\"]},\n"
        "   {\"exclude\": true, \"op_names\": [\"fc\"]}]\n"
        "'pare inspect' prints names and types of layers, 'pare help quantizer NAME' the keys and\n"
        "settings of a quantizer.  With --data the model is judged before and after; --epochs N\n"
        "trains it with rounded numbers.  The options of training are those of 'pare train'.",
    .opts = quantize_opts,
    .size = sizeof(struct quantize),
    .min_args = 1,
    .max_args = 1,
    .run = run,
    .check = check,
    .guess = guess,
    .parts = quantize_parts,
};

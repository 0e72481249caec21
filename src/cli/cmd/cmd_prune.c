/* cmd_prune.c - pare prune: mask weights with any pruner, fine-tune, optionally shrink. */
#include <string.h>

#include <jansson.h>

#include "../output_paths.h"
#include "../print/prune_print.h"
#include "../job/input.h"
#include "../job/speedup_job.h"
#include "../job/verify_inputs.h"
#include "../../base/arena.h"
#include "../../compress/export.h"
#include "../../dist/dist.h"
#include "../../prune/prune_method.h"

struct prune {
    const char *pruner, *config, *data, *valid, *output, *model_out, *masks, *set;
    double sparsity;
    struct pare_strs plugin, input, shape;
    struct pare_ints input_shape;
    int64_t round_to;
    bool json, quiet, dependency_aware, speedup, no_verify, no_bench, repair, reconstruct;
    struct pare_reconstruct_opts rec;
};

static const struct pare_opt prune_opts[] = {
    PARE_TEXT("pruner", offsetof(struct prune, pruner), "NAME",
              "pruning algorithm, see 'pare list pruners' (default: level; with --speedup: l1)",
              NULL),
    PARE_FLOAT("sparsity", offsetof(struct prune, sparsity),
               "fraction of the weights to remove, in all layers the pruner supports", -1, 0,
               0.999999999),
    PARE_TEXT("config", offsetof(struct prune, config), "FILE",
              "use this config_list instead of --sparsity: a JSON file, or the JSON itself", NULL),
    PARE_TEXT("data", offsetof(struct prune, data), "SET",
              "train or collect statistics on this set: digits, fashion-mnist, a file or a folder",
              NULL),
    PARE_TEXT("valid", offsetof(struct prune, valid), "SET",
              "validate on this set; none: do not validate (default: the test part of --data)",
              NULL),
    PARE_TEXT("output", offsetof(struct prune, output), "FILE",
              "write the pruned model to FILE (default: MODEL-pruned.onnx)", NULL),
    PARE_TEXT("model-out", offsetof(struct prune, model_out), "FILE",
              "also write all parameters to FILE: .pth, .safetensors or .npz", NULL),
    PARE_TEXT("masks", offsetof(struct prune, masks), "FILE",
              "write the masks to FILE: .pth (as NNI does), .safetensors or .npz", NULL),
    PARE_INTS("input-shape", offsetof(struct prune, input_shape),
              "fix the input's shape in the written model", 1, 1e12),
    PARE_FLAG("speedup", offsetof(struct prune, speedup),
              "remove the masked channels from the written model, see 'pare speedup'; coupled "
              "layers lose the same channels",
              0),
    PARE_FLAG(
        "repair", offsetof(struct prune, repair),
        "fit the layers after removed channels to what is left, by least squares on --data, if "
        "the outputs are closer to the original's then (default with --data; --no-repair: "
        "not)",
        0),
    PARE_FLAG(
        "reconstruct", offsetof(struct prune, reconstruct),
        "then train the parameters that are left for some steps so that the outputs are those "
        "of the model before, without labels, if they are closer to it then",
        0),
    PARE_INT("reconstruct-items", offsetof(struct prune, rec.items),
             "items of --data to reconstruct with, at most (0: all)", 0, 0, 1e12),
    PARE_INT("reconstruct-steps", offsetof(struct prune, rec.steps),
             "steps of reconstruction, with 32 items each", 500, 1, 1e9),
    PARE_FLOAT("reconstruct-lr", offsetof(struct prune, rec.rate),
               "largest learning rate of reconstruction, by adam", 1e-3, 1e-9, 1e3),
    PARE_INT("round-to", offsetof(struct prune, round_to),
             "with --speedup: keep a multiple of N channels", 1, 1, 4096),
    PARE_TEXTS("shape", offsetof(struct prune, shape), "NAME=N,N,...",
               "with --speedup: compare at this shape of an input, such as x=1,3,224,224, or size "
               "of a free dimension: batch=8"),
    PARE_TEXTS("input", offsetof(struct prune, input), "FILE",
               "with --speedup: compare with this input: name=x.npy, x.npz or x.pb (default: items "
               "of --data, or random inputs)"),
    PARE_FLAG("no-bench", offsetof(struct prune, no_bench),
              "with --speedup: do not measure latency", 0),
    PARE_FLAG("no-verify", offsetof(struct prune, no_verify),
              "with --speedup: do not run both models to compare their outputs", 0),
    PARE_TEXTS("plugin", offsetof(struct prune, plugin), "FILE",
               "load more pruners from this shared object"),
    PARE_FLAG("dependency-aware", offsetof(struct prune, dependency_aware),
              "remove the same channels in all layers of a dependency group (default with "
              "--speedup; --no-dependency-aware: each layer its own)",
              0),
    PARE_TEXT("set", offsetof(struct prune, set), "SETTINGS",
              "settings of a plugin's pruner: \"name=value name=value\"", NULL),
    PARE_FLAG("json", offsetof(struct prune, json), "print the result as JSON", 0),
    PARE_FLAG("quiet", offsetof(struct prune, quiet), "print no progress", 0),
    PARE_OPT_END
};

static const char *const reconstruct_only[] = { "reconstruct-items", "reconstruct-steps",
                                                "reconstruct-lr" };

/* State of one call. */
struct job {
    struct pare_compress_job common; /* first */
    struct pare_prune_job prune;
    struct pare_export files;
    struct pare_speedup_job speedup; /* with --speedup */
};

/* ---- option groups ------------------------------------------------------------------------- */

static int pruner_options(struct pare_arena *a, const char *pruner,
                          struct pare_algorithm_options *own, struct pare_err *err)
{
    *own = (struct pare_algorithm_options){ .kind = "pruner" };
    return pare_prune_option_groups(a, pruner, &own->part, &own->n, err);
}

/* The options of all pruners and of training. */
static int prune_groups(struct pare_arena *a, struct pare_option_group **part, int *n,
                        struct pare_err *err)
{
    struct pare_algorithm_options own;

    PARE_TRY(pruner_options(a, NULL, &own, err));
    return pare_compress_option_groups(a, &own, part, n, err);
}

/* ---- setup --------------------------------------------------------------------------------- */

/* The last text of an option; NULL: not given. */
static const char *text_of(const struct pare_given *g, int n, const char *name)
{
    const char *text = NULL;

    for (int i = 0; i < n; i++)
        if (!strcmp(g[i].name, name))
            text = g[i].text;
    return text;
}

/* From the command line to the options of the library. */
static int parse(struct pare_cli *c, struct job *j, struct pare_err *err)
{
    const struct prune *o = c->opts;
    struct pare_algorithm_options own;
    struct pare_given *given;

    PARE_TRY(pare_compress_job_plugins(&j->common, &o->plugin, err));
    PARE_TRY(pruner_options(c->arena, pare_prune_pruner(&j->prune.o), &own, err));
    PARE_TRY(pare_split_options(c, &own, &j->prune.tune, &given, &j->prune.n_given, err));
    if (pare_cli_is_set(c, "dependency-aware")) {
        const char *mode = text_of(given, j->prune.n_given, "mode");
        bool global = mode && !strncmp(mode, "global", 6);

        given[j->prune.n_given++] = (struct pare_given){
            "mode", o->dependency_aware ? (global ? "global_aware" : "dependency_aware")
                    : global            ? "global"
                                        : "normal"
        };
    }
    if (pare_cli_is_set(c, "repair"))
        j->prune.o.repair = o->repair ? PARE_REPAIR_ON : PARE_REPAIR_OFF;
    j->prune.given = given;
    j->prune.o.registry = j->common.registry;
    if (o->config && o->sparsity >= 0)
        return pare_misuse(c, err, "use either --sparsity or --config, not both");
    if (!o->speedup && (o->shape.n || o->input.n || o->no_verify || o->no_bench))
        return pare_misuse(c, err, "--%s needs --speedup",
                           o->shape.n    ? "shape"
                           : o->input.n  ? "input"
                           : o->no_bench ? "no-bench"
                                         : "no-verify");
    if ((o->repair || o->reconstruct) && !o->data)
        return pare_misuse(c, err, "--%s needs --data", o->repair ? "repair" : "reconstruct");
    for (int i = 0; i < 3 && !o->reconstruct; i++)
        if (pare_cli_is_set(c, reconstruct_only[i]))
            return pare_misuse(c, err, "--%s needs --reconstruct", reconstruct_only[i]);
    if (!o->config && o->sparsity < 0)
        return pare_misuse(c, err, "specify --sparsity (for example 0.5) or --config");
    return 0;
}

static int check_files(struct pare_cli *c, struct job *j, struct pare_err *err)
{
    const struct prune *o = c->opts;

    j->common.train.output = o->output ? o->output
                                       : pare_default_output(c->arena, c->arg[0], "pruned");
    if (!j->common.train.output)
        return pare_no_memory(err, "for a file name");
    j->files = (struct pare_export){ .onnx = j->common.train.output,
                                     .model = o->model_out,
                                     .masks = o->masks,
                                     .input_shape = o->input_shape.v,
                                     .input_rank = o->input_shape.n };
    PARE_TRY(pare_export_check(&j->files, err));
    PARE_TRY(pare_output_path_check(c, j->common.train.output, err));
    if (o->model_out)
        PARE_TRY(pare_output_path_check(c, o->model_out, err));
    return o->masks ? pare_output_path_check(c, o->masks, err) : 0;
}

static int open_job(struct pare_compress_job *common, struct pare_err *err)
{
    struct job *j = (struct job *)common;
    struct pare_cli *c = common->c;
    const struct prune *o = c->opts;

    PARE_TRY(parse(c, j, err));
    PARE_TRY(check_files(c, j, err));
    return o->data ? pare_train_job_open(c, &common->train, err)
                   : pare_train_job_load(c, &common->train, err);
}

static int wrap(struct pare_compress_job *common, struct pare_err *err)
{
    return pare_prune_open(&((struct job *)common)->prune, err);
}

/* ---- run ----------------------------------------------------------------------------------- */

static int work(struct pare_compress_job *common, struct pare_err *err)
{
    struct job *j = (struct job *)common;

    PARE_TRY(pare_prune_work(&j->prune, err));
    PARE_TRY(pare_train_job_drop(
        common->c, &common->train, &j->prune.before, pare_prune_result(&j->prune),
        pare_finetune_given(&j->prune.tune, "epochs")
            ? "more --epochs or a lower --sparsity keep more of it"
        : j->prune.repaired
            ? "--epochs 5 fine-tunes the model"
            : "--repair fits the weights that are left, --epochs 5 fine-tunes the model",
        err));
    j->files.onnx = common->train.output;
    if (!pare_dist_rank(common->c->dist))
        pare_skipped_print(j->prune.compression);
    return 0;
}

/* Inputs to compare the two models with: files, items of the data, or random numbers. */
static int shrink_and_verify(struct pare_cli *c, struct job *j, struct pare_err *err)
{
    const struct prune *o = c->opts;
    struct pare_shape_args args = { .shape = o->shape, .lenient = true, .open = true };
    struct pare_model *model = j->prune.tune.model;
    struct pare_data **set = j->prune.tune.data;
    struct pare_verify_inputs f = { .data = set[1] ? set[1] : set[0], .arena = c->arena };
    struct pare_inputs in = { 0 };
    int rc = 0;

    if (o->input.n)
        PARE_TRY(pare_inputs_read(c, model, o->input, &in, err));
    PARE_TRY(pare_inputs_shape(c, model, &args, &in, err));
    j->speedup.opts.in = in.t;
    j->speedup.opts.n_in = in.n;
    if (f.data && !o->input.n && !o->no_verify && in.n == 1) {
        rc = pare_verify_inputs_open(&f, model, in.t, 64, &j->speedup.opts, err);
        j->speedup.data = o->data;
        j->speedup.items = f.items;
    }
    if (!rc)
        rc = pare_speedup_job_run(c, &j->speedup, err);
    pare_loader_free(f.loader);
    return rc;
}

static bool is_dependency_aware(const struct job *j)
{
    const char *mode = text_of(j->prune.given, j->prune.n_given, "mode");

    return mode && (!strcmp(mode, "dependency_aware") || !strcmp(mode, "global_aware"));
}

/* Write the masked model, or with --speedup the smaller one. */
static int write_files(struct pare_compress_job *common, struct pare_err *err)
{
    struct job *j = (struct job *)common;
    struct pare_cli *c = common->c;
    const struct prune *o = c->opts;
    struct pare_model *model = j->prune.tune.model;

    if (!o->speedup)
        return pare_compression_export(j->prune.compression, &j->files, err);
    j->files.onnx = NULL;
    if (j->files.model || j->files.masks)
        PARE_TRY(pare_compression_export(j->prune.compression, &j->files, err));
    if (j->files.input_rank)
        PARE_TRY(pare_model_fix_input(model, j->files.input_shape, j->files.input_rank, c->arena,
                                      NULL, err));
    j->speedup = (struct pare_speedup_job){ .masked = model,
                                            .compression = j->prune.compression,
                                            .dependency_aware = is_dependency_aware(j),
                                            .output = j->common.train.output,
                                            .line = &j->common.line,
                                            .seconds = o->no_bench ? 0 : 1,
                                            .opts = { .progress = pare_progress_line_show,
                                                      .progress_user = &j->common.line,
                                                      .round_to = o->round_to,
                                                      .unverified = o->no_verify } };
    return shrink_and_verify(c, j, err);
}

static int print_result(struct pare_compress_job *common, struct pare_err *err)
{
    struct job *j = (struct job *)common;
    struct pare_cli *c = common->c;
    const struct prune *o = c->opts;
    struct pare_prune_summary s = { .compression = j->prune.compression,
                                    .files = &j->files,
                                    .before = j->prune.before,
                                    .masked = j->prune.masked,
                                    .repair = j->prune.repaired ? &j->prune.choice : NULL,
                                    .after = j->prune.after,
                                    .trained = j->prune.trained,
                                    .recalibrated = j->prune.recalibrated,
                                    .tuned = pare_finetune_given(&j->prune.tune, "epochs"),
                                    .history = j->common.train.progress.history,
                                    .speedup = o->speedup ? &j->speedup : NULL };

    if (o->json)
        return pare_prune_json(c, &s, err);
    PARE_TRY(pare_prune_print(&s, c->arena, o->quiet, err));
    return o->speedup ? pare_speedup_job_print(c, &j->speedup, o->quiet, err) : 0;
}

static void init_job(struct job *j, const struct prune *o)
{
    *j = (struct job){
        .prune = { .o = { .pruner = o->pruner,
                          .speedup = o->speedup,
                          .sparsity = o->sparsity,
                          .config = o->config,
                          .settings = o->set,
                          .reconstruct = o->reconstruct ? &o->rec : NULL,
                          .progress = pare_progress_line_show,
                          .user = &j->common.line },
                   .reconstruct = o->rec,
                   .tune = { .data_name = o->data, .valid_name = o->valid, .self_teaching = true },
                   .train = pare_compress_train,
                   .user = &j->common },
        .common.train = { .tune = &j->prune.tune, .json = o->json, .quiet = o->quiet }
    };
}

static void close_job(struct pare_compress_job *common)
{
    pare_prune_close(&((struct job *)common)->prune);
}

static const struct pare_compress_steps steps = { open_job,    wrap,         work,
                                                  write_files, print_result, close_job };

static int cmd_prune_check(struct pare_cli *c, struct pare_err *err)
{
    struct job j;

    init_job(&j, c->opts);
    return pare_compress_job_check(c, &steps, &j.common, err);
}

static int cmd_prune_run(struct pare_cli *c, struct pare_err *err)
{
    struct job j;

    init_job(&j, c->opts);
    return pare_compress_job_run(c, &steps, &j.common, err);
}

static int estimate(struct pare_cli *c, struct pare_estimate *g, struct pare_err *err)
{
    struct job j;
    int rc;

    init_job(&j, c->opts);
    j.prune.tune.model = g->model;
    j.prune.tune.arena = c->arena;
    j.prune.tune.path = c->arg[0];
    rc = parse(c, &j, err);
    if (!rc)
        rc = pare_prune_estimate(&j.prune, err);
    pare_registry_free(j.common.registry);
    return rc;
}

const struct pare_command pare_command_prune = {
    .name = "prune",
    .doc = "Prune weights or channels of a model.",
    .usage = "[options] MODEL --pruner NAME --sparsity X [-o FILE]",
    .more = "Masked weights are 0 in the written model.  --sparsity prunes all layers that\n"
            "the pruner supports; a config_list (--config) selects layers and sparsities:\n"
            "  [{\"sparsity\": 0.8, \"op_types\": [\"default\"]},\n"
            "   {\"sparsity\": 0.5, \"op_names\": [\"conv1\", \"re:layer[12].*\"]},\n"
            "   {\"exclude\": true, \"op_names\": [\"fc\"]}]\n"
            "The last entry that matches a layer applies; entries are not merged.\n"
            "'pare inspect' prints the names and types of layers, 'pare help pruner NAME' the\n"
            "keys and settings of a pruner.\n"
            "With --data, the model is evaluated before and after; --epochs N fine-tunes it\n"
            "with its masks, after any training the pruner itself needs.  The training\n"
            "options are those of 'pare train'.\n"
            "With --speedup, FILE is the model without the masked channels, as written by\n"
            "'pare speedup'; l1 (its default), l2, fpgm and slim, among others, prune\n"
            "channels.",
    .example = "pare prune model.onnx --sparsity 0.5 --speedup --data digits --epochs 5",
    .first = (const char *const[]){ "pruner", "sparsity", "data", "epochs", "speedup", "output",
                                    NULL },
    .opts = prune_opts,
    .size = sizeof(struct prune),
    .min_args = 1,
    .max_args = 1,
    .writes = (const char *const[]){ "output", "model-out", "masks", "checkpoint", NULL },
    .run = cmd_prune_run,
    .check = cmd_prune_check,
    .estimate = estimate,
    .groups = prune_groups,
    .shared = true,
};

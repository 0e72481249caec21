/* cmd_prune.c - pare prune: mask weights with any pruner, fine-tune, optionally shrink. */
#include <string.h>

#include <jansson.h>

#include "../output_paths.h"
#include "../print/prune_print.h"
#include "../job/speedup_job.h"
#include "../../base/arena.h"
#include "../../compress/export.h"
#include "../../compress/registry.h"
#include "../../compress/default_rules.h"

struct prune {
    const char *pruner, *config, *data, *valid, *output, *model_out, *masks, *set;
    double sparsity;
    struct pare_strs plugin;
    struct pare_ints input_shape;
    int64_t round_to;
    bool json, quiet, dependency_aware, speedup;
};

static const struct pare_opt prune_opts[] = {
    PARE_TEXT("pruner", offsetof(struct prune, pruner), "NAME",
              "pruning algorithm, see 'pare list pruners'", "level"),
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
              "remove the masked channels from the written model, see 'pare speedup'", 0),
    PARE_INT("round-to", offsetof(struct prune, round_to),
             "with --speedup: keep a multiple of N channels", 1, 1, 4096),
    PARE_TEXTS("plugin", offsetof(struct prune, plugin), "FILE",
               "load more pruners from this shared object"),
    PARE_FLAG("dependency-aware", offsetof(struct prune, dependency_aware),
              "remove the same channels in all layers of a dependency group", 0),
    PARE_TEXT("set", offsetof(struct prune, set), "SETTINGS",
              "settings of a plugin's pruner: \"name=value name=value\"", NULL),
    PARE_FLAG("json", offsetof(struct prune, json), "print the result as JSON", 0),
    PARE_FLAG("quiet", offsetof(struct prune, quiet), "print no progress", 0),
    PARE_OPT_END
};

/* State of one call. */
struct job {
    struct pare_train_job train; /* without --data, only model and output are used */
    struct pare_registry *registry;
    struct pare_compression *run;
    struct pare_export files;
    struct pare_prune_summary summary;
    struct pare_speedup_job speedup; /* with --speedup */
};

/* ---- option groups ------------------------------------------------------------------------- */

static int pruner_options(struct pare_arena *a, const char *pruner, const char *set,
                          struct pare_algorithm_options *own, struct pare_err *err)
{
    *own = (struct pare_algorithm_options){ .kind = "pruner", .set = set };
    return pare_prune_option_groups(a, pruner, &own->part, &own->n, err);
}

/* The options of all pruners and of training. */
static int prune_groups(struct pare_arena *a, struct pare_option_group **part, int *n,
                        struct pare_err *err)
{
    struct pare_algorithm_options own;

    PARE_TRY(pruner_options(a, NULL, NULL, &own, err));
    return pare_compress_option_groups(a, &own, part, n, err);
}

/* ---- setup --------------------------------------------------------------------------------- */

/* --sparsity alone selects all layers that the pruner (for agp and linear: its base pruner)
 * supports. */
static int make_config(struct pare_cli *c, struct job *j, struct pare_compression_opts *ro,
                       struct pare_err *err)
{
    const struct prune *o = c->opts;
    const struct pare_pruner *p;
    struct pare_rules rules;
    const char *base = pare_given_text(c, "base");

    ro->config = o->config;
    if (o->config && o->sparsity >= 0)
        return pare_misuse(c, err, "use either --sparsity or --config, not both");
    if (o->config)
        return 0;
    if (o->sparsity < 0)
        return pare_misuse(c, err, "specify --sparsity (for example 0.5) or --config");
    PARE_TRY(pare_find_pruner(j->registry, o->pruner, &p, err));
    if (p->flags & PARE_USES_BASE)
        PARE_TRY(pare_find_pruner(j->registry, base ? base : "level", &p, err));
    PARE_TRY(pare_at(err, pare_default_rules(j->train.model, p, o->sparsity, c->arena, &rules, err),
                     "%s", c->arg[0]));
    ro->rule = rules.rule;
    ro->n_rules = rules.n;
    return 0;
}

static int open_run(struct pare_cli *c, struct job *j, const char *settings, struct pare_err *err)
{
    const struct prune *o = c->opts;
    struct pare_compression_opts ro = {
        .pruner = o->pruner,
        .settings = settings,
        .registry = j->registry,
        .final = !o->data,
        .seed = o->data ? (uint64_t)j->train.setup->c.seed : 0,
        .threads = o->data ? (int)j->train.setup->c.threads : 0,
    };
    struct pare_train_job *t = &j->train;

    PARE_TRY(make_config(c, j, &ro, err));
    PARE_TRY(pare_compression_new(t->model, &ro, &j->run, err));
    j->run->dist = c->dist;
    return o->data
               ? pare_compression_attach(j->run, t->trainer, t->data[0], t->setup->train.batch, err)
               : 0;
}

static int open_job(struct pare_cli *c, struct job *j, struct pare_err *err)
{
    const struct prune *o = c->opts;
    const char *settings;
    struct pare_algorithm_options own;

    j->registry = pare_registry_new(err);
    if (!j->registry)
        return err->code;
    for (int i = 0; i < o->plugin.n; i++)
        PARE_TRY(pare_plugin_load(j->registry, o->plugin.v[i], err));
    PARE_TRY(pruner_options(c->arena, o->pruner, o->set, &own, err));
    PARE_TRY(pare_split_options(c, &own, &j->train, &settings, err));
    if (o->dependency_aware)
        settings = pare_sprintf(c->arena, "%s mode=dependency_aware", settings);
    if (!settings)
        return pare_no_memory(err, "for the options");
    j->train.output = o->output ? o->output : pare_default_output(c->arena, c->arg[0], "pruned");
    if (!j->train.output)
        return pare_no_memory(err, "for a file name");
    j->files = (struct pare_export){ .onnx = j->train.output,
                                     .model = o->model_out,
                                     .masks = o->masks,
                                     .input_shape = o->input_shape.v,
                                     .input_rank = o->input_shape.n };
    PARE_TRY(pare_export_check(&j->files, err));
    PARE_TRY(pare_output_path_check(c, j->train.output, err));
    if (o->model_out)
        PARE_TRY(pare_output_path_check(c, o->model_out, err));
    if (o->masks)
        PARE_TRY(pare_output_path_check(c, o->masks, err));
    PARE_TRY(o->data ? pare_train_job_open(c, &j->train, err)
                     : pare_model_load(c->arg[0], &j->train.model, err));
    PARE_TRY(pare_output_paths_model(c, j->train.model, j->train.output, err));
    return open_run(c, j, settings, err);
}

/* ---- run ----------------------------------------------------------------------------------- */

/* Write the masked model, or with --speedup the smaller one. */
static int write_files(struct pare_cli *c, struct job *j, struct pare_err *err)
{
    const struct prune *o = c->opts;

    if (!o->speedup)
        return pare_compression_export(j->run, &j->files, err);
    j->files.onnx = NULL;
    if (j->files.model || j->files.masks)
        PARE_TRY(pare_compression_export(j->run, &j->files, err));
    else if (j->files.input_rank)
        PARE_TRY(
            pare_model_fix_input(j->train.model, j->files.input_shape, j->files.input_rank, err));
    j->speedup = (struct pare_speedup_job){ .masked = j->train.model,
                                            .output = j->train.output,
                                            .seconds = 1,
                                            .opts = { .round_to = o->round_to } };
    return pare_speedup_job_run(c, &j->speedup, err);
}

static int work(struct pare_cli *c, struct job *j, struct pare_err *err)
{
    const struct prune *o = c->opts;

    if (o->data)
        PARE_TRY(pare_evaluate_job(&j->train, j->train.model, &j->summary.before, err));
    PARE_TRY(pare_compression_compress(j->run, err));
    if (o->data) {
        if (pare_compression_zeros(j->run))
            PARE_TRY(pare_evaluate_job(&j->train, j->train.model, &j->summary.masked, err));
        PARE_TRY(pare_compress_train(c, &j->train, j->run, &j->summary.trained, err));
        if (j->summary.trained)
            PARE_TRY(pare_evaluate_job(&j->train, j->train.model, &j->summary.after, err));
    }
    if (!pare_compression_zeros(j->run))
        return pare_fail(err, PARE_ECONFIG,
                         "no weights were removed, so nothing is written: the sparsity is too low "
                         "for these layers, or the pruner needs more training steps");
    return pare_dist_rank(c->dist) ? 0 : write_files(c, j, err);
}

static int print_result(struct pare_cli *c, struct job *j, struct pare_err *err)
{
    const struct prune *o = c->opts;

    j->summary.run = j->run;
    j->summary.files = &j->files;
    j->summary.history = j->train.progress.history;
    j->summary.speedup = o->speedup ? &j->speedup : NULL;
    if (o->json)
        return pare_prune_json(c, &j->summary, err);
    PARE_TRY(pare_prune_print(&j->summary, c->arena, o->quiet, err));
    return o->speedup ? pare_speedup_job_print(c, &j->speedup, o->quiet, err) : 0;
}

static struct job job_of(const struct prune *o)
{
    return (struct job){ .train = { .data_name = o->data,
                                    .valid_name = o->valid,
                                    .json = o->json,
                                    .quiet = o->quiet } };
}

static void close_job(struct job *j)
{
    pare_compression_free(j->run);
    pare_train_job_close(&j->train);
    pare_registry_free(j->registry);
}

static int check(struct pare_cli *c, struct pare_err *err)
{
    struct job j = job_of(c->opts);
    int rc = open_job(c, &j, err);

    close_job(&j);
    return rc;
}

/* Compute masks without data. */
static int try_masks(struct pare_cli *c, struct job *j, const char *pruner, const char *settings,
                     struct pare_err *err)
{
    struct pare_compression_opts ro = { .settings = settings,
                                        .registry = j->registry,
                                        .final = true };
    int rc;

    PARE_TRY(make_config(c, j, &ro, err));
    ro.pruner = pruner;
    rc = pare_compression_new(j->train.model, &ro, &j->run, err);
    if (!rc)
        rc = pare_compression_compress(j->run, err);
    if (!rc && !pare_compression_zeros(j->run))
        rc = pare_fail(err, PARE_EUNSUPPORTED, "pruner '%s' needs data", pruner);
    pare_compression_free(j->run);
    j->run = NULL;
    return rc;
}

static int estimate_masks(struct pare_cli *c, struct job *j, struct pare_err *err)
{
    const struct prune *o = c->opts;
    const struct pare_pruner *p;
    const char *settings, *base = pare_given_text(c, "base");
    struct pare_algorithm_options own;

    for (int i = 0; i < o->plugin.n; i++)
        PARE_TRY(pare_plugin_load(j->registry, o->plugin.v[i], err));
    PARE_TRY(pare_find_pruner(j->registry, o->pruner, &p, err));
    PARE_TRY(pruner_options(c->arena, o->pruner, o->set, &own, err));
    PARE_TRY(pare_split_options(c, &own, &j->train, &settings, err));
    if (!(p->flags & (PARE_USES_BASE | PARE_NEEDS_DATA | PARE_NEEDS_STEPS)) &&
        !try_masks(c, j, o->pruner, settings, err))
        return 0;
    if (p->flags & PARE_USES_BASE)
        PARE_TRY(pare_find_pruner(j->registry, base ? base : "level", &p, err));
    return try_masks(c, j,
                     p->granularity && strcmp(p->granularity, "element") != 0 ? "l1" : "level",
                     NULL, err);
}

static int estimate(struct pare_cli *c, struct pare_estimate *g, struct pare_err *err)
{
    struct job j = job_of(c->opts);
    int rc;

    j.registry = pare_registry_new(err);
    if (!j.registry)
        return err->code;
    j.train.model = g->model;
    rc = estimate_masks(c, &j, err);
    pare_registry_free(j.registry);
    return rc;
}

static int run(struct pare_cli *c, struct pare_err *err)
{
    struct job j = job_of(c->opts);
    int rc = open_job(c, &j, err);

    if (!rc)
        rc = work(c, &j, err);
    pare_train_progress_end(&j.train.progress);
    if (!rc && !pare_dist_rank(c->dist))
        rc = print_result(c, &j, err);
    close_job(&j);
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
            "'pare speedup'; l1, l2, fpgm and slim, among others, prune channels.",
    .opts = prune_opts,
    .size = sizeof(struct prune),
    .min_args = 1,
    .max_args = 1,
    .writes = (const char *const[]){ "output", "model-out", "masks", "checkpoint", NULL },
    .run = run,
    .check = check,
    .estimate = estimate,
    .groups = prune_groups,
    .shared = true,
};

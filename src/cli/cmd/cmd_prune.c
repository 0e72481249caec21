/* cmd_prune.c - pare prune: masks by any pruner, with training where it needs it. */
#include <string.h>

#include <jansson.h>

#include "../output_paths.h"
#include "../view/prune_view.h"
#include "../job/speedup_job.h"
#include "../../base/arena.h"
#include "../../compress/export.h"
#include "../../prune/default_rules.h"

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
              "the algorithm, see 'pare list pruners'", "level"),
    PARE_FLOAT("sparsity", offsetof(struct prune, sparsity),
               "part of the weights that goes, in all layers that the pruner knows", -1, 0,
               0.999999999),
    PARE_TEXT("config", offsetof(struct prune, config), "FILE",
              "a config_list instead: a JSON file, or the text itself", NULL),
    PARE_TEXT("data", offsetof(struct prune, data), "SET",
              "learn or collect with this set: digits, fashion-mnist, or a file or folder", NULL),
    PARE_TEXT("valid", offsetof(struct prune, valid), "SET",
              "validate with this set; none: not at all", NULL),
    PARE_TEXT("output", offsetof(struct prune, output), "FILE",
              "where to write the pruned model; default NAME-pruned.onnx", NULL),
    PARE_TEXT("model-out", offsetof(struct prune, model_out), "FILE",
              "write the whole state here as well: .pth, .safetensors or .npz", NULL),
    PARE_TEXT("masks", offsetof(struct prune, masks), "FILE",
              "write the masks here: .pth as NNI's, .safetensors or .npz", NULL),
    PARE_INTS("input-shape", offsetof(struct prune, input_shape),
              "fix the input's shape in the written model", 1, 1e12),
    PARE_FLAG("speedup", offsetof(struct prune, speedup),
              "write the model without the channels that are masked, see 'pare speedup'", 0),
    PARE_INT("round-to", offsetof(struct prune, round_to),
             "with --speedup: keep channels as multiples of this", 1, 1, 4096),
    PARE_TEXTS("plugin", offsetof(struct prune, plugin), "FILE",
               "a shared object with more pruners"),
    PARE_FLAG("dependency-aware", offsetof(struct prune, dependency_aware),
              "remove the same channels in all layers that must have the same", 0),
    PARE_TEXT("set", offsetof(struct prune, set), "SETTINGS",
              "settings of a plugin's pruner: \"name=value name=value\"", NULL),
    PARE_FLAG("json", offsetof(struct prune, json), "print the result as JSON", 0),
    PARE_FLAG("quiet", offsetof(struct prune, quiet), "print no progress", 0),
    PARE_OPT_END
};

/* Everything of one call. */
struct job {
    struct pare_train_job teach; /* without data only model and output are used */
    struct pare_registry *registry;
    struct pare_compression *run;
    struct pare_export files;
    struct pare_prune_view view;
    struct pare_speedup_job slim; /* with --speedup */
};

/* ---- whose options? ------------------------------------------------------------------------ */

static int own_parts(struct pare_arena *a, const char *pruner, const char *set,
                     struct pare_own *own, struct pare_err *err)
{
    *own = (struct pare_own){ .kind = "pruner", .set = set };
    return pare_prune_option_groups(a, pruner, &own->part, &own->n, err);
}

/* Options of training and of all pruners. */
static int prune_parts(struct pare_arena *a, struct pare_option_group **part, int *n,
                       struct pare_err *err)
{
    struct pare_own own;

    PARE_TRY(own_parts(a, NULL, NULL, &own, err));
    return pare_own_option_groups(a, &own, part, n, err);
}

/* ---- before -------------------------------------------------------------------------------- */

/* --sparsity alone: whatever the pruner can prune; of agp and the like, its base. */
static int make_config(struct pare_cli *c, struct job *j, struct pare_compression_opts *ro,
                       struct pare_err *err)
{
    const struct prune *o = c->opts;
    const struct pare_algorithm *p;
    struct pare_rules rules;
    const char *base = pare_given_text(c, "base");

    ro->config = o->config;
    if (o->config && o->sparsity >= 0)
        return pare_misuse(c, err, "--sparsity is short for a config_list, so give one of the two");
    if (o->config)
        return 0;
    if (o->sparsity < 0)
        return pare_misuse(c, err, "say what is to go: --sparsity 0.5, or a --config");
    PARE_TRY(pare_find_pruner(j->registry, o->pruner, &p, err));
    if (p->flags & PARE_USES_BASE)
        PARE_TRY(pare_find_pruner(j->registry, base ? base : "level", &p, err));
    PARE_TRY(pare_at(err, pare_default_rules(j->teach.model, p, o->sparsity, c->arena, &rules, err),
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
        .seed = o->data ? (uint64_t)j->teach.setup->c.seed : 0,
        .threads = o->data ? (int)j->teach.setup->c.threads : 0,
    };
    struct pare_train_job *t = &j->teach;

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
    struct pare_own own;

    j->registry = pare_registry_new(err);
    if (!j->registry)
        return err->code;
    for (int i = 0; i < o->plugin.n; i++)
        PARE_TRY(pare_plugin_load(j->registry, o->plugin.v[i], err));
    PARE_TRY(own_parts(c->arena, o->pruner, o->set, &own, err));
    PARE_TRY(pare_divide(c, &own, &j->teach, &settings, err));
    if (o->dependency_aware)
        settings = pare_sprintf(c->arena, "%s mode=dependency_aware", settings);
    if (!settings)
        return pare_no_memory(err, "for the options");
    j->teach.output = o->output ? o->output : pare_default_output(c->arena, c->arg[0], "pruned");
    if (!j->teach.output)
        return pare_no_memory(err, "for a name");
    j->files = (struct pare_export){ .onnx = j->teach.output,
                                     .model = o->model_out,
                                     .masks = o->masks,
                                     .input_shape = o->input_shape.v,
                                     .input_rank = o->input_shape.n };
    PARE_TRY(pare_export_check(&j->files, err));
    PARE_TRY(pare_check_output(c, j->teach.output, err));
    if (o->model_out)
        PARE_TRY(pare_check_output(c, o->model_out, err));
    if (o->masks)
        PARE_TRY(pare_check_output(c, o->masks, err));
    PARE_TRY(o->data ? pare_train_job_open(c, &j->teach, err)
                     : pare_model_load(c->arg[0], &j->teach.model, err));
    PARE_TRY(pare_output_paths_model(c, j->teach.model, j->teach.output, err));
    return open_run(c, j, settings, err);
}

/* ---- the work ------------------------------------------------------------------------------ */

/* The masked model, or the smaller one in its place. */
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
            pare_model_fix_input(j->teach.model, j->files.input_shape, j->files.input_rank, err));
    j->slim = (struct pare_speedup_job){ .masked = j->teach.model,
                                         .output = j->teach.output,
                                         .seconds = 1,
                                         .opts = { .round_to = o->round_to } };
    return pare_speedup_job_run(c, &j->slim, err);
}

static int work(struct pare_cli *c, struct job *j, struct pare_err *err)
{
    const struct prune *o = c->opts;

    if (o->data)
        PARE_TRY(pare_evaluate_job(&j->teach, j->teach.model, &j->view.before, err));
    PARE_TRY(pare_compression_compress(j->run, err));
    if (o->data) {
        if (pare_compression_zeros(j->run))
            PARE_TRY(pare_evaluate_job(&j->teach, j->teach.model, &j->view.masked, err));
        PARE_TRY(pare_compress_train(c, &j->teach, j->run, &j->view.trained, err));
        if (j->view.trained)
            PARE_TRY(pare_evaluate_job(&j->teach, j->teach.model, &j->view.after, err));
    }
    if (!pare_compression_zeros(j->run))
        return pare_fail(err, PARE_ECONFIG,
                         "no weight was removed, so nothing is written: the sparsity is too small "
                         "for these layers, or the pruner has not seen enough steps");
    return pare_dist_rank(c->dist) ? 0 : write_files(c, j, err);
}

static int show(struct pare_cli *c, struct job *j, struct pare_err *err)
{
    const struct prune *o = c->opts;

    j->view.run = j->run;
    j->view.files = &j->files;
    j->view.history = j->teach.view.history;
    j->view.slim = o->speedup ? &j->slim : NULL;
    if (o->json)
        return pare_prune_json(c, &j->view, err);
    PARE_TRY(pare_prune_print(&j->view, c->arena, o->quiet, err));
    return o->speedup ? pare_speedup_job_print(c, &j->slim, o->quiet, err) : 0;
}

static struct job job_of(const struct prune *o)
{
    return (struct job){ .teach = { .data_name = o->data,
                                    .valid_name = o->valid,
                                    .json = o->json,
                                    .quiet = o->quiet } };
}

static void close_job(struct job *j)
{
    pare_compression_free(j->run);
    pare_train_job_close(&j->teach);
    pare_registry_free(j->registry);
}

static int check(struct pare_cli *c, struct pare_err *err)
{
    struct job j = job_of(c->opts);
    int rc = open_job(c, &j, err);

    close_job(&j);
    return rc;
}

/* Masks as the pruner makes them without data, or else a simple one in its place. */
static int try_masks(struct pare_cli *c, struct job *j, const char *pruner, const char *settings,
                     struct pare_err *err)
{
    struct pare_compression_opts ro = { .settings = settings,
                                        .registry = j->registry,
                                        .final = true };
    int rc;

    PARE_TRY(make_config(c, j, &ro, err));
    ro.pruner = pruner;
    rc = pare_compression_new(j->teach.model, &ro, &j->run, err);
    if (!rc)
        rc = pare_compression_compress(j->run, err);
    if (!rc && !pare_compression_zeros(j->run))
        rc = pare_fail(err, PARE_EUNSUPPORTED, "pruner '%s' has to see data", pruner);
    pare_compression_free(j->run);
    j->run = NULL;
    return rc;
}

static int guess_masks(struct pare_cli *c, struct job *j, struct pare_err *err)
{
    const struct prune *o = c->opts;
    const struct pare_algorithm *p;
    const char *settings, *base = pare_given_text(c, "base");
    struct pare_own own;

    for (int i = 0; i < o->plugin.n; i++)
        PARE_TRY(pare_plugin_load(j->registry, o->plugin.v[i], err));
    PARE_TRY(pare_find_pruner(j->registry, o->pruner, &p, err));
    PARE_TRY(own_parts(c->arena, o->pruner, o->set, &own, err));
    PARE_TRY(pare_divide(c, &own, &j->teach, &settings, err));
    if (!(p->flags & (PARE_USES_BASE | PARE_NEEDS_DATA | PARE_NEEDS_STEPS)) &&
        !try_masks(c, j, o->pruner, settings, err))
        return 0;
    if (p->flags & PARE_USES_BASE)
        PARE_TRY(pare_find_pruner(j->registry, base ? base : "level", &p, err));
    return try_masks(c, j,
                     p->pruner->granularity && strcmp(p->pruner->granularity, "element") != 0
                         ? "l1"
                         : "level",
                     NULL, err);
}

static int guess(struct pare_cli *c, struct pare_guess *g, struct pare_err *err)
{
    struct job j = job_of(c->opts);
    int rc;

    j.registry = pare_registry_new(err);
    if (!j.registry)
        return err->code;
    j.teach.model = g->model;
    rc = guess_masks(c, &j, err);
    pare_registry_free(j.registry);
    return rc;
}

static int run(struct pare_cli *c, struct pare_err *err)
{
    struct job j = job_of(c->opts);
    int rc = open_job(c, &j, err);

    if (!rc)
        rc = work(c, &j, err);
    pare_view_end(&j.teach.view);
    if (!rc && !pare_dist_rank(c->dist))
        rc = show(c, &j, err);
    close_job(&j);
    return rc;
}

const struct pare_command pare_command_prune = {
    .name = "prune",
    .doc = "Remove weights of a model by any pruner.",
    .usage = "[options] MODEL --pruner NAME --sparsity S [-o OUTPUT]",
    .more =
        "Masked weights are 0 in the written model.  Which layers, and how much of each, is said\n"
        "by --sparsity alone or by a config_list (--config):\n"
        "  [{\"sparsity\": 0.8, \"op_types\": [\"default\"]},\n"
        "   {\"sparsity\": 0.5, \"op_names\": [\"conv1\", \"re:layer[12].*\"]},\n"
        "   {\"exclude\": true, \"op_names\": [\"fc\"]}]\n"
        "The last entry that matches a layer counts, as a whole.  'pare inspect' prints names and\n"
        "types of layers, 'pare help pruner NAME' the keys and settings of a pruner.\n"
        "With --data the model is judged before and after; --epochs N trains it on with its\n"
        "masks, after what the pruner itself needs.  The options of training are those of\n"
        "'pare train'.\n"
        "With --speedup, OUTPUT is the model without the masked channels, as 'pare speedup' makes\n"
        "it; pruners of channels are l1, l2, fpgm, slim and the like.",
    .opts = prune_opts,
    .size = sizeof(struct prune),
    .min_args = 1,
    .max_args = 1,
    .writes = (const char *const[]){ "output", "model-out", "masks", "checkpoint", NULL },
    .run = run,
    .check = check,
    .guess = guess,
    .parts = prune_parts,
    .shared = true,
};

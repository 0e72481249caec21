/* cmd_speedup.c - pare speedup: remove masked channels, verify and measure the smaller model. */
#include <string.h>

#include <jansson.h>

#include "../job/data_inputs.h"
#include "../job/model_intake.h"
#include "../job/repair_job.h"
#include "../print/prune_print.h"
#include "../job/verify_inputs.h"
#include "../output_paths.h"
#include "../job/speedup_job.h"
#include "../job/train_job.h"
#include "../../base/arena.h"
#include "../../onnx/model.h"

struct speedup {
    const char *masks, *output, *data, *split, *original;
    int64_t round_to, threads, seed, batch, items;
    double seconds;
    struct pare_strs input, shape;
    bool no_bench, no_verify, json, quiet, repair;
};

#define AT(field) offsetof(struct speedup, field)

static const struct pare_opt speedup_opts[] = {
    PARE_TEXT(
        "masks", AT(masks), "FILE",
        "masks written by 'pare prune' or NNI: .pth, .safetensors or .npz (default: the zeros in "
        "the weights)",
        NULL),
    PARE_TEXT("output", AT(output), "FILE",
              "write the smaller model to FILE (default: MODEL-small.onnx)", NULL),
    PARE_INT("round-to", AT(round_to), "keep a multiple of N channels, by removing fewer", 1, 1,
             4096),
    PARE_TEXTS("input", AT(input), "FILE",
               "verify with this input: name=x.npy, x.npz or x.pb (default: random inputs)"),
    PARE_TEXT("data", AT(data), "SET",
              "verify with this set: digits, fashion-mnist, a file or a folder", NULL),
    PARE_FLAG("repair", AT(repair),
              "fit the layers after removed channels to what is left, by least squares on the "
              "training part of --data, if the outputs are closer to the original's then",
              0),
    PARE_TEXT("original", AT(original), "FILE",
              "with --repair: the model before pruning (default with --masks: MODEL)", NULL),
    PARE_CHOICE("split", AT(split), "part of the set to use", "test", "train|val|test"),
    PARE_INT("items", AT(items), "number of items of the set to verify with", 64, 1, 1 << 30),
    PARE_TEXTS("shape", AT(shape), "NAME=N,N,...",
               "shape of an input, such as x=1,3,224,224, or size of a free dimension: batch=8"),
    PARE_INT("batch", AT(batch),
             "batch size to verify and measure with, if the model leaves it free; 0 means 1", 0, 0,
             1 << 20),
    PARE_INT("seed", AT(seed), "seed of the random inputs", 0, 0, 9e15),
    PARE_INT("threads", AT(threads), "number of threads; 0: all cores", 0, 0, 1024),
    PARE_FLOAT("seconds", AT(seconds), "measure each model for this long", 1, 0, 86400),
    PARE_FLAG("no-bench", AT(no_bench), "do not measure latency", 0),
    PARE_FLAG("no-verify", AT(no_verify), "do not run both models to compare their outputs", 0),
    PARE_FLAG("json", AT(json), "print the result as JSON", 0),
    PARE_FLAG("quiet", AT(quiet), "print only the totals", 0),
    PARE_OPT_END
};

static int check_data(struct pare_cli *c, struct pare_err *err)
{
    const struct speedup *o = c->opts;

    if (!o->data && c->n_given)
        return pare_misuse(c, err, "--%s needs --data", c->given[0].name);
    if (o->data && (o->input.n || o->no_verify))
        return pare_misuse(c, err, "--data cannot be combined with --%s",
                           o->no_verify ? "no-verify" : "input");
    if (o->repair && !o->data)
        return pare_misuse(c, err, "--repair needs --data");
    if (o->repair && !o->masks && !o->original)
        return pare_misuse(c, err,
                           "--repair needs the model before pruning: --original FILE, or "
                           "MODEL with --masks FILE");
    if (o->original && !o->repair)
        return pare_misuse(c, err, "--original needs --repair");
    return 0;
}

static int data_options(struct pare_cli *c, struct pare_data_opts *opts, struct pare_err *err)
{
    struct pare_option_group part = { "data", NULL, pare_data_options, opts };

    return pare_option_group_fill(&part, c->given, c->n_given, c->arena, err);
}

static int open_data(struct pare_cli *c, const struct pare_model *m, struct pare_data **data,
                     struct pare_err *err)
{
    const struct speedup *o = c->opts;
    struct pare_data_request r = { .spec = o->data, .split = o->split };
    struct pare_data_opts opts = { 0 };

    if (!o->data)
        return 0;
    PARE_TRY(data_options(c, &opts, err));
    r.n_io = pare_model_inputs(m, &r.io);
    return pare_cli_data_open(c, &r, &opts, o->quiet, data, err);
}

/* Apply the masks, and with --repair change the weights that are left. */
static int mask_and_repair(struct pare_cli *c, struct pare_repair_job *r, struct pare_model *m,
                           struct pare_err *err)
{
    const struct speedup *o = c->opts;

    if (o->repair && !o->original)
        PARE_TRY(pare_model_duplicate(m, &r->dense, err));
    if (o->masks)
        PARE_TRY(pare_apply_masks(m, o->masks, err));
    if (!o->repair)
        return 0;
    PARE_TRY(data_options(c, &r->opts, err));
    return pare_at(err, pare_repair_job_run(c, r, m, err), "%s", c->arg[0]);
}

static int shrink_and_verify(struct pare_cli *c, struct pare_speedup_job *s, struct pare_tensor *in,
                             struct pare_data *data, struct pare_err *err)
{
    const struct pare_model *m = s->masked;
    const struct speedup *o = c->opts;
    struct pare_verify_inputs f = { .data = data, .arena = c->arena };
    int rc = 0;

    if (data)
        rc = pare_verify_inputs_open(&f, m, in, o->items, &s->opts, err);
    s->data = o->data;
    s->items = f.items;
    if (!rc)
        rc = pare_speedup_job_run(c, s, err);
    pare_loader_free(f.loader);
    return pare_at(err, rc, "%s", c->arg[0]);
}

static int print_result(struct pare_cli *c, const struct pare_speedup_job *s,
                        const struct pare_repair_job *r, struct pare_err *err)
{
    const struct speedup *o = c->opts;
    json_t *all;

    if (o->json) {
        all = pare_speedup_job_json(s);
        if (all && o->repair)
            json_object_set_new(all, "repair", pare_repair_json(&r->choice));
        return pare_json_result(c, all, err);
    }
    if (o->repair)
        PARE_TRY(pare_repair_print(&r->choice, c->arena, err));
    return pare_speedup_job_print(c, s, o->quiet, err);
}

static int work(struct pare_cli *c, struct pare_speedup_job *s, struct pare_repair_job *r,
                struct pare_model *m, struct pare_data *data, struct pare_err *err)
{
    const struct speedup *o = c->opts;
    struct pare_shape_args args = { o->batch, o->shape, true, true };
    struct pare_inputs in = { 0 };

    PARE_TRY(mask_and_repair(c, r, m, err));
    if (o->input.n)
        PARE_TRY(pare_inputs_read(c, m, o->input, &in, err));
    PARE_TRY(pare_inputs_shape(c, m, &args, &in, err));
    if (!o->json)
        pare_inputs_print_notes(&in);
    s->masked = m;
    s->opts.in = in.t;
    s->opts.n_in = in.n;
    PARE_TRY(shrink_and_verify(c, s, in.t, data, err));
    return print_result(c, s, r, err);
}

static int cmd_speedup_run(struct pare_cli *c, struct pare_err *err)
{
    const struct speedup *o = c->opts;
    struct pare_progress_line line;
    struct pare_speedup_job s = { .output = o->output,
                                  .line = &line,
                                  .seconds = o->no_bench ? 0 : o->seconds,
                                  .opts = { .progress = pare_progress_line_show,
                                            .progress_user = &line,
                                            .round_to = o->round_to,
                                            .unverified = o->no_verify,
                                            .threads = (int)o->threads,
                                            .seed = (uint64_t)o->seed } };
    struct pare_repair_job r = { .data = o->data,
                                 .split = pare_cli_is_set(c, "split") ? o->split : NULL,
                                 .original = o->original,
                                 .threads = (int)o->threads,
                                 .quiet = o->quiet,
                                 .line = &line };
    struct pare_data *data = NULL;
    struct pare_model *m = NULL;
    int rc;

    pare_progress_line_start(&line, o->quiet);
    if (!s.output)
        s.output = pare_default_output(c->arena, c->arg[0], "small");
    if (!s.output)
        return pare_no_memory(err, "for a file name");
    PARE_TRY(pare_output_path_check(c, s.output, err));
    rc = check_data(c, err);
    if (!rc)
        rc = pare_cli_load(c, c->arg[0], &m, err);
    if (!rc)
        rc = open_data(c, m, &data, err);
    if (!rc)
        rc = pare_output_paths_model(c, m, s.output, err);
    if (!rc)
        rc = work(c, &s, &r, m, data, err);
    pare_repair_job_close(&r);
    pare_data_free(data);
    pare_model_free(m);
    return rc;
}

static int estimate(struct pare_cli *c, struct pare_estimate *g, struct pare_err *err)
{
    const struct speedup *o = c->opts;
    struct pare_speedup_opts so = { .round_to = o->round_to, .unverified = true };
    struct pare_speedup_report r;
    struct pare_model *smaller, *again;
    void *bytes;
    size_t len;
    int rc;

    PARE_TRY(pare_speedup(g->model, &so, c->arena, &smaller, &r, err));
    rc = pare_model_pack(smaller, g->arena, &bytes, &len, err);
    if (!rc)
        rc = pare_model_parse(bytes, len, NULL, &again, err);
    pare_model_free(smaller);
    if (rc)
        return rc;
    pare_model_free(g->model);
    g->model = again;
    g->bytes = (double)len;
    return 0;
}

const struct pare_command pare_command_speedup = {
    .name = "speedup",
    .doc = "Remove masked channels to make a model smaller and faster.",
    .usage = "[options] MODEL [--masks FILE] [-o FILE]",
    .more = "Channels whose weights are all 0 are removed from every layer that shares them;\n"
            "their constant contribution, such as a bias after an activation, is folded into\n"
            "the following layers.  Both models are then run on the same inputs: if the\n"
            "outputs differ by more than 1e-4 of the largest output, nothing is written.\n"
            "If the inputs have free dimensions, two sizes of each are compared; --shape sets\n"
            "the first.  After discontinuous operators such as ArgMax the share of equal\n"
            "elements is compared, and the values before them.\n"
            "The table lists the layers that keep zero channels, and why.\n"
            "With --repair, the layers that read removed channels are fitted to what is left\n"
            "before that: of the model as it is, new statistics, repair and both, the one\n"
            "whose outputs are closest to the original's is shrunk.",
    .example = "pare speedup masked.onnx -o small.onnx",
    .first = (const char *const[]){ "masks", "data", "shape", "no-verify", "output", NULL },
    .opts = speedup_opts,
    .size = sizeof(struct speedup),
    .min_args = 1,
    .max_args = 1,
    .writes = (const char *const[]){ "output", NULL },
    .run = cmd_speedup_run,
    .estimate = estimate,
    .groups = pare_data_option_groups,
};

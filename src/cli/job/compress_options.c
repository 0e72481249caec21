/* compress_options.c - options of pare compress, and its call with a budget. */
#include "compress_options.h"

#include <stddef.h>
#include <string.h>

#include "../../pipeline/compress_presets.h"

#define AT(field) offsetof(struct pare_compress_call, field)

const struct pare_opt pare_compress_options[] = {
    PARE_CHOICE(
        "preset", AT(preset),
        "compress MODEL to a built-in budget, or with a built-in recipe: 'pare list presets' "
        "explains them; needs --data",
        NULL, PARE_COMPRESS_PRESETS),
    PARE_TEXTS("budget", AT(b.budget), "KIND=X",
               "compress MODEL to latency=X, size=X or macs=X, a part of MODEL's or absolute "
               "(3ms, 400KB, 20M); needs --data"),
    PARE_INT("pareto", AT(b.pareto),
             "write N models from the latency of MODEL to the smallest, OUTPUT-1.onnx and so on; "
             "needs --data",
             0, 0, 64),
    PARE_TEXT("methods", AT(b.methods), "LIST", "with --budget: channels,int8 or one of them",
              NULL),
    PARE_INT("finetune", AT(b.finetune), "with --budget: epochs of distillation from MODEL", 0, 0,
             1e6),
    PARE_TEXT("train", AT(b.train), "OPTIONS",
              "with --finetune: options of 'pare train' as \"lr=0.01 precision=bf16\"; --flip and "
              "--pad N augment the data",
              NULL),
    PARE_INT("batch", AT(b.batch), "with --budget: items of a measured run", 1, 1, 1e6),
    PARE_FLOAT("class-drop", AT(b.class_drop),
               "with --budget: percentage points that the accuracy of each class may lose "
               "(default: no bound)",
               0, 0, 100),
    PARE_FLOAT("confidence", AT(b.confidence),
               "with --budget: hold --max-drop and --class-drop with this probability, by "
               "confidence bounds (default: what held-out items lose decides)",
               0, 0, 0.9999),
    PARE_FLOAT("search-time", AT(b.search_time),
               "with --budget: score candidates for X seconds, and measure times of layers for at "
               "most X; 0: a number of candidates that depends on the model, and 60 s",
               0, 0, 1e6),
    PARE_CHOICE("sensitivity", AT(b.sensitivity),
                "with --budget: expected errors of channels and formats: second-order estimates, "
                "these scaled to real losses of each group, or to the noise of outputs",
                "loss", "fisher|loss|noise"),
    PARE_TEXT("table", AT(b.table), "FILE",
              "with --budget: times of layers as JSON lines, perhaps of another device", NULL),
    PARE_CHOICE("for", AT(b.what),
                "with --budget: latency in Pare, or in ONNX Runtime as --runner measures it",
                "pare", "pare|ort"),
    PARE_TEXT("runner", AT(b.runner), "COMMAND",
              "with --budget: measure latency with this program, see docs/budget.md (default of "
              "--for ort: node with onnxruntime-node)",
              NULL),
    PARE_TEXT(
        "solver", AT(b.solver), "NAME",
        "with --budget: how channels and formats are chosen; other solvers are for comparison",
        "lagrange"),
    PARE_TEXT("data", AT(data), "SET", "override the recipe's data set", NULL),
    PARE_TEXT("valid", AT(valid), "SET", "override the recipe's validation set", NULL),
    PARE_TEXT("output", AT(output), "FILE", "override the recipe's output file", NULL),
    PARE_TEXT("run", AT(run), "FILE", "override the file that the run record is written to", NULL),
    PARE_INT("seed", AT(seed), "override the recipe's random seed", -1, 0, 9e15),
    PARE_INT("threads", AT(threads), "override the recipe's number of threads; 0: all cores", -1, 0,
             1024),
    PARE_FLOAT("seconds", AT(seconds), "override how long each model is measured", -1, 0, 86400),
    PARE_FLOAT(
        "max-drop", AT(max_drop),
        "fail if the accuracy drops by more than X percentage points; the models of the steps "
        "are kept (default: the recipe's, or warn above 5)",
        -1, 0, 100),
    PARE_TEXTS("plugin", AT(plugin), "FILE", "allow the recipe's steps to load this shared object"),
    PARE_FLAG("resume", AT(resume), "resume an interrupted run", 0),
    PARE_FLAG("dry-run", AT(dry_run), "check everything and print what would be done", 0),
    PARE_FLAG("keep-steps", AT(keep_steps), "keep the model written by each step", 0),
    PARE_FLAG("json", AT(json), "print the run record as JSON", 0),
    PARE_FLAG("quiet", AT(quiet), "print no progress", 0),
    PARE_OPT_END
};

bool pare_compress_has_budget(const struct pare_cli *c)
{
    const struct pare_compress_call *o = c->opts;

    const struct pare_compress_preset *p = o->preset ? pare_compress_preset(o->preset) : NULL;

    return o->b.budget.n || (p && p->budget) || o->b.pareto ||
           (o->max_drop > 0 && !o->preset && !pare_ends_with(c->arg[0], ".json"));
}

/* Options that are given override the preset's. */
static void use_preset(struct pare_cli *c, const struct pare_compress_preset *p,
                       struct pare_budget_job *b)
{
    b->preset = p->name;
    b->preset_budget = p->budget;
    if (!pare_cli_is_set(c, "max-drop")) {
        b->max_drop = p->max_drop > 0 ? p->max_drop : -1;
        b->labeled_drop = true;
    }
    if (!pare_cli_is_set(c, "finetune"))
        b->finetune = p->finetune;
}

int pare_compress_run_budget(struct pare_cli *c, struct pare_err *err)
{
    const struct pare_compress_call *o = c->opts;
    struct pare_budget_job b = o->b;

    if (o->preset && (o->b.budget.n || o->b.pareto))
        return pare_misuse(c, err, "--budget and --preset are two ways to compress: give one");
    if (pare_ends_with(c->arg[0], ".json"))
        return pare_misuse(c, err, "--%s compresses a model, and '%s' is a recipe",
                           o->preset ? "preset" : "budget", c->arg[0]);
    if (!o->data)
        return pare_misuse(c, err, "--%s needs --data, to search, repair and evaluate with",
                           o->preset       ? "preset"
                           : o->b.pareto   ? "pareto"
                           : o->b.budget.n ? "budget"
                                           : "max-drop");
    for (int i = 0; o->b.pareto && i < o->b.budget.n; i++)
        if (!strncmp(o->b.budget.v[i], "latency", 7))
            return pare_misuse(c, err, "--pareto chooses latencies: give it no --budget latency");
    if (o->b.pareto && o->dry_run)
        return pare_misuse(c, err, "--dry-run predicts one model, and --pareto writes several");
    b.model = c->arg[0];
    b.resume = o->resume;
    b.run = o->run;
    b.data = o->data;
    b.valid = o->valid;
    b.output = o->output;
    b.max_drop = o->max_drop;
    b.threads = o->threads > 0 ? o->threads : 0;
    b.seed = o->seed > 0 ? o->seed : 0;
    b.json = o->json;
    b.quiet = o->quiet;
    b.dry_run = o->dry_run;
    if (o->preset)
        use_preset(c, pare_compress_preset(o->preset), &b);
    return pare_budget_job_run(c, &b, err);
}

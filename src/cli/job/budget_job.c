/* budget_job.c - pare compress --budget and --pareto: search, write models and record, print. */
#include "budget_job.h"

#include <math.h>
#include <string.h>

#include <jansson.h>

#include "model_intake.h"
#include "../output_paths.h"
#include "../print/budget_print.h"
#include "../print/progress_line.h"
#include "../recipe/budget_record.h"
#include "../recipe/run_record.h"
#include "../../base/arena.h"
#include "../../base/clock.h"
#include "../../data/data.h"
#include "../../plan/tune/tune_cache.h"
#include "../../train/train_options.h"

#define TABLE_SECONDS 60 /* of measuring times of layers, at most */
#define LEAST_PART 0.02  /* of the latency, that the front ends at */
#define ABOVE_LEAST 1.1  /* of the smallest model's latency */

struct run {
    struct pare_cli *c;
    const struct pare_budget_job *j;
    struct pare_model *model, *small;
    struct pare_data *data[2];
    struct pare_progress_line line;
    struct pare_budget_record record;
    struct pare_compress_budget_report *r; /* of every model */
    struct pare_budget_result *result;
    int n;            /* models: 1, or those of the front */
    const char *work; /* folder of what an interrupted search has found */
};

/* NULL: this library. */
static const char *runner_of(const struct pare_budget_job *j)
{
    return j->runner ? j->runner : j->what && !strcmp(j->what, "ort") ? "ort" : NULL;
}

static void say(void *user, const char *line)
{
    struct run *w = user;

    pare_progress_line_end(&w->line);
    if (!w->j->quiet)
        fprintf(stderr, "%s\n", line);
    pare_progress_line_start(&w->line, w->j->quiet);
}

static bool show(void *user, const struct pare_progress *p)
{
    struct run *w = user;

    return pare_progress_line_show(&w->line, p);
}

/* That of a preset cannot hold without labels. */
static double max_drop_of(const struct run *w)
{
    bool known = !w->j->labeled_drop || w->data[0]->y.data;

    return w->j->max_drop > 0 && known ? w->j->max_drop : 0;
}

static int search(struct run *w, const char *budget, bool dry_run,
                  struct pare_compress_budget_report *r, struct pare_err *err)
{
    const struct pare_budget_job *j = w->j;
    struct pare_compress_budget_opts o = { .size = sizeof(o),
                                           .budget = budget,
                                           .max_drop = max_drop_of(w),
                                           .data = w->data[0],
                                           .valid = w->data[1],
                                           .methods = j->methods,
                                           .solver = j->solver,
                                           .finetune = j->finetune,
                                           .train = j->train,
                                           .batch = j->batch,
                                           .threads = (int)j->threads,
                                           .seed = (uint64_t)j->seed,
                                           .table = j->table,
                                           .cache = pare_cache_folder(w->c->arena),
                                           .seconds = j->search_time > 0
                                                          ? fmin(j->search_time, TABLE_SECONDS)
                                                          : TABLE_SECONDS,
                                           .search_seconds = j->search_time,
                                           .sensitivity = j->sensitivity,
                                           .progress = show,
                                           .user = w,
                                           .say = say,
                                           .runner = runner_of(j),
                                           .dry_run = dry_run,
                                           .class_drop = j->class_drop,
                                           .confidence = j->confidence,
                                           .work = dry_run ? NULL : w->work,
                                           .resume = j->resume };
    int rc;

    pare_progress_line_start(&w->line, j->quiet);
    rc = pare_compress_budget(w->model, &o, w->c->arena, &w->small, r, err);
    pare_progress_line_end(&w->line);
    return rc;
}

static const char *joined(struct pare_arena *a, const struct pare_strs *s, const char *first)
{
    const char *all = first;

    for (int i = 0; i < s->n; i++)
        all = all ? pare_sprintf(a, "%s %s", all, s->v[i]) : s->v[i];
    return all;
}

/* The last change of the model: the certificate has its hash. */
static int certify(struct run *w, const struct pare_paired *p, struct pare_err *err)
{
    struct pare_certificate t = { .n = p->n,
                                  .b = p->b,
                                  .d = p->d,
                                  .right = p->right,
                                  .drop = p->drop,
                                  .bound = p->bound,
                                  .confidence = 0.95 };

    if (!p->n)
        return 0;
    PARE_TRY(pare_model_sha256(w->j->model, t.original_sha256, err));
    memcpy(t.data_sha256, p->data_sha256, sizeof(t.data_sha256));
    return pare_certificate_write(w->small, &t, err);
}

/* Search, save, and add to the record; of a dry run only the first. */
static int make_model(struct run *w, int i, const char *budget, struct pare_err *err)
{
    struct pare_budget_result *x = &w->result[i];
    double start = pare_now();

    if (w->n > 1 && !w->j->quiet)
        fprintf(stderr, "model %d of %d: %s\n", i + 1, w->n, budget);
    w->work = pare_sprintf(w->c->arena, "%s.work", x->output);
    if (!w->work)
        return pare_no_memory(err, "for a name");
    PARE_TRY(search(w, budget, w->j->dry_run, &w->r[i], err));
    if (!w->small)
        return 0;
    PARE_TRY(pare_budget_record_note(&w->record, w->small, budget, err));
    PARE_TRY(certify(w, &w->r[i].final, err));
    PARE_TRY(pare_model_save(w->small, x->output, NULL, err));
    pare_budget_work_remove(w->work);
    pare_model_free(w->small);
    w->small = NULL;
    return pare_budget_record_add(&w->record, x, budget, pare_now() - start, err);
}

/* Latencies from the original's to that of the smallest model, in equal ratios. */
static int make_front(struct run *w, struct pare_err *err)
{
    struct pare_arena *a = w->c->arena;
    struct pare_compress_budget_report smallest;
    double least;

    PARE_TRY(search(w, joined(a, &w->j->budget, "latency=0.0001"), true, &smallest, err));
    least = ABOVE_LEAST * smallest.cost[0].after / smallest.cost[0].before;
    least = fmin(fmax(least, LEAST_PART), 0.9);
    for (int i = 0; i < w->n; i++) {
        double part = pow(least, (i + 1.0) / w->n);
        const char *first = pare_sprintf(a, "latency=%.4f", part);

        if (!first)
            return pare_no_memory(err, "for a front");
        PARE_TRY(make_model(w, i, joined(a, &w->j->budget, first), err));
    }
    return 0;
}

/* Latency depends on sizes that the model leaves free, except for the batch. */
static int check_shapes(const struct run *w, const char *budget, struct pare_err *err)
{
    const struct pare_io *io;
    int n = pare_model_inputs(w->model, &io);
    bool asked = w->j->pareto || !budget || strstr(budget, "latency");

    for (int i = 0; asked && i < n; i++)
        for (int k = 1; k < io[i].rank; k++)
            if (io[i].dim[k] < 0)
                return pare_fail(err, PARE_ECONFIG,
                                 "%s: dimension %d of input '%s' is free, and latency depends on "
                                 "it: fix it with 'pare export --input-shape N,N,... --free-batch'",
                                 w->j->model, k, io[i].name);
    return 0;
}

static int name_models(struct run *w, struct pare_err *err)
{
    const struct pare_budget_job *j = w->j;
    struct pare_arena *a = w->c->arena;
    const char *base = j->output ? j->output : pare_default_output(a, j->model, "small");
    size_t len;

    w->n = j->pareto > 0 ? (int)j->pareto : 1;
    w->r = pare_alloc(a, (size_t)w->n, sizeof(*w->r));
    w->result = pare_alloc(a, (size_t)w->n, sizeof(*w->result));
    if (!base || !w->r || !w->result)
        return pare_no_memory(err, "for a name");
    len = strlen(base) - (pare_ends_with(base, ".onnx") ? 5 : 0);
    w->record.run_path = j->run ? j->run : pare_sprintf(a, "%.*s.run.json", (int)len, base);
    for (int i = 0; i < w->n; i++) {
        const char *output = !j->pareto ? base
                                        : pare_sprintf(a, "%.*s-%d.onnx", (int)len, base, i + 1);

        w->result[i] = (struct pare_budget_result){ a, output, runner_of(j), j->dry_run, &w->r[i] };
        if (!output || !w->record.run_path)
            return pare_no_memory(err, "for a name");
        PARE_TRY(pare_output_path_check(w->c, output, err));
        PARE_TRY(pare_at(err, pare_model_target(w->model, output, err), "%s", output));
    }
    return j->dry_run ? 0 : pare_output_path_check(w->c, w->record.run_path, err);
}

static int print(struct run *w, struct pare_err *err)
{
    if (w->j->pareto && w->j->json)
        return pare_json_result(w->c, json_incref(w->record.run), err);
    if (w->j->pareto) {
        PARE_TRY(pare_budget_print_front(w->result, w->n, err));
        printf("%s: the record, for 'pare report'\n", w->record.run_path);
        return 0;
    }
    return w->j->json ? pare_json_result(w->c, pare_budget_json(w->result), err)
                      : pare_budget_print_model(w->result, err);
}

/* A missed bound of one model is an error with an exit code of its own; a front states what each of
 * its models reaches. */
static int check_bounds(struct run *w, struct pare_err *err)
{
    const struct pare_compress_budget_report *r = w->r;

    if (w->j->dry_run || w->j->pareto || (r->budget_met && r->drop_met))
        return 0;
    w->c->missed = true;
    if (!r->budget_met)
        return pare_fail(err, PARE_ECONFIG,
                         "the budget is missed: %s is the nearest model that was found; a larger "
                         "budget or more --methods would help",
                         w->result->output);
    if (w->j->confidence > 0 && r->paired.n)
        return pare_fail(err, PARE_ECONFIG,
                         "with a confidence of %g the accuracy drops by up to %.2f points, that of "
                         "a class by up to %.2f, on items like the held-out ones, and --max-drop "
                         "or --class-drop is less: %s is the nearest model that was found",
                         w->j->confidence, 100 * r->paired.bound, 100 * r->paired.class_bound,
                         w->result->output);
    if (w->j->class_drop > 0 && 100 * r->paired.worst_drop > w->j->class_drop)
        return pare_fail(err, PARE_ECONFIG,
                         "the accuracy of class %lld on held-out items drops by %.2f points, and "
                         "--class-drop is %.2f: %s is the nearest model that was found",
                         (long long)r->paired.worst, 100 * r->paired.worst_drop, w->j->class_drop,
                         w->result->output);
    return pare_fail(err, PARE_ECONFIG,
                     "the accuracy on held-out items drops by %.2f points, and --max-drop is "
                     "%.2f: %s is the nearest model that was found; --finetune N trains it%s",
                     100 * (r->held_before - r->held_after), w->j->max_drop, w->result->output,
                     w->j->finetune > 0
                         ? pare_sprintf(w->c->arena, " for more than %lld epoch%s",
                                        (long long)w->j->finetune, w->j->finetune == 1 ? "" : "s")
                         : "");
}

static int work(struct run *w, struct pare_err *err)
{
    const struct pare_budget_job *j = w->j;
    struct pare_train_options *s;

    PARE_TRY(pare_cli_load(w->c, j->model, &w->model, err));
    PARE_TRY(check_shapes(w, joined(w->c->arena, &j->budget, j->preset_budget), err));
    PARE_TRY(name_models(w, err));
    PARE_TRY(pare_train_options_eval(w->c->given, w->c->n_given, w->c->arena, &s, err));
    s->no_labels = true;
    PARE_TRY(pare_train_options_data(s, w->model, j->data, j->valid, w->data, err));
    if (!j->quiet)
        pare_data_note(w->c, w->data[0]);
    if (!j->dry_run)
        PARE_TRY(pare_budget_record_open(&w->record, w->c, j, err));
    PARE_TRY(j->pareto ? make_front(w, err)
                       : make_model(w, 0, joined(w->c->arena, &j->budget, j->preset_budget), err));
    if (!j->dry_run)
        PARE_TRY(pare_budget_record_end(&w->record, err));
    PARE_TRY(print(w, err));
    return check_bounds(w, err);
}

int pare_budget_job_run(struct pare_cli *c, const struct pare_budget_job *j, struct pare_err *err)
{
    struct run w = { .c = c, .j = j };
    int rc = work(&w, err);

    pare_model_free(w.small);
    pare_model_free(w.model);
    pare_data_free(w.data[0]);
    pare_data_free(w.data[1]);
    pare_budget_record_close(&w.record);
    return rc;
}

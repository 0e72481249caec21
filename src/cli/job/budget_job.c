/* budget_job.c - pare compress --budget: search, write the model, print. */
#include "budget_job.h"

#include <math.h>
#include <string.h>

#include <jansson.h>
#include <pare/budget.h>

#include "model_intake.h"
#include "../output_paths.h"
#include "../print/progress_line.h"
#include "../../base/arena.h"
#include "../../base/json.h"
#include "../../data/data.h"
#include "../../plan/tune/tune_cache.h"
#include "../../train/train_options.h"

static const char *const cost_names[PARE_BUDGET_KINDS] = { "latency", "size", "MACs" };
static const char *const cost_keys[PARE_BUDGET_KINDS] = { "latency_us", "bytes", "macs" };

struct run {
    struct pare_cli *c;
    const struct pare_budget_job *j;
    struct pare_model *model, *small;
    struct pare_data *data[2];
    struct pare_progress_line line;
    struct pare_compress_budget_report r;
    const char *output;
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

/* ---- printing -------------------------------------------------------------------------------- */

static const char *amount(struct pare_arena *a, int kind, double x)
{
    if (!isfinite(x))
        return "";
    if (kind == PARE_BUDGET_LATENCY)
        return pare_sprintf(a, x < 1e3 ? "%.1f us" : "%.3f ms", x < 1e3 ? x : x / 1e3);
    if (kind == PARE_BUDGET_SIZE)
        return pare_sprintf(a, x < 1e6 ? "%.1f KB" : "%.2f MB", x < 1e6 ? x / 1e3 : x / 1e6);
    return pare_sprintf(a, x < 1e9 ? "%.2fM" : "%.2fG", x < 1e9 ? x / 1e6 : x / 1e9);
}

static int print_costs(const struct run *w, struct pare_err *err)
{
    struct pare_arena *a = w->c->arena;
    struct pare_table *t = pare_table_new(a, "lrrrrr");

    if (!t)
        return pare_no_memory(err, "for a table");
    pare_table_row(t, runner_of(w->j) ? "in the runner" : "", "before",
                   w->j->dry_run ? "expected" : "after", "part", "predicted", "limit", NULL);
    for (int k = 0; k < PARE_BUDGET_KINDS; k++) {
        const struct pare_budget_cost *x = &w->r.cost[k];

        pare_table_row(t, cost_names[k], amount(a, k, x->before), amount(a, k, x->after),
                       pare_sprintf(a, "%.3f", x->after / x->before),
                       pare_sprintf(a, "%.3f", x->predicted / x->before),
                       isfinite(x->limit) ? pare_sprintf(a, "%.3f", x->limit / x->before) : "",
                       NULL);
    }
    pare_table_print(t, stdout);
    return 0;
}

static int print_layers(const struct run *w, struct pare_err *err)
{
    struct pare_arena *a = w->c->arena;
    struct pare_table *t = pare_table_new(a, "lrrl");

    if (!t)
        return pare_no_memory(err, "for a table");
    pare_table_row(t, "layer", "in", "out", "format", NULL);
    for (int i = 0; i < w->r.n_layers; i++) {
        const struct pare_compressed_layer *l = &w->r.layer[i];

        pare_table_row(t, l->name,
                       pare_sprintf(a, "%lld of %lld", (long long)l->in_left, (long long)l->in),
                       pare_sprintf(a, "%lld of %lld", (long long)l->out_left, (long long)l->out),
                       l->format, NULL);
    }
    pare_table_print(t, stdout);
    return 0;
}

static int print_text(const struct run *w, struct pare_err *err)
{
    const struct pare_compress_budget_report *r = &w->r;

    PARE_TRY(print_layers(w, err));
    printf("\n");
    PARE_TRY(print_costs(w, err));
    printf("\n");
    if (w->j->dry_run) {
        printf("would write %s: %s\n", w->output,
               r->budget_met ? "within the budget"
                             : "the nearest model; the budget would be missed");
        return 0;
    }
    if (r->held_before >= 0)
        printf("accuracy on %lld held-out items: %.2f%% before, %.2f%% after\n", (long long)r->held,
               100 * r->held_before, 100 * r->held_after);
    printf("outputs on them: %.1f dB", r->snr);
    if (!isnan(r->divergence))
        printf(", Kullback-Leibler divergence %.4g nats", r->divergence);
    printf("\n");
    if (r->before.n && r->before.top1 >= 0)
        printf("accuracy on the validation set: %.2f%% before, %.2f%% after\n",
               100 * r->before.top1, 100 * r->after.top1);
    printf("%s: %s\n", w->output,
           !r->budget_met ? "the nearest model; the budget is missed"
           : !r->drop_met ? "the nearest model; the accuracy drops by more than --max-drop"
                          : "within the budget");
    return 0;
}

static int print_json(const struct run *w, struct pare_err *err)
{
    const struct pare_compress_budget_report *r = &w->r;
    json_t *all = json_object(), *costs = json_object(), *layers = json_array();

    for (int k = 0; k < PARE_BUDGET_KINDS; k++) {
        json_t *x = json_pack("{s:f, s:f, s:f}", "before", r->cost[k].before, "after",
                              r->cost[k].after, "predicted", r->cost[k].predicted);

        if (isfinite(r->cost[k].limit))
            json_object_set_new(x, "limit", json_real(r->cost[k].limit));
        json_object_set_new(costs, cost_keys[k], x);
    }
    for (int i = 0; i < r->n_layers; i++) {
        const struct pare_compressed_layer *l = &r->layer[i];

        json_array_append_new(layers,
                              json_pack("{s:o, s:s, s:I, s:I, s:I, s:I}", "name",
                                        pare_json_text(l->name), "format", l->format, "in",
                                        (json_int_t)l->in, "in_left", (json_int_t)l->in_left, "out",
                                        (json_int_t)l->out, "out_left", (json_int_t)l->out_left));
    }
    json_object_set_new(all, "output", pare_json_text(w->output));
    json_object_set_new(all, "met", json_boolean(r->budget_met && r->drop_met));
    json_object_set_new(all, "costs", costs);
    json_object_set_new(all, "layers", layers);
    json_object_set_new(all, "held_out_items", json_integer(r->held));
    json_object_set_new(all, "dry_run", json_boolean(w->j->dry_run));
    if (r->held_before >= 0)
        json_object_set_new(all, "held_out_before", json_real(r->held_before));
    if (r->held_after >= 0)
        json_object_set_new(all, "held_out_after", json_real(r->held_after));
    if (isfinite(r->snr))
        json_object_set_new(all, "snr_db", json_real(r->snr));
    if (isfinite(r->divergence))
        json_object_set_new(all, "divergence_nats", json_real(r->divergence));
    if (r->before.n && r->before.top1 >= 0) {
        json_object_set_new(all, "accuracy_before", json_real(r->before.top1));
        json_object_set_new(all, "accuracy_after", json_real(r->after.top1));
    }
    return pare_json_result(w->c, all, err);
}

/* ---- work ------------------------------------------------------------------------------------ */

static const char *joined(struct pare_arena *a, const struct pare_strs *s)
{
    const char *all = s->n ? s->v[0] : NULL;

    for (int i = 1; i < s->n && all; i++)
        all = pare_sprintf(a, "%s %s", all, s->v[i]);
    return all;
}

static int search(struct run *w, struct pare_err *err)
{
    const struct pare_budget_job *j = w->j;
    struct pare_compress_budget_opts o = { .size = sizeof(o),
                                           .budget = joined(w->c->arena, &j->budget),
                                           .max_drop = j->max_drop > 0 ? j->max_drop : 0,
                                           .data = w->data[0],
                                           .valid = w->data[1],
                                           .methods = j->methods,
                                           .solver = j->solver,
                                           .finetune = j->finetune,
                                           .batch = j->batch,
                                           .threads = (int)j->threads,
                                           .seed = (uint64_t)j->seed,
                                           .table = j->table,
                                           .cache = pare_cache_folder(w->c->arena),
                                           .seconds = j->search_time,
                                           .progress = show,
                                           .user = w,
                                           .say = say,
                                           .runner = runner_of(j),
                                           .dry_run = j->dry_run };
    int rc;

    pare_progress_line_start(&w->line, j->quiet);
    rc = pare_compress_budget(w->model, &o, w->c->arena, &w->small, &w->r, err);
    pare_progress_line_end(&w->line);
    return rc;
}

static int work(struct run *w, struct pare_err *err)
{
    const struct pare_budget_job *j = w->j;
    struct pare_train_options *s;

    w->output = j->output ? j->output : pare_default_output(w->c->arena, j->model, "small");
    if (!w->output)
        return pare_no_memory(err, "for a name");
    PARE_TRY(pare_output_path_check(w->c, w->output, err));
    PARE_TRY(pare_cli_load(w->c, j->model, &w->model, err));
    PARE_TRY(pare_at(err, pare_model_target(w->model, w->output, err), "%s", w->output));
    PARE_TRY(pare_train_options_eval(w->c->given, w->c->n_given, w->c->arena, &s, err));
    s->no_labels = true;
    PARE_TRY(pare_train_options_data(s, w->model, j->data, j->valid, w->data, err));
    if (!j->quiet)
        pare_data_note(w->c, w->data[0]);
    PARE_TRY(search(w, err));
    if (w->small)
        PARE_TRY(pare_model_save(w->small, w->output, NULL, err));
    PARE_TRY(j->json ? print_json(w, err) : print_text(w, err));
    w->c->missed = !w->r.budget_met || !w->r.drop_met;
    if (!w->small)
        return 0;
    if (!w->r.budget_met)
        return pare_fail(err, PARE_ECONFIG,
                         "the budget is missed: %s is the nearest model that was found; a larger "
                         "budget or more --methods would help",
                         w->output);
    if (!w->r.drop_met)
        return pare_fail(err, PARE_ECONFIG,
                         "the accuracy on held-out items drops by %.2f points, and --max-drop is "
                         "%.2f: %s is the nearest model that was found; --finetune N trains it",
                         100 * (w->r.held_before - w->r.held_after), j->max_drop, w->output);
    return 0;
}

int pare_budget_job_run(struct pare_cli *c, const struct pare_budget_job *j, struct pare_err *err)
{
    struct run w = { .c = c, .j = j };
    int rc = work(&w, err);

    pare_model_free(w.small);
    pare_model_free(w.model);
    pare_data_free(w.data[0]);
    pare_data_free(w.data[1]);
    return rc;
}

/* budget_record.c - the run record of a compression to a budget, or of a front. */
#include "budget_record.h"

#include <math.h>
#include <string.h>

#include <jansson.h>

#include "../../base/arena.h"
#include "../../onnx/model.h"

/* The options that decide, by name. */
static json_t *options(const struct pare_budget_job *j)
{
    json_t *o = json_object(), *budgets = json_array();

    for (int i = 0; i < j->budget.n; i++)
        json_array_append_new(budgets, pare_json_text(j->budget.v[i]));
    json_object_set_new(o, "model", pare_json_text(j->model));
    json_object_set_new(o, "data", pare_json_text(j->data));
    json_object_set_new(o, "budget", budgets);
    if (j->preset)
        json_object_set_new(o, "preset", pare_json_text(j->preset));
    if (j->pareto)
        json_object_set_new(o, "pareto", json_integer(j->pareto));
    if (j->max_drop > 0)
        json_object_set_new(o, "max-drop", json_real(j->max_drop));
    if (j->finetune)
        json_object_set_new(o, "finetune", json_integer(j->finetune));
    if (j->methods)
        json_object_set_new(o, "methods", pare_json_text(j->methods));
    if (j->table)
        json_object_set_new(o, "table", pare_json_text(j->table));
    if (j->runner || (j->what && strcmp(j->what, "pare") != 0))
        json_object_set_new(o, "runner", pare_json_text(j->runner ? j->runner : j->what));
    return o;
}

int pare_budget_record_open(struct pare_budget_record *b, struct pare_cli *c,
                            const struct pare_budget_job *j, struct pare_err *err)
{
    json_t *facts;

    b->arena = c->arena;
    b->r = (struct pare_recipe){ .path = j->model,
                                 .model = j->model,
                                 .seed = j->seed,
                                 .threads = j->threads,
                                 .keep_training_mode = c->keep_training_mode };
    PARE_TRY(pare_record_model(&b->r, b->arena, j->model, &facts, &b->before, err));
    b->run = json_pack("{s:s, s:b, s:o, s:s, s:s?, s:I, s:I, s:i, s:{s:s, s:s}, s:o, s:[]}",
                       "format", "pare run 1", "finished", false, "budget", options(j), "data",
                       j->data, "valid", j->valid, "seed", (json_int_t)j->seed, "threads",
                       (json_int_t)j->threads, "processes", 1, "versions", "pare", pare_version(),
                       "compiler", PARE_COMPILER, "input", facts, "steps");
    return b->run ? 0 : pare_no_memory(err, "for the record");
}

int pare_budget_record_note(const struct pare_budget_record *b, struct pare_model *m,
                            const char *budget, struct pare_err *err)
{
    const json_t *input = json_object_get(b->run, "input");

    PARE_TRY(pare_model_note(m, "pare.version", pare_version(), err));
    PARE_TRY(pare_model_note(m, "pare.budget", budget ? budget : "max-drop", err));
    return pare_model_note(m, "pare.input_sha256",
                           json_string_value(json_object_get(input, "sha256")), err);
}

/* What the search measured, under the names that the report knows. */
static void add_measured(json_t *facts, const struct pare_compress_budget_report *r, bool after)
{
    const struct pare_metrics *m = after ? &r->after : &r->before;
    double held = after ? r->held_after : r->held_before;
    double us = after ? r->cost[0].after : r->cost[0].before;

    json_object_set_new(facts, "seconds", json_real(us * 1e-6));
    if (m->n && m->top1 >= 0) {
        json_object_set_new(facts, "accuracy", json_real(m->top1));
        json_object_set_new(facts, "items", json_integer(m->n));
    }
    if (held >= 0)
        json_object_set_new(facts, "held_out_accuracy", json_real(held));
    if (after && isfinite(r->snr))
        json_object_set_new(facts, "snr_db", json_real(r->snr));
}

int pare_budget_record_add(struct pare_budget_record *b, const struct pare_budget_result *x,
                           const char *budget, double seconds, struct pare_err *err)
{
    json_t *facts, *step;

    json_decref(b->last);
    b->last = NULL;
    PARE_TRY(pare_record_model(&b->r, b->arena, x->output, &facts, &b->last, err));
    add_measured(json_object_get(b->run, "input"), x->r, false);
    add_measured(facts, x->r, true);
    step = json_pack("{s:o, s:s, s:f, s:o, s:O}", "step",
                     pare_json_text(budget ? budget : "fastest"), "command", "compress",
                     "took_seconds", seconds, "result", pare_budget_json(x), "model", facts);
    json_object_set_new(b->run, "output", facts);
    if (!step)
        return pare_no_memory(err, "for the record");
    json_array_append_new(json_object_get(b->run, "steps"), step);
    return pare_record_save(b->arena, b->run, b->run_path, err);
}

int pare_budget_record_end(struct pare_budget_record *b, struct pare_err *err)
{
    PARE_TRY(pare_record_layers(b->before, b->last, b->run, err));
    json_object_set_new(b->run, "finished", json_true());
    return pare_record_save(b->arena, b->run, b->run_path, err);
}

void pare_budget_record_close(struct pare_budget_record *b)
{
    json_decref(b->run);
    json_decref(b->before);
    json_decref(b->last);
}

/* cmd_eval.c - pare eval: loss and metrics of a model on a data set, or its agreement with another
 * model. */
#include <math.h>
#include <string.h>

#include <jansson.h>

#include "../job/data_inputs.h"
#include "../job/model_intake.h"
#include "../print/progress_line.h"
#include "../cli.h"
#include "../job/session.h"
#include "../print/metric_print.h"
#include "../../base/arena.h"
#include "../../plan/batch/free_batch.h"
#include "../../train/train_options.h"

struct eval {
    const char *data, *split, *against;
    bool per_class, json, tune;
    const char *choices, *precision;
};

static const struct pare_opt eval_opts[] = {
    { "data", "evaluate on this set: digits, fashion-mnist, a file or a folder", PARE_OPT_STR,
      offsetof(struct eval, data), 0, PARE_NO_MIN, PARE_NO_MAX, NULL, NULL, true, "SET" },
    PARE_CHOICE("split", offsetof(struct eval, split), "part of the set to use", "test",
                "train|val|test"),
    PARE_TEXT("against", offsetof(struct eval, against), "MODEL",
              "compare the outputs with those of this model; needs no labels", NULL),
    PARE_FLAG("per-class", offsetof(struct eval, per_class),
              "print the accuracy of each class as well, or its intersection over union", 0),
    PARE_PRECISION_OPT(struct eval),
    PARE_TUNE_OPTS(struct eval, 0),
    PARE_FLAG("json", offsetof(struct eval, json), "print the result as JSON", 0),
    PARE_OPT_END
};

struct result {
    const char *data;
    struct pare_metrics all;
    struct pare_class_metrics by_class;
};

static double accuracy(const struct pare_class_metrics *m, int64_t i)
{
    return m->items[i] ? (double)m->right[i] / (double)m->items[i] : 0;
}

static const char *class_name(struct pare_arena *a, const struct pare_class_metrics *m, int64_t i)
{
    const char *s = m->name ? m->name[i] : pare_sprintf(a, "%lld", (long long)i);

    return s ? s : "";
}

static json_t *class_json(struct pare_arena *a, const struct pare_class_metrics *m)
{
    json_t *all = json_array();

    for (int64_t i = 0; i < m->n; i++)
        json_array_append_new(all, json_pack("{s:o, s:I, s:I}", "class",
                                             pare_json_text(class_name(a, m, i)),
                                             m->areas ? "union" : "items", (json_int_t)m->items[i],
                                             m->areas ? "intersection" : "right",
                                             (json_int_t)m->right[i]));
    return all;
}

static int print_json(struct pare_cli *c, const struct result *r, struct pare_err *err)
{
    const struct eval *o = c->opts;
    const struct pare_metrics *m = &r->all;
    json_t *j = json_pack("{s:o, s:o, s:I, s:o, s:o, s:o}", "file", pare_json_text(c->arg[0]),
                          "data", pare_json_text(r->data), "items", (json_int_t)m->n, "loss",
                          pare_json_real(m->loss), "seconds", pare_json_real(m->seconds),
                          "items_per_second",
                          pare_json_real(m->seconds > 0 ? (double)m->n / m->seconds : 0));

    if (j && r->by_class.n && !r->by_class.areas) {
        json_object_set_new(j, "top1", pare_json_real(fmax(m->top1, 0)));
        json_object_set_new(j, "top5", pare_json_real(fmax(m->top5, 0)));
    }
    if (j && r->by_class.n && o->per_class)
        json_object_set_new(j, "classes", class_json(c->arena, &r->by_class));
    if (j) {
        json_object_set_new(j, "task", pare_json_text(m->task));
        json_object_set_new(j, "metrics", pare_metric_list_json(m));
    }
    return pare_json_result(c, j, err);
}

static void print_classes(struct pare_cli *c, const struct pare_class_metrics *m)
{
    struct pare_table *t = pare_table_new(c->arena, "lrrr");

    if (m->areas)
        pare_table_row(t, "class", "union", "intersection", "iou");
    else
        pare_table_row(t, "class", "items", "right", "accuracy");
    for (int64_t i = 0; i < m->n; i++)
        pare_table_row(t, class_name(c->arena, m, i),
                       pare_sprintf(c->arena, "%lld", (long long)m->items[i]),
                       pare_sprintf(c->arena, "%lld", (long long)m->right[i]),
                       m->areas && !m->items[i]
                           ? "-"
                           : pare_sprintf(c->arena, "%.2f%%", 100 * accuracy(m, i)));
    printf("\n");
    pare_table_print(t, stdout);
}

static void print_text(struct pare_cli *c, const struct result *r)
{
    const struct eval *o = c->opts;
    const struct pare_metrics *m = &r->all;
    char whole[PARE_NUM_TEXT], time[PARE_NUM_TEXT], speed[PARE_NUM_TEXT], value[PARE_NUM_TEXT];
    int width = 5;

    for (int i = 0; i < m->n_values; i++)
        width = (int)strlen(m->value[i].name) > width ? (int)strlen(m->value[i].name) : width;
    printf("%-*s  %s\n", width, "items", pare_whole_text(m->n, whole, sizeof(whole)));
    printf("%-*s  %.4f\n", width, "loss", m->loss);
    for (int i = 0; i < m->n_values; i++)
        if (strcmp(m->value[i].name, "loss") != 0)
            printf("%-*s  %s\n", width, m->value[i].name,
                   pare_metric_text(&m->value[i], value, sizeof(value)));
    printf("%-*s  %s, %s items/s\n", width, "time", pare_time_text(m->seconds, time, sizeof(time)),
           pare_count_text(m->seconds > 0 ? (double)m->n / m->seconds : -1, speed, sizeof(speed)));
    if (o->per_class && r->by_class.n)
        print_classes(c, &r->by_class);
}

static int evaluate(struct pare_cli *c, struct pare_train_options *s, const struct pare_model *m,
                    const struct pare_data *d, struct pare_err *err)
{
    const struct eval *o = c->opts;
    struct result r = { .data = d->name };
    struct pare_progress_line line;
    struct pare_evaluate_opts opts = {
        .given = c->given,
        .n_given = c->n_given,
        .tune = o->tune,
        .choices = o->choices,
        .precision = pare_precision_of(o->precision),
        .cache = pare_cache_folder(c->arena),
        .classes = &r.by_class,
        .arena = c->arena,
        .progress = pare_progress_line_show,
        .user = &line,
    };
    int rc;

    PARE_TRY(pare_train_options_goal(s, m, d, err));
    pare_data_note(c, d);
    pare_image_range_note(c, m, d);
    pare_task_note(c, s);
    pare_logits_note(c, m, s->trainer.loss);
    pare_progress_line_start(&line, pare_dist_rank(c->dist) > 0);
    rc = pare_evaluate_shared(m, d, &opts, c->dist, &r.all, err);
    pare_progress_line_end(&line);
    if (rc)
        return rc;
    if (o->json)
        return print_json(c, &r, err);
    print_text(c, &r);
    return 0;
}

static int print_agreement(struct pare_cli *c, const struct pare_data *d,
                           const struct pare_agreement *g, struct pare_err *err)
{
    const struct eval *o = c->opts;
    char whole[PARE_NUM_TEXT];

    if (o->json)
        return pare_json_result(
            c,
            json_pack("{s:o, s:o, s:o, s:I, s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:I}", "file",
                      pare_json_text(c->arg[0]), "against", pare_json_text(o->against), "data",
                      pare_json_text(d->name), "items", (json_int_t)g->n, "snr_db",
                      pare_json_real(g->snr), "cosine", pare_json_real(g->cosine), "max_difference",
                      pare_json_real(g->max_difference), "same_top1",
                      g->same_top1 >= 0 ? pare_json_real(g->same_top1) : json_null(), "runs",
                      (json_int_t)g->runs, "unequal_runs", (json_int_t)g->unequal, "rows",
                      (json_int_t)g->rows, "reference_rows", (json_int_t)g->reference_rows),
            err);
    printf("items              %s\n", pare_whole_text(g->n, whole, sizeof(whole)));
    if (g->unequal)
        printf("other rows         in %lld of %lld runs, which are not compared: %lld, not %lld\n",
               (long long)g->unequal, (long long)g->runs, (long long)g->rows,
               (long long)g->reference_rows);
    if (isnan(g->cosine)) {
        printf("signal to noise    no outputs to compare\n");
        return 0;
    }
    if (isinf(g->snr) && g->snr > 0)
        printf("signal to noise    no difference\n");
    else
        printf("signal to noise    %.1f dB\n", g->snr);
    printf("cosine             %.6f\n", g->cosine);
    printf("largest difference %.3g\n", g->max_difference);
    if (g->same_top1 >= 0)
        printf("same top-1         %.2f%%\n", 100 * g->same_top1);
    return 0;
}

/* A model that declares a batch of 1 takes larger ones, unless its items depend on each other. */
static int free_batch(const struct pare_train_options *s, struct pare_model *m, bool evaluate_it,
                      struct pare_err *err)
{
    return evaluate_it && s->data.batch != 1 ? pare_model_try_batch_of_all(m, err) : 0;
}

/* The outputs of both models on the same items. */
static int compare(struct pare_cli *c, const struct pare_train_options *s,
                   const struct pare_model *m, struct pare_data *d, struct pare_err *err)
{
    const struct eval *o = c->opts;
    struct pare_agreement_opts opts = {
        .threads = s->trainer.threads ? s->trainer.threads : pare_dist_threads(c->dist),
        .precision = pare_precision_of(o->precision),
    };
    struct pare_agreement g;
    struct pare_model *reference;
    int rc;

    PARE_TRY(pare_model_fits_items(m, d, &s->goal, err));
    pare_data_note(c, d);
    pare_image_range_note(c, m, d);
    PARE_TRY(pare_cli_load(c, o->against, &reference, err));
    rc = free_batch(s, reference, true, err);
    if (!rc)
        rc = pare_at(err, pare_model_fits_items(reference, d, &s->goal, err), "%s", o->against);
    if (!rc)
        rc = pare_compare(m, reference, d, &opts, &g, err);
    pare_model_free(reference);
    return rc ? rc : print_agreement(c, d, &g, err);
}

static int work_on(struct pare_cli *c, struct pare_train_options *s, const struct pare_model *m,
                   struct pare_data *d, bool evaluate_it, struct pare_err *err)
{
    const struct eval *o = c->opts;

    if (!evaluate_it)
        return o->against ? pare_model_fits_items(m, d, &s->goal, err)
                          : pare_train_options_goal(s, m, d, err);
    return o->against ? compare(c, s, m, d, err) : evaluate(c, s, m, d, err);
}

/* Open model and data and check that they fit; evaluate the model, if asked to. */
static int work(struct pare_cli *c, bool evaluate_it, struct pare_err *err)
{
    const struct eval *o = c->opts;
    struct pare_train_options *s;
    struct pare_model *m = NULL;
    struct pare_data *d = NULL;
    struct pare_data_request r = { .spec = o->data, .split = o->split };
    int rc = pare_train_options_eval(c->given, c->n_given, c->arena, &s, err);

    if (rc) {
        c->usage = rc != PARE_ENOMEM;
        return rc;
    }
    rc = pare_cli_load(c, c->arg[0], &m, err);
    if (!rc)
        rc = free_batch(s, m, evaluate_it, err);
    if (!rc) {
        r.n_io = pare_model_inputs(m, &r.io);
        rc = pare_cli_data_open(c, &r, &s->data, false, &d, err);
    }
    if (!rc)
        rc = pare_at(err, work_on(c, s, m, d, evaluate_it, err), "%s", c->arg[0]);
    pare_data_free(d);
    pare_model_free(m);
    return rc;
}

static int cmd_eval_check(struct pare_cli *c, struct pare_err *err)
{
    return work(c, false, err);
}

static int cmd_eval_run(struct pare_cli *c, struct pare_err *err)
{
    return work(c, true, err);
}

const struct pare_command pare_command_eval = {
    .name = "eval",
    .doc = "Measure a model's loss and metrics on a data set.",
    .usage = "[options] MODEL --data SET",
    .more = "SET is any data set that 'pare train' accepts; --split selects its part.  --against\n"
            "prints how closely the outputs agree with those of another model, such as the one\n"
            "before compression.",
    .example = "pare eval model.onnx --data digits\n"
               "pare eval int8.onnx --data images/ --norm imagenet --against model.onnx",
    .first = (const char *const[]){ "data", "split", "against", "per-class", "batch", "loss",
                                    NULL },
    .opts = eval_opts,
    .size = sizeof(struct eval),
    .min_args = 1,
    .max_args = 1,
    .writes = (const char *const[]){ "choices", NULL },
    .run = cmd_eval_run,
    .check = cmd_eval_check,
    .groups = pare_eval_option_groups,
    .shared = true,
};

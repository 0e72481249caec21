/* cmd_eval.c - pare eval: loss and accuracy of a model on a data set, or its agreement with another
 * model. */
#include <math.h>
#include <string.h>

#include <jansson.h>

#include "../job/model_intake.h"
#include "../cli.h"
#include "../job/session.h"
#include "../../base/arena.h"
#include "../../train/train_options.h"

struct eval {
    const char *data, *split, *against;
    bool per_class, json, tune;
    const char *choices;
};

static const struct pare_opt eval_opts[] = {
    { "data", "evaluate on this set: digits, fashion-mnist, a file or a folder", PARE_OPT_STR,
      offsetof(struct eval, data), 0, PARE_ANY, NULL, NULL, true, "SET" },
    PARE_CHOICE("split", offsetof(struct eval, split), "part of the set to use", "test",
                "train|val|test"),
    PARE_TEXT("against", offsetof(struct eval, against), "MODEL",
              "compare the outputs with those of this model; needs no labels", NULL),
    PARE_FLAG("per-class", offsetof(struct eval, per_class),
              "print the accuracy of each class as well", 0),
    PARE_TUNE_OPTS(struct eval, 0),
    PARE_FLAG("json", offsetof(struct eval, json), "print the result as JSON", 0),
    PARE_OPT_END
};

static double fraction(int64_t some, int64_t all)
{
    return all ? (double)some / (double)all : 0;
}

static const char *class_name(struct pare_arena *a, const struct pare_data *d, int64_t i)
{
    const char *s = d->class_name ? d->class_name[i] : pare_sprintf(a, "%lld", (long long)i);

    return s ? s : "";
}

static json_t *class_json(struct pare_arena *a, const struct pare_data *d,
                          const struct pare_eval *e)
{
    json_t *all = json_array();

    for (int64_t i = 0; i < e->classes; i++)
        json_array_append_new(all,
                              json_pack("{s:o, s:I, s:I}", "class",
                                        pare_json_text(class_name(a, d, i)), "items",
                                        (json_int_t)e->count[i], "right", (json_int_t)e->right[i]));
    return all;
}

static int print_json(struct pare_cli *c, const struct pare_data *d, const struct pare_eval *e,
                      struct pare_err *err)
{
    const struct eval *o = c->opts;
    json_t *j = json_pack("{s:o, s:o, s:I, s:o, s:o, s:o}", "file", pare_json_text(c->arg[0]),
                          "data", pare_json_text(d->name), "items", (json_int_t)e->n, "loss",
                          pare_json_real(e->loss), "seconds", pare_json_real(e->seconds),
                          "items_per_second",
                          pare_json_real(e->seconds > 0 ? (double)e->n / e->seconds : 0));

    if (j && e->classes) {
        json_object_set_new(j, "top1", pare_json_real(fraction(e->top1, e->n)));
        json_object_set_new(j, "top5", pare_json_real(fraction(e->top5, e->n)));
        if (o->per_class)
            json_object_set_new(j, "classes", class_json(c->arena, d, e));
    }
    return pare_json_result(c, j, err);
}

static void print_classes(struct pare_cli *c, const struct pare_data *d, const struct pare_eval *e)
{
    struct pare_table *t = pare_table_new(c->arena, "lrrr");

    pare_table_row(t, "class", "items", "right", "accuracy");
    for (int64_t i = 0; i < e->classes; i++)
        pare_table_row(t, class_name(c->arena, d, i),
                       pare_sprintf(c->arena, "%lld", (long long)e->count[i]),
                       pare_sprintf(c->arena, "%lld", (long long)e->right[i]),
                       pare_sprintf(c->arena, "%.2f%%", 100 * fraction(e->right[i], e->count[i])));
    printf("\n");
    pare_table_print(t, stdout);
}

static void print_text(struct pare_cli *c, const struct pare_data *d, const struct pare_eval *e)
{
    const struct eval *o = c->opts;
    char whole[PARE_NUM_TEXT], time[PARE_NUM_TEXT], speed[PARE_NUM_TEXT];

    printf("items  %s\n", pare_whole_text(e->n, whole, sizeof(whole)));
    printf("loss   %.4f\n", e->loss);
    if (e->classes)
        printf("top-1  %.2f%%\ntop-5  %.2f%%\n", 100 * fraction(e->top1, e->n),
               100 * fraction(e->top5, e->n));
    printf("time   %s, %s items/s\n", pare_time_text(e->seconds, time, sizeof(time)),
           pare_count_text(e->seconds > 0 ? (double)e->n / e->seconds : -1, speed, sizeof(speed)));
    if (o->per_class && e->classes)
        print_classes(c, d, e);
}

static int evaluate(struct pare_cli *c, const struct pare_train_options *s,
                    const struct pare_model *m, const struct pare_data *d, struct pare_err *err)
{
    const struct eval *o = c->opts;
    struct pare_eval_opts opts = {
        .dist = c->dist,
        .threads = s->trainer.threads ? s->trainer.threads : pare_dist_threads(c->dist),
        .loss = s->trainer.loss,
        .loss_conf = s->trainer.loss_conf,
        .tune = o->tune,
        .choices = o->choices,
        .cache = pare_cache_folder(c->arena),
    };
    struct pare_eval e;

    PARE_TRY(pare_model_fits(m, d, err));
    pare_data_note(c, d);
    pare_logits_note(c, m, opts.loss);
    PARE_TRY(pare_evaluate_model(m, d, &opts, c->arena, &e, err));
    if (o->json)
        return print_json(c, d, &e, err);
    print_text(c, d, &e);
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
            json_pack("{s:o, s:o, s:o, s:I, s:o, s:o, s:o, s:o}", "file", pare_json_text(c->arg[0]),
                      "against", pare_json_text(o->against), "data", pare_json_text(d->name),
                      "items", (json_int_t)g->n, "snr_db", pare_json_real(g->snr), "cosine",
                      pare_json_real(g->cosine), "max_difference",
                      pare_json_real(g->max_difference), "same_top1",
                      g->same_top1 >= 0 ? pare_json_real(g->same_top1) : json_null()),
            err);
    printf("items              %s\n", pare_whole_text(g->n, whole, sizeof(whole)));
    if (isinf(g->snr))
        printf("signal to noise    no difference\n");
    else
        printf("signal to noise    %.1f dB\n", g->snr);
    printf("cosine             %.6f\n", g->cosine);
    printf("largest difference %.3g\n", g->max_difference);
    if (g->same_top1 >= 0)
        printf("same top-1         %.2f%%\n", 100 * g->same_top1);
    return 0;
}

/* The outputs of both models on the same items. */
static int compare(struct pare_cli *c, const struct pare_train_options *s,
                   const struct pare_model *m, struct pare_data *d, struct pare_err *err)
{
    const struct eval *o = c->opts;
    struct pare_agreement_opts opts = {
        .threads = s->trainer.threads ? s->trainer.threads : pare_dist_threads(c->dist),
    };
    struct pare_agreement g;
    struct pare_model *reference;
    int rc;

    PARE_TRY(pare_model_fits_items(m, d, err));
    pare_data_note(c, d);
    PARE_TRY(pare_cli_load(c, o->against, &reference, err));
    rc = pare_at(err, pare_model_fits_items(reference, d, err), "%s", o->against);
    if (!rc)
        rc = pare_compare(m, reference, d, &opts, &g, err);
    pare_model_free(reference);
    return rc ? rc : print_agreement(c, d, &g, err);
}

static int work_on(struct pare_cli *c, const struct pare_train_options *s,
                   const struct pare_model *m, struct pare_data *d, bool evaluate_it,
                   struct pare_err *err)
{
    const struct eval *o = c->opts;

    if (!evaluate_it)
        return o->against ? pare_model_fits_items(m, d, err) : pare_model_fits(m, d, err);
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
    if (!rc) {
        r.n_io = pare_model_inputs(m, &r.io);
        rc = pare_data_open_for(&r, &s->data, &d, err);
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
    .doc = "Measure a model's loss and accuracy on a data set.",
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

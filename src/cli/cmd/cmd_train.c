/* cmd_train.c - pare train: train or fine-tune a model. */
#include <string.h>

#include <jansson.h>

#include "../job/compress_job.h"
#include "../job/train_job.h"
#include "../print/progress_line.h"
#include "../output_paths.h"
#include "../../base/arena.h"

struct train {
    const char *data, *valid, *output;
    bool json, quiet, keep_zeros, bn_only;
};

static const struct pare_opt train_opts[] = {
    { "data", "train on this set: digits, fashion-mnist, a file or a folder", PARE_OPT_STR,
      offsetof(struct train, data), 0, PARE_NO_MIN, PARE_NO_MAX, NULL, NULL, true, "SET" },
    PARE_TEXT("valid", offsetof(struct train, valid), "SET",
              "validate on this set; none: do not validate (default: the test part of --data)",
              NULL),
    PARE_TEXT("output", offsetof(struct train, output), "FILE",
              "write the trained model to FILE (default: MODEL-trained.onnx)", NULL),
    PARE_FLAG("keep-zeros", offsetof(struct train, keep_zeros),
              "keep zero weights zero, so that a pruned model stays pruned", 0),
    PARE_FLAG(
        "bn-only", offsetof(struct train, bn_only),
        "train nothing: re-estimate the statistics of batch normalizations from --recalibrate "
        "batches",
        0),
    PARE_FLAG("json", offsetof(struct train, json), "print the training history as JSON at the end",
              0),
    PARE_FLAG("quiet", offsetof(struct train, quiet), "print no progress", 0),
    PARE_OPT_END
};

static int print_json(struct pare_cli *c, const struct pare_train_job *j, struct pare_err *err)
{
    const struct pare_train_result *r = &j->tune->result;
    json_t *all = json_pack("{s:o?, s:I, s:I, s:b, s:o, s:o}", "output",
                            r->stopped ? NULL : pare_json_text(j->output), "epochs",
                            (json_int_t)r->epochs, "steps", (json_int_t)r->steps, "stopped",
                            r->stopped, "best", pare_json_real(r->best), "history",
                            json_incref(j->progress.history));

    if (all && r->best_epoch >= 0)
        json_object_set_new(all, "best_epoch", json_integer(r->best_epoch + 1));
    return pare_json_result(c, all, err);
}

static int save_and_print(struct pare_cli *c, struct pare_train_job *j, struct pare_err *err)
{
    const struct train *o = c->opts;
    const struct pare_train_result *r = &j->tune->result;

    if (!r->stopped && !pare_dist_rank(c->dist))
        PARE_TRY(pare_model_save(j->tune->model, j->output, NULL, err));
    if (o->json)
        PARE_TRY(print_json(c, j, err));
    PARE_TRY(pare_train_job_stopped(j, err));
    if (!o->json && !o->quiet)
        printf("%s: trained for %lld epoch%s, %lld step%s\n", j->output, (long long)r->epochs,
               r->epochs == 1 ? "" : "s", (long long)r->steps, r->steps == 1 ? "" : "s");
    return 0;
}

/* The accuracy that was trained is that of the best epoch, unless the last one is kept. */
static int compare(struct pare_cli *c, struct pare_train_job *j, const struct pare_metrics *before,
                   struct pare_err *err)
{
    const struct pare_train_result *r = &j->tune->result;
    struct pare_metrics after = { .n = 1, .top1 = r->best };

    if (!before->n || pare_metrics_share(before) < 0)
        after = *before;
    else if (r->best_epoch < 0 || !pare_metrics_main(before).percent ||
             !j->tune->options->train.keep_best)
        PARE_TRY(pare_finetune_evaluate(j->tune, j->tune->model, &after, err));
    return pare_train_job_drop(c, j, before, &after, "try a lower --lr", err);
}

static int open_job(struct pare_cli *c, struct pare_finetune *tune, struct pare_train_job *j,
                    struct pare_progress_line *line, struct pare_err *err)
{
    const struct train *o = c->opts;

    *tune = (struct pare_finetune){
        .given = c->given,
        .n_given = c->n_given,
        .data_name = o->data,
        .valid_name = o->valid,
        .keep_zeros = o->keep_zeros,
        .progress = pare_progress_line_show,
        .user = line,
    };
    *j = (struct pare_train_job){
        .tune = tune,
        .output = o->output ? o->output : pare_default_output(c->arena, c->arg[0], "trained"),
        .json = o->json,
        .quiet = o->quiet,
    };
    return j->output ? pare_train_job_open(c, j, err) : pare_no_memory(err, "for a file name");
}

static int cmd_train_check(struct pare_cli *c, struct pare_err *err)
{
    struct pare_progress_line line = { 0 };
    struct pare_finetune tune;
    struct pare_train_job j;
    int rc = open_job(c, &tune, &j, &line, err);

    pare_train_job_close(&j);
    return rc;
}

/* ---- --bn-only ----------------------------------------------------------------------------- */

static int print_statistics(struct pare_cli *c, const struct pare_train_job *j,
                            const struct pare_metrics *before, const struct pare_metrics *after,
                            int64_t batches, struct pare_err *err)
{
    const struct train *o = c->opts;

    if (o->json)
        return pare_json_result(c,
                                json_pack("{s:o, s:I, s:o, s:o}", "output",
                                          pare_json_text(j->output), "batches", (json_int_t)batches,
                                          "before", pare_metrics_json(before), "after",
                                          pare_metrics_json(after)),
                                err);
    if (o->quiet)
        return 0;
    pare_metrics_print("before:", before);
    pare_metrics_print("recalibrated:", after);
    printf("%s: statistics of %lld batch%s\n", j->output, (long long)batches,
           batches == 1 ? "" : "es");
    return 0;
}

static int recalibrate(struct pare_cli *c, struct pare_train_job *j,
                       struct pare_progress_line *line, struct pare_err *err)
{
    struct pare_finetune *f = j->tune;
    struct pare_metrics before, after;
    int64_t batches;

    PARE_TRY(pare_finetune_evaluate(f, f->model, &before, err));
    PARE_TRY(pare_finetune_recalibrate(f, pare_progress_line_show, line, &batches, err));
    if (!batches)
        return pare_fail(err, PARE_ECONFIG,
                         "%s: no statistics to re-estimate: the model has no BatchNormalization, "
                         "or --recalibrate is 0",
                         f->path);
    PARE_TRY(pare_finetune_evaluate(f, f->model, &after, err));
    pare_progress_line_end(line);
    PARE_TRY(pare_train_job_drop(c, j, &before, &after, "use more --recalibrate batches", err));
    if (pare_dist_rank(c->dist))
        return 0;
    PARE_TRY(pare_model_save(f->model, j->output, NULL, err));
    return print_statistics(c, j, &before, &after, batches, err);
}

static int train(struct pare_cli *c, struct pare_train_job *j, struct pare_progress_line *line,
                 struct pare_err *err)
{
    struct pare_metrics before;
    int rc = pare_finetune_evaluate(j->tune, j->tune->model, &before, err);

    pare_progress_line_end(line);
    if (!rc)
        rc = pare_train_job_train(c, j, err);
    pare_train_progress_end(&j->progress);
    if (!rc && !j->tune->result.stopped)
        rc = compare(c, j, &before, err);
    pare_progress_line_end(line);
    return rc ? rc : save_and_print(c, j, err);
}

static int cmd_train_run(struct pare_cli *c, struct pare_err *err)
{
    const struct train *o = c->opts;
    struct pare_progress_line line = { 0 };
    struct pare_finetune tune;
    struct pare_train_job j;
    int rc;

    pare_progress_line_start(&line, o->quiet || pare_dist_rank(c->dist));
    rc = open_job(c, &tune, &j, &line, err);
    if (!rc)
        rc = o->bn_only ? recalibrate(c, &j, &line, err) : train(c, &j, &line, err);
    pare_progress_line_end(&line);
    if (!rc)
        rc = pare_train_job_over(&j, err);
    pare_train_job_close(&j);
    return rc;
}

const struct pare_command pare_command_train = {
    .name = "train",
    .doc = "Train or fine-tune a model.",
    .usage = "[options] MODEL --data SET [-o FILE]",
    .more = "SET is digits, fashion-mnist, or a path: IDX files (MNIST), CIFAR-10's binary\n"
            "files, .npy or .npz files, a folder of images by class, or an ONNX test data\n"
            "set.  The model is validated after each epoch, on the items set aside by\n"
            "--holdout or else on the set's test part.  Ctrl-C writes a checkpoint; --resume\n"
            "continues from it with the same result as an uninterrupted run.\n"
            "The optimizer, schedule, loss and data have options of their own; where two\n"
            "share a name, prefix it: --optimizer-alpha, --teacher-alpha.",
    .example = "pare train model.onnx --data digits --epochs 20\n"
               "pare train model.onnx --data images/ --resize 256 --crop 224 --norm imagenet",
    .first = (const char *const[]){ "data", "epochs", "lr", "optimizer", "teacher", "output",
                                    NULL },
    .opts = train_opts,
    .size = sizeof(struct train),
    .min_args = 1,
    .max_args = 1,
    .writes = (const char *const[]){ "output", "checkpoint", NULL },
    .run = cmd_train_run,
    .check = cmd_train_check,
    .groups = pare_train_option_groups,
    .shared = true,
};

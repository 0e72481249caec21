/* finetune.c - data, evaluation and fine-tuning around a compression; for prune, quantize,
 * train. */
#include "finetune.h"

#include <string.h>

#include "../base/arena.h"
#include "../compress/hold_zeros.h"
#include "../plan/batch/free_batch.h"
#include "../train/accuracy_drop.h"
#include "../train/recalibrate.h"

int pare_finetune_new(struct pare_model *model, const struct pare_tuning *t,
                      struct pare_finetune *f, struct pare_err *err)
{
    struct pare_given *given = NULL;
    int rc;

    *f = (struct pare_finetune){ .arena = pare_arena_new(1 << 16),
                                 .model = model,
                                 .path = model->path,
                                 .set = { t->data, t->valid },
                                 .tutor = t->teacher };
    if (!f->arena)
        return pare_no_memory(err, "for the options");
    rc = pare_given_split(t->settings, f->arena, &given, &f->n_given, err);
    f->given = given;
    if (!rc && t->valid && !t->data)
        rc = pare_fail(err, PARE_ECONFIG, "evaluation needs a data set to train or calibrate with");
    if (rc)
        pare_arena_free(f->arena);
    return rc;
}

bool pare_finetune_has_data(const struct pare_finetune *f)
{
    return f->data_name || f->set[0];
}

const char *pare_finetune_given(const struct pare_finetune *f, const char *name)
{
    const char *text = NULL;

    for (int i = 0; i < f->n_given; i++)
        if (!strcmp(f->given[i].name, name))
            text = f->given[i].text;
    return text;
}

int pare_finetune_options(struct pare_finetune *f, struct pare_err *err)
{
    struct pare_train_options *s;

    PARE_TRY(pare_train_options_make(f->given, f->n_given, f->tutor != NULL, f->arena, &f->options,
                                     err));
    s = f->options;
    if (s->c.ema > 0 && f->quantized)
        return pare_fail(err, PARE_ECONFIG,
                         "ema averages float weights, which quantized training does not keep: "
                         "quantize without --ema");
    if (s->c.resume && !s->c.checkpoint)
        return pare_fail(err, PARE_ECONFIG, "--resume needs --checkpoint: the file to resume from");
    s->trainer.dist = f->dist;
    if (!s->c.threads)
        s->c.threads = s->trainer.threads = pare_dist_threads(f->dist);
    return 0;
}

static int open_data(struct pare_finetune *f, struct pare_err *err)
{
    f->options->no_labels = f->observe || f->teacher;
    f->options->data.progress = f->progress;
    f->options->data.user = f->user;
    if (f->data_name)
        return pare_train_options_data(f->options, f->model, f->data_name, f->valid_name, f->data,
                                       err);
    for (int i = 0; i < 2; i++) {
        if (!f->set[i])
            continue;
        if (f->options->no_labels)
            PARE_TRY(pare_at(err,
                             pare_model_fits_items(f->model, f->set[i], &f->options->goal, err),
                             "%s", f->path));
        PARE_TRY(pare_at(err, pare_train_options_goal(f->options, f->model, f->set[i], err), "%s",
                         f->path));
        pare_data_retain(f->set[i]);
        f->data[i] = f->set[i];
    }
    return 0;
}

/* "self" is the model as it is in its file. */
static int open_teacher(struct pare_finetune *f, struct pare_err *err)
{
    const char *name = f->options->c.teacher;

    if (name)
        return pare_model_load(strcmp(name, "self") ? name : f->path, &f->teacher, err);
    f->teacher = f->tutor;
    if (f->teacher)
        pare_model_retain(f->teacher);
    return 0;
}

/* Training and calibration take batches: a batch of 1 that the model declares is freed. */
static int free_batch(struct pare_finetune *f, struct pare_err *err)
{
    if (f->options->data.batch == 1)
        return 0;
    PARE_TRY(pare_at(err,
                     f->observe ? pare_model_try_batch_of_all(f->model, err)
                                : pare_model_try_batch(f->model, err),
                     "%s", f->path));
    return f->teacher ? pare_at(err, pare_model_try_batch(f->teacher, err), "teacher") : 0;
}

/* Without labels, a compressed model learns from the model before. */
static int teach_itself(struct pare_finetune *f, struct pare_err *err)
{
    if (f->teacher || f->observe || !f->self_teaching || !f->data[0] || f->data[0]->y.data)
        return 0;
    PARE_TRY(pare_model_load(f->path, &f->teacher, err));
    if (f->options->data.batch != 1)
        PARE_TRY(pare_at(err, pare_model_try_batch(f->teacher, err), "teacher"));
    f->options->trainer.teacher = f->teacher;
    f->options->trainer.soft = (struct pare_distill_soft){ 0 };
    return pare_opts_apply(pare_distill_soft_opts, NULL, 0, &f->options->trainer.soft, f->arena,
                           err);
}

int pare_finetune_open(struct pare_finetune *f, struct pare_err *err)
{
    PARE_TRY(open_teacher(f, err));
    PARE_TRY(free_batch(f, err));
    f->options->trainer.teacher = f->teacher;
    pare_train_options_rate(f->options, f->model, f->quantized);
    PARE_TRY(open_data(f, err));
    PARE_TRY(teach_itself(f, err));
    if (f->teacher)
        PARE_TRY(pare_at(err, pare_model_fits(f->teacher, f->data[0], &f->options->goal, err),
                         "teacher %s", f->teacher->path));
    if (f->observe)
        return 0;
    PARE_TRY(pare_at(err, pare_trainer_new(f->model, &f->options->trainer, &f->trainer, err), "%s",
                     f->path));
    return f->keep_zeros ? pare_hold_zeros(f->trainer, err) : 0;
}

void pare_finetune_close(struct pare_finetune *f)
{
    pare_trainer_free(f->trainer);
    pare_data_free(f->data[0]);
    pare_data_free(f->data[1]);
    pare_model_free(f->teacher);
    f->trainer = NULL;
    f->data[0] = f->data[1] = NULL;
    f->teacher = NULL;
}

int pare_finetune_evaluate(const struct pare_finetune *f, const struct pare_model *model,
                           struct pare_metrics *m, struct pare_err *err)
{
    const struct pare_train_options *s = f->options;
    struct pare_eval_opts o = { .dist = f->dist };
    struct pare_arena *a;
    struct pare_eval e;
    int rc;

    *m = (struct pare_metrics){ .top1 = -1, .top5 = -1 };
    if (!f->data[1] || !f->data[1]->y.data)
        return 0;
    o.threads = (int)s->c.threads;
    o.progress = f->progress;
    o.user = f->user;
    o.loss = s->trainer.loss;
    o.loss_conf = s->trainer.loss_conf;
    o.task = s->goal.task;
    o.metric = s->goal.metric;
    a = pare_arena_new(1 << 16);
    if (!a)
        return pare_no_memory(err, "to evaluate the model");
    rc = pare_evaluate_model(model, f->data[1], &o, a, &e, err);
    if (!rc)
        *m = pare_eval_metrics(&e);
    pare_arena_free(a);
    return rc;
}

int pare_finetune_check_drop(const struct pare_finetune *f, const struct pare_metrics *before,
                             const struct pare_metrics *after, struct pare_err *err)
{
    double max = f->options ? f->options->c.max_drop : -1;

    if (max >= 0 && (!before->n || pare_metrics_share(before) < 0))
        return pare_fail(err, PARE_ECONFIG,
                         "max-drop needs validation data with a metric in percent, such as "
                         "accuracy: specify valid");
    return pare_accuracy_drop_check(max, before, after, err);
}

int64_t pare_finetune_epoch_steps(const struct pare_finetune *f)
{
    const struct pare_data *d = f->data[0];
    int64_t batch = f->options->train.batch ? f->options->train.batch : d->opts.batch;
    int64_t each = d->opts.drop_last ? d->n / batch : (d->n + batch - 1) / batch;

    return each > 0 ? each : 1;
}

int pare_finetune_schedule(struct pare_finetune *f, struct pare_compression *c, bool *any,
                           struct pare_err *err)
{
    struct pare_train_conf *k = &f->options->train;
    int64_t each = pare_finetune_epoch_steps(f), epochs, steps;

    PARE_TRY(pare_compression_length(c, &epochs, &steps, err));
    k->epochs = epochs + (pare_finetune_given(f, "epochs") ? k->epochs : 0);
    if (steps > epochs * each) { /* the algorithm's steps, then whole epochs' worth of them */
        k->max_steps = steps + (k->epochs - epochs) * each;
        k->epochs = (k->max_steps + each - 1) / each;
    }
    *any = k->epochs > 0;
    f->algorithm = pare_compression_algorithm(c);
    f->own_epochs = epochs;
    f->own_steps = k->max_steps ? steps : 0;
    if (!*any)
        return 0;
    /* An epoch before the masks are final does not count as the best. */
    k->best_from = k->max_steps ? steps / each : epochs;
    k->best_from = k->best_from < k->epochs ? k->best_from : k->epochs - 1;
    /* The fine-tuning that follows has a learning-rate schedule of its own. */
    k->phase_steps = k->max_steps ? steps : epochs * each;
    return 0;
}

int pare_finetune_recalibrate(struct pare_finetune *f, pare_progress_fn *progress, void *user,
                              int64_t *done, struct pare_err *err)
{
    const struct pare_recalibrate_opts o = { .batches = f->options->c.recalibrate,
                                             .batch = f->options->train.batch,
                                             .seed = (uint64_t)f->options->c.seed,
                                             .progress = progress,
                                             .user = user };

    *done = 0;
    return f->trainer ? pare_recalibrate(f->trainer, f->data[0], &o, done, err) : 0;
}

int pare_finetune_train(struct pare_finetune *f, struct pare_err *err)
{
    return pare_train(f->trainer, f->data[0], f->data[1], &f->options->train, &f->result, err);
}

struct watch {
    pare_progress_fn *progress;
    void *user;
    int stop;
};

static void on_batch(void *user, const struct pare_train_status *s)
{
    struct watch *w = user;
    struct pare_progress now = { "train", s->epoch * s->batches + s->batch, s->epochs * s->batches,
                                 s->seconds };

    if (w->progress && !w->progress(w->user, &now))
        w->stop = 1;
}

int pare_finetune_train_with(struct pare_finetune *f, pare_progress_fn *progress, void *user,
                             struct pare_err *err)
{
    struct watch w = { progress, user, 0 };
    struct pare_train_conf *t = &f->options->train;

    t->user = &w;
    t->on_batch = on_batch;
    t->stop = &w.stop;
    PARE_TRY(pare_finetune_train(f, err));
    return w.stop ? pare_fail(err, PARE_ECANCEL, "training was canceled") : 0;
}

/* training.c - the training object of <pare/train.h>. */
#include "training.h"

#include <string.h>

#include "../base/arena.h"
#include "../base/sized.h"
#include "../plan/batch/free_batch.h"
#include "accuracy_drop.h"
#include "recalibrate.h"

/* The option "valid" names a data set; it belongs to no option table. */
static void take_valid(struct pare_given *g, int *n, const char **valid)
{
    int left = 0;

    *valid = NULL;
    for (int i = 0; i < *n; i++)
        if (!strcmp(g[i].name, "valid"))
            *valid = g[i].text;
        else
            g[left++] = g[i];
    *n = left;
}

static int find_teacher(struct pare_training *l, struct pare_model *teacher, struct pare_err *err)
{
    if (teacher && l->setup->c.teacher)
        return pare_fail(err, PARE_ECONFIG, "the teacher is given twice, as a model and as a file");
    if (l->setup->c.teacher)
        return pare_model_load(strcmp(l->setup->c.teacher, "self") ? l->setup->c.teacher
                                                                   : l->model->path,
                               &l->teacher, err);
    l->teacher = teacher;
    if (teacher)
        pare_model_retain(teacher);
    return 0;
}

/* Data sets are opened by name, or given in the options. */
static int make(struct pare_training *l, const char *data, const struct pare_training_opts *o,
                struct pare_err *err)
{
    struct pare_given *g = NULL;
    const char *valid;
    int n = 0;

    PARE_TRY(pare_given_join(o->given, o->n_given, o->settings, l->arena, &g, &n, err));
    take_valid(g, &n, &valid);
    PARE_TRY(pare_train_options_make(g, n, o->teacher != NULL, l->arena, &l->setup, err));
    PARE_TRY(find_teacher(l, o->teacher, err));
    l->setup->trainer.teacher = l->teacher;
    pare_train_options_rate(l->setup, l->model, false);
    if (l->setup->data.batch != 1) {
        PARE_TRY(pare_model_try_batch(l->model, err));
        if (l->teacher)
            PARE_TRY(pare_model_try_batch(l->teacher, err));
    }
    if (data) {
        PARE_TRY(pare_train_options_data(l->setup, l->model, data, valid, l->data, err));
    } else {
        PARE_TRY(pare_training_use(l, o->data, o->valid, err));
    }
    l->epoch_steps = o->epoch_steps;
    if (l->teacher && l->data[0])
        PARE_TRY(
            pare_at(err, pare_model_fits(l->teacher, l->data[0], &l->setup->goal, err), "teacher"));
    return pare_trainer_new(l->model, &l->setup->trainer, &l->trainer, err);
}

int pare_training_use(struct pare_training *l, struct pare_data *train, struct pare_data *valid,
                      struct pare_err *err)
{
    struct pare_data *const from[2] = { train, valid };

    for (int i = 0; i < 2; i++) {
        if (!from[i])
            continue;
        PARE_TRY(pare_at(err, pare_train_options_goal(l->setup, l->model, from[i], err), "%s",
                         l->model->path));
        pare_data_retain(from[i]);
        l->data[i] = from[i];
    }
    return 0;
}

static int create(struct pare_model *model, const char *data, const struct pare_training_opts *o,
                  struct pare_training **training, struct pare_err *err)
{
    struct pare_arena *a = pare_arena_new(1 << 14);
    struct pare_training *l = a ? pare_alloc(a, 1, sizeof(*l)) : NULL;
    int rc;

    *training = NULL;
    if (!l) {
        pare_arena_free(a);
        return pare_no_memory(err, "for training");
    }
    l->arena = a;
    l->model = model;
    l->progress = o->progress;
    l->progress_user = o->user;
    pare_model_retain(model);
    rc = make(l, data, o, err);
    if (rc)
        pare_training_free(l);
    else
        *training = l;
    return rc;
}

int pare_training_new(struct pare_model *model, const struct pare_training_opts *opts,
                      struct pare_training **training, struct pare_err *err)
{
    PARE_ERR(err);
    struct pare_training_opts o;

    *training = NULL;
    PARE_TRY(pare_sized_copy(&o, sizeof(o), opts, err));
    return create(model, NULL, &o, training, err);
}

int pare_training_open(struct pare_model *model, const char *data, const char *settings,
                       struct pare_training **training, struct pare_err *err)
{
    PARE_ERR(err);
    *training = NULL;
    if (!data)
        return pare_fail(err, PARE_ECONFIG, "training needs a data set");
    return create(model, data, &(struct pare_training_opts){ .settings = settings }, training, err);
}

void pare_training_free(struct pare_training *l)
{
    if (!l)
        return;
    pare_loader_free(l->loader);
    pare_trainer_free(l->trainer);
    pare_data_free(l->data[0]);
    pare_data_free(l->data[1]);
    pare_model_free(l->teacher);
    pare_model_free(l->model);
    pare_arena_free(l->arena);
}

/* A training without a data set gets its batches in a loop of the caller. */
static int need_data(const struct pare_training *l, struct pare_err *err)
{
    return l->data[0] ? 0
                      : pare_fail(err, PARE_ECONFIG,
                                  "the training has no data set: set pare_training_opts.data, or "
                                  "give batches to pare_training_forward()");
}

/* ---- the whole training ------------------------------------------------------------------ */

static void on_epoch(void *user, const struct pare_epoch *e)
{
    struct pare_training *l = user;
    struct pare_epoch_result r = {
        .epoch = e->train.epoch,
        .loss = e->train.loss,
        .accuracy = e->train.top1,
        .validated = e->validated,
        .valid_loss = e->loss,
        .valid_accuracy = e->top1,
        .valid_metric = e->metric,
    };

    if (l->say && !l->say(l->user, &r))
        l->stop = 1;
}

static void on_batch(void *user, const struct pare_train_status *p)
{
    struct pare_training *l = user;
    struct pare_progress now = { "train", p->epoch * p->batches + p->batch, p->epochs * p->batches,
                                 p->seconds };

    if (l->progress && !l->progress(l->progress_user, &now))
        l->stop = l->canceled = 1;
}

/* On the validation set, for max_drop. */
static int measure(struct pare_training *l, struct pare_metrics *m, struct pare_err *err)
{
    struct pare_epoch_result r;

    if (!l->data[1] || !l->data[1]->y.data)
        return pare_fail(err, PARE_ECONFIG, "max-drop needs validation data with labels");
    PARE_TRY(pare_training_validate(l, &r, err));
    *m = (struct pare_metrics){ .n = 1, .top1 = r.valid_accuracy };
    if (m->top1 < 0 && r.valid_metric.percent)
        m->top1 = r.valid_metric.value;
    return 0;
}

/* An epoch before the masks of a compression are final is not the best one, and what follows has a
 * learning-rate schedule of its own. */
static int follow_hooks(const struct pare_training *l, struct pare_train_conf *c,
                        struct pare_err *err)
{
    const struct pare_hooks *h = &l->trainer->o.hooks;
    int64_t batch = c->batch ? c->batch : l->data[0]->opts.batch, epochs = 0, steps = 0, each;

    if (!h->length)
        return 0;
    PARE_TRY(h->length(h->user, &epochs, &steps, err));
    each = (l->data[0]->n + batch - 1) / batch;
    steps = steps > epochs * each ? steps : epochs * each;
    c->best_from = each > 0 ? steps / each : 0;
    c->best_from = c->best_from < c->epochs ? c->best_from : c->epochs - 1;
    c->best_from = c->best_from > 0 ? c->best_from : 0;
    if (steps < each * c->epochs)
        c->phase_steps = steps;
    return 0;
}

int pare_training_run(struct pare_training *l,
                      bool (*say)(void *user, const struct pare_epoch_result *r), void *user,
                      struct pare_err *err)
{
    PARE_ERR(err);
    struct pare_train_conf c = l->setup->train;
    struct pare_metrics before = { 0 }, after = { 0 };
    struct pare_train_result result;

    PARE_TRY(need_data(l, err));
    l->say = say;
    l->user = user;
    l->stop = l->canceled = 0;
    c.user = l;
    c.on_epoch = on_epoch;
    c.on_batch = on_batch;
    c.stop = &l->stop;
    PARE_TRY(follow_hooks(l, &c, err));
    if (l->setup->c.max_drop >= 0)
        PARE_TRY(measure(l, &before, err));
    PARE_TRY(pare_train(l->trainer, l->data[0], l->data[1], &c, &result, err));
    if (l->canceled)
        return pare_fail(err, PARE_ECANCEL, "training was canceled");
    if (l->setup->c.max_drop >= 0)
        PARE_TRY(measure(l, &after, err));
    return pare_accuracy_drop_check(l->setup->c.max_drop, &before, &after, err);
}

int pare_training_recalibrate(struct pare_training *l, int64_t batches, int64_t *done,
                              struct pare_err *err)
{
    PARE_ERR(err);
    const struct pare_recalibrate_opts o = { .batches = batches,
                                             .batch = l->setup->train.batch,
                                             .seed = (uint64_t)l->setup->c.seed };
    int64_t ignored;

    if (!l->data[0])
        return pare_fail(err, PARE_ECONFIG, "the training has no data set");
    return pare_recalibrate(l->trainer, l->data[0], &o, done ? done : &ignored, err);
}

int pare_training_validate(struct pare_training *l, struct pare_epoch_result *r,
                           struct pare_err *err)
{
    PARE_ERR(err);
    struct pare_eval_opts o = {
        .threads = l->setup->trainer.threads,
        .loss = l->setup->trainer.loss,
        .loss_conf = l->setup->trainer.loss_conf,
        .task = l->setup->goal.task,
        .metric = l->setup->goal.metric,
    };
    struct pare_mark m = pare_mark(l->arena);
    struct pare_metrics all;
    struct pare_eval e;
    int rc;

    *r = (struct pare_epoch_result){ .validated = true };
    if (!l->data[1])
        return pare_fail(err, PARE_ECONFIG, "'%s' has no validation part; set holdout=0.1",
                         l->data[0] ? l->data[0]->name : "the training");
    rc = pare_evaluate_model(l->model, l->data[1], &o, l->arena, &e, err);
    if (!rc) {
        r->valid_loss = e.loss;
        all = pare_eval_metrics(&e);
        r->valid_accuracy = all.top1;
        r->valid_metric = pare_metrics_main(&all);
    }
    pare_reset(l->arena, m);
    return rc;
}

/* ---- the caller's own loop ---------------------------------------------------------------- */

static int open_loader(struct pare_training *l, struct pare_err *err)
{
    struct pare_loader_opts o = { .train = true,
                                  .seed = l->setup->train.seed,
                                  .float_y = l->setup->trainer.loss->labels != PARE_LABELS_CLASS };
    const struct pare_io *io;

    if (l->loader)
        return 0;
    PARE_TRY(need_data(l, err));
    o.n_inputs = pare_model_inputs(l->model, &io);
    if (o.n_inputs > 0)
        o.input = io;
    return pare_loader_new(l->data[0], &o, &l->loader, err);
}

int pare_training_next(struct pare_training *l, struct pare_tensor *x, struct pare_tensor *y,
                       struct pare_err *err)
{
    PARE_ERR(err);
    const struct pare_batch *b;

    x->data = y->data = NULL;
    PARE_TRY(open_loader(l, err));
    PARE_TRY(pare_loader_next(l->loader, &b, err));
    if (b) {
        *x = b->x;
        *y = b->y;
    }
    return 0;
}

int pare_training_forward(struct pare_training *l, const struct pare_tensor *in, int n_in,
                          struct pare_tensor *out, struct pare_err *err)
{
    PARE_ERR(err);
    if (n_in != l->model->n_in)
        return pare_fail(err, PARE_ECONFIG, "%d inputs are given, the model has %d", n_in,
                         l->model->n_in);
    return pare_trainer_forward(l->trainer, in, out, err);
}

int pare_training_loss(struct pare_training *l, const struct pare_tensor *y, double *loss,
                       struct pare_err *err)
{
    PARE_ERR(err);
    struct pare_score score;

    PARE_TRY(pare_trainer_loss(l->trainer, y, &score, err));
    *loss = score.loss;
    return 0;
}

int pare_training_backward(struct pare_training *l, struct pare_err *err)
{
    PARE_ERR(err);
    return pare_trainer_backward(l->trainer, err);
}

int pare_training_optimize(struct pare_training *l, struct pare_err *err)
{
    PARE_ERR(err);
    const struct pare_train_conf *c = &l->setup->train;
    struct pare_lr lr = { .type = l->setup->c.schedule ? c->schedule : &pare_schedule_constant,
                          .conf = c->schedule_conf,
                          .base = c->lr,
                          .warmup = c->warmup,
                          .warmup_factor = c->warmup_factor };

    if (l->data[0])
        PARE_TRY(open_loader(l, err));
    lr.epoch_steps = l->data[0] ? pare_loader_batches(l->loader) : l->epoch_steps;
    lr.epoch_steps = lr.epoch_steps > 0 ? lr.epoch_steps : 1;
    lr.total_steps = lr.epoch_steps * c->epochs;
    /* Quantizers train their scales with it, too. */
    l->trainer->lr = l->data[0] || l->epoch_steps > 0 ? pare_lr(&lr, l->trainer->optim->step)
                                                      : c->lr;
    return pare_optim_step(l->trainer->optim, l->trainer->lr, err);
}

int pare_training_step(struct pare_training *l, struct pare_err *err)
{
    PARE_ERR(err);
    return pare_trainer_step(l->trainer, err);
}

int pare_training_update_epoch(struct pare_training *l, int64_t epoch, struct pare_err *err)
{
    PARE_ERR(err);
    const struct pare_hooks *h = &l->trainer->o.hooks;

    return h->at_epoch ? h->at_epoch(h->user, l->trainer, epoch, err) : 0;
}

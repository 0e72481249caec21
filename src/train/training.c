/* training.c - training as <pare/pare.h> offers it: one object, settings as text. */
#include "training.h"

#include <string.h>

#include "../base/arena.h"

/* Remove the setting "valid", which is not an option of any group. */
static void take_valid(struct pare_given *g, int *n, const char **valid)
{
    int kept = 0;

    *valid = NULL;
    for (int i = 0; i < *n; i++)
        if (!strcmp(g[i].name, "valid"))
            *valid = g[i].text;
        else
            g[kept++] = g[i];
    *n = kept;
}

static int init_training(struct pare_training *l, const char *data, const char *settings,
                         struct pare_err *err)
{
    struct pare_given *g;
    const char *valid;
    int n;

    PARE_TRY(pare_given_split(settings, l->arena, &g, &n, err));
    take_valid(g, &n, &valid);
    PARE_TRY(pare_train_options_make(g, n, l->arena, &l->setup, err));
    if (l->setup->c.teacher)
        PARE_TRY(pare_model_load(l->setup->c.teacher, &l->teacher, err));
    l->setup->trainer.teacher = l->teacher;
    PARE_TRY(pare_train_options_data(l->setup, l->model, data, valid, l->data, err));
    if (l->teacher)
        PARE_TRY(pare_model_fits(l->teacher, l->data[0], err));
    return pare_trainer_new(l->model, &l->setup->trainer, &l->trainer, err);
}

int pare_training_new(struct pare_model *model, const char *data, const char *settings,
                      struct pare_training **learn, struct pare_err *err)
{
    struct pare_arena *a = pare_arena_new(1 << 14);
    struct pare_training *l = a ? pare_alloc(a, 1, sizeof(*l)) : NULL;
    int rc;

    *learn = NULL;
    if (!l) {
        pare_arena_free(a);
        return pare_no_memory(err, "for training");
    }
    l->arena = a;
    l->model = model;
    rc = init_training(l, data, settings, err);
    if (rc)
        pare_training_free(l);
    else
        *learn = l;
    return rc;
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
    pare_arena_free(l->arena);
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
    };

    if (l->say && !l->say(l->user, &r))
        l->stop = 1;
}

int pare_training_run(struct pare_training *l,
                      bool (*say)(void *user, const struct pare_epoch_result *r), void *user,
                      struct pare_err *err)
{
    struct pare_train_conf c = l->setup->train;
    struct pare_train_result result;

    l->say = say;
    l->user = user;
    l->stop = 0;
    c.user = l;
    c.on_epoch = on_epoch;
    c.stop = &l->stop;
    return pare_train(l->trainer, l->data[0], l->data[1], &c, &result, err);
}

int pare_training_validate(struct pare_training *l, struct pare_epoch_result *r,
                           struct pare_err *err)
{
    struct pare_eval_opts o = {
        .threads = l->setup->trainer.threads,
        .loss = l->setup->trainer.loss,
        .loss_conf = l->setup->trainer.loss_conf,
    };
    struct pare_mark m = pare_mark(l->arena);
    struct pare_eval e;
    int rc;

    *r = (struct pare_epoch_result){ .validated = true };
    if (!l->data[1])
        return pare_fail(err, PARE_ECONFIG, "'%s' has no validation part; set holdout=0.1",
                         l->data[0]->name);
    rc = pare_evaluate(l->model, l->data[1], &o, l->arena, &e, err);
    if (!rc) {
        r->valid_loss = e.loss;
        r->valid_accuracy = e.n ? (double)e.top1 / (double)e.n : 0;
    }
    pare_reset(l->arena, m);
    return rc;
}

/* ---- the caller's own loop ---------------------------------------------------------------- */

static int open_loader(struct pare_training *l, struct pare_err *err)
{
    struct pare_loader_opts o = { .train = true, .seed = l->setup->train.seed };
    const struct pare_io *io;

    if (l->loader)
        return 0;
    if (pare_model_inputs(l->model, &io) > 0)
        o.input = &io[0];
    return pare_loader_new(l->data[0], &o, &l->loader, err);
}

int pare_training_next(struct pare_training *l, struct pare_tensor *x, struct pare_tensor *y,
                       struct pare_err *err)
{
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

int pare_training_forward(struct pare_training *l, const struct pare_tensor *x,
                          struct pare_tensor *out, struct pare_err *err)
{
    return pare_trainer_forward(l->trainer, x, out, err);
}

int pare_training_loss(struct pare_training *l, const struct pare_tensor *y, double *loss,
                       struct pare_err *err)
{
    struct pare_score score;

    PARE_TRY(pare_trainer_loss(l->trainer, y, &score, err));
    *loss = score.loss;
    return 0;
}

int pare_training_backward(struct pare_training *l, struct pare_err *err)
{
    return pare_trainer_backward(l->trainer, err);
}

int pare_training_optimize(struct pare_training *l, struct pare_err *err)
{
    const struct pare_train_conf *c = &l->setup->train;
    struct pare_lr lr = { .type = c->schedule,
                          .conf = c->schedule_conf,
                          .base = c->lr,
                          .warmup = c->warmup,
                          .warmup_factor = c->warmup_factor };

    PARE_TRY(open_loader(l, err));
    lr.epoch_steps = pare_loader_batches(l->loader);
    lr.epoch_steps = lr.epoch_steps > 0 ? lr.epoch_steps : 1;
    lr.total_steps = lr.epoch_steps * c->epochs;
    l->trainer->lr =
        pare_lr(&lr, l->trainer->optim->step); /* quantizers train their scales with it, too */
    return pare_optim_step(l->trainer->optim, l->trainer->lr, err);
}

int pare_training_step(struct pare_training *l, struct pare_err *err)
{
    return pare_trainer_step(l->trainer, err);
}

int pare_training_update_epoch(struct pare_training *l, int64_t epoch, struct pare_err *err)
{
    const struct pare_hooks *h = &l->trainer->o.hooks;

    return h->at_epoch ? h->at_epoch(h->user, l->trainer, epoch, err) : 0;
}

/* train_hooks.c - install a compression's hooks in a trainer; remember and rewind weights. */
#include <string.h>

#include "../base/arena.h"
#include "../tensor/tensor.h"
#include "../train/train_options.h"
#include "../train/training.h"
#include "method.h"

static int at_epoch(void *user, struct pare_trainer *t, int64_t epoch, struct pare_err *err)
{
    struct pare_compression *c = user;

    (void)t;
    return c->method->at_epoch(c, epoch, err);
}

static int after_forward(void *user, struct pare_trainer *t, struct pare_err *err)
{
    struct pare_compression *c = user;
    const struct pare_plan *p = t->plan[t->at];

    /* A plan made before the first collector was added observes no values. */
    if (!c->collectors || p->n_observed < 2 * c->n_layers)
        return 0;
    pare_compression_share_begin(c);
    PARE_TRY(pare_compression_collect(c, p, err));
    return pare_compression_share_end(c, err);
}

static int loss(void *user, struct pare_trainer *t, double *value, struct pare_err *err)
{
    (void)t;
    return pare_compression_loss(user, value, err);
}

static int after_backward(void *user, struct pare_trainer *t, struct pare_err *err)
{
    struct pare_compression *c = user;
    int rc;

    (void)t;
    c->in_step = true;
    rc = c->method->after_backward(c, err);
    c->in_step = false;
    return rc;
}

static int after_step(void *user, struct pare_trainer *t, int64_t step, struct pare_err *err)
{
    struct pare_compression *c = user;

    (void)t;
    return c->method->after_step(c, step, err);
}

/* While no mask changes and no hook reads weights, the trainer may keep them in any layout. */
static bool reads_weights(void *user)
{
    const struct pare_compression *c = user;
    bool yes = c->collectors || c->method->reads_weights(c);

    for (int i = 0; i < PARE_MAX_ALGORITHMS && c->algorithm[i]; i++)
        yes |= c->algorithm[i]->on_step || c->algorithm[i]->before_step || c->algorithm[i]->loss;
    return yes;
}

static int keep(void *user, bool back, struct pare_err *err)
{
    struct pare_compression *c = user;

    return c->method->keep ? c->method->keep(c, back, err) : 0;
}

static int length(void *user, int64_t *epochs, int64_t *steps, struct pare_err *err)
{
    return pare_compression_length(user, epochs, steps, err);
}

static void take_data(struct pare_compression *c, struct pare_data *data)
{
    pare_data_free(c->data);
    c->data = data;
    if (data)
        pare_data_retain(data);
}

/* The trainer frees the weights that it trained; the effective ones stay in the model. */
static void detach(void *user)
{
    struct pare_compression *c = user;

    for (int i = 0; i < c->n_layers; i++) {
        struct pare_layer *l = &c->layer[i];

        if (l->grad.data)
            l->w = l->weight->t;
        if (l->bias_grad.data)
            l->b = l->bias->t;
        l->grad.data = l->bias_grad.data = NULL;
    }
    c->trainer = NULL;
    take_data(c, NULL);
}

/* From now on the trainer trains `w` in its own memory, unless the weight is frozen. */
static int attach_weight(struct pare_trainer *t, const struct pare_value *v,
                         const struct pare_tensor *m, struct pare_tensor *w,
                         struct pare_tensor *grad, struct pare_err *err)
{
    int i = pare_trainer_param(t, v->name);

    if (i < 0)
        return 0;
    PARE_TRY(pare_trainer_mask(t, v->name, m->data, w, err));
    *grad = t->grad[i];
    return 0;
}

int pare_compression_attach(struct pare_compression *c, struct pare_trainer *t,
                            struct pare_data *data, int64_t batch, struct pare_err *err)
{
    struct pare_strs names;

    if (c->started || c->trainer)
        return pare_fail(err, PARE_ECONFIG,
                         "the compression has been started, or has a training already");
    if (t->model != c->model)
        return pare_fail(err, PARE_ECONFIG, "the training has another model than the compression");
    if (t->o.hooks.user)
        return pare_fail(err, PARE_ECONFIG, "the training has another compression already");
    for (int i = 0; i < c->n_layers; i++) {
        struct pare_layer *l = &c->layer[i];

        if (l->weight)
            PARE_TRY(pare_mask_new(c, &l->w, &l->mask, err));
        if (l->bias)
            PARE_TRY(pare_mask_new(c, &l->b, &l->bias_mask, err));
        if (l->weight)
            PARE_TRY(attach_weight(t, l->weight, &l->mask, &l->w, &l->grad, err));
        if (l->bias)
            PARE_TRY(attach_weight(t, l->bias, &l->bias_mask, &l->b, &l->bias_grad, err));
    }
    c->trainer = t;
    c->dist = t->o.dist;
    take_data(c, data);
    c->batch = batch;
    t->o.hooks = (struct pare_hooks){ .user = c,
                                      .at_epoch = at_epoch,
                                      .after_forward = after_forward,
                                      .loss = loss,
                                      .after_backward = after_backward,
                                      .after_step = after_step,
                                      .save = pare_compression_save,
                                      .load = pare_compression_load,
                                      .keep = keep,
                                      .looks = reads_weights,
                                      .gone = detach,
                                      .length = length };
    PARE_TRY(pare_compression_collected_values(c, &names, err));
    return names.n ? pare_trainer_watch(t, names, err) : 0;
}

int pare_compression_use_data(struct pare_compression *c, struct pare_data *data, int64_t batch,
                              struct pare_err *err)
{
    PARE_ERR(err);
    if (c->started || c->trainer)
        return pare_fail(err, PARE_ECONFIG, "data is given to a compression before it is started");
    take_data(c, data);
    c->batch = batch;
    return 0;
}

void pare_compression_on_progress(struct pare_compression *c, pare_progress_fn *progress,
                                  void *user)
{
    c->progress = progress;
    c->progress_user = user;
}

void pare_compression_share_with(struct pare_compression *c, struct pare_dist *dist)
{
    c->dist = dist;
}

int pare_compression_follow(struct pare_compression *c, struct pare_training *l,
                            struct pare_err *err)
{
    PARE_ERR(err);
    pare_train_options_rate(l->setup, l->model, c->quant != NULL);
    return pare_compression_attach(c, l->trainer, l->data[0], l->setup->train.batch, err);
}

/* ---- remember and rewind -------------------------------------------------------------------- */

static const struct pare_tensor *trained(const struct pare_trainer *t, int i)
{
    return i < t->n_params ? &t->param[i].value : &t->state[i - t->n_params].t;
}

int pare_compression_remember(struct pare_compression *c, struct pare_err *err)
{
    PARE_ERR(err);
    struct pare_trainer *t = c->trainer;
    int n = t ? t->n_params + t->n_state : 0;

    if (!t)
        return pare_fail(err, PARE_ECONFIG, "nothing is trained, so there is nothing to remember");
    if (!c->remembered) {
        c->remembered = pare_alloc(c->arena, (size_t)n, sizeof(*c->remembered));
        for (int i = 0; i < n && c->remembered; i++)
            PARE_TRY(pare_tensor_new(c->arena, &c->remembered[i], PARE_F32, trained(t, i)->rank,
                                     trained(t, i)->dim, err));
    }
    if (!c->remembered)
        return pare_no_memory(err, "to remember the weights");
    for (int i = 0; i < n; i++)
        memcpy(c->remembered[i].data, trained(t, i)->data,
               (size_t)pare_numel(&c->remembered[i]) * sizeof(float));
    return 0;
}

int pare_compression_rewind(struct pare_compression *c, struct pare_err *err)
{
    PARE_ERR(err);
    struct pare_trainer *t = c->trainer;

    if (!t || !c->remembered)
        return pare_fail(err, PARE_ECONFIG, "no weights were remembered");
    for (int i = 0; i < t->n_params + t->n_state; i++)
        memcpy(trained(t, i)->data, c->remembered[i].data,
               (size_t)pare_numel(&c->remembered[i]) * sizeof(float));
    pare_optim_reset(t->optim);
    t->schedule_start = t->optim->step;
    return pare_compression_write_weights(c, err);
}

/* train_hooks.c - a run hangs itself into training. */
#include <string.h>

#include "../base/arena.h"
#include "../tensor/tensor.h"
#include "../train/training.h"
#include "../quant/quant_config.h"

static int at_epoch(void *run, struct pare_trainer *t, int64_t epoch, struct pare_err *err)
{
    struct pare_compression *r = run;

    (void)t;
    PARE_TRY(pare_compression_on_epoch(r, epoch, err));
    for (int i = 0; i < r->n_layers && !r->quantizer; i++)
        if (r->layer[i].due)
            return pare_compression_update_masks(r, err);
    return 0;
}

static int after_forward(void *run, struct pare_trainer *t, struct pare_err *err)
{
    struct pare_compression *r = run;
    const struct pare_plan *p = t->plan[t->at];

    /* A plan of before the first collector came has nothing to show. */
    if (!r->collectors || p->n_kept < 2 * r->n_layers)
        return 0;
    pare_compression_share_begin(r);
    PARE_TRY(pare_compression_collect(r, p, err));
    return pare_compression_share_end(r, err);
}

static int loss(void *run, struct pare_trainer *t, double *value, struct pare_err *err)
{
    (void)t;
    return pare_compression_loss(run, value, err);
}

static int after_backward(void *run, struct pare_trainer *t, struct pare_err *err)
{
    struct pare_compression *r = run;
    int rc;

    (void)t;
    r->in_step = true;
    rc = r->quantizer ? pare_compression_merge_learned(r, err) : 0;
    if (!rc && r->quantizer)
        rc = pare_quant_weight_grads(r, err);
    if (!rc)
        rc = pare_compression_before_step(r, err);
    r->in_step = false;
    return rc;
}

static int after_step(void *run, struct pare_trainer *t, int64_t step, struct pare_err *err)
{
    struct pare_compression *r = run;

    (void)t;
    if (r->quantizer)
        PARE_TRY(pare_quant_learn_step(r, err));
    PARE_TRY(pare_compression_on_step(r, step, err));
    return r->quantizer ? pare_compression_round_weights(r, err)
                        : pare_compression_update_masks(r, err);
}

/* Masks that nobody changes and weights that nobody asks about can be in any layout. */
static bool looks(void *run)
{
    const struct pare_compression *r = run;
    bool yes = r->quantizer || r->collectors;

    for (int i = 0; i < r->n_layers; i++)
        yes |= r->layer[i].due;
    for (int i = 0; i < PARE_COMPRESSION_PRUNERS && r->pruner[i]; i++)
        yes |= r->pruner[i]->on_step || r->pruner[i]->before_step || r->pruner[i]->loss;
    return yes;
}

static int keep(void *run, bool back, struct pare_err *err)
{
    struct pare_compression *r = run;

    return r->quantizer ? pare_quant_keep(r, back, err) : 0;
}

static void take_data(struct pare_compression *r, struct pare_data *data)
{
    pare_data_free(r->data);
    r->data = data;
    if (data)
        pare_data_retain(data);
}

/* The weights that it trained go with it; what is left of them is in the model. */
static void gone(void *run)
{
    struct pare_compression *r = run;

    for (int i = 0; i < r->n_layers; i++) {
        struct pare_layer *l = &r->layer[i];

        if (l->grad.data)
            l->w = l->weight->t;
        if (l->bias_grad.data)
            l->b = l->bias->t;
        l->grad.data = l->bias_grad.data = NULL;
    }
    r->trainer = NULL;
    take_data(r, NULL);
}

/* The learner trains `w` in memory of its own from now on; a frozen weight stays ours. */
static int mask(struct pare_trainer *t, const struct pare_value *v, const struct pare_tensor *m,
                struct pare_tensor *w, struct pare_tensor *grad, struct pare_err *err)
{
    int i = pare_trainer_param(t, v->name);

    if (i < 0)
        return 0;
    PARE_TRY(pare_trainer_mask(t, v->name, m->data, w, err));
    *grad = t->grad[i];
    return 0;
}

int pare_compression_attach(struct pare_compression *r, struct pare_trainer *t,
                            struct pare_data *data, int64_t batch, struct pare_err *err)
{
    struct pare_strs names;

    if (r->started || r->trainer)
        return pare_fail(err, PARE_ECONFIG,
                         "a compression follows one learner, from before it is started");
    if (t->model != r->model)
        return pare_fail(err, PARE_ECONFIG, "the learner trains another model");
    if (t->o.hooks.user)
        return pare_fail(err, PARE_ECONFIG, "the learner has another compression already");
    for (int i = 0; i < r->n_layers; i++) {
        struct pare_layer *l = &r->layer[i];

        if (l->weight)
            PARE_TRY(pare_mask_new(r, &l->w, &l->mask, err));
        if (l->bias)
            PARE_TRY(pare_mask_new(r, &l->b, &l->bias_mask, err));
        if (l->weight)
            PARE_TRY(mask(t, l->weight, &l->mask, &l->w, &l->grad, err));
        if (l->bias)
            PARE_TRY(mask(t, l->bias, &l->bias_mask, &l->b, &l->bias_grad, err));
    }
    r->trainer = t;
    r->dist = t->o.dist;
    take_data(r, data);
    r->batch = batch;
    t->o.hooks = (struct pare_hooks){ .user = r,
                                      .at_epoch = at_epoch,
                                      .after_forward = after_forward,
                                      .loss = loss,
                                      .after_backward = after_backward,
                                      .after_step = after_step,
                                      .save = pare_compression_save,
                                      .load = pare_compression_load,
                                      .keep = keep,
                                      .looks = looks,
                                      .gone = gone };
    PARE_TRY(pare_compression_collected_values(r, &names, err));
    return names.n ? pare_trainer_watch(t, names, err) : 0;
}

int pare_compression_use_data(struct pare_compression *r, struct pare_data *data, int64_t batch,
                              struct pare_err *err)
{
    if (r->started || r->trainer)
        return pare_fail(err, PARE_ECONFIG, "data is given to a compression before it is started");
    take_data(r, data);
    r->batch = batch;
    return 0;
}

void pare_compression_on_progress(struct pare_compression *r, pare_progress_fn *progress,
                                  void *user)
{
    r->progress = progress;
    r->progress_user = user;
}

int pare_compression_follow(struct pare_compression *r, struct pare_training *l,
                            struct pare_err *err)
{
    return pare_compression_attach(r, l->trainer, l->data[0], l->setup->train.batch, err);
}

/* ---- remember and rewind -------------------------------------------------------------------- */

static const struct pare_tensor *learned(const struct pare_trainer *t, int i)
{
    return i < t->n_params ? &t->param[i].value : &t->state[i - t->n_params].t;
}

int pare_compression_remember(struct pare_compression *r, struct pare_err *err)
{
    struct pare_trainer *t = r->trainer;
    int n = t ? t->n_params + t->n_state : 0;

    if (!t)
        return pare_fail(err, PARE_ECONFIG, "nothing is trained, so there is nothing to remember");
    if (!r->kept) {
        r->kept = pare_alloc(r->arena, (size_t)n, sizeof(*r->kept));
        for (int i = 0; i < n && r->kept; i++)
            PARE_TRY(pare_tensor_new(r->arena, &r->kept[i], PARE_F32, learned(t, i)->rank,
                                     learned(t, i)->dim, err));
    }
    if (!r->kept)
        return pare_no_memory(err, "to remember the weights");
    for (int i = 0; i < n; i++)
        memcpy(r->kept[i].data, learned(t, i)->data,
               (size_t)pare_numel(&r->kept[i]) * sizeof(float));
    return 0;
}

int pare_compression_rewind(struct pare_compression *r, struct pare_err *err)
{
    struct pare_trainer *t = r->trainer;

    if (!t || !r->kept)
        return pare_fail(err, PARE_ECONFIG, "no weights were remembered");
    for (int i = 0; i < t->n_params + t->n_state; i++)
        memcpy(learned(t, i)->data, r->kept[i].data,
               (size_t)pare_numel(&r->kept[i]) * sizeof(float));
    pare_optim_reset(t->optim);
    t->schedule_start = t->optim->step;
    return pare_compression_write_weights(r, err);
}

/* ema.c - exponential moving average of parameters and running statistics during training. */
#include "ema.h"

#include <string.h>

#include "../tensor/tensor.h"

static const struct pare_tensor *value_of(const struct pare_ema *e, int i)
{
    const struct pare_trainer *t = e->t;

    return i < t->n_params ? &t->param[i].value : &t->state[i - t->n_params].t;
}

static const char *name_of(const struct pare_ema *e, int i)
{
    const struct pare_trainer *t = e->t;

    return i < t->n_params ? t->param[i].name : t->state[i - t->n_params].name;
}

int pare_ema_new(struct pare_trainer *t, double decay, struct pare_arena *a, struct pare_ema **ema,
                 struct pare_err *err)
{
    struct pare_ema *e = pare_alloc(a, 1, sizeof(*e));
    int n = t->n_params + t->n_state;

    if (!e)
        return pare_no_memory(err, "for averages");
    *e = (struct pare_ema){ .t = t, .decay = decay, .n = n };
    e->average = pare_alloc(a, (size_t)n + 1, sizeof(*e->average));
    if (!e->average)
        return pare_no_memory(err, "for averages");
    for (int i = 0; i < n; i++) {
        const struct pare_tensor *v = value_of(e, i);

        PARE_TRY(pare_tensor_new(a, &e->average[i], PARE_F32, v->rank, v->dim, err));
        memcpy(e->average[i].data, v->data, (size_t)pare_numel(v) * sizeof(float));
    }
    *ema = e;
    return 0;
}

void pare_ema_update(struct pare_ema *e)
{
    double n = e ? (double)e->t->optim->step : 0, early = (1 + n) / (10 + n);
    float d;

    if (!e)
        return;
    d = (float)(early < e->decay ? early : e->decay);
    for (int i = 0; i < e->n; i++) {
        const float *x = pare_f32(value_of(e, i));
        float *y = pare_f32_mut(&e->average[i]);
        int64_t size = pare_numel(&e->average[i]);

        for (int64_t k = 0; k < size; k++)
            y[k] = x[k] + d * (y[k] - x[k]);
    }
}

void pare_ema_swap(struct pare_ema *e)
{
    for (int i = 0; e && i < e->n; i++) {
        float *x = value_of(e, i)->data, *y = e->average[i].data;
        int64_t size = pare_numel(&e->average[i]);

        for (int64_t k = 0; k < size; k++) {
            float v = x[k];

            x[k] = y[k];
            y[k] = v;
        }
    }
    if (e)
        pare_trainer_refresh(e->t);
}

int pare_ema_save(const struct pare_ema *e, struct pare_checkpoint *k, struct pare_err *err)
{
    for (int i = 0; e && i < e->n; i++)
        PARE_TRY(pare_checkpoint_add(k, "ema", name_of(e, i), &e->average[i], err));
    return 0;
}

int pare_ema_load(const struct pare_ema *e, const struct pare_checkpoint *k, struct pare_err *err)
{
    for (int i = 0; e && i < e->n; i++)
        PARE_TRY(pare_checkpoint_load(k, "ema", name_of(e, i), &e->average[i], err));
    return 0;
}

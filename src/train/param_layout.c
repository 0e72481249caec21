/* param_layout.c - keep filters in the kernels' blocked layout between the points where hooks or
 * files read them. */
#include "param_layout.h"

#include <string.h>

#include "../backend/conv/blocked_filters.h"
#include "../base/arena.h"

bool pare_params_may_block(const struct pare_trainer *t)
{
    const struct pare_hooks *h = &t->o.hooks;
    bool hooked = h->after_forward || h->loss || h->after_backward || h->after_step;

    return !t->o.reference && !t->o.dist && (!hooked || (h->looks && !h->looks(h->user)));
}

/* Convert the elements at `data` to or from blocks. */
static void convert(struct pare_trainer *t, int i, void *data, size_t size)
{
    const struct pare_tensor *v = &t->param[i].value;
    struct pare_filters f = {
        .shape = v,
        .block = t->blocked.block,
        .threads = t->blocked.threads,
        .size = size,
        .to_row_major = t->blocked.now,
    };

    if (!data)
        return;
    memcpy(t->blocked.room, data, (size_t)pare_numel(v) * size);
    pare_filters_convert(&f, t->blocked.room, data);
}

static void convert_param(struct pare_trainer *t, int i)
{
    const struct pare_optim_param *p = &t->param[i];

    convert(t, i, p->value.data, sizeof(float));
    convert(t, i, t->grad[i].data, sizeof(float));
    for (int k = 0; k < PARE_OPTIM_SLOTS; k++)
        convert(t, i, t->optim->slot[i][k], sizeof(float));
    if (!p->mask)
        return;
    convert(t, i, p->out, sizeof(float));
    if (!t->blocked.now) {
        memcpy(t->blocked.mask[i], p->mask, (size_t)pare_numel(&p->value));
        convert(t, i, t->blocked.mask[i], 1);
    }
    pare_optim_mask(t->optim, i, &p->value, t->blocked.now ? p->mask : t->blocked.mask[i], p->out);
}

/* Room for the largest parameter, and for blocked masks, since masks are the caller's.  Allocated
 * for as long as parameters are blocked, so that converting back cannot fail. */
static bool make_room(struct pare_trainer *t)
{
    struct pare_blocked_param *l = &t->blocked;
    int64_t most = 0;

    l->arena = pare_arena_new(1 << 12);
    l->mask = l->arena ? pare_alloc(l->arena, (size_t)t->n_params, sizeof(*l->mask)) : NULL;
    for (int i = 0; i < t->n_params && l->mask; i++) {
        int64_t n = l->param[i] ? pare_numel(&t->param[i].value) : 0;

        most = n > most ? n : most;
        if (n && t->param[i].mask) {
            l->mask[i] = pare_alloc_raw(l->arena, (size_t)n, 1);
            if (!l->mask[i])
                return false;
        }
    }
    l->room = l->mask ? pare_alloc_raw(l->arena, (size_t)most, sizeof(float)) : NULL;
    return l->room;
}

int pare_params_to_blocked(struct pare_trainer *t, struct pare_err *err)
{
    struct pare_blocked_param *l = &t->blocked;

    if (l->now)
        return 0;
    if (!make_room(t)) {
        pare_arena_free(l->arena);
        l->arena = NULL;
        return pare_no_memory(err, "for training");
    }
    l->block = t->plan[t->at]->backend.block;
    l->threads = t->plan[t->at]->backend.threads;
    for (int i = 0; i < t->n_params; i++)
        if (l->param[i])
            convert_param(t, i);
    l->now = true;
    return 0;
}

void pare_params_to_row_major(struct pare_trainer *t)
{
    struct pare_blocked_param *l = &t->blocked;

    if (!l->now)
        return;
    for (int i = 0; i < t->n_params; i++)
        if (l->param[i])
            convert_param(t, i);
    l->now = false;
    pare_arena_free(l->arena);
    l->arena = NULL;
}

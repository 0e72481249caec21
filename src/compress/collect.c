/* collect.c - collectors: they see what goes into layers and what comes out, at every forward. */
#include <string.h>

#include "../base/arena.h"
#include "../data/data.h"
#include "run.h"

int pare_run_watched(struct pare_run *r, struct pare_strs *names, struct pare_err *err)
{
    const char **v;

    *names = (struct pare_strs){ NULL, 0 };
    if (!r->collectors)
        return 0;
    v = pare_alloc(r->arena, 2 * (size_t)r->n_layers, sizeof(*v));
    if (!v)
        return pare_fail(err, PARE_ENOMEM, "no memory for collectors");
    for (int i = 0; i < r->n_layers; i++) {
        const struct pare_layer_info *l = &r->layer[i].info;

        if (!l->in || !l->out)
            return pare_fail(err, PARE_EUNSUPPORTED,
                             "layer '%s' has nothing that a collector could see", l->name);
        v[2 * i] = l->in->name;
        v[2 * i + 1] = l->out->name;
    }
    *names = (struct pare_strs){ v, 2 * r->n_layers };
    return 0;
}

static int watch(struct pare_run *r, struct pare_err *err)
{
    struct pare_strs names;

    if (!r->trainer)
        return 0;
    PARE_TRY(pare_run_watched(r, &names, err));
    return pare_trainer_watch(r->trainer, names, err);
}

int pare_add_collector(struct pare_run *r, pare_collect_fn *fn, void *user, int *id,
                       struct pare_err *err)
{
    struct pare_collector *c = pare_alloc(r->arena, 1, sizeof(*c)), **end = &r->collectors;
    bool first = !r->collectors;

    if (!c)
        return pare_fail(err, PARE_ENOMEM, "no memory for a collector");
    *c = (struct pare_collector){ ++r->last_id, fn, user, r->who, NULL };
    while (*end)
        end = &(*end)->next;
    *end = c;
    *id = c->id;
    return first ? watch(r, err) : 0;
}

int pare_remove_collector(struct pare_run *r, int id, struct pare_err *err)
{
    for (struct pare_collector **c = &r->collectors; *c; c = &(*c)->next)
        if ((*c)->id == id) {
            *c = (*c)->next;
            return r->collectors ? 0 : watch(r, err);
        }
    return pare_fail(err, PARE_ECONFIG, "%d is not a valid collector id", id);
}

int pare_run_collect(struct pare_run *r, const struct pare_plan *p, struct pare_err *err)
{
    struct pare_collector *next;

    for (struct pare_collector *c = r->collectors; c; c = next) {
        struct pare_turn t = pare_turn_begin(r, c->who);
        int rc = 0;

        next = c->next; /* it may remove itself */
        for (int i = 0; i < r->n_layers && !rc; i++)
            rc = c->fn(&r->layer[i], pare_plan_value(p, 2 * i), pare_plan_value(p, 2 * i + 1),
                       c->user, err);
        pare_turn_end(r, t);
        if (rc)
            return rc;
    }
    return 0;
}

/* ---- batches only to be seen ---------------------------------------------------------------- */

/* One plan for full batches; a smaller last one is left out. */
static int feed(struct pare_run *r, struct pare_loader *loader, int64_t batches,
                struct pare_plan **plan, struct pare_err *err)
{
    struct pare_tensor out[16];
    struct pare_strs names;
    int64_t size = 0;

    PARE_TRY(pare_run_watched(r, &names, err));
    pare_run_part_begin(r);
    for (int64_t done = 0; done < batches;) {
        const struct pare_batch *b;

        PARE_TRY(pare_loader_next(loader, &b, err));
        if (!b)
            continue; /* the next epoch */
        if (!*plan) {
            struct pare_plan_opts o = { .threads = r->threads, .batch = b->x.dim[0], .in = &b->x };

            PARE_TRY(pare_plan_new_keeping(r->model, &o, names, plan, err));
            size = b->whole;
            if ((*plan)->graph->n_out > 16)
                return pare_fail(err, PARE_ELIMIT, "the model has more than 16 outputs");
        }
        if (b->whole != size)
            continue;
        pare_dist_batch(r->dist, b->own, b->whole);
        PARE_TRY(pare_plan_run(*plan, &b->x, out, err));
        if (names.n)
            PARE_TRY(pare_run_collect(r, *plan, err));
        if (names.n && !r->collectors)
            break; /* nobody is looking any more */
        done++;
    }
    return pare_run_part_end(r, err);
}

int pare_run_forward(struct pare_run *r, int64_t batches, struct pare_err *err)
{
    struct pare_loader_opts o = { .train = true,
                                  .batch = r->batch,
                                  .seed = 1,
                                  .rank = pare_dist_rank(r->dist),
                                  .ranks = pare_dist_size(r->dist) };
    struct pare_loader *loader = NULL;
    struct pare_plan *plan = NULL;
    const struct pare_io *io;
    int rc;

    if (!r->data)
        return pare_fail(err, PARE_ECONFIG, "there is no data to run through the model");
    if (pare_model_inputs(r->model, &io) > 0)
        o.input = &io[0];
    rc = pare_loader_new(r->data, &o, &loader, err);
    if (!rc)
        rc = feed(r, loader, batches, &plan, err);
    pare_plan_free(plan);
    pare_loader_free(loader);
    return rc;
}

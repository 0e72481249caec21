/* collectors.c - collectors: they see what goes into layers and what comes out, at every forward. */
#include <string.h>

#include "../base/arena.h"
#include "../base/clock.h"
#include "../data/data.h"
#include "compression.h"

int pare_compression_collected_values(struct pare_compression *r, struct pare_strs *names,
                                      struct pare_err *err)
{
    const char **v;

    *names = (struct pare_strs){ NULL, 0 };
    if (!r->collectors)
        return 0;
    v = pare_alloc(r->arena, 2 * (size_t)r->n_layers, sizeof(*v));
    if (!v)
        return pare_no_memory(err, "for collectors");
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

static int watch(struct pare_compression *r, struct pare_err *err)
{
    struct pare_strs names;

    if (!r->trainer)
        return 0;
    PARE_TRY(pare_compression_collected_values(r, &names, err));
    return pare_trainer_watch(r->trainer, names, err);
}

int pare_add_collector(struct pare_compression *r, pare_collect_fn *fn, void *user, int *id,
                       struct pare_err *err)
{
    struct pare_collector *c = pare_alloc(r->arena, 1, sizeof(*c)), **end = &r->collectors;
    bool first = !r->collectors;

    if (!c)
        return pare_no_memory(err, "for a collector");
    *c = (struct pare_collector){ ++r->last_id, fn, user, r->who, NULL };
    while (*end)
        end = &(*end)->next;
    *end = c;
    *id = c->id;
    return first ? watch(r, err) : 0;
}

int pare_remove_collector(struct pare_compression *r, int id, struct pare_err *err)
{
    for (struct pare_collector **c = &r->collectors; *c; c = &(*c)->next)
        if ((*c)->id == id) {
            *c = (*c)->next;
            return r->collectors ? 0 : watch(r, err);
        }
    return pare_fail(err, PARE_ECONFIG, "%d is not a valid collector id", id);
}

int pare_compression_collect(struct pare_compression *r, const struct pare_plan *p,
                             struct pare_err *err)
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

#define AT_ONCE 1200000 /* numbers of the input that are shown together */

struct feed {
    struct pare_compression *r;
    struct pare_strs names;
    struct pare_plan *plan;
    int64_t size, part; /* of batches; of what the plan takes at a time */
};

/* Who only looks needs what is fused elsewhere, which costs memory: a large batch comes in parts of
 * one size, where that changes nothing. */
static int64_t part_of(const struct pare_compression *r, const struct pare_tensor *x)
{
    int64_t n = x->dim[0], each = n > 0 ? pare_numel(x) / n : 0, most;

    if (!r->looking || !r->in_parts || r->collectors || pare_dist_size(r->dist) > 1 || each < 1 ||
        r->model->in[0].dim[0] >= 0)
        return n;
    most = AT_ONCE / each > 8 ? AT_ONCE / each : 8;
    for (int64_t p = most < n ? most : n; 2 * p > most; p--)
        if (n % p == 0)
            return p;
    return n;
}

static int make_plan(struct feed *f, const struct pare_batch *b, struct pare_err *err)
{
    struct pare_tensor in[PARE_DATA_INPUTS];
    struct pare_plan_opts o = { .threads = f->r->threads, .in = in };

    memcpy(in, b->in, (size_t)b->n_in * sizeof(*in));
    f->size = b->whole;
    f->part = o.batch = in[0].dim[0] = b->n_in > 1 ? b->x.dim[0] : part_of(f->r, &b->x);
    PARE_TRY(pare_plan_new_observed(f->r->model, &o, f->names, &f->plan, err));
    if (f->plan->graph->n_out > 16)
        return pare_fail(err, PARE_ELIMIT, "the model has more than 16 outputs");
    return 0;
}

static int show(struct feed *f, const struct pare_batch *b, struct pare_err *err)
{
    struct pare_tensor x[PARE_DATA_INPUTS], out[16];
    int64_t parts = f->part > 0 ? b->x.dim[0] / f->part : 1;
    size_t bytes;

    memcpy(x, b->in, (size_t)b->n_in * sizeof(*x));
    if (parts > 1)
        x[0].dim[0] = f->part;
    PARE_TRY(pare_tensor_size(&x[0], NULL, &bytes, err));
    for (int64_t i = 0; i < parts; i++) {
        x[0].data = (char *)b->x.data + (size_t)i * bytes;
        PARE_TRY(pare_plan_execute(f->plan, x, out, err));
    }
    return f->names.n ? pare_compression_collect(f->r, f->plan, err) : 0;
}

/* One plan for full batches; a smaller last one is left out. */
static int feed(struct feed *f, struct pare_loader *loader, int64_t batches, struct pare_err *err)
{
    struct pare_compression *r = f->r;
    double start = pare_now();

    PARE_TRY(pare_compression_collected_values(r, &f->names, err));
    pare_compression_share_begin(r);
    for (int64_t done = 0; done < batches;) {
        const struct pare_batch *b;

        PARE_TRY(pare_loader_next(loader, &b, err));
        if (!b)
            continue; /* the next epoch */
        if (!f->plan)
            PARE_TRY(make_plan(f, b, err));
        if (b->whole != f->size)
            continue;
        if (r->progress &&
            !r->progress(r->progress_user,
                         &(struct pare_progress){ "observe", done, batches, pare_now() - start }))
            return pare_fail(err, PARE_ECANCEL, "calibration was canceled");
        pare_dist_batch(r->dist, b->own, b->whole);
        PARE_TRY(show(f, b, err));
        if (f->names.n && !r->collectors)
            break; /* nobody is looking any more */
        done++;
    }
    return pare_compression_share_end(r, err);
}

int pare_compression_forward(struct pare_compression *r, int64_t batches, struct pare_err *err)
{
    struct pare_loader_opts o = { .train = true,
                                  .batch = r->batch,
                                  .seed = 1,
                                  .rank = pare_dist_rank(r->dist),
                                  .ranks = pare_dist_size(r->dist) };
    struct feed f = { .r = r };
    struct pare_loader *loader = NULL;
    const struct pare_io *io;
    int rc;

    if (!r->data)
        return pare_fail(err, PARE_ECONFIG, "there is no data to run through the model");
    o.n_inputs = pare_model_inputs(r->model, &io);
    if (o.n_inputs > 0)
        o.input = io;
    rc = pare_loader_new(r->data, &o, &loader, err);
    if (!rc)
        rc = feed(&f, loader, batches, err);
    pare_plan_free(f.plan);
    pare_loader_free(loader);
    return rc;
}
